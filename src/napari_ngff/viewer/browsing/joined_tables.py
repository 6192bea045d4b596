"""The tables of one plate, joined by their wells: columns, filter, colours."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from napari_ngff.plate.plate_layout import letters_index
from napari_ngff.plate.tables.conditions import parse_filter
from napari_ngff.plate.tables.labelled_image import CLASS
from napari_ngff.plate.tables.table import (
    AGGREGATIONS,
    CATEGORY,
    FIELD,
    LABEL,
    PLACES,
    WELL,
    WellTable,
    text_categories,
)
from napari_ngff.viewer.browsing.table_offers import TableOffer, TableOrigin
from napari_ngff.viewer.layers.coloring import (
    MOST_CATEGORIES,
    color_categories,
    color_numbers,
    suits_log,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ngff.plate.plate_layout import MapWell, PlateMap
    from napari_ngff.plate.tables.conditions import ColumnCondition
    from napari_ngff.viewer.layers.coloring import Color, Coloring

NUMBERS = ("sum", "mean", "median", "std", "min", "max")
"""How numbers of objects of images become that of a well, the usual way first."""

LABELS = "labels"
"""Column of a table that counts labels."""

WellDetails = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""Title of each table, and the name and text of each of its columns."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of one of several tables."""

    offer: TableOffer
    name: str

    @property
    def full_name(self) -> str:
        """The name with that of its table."""
        return f"{self.name} ({self.offer.title})"


