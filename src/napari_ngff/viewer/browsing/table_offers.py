"""Finds the tables of a plate or collection, and makes tables of its images."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.field_states import FieldStates
from napari_ngff.plate.tables.files import read_listed_table, table_names
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

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.browser import Browser

__all__ = [
    "GatheredTable",
    "MeasureScope",
    "TableOffer",
    "TableOrigin",
    "find_offers",
    "gather_offer",
    "read_offer",
]

WELLS_ASKED = 4
"""Number of wells whose first image is searched for tables."""


CHOSEN = ("done", "in progress", "flagged")
"""Columns of `states_table`, by the first of which a map is coloured at first."""


class TableOrigin(StrEnum):
    """Where a table comes from."""

    FILE = "file"
    PLATE = "plate"
    IMAGES = "images"
    COUNT = "count"
    MEASURED = "measured"
    STATES = "annotation"


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
        if self.source is TableOrigin.COUNT:
            return f"number of {self.name}"
        if self.source is TableOrigin.MEASURED:
            return f"{self.name}, measured"
        if self.source is TableOrigin.STATES:
            return "annotation of fields"
        return (
            f"{self.name} (of images)"
            if self.source is TableOrigin.IMAGES
            else self.name
        )


def find_offers(browser: Browser) -> tuple[TableOffer, ...]:
    """Read which tables are in a plate and in the images of its first wells, and of
    which labels there are numbers.
    """
    node = browser.node
    offers: dict[TableOffer, None] = {}
    labels: tuple[str, ...] = ()
    try:
        offers.update(
            (TableOffer(TableOrigin.PLATE, name), None) for name in table_names(node)
        )
        labels = browser.label_names()
    except (OMEZarrError, OSError):
        pass  # a damaged list of tables; all else can be used
    # States are no file of a table: they are offered as soon as one field has a state.
    with suppress(OMEZarrError, OSError):  # reported when a round of annotation begins
        offers.update(
            {TableOffer(TableOrigin.STATES, ""): None}
            if FieldStates(node).has_any
            else {}
        )
    wells: list[str | None] = [well.path for well in browser.map.wells]
    for well in wells[:WELLS_ASKED] or [None]:
        try:
            position = browser.fields_of(well).fields[0].position
            path = "/".join(part for part in (well, position.field) if part)
            names = table_names(node.child(path))
        except (OMEZarrError, OSError, IndexError):
            continue  # the map shows it crossed
        offers.update((TableOffer(TableOrigin.IMAGES, name), None) for name in names)
    return (*offers, *(TableOffer(TableOrigin.COUNT, name) for name in labels))


def read_offer(node: Node, offer: TableOffer) -> WellTable:
    """Read a table that is kept as one: of the plate, or of its annotation.

    Raises
    ------
    OMEZarrError, OSError
        Where it cannot be read.
    """
    is_states = offer.source is TableOrigin.STATES
    table = states_table(node) if is_states else read_listed_table(node, offer.name)
    return locate_rows(node, table)


@dataclass(frozen=True, slots=True, eq=False)
class GatheredTable:
    """A table that was gathered from images.

    Attributes
    ----------
    summary
        How much was found, and in how many images: a sentence for the user.
    problems
        Why images are left out.
    """

    table: WellTable
    summary: str
    problems: tuple[str, ...]


def gather_offer(
    node: Node,
    offer: TableOffer,
    goes_on: Callable[[int, int], bool],
    places: Sequence[FieldPath] | None = None,
    wells: Sequence[str] | None = None,
    before: WellTable | None = None,
) -> GatheredTable | None:
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
    summary, count = _describe_result(offer, measured), len(table)
    if before is not None:
        table = join_measured(before, table)
    if len(table) > count:
        summary += f" {len(table) - count:,} rows of other images stay."
    return GatheredTable(table, summary, measured.problems)


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
        A row per field: its "state" as text, and for each of `CHOSEN` a column that is
        1 where it is the field's state, else 0. So the mean of "done" is the share of
        the fields of a well that are done.

    Raises
    ------
    OMEZarrError, OSError
        Where the states cannot be read.
    """
    import pandas as pd

    states = FieldStates(node)
    places = places_of(node)
    keys = ["/".join(p for p in (place.well, place.field) if p) for place in places]
    state_names = [states.state_of(key) for key in keys]
    columns = {
        state: [int(place == state) for place in state_names] for state in CHOSEN
    }
    frame = pd.DataFrame(
        {
            WELL: [place.well or "" for place in places],
            FIELD: [place.field for place in places],
            "state": state_names,
            **columns,
        }
    )
    alone = None if node.metadata.plate is not None else {WELL: ""}
    return make_table(frame, "annotation of fields", alone)
