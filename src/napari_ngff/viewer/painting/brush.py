"""Handles the mouse on painted labels, where it differs from napari.

Three differences: a stroke goes on to where the button is released (napari drops the
last move, which its canvas delivers too late); Ctrl or Alt erases while it is held; in
3D the first visible voxel of what is drawn is hit, see `line_of_sight`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from napari.components.overlays import (
    LabelsBrushStrokeOverlay,
    LabelsPolygonOverlay,
)
from napari.layers import Labels
from napari.utils.notifications import show_info

from napari_ngff.viewer.painting.line_of_sight import (
    CLOSEST,
    DrawnSurface,
    SightLine,
    VoxelHit,
    is_drawn,
    lines_between,
)
from napari_ngff.viewer.private.napari_layers import (
    drawn_values,
    shown_axes,
    slicing_of,
)
from napari_ngff.viewer.services.window import Window, attempt_work

MISSED = (
    "Nothing painted: no label is there.\nIn 3D strokes stay on visible labels. Paint"
    " elsewhere in 2D."
)

PICK, PAINT, ERASE, FILL = "pick", "paint", "erase", "fill"
PAINTING = (PAINT, ERASE, FILL, "polygon")


class PolygonOutline(LabelsPolygonOverlay):  # type: ignore[misc]
    """A polygon that is drawn on our labels, see `widgets.painting_outlines`."""


class RingOutline(LabelsBrushStrokeOverlay):  # type: ignore[misc]
    """A ring that is drawn on our labels by the right button."""


def draw_along(layer: Any, event: Any) -> Iterator[None]:
    """Paint, erase or fill along a drag, as one step of undo."""
    if layer.refuses_edits():
        return
    # The brush is being resized (Alt), or napari's ring of the right button draws this
    # drag.
    frozen = layer.cursor == "circle_frozen"
    if frozen or layer.ring.active or (layer.ring.enabled and event.button == 2):
        return
    if layer.refuses_plane():
        return
    is_solid = len(shown_axes(layer)) == 3
    pen = SolidPen(layer) if is_solid else PlanePen(layer)
    # A generator of napari: it continues with each event of the drag.
    with layer.block_history(), layer.stroke_surface.until_end():
        pen.draw_to(event)
        yield
        while event.type in ("mouse_move", "mouse_release"):
            if is_solid != (len(shown_axes(layer)) == 3):
                return
            pen.draw_to(event)
            if event.type == "mouse_release":
                if isinstance(pen, SolidPen) and pen.has_missed:
                    show_info(MISSED)
                return
            yield


class PlanePen:
    """Draws a stroke in 2D."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._last: Any = None

    def draw_to(self, event: Any) -> None:
        """Draw from where the stroke is to the mouse."""
        layer, last = self._layer, self._last
        voxel = self._last = layer.world_to_data(event.position)
        same = last is not None and np.array_equal(np.round(last), np.round(voxel))
        if not (same and layer.mode == FILL):  # the bucket has just filled there
            start = voxel if last is None else last
            layer.draw_between(_label_to_paint(layer, event), start, voxel)


class SolidPen:
    """Draws a stroke in 3D, on what was visible when it began.

    Between two places of the mouse it looks along more lines: a straight line from
    voxel to voxel would pass through the air, or through the inside of an object.

    Attributes
    ----------
    has_missed
        Whether there was no visible voxel under the mouse until now.
    """

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self.has_missed = True
        self._line: SightLine | None = None
        self._hit: VoxelHit | None = None

    def draw_to(self, event: Any) -> None:
        """Draw from where the stroke is to the mouse."""
        layer, before = self._layer, self._line
        line = self._line = SightLine.of_event(layer, event)
        surface = layer.stroke_surface.find(layer)
        if surface is None:
            self._hit, self.has_missed = None, False  # it is still being read
            return
        hits = list(self._hits_to(surface, before, line))
        self.has_missed &= not hits
        layer.draw_hits(_label_to_paint(layer, event), hits)

    def _hits_to(
        self, surface: DrawnSurface, before: SightLine | None, line: SightLine
    ) -> Iterator[VoxelHit]:
        """Give the voxels that are hit on the way, each once."""
        layer = self._layer
        sizes = np.abs(np.asarray(layer.scale, float))
        axes = shown_axes(layer)
        weights = np.zeros(layer.ndim)
        weights[axes] = sizes[axes] / sizes[axes].min()
        # Four dabs per diameter, as napari does it.
        apart = max(layer.brush_size / 4, 2 * CLOSEST)
        lines = [line]
        if before is not None:
            count = int(np.ceil(before.distance_to(line, weights) / apart))
            lines = [*lines_between(before, line, max(count, 1))]
        for following in lines:
            for hit in self._look_along(surface, before, following, weights):
                if hit is not None and not is_same_voxel(hit, self._hit):
                    yield hit
                self._hit = hit
            before = following

    def _look_along(
        self, surface: DrawnSurface, before: Any, line: SightLine, weights: Any
    ) -> Iterator[VoxelHit | None]:
        """Look along a line, and along others before it where the surface is steep."""
        hit, last = surface.find_voxel(line), self._hit
        if before is not None and hit is not None and last is not None:
            gap = np.linalg.norm((hit.voxel - last.voxel) * weights)
            most = max(2.0, self._layer.brush_size / 2)
            if gap > most and before.distance_to(line, weights) > CLOSEST:
                middle = before.move_to(line, 0.5)
                yield from self._look_along(surface, before, middle, weights)
                yield from self._look_along(surface, middle, line, weights)
                return
        yield hit


