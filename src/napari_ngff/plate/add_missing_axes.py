"""Adds axes to the model of a mosaic that other images have and the model lacks.

Wells of a plate may be imaged in different ways; the first one may have no z or t.
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
    """Add the axes t, c and z that other images have and the model lacks.

    Parameters
    ----------
    model
        Pyramid of an image. Returned as it is if a level has any other transformation
        than scale and translation.
    images
        Only those whose level 0 is open are looked at, so nothing is read.
    """
    if any(level.transformation for level in model.multiscale.levels):
        return model
    for image in images:
        array, names = image.opened_level, image.multiscale.axis_names
        if array is None or len(names) != array.ndim:
            continue
        for number, name in enumerate(names):
            # Asked anew each time, since the model grows.
            there = {known.lower() for known in model.multiscale.axis_names}
            if name in ORDER and name not in there and array.shape[number] > 1:
                model = _with_axis(model, image, number, array.shape[number])
    return model


def _with_axis(model: Pyramid, image: FieldImage, number: int, size: int) -> Pyramid:
    """Add one axis of an image, with its voxel size, to all levels.

    `number` is its index in that image, `size` its length at level 0.
    """
    theirs, described = image.multiscale, model.multiscale
    names = [name.lower() for name in described.axis_names]
    later = ORDER[ORDER.index(theirs.axis_names[number]) + 1 :]
    # Before the first axis that has to be behind it, and before y and x at the latest.
    position = next(
        (i for i, name in enumerate(names) if name in later), len(names) - 2
    )
    levels: list[Any] = []
    scales = []
    for i, (source, level) in enumerate(
        zip(model.levels, described.levels, strict=True)
    ):
        # That image may have fewer levels.
        other = theirs.levels[min(i, len(theirs.levels) - 1)]
        coarser = other.scale[number] / theirs.levels[0].scale[number]
        voxels = max(1, math.ceil(size / abs(coarser)))
        shape = _insert_value(source.shape, position, voxels)
        chunks = _insert_value(source.chunks, position, 1)
        # Never read: mosaics take shapes from the model, and pixels from the images.
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
    axes = _insert_value(described.axes, position, theirs.axes[number])
    multiscale = replace(described, axes=axes, levels=tuple(scales))
    return replace(model, multiscale=multiscale, levels=tuple(levels))


def _insert_value(values: Sequence[Item], index: int, value: Item) -> tuple[Item, ...]:
    return (*values[:index], value, *values[index:])