@dataclass(frozen=True, slots=True, eq=False)
class TableView:
    """What the map shows of tables.

    Attributes
    ----------
    coloring
        None for thumbnails.
    wells
        Paths of the wells that the filter means; None for all.
    note
        How many wells these are; "" for all.
    problem
        Why the filter is not understood; "" where it is.
    """

    coloring: Coloring | None = None
    wells: frozenset[str] | None = None
    note: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class JoinedTables:
    """The tables that were read, and what a person asks of them.

    Wells are what they have in common: a test of a column is met by a well if one of
    the rows of that table meets it.

    Attributes
    ----------
    plate
        The map.
    tables
        By where they come from, in the order in which they were read.
    column
        Which one colours the map; of None also the table is chosen, see `chosen`.
    chosen
        The table whose columns a filter means first, and whose objects are features.
    ways
        How the rows of a well become one value, where it was chosen for a column.
    log
        Whether colours are on a logarithmic scale; None for what suits the numbers.
    text
        The filter.
    shown, hidden
        Names of the acquisitions whose rows count, and of those whose do not.
    class_colors
        Of the classes of labels on the canvas, by their names.
    """

    plate: PlateMap
    tables: Mapping[TableOffer, WellTable] = field(default_factory=dict)
    column: str | None = None
    chosen: TableOffer | None = None
    ways: Mapping[TableColumn, str] = field(default_factory=dict)
    log: bool | None = None
    text: str = ""
    shown: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()
    class_colors: Mapping[str, Color] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the wells on the map."""
        return tuple(well.path for well in self.plate.wells)

    # Columns.

    def list_columns(self) -> dict[TableColumn, str]:
        """Return the columns of all tables, with their titles for people."""
        columns = [
            TableColumn(offer, name)
            for offer, table in self.tables.items()
            # The number of objects is no column, and counted from the rows.
            for name in (*table.place_columns[-1:], *table.columns)
            if name != FIELD
        ]
        titles = [self._title_column(column) for column in columns]
        return {
            column: title
            if titles.count(title) == 1
            else f"{title} ({column.offer.title})"
            for column, title in zip(columns, titles, strict=True)
        }

    def _title_column(self, column: TableColumn) -> str:
        if column.offer.source is TableOrigin.COUNT and column.name == LABELS:
            return column.offer.title
        region = self.tables[column.offer].region or "objects"
        return f"number of {region}" if column.name == LABEL else column.name

    @property
    def table_column(self) -> TableColumn | None:
        """The column that colours the map; None for thumbnails."""
        if self.chosen is None or self.column is None:
            return None
        column = TableColumn(self.chosen, self.column)
        return column if column in self.list_columns() else None

    def list_ways(self) -> tuple[str, ...]:
        """List how the rows of a well can become one value, the usual way first."""
        column = self.table_column
        if column is not None and column.name == LABEL:
            return NUMBERS
        if column is None or self.tables[column.offer].is_numeric(column.name):
            return AGGREGATIONS
        return CATEGORY, "count"

    @property
    def way(self) -> str:
        """Which of `list_ways` counts: the choice for the column, else the first."""
        column, ways = self.table_column, self.list_ways()
        chosen = None if column is None else self.ways.get(column)
        return chosen if chosen in ways else ways[0]

    def find_objects(self) -> WellTable | None:
        """Find the table whose rows are objects: the chosen one, else the latest."""
        if self.chosen is None:
            return None
        ordered = self.tables[self.chosen], *tuple(self.tables.values())[::-1]
        return next((table for table in ordered if LABEL in table.place_columns), None)

    def describe_well(self, path: str) -> WellDetails:
        """Sum up what all tables hold of a well; tables without rows of it do not."""
        rows = {
            offer.title: table.of_wells([path]).hide_acquisitions(self.hidden)
            for offer, table in self.tables.items()
        }
        return tuple((x, rows[x].describe_columns()) for x in rows if len(rows[x]))

    # The map. Takes long for many rows: for a worker.

    def find_view(self) -> TableView:
        """Find what the map shows; a filter that is not understood hides nothing."""
        met: dict[TableOffer, WellTable] = {}
        wells, note, problem = None, "", ""
        try:
            words, tests = self._parse_filter()
            met = {offer: self._rows_of(offer, tests[offer]) for offer in tests}
            found = [rows.list_wells() for rows in met.values()]
            found += [self._find_wells(text) for text in words if text.strip(", ")]
        except ValueError as error:
            found, met, problem = [], {}, str(error)
        if found:
            wells = frozenset(self.paths).intersection(*found)
            count, total = len(wells), len(self.paths)
            note = f"Wells that match the filter: {count:,} of {total:,}."
        return TableView(self._color_wells(met), wells, note, problem)

    def _parse_filter(
        self,
    ) -> tuple[list[str], dict[TableOffer, list[ColumnCondition]]]:
        """Read the filter: words for wells, and the tests of each table.

        Raises
        ------
        ValueError
            Where a test cannot be read, or there is no such column.
        """
        columns = [
            TableColumn(offer, name)
            for offer, table in self.tables.items()
            for name in (*table.columns, *table.place_columns)
        ]
        names: dict[str, list[TableColumn]] = {}
        for column in columns:
            names.setdefault(column.name, []).append(column)
        # In the chosen table a name means only one.
        names |= {c.name: [c] for c in columns if c.offer == self.chosen}
        # With the name of its table a column is found whatever else is loaded.
        names |= {column.full_name: [column] for column in columns}
        words, tests = parse_filter(self.text, tuple(names))
        conditions: dict[TableOffer, list[ColumnCondition]] = {}
        for test in tests:
            column, *others = names[test.column]
            if others:
                first, second = (f'"{c.full_name}"' for c in (column, others[0]))
                msg = f"Several tables have {test.column!r}. Write {first} or {second}."
                raise ValueError(msg)
            test = replace(test, column=column.name)
            conditions.setdefault(column.offer, []).append(test)
        return words, conditions

    def _rows_of(
        self, offer: TableOffer, tests: Sequence[ColumnCondition] = ()
    ) -> WellTable:
        """Give the rows of a table that count and meet tests, with what is needed."""
        table = self.tables[offer]
        kept = {*PLACES, table.acquisition_column, self.column}
        kept |= {test.column for test in tests}
        frame = table.frame[[column for column in table.frame if column in kept]]
        table = replace(table, frame=frame).hide_acquisitions(self.hidden)
        return table.rows_where(tests)

    def _find_wells(self, text: str) -> set[str]:
        """Find the wells that words mean.

        Raises
        ------
        ValueError
            Where a word means no well.
        """
        found: set[str] = set()
        for word in text.replace(",", " ").split():
            wells = matching_wells(self.plate, word) or ()
            if not wells and self.paths and word.lower() != "or":
                msg = f"This plate has no well {word!r}."
                raise ValueError(f"{msg} A test is written so: area > 200.")
            found.update(wells)
        return found

    def _color_wells(self, met: Mapping[TableOffer, WellTable]) -> Coloring | None:
        """Colour wells by the rows that meet all tests, here and in other tables."""
        column = self.table_column
        if column is None:
            return None
        table, name, how = self.tables[column.offer], column.name, self.way
        every = self._rows_of(column.offer)
        rows = met.get(column.offer, every)
        for other in (met[offer] for offer in met if offer != column.offer):
            rows = rows.of_wells(other.list_wells())
        title = self._title_values(column)
        if how == CATEGORY:
            texts = rows.most_frequent(name)
            found = {path: texts.get(path) for path in self.paths}
            # Of all rows, so that colours stay while a filter leaves out rows.
            names = {*text_categories(table.frame[name]).cat.categories}
            if len(names) > MOST_CATEGORIES:  # most of them are of no well
                known = table.most_frequent(name)
                names = {*found.values(), *map(known.get, self.paths)}
            colors = self.class_colors if name == CLASS else {}
            return color_categories(found, names, title, colors)
        values, whole = (
            {path: by_well.get(path) for path in self.paths}
            for by_well in (rows.by_well(name, how), every.by_well(name, how))
        )
        # The scale stays, too.
        is_log = suits_log(whole) if self.log is None else self.log
        return color_numbers(values, title, is_log=is_log)

    def _title_values(self, column: TableColumn) -> str:
        """Say what the values of the wells are: "voxels, mean, day 1"."""
        table, how = self.tables[column.offer], self.way
        title = self._title_column(column)
        # One row per well needs no word about how rows become one value.
        alone = table.frame[WELL].is_unique and column.name != LABEL
        if how == "count":
            counted = "objects" if LABEL in table.place_columns else "images"
            title += f", count of {counted if table.place_columns else 'rows'}"
        elif how != CATEGORY and not alone:
            is_number = title != column.name and how != "sum"
            title += f", {how} of images" if is_number else f", {how}"
        if self.hidden and table.acquisition_column:
            title += f", {' + '.join(self.shown)}"
        return title


NAME = re.compile(r"([A-Z]{1,2})-?0*(\d+)")


def matching_wells(plate: PlateMap, text: str) -> frozenset[str] | None:
    """Return the wells to which at least one word of a text applies.

    Parameters
    ----------
    plate
        The map.
    text
        Words, parted by spaces or commas, in upper or lower case: a well ("B3",
        "b03"), a row ("B"), a column ("3"), a block ("A1:C4"), or a pattern over
        names ("B*", "?0[1-3]").

    Returns
    -------
    frozenset or None
        Paths of the wells; None where the text is blank, which means all of them.
    """
    words = text.upper().replace(",", " ").split()
    if not words:
        return None
    return frozenset(
        well.path
        for well in plate.wells
        if any(means_well(word, well, plate) for word in words)
    )


def means_well(word: str, well: MapWell, plate: PlateMap) -> bool:
    """Return whether a word applies to a well."""
    corners = [place_of_name(name) for name in word.split(":")]
    if None not in corners and len(corners) <= 2:
        rows, columns = map(sorted, zip(*corners, strict=True))
        in_rows = rows[0] <= well.row <= rows[-1]
        if in_rows and columns[0] <= well.column <= columns[-1]:
            return True
    row, column = plate.rows[well.row].upper(), plate.columns[well.column].upper()
    # "B03", as many write it.
    names = well.name.upper(), f"{row}{column.zfill(2)}"
    is_part = word in (row, column) or word.lstrip("0") == column.lstrip("0") != ""
    return is_part or any(fnmatchcase(name, word) for name in names)


def place_of_name(name: str) -> tuple[int, int] | None:
    """Return the 0-based row and column of a name such as "B03"; None for others."""
    match = NAME.fullmatch(name)
    row = letters_index(match[1]) if match is not None else None
    return None if match is None or row is None else (row, int(match[2]) - 1)
