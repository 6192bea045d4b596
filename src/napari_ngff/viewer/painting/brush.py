"""Handles the mouse on painted labels, where it differs from napari.

Three differences: a stroke goes on to where the button is released (napari drops the
last move, which its canvas delivers too late); Ctrl or Alt erases while it is held; in
3D the image on the screen is hit, not level 0 of the file.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Labels
from napari.layers.labels._labels_constants import Mode
from napari.utils.notifications import show_info

from napari_ngff.viewer import window_services
from napari_ngff.viewer.window_services import attempt_work

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "PAINTING",
    "draw_along",
    "pick_label",
    "resize_brush",
    "shown_value",
    "tell_hidden",
]

PAINTING = (Mode.PAINT, Mode.ERASE, Mode.FILL, Mode.POLYGON)


def draw_along(layer: Any, event: Any) -> Iterator[None]:
    """Paint, erase or fill along a drag, as one step of undo."""
    overlay = layer._overlays["brush_stroke"]
    if layer.is_exchanging:
        # On screen is still the field before, whose labels were saved already.
        window_services.show_passing(
            "Not painted: the field was coming in.\nPaint once more."
        )
        return
    # The brush is being resized (Alt), or napari's ring of the right button draws this
    # drag.
    frozen = layer.cursor == "circle_frozen"
    if frozen or overlay.active or (overlay.enabled and event.button == 2):
        return
    with layer.block_history():
        last = voxel = mouse_voxel(layer, event)
        layer._draw(_label_to_paint(layer, event), voxel, voxel)
        # A generator of napari: it continues with each event of the drag.
        yield
        while event.type in ("mouse_move", "mouse_release"):
            voxel = mouse_voxel(layer, event)
            if voxel is not None and not _is_filled(layer, last, voxel):
                layer._draw(_label_to_paint(layer, event), last, voxel)
            last = voxel
            if event.type == "mouse_release":
                return
            yield


def _is_filled(layer: Any, last: Any, voxel: Any) -> bool:
    """Return whether the bucket has just filled at this voxel."""
    same = last is not None and np.array_equal(np.round(last), np.round(voxel))
    return bool(same and layer._mode == Mode.FILL)


def tell_hidden(layer: Any, event: Any) -> None:
    """Show a message, once, if the user tries to paint on hidden labels."""
    if layer.visible:
        layer.told_hidden = False
    elif event.button == 1 and Mode(layer._visible_mode or "pan_zoom") in PAINTING:
        if not layer.told_hidden:
            show_info(f"These labels are hidden.\nShow {layer.name!r} to paint.")
        layer.told_hidden = True


def _label_to_paint(layer: Any, event: Any) -> int:
    # Many window managers of Linux move the window by Alt and a drag.
    # Asked at each event, so that pressing or releasing the key counts during a drag.
    held = {"Alt", "Control"}.intersection(event.modifiers)
    erases = layer._mode == Mode.PAINT and held
    if layer._mode == Mode.ERASE or erases:
        return int(layer.colormap.background_value)
    return int(layer.selected_label)


def mouse_voxel(layer: Any, event: Any) -> Any:
    """Return the mouse position in voxels of level 0; None where it hits nothing."""
    if layer._slice_input.ndisplay == 2:
        return layer.world_to_data(event.position)
    start, stop = layer.get_ray_intersections(
        position=event.position,
        view_direction=event.view_direction,
        dims_displayed=layer._slice_input.displayed,
        world=True,
    )
    if start is None or stop is None:
        return None
    tile = layer._slicing_state.screen_part()
    if tile is None:
        return None
    # Two samples in each voxel that is shown, however large it is.
    fine = np.divide(tile.level.canvas.shape, tile.level.shape)
    count = int(2 * np.linalg.norm((stop - start) / fine)) + 2
    points = np.linspace(start, stop, count)
    values = _read_screen(layer, tile, points)
    hits = np.flatnonzero(values != layer.colormap.background_value)
    return np.round(points[hits[0]]) if len(hits) else None


def shown_value(layer: Any, point: Any) -> int:
    """Return the value on screen at a voxel of level 0."""
    tile = layer._slicing_state.screen_part()
    background = int(layer.colormap.background_value)
    if tile is None:
        return background
    return int(_read_screen(layer, tile, np.array([point]))[0])


def _read_screen(layer: Any, tile: Any, points: Any) -> Any:
    """Return the values on screen at points of level 0, shape (points, axes)."""
    picture = layer._slice.image.raw
    grid = tile.level.grid
    index = []
    inside = np.ones(len(points), bool)
    for axis, size in zip(tile.displayed, picture.shape, strict=True):
        voxels = np.round(points[:, axis])
        voxels = np.clip(voxels, 0, grid.full[axis] - 1).astype(np.int64)
        # From level 0 to the level on screen, and there to its part on screen.
        pixels = grid.holder_index(axis, voxels) - tile.box[axis][0]
        inside &= (pixels >= 0) & (pixels < size)
        index.append(np.clip(pixels, 0, size - 1))
    return np.where(inside, picture[tuple(index)], layer.colormap.background_value)


def pick_label(layer: Any, event: Any) -> None:
    """Select the label that is under the mouse; later where it is still to be read."""
    if layer._slice_input.ndisplay == 2:
        coming = layer.coming_voxel(layer.world_to_data(event.position))
        if coming is not None:
            read = partial(attempt_work, partial(layer.canvas.read, *coming))
            window_services.run_work(read, partial(_select_read, layer, layer.canvas))
            return
    value = layer.get_value(
        event.position,
        view_direction=event.view_direction,
        dims_displayed=event.dims_displayed,
        world=True,
    )
    # Of several levels, napari's value is the level and the value.
    value = value[1] if isinstance(value, tuple) else value
    layer.selected_label = int(value or 0)


def _select_read(layer: Any, canvas: Any, found: Any) -> None:
    """Select the label that a worker has read, if the layer still shows it."""
    if isinstance(found, str):
        window_services.show_messages((found,), "No label was picked.")
    elif layer.canvas is canvas:
        layer.selected_label = int(found.max())


def resize_brush(layer: Any, event: Any) -> None:
    """Resize the brush by the mouse as napari does, but not with Alt alone."""
    if tuple(event.modifiers) != ("Alt",):
        Labels.brush_size_on_mouse_move(layer, event)
    # napari has frozen the cursor, since it also resizes with Alt and a second key.
    elif layer.cursor == "circle_frozen":
        layer.cursor = "circle"
