"""Keeps the section and the camera of 2D while a viewer shows 3D.

napari takes the camera along into 3D and back, and moves the slider of the depth to the
middle of what was seen there: the next stroke would be in another section. The sliders
are never moved by a switch here, and the camera of 2D is as it was before.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer.layers.volume_layers import is_volume
from napari_ngff.viewer.plans.layer_plan import KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer


@dataclass(frozen=True, slots=True, eq=False)
class PlaneView:
    """What the camera sees in 2D.

    Attributes
    ----------
    axes
        That are displayed, counted from the last one, which is -1.
    center
        World coordinates along them.
    zoom
        Pixels of the canvas per unit of the world.
    layers
        Those of the viewer at that time.
    """

    axes: tuple[int, ...]
    center: tuple[float, ...]
    zoom: float
    layers: weakref.WeakSet[Layer]


_kept: weakref.WeakKeyDictionary[Any, PlaneView] = weakref.WeakKeyDictionary()
"""What was seen in 2D of viewers that show 3D."""


def keep_plane(viewer: ViewerModel) -> None:
    """Note what is seen in 2D, or return to it, before napari moves the camera."""
    if viewer.dims.ndisplay == 3:
        camera, layers = viewer.scene.camera, weakref.WeakSet(viewer.layers)
        center = tuple(map(float, camera.center[-2:]))
        zoom = float(camera.zoom)
        _kept[viewer] = PlaneView(plane_axes(viewer), center, zoom, layers)
    elif any(map(is_ours, viewer.layers)):
        return_to_plane(viewer)
    else:
        forget_plane(viewer)


def is_ours(layer: Layer) -> bool:
    """Return whether a layer is of an OME-Zarr, a region of one, or painted labels."""
    return KEY in layer.metadata or is_volume(layer) or hasattr(layer, "canvas")


def plane_axes(viewer: ViewerModel) -> tuple[int, ...]:
    """Return the axes that are displayed in 2D, counted from the last one."""
    return tuple(axis - viewer.dims.ndim for axis in viewer.dims.order[-2:])


def return_to_plane(viewer: ViewerModel) -> None:
    """See again what was seen in 2D, before napari moves camera and slider.

    Other layers, or other axes that the user chose in 3D, are brought in view.
    """
    view, camera = _kept.pop(viewer, None), viewer.scene.camera
    if view is not None:
        is_there = any(layer in viewer.layers for layer in view.layers)
        if is_there and view.axes == plane_axes(viewer):
            camera.zoom, camera.center = view.zoom, (0.0, *view.center)
        else:
            viewer.fit_to_view()
    order, point = viewer.dims.order, viewer.dims.point
    if len(order) > 2:
        # napari moves the slider of this axis to this coordinate: where it is.
        camera.center = (float(point[order[-3]]), *camera.center[-2:])


def forget_plane(viewer: ViewerModel) -> None:
    """Forget what was seen in 2D: another part has been brought in view."""
    _kept.pop(viewer, None)


def shift_plane(viewer: ViewerModel, shift: Sequence[float]) -> None:
    """Follow an image that moved in the world, while the viewer shows 3D.

    Parameters
    ----------
    shift
        Along the last axes of the viewer.
    """
    view = _kept.get(viewer)
    if view is None:
        return
    center = tuple(
        place + (shift[axis] if -axis <= len(shift) else 0.0)
        for axis, place in zip(view.axes, view.center, strict=True)
    )
    _kept[viewer] = replace(view, center=center)
