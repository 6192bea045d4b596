"""Finds the tables of a plate or collection, and makes tables of its images."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.field_states import TODO, FieldStates
from napari_ngff.plate.tables.files import read_listed_table, read_table, table_names
from napari_ngff.plate.tables.measure_labels import (
    FieldPath,
    MeasureResult,
    count_field,
    join_measured,
    measure,
    measure_field,
    places_of,
    table_of_field,
)
from napari_ngff.plate.tables.row_places import locate_rows
from napari_ngff.plate.tables.table import FIELD, WELL, WellTable, make_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.plate.plate_layout import PlateMap
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.browser import Browser

WELLS_ASKED = 4
"""Number of wells whose first image is searched for tables."""

STRANGERS = 3
"""Wells that are not on the plate which a message names."""

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
    TableOrigin.MEASURED: measure_field,
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
    """

    source: TableOrigin
    name: str

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
        offers += [TableOffer(TableOrigin.PLATE, name) for name in table_names(node)]
        labels = browser.label_names()
    # States are no file of a table: they are offered as soon as one field has a state.
    with suppress(OMEZarrError, OSError):  # reported when a round of annotation begins
        offers += [TableOffer(TableOrigin.STATES, "")] * FieldStates(node).has_any
    wells: list[str | None] = [well.path for well in browser.map.wells]
    for well in wells[:WELLS_ASKED] or [None]:
        with suppress(OMEZarrError, OSError, IndexError):  # the map shows it crossed
            field = browser.fields_of(well).fields[0].position.field
            names = table_names(node.child(FieldPath(well, field).path))
            offers += [TableOffer(TableOrigin.IMAGES, name) for name in names]
    return (*offers, *(TableOffer(TableOrigin.COUNT, name) for name in labels))


@dataclass(frozen=True, slots=True, eq=False)
class TableRead:
    """A table that was read or measured.

    Attributes
    ----------
    note
        A sentence for the user: how much was found, or what is of no well.
    problems
        Why images are left out.
    """

    table: WellTable
    note: str
    problems: tuple[str, ...] = ()


def read_file(node: Node, path: str, plate: PlateMap) -> TableRead:
    """Read a table from a file; of a plate, it has to name wells.

    Raises
    ------
    OMEZarrError, OSError
        Where it cannot be read.
    """
    table = read_table(path, alone=not plate.wells)
    return _place_rows(node, table, os.path.basename(path), plate)


def read_offer(
    node: Node,
    offer: TableOffer,
    plate: PlateMap,
    goes_on: Callable[[int, int], bool],
) -> TableRead | None:
    """Read a table of a plate, of its annotation, or of all of its images.

    Raises
    ------
    OMEZarrError, OSError
        Where it cannot be read.
    """
    if offer.source in TASKS:
        return gather_offer(node, offer, goes_on)
    is_states = offer.source is TableOrigin.STATES
    table = states_table(node) if is_states else read_listed_table(node, offer.name)
    return _place_rows(node, table, offer.title, plate)


def _place_rows(node: Node, table: WellTable, title: str, plate: PlateMap) -> TableRead:
    """Find field and acquisition of rows; note which wells are not on the plate."""
    table = locate_rows(node, table)
    known = {*table.wells_of(well.path for well in plate.wells), ""}
    others = [key for key in table.frame[WELL].unique().tolist() if key not in known]
    if not others or not plate.wells:
        return TableRead(table, "")
    names = ", ".join(str(key).replace("/", "") for key in others[:STRANGERS])
    more = len(others) - STRANGERS
    names += f" and {more:,} more" if more > 0 else ""
    return TableRead(table, f"Not on this plate, in {title}: {names}.")


def gather_offer(
    node: Node,
    offer: TableOffer,
    goes_on: Callable[[int, int], bool],
    places: Sequence[FieldPath] | None = None,
    wells: Sequence[str] | None = None,
    before: WellTable | None = None,
) -> TableRead | None:
    """Make a table by reading each image; see `measure`.

    `before` is the table of an earlier measurement, whose other images stay.
    """
    task = TASKS[offer.source]
    measured = measure(
        node, offer.name, places, wells=wells, goes_on=goes_on, task=task
    )
    if measured is None:
        return None
    well_column = None if WELL in measured.frame else {WELL: ""}
    # Labels that the rows are about, as a table of images states them itself.
    stated = measured.frame.attrs.get("region", "")
    region = offer.name if offer.source is TableOrigin.MEASURED else stated
    table = make_table(measured.frame, offer.title, well_column, region)
    table = replace(table, without=measured.empty)
    note, count = _describe_result(offer, measured), len(table)
    if before is not None:
        table = join_measured(before, table)
    if len(table) > count:
        note += f" {len(table) - count:,} rows of other images stay."
    return TableRead(table, note, measured.problems)


def name_wells(table: WellTable, plate: PlateMap) -> Any:
    """Return the rows as a file gets them, with wells as people write them: "B03"."""
    frame, names = table.frame, {well.path: well.name for well in plate.wells}
    if not (frame[WELL] != "").any():
        return frame.drop(columns=WELL)
    known = {key: names[path] for key, path in table.wells_of(names).items()}
    return frame.assign(**{WELL: frame[WELL].map(lambda key: known.get(key, key))})


def _describe_result(offer: TableOffer, result: MeasureResult) -> str:
    is_measured = offer.source is TableOrigin.MEASURED
    if offer.source is TableOrigin.COUNT:
        counted = f"Labels counted: {result.frame['labels'].sum():,}"
    elif is_measured:
        counted = f"Measured {result.rows_text}"
    else:
        counted = f"Rows read: {len(result.frame):,}"
    sentences = [f"{counted} in {result.found:,} of {result.total:,} images."]
    if result.problems:
        sentences.append(f"Left out: {len(result.problems):,}.")
    if is_measured:
        sentences += [result.size_note, "Save… keeps the table."]
    return " ".join(filter(None, sentences))


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
    alone = None if node.metadata.plate is not None else {WELL: ""}
    return make_table(frame, "annotation of fields", alone)
