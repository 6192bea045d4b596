"""The gallery of a plate: its objects in an order, their crops, and their classes."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.object_classes import pack_labels
from napari_ngff.plate.results.object_classifier import PREDICTED, find_clicked
from napari_ngff.plate.results.object_crops import (
    CENTROID,
    SIDE,
    CropField,
    CropView,
)
from napari_ngff.plate.tables.labelled_image import AREA, CLASS, VOLUME
from napari_ngff.plate.tables.object_columns import find_order
from napari_ngff.plate.tables.table import (
    FIELD,
    LABEL,
    PLACES,
    WELL,
    text_categories,
)
from napari_ngff.store.lru_cache import ENTRY, ByteCache
from napari_ngff.store.threads import share_work
from napari_ngff.viewer.annotations.object_class_annotation import begin_aside
from napari_ngff.viewer.plans.layer_plan import origin_of
from napari_ngff.viewer.results.well_table import NO_OBJECTS, find_objects
from napari_ngff.viewer.services.latest_task import LatestTask, TaskTurn
from napari_ngff.viewer.services.notices import count_noun
from napari_ngff.viewer.services.window import Signal, attempt_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari_ngff.viewer.results.plate_objects import Place, PlateObjects

KEPT_FIELDS, KEPT_BYTES = 256, 1 << 27

ROOM, SIZES = 1.7, ((AREA, 1 / 2), (VOLUME, 1 / 3))
"""Sides of a crop for that of an object as a square or cube, and columns of sizes."""

KEPT = (*PLACES, "t", "time")
"""Columns that say which object a row is of."""

CLASSES = PREDICTED, CLASS
"""Columns of classes; of both, the last one counts."""

NOT_READ = "Wait until the crops of these objects are read."
NO_CLASS = (
    "No class has key {}. Select the labels in the layer list and add classes in"
    " Annotate first."
)


def list_objects(
    frame: Any, column: str, is_down: bool, name: str, find_clicks: Callable[[], Any]
) -> tuple[dict[str, Any], list[str], Any, float]:
    """Put objects in order; in a worker.

    Parameters
    ----------
    frame
        Their rows.
    column, is_down
        By which they are sorted; "" for the order of the table.
    name
        Of a class; "" for objects of all classes.
    find_clicks
        Called for the objects that were given a class, see `list_clicks`.

    Returns
    -------
    places, names, order, side
        The columns that say where objects are, and of which class the table has them;
        all of these classes; the rows that are shown; the side of a crop in which 95 %
        of the objects have some room, 0 where sizes are not known.
    """
    shown = np.arange(len(frame))
    texts = {x: text_categories(frame[x]) for x in CLASSES if x in frame}
    if name:
        has_name = np.zeros(len(frame), bool)
        for known in texts.values():
            has_name = np.where(known.isna(), has_name, known == name)
        # What a person gave counts more than what a table has.
        given = find_clicked(frame, find_clicks()[0])
        has_name[given["row"]] = given[CLASS] == name
        shown = np.flatnonzero(has_name)
    if column in frame:
        shown = shown[find_order(frame[column].iloc[shown], is_down=is_down)]
    kept = (x for x in frame if x in KEPT or str(x).startswith(CENTROID))
    places = {x: frame[x].to_numpy() for x in kept}
    places |= {x: known.to_numpy() for x, known in texts.items()}
    names = {name for known in texts.values() for name in known.cat.categories}
    sides = (frame[x].quantile(0.95) ** power for x, power in SIZES if x in frame)
    return places, sorted(names), shown, ROOM * next(sides, 0.0)


class Gallery:
    """Objects of a plate with their crops, which are read in workers.

    Attributes
    ----------
    objects
        Those of the plate; None before there are some.
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
    """Emitted when crops were read."""

    objects: Any = None
    note = NO_OBJECTS
    _labels = ""

    def __init__(self, is_alive: Callable[[], bool]) -> None:
        self._listing = LatestTask(is_alive)
        self._reading = LatestTask(is_alive, self._tell_read)
        self._sizing = threading.Lock()
        self._crops: ByteCache[Any] = ByteCache(KEPT_BYTES)
        self._fields: ByteCache[CropField] = ByteCache(KEPT_FIELDS * ENTRY)
        self._rows, self._view = dict[str, Any](), CropView((), 1.0)
        self.columns, self._known, self.order = list[str](), list[str](), np.arange(0)

    # Rows.

    def show(
        self, objects: PlateObjects, column: str, is_down: bool, name: str
    ) -> None:
        """Show the objects of a plate as they are now; see `list_objects`."""
        table, joined, labels = objects.table, objects.tables.joined, objects.labels
        if (objects, labels) != (self.objects, self._labels):
            self.objects, self._labels, self._side = objects, labels, 0.0
            self._crops.clear()
            self._fields.clear()
        self.columns = [] if table is None else [LABEL, *table.columns]

        def list_rows() -> Any:
            if table is None:
                raise ValueError(NO_OBJECTS)
            frame = find_objects(joined).frame
            find = partial(objects.list_clicks, table)
            found = list_objects(frame, column, is_down, name, find)
            return found, f"{len(found[2]):,} of {len(frame):,} objects."

        self._listing.start(lambda _: list_rows(), self._take_rows, self._fail)

    def _take_rows(self, found: Any) -> None:
        (self._rows, self._known, self.order, side), note = found
        self._side = self._side or side
        self._tell(note)

    def _fail(self, reason: str) -> None:
        self.order = np.arange(0)
        self._tell(reason)

    def _tell(self, note: str) -> None:
        self.note = note
        self.changed.emit()

    def find_row(self, place: int) -> dict[str, Any]:
        """Return where an object of the order is, and its class in the table."""
        row = self.order[place]
        return {name: values[row] for name, values in self._rows.items()}

    # Crops.

    def set_view(self, size: float, *, has_outline: bool) -> None:
        """Draw crops as the canvas shows images now.

        Parameters
        ----------
        size
            Side of a crop; 1 for one in which 95 % of the objects have some room.
        """
        layers, looks = self.objects.browser.layers, dict[int, Any]()
        planes = dict[str, int]()
        for layer in layers.image_layers():
            origin: Any = origin_of(layer)
            at = layer.world_to_data(layers.viewer.dims.point)
            indices = zip(layer.axis_labels, at, strict=True)
            planes |= {axis: round(index) for axis, index in indices if axis in KEPT}
            ramp = layer.colormap.map(np.linspace(0, 1, 256))[:, :3] * layer.opacity
            colors = (255 * ramp).astype(np.float32).tobytes()
            limits, channel = tuple(layer.contrast_limits), origin.channel or 0
            # Of several acquisitions the first one counts.
            if layer.visible:
                looks.setdefault(channel, (channel, limits, layer.gamma, colors))
        shown, at_planes = tuple(looks.values()), tuple(planes.items())
        self._view = CropView(shown, size, at_planes, has_outline)

    def _find_known(self, row: dict[str, Any]) -> Any:
        """Return the view and the crop of a row as they were read; None for none."""
        return self._crops.get(tuple(row[x] for x in KEPT if x in row))

    def find_crop(self, place: int) -> Any:
        """Return the crop of an object, or why there is none; None until it is read."""
        return (self._find_known(self.find_row(place)) or (None, None))[1]

    def is_read(self, row: dict[str, Any]) -> bool:
        """Return whether the crop of a row is as the canvas shows images now."""
        known = self._find_known(row)
        has_crop = known is not None and known[0] == self._view
        return has_crop and bool(self.objects.has_classes(self.objects.place_of(row)))

    def read(self, places: Iterable[int]) -> None:
        """Read the crops of the objects at some places, and of no others any more."""
        view, todo = self._view, dict[Any, list[Any]]()
        for row in map(self.find_row, places):
            if not self.is_read(row):
                todo.setdefault(self.objects.place_of(row), []).append(row)

        def read_field(place: Place, turn: TaskTurn) -> None:
            if not self.objects.has_classes(place):
                self.objects.read_classes(place)
            for row in todo[place]:
                if turn.report_progress(0, 1):
                    crop = attempt_work(partial(self._read_crop, row, place, view))
                    key = tuple(row[x] for x in KEPT if x in row)
                    self._crops.put(key, (view, crop), 3 * SIDE**2)

        def read_all(turn: TaskTurn) -> None:
            several = self.objects.browser.node.location.source.traits.at_once
            share_work(iter(todo), partial(read_field, turn=turn), len(todo), several)

        self._reading.start(read_all, self._tell_read, self._tell_read)

    def _tell_read(self, *_: Any) -> None:
        self.arrived.emit()

    def _read_crop(self, row: dict[str, Any], place: Place, view: CropView) -> Any:
        opened = self._fields.get(place)
        if opened is None:
            image = self.objects.browser.node.child("/".join(place[:2]))
            opened = CropField.open(image, place[2])
            self._fields.put(place, opened, 1)
        # Of the first field that is seen: all crops have the same size.
        with self._sizing:
            self._side = self._side or opened.find_size()
        size = view.size * self._side
        sized = CropView(view.looks, size, view.planes, view.has_outline)
        return opened.read_crop(int(row[LABEL]), row, sized)

    # Classes.

    def list_names(self) -> list[str]:
        """List the names of classes that objects have, those of number keys first."""
        items = () if self.objects is None else self.objects.list_classes()
        return [*dict.fromkeys((*(x.name for x in items), *self._known))]

    def describe(self, place: int) -> tuple[str, str, Any]:
        """Name an object, its class, and the colour of the class that it was given."""
        row = self.find_row(place)
        classes = self.objects.classes_of(self.objects.place_of(row))
        given = classes.class_of.get(int(row[LABEL]))
        stated = [row[x] for x in CLASSES if isinstance(row.get(x), str)]
        colors = {x.name: x.color for x in classes.classes}
        text = f"Object {row[LABEL]} of {row[WELL]}, field {row[FIELD]}"
        return text, given or "".join(stated[-1:]), colors.get(given or "")

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
        items, parts = self.objects.list_classes(), dict[Any, list[int]]()
        if number > len(items):
            return NO_CLASS.format(number)
        for row in map(self.find_row, places):
            parts.setdefault(self.objects.place_of(row), []).append(int(row[LABEL]))
        owner, given = self.objects.browser.layers.annotations, list[Any]()
        for place, labels in parts.items():
            opened = self._fields.get(place)
            if opened is None:
                return NOT_READ
            stored = self.objects.classes_of(place).put_first(items)
            given.append(begin_aside(owner, opened.node, place[2], stored))
            try:
                given[-1].classes.check_unlocked(pack_labels(labels))
            except ValueError as error:
                return str(error)
        name = items[number - 1].name if number else ""
        for each, labels in zip(given, parts.values(), strict=True):
            each.classify(labels, name)
        count = sum(map(len, parts.values()))
        return f"{count_noun(count, 'object')}: {name or 'no class'}."
