"""Finds regions of a layer: the visible area, around shapes, in 3D what is on screen.

A region is a `Box` in voxels of level 0, axes of the layer.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.utils.geometry import bounding_box_to_face_vertices

from napari_ngff.store.arrays.boxes import Box, whole_box
from napari_ngff.viewer.private.napari_layers import world_transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer, Shapes

    from napari_ngff.viewer.streaming.prepared_volume import VolumePlace


ROUND = 1e-3
"""Part of a voxel below which a difference is a rounding error."""


def level_shapes(layer: Layer) -> list[tuple[int, ...]]:
    """List the shapes of a layer's levels, axes of the layer, without colours."""
    if not layer.multiscale:
        return [tuple(int(n) for n in layer.data.shape[: layer.ndim])]
    return [tuple(int(n) for n in level.shape[: layer.ndim]) for level in layer.data]


def whole_region(layer: Layer) -> Box:
    """Return the region of a whole layer."""
    return whole_box(level_shapes(layer)[0])


def view_region(viewer: ViewerModel, layer: Layer) -> Box:
    """Return the visible region of a layer, at the present position of the sliders.

    Raises
    ------
    ValueError
        Where the layer is not in view.
    """
    point = np.array(viewer.dims.point, float)
    displayed = list(viewer.dims.displayed)
    # The voxel at the sliders; along displayed axes it is replaced below.
    centre = np.round(layer_point(layer, point))
    low, high = centre, centre + 1
    axes = [axis - viewer.dims.ndim + layer.ndim for axis in displayed]
    axes = [axis for axis in axes if axis >= 0]
    if viewer.dims.ndisplay == 3:
        # In 3D the whole volume is shown, whatever the camera looks at.
        low[axes], high[axes] = 0, np.take(level_shapes(layer)[0], axes)
    else:
        # Pixels of the screen, then world coordinates: `zoom` is their ratio.
        half = np.array(viewer.canvas.viewbox_size(viewer.layers)) / 2
        half /= viewer.scene.camera.zoom
        corners = []
        # All four corners, since the layer may be rotated against the window.
        for sides in itertools.product((-1, 1), repeat=2):
            point[displayed] = viewer.scene.camera.center[-2:] + half * sides
            corners.append(layer_point(layer, point)[axes])
        # Coordinates are centres of voxels: voxel 0 goes from -0.5 to 0.5.
        low[axes] = np.floor(np.min(corners, axis=0) + 0.5)
        high[axes] = np.ceil(np.max(corners, axis=0) + 0.5)
    return _clip_region(layer, low, high, "The window shows nothing of it")


def rectangle_region(viewer: ViewerModel, layer: Layer, shapes: Shapes) -> Box:
    """Return the smallest region around the selected shapes, or around all of them.

    One voxel long along axes on which all shapes have the same coordinate.

    Raises
    ------
    ValueError
        Where there is no shape, or none on the layer.
    """
    chosen = sorted(shapes.selected_data) or range(len(shapes.data))
    corners = [corner for index in chosen for corner in shapes.data[index]]
    if not corners:
        raise ValueError(f"{shapes.name} has no shapes. Draw a rectangle.")
    point = viewer.dims.point
    worlds = [tuple(shapes.data_to_world(corner)) for corner in corners]
    # Axes that the shapes lack are where the sliders are.
    points = [layer_point(layer, (*point[: len(point) - len(w)], *w)) for w in worlds]
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    # A corner between two voxels belongs to both; a plane to the nearest.
    flat = high - low < ROUND
    low = np.where(flat, np.round(low), np.floor(low + 0.5))
    high = np.where(flat, low + 1, np.ceil(high + 0.5))
    return _clip_region(layer, low, high, f"{shapes.name} is outside of it")


def layer_point(layer: Layer, world: Any) -> Any:
    """Convert world coordinates into voxels of a layer's level 0."""
    return np.array(layer.world_to_data(world), float)


def same_region(layer: Layer, region: Box, other: Layer) -> Box:
    """Return the smallest region of another layer that encloses a region of a layer.

    Raises
    ------
    ValueError
        Where the other layer is somewhere else.
    """
    corners = [
        _world_point(layer, corner, other)
        # Outer edges of the region, not centres of its voxels.
        for corner in itertools.product(*((a - 0.5, b - 0.5) for a, b in region))
    ]
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    # Transforms are not exact: what touches a border only does not count.
    low, high = np.floor(low + 0.5 + ROUND), np.ceil(high + 0.5 - ROUND)
    return _clip_region(other, low, high, f"{layer.name} is outside of it")


def _world_point(layer: Layer, voxel: Sequence[float], other: Layer) -> Any:
    world = tuple(layer.data_to_world(voxel))
    missing = max(other.ndim - len(world), 0)
    return np.asarray(other.world_to_data((0.0,) * missing + world))


def _clip_region(layer: Layer, low: Any, high: Any, problem: str) -> Box:
    shape = level_shapes(layer)[0]
    low, high = np.maximum(low, 0), np.minimum(high, shape)
    if (low >= high).any():
        raise ValueError(f"Nothing of {layer.name} is there. {problem}.")
    return tuple((int(a), int(b)) for a, b in zip(low, high, strict=True))


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
