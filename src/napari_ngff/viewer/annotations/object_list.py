"""The list of the objects of labels on screen: read, ordered, coloured by a column."""

from __future__ import annotations

import math
import time
import weakref
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.object_classes import ObjectClass, ObjectClasses
from napari_ngff.metadata.systems import Axis
from napari_ngff.plate.results.object_classifier import PREDICTED
from napari_ngff.plate.tables.conditions import parse_filter
from napari_ngff.plate.tables.labelled_image import (
    CLASS,
    SIZE_NOTE,
    VOXELS,
    LabelledImage,
)
from napari_ngff.plate.tables.object_columns import (
    find_order,
    join_columns,
    read_feature_tables,
)
from napari_ngff.plate.tables.statistics import LabelStatistics, add_up
from napari_ngff.plate.tables.table import LABEL
from napari_ngff.store.arrays.boxes import Box, box_shape
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.pyramids.pyramid import innermost_source
from napari_ngff.store.threads import CORES, share_work
from napari_ngff.viewer.annotations.object_class_annotation import (
    NO_CLASS,
    known_classes,
)
from napari_ngff.viewer.layers.coloring import Coloring, color_objects
from napari_ngff.viewer.layers.label_colors import color_groups, hide_labels
from napari_ngff.viewer.layers.label_owners import TARGET, place_of_labels
from napari_ngff.viewer.painting.layer_measuring import nodes_of
from napari_ngff.viewer.painting.object_edits import (
    searched_level,
    space_axes,
    widen_box,
)
from napari_ngff.viewer.plans.layer_plan import is_joined, origin_of
from napari_ngff.viewer.saving.layer_description import INDEX
from napari_ngff.viewer.services.latest_task import LatestTask
from napari_ngff.viewer.services.notices import join_names
from napari_ngff.viewer.services.window import Signal, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.canvas_level import CanvasLevel
    from napari_ngff.labels.edits import Edit
    from napari_ngff.viewer.annotations.annotations import Annotations
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

RowQuery = tuple[str, str, bool]
"""Which objects are listed: a filter as on the map of a plate, in which an id stands
for itself; the column by which they are ordered, and whether from its end."""

AT_ONCE = 1 << 24
"""Voxels up to which objects are listed without being asked for."""

NO_CLASS_NAME = "no class"
"""Value of the column `CLASS` of objects without a class."""

OVERVIEW = "An overview shows many fields. Show one of them to list its objects."

NOT_READ = "Some chunks could not be read: objects in them are missing, or too small."

COARSE = "By level {}: sizes are about right, and small objects may be missing."


@dataclass(frozen=True, slots=True, eq=False)
class ShownLabels:
    """What a layer of labels shows: those of one field, at one time point.

    Attributes
    ----------
    planes
        Index on level 0, by axis that is not of space.
    edits, state
        Of the canvas, and what else differs where other objects are to be listed.
    """

    layer: OMEZarrLabels
    canvas: Canvas
    planes: Mapping[int, int]
    edits: tuple[Edit, ...]
    state: tuple[int, ...]

    @classmethod
    def of_layer(cls, layer: OMEZarrLabels, point: Any) -> ShownLabels:
        """Take what a layer shows at a point of the world."""
        canvas, space = layer.canvas, space_axes(layer)
        voxel = np.clip(layer.world_to_data(point), 0, np.array(canvas.shape) - 1)
        planes = {a: round(float(i)) for a, i in enumerate(voxel) if a not in space}
        state = canvas.version, canvas.reversals, id(layer.features)
        return cls(layer, canvas, planes, canvas.edits, state)


