"""Axes that the image has not which a mosaic is modelled on, but others have.

Of plates whose wells were imaged in different ways, the first one may be flat.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from napari_ngff.store.arrays.lazy_array import BlankArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.plate.plate_contents import FieldImage
    from napari_ngff.store.pyramids.pyramid import Pyramid

__all__ = ["add_missing_axes"]

ORDER = ("t", "c", "z", "y", "x")
"""Of axes in an image: "time" first, then "channel", then "space" (0.4, axes)."""

Item = TypeVar("Item")


def add_missing_axes(model: Pyramid, images: Iterable[FieldImage]) -> Pyramid:
    """Add the axes t, c and z that other images have, and this one has not.

    Parameters
    ----------
    model
        Of an image whose levels have axes, scales and translations alone; any other
        is given back as it is.
    images
        Those of which level 0 is open count.
    """
    if any(level.transformation for level in model.multiscale.levels):
        return model
    for image in images:
        array, names = image.opened_level, image.multiscale.axis_names
        if array is None or len(names) != array.ndim:
            continue
        for number, name in enumerate(names):
            there = {own.lower() for own in model.multiscale.axis_names}
            if name in ORDER and name not in there and array.shape[number] > 1:
                model = _with_axis(model, image, number, array.shape[number])
    return model


def _with_axis(model: Pyramid, image: FieldImage, number: int, size: int) -> Pyramid:
    """Add one axis of an image, by its index there, and with its voxels."""
    own, described = image.multiscale, model.multiscale
    names = [name.lower() for name in described.axis_names]
    later = ORDER[ORDER.index(own.axis_names[number]) + 1 :]
    position = next(
        (i for i, name in enumerate(names) if name in later), len(names) - 2
    )
    levels: list[Any] = []
    scales = []
    for i, (source, level) in enumerate(
        zip(model.levels, described.levels, strict=True)
    ):
        other = own.levels[min(i, len(own.levels) - 1)]
        coarser = other.scale[number] / own.levels[0].scale[number]
        voxels = max(1, math.ceil(size / abs(coarser)))
        shape = _insert_value(source.shape, position, voxels)
        chunks = _insert_value(source.chunks, position, 1)
        levels.append(BlankArray(shape, chunks, source.dtype))
        scales.append(
            replace(
                level,
                scale=_insert_value(level.scale, position, other.scale[number]),
                translation=_insert_value(
                    level.translation, position, other.translation[number]
                ),
            )
        )
    axes = _insert_value(described.axes, position, own.axes[number])
    multiscale = replace(described, axes=axes, levels=tuple(scales))
    return replace(model, multiscale=multiscale, levels=tuple(levels))


def _insert_value(values: Sequence[Item], at: int, value: Item) -> tuple[Item, ...]:
    return (*values[:at], value, *values[at:])
