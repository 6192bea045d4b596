"""Chooses the level of a pyramid that is shown in 3D: the finest that fits a budget.

A volume has to be on the graphics card as a whole. napari shows the coarsest one; the
finer one follows when it has been read and the camera rests.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.viewer import window_services
from napari_ngff.viewer.bridge.regions import layer_point, level_shapes
from napari_ngff.viewer.browsing.streaming import at_once
from napari_ngff.viewer.layer_plan import KEY
from napari_ngff.viewer.streamed_levels import stored_box, stream_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.store.arrays.boxes import Box

__all__ = [
    "BUDGET",
    "SIDE",
    "VOLUME",
    "bring_back",
    "finest_fitting",
    "fit_volume",
    "fit_volumes",
    "is_volume",
    "leave_volumes",
    "note_camera",
    "set_aside",
]

BUDGET = 128 << 20
"""Bytes of one layer's volume. napari reads it in the main thread."""

SIDE = 2048
"""Voxels per axis that a texture of three axes holds on most machines."""

CAMERA_REST = 0.2
"""Seconds without a move of the camera after which it rests."""

VOLUME = "ome-zarr-volume"
"""Key of the ``metadata`` of a region in 3D, under which its `WorkRegion` is."""


def finest_fitting(layer: Layer, axes: Sequence[int], budget: int = BUDGET) -> int:
    """Choose the finest level whose volume fits; the coarsest where none does.

    Parameters
    ----------
    axes
        Displayed axes of the layer.
    budget
        In bytes.
    """
    shapes = level_shapes(layer)
    # Bytes of a voxel, with its three colours.
    voxel = np.dtype(layer.dtype).itemsize * (3 if getattr(layer, "rgb", False) else 1)
    for level, shape in enumerate(shapes):
        sides = [shape[axis] for axis in axes]
        # Both are limits of the card: the length of a texture and its memory.
        if max(sides) <= SIDE and int(np.prod(sides)) * voxel <= budget:
            return level
    return len(shapes) - 1


def fit_volume(viewer: ViewerModel, layer: Layer) -> None:
    """Lock the level of a pyramid of ours in 3D; in 2D let the zoom choose again.

    A level that the user has locked stays.
    """
    if not layer.multiscale or KEY not in layer.metadata:
        return
    if viewer.dims.ndisplay == 3 and layer.locked_data_level is None:
        missing = viewer.dims.ndim - layer.ndim
        axes = [axis - missing for axis in viewer.dims.displayed if axis >= missing]
        level = finest_fitting(layer, axes)
        if axes and level < len(layer.data) - 1:
            read_volume(viewer, layer, level, axes)
    elif viewer.dims.ndisplay == 2:
        fitted = _fitted.pop(layer, None)
        _turns.pop(layer, None)
        # Only the level that was locked here; another one was chosen by the user
        # meanwhile.
        if fitted is not None and layer.locked_data_level == fitted:
            layer.locked_data_level = None


def read_volume(
    viewer: ViewerModel, layer: Layer, level: int, axes: Sequence[int]
) -> None:
    """Lock a level when its volume has been read and the camera rests.

    Until then napari shows the coarsest one. Labels of this computer are read by napari
    itself, with the edits on top.
    """
    stream = stream_of(layer)
    if stream is None or at_once():
        _fitted[layer] = level
        layer.locked_data_level = level
        return
    box = volume_box(viewer, layer, level, axes)
    turn = _turns[layer] = object()
    reference, viewer_reference = weakref.ref(layer), weakref.ref(viewer)

    def is_left() -> bool:
        layer = reference()
        return layer is None or _turns.get(layer) is not turn

    def read() -> Any:
        pixels = stream.read_ahead(level, box, is_left)
        while not is_left() and time.monotonic() < _moved[0] + CAMERA_REST:
            time.sleep(CAMERA_REST / 4)
        return pixels

    def done(pixels: Any) -> None:
        layer, viewer = reference(), viewer_reference()
        if layer is None or viewer is None or is_left() or isinstance(pixels, str):
            return
        chosen = layer.locked_data_level is not None or stream_of(layer) is not stream
        if pixels is None or chosen or viewer.dims.ndisplay != 3:
            return
        stream.put_view(level, box, pixels)
        _fitted[layer] = level
        layer.locked_data_level = level

    window_services.run_work(lambda: window_services.attempt_work(read), done)


def volume_box(
    viewer: ViewerModel, layer: Layer, level: int, axes: Sequence[int]
) -> Box:
    """Find the rectangle of the file that a level shows at the present position."""
    shapes = level_shapes(layer)
    factors = np.divide(shapes[0], shapes[level])
    at = layer_point(layer, viewer.dims.point) / factors
    box = []
    for axis, size in enumerate(shapes[level]):
        index = int(np.round(np.clip(at[axis], 0, size - 1)))
        box.append((0, size) if axis in axes else (index, index + 1))
    drawn = getattr(getattr(layer, "canvas", None), "drawn", None)
    window = drawn.windows[level] if drawn is not None else layer.data[level].window
    return stored_box(window, tuple(box))


def note_camera(event: Any = None) -> None:
    """Note that a camera moves."""
    _moved[0] = time.monotonic()


def leave_volumes(viewer: ViewerModel) -> None:
    """Show the coarsest level again, before another place on the sliders is shown."""
    if viewer.dims.ndisplay != 3:
        return
    for layer in viewer.layers:
        level = _fitted.get(layer)
        if level is not None and stream_of(layer) is not None:
            del _fitted[layer]
            if layer.locked_data_level == level:
                # Without drawing it: napari does so for the new place.
                with layer._block_refresh():
                    layer.locked_data_level = None


def fit_volumes(viewer: ViewerModel) -> None:
    """Call `fit_volume` for all layers, after switching between 2D and 3D."""
    for layer in viewer.layers:
        if layer._type_string in ("image", "labels"):
            fit_volume(viewer, layer)


def is_volume(layer: Layer) -> bool:
    """Return whether a layer is a region that was extracted to be shown in 3D."""
    return VOLUME in layer.metadata


def set_aside(viewer: ViewerModel, layers: Iterable[Layer]) -> None:
    """Hide layers, and note the selected one, until the viewer is switched to 2D."""
    hidden = _aside[viewer] = weakref.WeakSet(layers)
    active = viewer.layers.selection.active
    _selected[viewer] = weakref.WeakSet([] if active is None else [active])
    for layer in hidden:
        layer.visible = False


def bring_back(viewer: ViewerModel) -> None:
    """Show and select the layers of `set_aside` again in 2D; hide extracted regions."""
    if viewer.dims.ndisplay != 2:
        return
    hidden = _aside.pop(viewer, ())
    for layer in [*hidden, *(filter(is_volume, viewer.layers) if hidden else ())]:
        layer.visible = not is_volume(layer)
    selection = viewer.layers.selection
    for layer in _selected.pop(viewer, ()):
        # Another layer that the user has selected meanwhile stays selected.
        if layer in viewer.layers and (
            selection.active is None or is_volume(selection.active)
        ):
            selection.active = layer


_aside: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Any]] = (
    weakref.WeakKeyDictionary()
)
_selected: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Any]] = (
    weakref.WeakKeyDictionary()
)
_moved = [0.0]
"""When a camera moved last."""

_turns: weakref.WeakKeyDictionary[Any, object] = weakref.WeakKeyDictionary()
"""What was read last for a layer; earlier reads are of no use."""

_fitted: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
