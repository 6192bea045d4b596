"""The objects of a plate: those that count, their classes, and a way to each."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.object_classes import ClassChanges, ObjectClasses
from napari_ngff.plate.tables.labelled_image import CLASS, labels_of
from napari_ngff.plate.tables.table import FIELD, LABEL, PLACES, WELL
from napari_ngff.store.sources.read_ahead import call_at_once
from napari_ngff.viewer.annotations.object_class_annotation import (
    ObjectClassAnnotation,
    find_in_use,
)
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.painting.object_edits import label_region, show_region
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.services.latest_task import LatestTask
from napari_ngff.viewer.services.notices import count_noun, join_names
from napari_ngff.viewer.services.window import Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari_ngff.labels.object_classes import ObjectClass
    from napari_ngff.plate.tables.table import WellTable
    from napari_ngff.viewer.browsing.listed_tables import ListedTables
    from napari_ngff.viewer.browsing.plate_tables import PlateTables

Place = tuple[str, str, str]
"""Names of a well, a field, and the labels there."""

LOST = "Classes in {} do not count, as there are no labels '{}' any more: {}."


class PlateObjects:
    """The objects of the tables of a plate, for all pages of the dock of results.

    Parameters
    ----------
    is_alive
        Asked before an answer of a worker is taken.
    listed
        The tables of all listed plates.
    show_plate
        Shows one of these by its address, and calls a function then.

    Attributes
    ----------
    tables, browser
        Of the plate.
    """

    changed = Signal()
    """Emitted when objects have other classes."""

    def __init__(
        self,
        tables: PlateTables,
        is_alive: Callable[[], bool],
        listed: ListedTables,
        show_plate: Callable[[str, Callable[[], Any]], Any],
    ) -> None:
        self.tables, self.browser = tables, tables.browser
        self.listed, self._show_plate = listed, show_plate
        listed.arrived.connect(self._go_there)
        self._going = LatestTask(is_alive)
        self._wanted: Any = None
        self._read = dict[Place, ObjectClasses | None]()
        self.browser.layers.annotations.changed.connect(self._follow_classes)
        self.browser.layers_changed.connect(self._arrive)
        self._follow_classes()

    @property
    def table(self) -> WellTable | None:
        """The table whose rows are objects of fields; None for none."""
        table = self.tables.joined.find_objects()
        has_fields = table is not None and table.place_columns == (FIELD, LABEL)
        return table if has_fields else None

    @property
    def labels(self) -> str:
        """The name of their labels."""
        region = "" if self.table is None else self.table.region
        return region or "".join(self.tables.browser.known_labels[:1])

    def place_of(self, row: Any) -> Place:
        """Return the place of a row of the table."""
        return str(row[WELL]), str(row[FIELD]), self.labels

    # Classes.

    def _follow_classes(self) -> None:
        """Find the classes of objects that are not only in files."""
        root, opened = f"{self.browser.node}/", dict[Place, ObjectClasses]()
        for each in self.browser.layers.annotations:
            if isinstance(each, ObjectClassAnnotation):
                well, _, field = str(each.node).removeprefix(root).rpartition("/")
                opened[well, field, each.labels] = each.classes
        self._opened = opened
        for place in opened:  # once it is not open any more, its file is read again
            self._read.pop(place, None)
        self.changed.emit()

    def has_classes(self, place: Place) -> bool:
        """Return whether the classes at a place are known."""
        return place in self._opened or place in self._read

    def classes_of(self, place: Place) -> ObjectClasses:
        """Return the classes of the objects at a place, as far as they are known."""
        return self._opened.get(place) or self._read.get(place) or ObjectClasses()

    def list_classes(self) -> tuple[ObjectClass, ...]:
        """List the classes that number keys give, in their order."""
        owner = self.browser.layers.annotations
        found = find_in_use(owner, owner.browsed)
        for classes in (*self._opened.values(), *self._read.values()):
            found = classes.put_first(found).classes if classes else found
        return found

    def read_classes(self, place: Place) -> ObjectClasses | None:
        """Return the classes of the objects at a place; in a worker.

        Returns
        -------
        ObjectClasses or None
            None where the field has classes, but no labels of this name, which were
            renamed or deleted: nobody knows of which objects they are.
        """
        known = self._opened.get(place)
        if known is None and place in self._read:
            return self._read[place]
        found: ObjectClasses | None = known or ObjectClasses()
        with suppress(OMEZarrError, OSError):  # the map shows it crossed
            image = self.browser.node.child("/".join(place[:2]))
            parsed = ObjectClassAnnotation.read_parsed
            read = [] if known else parsed(image, ClassChanges.parse_text)
            for _, changes, _ in read:
                if getattr(changes, "labels", None) == place[2]:
                    found = changes.merge_into(found)
            if (known or read) and labels_of(image, place[2]) is None:
                found = None
        if known is None:  # at the end: another worker may ask for it
            self._read[place] = found
        return found

    def list_clicks(self, table: WellTable) -> tuple[Any, str]:
        """List the objects of a table that have a class; in a worker.

        Returns
        -------
        clicks
            A pandas.DataFrame with `PLACES` and `CLASS`.
        note
            In which fields classes do not count; "" for none.
        """
        import pandas as pd

        fields = table.frame[[WELL, FIELD]].drop_duplicates().to_dict("records")
        places = [*map(self.place_of, fields)]
        calls = [partial(self.read_classes, place) for place in places]
        found = call_at_once(self.browser.node.location.source, calls)
        rows, lost = list[Any](), list[str]()
        for (well, field, _), classes in zip(places, found, strict=True):
            named = classes.class_of if classes else {}
            rows += [(well, field, *item) for item in named.items()]
            lost += [] if classes else [self.browser.name_field(Position(well, field))]
        listed = pd.DataFrame(rows, columns=[*PLACES, CLASS])
        names = join_names([*lost[:3], *["others"] * (len(lost) > 3)])
        note = LOST.format(count_noun(len(lost), "field"), self.labels, names)
        # As categories they are counted in no time.
        return listed.astype({CLASS: "category"}), note if lost else ""

    # Wells, also those of other plates.

    def own_path(self, well: str) -> str:
        """Return the path of a joined well on this plate; others stay as they are."""
        address, path = self.listed.find_place(well)
        return path if address == str(self.browser.node) else well

    def select_wells(self, wells: Iterable[str]) -> None:
        """Select wells everywhere."""
        self.browser.select_wells(map(self.own_path, wells))

    @property
    def selected_wells(self) -> set[str]:
        """The wells that are selected, by their paths, and as joined ones."""
        paths = self.browser.selected_wells
        title = self.listed.titles[str(self.browser.node)]
        return {*paths, *(f"{title}/{path}" for path in paths)}

    # The way to an object.

    def go(self, row: Any) -> None:
        """Go to the well of a row, or to its object, which is selected there.

        If it is on another plate, that plate is shown instead.
        """
        address, path = self.listed.find_place(row[WELL])
        row = {**row, WELL: path}
        if address not in ("", str(self.browser.node)):
            self._show_plate(address, partial(self.listed.arrived.emit, row))
        elif LABEL in row:
            self._wanted = self.place_of(row), int(row[LABEL])
            self.browser.show_field(path, row[FIELD])
            self._arrive()
        else:
            self.browser.show_well(path)

    def _go_there(self, row: Any) -> None:
        if not self.browser.layers.are_away:  # else it is the plate before
            self.go(row)

    def _arrive(self) -> None:
        """Select the object that is wanted, once its field is on screen."""
        place, label = self._wanted or (None, 0)
        shown: dict[Any, Any] = {
            (at.well or "", at.field, layer.metadata[KEY].label_name): layer
            for layer, at in self.tables.list_labels()
        }
        layer, viewer = shown.get(place), self.browser.layers.viewer
        if layer is None and place is not None:
            at, (well, field, labels) = Position(*place[:2]), place
            now = self.browser.position
            is_there = now is not None and (now.well, now.field) == (well, field)
            if is_there or self.browser.state.wanted is None:
                self._wanted = None  # its labels are gone, or the user is elsewhere
            if is_there:
                name = self.browser.name_field(at)
                self.tables.end_task(f"{name} has no labels '{labels}' any more.")
        if layer is None:
            return
        self._wanted, viewer.layers.selection.active = None, layer

        def show(region: Any) -> None:
            layer.selected_label = label
            show_region(viewer, layer, region)

        find = partial(label_region, layer, label)
        self._going.start(lambda _: find(), show, self.tables.end_task)