@dataclass(frozen=True, slots=True, eq=False)
class ListedObjects:
    """All objects of labels, a row each, by ascending id.

    Attributes
    ----------
    shown
        What was listed.
    level, cut
        The level, and the part of it, that was read.
    blocks
        The objects of each block of it.
    found
        Those of all blocks.
    frame
        A pandas.DataFrame with `LABEL`, size and centre, and columns of tables.
    tables
        Those of the image that are about these labels, by their names, and notes.
    notes
        When they were read, and what is left out or wrong.
    """

    shown: ShownLabels
    level: CanvasLevel
    cut: Box
    blocks: Mapping[Box, LabelStatistics]
    found: LabelStatistics
    frame: Any
    tables: tuple[Mapping[str, Any], list[str]]
    notes: list[str]


def list_objects(
    shown: ShownLabels,
    before: ListedObjects | None,
    goes_on: Callable[[int, int], bool],
) -> ListedObjects:
    """List the objects of labels; slow, so in a worker.

    Parameters
    ----------
    before
        An earlier list of the same: only blocks that were edited since are read again.
    goes_on
        Called with the number of blocks that are read, and of all.
    """
    layer, origin = shown.layer, origin_of(shown.layer)
    if origin is not None and origin.picture is not None and is_joined(origin.picture):
        raise ValueError(OVERVIEW)
    level, cut = searched_level(shown.canvas, shown.planes)
    image, tables = _open_level(shown, level, cut), _read_tables(layer, before)
    blocks = {} if before is None else _keep_blocks(before, shown)
    todo = [box for box in image.list_blocks() if box not in blocks]

    def read_block(box: Box) -> None:
        if goes_on(len(blocks), len(blocks) + len(todo)):
            blocks[box] = image.measure_block(box)[1]

    share_work(iter(todo), read_block, len(todo), CORES)
    found = add_up([*blocks.values()])
    frame = image.tabulate_blocks([((0,) * len(image.outer_axes), found)])
    units = frame.attrs[SIZE_NOTE] or "Sizes and places are in micrometres."
    source = innermost_source(level.source)
    has_failed = getattr(getattr(source, "array", None), "has_failed", False)
    doubts = COARSE.format(level.number) * bool(level.number), NOT_READ * has_failed
    notes = [time.strftime("Read at %H:%M."), units, *doubts, *tables[1]]
    frame = frame.drop(columns=VOXELS)
    outer = {layer.axis_labels[axis]: index for axis, index in shown.planes.items()}
    told: dict[str, list[str]] = {}
    for name, table in tables[0].items():
        frame, more = join_columns(frame, name, table, outer)
        for note in more:
            told.setdefault(note.removeprefix(f"Table {name}: "), []).append(name)
    for text, names in told.items():
        notes.append(f"Table{'s' * (len(names) > 1)} {join_names(names)}: {text}")
    if INDEX in layer.features:
        rows = layer.features.drop(columns=LABEL, errors="ignore")
        # A class that nobody has painted has features, too, which is no fault.
        rows = rows.rename(columns={INDEX: LABEL})
        frame, _ = join_columns(frame, "properties", rows, outer)
    return ListedObjects(shown, level, cut, blocks, found, frame, tables, notes)


def _open_level(shown: ShownLabels, level: CanvasLevel, cut: Box) -> LabelledImage:
    layer, space, order = shown.layer, space_axes(shown.layer), tuple(range(level.ndim))
    window = ArrayWindow(level, order, cut)
    ratios = np.divide(shown.canvas.shape, level.shape)
    axes = tuple(
        Axis(name, "space" if axis in space else "other", str(layer.units[axis]))
        for axis, name in enumerate(layer.axis_labels)
    )
    # The middle of a voxel of the level is not that of one of level 0.
    corner = layer.translate + layer.scale * (ratios - 1) / 2
    scale = tuple(layer.scale * ratios)
    return LabelledImage(
        window, window, axes, order, order, None, (), scale, tuple(corner)
    )


