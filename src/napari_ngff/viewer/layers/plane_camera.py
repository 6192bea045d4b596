"""Keeps what a viewer shows: sections of 2D during 3D, places of the next field.

napari takes the camera along into 3D and back, and moves the slider of the depth to the
middle of what was seen there: the next stroke would be in another section. The sliders
are never moved by a switch here, and the camera of 2D is as it was before.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer.layers.volume_layers import is_volume
from napari_ngff.viewer.plans.layer_plan import KEY, MOST_STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import Dims, ViewerModel
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


SLACK = 1e-6
"""Part of a step that does not count: a rounding error of scales and translations."""


def reach_last_planes(dims: Dims) -> None:
    """Extend the ranges of sliders by a step to the last plane, where that is missing.

    napari (0.9) counts whole steps: three planes at 6.65, 6.95 and 7.25 are 1.9999999
    steps apart, so that it gives a slider of two planes. Steps that are finer than a
    slider of Qt can have, beside a layer that is much larger, become coarser.
    """
    ranges = []
    for start, stop, finest in dims.range:
        is_long = stop - start > MOST_STEPS * finest
        step = (stop - start) / (MOST_STEPS / 2) if is_long else finest
        steps = (stop - start) / step
        # Half a step from the last plane, the slider still shows it.
        most = math.ceil(steps - 0.5 + SLACK) if math.isfinite(steps) else 0
        ranges.append((start, max(stop, start + (most + SLACK) * step), step))
        if int(steps) >= most:
            ranges[-1] = start, stop, step
    if ranges != [tuple(each) for each in dims.range]:
        dims.range = tuple(ranges)


class KeptSliders:
    """Keeps the plane at which the user looks while fields are exchanged.

    Where a field has fewer planes, napari moves the slider to its last one. The slider
    goes back in the next field that has the plane, unless the user has moved it.
    """

    def __init__(self) -> None:
        # By the name of an axis: world coordinates that the user chose, and that were
        # set last.
        self._chosen: dict[str, float] = {}
        self._set: dict[str, float] = {}
        self._start: dict[str, float] = {}

    def note(self, viewer: ViewerModel, field: Sequence[Layer]) -> None:
        """Note the sliders before another field, or an overview, is shown.

        Parameters
        ----------
        field
            Layers of the image on screen; none for an overview.
        """
        moved = _places(viewer).items() - self._set.items()
        self._chosen.update(moved)
        self._start = _start_of(field)

    def restore(self, viewer: ViewerModel, field: Sequence[Layer]) -> None:
        """Move the sliders to the same place of the field that is shown now."""
        start = _start_of(field)
        for name in start.keys() & self._start.keys() & self._chosen.keys():
            self._chosen[name] += start[name] - self._start[name]
        dims = viewer.dims
        hidden = {dims.axis_labels[axis] for axis in dims.order[:-2]}
        point = tuple(
            self._chosen.get(name, at) if name in hidden else at
            for name, at in zip(dims.axis_labels, dims.point, strict=True)
        )
        # Setting what there is would let napari check all of the dimensions again.
        if point != dims.point:
            dims.point = point
        self._set = _places(viewer)


def _places(viewer: ViewerModel) -> dict[str, float]:
    return dict(zip(viewer.dims.axis_labels, viewer.dims.point, strict=True))


def _start_of(layers: Sequence[Layer]) -> dict[str, float]:
    """Return the world coordinates at which an image begins, by axis."""
    if not layers:
        return {}
    return dict(zip(layers[0].axis_labels, layers[0].extent.world[0], strict=True))
