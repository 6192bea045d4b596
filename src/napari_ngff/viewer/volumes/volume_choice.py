"""Chooses the level and the part of a layer whose volume fits the memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.viewer.bridge.regions import layer_point, level_shapes
from napari_ngff.viewer.volumes.prepared_volume import VolumePlace, texture_type
from napari_ngff.viewer.volumes.visible_part import level_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.viewer.volumes.texture_budget import TextureBudget
    from napari_ngff.viewer.volumes.visible_part import Span

__all__ = ["displayed_axes", "finest_place", "volume_bytes"]


def displayed_axes(viewer: ViewerModel, layer: Layer) -> tuple[int, ...]:
    """List the axes of a layer that are displayed, in the order of its picture."""
    missing = viewer.dims.ndim - layer.ndim
    return tuple(axis - missing for axis in viewer.dims.displayed if axis >= missing)


def volume_bytes(layer: Layer, level: int, axes: Sequence[int]) -> int:
    """Count the bytes of a level in 3D, in memory or on the card, the larger ones."""
    shape = level_shapes(layer)[level]
    return math.prod(int(shape[axis]) for axis in axes) * voxel_bytes(layer)


def voxel_bytes(layer: Layer) -> int:
    """Count the bytes of one voxel, in memory or on the card, the larger ones."""
    dtype = np.dtype(layer.dtype)
    # The numbers of colours of labels are not larger than the labels.
    is_image = layer._type_string == "image"
    return int(max(dtype.itemsize, texture_type(dtype).itemsize if is_image else 1))


def finest_place(
    viewer: ViewerModel,
    layer: Layer,
    levels: Sequence[int],
    budget: TextureBudget,
    part: Sequence[Span] | None = None,
) -> VolumePlace:
    """Choose the finest level that fits, as a whole or the part that is on the screen.

    Parameters
    ----------
    levels
        To choose from, the finest first. Of the last one, what does not fit is left
        out.
    budget
        Of this layer.
    part
        What is on the screen, see `visible_part`; None for all of it.
    """
    axes = displayed_axes(viewer, layer)
    for level in levels:
        place = place_of(viewer, layer, level, axes)
        if fits_budget(layer, place, budget):
            return place
        place = part_of(layer, place, part)
        if fits_budget(layer, place, budget):
            return place
    return cut_to_budget(layer, place, budget)


def place_of(
    viewer: ViewerModel, layer: Layer, level: int, axes: tuple[int, ...]
) -> VolumePlace:
    """Find what a level shows at the present position of the sliders."""
    shapes = level_shapes(layer)
    at = layer_point(layer, viewer.dims.point) / np.divide(shapes[0], shapes[level])
    box = []
    for axis, size in enumerate(shapes[level]):
        index = int(np.round(np.clip(at[axis], 0, size - 1)))
        box.append((0, size) if axis in axes else (index, index + 1))
    return VolumePlace(level, tuple(box), axes)


def fits_budget(layer: Layer, place: VolumePlace, budget: TextureBudget) -> bool:
    """Return whether a volume fits into the memory, and its sides into a texture."""
    size = math.prod(place.shape) * voxel_bytes(layer)
    return size <= budget.memory and max(place.shape) <= budget.side


def part_of(
    layer: Layer, place: VolumePlace, part: Sequence[Span] | None
) -> VolumePlace:
    """Cut a whole level to what is on the screen."""
    if part is None:
        return place
    factors = layer.downsample_factors[place.level][list(place.displayed)]
    return cut_place(place, level_part(part, factors, place.shape))


def cut_to_budget(
    layer: Layer, place: VolumePlace, budget: TextureBudget
) -> VolumePlace:
    """Cut a volume that is too large to its middle."""
    shape = [min(size, budget.side) for size in place.shape]
    voxels = max(1, budget.memory // voxel_bytes(layer))
    # The longest side first: to the next one, or less if that is enough.
    while math.prod(shape) > voxels:
        longest = max(shape)
        axis = shape.index(longest)
        others = shape[:axis] + shape[axis + 1 :]
        enough = voxels // math.prod(others)
        shape[axis] = max(1, min(longest - 1, max(*others, enough)))
    spans = []
    for axis, size in zip(place.displayed, shape, strict=True):
        start, stop = place.box[axis]
        start += (stop - start - size) // 2
        spans.append((start, start + size))
    return cut_place(place, spans)


def cut_place(place: VolumePlace, spans: Sequence[tuple[int, int]]) -> VolumePlace:
    """Take other spans along the displayed axes, inside of those of a volume."""
    box: list[Any] = list(place.box)
    for axis, span in zip(place.displayed, spans, strict=True):
        box[axis] = span
    is_part = place.is_part or tuple(box) != place.box
    return VolumePlace(place.level, tuple(box), place.displayed, is_part)
