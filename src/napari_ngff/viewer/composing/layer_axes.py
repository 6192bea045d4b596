"""Converts the axes and the position of a layer into those of OME-Zarr."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.metadata.systems import Axis
from napari_ngff.metadata.units import SPACE_UNITS, TIME_UNITS, unit_name
from napari_ngff.viewer.plans.layer_plan import UNITLESS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ngff.metadata.transform import Matrix

TYPES = {"t": "time", "time": "time", "c": "channel", "channel": "channel"}
TYPES |= dict.fromkeys("zyx", "space")

USUAL = {2: "yx", 3: "zyx", 4: "tzyx", 5: "tczyx"}
"""Names for axes that have none, by their number."""

TOLERANCE = 1e-9
"""Entries of a matrix that are smaller, relative to the largest, come from rounding."""


def layer_axes(keywords: Mapping[str, Any], ndim: int) -> tuple[Axis, ...]:
    """Return the axes of a layer with names, types and units of OME-Zarr.

    The type follows from the name (t, c, z, y, x), else from the unit, else from the
    position: the last two are of space. Axes whose labels are napari's numbers get the
    names of `USUAL`; of three the first is t if it has a unit of time.

    Parameters
    ----------
    keywords
        Of the layer; ``axis_labels`` and ``units`` count.
    ndim
        Number of axes, without that of the colours of rgb.

    Raises
    ------
    UnsupportedError
        Where the number of axes, or a unit, does not exist in OME-Zarr.
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
    # napari numbers axes from the end: "-2", "-1".
    if all(name.removeprefix("-").isdecimal() for name in names):
        names = list(USUAL[ndim])
        if ndim == 3 and units[0] in TIME_UNITS:
            names[0] = "t"
    return tuple(
        Axis(name, _axis_type(name, unit, ndim - i), unit)
        for i, (name, unit) in enumerate(zip(names, units, strict=True))
    )


def _list_per_axis(value: Any, ndim: int) -> Sequence[Any]:
    """Return one entry per axis; napari also takes one unit for all axes."""
    if value is None:
        return ("0",) * ndim
    return (value,) * ndim if isinstance(value, str) else tuple(value)


def _ngff_unit(unit: Any) -> str | None:
    text = str(unit)
    # napari's "pixel" is no unit of OME-Zarr, where an axis without a unit has none.
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
    """Return the order of axes in OME-Zarr: time, channel or others, space."""
    ranks = {"time": 0, "space": 2}
    return tuple(
        sorted(range(len(axes)), key=lambda i: ranks.get(axes[i].type or "", 1))
    )


@dataclass(frozen=True, slots=True, eq=False)
class LayerPlace:
    """The position of a layer; numbers per axis, in the unit of the axis.

    Attributes
    ----------
    scale, translation
        Of level 0.
    affine
        Homogeneous, applied after scale and translation; None for none.
    """

    scale: tuple[float, ...]
    translation: tuple[float, ...]
    affine: Matrix | None = None

    def reorder_axes(self, order: Sequence[int | None]) -> LayerPlace:
        """Return the place with reordered axes; None is a new axis of size 1 at 0."""
        affine = None
        if self.affine is not None:
            affine = np.eye(len(order) + 1)
            kept = [i for i, axis in enumerate(order) if axis is not None]
            old = [axis for axis in order if axis is not None]
            # New axes keep the 1 of the identity: the affine does not act on them.
            affine[np.ix_(kept, kept)] = self.affine[np.ix_(old, old)]
            affine[kept, -1] = self.affine[old, -1]
        return LayerPlace(
            tuple(1.0 if i is None else self.scale[i] for i in order),
            tuple(0.0 if i is None else self.translation[i] for i in order),
            affine,
        )

    def same_world(self, other: LayerPlace) -> bool:
        """Return whether two places have the same affine into the world."""
        if self.affine is None or other.affine is None:
            return self.affine is other.affine
        return bool(np.allclose(self.affine, other.affine))

    def is_same(self, other: LayerPlace) -> bool:
        """Return whether two places are equal, but for rounding."""
        # Relative, since voxels may be 1e-9 of a unit large.
        near = np.allclose(self.scale, other.scale, rtol=1e-6, atol=0)
        same_place = np.allclose(
            np.subtract(self.translation, other.translation), 0, atol=1e-6
        )
        return bool(near and same_place and self.same_world(other))


def place_of(keywords: Mapping[str, Any], ndim: int) -> LayerPlace:
    """Compute the place from all keywords of a layer that state a part of it.

    These are ``scale``, ``translate``, ``rotate``, ``shear`` and ``affine``.

    Raises
    ------
    UnsupportedError
        Where a number is not finite, or an axis has no extent.
    """
    affine = np.eye(ndim + 1)
    if keywords.get("affine") is not None:
        affine = np.asarray(
            getattr(keywords["affine"], "affine_matrix", keywords["affine"])
        )
    scaling = _scaling_matrix(keywords, ndim)
    whole = affine @ scaling
    if not np.isfinite(whole).all() or abs(np.linalg.det(whole)) == 0:
        msg = "A layer without extent, or at no finite place, cannot be written."
        raise UnsupportedError(msg)
    # The simplest form first: a scale and a translation are all that 0.4 and 0.5 have.
    for inner, outer in ((whole, None), (scaling, affine)):
        if _is_upright(inner):
            return LayerPlace(
                _to_floats(np.diag(inner)[:-1]), _to_floats(inner[:-1, -1]), outer
            )
    # The length of a column is the size of a voxel; rotation and flips remain in the
    # affine.
    sizes = np.linalg.norm(scaling[:-1, :-1], axis=0)
    rest = whole @ np.diag([*(1 / sizes), 1.0])
    return LayerPlace(_to_floats(sizes), (0.0,) * ndim, rest)


def _scaling_matrix(keywords: Mapping[str, Any], ndim: int) -> Matrix:
    """Combine all that is applied before the affine: scale, rotation, shear, offset.

    Returns
    -------
    array
        (axes + 1, axes + 1), homogeneous, from voxels of level 0.
    """
    # napari's own class, so that rotation and shear are combined as it draws them.
    from napari.utils.transforms import Affine

    keys = ("scale", "translate", "rotate", "shear")
    given = {key: keywords[key] for key in keys if keywords.get(key) is not None}
    return np.asarray(
        Affine(**{"scale": np.ones(ndim)} | given, ndim=ndim).affine_matrix
    )


def _to_floats(numbers: Any) -> tuple[float, ...]:
    return tuple(float(n) for n in numbers)


def _is_upright(matrix: Matrix) -> bool:
    """Return whether a homogeneous matrix is a positive scale and a translation."""
    linear = matrix[:-1, :-1]
    diagonal = np.diag(linear)
    rest = abs(linear - np.diag(diagonal))
    return bool((diagonal > 0).all() and (rest <= TOLERANCE * abs(linear).max()).all())
