"""A napari layer of labels that shows a canvas: lazily, with undo, at every level.

napari makes labels of several levels read-only (napari#1587). `CanvasLabels` overrides
what holds the data, what patches the screen and what undoes; `paint` adds the tools.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Labels
from napari.utils.notifications import show_info, show_warning

from napari_ngff.store.arrays.boxes import (
    Box,
    box_shape,
    enclose_boxes,
    intersect_boxes,
    slice_inside,
    whole_box,
)
from napari_ngff.viewer.painting.brush import PolygonOutline, RingOutline
from napari_ngff.viewer.painting.canvas_data import SHOWS_OTHER, CanvasData
from napari_ngff.viewer.painting.line_of_sight import (
    DrawnSurface,
    SightLine,
    StrokeSurface,
)
from napari_ngff.viewer.painting.screen_part import PaintedSlicing, ScreenPart
from napari_ngff.viewer.private.lost import relies_on
from napari_ngff.viewer.private.napari_layers import (
    drawn_values,
    shown_axes,
    slicing_of,
    tile_transform,
)
from napari_ngff.viewer.services.window import Signal, Window
from napari_ngff.viewer.streaming.prepared_volume import EditMark, PreparedVolume
from napari_ngff.viewer.streaming.streamed_levels import drawing
from napari_ngff.viewer.streaming.volume_slicing import MOST_PATCHED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.edits import Edit
    from napari_ngff.labels.label_classes import LabelClass
    from napari_ngff.viewer.saving.layer_saver import LayerSaver

WIDER = {1: 2, 2: 4, 4: 8}
"""Bytes of the next wider type of integers."""

UNLOCK = "To change them, untick Locked beside Save in the layer controls."

LARGEST_TEXTURE = 1 << 14
"""Voxels per axis that a texture holds on most machines."""

THUMBNAIL_VOXELS = 1 << 20
"""A coarsest level of more is not read after every stroke for the thumbnail."""


@relies_on(
    "_abort_stroke _append_to_undo_history _block_history _cached_labels _data",
    "_data_raw _ensure_int_labels _get_layer_slicing_state _get_value _get_value_ray",
    "_level_materializer _load_history _overlays _partial_labels_refresh",
    "_raw_to_displayed _redo_history _reset_data_level _reset_editable _reset_history",
    "_reset_thumbnail_level_data _save_history _staged_history _type_string",
    "_undo_history _update_dims _update_thumbnail _validate_label_in_range",
)
class CanvasLabels(Labels):  # type: ignore[misc]
    """Labels of a pyramid of any size with its edits.

    Parameters
    ----------
    canvas
        The pyramid and its edits; axes are those of the layer.
    read_only
        Why the labels cannot be edited; "" where they can.
    **keywords
        Of `napari.layers.Labels`.

    Attributes
    ----------
    spared
        Labels of locked classes: no tool replaces them.
    classes
        Named labels, as they will be saved; None where they stay as in the file.
    stroke_surface
        What was drawn in 3D when the present stroke began.
    polygon, ring
        Outlines that are being drawn.
    is_exchanging
        Whether the layer is just getting the labels of another field; see
        `refuses_edits`.
    """

    stroke_ended = Signal()
    """Emitted by napari's handler of the mouse when a group of edits ends."""

    edited = Signal()
    """Emitted when edits were made, undone or redone."""

    _staged_history: list[Edit]
    _is_drawing = False

    def __init__(self, canvas: Canvas, *, read_only: str = "", **keywords: Any) -> None:
        self.canvas = canvas
        self.read_only = read_only
        self._pending: list[Edit] = []
        self._painted_to = 0
        self._painted_last: Edit | None = None
        self.stroke_surface = StrokeSurface()
        self.saver: LayerSaver | None = None
        self.spared: tuple[int, ...] = ()
        self.classes: tuple[LabelClass, ...] | None = None
        self.is_exchanging = False
        keywords.pop("multiscale", None)  # always several, also where there is one
        super().__init__(CanvasData(canvas), multiscale=True, **keywords)
        self.polygon = PolygonOutline(visible=True)
        self.ring = RingOutline(visible=True)
        for name, ours in (("polygon", self.polygon), ("brush_stroke", self.ring)):
            del self._overlays[name]  # which is equal, and would stay
            self._overlays[name] = ours
        self.events.locked.connect(self._reset_editable)

    # Names and hooks by which napari knows the layer.

    @property
    def _type_string(self) -> str:
        # By default the name of the class, which no writer or icon knows.
        return "labels"

    def _ensure_int_labels(self, data: Any) -> Any:
        is_ours = isinstance(data, CanvasData)
        return data if is_ours else super()._ensure_int_labels(data)

    @property
    def refusal(self) -> str:
        """Why no tool may change the labels now; "" where all may.

        napari's lock of the layer is the padlock of the label image: unlike labels that
        are read-only, locked ones have a saver, which saves earlier edits.
        """
        return self.read_only or (f"they are locked. {UNLOCK}" if self.locked else "")

    def _reset_editable(self, event: Any = None) -> None:
        self.editable = not self.refusal

    def _reset_thumbnail_level_data(self) -> None:
        super()._reset_thumbnail_level_data()
        # It would keep the coarsest level as it was before the edits.
        self._level_materializer = None

    def _get_layer_slicing_state(self, data: Any, cache: bool) -> PaintedSlicing:
        return PaintedSlicing(self, data, cache)

    @property
    def data(self) -> CanvasData:
        """The levels with their edits; indices other than of a level go to level 0."""
        data: CanvasData = self._data
        return data

    @data.setter
    def data(self, data: Any) -> None:
        self.data.check_replacement(data, is_saved=self.saver is not None)
        self.canvas = data.canvas
        self._data = data
        self._reset_history()
        self.events.data(value=data)
        self.refresh()

    def exchange_canvas(self, canvas: Canvas, read_only: str = "") -> None:
        """Replace the labels by others, with as many axes.

        The saver of the old labels must have released them; `saver` is None until
        another is attached. Tools and look stay.

        Parameters
        ----------
        canvas, read_only
            As for a new layer.
        """
        self.saver = None
        self.canvas, self.read_only = canvas, read_only
        self._pending, self._painted_to = [], 0
        self.polygon.points = []  # of a polygon that was not finished
        slicing_of(self).forget_slices()
        self._data_raw = self._data = CanvasData(canvas)
        self._cached_labels = None
        self._reset_history()
        self._reset_data_level()
        self._reset_thumbnail_level_data()
        self._update_dims()
        self.events.data(value=self.data)
        self._reset_editable()

    @property
    def unsaved(self) -> bool:
        """Return whether there are edits that are not in the file."""
        if self.saver is not None:
            return self.saver.has_unsaved(self)
        return self.canvas.log.end > 0

    @property
    def is_painting(self) -> bool:
        """Return whether a stroke is being drawn that is not a step of undo yet."""
        return bool(self._block_history)

    @property
    def _block_history(self) -> bool:
        """Return whether edits are grouped: from the begin of a stroke to its end."""
        return self._is_drawing

    @_block_history.setter
    def _block_history(self, draws: bool) -> None:
        ended, self._is_drawing = self._is_drawing and not draws, draws
        if ended:
            self.stroke_ended.emit()

    def _is_coming(self, number: int, box: Box) -> bool:
        """Return whether labels of a coarser level are drawn in a part of a level."""
        drawn = self.canvas.drawn
        if drawn is None or slicing_of(self).volume is not None:
            return False
        return not drawn.is_true(number, box)

    def coming_voxel(self, position: Any) -> tuple[int, Box] | None:
        """Find the level and the voxel under a position of the layer that are not read.

        None where the label on the screen is the one of the file, and outside.
        """
        tile = slicing_of(self).screen_part()
        if tile is None or self.canvas.drawn is None:
            return None
        at = np.round(tile_transform(self).inverse(position)).astype(int)
        box = tuple(
            (start + int(at[axis]), start + int(at[axis]) + 1)
            if axis in tile.displayed
            else (start, stop)
            for axis, (start, stop) in enumerate(tile.box)
        )
        is_inside = intersect_boxes(box, tile.box) == box
        is_coming = is_inside and self._is_coming(tile.level.number, box)
        return (tile.level.number, box) if is_coming else None

    def _get_value(self, position: Any) -> Any:
        """Give the label at a position; none while it is not read."""
        found = super()._get_value(position)
        return found if self.coming_voxel(position) is None else (found[0], None)

    def _get_value_ray(
        self, start_point: Any, end_point: Any, dims_displayed: Any
    ) -> Any:
        """Give the label that a ray of a 3D view hits; none while one is not read."""
        tile = slicing_of(self).screen_part()
        if tile is not None and self._is_coming(tile.level.number, tile.box):
            return None
        surface = DrawnSurface.of_layer(self)
        if surface is None or start_point is None or end_point is None:
            return None
        start, end = np.asarray(start_point, float), np.asarray(end_point, float)
        hit = surface.find_voxel(SightLine(start, end - start))
        return None if hit is None else hit.label

    @property
    def locked_data_level(self) -> int | None:
        """The level to show, or None for the one that suits the zoom."""
        return Labels.locked_data_level.fget(self)  # type: ignore[no-any-return]

    @locked_data_level.setter
    def locked_data_level(self, level: int | None) -> None:
        if level is not None and 0 <= level < len(self.data):
            shape = self.data[level].shape
            sides = [shape[axis] for axis in shown_axes(self)]
            if max(sides) > LARGEST_TEXTURE:
                show_warning(
                    "Level not shown: it is too large.\n"
                    f"Level {level} is {max(sides)} voxels long, a texture holds"
                    f" {LARGEST_TEXTURE}. Choose a coarser level."
                )
                # So that controls go back to the level that is still shown.
                self.events.locked_data_level()
                return
        Labels.locked_data_level.fset(self, level)

    # Values of labels.

    def _validate_label_in_range(self, label: int) -> None:
        dtype = self.canvas.dtype
        # napari would refuse the label; here the type is widened, and the file with it.
        while label > np.iinfo(dtype).max and dtype.itemsize in WIDER:
            dtype = np.dtype(f"{dtype.kind}{WIDER[dtype.itemsize]}")
        if dtype != self.canvas.dtype and label <= np.iinfo(dtype).max:
            show_info(
                "Labels have a larger type now.\n"
                f"Label {label} does not fit into {self.canvas.dtype}:"
                f" {self.name} is now {dtype}, and so will be the file."
            )
            self.canvas.change_dtype(dtype)
            self.refresh()
            self.events.data(value=self.data)
        super()._validate_label_in_range(label)

    # Edits: the canvas holds the steps of undo, napari's history counts them.

    def refuses_edits(self, word: str = "painted") -> bool:
        """Return whether edits are refused now, as a notice reports.

        While labels of another field are put in place, those of the field before are
        saved already: nobody would be asked about what is painted or undone now.
        """
        reason = f"the labels are locked.\n{UNLOCK}" if self.locked else ""
        if self.is_exchanging:
            reason = "the field was loading.\nTry again."
        if reason:
            text = f"Not {word}: {reason}"
            Window.current.show_passing(text)
        return bool(reason)

    def _add_edit(self, edit: Edit) -> None:
        """Add an edit, to be shown by ``_partial_labels_refresh``.

        An edit that would begin a step and is known to change nothing is left out, as
        in napari: undo then always takes back something visible, and edits that were
        undone can still be redone.
        """
        if self.refuses_edits():
            return
        if not self._staged_history:
            if self._changes_nothing(edit):
                return
            # The first edit of a stroke: a step of undo begins on the canvas as well.
            self.canvas.begin_step()
        if not self._pending:
            # Edits before this one are on screen already; later ones are laid over
            # them.
            self._painted_to = self.canvas.log.end
            self._painted_last = self.canvas.log.last_edit
        self.canvas.add_edit(edit)
        self._pending.append(edit)
        self._save_history(edit)

    def _changes_nothing(self, edit: Edit) -> bool:
        """Return whether no voxel of level 0 changes; False where that is not known.

        It is known if level 0 is on screen and contains all of the edit.
        """
        level = self.canvas.levels[0]
        region = edit.region_in(level.grid, whole_box(level.shape))
        if region is None or edit.source == edit.label:
            return True
        tile = slicing_of(self).screen_part()
        if tile is None or tile.level is not level or self._pending:
            return False
        if intersect_boxes(region, tile.box) != region or self._is_coming(0, region):
            return False
        cover, label = edit.cover_and_values(level.grid, region)
        pixels = tile.as_block(drawn_values(self))[slice_inside(region, tile.box)]
        return not (edit.replaced_mask(pixels) & cover & (pixels != label)).any()

    def apply_edits(self, edits: Iterable[Edit], canvas: Canvas) -> None:
        """Add edits that were made for a canvas as one step of undo, and show them.

        The type of the labels is widened where one does not fit. Raises ValueError
        where the layer shows another canvas by now, such as that of the next field.
        """
        if canvas is not self.canvas:
            raise ValueError(SHOWS_OTHER.format(self.name))
        if self.refusal:
            raise ValueError(f"{self.name} cannot be edited: {self.refusal}")
        if self.is_exchanging:
            raise ValueError("The field was loading. Try again.")
        edits = list(edits)
        for edit in edits:
            self._validate_label_in_range(edit.label)
        with self.block_history():
            for edit in edits:
                self._add_edit(edit)
        self._partial_labels_refresh()

    def show_saved(self) -> None:
        """Show coarser levels as the file has them, after a save; see `Canvas`."""
        tile, coarsest = slicing_of(self).screen_part(), self.canvas.levels[-1]
        volume = slicing_of(self).volume
        if volume is not None:
            volume.note_edits(self.canvas)
        if tile is not None and tile.level.number:
            self._read_again(tile)
        elif tile is not None and coarsest.number and coarsest.size <= THUMBNAIL_VOXELS:
            whole = whole_box(coarsest.shape)
            read = partial(self.canvas.read, coarsest.number, whole)
            Window.current.run_work(read, lambda _: self._refresh_thumbnail())

    def _read_again(self, tile: ScreenPart) -> None:
        if slicing_of(self).volume is not None:
            self.refresh(extent=False)  # which has it read
            return
        # In a worker: thousands of edits, or a server, take seconds. Its pixels are in
        # memory then, and napari's own slicing finds them there.
        read = partial(self.canvas.read, tile.level.number, tile.box)
        Window.current.run_work(read, lambda _: self.refresh(extent=False))

    def _reset_history(self, event: Any = None) -> None:
        """Let napari count the steps of the canvas, which it would forget."""
        super()._reset_history(event)
        log = self.canvas.log
        for start, stop in pairwise([*log.starts, len(log.edits)]):
            if start >= log.end:
                self._redo_history.appendleft(log.edits[start:stop])
            elif start >= log.undo_limit:
                self._undo_history.append(log.edits[start:stop])

    def _append_to_undo_history(self, item: list[Edit]) -> None:
        # The canvas joins the edits of one stroke, so they are fewer than were staged.
        joined = self.canvas.close_step() or item
        self._painted_to = min(self._painted_to, self.canvas.log.end - len(joined))
        super()._append_to_undo_history(joined)
        self._refresh_thumbnail()
        self.check_dirty()

    def check_dirty(self) -> None:
        """Emit `edited`, and have the saver emit `dirty_changed` if need be."""
        self.edited.emit()
        if self.saver is not None:
            self.saver.check_dirty()

    def _load_history(self, before: Any, after: Any, undoing: bool = True) -> None:
        if not before or self._staged_history:
            return
        before.pop()  # napari's history only counts: the canvas has the edits
        edits = self.canvas.undo() if undoing else self.canvas.redo()
        if not edits:
            return  # see `EditLog.undo_limit`
        after.append(edits)
        self._show_again(edits)
        self._refresh_thumbnail()
        self.check_dirty()

    def _abort_stroke(self) -> None:
        edits = self.canvas.undo() if self._staged_history else []
        self._staged_history = []
        self._block_history = False
        self._show_again(edits)

    # Pixels on the screen.

    def _partial_labels_refresh(self) -> None:
        edits, self._pending = self._pending, []
        tile = slicing_of(self).screen_part()
        if edits and tile is not None:
            regions = tile.cut_to_edits(edits, self._painted_last)
            self._patch_regions(tile, regions, self._overlay_edits(self._painted_to))

    def _overlay_edits(self, since: int) -> Any:
        return lambda number, box, block: self.canvas.overlay_edits(
            number, box, block, since
        )

    def _read_box(self, number: int, box: Any, block: Any) -> Any:
        block[...] = self.canvas.read(number, box)
        return box

    def _show_again(self, edits: list[Edit]) -> None:
        edits, self._pending = [*self._pending, *edits], []
        tile = slicing_of(self).screen_part()
        if tile is not None:
            self._patch_regions(tile, tile.cut_to_edits(edits), self._read_box)

    def catch_up(self, *, again: bool) -> None:
        """Apply edits to a slice that arrived after they were painted.

        Parameters
        ----------
        again
            Whether edits were undone meanwhile: then the part is read again.
        """
        tile = slicing_of(self).screen_part(arrived=True)
        if tile is not None:
            self._patch_regions(
                tile, [tile.box], self._read_box if again else self._overlay_edits(0)
            )

    def lay_edits(self, volume: PreparedVolume) -> None:
        """Put the edits onto a volume that were made since it was read."""
        tile = slicing_of(self).screen_part(arrived=True)
        edits = () if volume.mark is None else volume.mark.edits_since(self.canvas)
        for region in tile.cut_to_edits(edits) if tile is not None else ():
            part = tile.part_of(region)
            self.stroke_surface.keep(volume.raw, part)
            before = volume.raw[part].copy()
            block = tile.as_block(volume.raw[part])
            self.canvas.overlay_edits(tile.level.number, region, block)
            self._color_part(part, before != volume.raw[part])
        volume.mark = EditMark.of_canvas(self.canvas)

    def show_arrived(self) -> bool:
        """Show what was read since the last slice; False where that needs a new one."""
        tile = slicing_of(self).screen_part()
        if tile is None or self.canvas.drawn is None or self.ndim_shown != 2:
            return False
        if not drawn_values(self).flags.writeable:
            return False
        with drawing():
            self._patch_regions(tile, [tile.box], self._read_box)
        self._refresh_thumbnail()
        return True

    @property
    def ndim_shown(self) -> int:
        """Number of axes on the screen."""
        return len(shown_axes(self))

    def _patch_regions(
        self, tile: ScreenPart, regions: Sequence[Box], update: Any
    ) -> None:
        """Update regions of the picture, and send changed pixels to the canvas.

        Parameters
        ----------
        update
            Called with level, region and a view of its pixels, which it changes.
        """
        raw, volume = drawn_values(self), slicing_of(self).volume
        size = sum(math.prod(box_shape(region)) for region in regions)
        if volume is not None and size > MOST_PATCHED:
            # It no longer holds, so the coarsest level is shown while it is read anew.
            self.refresh(extent=False)
            return
        # A picture that napari shares with a cache must not be changed in place.
        if not raw.flags.writeable:
            self.refresh(extent=False)
            return
        changed = []
        for region in regions:
            part = tile.part_of(region)
            self.stroke_surface.keep(raw, part)
            before = raw[part].copy()
            update(tile.level.number, region, tile.as_block(raw[part]))
            differs = before != raw[part]
            # All regions are read before the first is coloured: a contour may reach
            # into the next.
            if differs.any():
                changed.append((self._with_contour(part), differs))
        for part, differs in changed:
            self._color_part(part, differs)
        if changed:
            # One part: to send more voxels costs less than to send twice.
            spans = [tuple((s.start, s.stop) for s in part) for part, _ in changed]
            whole = enclose_boxes(spans)
            colors = slicing_of(self).pictures[1][tuple(slice(*span) for span in whole)]
            self.events.labels_update(data=colors, offset=[a for a, _ in whole])
        if volume is not None:
            volume.note_edits(self.canvas)

    def _color_part(self, part: Any, differs: Any) -> None:
        """Compute the colours of a part of the picture.

        Parameters
        ----------
        differs
            Which of its voxels have changed.
        """
        raw, view = slicing_of(self).pictures
        if self.contour == 0 and np.count_nonzero(differs) < differs.size // 2:
            view[part][differs] = self._raw_to_displayed(raw[part][differs])
        else:
            view[part] = self._raw_to_displayed(raw, data_slice=part)

    def _with_contour(self, part: Any) -> Any:
        """Extend a part of the picture by the width of contours."""
        raw = drawn_values(self)
        if self.contour == 0 or raw.ndim != 2:
            return part
        # A voxel of a contour depends on its neighbours, one beyond the width of the
        # contour.
        border = int(self.contour) + 1
        return tuple(
            slice(max(0, s.start - border), min(n, s.stop + border))
            for s, n in zip(part, raw.shape, strict=True)
        )

    def _refresh_thumbnail(self) -> None:
        if slicing_of(self).screen_part() is None:
            return
        coarsest = self.canvas.levels[-1]
        if coarsest.size <= THUMBNAIL_VOXELS:
            with drawing():
                slicing_of(self).read_thumbnail()
            self._update_thumbnail()
