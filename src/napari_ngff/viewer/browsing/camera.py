"""Where the camera of a viewer looks, relative to what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

__all__ = [
    "camera_of",
    "canvas_of",
    "fit",
    "follow",
    "is_fitted",
    "is_whole",
    "place_of",
]


def camera_of(viewer: ViewerModel) -> Any:
    """Return the camera; napari 0.9 moved it, and deprecates where it was."""
    scene = getattr(viewer, "scene", None)
    return viewer.camera if scene is None else scene.camera


def place_of(layer: Layer) -> tuple[float, ...]:
    """Return the world coordinate of the first voxel of a layer."""
    return tuple(float(at) for at in layer.data_to_world((0,) * layer.ndim))


def follow(
    viewer: ViewerModel, before: Sequence[float], after: Sequence[float]
) -> None:
    """Keep what is seen where it is on the screen, though it moved in the world.

    Parameters
    ----------
    before, after
        World coordinates of the same voxel.
    """
    if len(before) != len(after):
        return
    shift = np.subtract(after, before)
    ndim = viewer.dims.ndim
    shown = list(viewer.dims.displayed)
    for own, delta in enumerate(shift):
        axis = own + ndim - len(shift)
        if delta and axis not in shown and axis >= 0:
            viewer.dims.set_point(axis, viewer.dims.point[axis] + delta)
    moved = [shift[axis - ndim + len(shift)] for axis in shown]
    if any(moved):
        camera = camera_of(viewer)
        center = np.array(camera.center, float)
        center[-len(moved) :] += moved
        camera.center = tuple(center)


def is_fitted(viewer: ViewerModel) -> bool:
    """Tell whether all is looked at as napari shows it at first: nobody moved.

    Zoom is left out. It was right for the canvas before napari's controls took room.
    """
    camera = camera_of(viewer)
    zoom, center, angles = camera.zoom, camera.center, camera.angles
    fitted = False
    # When the first layer came it was fitted, and others may reach farther.
    for layers in (None, viewer.layers[:1] or None):
        viewer.reset_view(layers=layers)
        same = np.allclose(center, camera.center) and np.allclose(angles, camera.angles)
        fitted = fitted or same
    camera.zoom, camera.center, camera.angles = zoom, center, angles
    return fitted


def is_whole(layers: Sequence[Layer]) -> bool:
    """Tell whether the first of some layers is in view from edge to edge."""
    for layer in layers:
        shape = layer.level_shapes[layer.data_level] if layer.multiscale else None
        if shape is None:
            return False
        first, last = np.asarray(layer.corner_pixels)[:, -2:]
        return bool((first <= 0).all() and (last >= np.asarray(shape)[-2:] - 1).all())
    return False


def canvas_of(viewer: ViewerModel) -> tuple[float, float]:
    """Height and width of the canvas in pixels."""
    height, width = viewer.canvas.size
    return height, width


def fit(viewer: ViewerModel, low: Sequence[float], high: Sequence[float]) -> None:
    """Bring a part of the plane in view.

    Parameters
    ----------
    low, high
        World coordinates along y and x.
    """
    viewer.reset_view()
    if viewer.dims.ndisplay != 2:
        return
    whole = viewer.layers.extent.world[:, -2:]
    sizes = np.maximum(np.subtract(high, low), 1e-9)
    camera = camera_of(viewer)
    camera.zoom *= float(min((whole[1] - whole[0]) / sizes))
    center = np.add(low, high) / 2
    camera.center = (*camera.center[:-2], *map(float, center))