def _keep_blocks(
    before: ListedObjects, shown: ShownLabels
) -> dict[Box, LabelStatistics]:
    """Keep the blocks that hold since a list was made; none after an undo."""
    old, level = before.shown, before.level
    if old.state[1] != shown.state[1]:
        return {}
    pairs = zip(old.edits, shown.edits, strict=False)
    same = len([*takewhile(lambda pair: pair[0] is pair[1], pairs)])
    edits = *old.edits[same:], *shown.edits[same:]
    corner = [start for start, _ in before.cut]

    def holds(box: Box) -> bool:
        ends = zip(box, corner, strict=True)
        there = tuple((start + at, stop + at) for (start, stop), at in ends)
        return not any(edit.region_in(level.grid, there) for edit in edits)

    return {box: found for box, found in before.blocks.items() if holds(box)}


def _read_tables(
    layer: OMEZarrLabels, before: ListedObjects | None
) -> tuple[Mapping[str, Any], list[str]]:
    if before is not None:
        return before.tables
    nodes = nodes_of(layer)
    node = nodes[0] if nodes else getattr(layer.metadata.get(TARGET), "node", None)
    return read_feature_tables(node, place_of_labels(layer)[1]) if node else ({}, [])


def find_rows(
    listed: ListedObjects, query: RowQuery, classes: ObjectClasses
) -> tuple[Any, str]:
    """Return rows of a list in order, and why a filter is none; "" where it is one.

    Parameters
    ----------
    classes
        Of the objects.
    """
    text, column, is_descending = query
    names: Any = NO_CLASS_NAME
    frame = listed.frame.copy(deep=False)
    # Names of a million objects hold up other threads: only where they are asked for.
    if CLASS in f"{text} {column}".casefold():
        names = classes.class_of.names_of(listed.found.labels, NO_CLASS_NAME)
    frame.insert(1, CLASS, names)
    try:
        frame, failure = frame[_filter_rows(frame, text)], ""
    except ValueError as error:
        failure = str(error)
    keys = frame[column if column in frame else LABEL]
    return frame.iloc[find_order(keys, is_down=is_descending)], failure


def _filter_rows(frame: Any, text: str) -> Any:
    words, conditions = parse_filter(text, list(frame.columns))
    wrong = [word for word in words if not word.isdecimal()]
    if wrong:
        msg = f"{wrong[0]!r} is neither an id nor a test. Write it so: area > 200."
        raise ValueError(msg)
    met = frame[LABEL].isin([*map(int, words)]).to_numpy() | (not words)
    for condition in conditions:
        met &= condition.rows_meeting(frame)
    return met


def color_listed(
    own: Any, values: Any, classes: Iterable[ObjectClass], is_log: bool
) -> tuple[Any, Coloring]:
    """Make a colormap of the values of objects, and what its colours mean.

    Parameters
    ----------
    own
        The colormap of the layer, whose own colours a file gets.
    values
        A pandas.Series whose index has the ids.
    classes
        Whose names are values.
    """
    known = {item.name: item.color[:3] for item in classes}
    coloring, numbers = color_objects(values, known, is_log=is_log)
    has_color = ~np.isnan(numbers)
    # Those of 64 bits as signed integers, as `as_int64` makes them.
    labels = values.index[has_color].to_numpy().astype(np.int64)
    groups = numbers[has_color]
    palette = np.array([(*color, 255) for color in coloring.colors]) / 255
    made = color_groups(own, labels, groups.astype(np.intp), palette, NO_CLASS)
    return made, coloring


