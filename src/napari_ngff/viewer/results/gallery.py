"""The gallery of a plate: its objects in an order, their crops, and their classes."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.object_classes import ObjectClasses, pack_labels
from napari_ngff.plate.results.object_classifier import PREDICTED
from napari_ngff.plate.results.object_crops import (
    CENTROID,
    SIDE,
    CropField,
    CropView,
)
from napari_ngff.plate.tables.labelled_image import AREA, CLASS, VOLUME
from napari_ngff.plate.tables.table import FIELD, LABEL, PLACES, WELL
from napari_ngff.store.lru_cache import ENTRY, ByteCache
from napari_ngff.store.threads import share_work
from napari_ngff.viewer.annotations.object_class_annotation import (
    begin_aside,
    find_in_use,
)
from napari_ngff.viewer.plans.layer_plan import origin_of
from napari_ngff.viewer.results.classifying import (
    Classes,
    ObjectVisit,
    find_open_classes,
    list_clicks,
    read_classes,
)
from napari_ngff.viewer.services.latest_task import LatestTask, TaskTurn
from napari_ngff.viewer.services.notices import count_noun
from napari_ngff.viewer.services.window import Signal, attempt_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari_ngff.labels.object_classes import ObjectClass
    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.viewer.browsing.plate_tables import PlateTables

KEPT_FIELDS, KEPT_BYTES = 256, 1 << 27

ROOM, SIZES = 1.7, ((AREA, 1 / 2), (VOLUME, 1 / 3))
"""Sides of a crop for that of an object as a square or cube, and columns of sizes."""

KEPT = (*PLACES, "t", "time")
"""Columns that say which object a row is of."""

NO_OBJECTS = "Choose a table of objects with their fields: measure labels, or load one."
NOT_READ = "Wait until the crops of these objects are read."
NO_CLASS = "No class has key {}. Add classes in the dock Annotate."


def list_objects(
    rows: WellTable, column: str, is_down: bool, name: str, find_clicks: Any
) -> tuple[dict[str, Any], Any, list[str], Any, float]:
    """Put the objects of a table in order; in a worker.

    Parameters
    ----------
    rows
        That count.
    column, is_down
        By which they are sorted; "" for the order of the table.
    name
        Of a class; "" for objects of all classes.
    find_clicks
        Called for the objects that were given a class, see `list_clicks`.

    Returns
    -------
    places, names, known, order, side
        The columns that say where objects are; the class of each in the table, "" for
        none; all of these classes; the rows that are shown; the side of a crop in which
        95 % of the objects have some room, 0 where sizes are not known.
    """
    frame, shown = rows.frame, np.arange(len(rows))
    names = np.full(len(rows), "", object)
    for known in (frame[x] for x in (PREDICTED, CLASS) if x in frame):
        names = np.where(known.isna(), names, known.astype(str))
    if name:
        clicks = find_clicks(rows)
        some = frame[[*PLACES]].assign(row=shown)[frame[LABEL].isin(clicks[LABEL])]
        both = some.astype({WELL: str, FIELD: str}).merge(clicks, on=[*PLACES])
        # What a person gave counts more than what a table has.
        given = names.copy()
        given[both["row"]] = both[CLASS].astype(object)
        shown = shown[given == name]
    if column in frame:
        values = frame[column].iloc[shown].reset_index(drop=True)
        shown = shown[values.sort_values(ascending=not is_down).index]
    columns = (x for x in frame if x in KEPT or str(x).startswith(CENTROID))
    listed = sorted(filter(None, {*names}))
    sides = (frame[x].quantile(0.95) ** power for x, power in SIZES if x in frame)
    places = {x: frame[x].to_numpy() for x in columns}
    return places, names, listed, shown, ROOM * next(sides, 0.0)


class Gallery:
    """Objects of a plate with their crops, which are read in workers.

    Attributes
    ----------
    tables
        Of the plate; None before there is one.
    columns
        By which objects can be sorted.
    order
        The rows that are shown.
    note
        How many objects there are, or why there are none.
    """

    changed = Signal()
    """Emitted when there are other objects."""

    arrived = Signal()
    """Emitted when crops were read, or objects have other classes."""

    tables: Any = None
    _labels = ""
    _side = 0.0

    def __init__(self, is_alive: Callable[[], bool]) -> None:
        self.visit, self._listing = ObjectVisit(is_alive), LatestTask(is_alive)
        self._reading = LatestTask(is_alive, self._tell_read)
        self._sizing = threading.Lock()
        self._crops: ByteCache[Any] = ByteCache(KEPT_BYTES)
        self._fields: ByteCache[CropField] = ByteCache(KEPT_FIELDS * ENTRY)
        self._read, self._opened, self._view = Classes(), Classes(), CropView((), 1.0)
        self.columns, self.order, self.note = list[str](), np.arange(0), NO_OBJECTS
        self._known = list[str]()

    # Rows.

    def show(self, tables: PlateTables, column: str, is_down: bool, name: str) -> None:
        """Show the objects of the tables as they are now; see `list_objects`."""
        table, browser = tables.joined.find_objects(), tables.browser
        if table is None or table.place_columns != (FIELD, LABEL):
            self._take_rows(({}, np.array([]), [], np.arange(0), 0.0))
            self._fail(NO_OBJECTS)
            return
        labels = table.region or "".join(tables.labels[:1])
        if (tables, labels) != (self.tables, self._labels):
            self.tables, self._labels, self._side = tables, labels, 0.0
            self._crops.clear()
            self._fields.clear()
            self._read.clear()
            self.follow_classes()
        self.columns, offer = [LABEL, *table.columns], tables.find_offer(table)
        opened, joined = find_open_classes(browser), tables.joined
        find = partial(list_clicks, browser.node, read=self._read, opened=opened)

        def list_rows() -> Any:
            rows = replace(joined.rows_that_count(offer), region=labels)
            return list_objects(rows, column, is_down, name, find)

        self._listing.start(lambda _: list_rows(), self._take_rows, self._fail)

    def _take_rows(self, found: Any) -> None:
        self._rows, self._names, self._known, self.order, side = found
        self._side = self._side or side
        self._fail(f"{len(self.order):,} of {len(self._names):,} objects.")

    def _fail(self, reason: str) -> None:
        self.note = reason
        self.changed.emit()

    def _find_row(self, place: int) -> dict[str, Any]:
        row = self.order[place]
        return {name: values[row] for name, values in self._rows.items()}

    def _field_of(self, row: dict[str, Any]) -> tuple[str, str, str]:
        return str(row[WELL]), str(row[FIELD]), self._labels

    def go(self, place: int) -> None:
        """Go to an object: its field is shown, and it is selected there."""
        row = self._find_row(place)
        self.visit.go(self.tables, self._field_of(row), int(row[LABEL]))

    # Crops.

    def set_view(self, size: float, *, has_outline: bool) -> None:
        """Draw crops as the canvas shows images now.

        Parameters
        ----------
        size
            Side of a crop; 1 for one in which 95 % of the objects have some room.
        """
        layers, looks = self.tables.browser.layers, dict[int, Any]()
        planes = dict[str, int]()
        for layer in layers.image_layers():
            origin: Any = origin_of(layer)
            at = layer.world_to_data(layers.viewer.dims.point)
            indices = zip(layer.axis_labels, at, strict=True)
            planes |= {axis: round(index) for axis, index in indices if axis in KEPT}
            ramp = layer.colormap.map(np.linspace(0, 1, 256))[:, :3] * layer.opacity
            colors = (255 * ramp).astype(np.float32).tobytes()
            limits = tuple(layer.contrast_limits)
            # Of several acquisitions the first one counts.
            if layer.visible:
                channel = origin.channel or 0
                looks.setdefault(channel, (channel, limits, layer.gamma, colors))
        shown, at_planes = tuple(looks.values()), tuple(planes.items())
        self._view = CropView(shown, size, at_planes, has_outline)

    def _id_of(self, row: dict[str, Any]) -> Any:
        return tuple(row[x] for x in KEPT if x in row)

    def find_crop(self, place: int) -> Any:
        """Return the crop of an object, or why there is none; None until it is read."""
        found = self._crops.get(self._id_of(self._find_row(place)))
        return None if found is None else found[1]

    def read(self, places: Iterable[int]) -> None:
        """Read the crops of the objects at some places, and of no others any more."""
        view, todo = self._view, dict[Any, list[Any]]()
        for row in map(self._find_row, places):
            found, field = self._crops.get(self._id_of(row)), self._field_of(row)
            has_classes = field in self._read or field in self._opened
            if found is None or found[0] != view or not has_classes:
                todo.setdefault(field, []).append(row)

        def read_field(field: Any, turn: TaskTurn) -> None:
            for row in todo[field]:
                if turn.report_progress(0, 1):
                    crop = attempt_work(partial(self._read_crop, row, field, view))
                    self._crops.put(self._id_of(row), (view, crop), 3 * SIDE**2)

        several = self.tables.browser.node.location.source.traits.at_once

        def read_all(turn: TaskTurn) -> None:
            share_work(iter(todo), partial(read_field, turn=turn), len(todo), several)

        self._reading.start(read_all, self._tell_read, self._tell_read)

    def _tell_read(self, *_: Any) -> None:
        self.arrived.emit()

    def _read_crop(self, row: dict[str, Any], field: Any, view: CropView) -> Any:
        opened, node = self._fields.get(field), self.tables.browser.node
        if opened is None:
            opened = CropField.open(node.child("/".join(field[:2])), field[2])
            self._fields.put(field, opened, 1)
        if field not in self._read:
            self._read[field] = read_classes(node, field)
        # Of the first field that is seen: all crops have the same size.
        with self._sizing:
            self._side = self._side or opened.find_size()
        size = view.size * self._side
        view = CropView(view.looks, size, view.planes, view.has_outline)
        return opened.read_crop(int(row[LABEL]), row, view)

    # Classes.

    def follow_classes(self) -> None:
        """Show the classes that objects have now."""
        if self.tables is not None:
            self._opened = find_open_classes(self.tables.browser)
        for field in self._opened:  # when it is open no more, its file is read again
            self._read.pop(field, None)
        self.arrived.emit()

    def _classes_of(self, field: Any) -> ObjectClasses:
        return self._opened.get(field) or self._read.get(field) or ObjectClasses()

    def list_names(self) -> list[str]:
        """List the names of classes that objects have, those of number keys first."""
        items = () if self.tables is None else self.list_classes()
        return [*dict.fromkeys((*(x.name for x in items), *self._known))]

    def list_classes(self) -> tuple[ObjectClass, ...]:
        """List the classes that number keys give, in their order."""
        owner = self.tables.browser.layers.annotations
        found = find_in_use(owner, owner.browsed)
        for classes in (*self._opened.values(), *self._read.values()):
            found = classes.put_first(found).classes
        return found

    def describe(self, place: int) -> tuple[str, str, Any]:
        """Name an object, its class, and the colour of the class that it was given."""
        row = self._find_row(place)
        classes = self._classes_of(self._field_of(row))
        given = classes.class_of.get(int(row[LABEL]), "")
        colors = {x.name: x.color for x in classes.classes}
        text = f"Object {row[LABEL]} of {row[WELL]}, field {row[FIELD]}"
        return text, given or self._names[self.order[place]], colors.get(given)

    def classify(self, places: Iterable[int], number: int) -> str:
        """Give objects the class of a number key, also in fields that are not open.

        Parameters
        ----------
        number
            0 takes their class off.

        Returns
        -------
        str
            What was done, or why nothing was.
        """
        items, parts = self.list_classes(), dict[Any, list[int]]()
        if number > len(items):
            return NO_CLASS.format(number)
        for row in map(self._find_row, places):
            parts.setdefault(self._field_of(row), []).append(int(row[LABEL]))
        try:
            given = [self._begin(field, items, parts[field]) for field in parts]
        except ValueError as error:
            return str(error)
        name = items[number - 1].name if number else ""
        for each, labels in zip(given, parts.values(), strict=True):
            each.classify(labels, name)
        count = sum(map(len, parts.values()))
        return f"{count_noun(count, 'object')}: {name or 'no class'}."

    def _begin(self, field: Any, items: Any, labels: list[int]) -> Any:
        """Return the classes of a field, to be given to some of its objects.

        Raises
        ------
        ValueError
            Where the field is not read, or an object has a class that is locked.
        """
        opened, owner = self._fields.get(field), self.tables.browser.layers.annotations
        if opened is None:
            raise ValueError(NOT_READ)
        stored = self._classes_of(field).put_first(items)
        classes = begin_aside(owner, opened.node, field[2], stored)
        classes.classes.check_unlocked(pack_labels(labels))
        return classes
