"""Finds the part of a volume that is on the screen, and what a ray hits of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from napari.utils.geometry import bounding_box_to_face_vertices

from napari_ngff.viewer.private.napari_layers import world_transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.viewer.streaming.prepared_volume import VolumePlace

MARGIN = 0.1
"""How much wider than the screen a part is read, on each side, as a part of its size:
small moves of the camera stay inside."""

Span = tuple[float, float]
"""Low and high edge along one axis, in voxels of level 0: the first one from 0 to 1."""


def visible_part(
    viewer: ViewerModel, layer: Layer, axes: tuple[int, ...]
) -> tuple[Span, ...] | None:
    """Find the rectangle of a layer around all that is on the screen.

    Returns
    -------
    tuple or None
        A span for each of `axes`; None where it is not known, or the layer is out of
        sight.
    """
    camera, shape = viewer.scene.camera, layer.level_shapes[0]
    # None where layers have different units: then the world has none (napari 0.9).
    if viewer.dims.units is None:
        return None
    units = tuple(layer.units), tuple(viewer.dims.units)[-layer.ndim :]
    is_plain = layer.depiction == "volume" and not layer.experimental_clipping_planes
    if camera.perspective or viewer.canvas.grid.enabled or not is_plain:
        return None
    if tuple(map(str, units[0])) != tuple(map(str, units[1])):
        return None
    place = world_transform(layer).set_slice(list(axes))
    up, view = np.array(camera.up_direction), np.array(camera.view_direction)
    across = np.cross(up, view)
    # From edges of voxels to the world, relative to the middle of the screen.
    matrix = np.asarray(place.linear_matrix)
    offset = matrix @ np.full(3, -0.5) + place.translate - np.array(camera.center)
    height, width = viewer.canvas.size
    limits: list[tuple[Any, float]] = []
    for direction, size in ((up, height), (across, width)):
        normal, middle = direction @ matrix, float(direction @ offset)
        half = size / camera.zoom / 2
        limits += [(normal, half - middle), (-normal, half + middle)]
    bounds = np.array([(0.0, float(shape[axis])) for axis in axes])
    faces = bounding_box_to_face_vertices(bounds).values()
    corners = [clip_face(face, limits) for face in faces]
    seen = np.concatenate([corner.reshape(-1, 3) for corner in corners])
    if not len(seen):
        return None
    low, high = seen.min(axis=0), seen.max(axis=0)
    return tuple((float(a), float(b)) for a, b in zip(low, high, strict=True))


def clip_face(face: Any, limits: Sequence[tuple[Any, float]]) -> Any:
    """Cut a polygon to where ``normal @ point <= limit`` for all limits."""
    for normal, limit in limits:
        beyond = face @ normal - limit
        kept = []
        for index in range(len(face)):
            here, there = beyond[index - 1], beyond[index]
            if (here > 0) != (there > 0):
                part = here / (here - there)
                kept.append(face[index - 1] + part * (face[index] - face[index - 1]))
            if there <= 0:
                kept.append(face[index])
        face = np.array(kept).reshape(-1, 3)
    return face


def level_part(
    part: Sequence[Span], factors: Sequence[float], sizes: Sequence[int]
) -> list[tuple[int, int]]:
    """Find the voxels of a level that a part takes, with a margin.

    Parameters
    ----------
    part
        In voxels of level 0.
    factors
        Voxels of level 0 in one of the level, for each axis.
    sizes
        Of the level, for each axis.
    """
    spans = []
    for (low, high), factor, size in zip(part, factors, sizes, strict=True):
        margin = (high - low) * MARGIN
        start = int(np.floor((low - margin) / factor))
        stop = int(np.ceil((high + margin) / factor))
        start = min(max(start, 0), size - 1)
        spans.append((start, min(max(stop, start + 1), size)))
    return spans


def covers_part(layer: Layer, place: VolumePlace, part: Sequence[Span] | None) -> bool:
    """Return whether a volume shows all of a part of its layer."""
    if not place.is_part:
        return True
    if part is None:
        return False
    factors = layer.downsample_factors[place.level]
    return all(
        place.box[axis][0] * factors[axis] <= low + 0.5
        and high - 0.5 <= place.box[axis][1] * factors[axis]
        for axis, (low, high) in zip(place.displayed, part, strict=True)
    )


def ray_in_part(
    layer: Layer, place: VolumePlace, start: Any, stop: Any
) -> tuple[Any, Any] | None:
    """Convert a ray for napari, which takes a picture for the whole volume.

    Parameters
    ----------
    start, stop
        Ends of the ray in voxels of level 0, edges of the first one at 0.

    Returns
    -------
    tuple or None
        Both ends; None where the ray misses what is shown.
    """
    axes = list(place.displayed)
    factors = np.asarray(layer.downsample_factors[place.level])[axes]
    first = np.array([place.box[axis][0] for axis in axes])
    shape = np.array(place.shape, float)
    ends = [(np.asarray(end, float)[axes] / factors) - first for end in (start, stop)]
    way = ends[1] - ends[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossed = np.array([-ends[0] / way, (shape - ends[0]) / way])
    still = way == 0
    crossed[:, still] = [[0.0], [1.0]]
    is_beside = still & ((ends[0] < 0) | (ends[0] >= shape))
    enter = max(0.0, float(crossed.min(axis=0).max()))
    leave = min(1.0, float(crossed.max(axis=0).min()))
    if is_beside.any() or enter >= leave:
        return None
    whole = np.array(layer.level_shapes[0])[axes] / shape
    converted = []
    for at, end in ((enter, start), (leave, stop)):
        point = np.array(end, float)
        point[axes] = (ends[0] + at * way) * whole
        converted.append(point)
    return converted[0], converted[1]