class ObjectList:
    """The objects of one layer, as far as a filter leaves them.

    Parameters
    ----------
    is_alive
        Asked before an answer of a worker is taken.

    Attributes
    ----------
    listed
        The objects; None until they are read.
    query
        Which of them are to be seen, and in which order.
    frame
        Their rows, in order.
    progress
        How much is read, 0-1; None while nothing is.
    failure
        Why there is no list, or no such filter; "" for neither.
    column
        The name of the column that colours the objects; "" for their own colours.
    colors
        Of the layer; None without one.
    """

    changed = Signal()
    """Emitted when rows are others, or with how far reading is."""

    listed: ListedObjects | None = None
    progress: float | None = None
    query: RowQuery = ("", LABEL, False)
    _layer: OMEZarrLabels | None = None
    _shown: ShownLabels | None = None
    colors: ObjectColors | None = None
    _is_log = False

    def __init__(self, annotations: Annotations, is_alive: Callable[[], bool]) -> None:
        self._annotations = annotations
        self._reading = LatestTask(is_alive, self._show_progress)
        self._ordering = LatestTask(is_alive)
        self.set_layer(None)

    def set_layer(self, layer: OMEZarrLabels | None) -> None:
        """List the objects of another layer."""
        self.color_by("")
        self._layer, self._most = layer, float(AT_ONCE)
        self.colors = None if layer is None else colors_of(layer)
        self._forget()

    def _forget(self) -> None:
        """Drop what was read, also what a worker reads now."""
        self._reading.cancel()
        self._ordering.cancel()
        self.listed = self._shown = self.progress = None
        self.frame, self.failure = None, ""
        self.changed.emit()

    # Reading.

    def check(self) -> ShownLabels | None:
        """Drop objects that are not on screen any more; return what is there."""
        if self._layer is None:
            return None
        now = ShownLabels.of_layer(self._layer, self._annotations.viewer.dims.point)
        shown = self._shown
        if shown and (shown.canvas, shown.planes) != (now.canvas, now.planes):
            self._forget()
            self._show_colors()
        return now

    def refresh(self, *, again: bool = False) -> None:
        """List what is on screen, if it is small or was asked for.

        Parameters
        ----------
        again
            Whether to read everything once more.
        """
        now, shown = self.check(), self._shown
        if now is None or (shown and shown.state == now.state and not again):
            return
        self._most = math.inf if again else self._most
        if math.prod(box_shape(searched_level(now.canvas, now.planes)[1])) > self._most:
            return
        self._shown, self.progress = now, 0.0
        before, query = None if again else self.listed, self.query
        classes = self.classes

        def read(turn: Any) -> Any:
            listed = list_objects(now, before, turn.report_progress)
            return listed, query, find_rows(listed, query, classes)

        self._reading.start(read, self._take_listed, self._fail)
        self.changed.emit()

    def _show_progress(self, count: int, total: int) -> None:
        self.progress = count / total
        self.changed.emit()

    def cancel(self) -> None:
        """Read no further; an earlier list stays."""
        self._reading.cancel()
        self._fail("Reading was cancelled.")

    def _fail(self, reason: str) -> None:
        self.progress, self.failure = None, reason
        self.changed.emit()

    def _take_listed(self, found: tuple[ListedObjects, RowQuery, Any]) -> None:
        self.listed, query, rows = found
        self.progress = None
        self._take_rows(rows)
        self._show_colors()
        self._ordering.cancel()  # of the rows of before
        if query != self.query:
            self.order(self.query)

    # Rows.

    @property
    def classes(self) -> ObjectClasses:
        """The classes of the objects as they are now."""
        layer, owner = self._layer, self._annotations
        return ObjectClasses() if layer is None else known_classes(owner, layer)

    def order(self, query: RowQuery) -> None:
        """List the objects that meet a filter, in an order."""
        self.query, listed = query, self.listed
        if listed is not None:
            find = partial(find_rows, listed, query, self.classes)
            self._ordering.start(lambda _: find(), self._take_rows, self._fail)

    def _take_rows(self, found: tuple[Any, str]) -> None:
        self.frame, self.failure = found
        self.changed.emit()

    def box_of(self, label: int) -> Box | None:
        """Return the box of an object on level 0; None where it is to be looked for."""
        now, listed = self.check(), self.listed
        if now is None or listed is None or now.state != listed.shown.state:
            return None
        row = int(np.searchsorted(listed.found.labels, label))
        if label not in listed.found.labels[row : row + 1]:
            return None
        corner = [start for start, _ in listed.cut]
        ends = listed.found.starts[row] + corner, listed.found.stops[row] + corner
        return widen_box(listed.level, *ends)

    # Colours.

    def color_by(self, column: str, *, is_log: bool = False) -> None:
        """Colour the objects by a column; "" for their own colours."""
        self.column, self._is_log = column, is_log
        self._show_colors()

    def _show_colors(self) -> None:
        listed, column, values = self.listed, self.column, None
        if listed is not None and column in listed.frame:
            # Of the other columns of a million rows, none is copied.
            values = listed.frame[column].set_axis(listed.frame[LABEL])
        elif column == CLASS:
            values = CLASS
        if self.colors is not None:
            self.colors.color_by(values, is_log=self._is_log)


