"""The tools of painted labels: brush, eraser, bucket, polygon, at every zoom."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Labels
from napari.utils.notifications import show_info, show_warning

from napari_ngff.labels.edits import Edit, LabelSet
from napari_ngff.labels.label_classes import PLACE
from napari_ngff.labels.label_objects import FILL_BUDGET, flood_region
from napari_ngff.labels.object_classes import ObjectClasses
from napari_ngff.labels.runs import point_runs
from napari_ngff.labels.shapes import Everywhere, Mask, Polygon, Shape, Stroke
from napari_ngff.metadata.model import OWN
from napari_ngff.metadata.units import unit_symbol
from napari_ngff.viewer.layers.label_owners import has_no_file
from napari_ngff.viewer.painting.brush import (
    ERASE,
    FILL,
    PAINT,
    PAINTING,
    PICK,
    draw_along,
    labelled_voxel,
    pick_label,
    report_hidden,
    resize_brush,
    shown_value,
)
from napari_ngff.viewer.painting.canvas_labels import CanvasLabels
from napari_ngff.viewer.private.lost import relies_on
from napari_ngff.viewer.private.napari_layers import (
    handle_modes,
    painted_axes,
    shown_axes,
    slicing_of,
    world_transform,
)
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.viewer.painting.line_of_sight import VoxelHit

# Voxels of level 0: napari's slider shows no brush that is far larger. A larger size in
# the preferences is not one that a person chose.
MOST_BRUSH = 1_000_000

NOTHING_TO_UNDO = (
    "No stroke to undo since these labels were opened.\nThe last {} strokes since then"
    " can be undone. Erase or paint over earlier ones."
)

LASTING = (
    "No stroke to undo.\nEarlier ones were saved before edits were restored, or before"
    " another window changed the same chunks. Erase or paint over them."
)

FIRST_BRUSH = 16.0
"""Diameter of the brush until another is chosen, in pixels of the screen."""


@relies_on(
    "_brush_size _commit_staged_history _drag_modes _draw",
    "_get_preserve_labels_source_label _get_properties _history_limit",
    "_mode_setter_helper _move_modes _undo_history _update_draw _visible_mode",
)
class OMEZarrLabels(CanvasLabels):
    """`CanvasLabels` with tools that edit at every zoom.

    Attributes
    ----------
    brush_on_screen
        Whether the brush keeps its size on the screen, not in voxels.
    only_over
        The label that the tools draw over, None for any. Where it is the background,
        the eraser still erases.
    hidden_reported
        Whether the message that hidden labels take no paint was shown.
    takes_number
        Called with a number key where each label is an object, which gets a class.
    object_classes
        Returns the classes of objects; none of labels that are classes.
    """

    takes_number: Callable[[int], None] | None = None
    object_classes: Callable[[], ObjectClasses] = ObjectClasses
    _locked_objects = ObjectClasses(), LabelSet()

    _drag_modes = handle_modes(
        "_drag_modes",
        {PICK: pick_label, PAINT: draw_along, ERASE: draw_along, FILL: draw_along},
    )
    _move_modes = handle_modes(
        "_move_modes", {PAINT: resize_brush, ERASE: resize_brush}
    )

    def __init__(self, canvas: Canvas, *, read_only: str = "", **keywords: Any) -> None:
        self.brush_on_screen = True
        self.only_over: int | None = None
        # Voxels of level 0 per pixel of the screen; None until the layer is drawn.
        self._pixel_size: float | None = None
        self._pixels: float | None = FIRST_BRUSH
        self.hidden_reported = False
        super().__init__(canvas, read_only=read_only, **keywords)
        # A callback, not a mode: napari switches to pan and zoom while a layer is
        # hidden.
        self.mouse_drag_callbacks.append(report_hidden)

    def _mode_setter_helper(self, mode: Any) -> Any:
        """Keep a tool for hidden labels until they are shown; explain a refused one."""
        name = str(mode).lower()
        if name in PAINTING and self.read_only:
            show_info(f"Labels are read-only.\n{self.name}: {self.read_only}")
        elif name in PAINTING and self.locked:
            show_info(f"Labels are locked.\n{self.name}: {self.refusal}")
        # napari's name for the mode that it selects again when the layer is shown.
        elif name in PAINTING and self.editable and not self.visible:
            self._visible_mode = name
        return super()._mode_setter_helper(mode)

    @property
    def mode_when_shown(self) -> str:
        """The mode that napari selects again when the layer is shown."""
        return str(self._visible_mode)

    @CanvasLabels.colormap.setter  # type: ignore[untyped-decorator]
    def colormap(self, colormap: Any) -> None:
        """Draw other colours; the canvas, which knows their number, hears it last."""
        events = self.events.colormap, self.events.selected_label
        with events[0].blocker(), events[1].blocker():
            CanvasLabels.colormap.fset(self, colormap)
        for changed in events:
            changed()

    def get_status(self, *arguments: Any, **keywords: Any) -> dict[str, str]:
        """Return napari's status, with the reason where no tool changes the labels."""
        status: dict[str, str] = super().get_status(*arguments, **keywords)
        note = f"read-only: {self.read_only}" if self.read_only else ""
        if self.saver is not None and self.locked:
            note = "locked"
        if note:
            status["coordinates"] = f"{status['coordinates']}; {note}".lstrip("; ")
        return status

    def _get_properties(self, position: Any, **keywords: Any) -> list[str]:
        """Return the properties of a label as text, without the place of its class."""
        found = super()._get_properties(position, **keywords)
        texts = (text for text in found if not text.startswith(f"{PLACE}: "))
        return [text.removeprefix(OWN) for text in texts]

    # The brush.

    @property
    def brush_size(self) -> int:
        """Diameter of the brush in voxels of level 0."""
        size: int = self._brush_size
        return size

    @brush_size.setter
    def brush_size(self, size: float) -> None:
        self._resize_brush(size)
        known = self._pixel_size
        self._pixels = None if known is None else self._brush_size / known

    def _resize_brush(self, voxels: float) -> None:
        """Set the diameter in voxels of level 0, and keep the one on the screen."""
        # By napari's own setter, which emits the events that controls and cursor
        # follow.
        Labels.brush_size.fset(self, round(min(max(1, voxels), MOST_BRUSH)))

    def describe_tool(self) -> dict[str, Any]:
        """Describe the tool and the brush, for another layer to take up."""
        size = self._pixels if self.brush_on_screen else self._brush_size
        return {
            "mode": str(self.mode),
            "on_screen": self.brush_on_screen,
            "size": size,
        }

    def take_tool(self, tool: dict[str, Any]) -> None:
        """Select the tool and brush of `describe_tool`; other values change nothing."""
        self.take_brush(tool)
        if tool.get("mode") in [str(mode) for mode in PAINTING]:
            self.mode = tool["mode"]

    def take_brush(self, tool: dict[str, Any]) -> None:
        """Take the brush of `describe_tool`, as large on the screen if that counts."""
        size = tool.get("size")
        if isinstance(size, int | float) and 0 < size < MOST_BRUSH:
            self.brush_on_screen = bool(tool.get("on_screen"))
            if not self.brush_on_screen:
                self.brush_size = size
            else:
                self._pixels = float(size)
                if self._pixel_size is not None:
                    self._resize_brush(size * self._pixel_size)

    def fit_brush(self, pixel_size: float) -> None:
        """Follow the zoom; a brush on the screen keeps its size there.

        Parameters
        ----------
        pixel_size
            Of one pixel of the screen, in voxels of level 0.
        """
        changed, self._pixel_size = pixel_size != self._pixel_size, pixel_size
        pixels = self._pixels
        if pixels is None or not self.brush_on_screen:
            self._pixels = self._brush_size / pixel_size
        elif changed:
            self._resize_brush(pixels * pixel_size)

    def _update_draw(self, scale_factor: float, *args: Any, **kwargs: Any) -> None:
        """Follow the zoom; napari calls this for every layer whenever it draws."""
        super()._update_draw(scale_factor, *args, **kwargs)
        scale = world_transform(self).scale
        # A brush is round in the world: its size counts along the axis with the
        # smallest voxels.
        size = min(abs(scale[axis]) for axis in shown_axes(self))
        self.fit_brush(scale_factor / size)

    # The plane on the screen.

    def world_to_data(self, position: Any) -> Any:
        """Convert world coordinates to voxels, those on the screen as they are drawn.

        napari finds the plane by the axes that are not displayed, and draws by the
        displayed ones. All at once would give another voxel where they depend on each
        other, and by a rounding error where a slider is half-way between two planes.
        """
        voxel, answered = super().world_to_data(position), slicing_of(self).answered
        world = np.asarray(position, float)[-self.ndim :]
        if answered is None or not self.visible or len(world) < self.ndim:
            return voxel
        drawn = answered.slice_input
        hidden, shown = drawn.not_displayed, drawn.displayed
        if drawn.ndisplay == 2 and hidden:
            at = np.take(drawn.world_slice.point, hidden)
            if np.array_equal(world[hidden], at):
                voxel[hidden] = np.take(answered.data_slice.point, hidden)
                plane = world_transform(self).set_slice(shown)
                voxel[shown] = plane.inverse(world[shown])
        return voxel

    def refuses_plane(self, *, quiet: bool = False) -> bool:
        """Return whether no plane of the labels is on the screen, as a notice reports.

        Never in 3D. `quiet` is for an attempt of which the notice was shown.
        """
        planes = slicing_of(self).planes if self.ndim_shown == 2 else {}
        for axis, plane in planes.items():
            if not 0 <= plane < self.data.shape[axis]:
                if quiet:
                    return True
                name, unit = self.axis_labels[axis], unit_symbol(str(self.units[axis]))
                low, high = self.extent.world[:, axis]
                Window.current.show_passing(
                    f"Nothing is done outside of the labels.\n{self.name} goes from"
                    f" {low:g} to {high:g} {unit} along {name}. Move the slider there."
                )
                return True
        return False

    # Edits.

    def restore_edits(
        self, edits: Sequence[Edit], drawn: Canvas | None = None, lasting: int = 0
    ) -> None:
        """Add edits of earlier sessions, each one step of undo but the `lasting` first.

        The type of the labels is widened where one does not fit. `drawn` has the same
        edits, rasterised in a worker; see `Canvas.copy_with`.
        """
        for label in {edit.label for edit in edits}:
            self._validate_label_in_range(label)
        self.canvas.add_edits(edits, drawn, lasting)
        self._reset_history()
        self.events.paint(value=list(edits))
        self.check_dirty()
        tile = slicing_of(self).screen_part()
        if tile is not None:
            self._read_again(tile)

    def undo(self) -> None:
        """Undo the last stroke; explain where there is none, as after a return."""
        if self.refuses_edits("undone"):
            return
        can_undo = self._undo_history and self.canvas.log.can_undo
        if not (can_undo or self.is_painting or self.read_only):
            limited = self.canvas.log.undo_limit
            text = LASTING if limited else NOTHING_TO_UNDO.format(self._history_limit)
            show_info(text)
        super().undo()

    def undo_all(self) -> bool:
        """Undo all strokes since the labels were opened; return whether all are.

        napari counts the last 100 alone.
        """
        has_any = self.canvas.log.can_undo
        while self.canvas.log.can_undo and not self.refuses_edits("undone"):
            if not self._undo_history:
                self._reset_history()
            self.undo()
        return has_any and not self.canvas.log.can_undo

    def redo(self) -> None:
        """Do the last stroke again that was undone."""
        if not self.refuses_edits("redone"):
            super().redo()

    def _painted_place(
        self, coord: Sequence[float]
    ) -> tuple[tuple[int, ...], dict[int, int]]:
        """Return the painted axes, and the index on each other axis.

        Raises
        ------
        IndexError
            Outside of the layer.
        """
        axes = tuple(painted_axes(self))
        fixed = {i: int(np.round(c)) for i, c in enumerate(coord) if i not in axes}
        for axis, index in fixed.items():
            if not 0 <= index < self.data.shape[axis]:
                msg = f"{self.name} has no plane {index} along axis {axis}."
                raise IndexError(msg)
        return axes, fixed

    def _add_shape(
        self, shape: Shape, painted_place: Any, label: int, source: int | None = None
    ) -> None:
        """Add one edit; an existing label stays where that is asked for."""
        axes, fixed = painted_place
        # Thin strokes stay visible on coarser levels. Erasing must not touch there: a
        # thin stroke of background would hide whole blocks of labels.
        touch = label != self.colormap.background_value or source is not None
        if source is None:
            source = self.only_source(label)
        planes = tuple(fixed.items())
        self._add_edit(
            Edit(shape, axes, planes, int(label), source, touch, self.list_spared())
        )

    def list_spared(self) -> LabelSet:
        """List the labels that no tool replaces: locked classes, or their objects."""
        classes = self.object_classes()
        if classes is not self._locked_objects[0]:
            labels = classes.locked_objects
            self._locked_objects = classes, LabelSet.of_labels(labels)
        objects = self._locked_objects[1]
        return objects if objects.packed else LabelSet.of_labels(self.spared)

    def next_label(self) -> int:
        """Return a label that most likely is free; reads no finer levels."""
        classes = (item.value for item in self.classes or ())
        return self.canvas.used.guess_next((*classes, self.object_classes().highest))

    def only_source(self, label: int) -> int | None:
        """Return the only label that may be drawn over; None for any."""
        if self.preserve_labels:
            return int(self._get_preserve_labels_source_label(label))
        background = self.colormap.background_value
        # "Draw only over background" would leave the eraser nothing to erase.
        if label == background and self.only_over == background:
            return None
        return self.only_over

    def _make_stroke(self, start: Any, stop: Any, steps: int, label: int) -> None:
        self._validate_label_in_range(label)
        axes, _ = painted_place = self._painted_place(stop)
        # Sizes of voxels relative to the smallest: with them a brush is round on the
        # screen where voxels are not square.
        sizes = np.abs([self.scale[axis] for axis in axes])
        points = tuple(tuple(float(p[axis]) for axis in axes) for p in (start, stop))
        weights = tuple(float(w) for w in sizes / sizes.min())
        # As napari's brush: an odd number of voxels around the centre.
        radius = float(np.floor(self.brush_size / 2) + 0.5)
        self._add_shape(Stroke(points, (steps,), radius, weights), painted_place, label)

    @contextmanager
    def block_history(self) -> Iterator[None]:
        """Make all edits one step of undo, also where an error ends them.

        napari would add the edits before the error to the next stroke.
        """
        with super().block_history():
            try:
                yield
            except BaseException:
                self._commit_staged_history()
                raise

    def paint(
        self, coord: Sequence[float], new_label: int, refresh: bool = True
    ) -> None:
        """Draw one dab of the brush; see `Labels.paint`."""
        self._make_stroke(coord, coord, 0, new_label)
        if refresh:
            self._partial_labels_refresh()

    def _draw(self, new_label: int, last_cursor_coord: Any, coordinates: Any) -> None:
        if coordinates is not None:
            self.draw_between(new_label, last_cursor_coord, coordinates)

    def draw_between(self, label: int, before: Any, position: Any) -> None:
        """Draw with the present tool from one position to another; None for a dab."""
        stop = np.asarray(position, float)
        # The first dab of a stroke has no cursor before it.
        start = stop if before is None else np.asarray(before, float)
        # Four dabs per diameter, as napari does it.
        steps = round(max(abs(stop - start)) / self.brush_size * 4)
        # In 3D points of a line are mostly in the air: each is tested, instead of one
        # stroke through all.
        is_solid = self.ndim_shown == 3
        if not (is_solid or self._is_in_plane(start, stop)):
            return
        if self.mode == FILL or is_solid:
            self._dab_each(label, start, stop, steps)
        elif self.mode in (PAINT, ERASE):
            self._make_stroke(start, stop, steps, label)
        self._partial_labels_refresh()

    def _is_in_plane(self, start: Any, stop: Any) -> bool:
        """Return whether both ends of a stroke are in one plane of the layer."""
        for axis in set(range(self.ndim)) - set(painted_axes(self)):
            planes = np.round([start[axis], stop[axis]])
            if planes[0] != planes[1] or not 0 <= planes[0] < self.data.shape[axis]:
                return False
        return True

    def _dab_each(self, label: int, start: Any, stop: Any, steps: int) -> None:
        # Without the first point, which the move before has drawn.
        points = np.linspace(start, stop, steps + 1)[1 if steps else 0 :]
        for point in dict.fromkeys(map(tuple, np.round(points))):
            solid = self.ndim_shown == 2 or shown_value(self, point)
            if solid and self.mode == FILL:
                self.fill(point, label, refresh=False)
            elif solid and self.mode in (PAINT, ERASE):
                self.paint(point, label, refresh=False)

    def draw_hits(self, label: int, hits: Sequence[VoxelHit]) -> None:
        """Draw with the present tool at voxels that the mouse hits in 3D."""
        for hit in hits:
            if self.mode == FILL:
                voxel = labelled_voxel(self, hit)
                if voxel is not None:
                    self.fill(voxel, label, refresh=False)
            elif self.mode in (PAINT, ERASE):
                self.paint(hit.voxel, label, refresh=False)
        self._partial_labels_refresh()

    def paint_polygon(self, points: Any, new_label: int) -> None:
        """Fill a polygon; see `Labels.paint_polygon`.

        One that was drawn in the window is filled on the plane on screen, or refused
        with a notice. By code it is filled on the plane of its first corner.

        Raises
        ------
        NotImplementedError
            In other than two dimensions.
        """
        corners, drawn = np.array(points, float), self.polygon
        by_hand = points is drawn.points
        if by_hand:
            drawn.points = []  # also where it fails, or the next one would begin there
        if by_hand or self.ring.active:
            if self.refuses_plane():
                return
            for axis, plane in slicing_of(self).planes.items():
                corners[:, axis] = plane
        self._validate_label_in_range(new_label)
        axes, _ = painted_place = self._painted_place(corners[0].tolist())
        if len(axes) != 2:
            msg = "Polygon painting is implemented only in 2D."
            raise NotImplementedError(msg)
        shape = self.data.shape
        frame = shape[axes[0]], shape[axes[1]]
        # Cut, not rounded, as in napari.
        outline = tuple((int(p[axes[0]]), int(p[axes[1]])) for p in corners)
        self._add_shape(Polygon(outline, frame), painted_place, new_label)
        self._partial_labels_refresh()

    def fill(
        self, coord: Sequence[float], new_label: int, refresh: bool = True
    ) -> None:
        """Fill the region around a voxel, or all of its label; see `Labels.fill`.

        Exact up to `FILL_BUDGET` voxels; of a larger region nothing is filled.
        """
        self._validate_label_in_range(new_label)
        axes, _ = painted_place = self._painted_place(coord)
        voxel = [int(np.round(c)) for c in coord]
        shape = self.data.shape
        if any(not 0 <= i < size for i, size in zip(voxel, shape, strict=True)):
            return
        old = int(self.canvas.levels[0].read_points([[i] for i in voxel])[0])
        if old == new_label:
            return
        # Locked labels, and others than the one that may be drawn over, are not filled.
        locked = self.list_spared().find_in(np.array(old))
        if locked or self.only_source(new_label) not in (None, old):
            return
        if self.contiguous:
            runs = flood_region(self.canvas.levels[0], voxel, axes)
            if runs is None:
                show_warning(
                    "Nothing was filled.\nThe region is larger than"
                    f" {FILL_BUDGET // 10**6} million pixels: outline it with the"
                    " polygon tool, or close it with the brush first."
                )
                return
            self._add_shape(Mask(runs), painted_place, new_label, old)
        else:
            frame = tuple(shape[axis] for axis in axes)
            # No voxel is read for this: the edit says "all of this label in this
            # plane".
            self._add_shape(Everywhere(frame), painted_place, new_label, old)
        if refresh:
            self._partial_labels_refresh()

    def replace_label(self, old: int, new: int) -> None:
        """Replace one label by another in all planes, as one step of undo.

        Reads only what is on the screen; saving reads every block.
        """
        axes = tuple(range(self.ndim))
        self.apply_edits(
            [Edit(Everywhere(self.canvas.shape), axes, (), new, old, False)],
            self.canvas,
        )

    def data_setitem(self, indices: Any, value: Any, refresh: bool = True) -> None:
        """Set single voxels of level 0, with undo; see `Labels.data_setitem`."""
        arrays = np.broadcast_arrays(*indices, np.asarray(value))
        points = np.stack([np.asarray(a, np.int64).ravel() for a in arrays], axis=1)
        sizes = np.array(self.data.shape)
        if ((points[:, :-1] < -sizes) | (points[:, :-1] >= sizes)).any():
            msg = f"Index outside of labels of shape {self.data.shape}."
            raise IndexError(msg)
        # Negative indices count from the end, as in numpy.
        points[:, :-1] %= sizes
        # As in numpy, the last one counts where a voxel is set twice.
        _, last = np.unique(points[::-1, :-1], axis=0, return_index=True)
        points = points[::-1][last]
        axes = tuple(range(self.ndim))
        with self.block_history():
            for label in np.unique(points[:, -1]):
                self._validate_label_in_range(int(label))
                chosen = points[points[:, -1] == label, :-1]
                touch = bool(label != self.colormap.background_value)
                runs = Mask(point_runs(chosen))
                self._add_edit(Edit(runs, axes, (), int(label), None, touch))
        if refresh:
            self._partial_labels_refresh()


