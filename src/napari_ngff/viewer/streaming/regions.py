"""Finds regions of a layer: the visible area, around shapes.

A region is a `Box` in voxels of level 0, axes of the layer.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.boxes import Box, whole_box

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer, Shapes


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
