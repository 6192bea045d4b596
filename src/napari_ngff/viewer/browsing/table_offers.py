"""Finds the tables of a plate or collection, and makes tables of its images."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.field_states import TODO, FieldStates
from napari_ngff.labels.kept_edits import address_text
from napari_ngff.plate.results.object_classifier import PREDICTED
from napari_ngff.plate.tables.feature_table import CONDITIONS
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
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.notices import join_names, notice_text, shorten_name
from napari_ngff.viewer.services.window import attempt_work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from napari_ngff.plate.plate_layout import PlateMap
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.browser import Browser

WELLS_ASKED = 4
"""Number of wells whose list of images is read to look for tables."""

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
    """Read which tables are in a plate and in its images, and of which labels there are
    numbers.

    Fields of all wells have the names that they have in the first wells. Of a server
    only these are asked.
    """
    node, offers, labels = browser.node, list[TableOffer](), tuple[str, ...]()
    # A damaged list of tables; all else can be used.
    with suppress(OMEZarrError, OSError):
        offers += [TableOffer(TableOrigin.PLATE, name) for name in list_tables(node)]
        labels = browser.label_names()
    # States are no file of a table: they are offered as soon as one field has a state.
    with suppress(OMEZarrError, OSError):  # reported when a round of annotation begins
        offers += [TableOffer(TableOrigin.STATES, "")] * FieldStates(node).has_any
    wells: list[str | None] = [well.path for well in browser.map.wells] or [None]
    asked = WELLS_ASKED if node.location.source.traits.is_remote else None
    fields = dict[str, None]()
    for well in wells[:WELLS_ASKED]:
        with suppress(OMEZarrError, OSError):  # the map shows it crossed
            listed = browser.fields_of(well).fields
            fields |= dict.fromkeys(each.position.field for each in listed)
    for path in (
        FieldPath(well, name).path for well in wells[:asked] for name in fields
    ):
        with suppress(OMEZarrError, OSError):
            offers += [
                TableOffer(TableOrigin.IMAGES, name) for name in list_tables(node, path)
            ]
    offers += [TableOffer(TableOrigin.COUNT, name) for name in labels]
    return tuple(dict.fromkeys(offers))


@dataclass(frozen=True, slots=True, eq=False)
class TableRead:
    """A table that was read or measured.

    Attributes
    ----------
    tables
        The table, and others of the same file; none where it cannot be read.
    note
        A sentence for the user: how much was found, or what is of no well.
    notice
        Which images are left out, and why; "" for none.
    """

    tables: tuple[WellTable, ...]
    note: str = ""
    notice: str = ""


def read_offer(
    node: Node,
    offer: TableOffer,
    plate: PlateMap,
    goes_on: Callable[[int, int], bool] = lambda done, total: True,
    **which: Any,
) -> TableRead | None:
    """Read a table, or make one by reading each image. A file is remembered.

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
    notes = list[str]()
    if offer.source is TableOrigin.FILE:
        tables = read_tables(offer.path, alone=not names)
        note, time = note_of(node), os.path.getmtime(offer.path)
        path, before = list_files(settings.read_note(note)).get(offer.name, ("", 0))
        if path == offer.path and before != time:
            notes.append(f"{offer.name} has changed since it was read the last time.")
        settings.change_note(
            note, lambda noted: {**list_files(noted), offer.name: [offer.path, time]}
        )
    elif offer.source is TableOrigin.STATES:
        tables = [states_table(node)]
    else:
        tables = [read_listed_table(node, offer.name)]
    tables = [locate_rows(node, table.place_on(names)) for table in tables]
    others = tables[0].list_others() if names else ()
    listed = _list_some([key.replace("/", "") for key in others])
    notes += [f"Not on this plate, in {offer.title}: {listed}."] * bool(listed)
    return TableRead(tuple(tables), " ".join(notes))


def read_wanted(node: Node, plate: PlateMap) -> list[tuple[TableOffer, TableRead]]:
    """Read the files that were loaded for a plate before, and conditions in the plate.

    The notes name files that cannot be read, and why not; conditions that cannot be
    read are only offered.
    """
    noted = settings.read_note(note_of(node))
    offers = [
        TableOffer(TableOrigin.FILE, name, path)
        for name, (path, _) in list_files(noted).items()
    ]
    with suppress(OMEZarrError, OSError):  # a damaged list of tables
        offers += [
            TableOffer(TableOrigin.PLATE, name)
            for name in list_tables(node)
            if node.child(f"tables/{name}").attributes.get("type") == CONDITIONS
        ]
    reads = [attempt_work(partial(read_offer, node, offer, plate)) for offer in offers]
    return [
        (x, TableRead((), f"Not read: {y}") if isinstance(y, str) else y)
        for x, y in zip(offers, reads, strict=True)
        if x.path or not isinstance(y, str)
    ]


def describe_reads(found: Sequence[tuple[TableOffer, TableRead]]) -> str:
    """Name the tables that `read_wanted` has read, and say what it tells of them."""
    titles = [offer.title for offer, read in found if read.tables]
    again = f"Read again: {join_names(titles)}." if titles else ""
    return " ".join(filter(None, (again, *(read.note for _, read in found))))


def note_of(node: Node) -> str:
    """Return the name of the note with the files that were loaded for a plate.

    It has the path of each by its name, and when it was written.
    """
    digest = hashlib.sha256((address_text(node) or str(node)).encode()).hexdigest()
    return f"tables/{digest[:12]}"


def list_files(noted: Any) -> dict[str, tuple[str, float]]:
    """List the files of a note; a damaged one has none."""
    return {
        name: (*entry,)
        for name, entry in (noted.items() if isinstance(noted, dict) else ())
        if isinstance(entry, list) and len(entry) == 2
    }


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
    note += _note_unpredicted(before, table)
    heading = f"Left out: {shorten_name(', '.join(left_out))}"
    notice = notice_text(problems, heading) if left_out else ""
    return TableRead((table,), note, notice)


def _note_unpredicted(before: WellTable | None, table: WellTable) -> str:
    """Count the objects that an earlier table had predicted classes of."""
    if before is None or PREDICTED not in before.frame:
        return ""
    lost = table.frame.reindex(columns=[PREDICTED])[PREDICTED].isna().sum()
    have = "object has" if lost == 1 else "objects have"
    return f" {lost:,} {have} no predicted class now: predict again." * bool(lost)


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
