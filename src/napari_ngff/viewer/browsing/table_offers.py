"""Finds the tables of a plate or collection, and makes tables of its images."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.field_states import TODO, FieldStates
from napari_ngff.plate.tables.files import read_listed_table, read_tables
from napari_ngff.plate.tables.measure_labels import (
    MEASURE,
    FieldPath,
    count_field,
    join_measured,
    measure,
    places_of,
    table_of_field,
)
from napari_ngff.plate.tables.table import (
    FIELD,
    WELL,
    WellTable,
    locate_rows,
    make_table,
)
from napari_ngff.store.hierarchy.summary import list_tables
from napari_ngff.viewer.services.notices import notice_text, shorten_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from napari_ngff.plate.plate_layout import PlateMap
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.browser import Browser

WELLS_ASKED = 4
"""Number of wells whose first image is searched for tables."""

MOST_NAMED = 3
"""Wells and images that a message names; the others are counted."""

CHOSEN = ("done", "in progress", "flagged")
"""Columns of `states_table`, by the first of which a map is coloured at first."""


class TableOrigin(StrEnum):
    """Where a table comes from, in the order in which tables are listed."""

    FILE = "file"
    MEASURED = "measured"
    PLATE = "plate"
    IMAGES = "images"
    STATES = "annotation"
    COUNT = "count"


TASKS: dict[TableOrigin, Callable[..., Any]] = {
    TableOrigin.IMAGES: table_of_field,
    TableOrigin.COUNT: count_field,
    TableOrigin.MEASURED: MEASURE,
}
"""Function that is called for each image, by the origin of the table."""


class MeasureScope(StrEnum):
    """The fields to measure."""

    FIELD = "in this field"
    SELECTED = "in selected wells"
    ALL = "in all fields"


@dataclass(frozen=True, slots=True)
class TableOffer:
    """A table that there is, or that can be made.

    Attributes
    ----------
    name
        Of the file, of the table, or of the labels that are counted or measured; "" of
        the states of annotation.
    path
        Of a file.
    """

    source: TableOrigin
    name: str
    path: str = field(default="", compare=False)

    @property
    def title(self) -> str:
        """The title for people."""
        titles = {
            TableOrigin.COUNT: f"number of {self.name}",
            TableOrigin.MEASURED: f"{self.name}, measured",
            TableOrigin.STATES: "annotation of fields",
            TableOrigin.IMAGES: f"{self.name} (of images)",
        }
        return titles.get(self.source, self.name)


def find_offers(browser: Browser) -> tuple[TableOffer, ...]:
    """Read which tables are in a plate and in the images of its first wells, and of
    which labels there are numbers.
    """
    node, offers = browser.node, list[TableOffer]()
    labels: tuple[str, ...] = ()
    # A damaged list of tables; all else can be used.
    with suppress(OMEZarrError, OSError):
        offers += [TableOffer(TableOrigin.PLATE, name) for name in list_tables(node)]
        labels = browser.label_names()
    # States are no file of a table: they are offered as soon as one field has a state.
    with suppress(OMEZarrError, OSError):  # reported when a round of annotation begins
        offers += [TableOffer(TableOrigin.STATES, "")] * FieldStates(node).has_any
    wells: list[str | None] = [well.path for well in browser.map.wells]
    for well in wells[:WELLS_ASKED] or [None]:
        with suppress(OMEZarrError, OSError, IndexError):  # the map shows it crossed
            first = browser.fields_of(well).fields[0].position.field
            names = list_tables(node.child(FieldPath(well, first).path))
            offers += [TableOffer(TableOrigin.IMAGES, name) for name in names]
    return (*offers, *(TableOffer(TableOrigin.COUNT, name) for name in labels))


@dataclass(frozen=True, slots=True, eq=False)
class TableRead:
    """A table that was read or measured.

    Attributes
    ----------
    note
        A sentence for the user: how much was found, or what is of no well.
    notice
        Which images are left out, and why; "" for none.
    beside
        Other tables of the same file.
    """

    table: WellTable
    note: str
    notice: str = ""
    beside: tuple[WellTable, ...] = ()


def read_offer(
    node: Node,
    offer: TableOffer,
    plate: PlateMap,
    goes_on: Callable[[int, int], bool],
    **which: Any,
) -> TableRead | None:
    """Read a table, or make one by reading each image.

    Parameters
    ----------
    plate
        The map: rows of other wells are left out, and a note names them. Files have to
        name wells if there are any.
    goes_on, which
        See `measure`, and `gather_offer`.

    Raises
    ------
    OMEZarrError, OSError
        Where it cannot be read.
    """
    names = {well.path: well.name for well in plate.wells}
    if offer.source in TASKS:
        return gather_offer(node, offer, names, goes_on, **which)
    if offer.source is TableOrigin.FILE:
        tables = read_tables(offer.path, alone=not names)
    elif offer.source is TableOrigin.STATES:
        tables = [states_table(node)]
    else:
        tables = [read_listed_table(node, offer.name)]
    table, *beside = (locate_rows(node, table.place_on(names)) for table in tables)
    others = table.list_others() if names else ()
    listed = _list_some([key.replace("/", "") for key in others])
    note = f"Not on this plate, in {offer.title}: {listed}." if listed else ""
    return TableRead(table, note, beside=tuple(beside))


def _list_some(names: Sequence[str]) -> str:
    """Name the first ones, and count the others."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def gather_offer(
    node: Node,
    offer: TableOffer,
    names: Mapping[str, str],
    goes_on: Callable[[int, int], bool],
    before: WellTable | None = None,
    **which: Any,
) -> TableRead | None:
    """Make a table by reading each image; `which`: see `measure`.

    Parameters
    ----------
    names
        Of the wells, by their paths.
    before
        The table of an earlier measurement, whose other images stay.
    """
    which = {"task": TASKS[offer.source], **which}
    found = measure(node, offer.name, goes_on=goes_on, **which)
    if found is None:
        return None
    place = {} if WELL in found.frame else {WELL: ""}
    # Labels that the rows are about, as a table of images states them itself.
    is_measured = offer.source is TableOrigin.MEASURED
    region = offer.name if is_measured else found.frame.attrs.get("region", "")
    table = make_table(found.frame, offer.title, place, region)
    table = replace(table, without=found.empty).place_on(names)
    counted, count = f"Rows read: {len(table):,}", len(table)
    if is_measured:
        counted = f"Measured {found.rows_text}"
    elif offer.source is TableOrigin.COUNT:
        counted = f"Labels counted: {found.frame['labels'].sum():,}"
    note = f"{counted} in {found.found:,} of {found.total:,} images."
    # Each problem begins with the address of what cannot be read.
    problems = [problem.replace(f"{node}/", "") for problem in found.problems]
    left_out = [problem.partition(": ")[0] for problem in problems]
    if left_out:
        note += f" Left out: {_list_some(left_out)}."
    if is_measured:
        note += f" {found.size_note}".rstrip()
    if before is not None:
        table = join_measured(before, table)
    if len(table) > count:
        note += f" {len(table) - count:,} rows of other images stay."
    heading = f"Left out: {shorten_name(', '.join(left_out))}"
    notice = notice_text(problems, heading) if left_out else ""
    return TableRead(table, note, notice)


def states_table(node: Node) -> WellTable:
    """Read how far the annotation of each field is; the documents of all wells, too.

    Returns
    -------
    Table
        A row per field: the name of the "labels" annotated last, their "state" in it as
        text, and for each of `CHOSEN` a column that is
        1 where it is the field's state, else 0. So the mean of "done" is the share of
        the fields of a well that are done.

    Raises
    ------
    OMEZarrError, OSError
        Where the states cannot be read.
    """
    import pandas as pd

    states = FieldStates(node)
    labels = states.newest_labels
    # Of the labels annotated last: one field may be done for some labels alone.
    known = states.all_states(labels)
    rows = [
        (place.well or "", place.field, labels, known.get(place.path, TODO))
        for place in places_of(node)
    ]
    frame = pd.DataFrame(rows, columns=[WELL, FIELD, "labels", "state"])
    for state in CHOSEN:
        frame[state] = (frame["state"] == state).astype(int)
    place = {} if node.metadata.plate is not None else {WELL: ""}
    return make_table(frame, "annotation of fields", place)