def save_labels(layer: OMEZarrLabels) -> None:
    """Save what was painted into the file that it was opened from."""
    if layer.saver is None:
        reason = layer.read_only or "it was not opened from an OME-Zarr"
        text = f"{layer.name} cannot be saved in place: {reason}"
        show_warning(f"Labels are not saved.\n{text}")
    elif not (
        layer.unsaved and has_no_file(layer) and Window.current.save_with_image(layer)
    ):
        layer.saver.save()


@OMEZarrLabels.bind_key("m", overwrite=True)  # type: ignore[untyped-decorator]
def select_next_label(layer: OMEZarrLabels) -> None:
    """Select a label that is not used yet."""
    layer.selected_label = layer.next_label()


@OMEZarrLabels.bind_key("[", overwrite=True)  # type: ignore[untyped-decorator]
def shrink_brush(layer: OMEZarrLabels) -> None:
    """Make the brush smaller by a tenth, at least by one voxel."""
    layer.brush_size -= max(1, layer.brush_size // 10)


@OMEZarrLabels.bind_key("]", overwrite=True)  # type: ignore[untyped-decorator]
def grow_brush(layer: OMEZarrLabels) -> None:
    """Make the brush larger by a tenth, at least by one voxel."""
    layer.brush_size += max(1, layer.brush_size // 10)
