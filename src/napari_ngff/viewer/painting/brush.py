"""What the mouse does on painted labels, where it differs from napari.

Three differences: a stroke goes on to where the button is released (napari drops the
last move, which its canvas delivers too late); Ctrl or Alt erases while it is held; in
3D the image on the screen is hit, not level 0 of the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Labels
from napari.layers.labels._labels_constants import Mode
from napari.utils.notifications import show_info

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
        # Still seen is the field before, whose labels were saved and are leaving.
        show_info("Stroke not painted.\nThe next field was coming in: paint once more.")
        return
    frozen = layer.cursor == "circle_frozen"
    if frozen or overlay.active or (overlay.enabled and event.button == 2):
        return
    with layer.block_history():
        last = at = mouse_voxel(layer, event)
        layer._draw(_label_to_paint(layer, event), at, at)
        yield
        while event.type in ("mouse_move", "mouse_release"):
            at = mouse_voxel(layer, event)
            if at is not None and not _is_filled(layer, last, at):
                layer._draw(_label_to_paint(layer, event), last, at)
            last = at
            if event.type == "mouse_release":
                return
            yield


def _is_filled(layer: Any, last: Any, at: Any) -> bool:
    """Tell whether a click that fills would fill again where it just has."""
    same = last is not None and np.array_equal(np.round(last), np.round(at))
    return bool(same and layer._mode == Mode.FILL)


def tell_hidden(layer: Any, event: Any) -> None:
    """Say, once, why the view moves instead: labels that are hidden take no paint."""
    if layer.visible:
        layer.told_hidden = False
    elif event.button == 1 and Mode(layer._visible_mode or "pan_zoom") in PAINTING:
        if not layer.told_hidden:
            show_info(f"These labels are hidden.\nShow {layer.name!r} to paint.")
        layer.told_hidden = True


def _label_to_paint(layer: Any, event: Any) -> int:
    # Many window managers of Linux move the window by Alt and a drag.
    held = {"Alt", "Control"}.intersection(event.modifiers)
    erases = layer._mode == Mode.PAINT and held
    if layer._mode == Mode.ERASE or erases:
        return int(layer.colormap.background_value)
    return int(layer.selected_label)


def mouse_voxel(layer: Any, event: Any) -> Any:
    """Where the mouse is, in voxels of level 0; None where it hits nothing."""
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
    values = _is_shown(layer, tile, points)
    found = np.flatnonzero(values != layer.colormap.background_value)
    return np.round(points[found[0]]) if len(found) else None


def shown_value(layer: Any, point: Any) -> int:
    """Value of the voxel on the screen that holds one of level 0."""
    tile = layer._slicing_state.screen_part()
    background = int(layer.colormap.background_value)
    if tile is None:
        return background
    return int(_is_shown(layer, tile, np.array([point]))[0])


def _is_shown(layer: Any, tile: Any, points: Any) -> Any:
    picture = layer._slice.image.raw
    grid = tile.level.grid
    index = []
    inside = np.ones(len(points), bool)
    for axis, size in zip(tile.displayed, picture.shape, strict=True):
        at = np.clip(np.round(points[:, axis]), 0, grid.full[axis] - 1).astype(np.int64)
        at = grid.holder_index(axis, at) - tile.box[axis][0]
        inside &= (at >= 0) & (at < size)
        index.append(np.clip(at, 0, size - 1))
    return np.where(inside, picture[tuple(index)], layer.colormap.background_value)


def pick_label(layer: Any, event: Any) -> None:
    """Select the label that is seen under the mouse."""
    value = layer.get_value(
        event.position,
        view_direction=event.view_direction,
        dims_displayed=event.dims_displayed,
        world=True,
    )
    # Of several levels, napari's value is the level and the value.
    value = value[1] if isinstance(value, tuple) else value
    layer.selected_label = int(value or 0)


def resize_brush(layer: Any, event: Any) -> None:
    """Resize the brush by the mouse as napari does, but not with Alt alone."""
    if tuple(event.modifiers) != ("Alt",):
        Labels.brush_size_on_mouse_move(layer, event)
    elif layer.cursor == "circle_frozen":
        layer.cursor = "circle"
