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
    WELL,
    WellTable,
    known_as,
)
from napari_ngff.viewer.browsing.coloring import (
    MOST_CATEGORIES,
    color_categories,
    color_numbers,
    suits_log,
)
from napari_ngff.viewer.browsing.table_offers import TableOffer, TableOrigin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari_ngff.plate.plate_layout import MapWell, PlateMap
    from napari_ngff.plate.tables.conditions import ColumnCondition
    from napari_ngff.viewer.browsing.coloring import Color, Coloring

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
        if column is None:
            return AGGREGATIONS
        if column.name == LABEL:
            return NUMBERS
        numeric = self.tables[column.offer].is_numeric(column.name)
        return AGGREGATIONS if numeric else (CATEGORY, "count")

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
        keys, found = known_as(path), []
        for offer, table in self.tables.items():
            rows = table.of_wells(keys).hide_acquisitions(self.hidden)
            if len(rows):
                found.append((offer.title, rows.describe_columns()))
        return tuple(found)

    # The map. Takes long for many rows: for a worker.

    def find_view(self) -> TableView:
        """Find what the map shows; a filter that is not understood hides nothing."""
        rows: dict[TableOffer, WellTable] = {}
        wells, note, problem = None, "", ""
        try:
            words, tests = self._parse_filter()
            rows = {offer: self._rows_of(offer, tests[offer]) for offer in tests}
            wells = self._find_wells(words, rows)
        except ValueError as error:
            rows, problem = {}, str(error)
        if wells is not None:
            total = len(self.plate.wells)
            note = f"Wells that match the filter: {len(wells):,} of {total:,}."
        return TableView(self._color_wells(rows), wells, note, problem)

    def _parse_filter(
        self,
    ) -> tuple[list[str], dict[TableOffer, list[ColumnCondition]]]:
        """Read the filter: words for wells, and the tests of each table.

        Raises
        ------
        ValueError
            Where a test cannot be read, or there is no such column.
        """
        known = self._find_names()
        words, tests = parse_filter(self.text, tuple(known))
        conditions: dict[TableOffer, list[ColumnCondition]] = {}
        for test in tests:
            column, *others = known[test.column]
            if others:
                first, second = (f'"{_full_name(c)}"' for c in (column, others[0]))
                msg = f"Several tables have {test.column!r}. Write {first} or {second}."
                raise ValueError(msg)
            test = replace(test, column=column.name)
            conditions.setdefault(column.offer, []).append(test)
        return words, conditions

    def _find_names(self) -> dict[str, list[TableColumn]]:
        """Find the columns that each name may mean; in the chosen table only one."""
        names: dict[str, list[TableColumn]] = {}
        columns = [
            TableColumn(offer, name)
            for offer, table in self.tables.items()
            for name in (*table.columns, *table.place_columns)
        ]
        for column in columns:
            names.setdefault(column.name, []).append(column)
        names |= {c.name: [c] for c in columns if c.offer == self.chosen}
        # With the name of its table a column is found whatever else is loaded.
        return names | {_full_name(column): [column] for column in columns}

    def _rows_of(
        self, offer: TableOffer, tests: Sequence[ColumnCondition] = ()
    ) -> WellTable:
        """Give the rows of a table that count and meet tests, with what is needed."""
        needed = {self.column, *(test.column for test in tests)}
        table = self.tables[offer].keep_columns(needed)
        return table.hide_acquisitions(self.hidden).rows_where(tests)

    def _find_wells(
        self, words: Sequence[str], rows: Mapping[TableOffer, WellTable]
    ) -> frozenset[str] | None:
        """Find the wells that words mean and whose rows meet the tests; None for all.

        Raises
        ------
        ValueError
            Where a word means no well.
        """
        found = [frozenset(x.wells_of(self.paths).values()) for x in rows.values()]
        for text in words:
            for word in text.replace(",", " ").split() if self.paths else ():
                if word.lower() != "or" and not matching_wells(self.plate, word):
                    msg = f"This plate has no well {word!r}."
                    raise ValueError(f"{msg} A test is written so: area > 200.")
            meant = matching_wells(self.plate, text)
            found += [] if meant is None else [meant]
        return frozenset.intersection(*found) if found else None

    def _color_wells(self, met: Mapping[TableOffer, WellTable]) -> Coloring | None:
        """Colour wells by the rows that meet all tests, here and in other tables."""
        column = self.table_column
        if column is None:
            return None
        table, name, how = self.tables[column.offer], column.name, self.way
        every = self._rows_of(column.offer)
        rows = met.get(column.offer, every)
        for other in (met[offer] for offer in met if offer != column.offer):
            here, there = rows.wells_of(self.paths), other.wells_of(self.paths)
            wells = {*there.values()}
            rows = rows.of_wells([key for key in here if here[key] in wells])
        title = self._title_values(column)
        if how == CATEGORY:
            texts = rows.category_by_well(self.paths, name)
            # Of all rows, so that colours stay while a filter leaves out rows.
            names: set[str | None] = {*table.list_texts(name)}
            if len(names) > MOST_CATEGORIES:  # most of them are of no well
                known = table.category_by_well(self.paths, name)
                names = {*known.values(), *texts.values()}
            colors = self.class_colors if name == CLASS else {}
            return color_categories(texts, names, title, colors)
        values = rows.value_by_well(self.paths, name, how)
        # The scale stays, too.
        whole = every.value_by_well(self.paths, name, how) if met else values
        is_log = suits_log(whole) if self.log is None else self.log
        return color_numbers(values, title, is_log=is_log)

    def _title_values(self, column: TableColumn) -> str:
        """Say what the values of the wells are: "voxels, mean, day 1"."""
        table, how = self.tables[column.offer], self.way
        is_number = self._title_column(column) != column.name
        counted = "objects" if LABEL in table.place_columns else "images"
        if how == "count":
            how = f"count of {counted if table.place_columns else 'rows'}"
        elif how != "sum" and is_number:
            how = f"{how} of images"
        parts = [self._title_column(column), how]
        # One row per well needs no word about how rows become one value.
        alone = table.frame[WELL].is_unique and column.name != LABEL
        if self.way == CATEGORY or (alone and self.way != "count"):
            parts.pop()
        if self.hidden and table.acquisition_column:
            parts.append(" + ".join(self.shown))
        return ", ".join(parts)


def _full_name(column: TableColumn) -> str:
    """Return the name of a column with that of its table."""
    return f"{column.name} ({column.offer.title})"


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
    first, colon, last = word.partition(":")
    if colon:
        corners = place_of_name(first), place_of_name(last)
        if None in corners:
            return False
        (top, left), (bottom, right) = corners  # type: ignore[misc]
        rows, columns = sorted((top, bottom)), sorted((left, right))
        return (
            rows[0] <= well.row <= rows[1] and columns[0] <= well.column <= columns[1]
        )
    name = well.name.upper()
    row, column = plate.rows[well.row].upper(), plate.columns[well.column].upper()
    return (
        word in (row, column, name)
        or word.lstrip("0") == column.lstrip("0") != ""
        or place_of_name(word) == (well.row, well.column)
        or fnmatchcase(name, word)
        or fnmatchcase(f"{row}{column.zfill(2)}", word)  # "B03", as many write it
    )


def place_of_name(name: str) -> tuple[int, int] | None:
    """Return the 0-based row and column of a name such as "B03"; None for others."""
    match = NAME.fullmatch(name)
    row = letters_index(match[1]) if match is not None else None
    return None if match is None or row is None else (row, int(match[2]) - 1)