def is_same_voxel(hit: VoxelHit, other: VoxelHit | None) -> bool:
    """Return whether the mouse is still over one voxel."""
    return other is not None and np.array_equal(hit.voxel, other.voxel)


def clicked_voxel(layer: Any, event: Any) -> list[int] | None:
    """Return the voxel of level 0 at a click; None where it hits nothing in 3D."""
    if len(shown_axes(layer)) == 2:
        return [round(float(i)) for i in layer.world_to_data(event.position)]
    surface = DrawnSurface.of_layer(layer)
    line = SightLine.of_event(layer, event)
    hit = None if surface is None else surface.find_voxel(line)
    voxel = None if hit is None else labelled_voxel(layer, hit)
    return None if voxel is None else [int(i) for i in voxel]


def labelled_voxel(layer: Any, hit: VoxelHit) -> Any:
    """Return the voxel of level 0 with the label that was hit, at a coarser level, too.

    Returns
    -------
    array or None
        The one closest to where the mouse points; None without one, such as after an
        edit.
    """
    box = tuple(hit.block)
    found: Any = np.argwhere(layer.canvas.read(0, box) == hit.label)
    found = found + [start for start, _ in box]
    if not len(found):
        return None
    away = (found - hit.voxel) * np.abs(np.asarray(layer.scale))
    return found[np.argmin((away**2).sum(axis=1))]


def report_hidden(layer: Any, event: Any) -> None:
    """Show a message, once, if the user tries to paint on hidden labels."""
    if layer.visible:
        layer.hidden_reported = False
    elif event.button == 1 and layer.mode_when_shown in PAINTING:
        if not layer.hidden_reported:
            show_info(f"These labels are hidden.\nShow {layer.name!r} to paint.")
        layer.hidden_reported = True


def _label_to_paint(layer: Any, event: Any) -> int:
    # Many window managers of Linux move the window by Alt and a drag.
    # Asked at each event, so that pressing or releasing the key counts during a drag.
    held = {"Alt", "Control"}.intersection(event.modifiers)
    erases = layer.mode == PAINT and held
    if layer.mode == ERASE or erases:
        return int(layer.colormap.background_value)
    return int(layer.selected_label)


def shown_value(layer: Any, point: Any) -> int:
    """Return the value on screen at a voxel of level 0."""
    tile = slicing_of(layer).screen_part()
    background = int(layer.colormap.background_value)
    if tile is None:
        return background
    return int(_read_screen(layer, tile, np.array([point]))[0])


def _read_screen(layer: Any, tile: Any, points: Any) -> Any:
    """Return the values on screen at points of level 0, shape (points, axes)."""
    picture = drawn_values(layer)
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
    find_label(layer, event, partial(setattr, layer, "selected_label"))


def find_label(layer: Any, event: Any, found: Callable[[int], Any]) -> None:
    """Find the label that is under the mouse; 0 for none, or one that is not drawn.

    Parameters
    ----------
    found
        Called with it, unless the layer shows another field by then: at once, or later
        where it is still to be read.
    """
    if layer.refuses_plane():
        return
    if len(shown_axes(layer)) == 2:
        coming = layer.coming_voxel(layer.world_to_data(event.position))
        if coming is not None:
            read = partial(attempt_work, partial(layer.canvas.read, *coming))
            Window.current.run_work(
                read, partial(_take_read, layer, layer.canvas, found)
            )
            return
    value = layer.get_value(
        event.position,
        view_direction=event.view_direction,
        dims_displayed=event.dims_displayed,
        world=True,
    )
    # Of several levels, napari's value is the level and the value.
    value = value[1] if isinstance(value, tuple) else value
    _give_drawn(layer, found, int(value or 0))


def _give_drawn(layer: Any, found: Callable[[int], Any], label: int) -> None:
    found(label if is_drawn(label, layer.colormap) else 0)


def _take_read(layer: Any, canvas: Any, found: Callable[[int], Any], read: Any) -> None:
    """Take the label that a worker has read, if the layer still shows it."""
    if isinstance(read, str):
        Window.current.show_messages((read,), "No label was picked.")
    elif layer.canvas is canvas:
        _give_drawn(layer, found, int(read.max()))


def resize_brush(layer: Any, event: Any) -> None:
    """Resize the brush by the mouse as napari does, but not with Alt alone."""
    if tuple(event.modifiers) != ("Alt",):
        Labels.brush_size_on_mouse_move(layer, event)
    # napari has frozen the cursor, since it also resizes with Alt and a second key.
    elif layer.cursor == "circle_frozen":
        layer.cursor = "circle"
