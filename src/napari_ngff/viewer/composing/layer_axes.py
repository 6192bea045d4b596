"""What the axes of a layer are in OME-Zarr, and where the layer lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.metadata.axes import SPACE_UNITS, TIME_UNITS
from napari_ngff.metadata.systems import Axis
from napari_ngff.viewer.placing.units import UNITLESS, unit_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ngff.metadata.transform import Matrix

__all__ = ["LayerPlace", "layer_axes", "ome_order", "place_of"]

TYPES = {"t": "time", "time": "time", "c": "channel", "channel": "channel"}
TYPES |= dict.fromkeys("zyx", "space")

USUAL = {2: "yx", 3: "zyx", 4: "tzyx", 5: "tczyx"}
"""Names for axes that have none, by their number."""

TOLERANCE = 1e-9


def layer_axes(keywords: Mapping[str, Any], ndim: int) -> tuple[Axis, ...]:
    """Name the axes of a layer and tell what they are.

    A type follows from the name (t, c, z, y, x), else from the unit, else from the
    place: the last two are of space. Axes that only have the numbers that napari gives
    count as `USUAL`, a first one with a unit of time as t.

    Parameters
    ----------
    keywords
        Of the layer; ``axis_labels`` and ``units`` count.
    ndim
        Number of axes, without that of the colours of rgb.

    Raises
    ------
    UnsupportedError
        Where there are more or fewer than OME-Zarr has, or a unit that it has not.
    """
    if not 2 <= ndim <= 5:
        msg = f"An image of OME-Zarr has 2 to 5 axes, this one has {ndim}."
        raise UnsupportedError(msg)
    units = [_ngff_unit(unit) for unit in _list_per_axis(keywords.get("units"), ndim)]
    labels = keywords.get("axis_labels")
    names = [str(name) for name in (("0",) * ndim if labels is None else labels)]
    if len(names) != ndim:
        msg = f"It has {ndim} axes, and {len(names)} names for them."
        raise UnsupportedError(msg)
    if all(_is_number(name) for name in names):
        names = list(USUAL[ndim])
        if ndim == 3 and units[0] in TIME_UNITS:
            names[0] = "t"
    return tuple(
        Axis(name, _axis_type(name, unit, ndim - i), unit)
        for i, (name, unit) in enumerate(zip(names, units, strict=True))
    )


def _list_per_axis(value: Any, ndim: int) -> Sequence[Any]:
    """Give one entry per axis; napari takes one unit for all, too."""
    if value is None:
        return ("0",) * ndim
    return (value,) * ndim if isinstance(value, str) else tuple(value)


def _is_number(name: str) -> bool:
    return name.removeprefix("-").isdecimal()


def _ngff_unit(unit: Any) -> str | None:
    text = str(unit)
    if text in ("0", UNITLESS, "pixels", "dimensionless", "", "None"):
        return None
    name = unit_name(text)
    if name is None:
        msg = f"OME-Zarr has no unit {text}."
        raise UnsupportedError(msg, remedy="Choose another for the layer.")
    return name


def _axis_type(name: str, unit: str | None, from_end: int) -> str | None:
    by_name = TYPES.get(name.lower())
    if by_name is not None:
        return by_name
    if unit is not None:
        return "space" if unit in SPACE_UNITS else "time"
    return "space" if from_end <= 2 else None


def ome_order(axes: Sequence[Axis]) -> tuple[int, ...]:
    """Order of axes as OME-Zarr wants it: time, channel or others, space."""
    ranks = {"time": 0, "space": 2}
    return tuple(
        sorted(range(len(axes)), key=lambda i: ranks.get(axes[i].type or "", 1))
    )


@dataclass(frozen=True, slots=True, eq=False)
class LayerPlace:
    """Where a layer lies; per axis, in its unit.

    Attributes
    ----------
    scale, translation
        Of level 0.
    affine
        Homogeneous, from there to the world; None where that is all.
    """

    scale: tuple[float, ...]
    translation: tuple[float, ...]
    affine: Matrix | None = None

    def reorder_axes(self, order: Sequence[int | None]) -> LayerPlace:
        """Put the axes into another order; None is a new axis of size 1 at 0."""
        affine = None
        if self.affine is not None:
            affine = np.eye(len(order) + 1)
            kept = [i for i, axis in enumerate(order) if axis is not None]
            old = [axis for axis in order if axis is not None]
            affine[np.ix_(kept, kept)] = self.affine[np.ix_(old, old)]
            affine[kept, -1] = self.affine[old, -1]
        return LayerPlace(
            tuple(1.0 if i is None else self.scale[i] for i in order),
            tuple(0.0 if i is None else self.translation[i] for i in order),
            affine,
        )

    def same_world(self, other: LayerPlace) -> bool:
        """Whether both get from their own coordinates to the world alike."""
        if self.affine is None or other.affine is None:
            return self.affine is other.affine
        return bool(np.allclose(self.affine, other.affine))

    def is_same(self, other: LayerPlace) -> bool:
        """Whether both lie at the same place."""
        near = np.allclose(self.scale, other.scale, rtol=1e-6, atol=0)
        same_place = np.allclose(
            np.subtract(self.translation, other.translation), 0, atol=1e-6
        )
        return bool(near and same_place and self.same_world(other))


def place_of(keywords: Mapping[str, Any], ndim: int) -> LayerPlace:
    """Read it from ``scale``, ``translate``, ``rotate``, ``shear`` and ``affine``.

    Raises
    ------
    UnsupportedError
        Where a number is not finite, or an axis has no extent.
    """
    scale = np.ones(ndim) if _is_empty(keywords, "scale") else keywords["scale"]
    offset = (
        np.zeros(ndim) if _is_empty(keywords, "translate") else keywords["translate"]
    )
    scale, offset = np.asarray(scale, float), np.asarray(offset, float)
    affine = np.eye(ndim + 1)
    if not _is_empty(keywords, "affine"):
        affine = np.asarray(
            getattr(keywords["affine"], "affine_matrix", keywords["affine"])
        )
    scaling = np.diag([*scale, 1.0])
    scaling[:-1, -1] = offset
    if not (_is_empty(keywords, "rotate") and _is_empty(keywords, "shear")):
        from napari.utils.transforms import Affine

        scaling[:-1, :-1] = Affine(
            scale=scale,
            rotate=keywords.get("rotate"),
            shear=keywords.get("shear"),
            ndim=ndim,
        ).linear_matrix
    whole = affine @ scaling
    if not np.isfinite(whole).all() or abs(np.linalg.det(whole)) == 0:
        msg = "A layer without extent, or at no finite place, cannot be written."
        raise UnsupportedError(msg)
    for inner, outer in ((whole, None), (scaling, affine)):
        if _is_upright(inner):
            return LayerPlace(
                _to_floats(np.diag(inner)[:-1]), _to_floats(inner[:-1, -1]), outer
            )
    sizes = np.linalg.norm(scaling[:-1, :-1], axis=0)
    rest = whole @ np.diag([*(1 / sizes), 1.0])
    return LayerPlace(_to_floats(sizes), (0.0,) * ndim, rest)


def _is_empty(keywords: Mapping[str, Any], key: str) -> bool:
    return keywords.get(key) is None


def _to_floats(numbers: Any) -> tuple[float, ...]:
    return tuple(float(n) for n in numbers)


def _is_upright(matrix: Matrix) -> bool:
    """Whether a homogeneous matrix is a positive scale and a translation."""
    linear = matrix[:-1, :-1]
    diagonal = np.diag(linear)
    rest = abs(linear - np.diag(diagonal))
    return bool((diagonal > 0).all() and (rest <= TOLERANCE * abs(linear).max()).all())