class ObjectColors:
    """The colours of the objects of a layer: by a column, and none of hidden classes.

    Attributes
    ----------
    coloring
        What they mean; None where they are their own.
    """

    changed = Signal()
    """Emitted when they are others."""

    coloring: Coloring | None = None
    _own: Any = None
    _made: Any = None
    _values: Any = None
    _colored = ObjectClasses()
    _is_log = False

    def __init__(self, layer: OMEZarrLabels) -> None:
        self._layer = weakref.ref(layer)
        self._coloring = LatestTask(lambda: self._layer() is not None)
        layer.events.colormap.connect(self.follow)

    def color_by(self, values: Any, *, is_log: bool = False) -> None:
        """Colour the objects by their values.

        Parameters
        ----------
        values
            A pandas.Series whose index has the ids; `CLASS` for their classes, and None
            for their own colours.
        """
        self._values, self._is_log = values, is_log
        self._show_colors()

    def follow(self, _: Any = None) -> None:
        """Follow the classes, and take colours from elsewhere as those of the layer."""
        layer, before = self._layer(), self._colored
        assert layer is not None
        now = layer.object_classes()
        hides = any(item.hidden for item in (*before.classes, *now.classes))
        is_own = all(layer.colormap is not x for x in (self._made, self._own))
        if is_own:
            self._own = None
        follows = hides or isinstance(self._values, str)
        if is_own or (now is not before and follows):
            self._show_colors()

    def _show_colors(self) -> None:
        layer, values = self._layer(), self._values
        assert layer is not None
        self._colored = classes = layer.object_classes()
        hidden = [item.name for item in classes.classes if item.hidden]
        if not (values is not None or hidden):
            self._coloring.cancel()
            own, self._own = self._own, None
            if own is not None:
                self._give_colors(own, None)
            return
        own = self._own = layer.colormap if self._own is None else self._own
        is_log = self._is_log

        def color(_: Any) -> tuple[Any, Coloring | None]:
            import pandas as pd

            made, coloring = own, None
            # Those of a class also where they are not listed.
            if isinstance(values, str):
                known = classes.class_of
                names = pd.Categorical.from_codes(known.codes, known.names)
                classed = pd.Series(names, known.labels, name=CLASS)
                made, coloring = color_listed(own, classed, classes.classes, is_log)
            elif values is not None:
                named = classes.classes if values.name == PREDICTED else ()
                made, coloring = color_listed(own, values, named, is_log)
            return hide_labels(made, classes.class_of.only(*hidden).labels), coloring

        give, notify = lambda made: self._give_colors(*made), Window.current.notify
        self._coloring.start(color, give, notify)

    def _give_colors(self, made: Any, coloring: Coloring | None) -> None:
        layer = self._layer()
        assert layer is not None
        shown, self._made, self.coloring = layer.colormap, made, coloring
        made.selection, made.use_selection = shown.selection, shown.use_selection
        layer.colormap = made
        self.changed.emit()


_colors: weakref.WeakKeyDictionary[OMEZarrLabels, ObjectColors] = (
    weakref.WeakKeyDictionary()
)


def colors_of(layer: OMEZarrLabels) -> ObjectColors:
    """Return the colours of the objects of a layer."""
    if layer not in _colors:
        _colors[layer] = ObjectColors(layer)
    return _colors[layer]
