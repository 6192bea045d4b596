"""The tables of one plate, joined by their wells: columns, filter, colours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from napari_ngff.plate.plate_layout import MapWell, PlateMap, letters_index
from napari_ngff.plate.results.object_classifier import PREDICTED
from napari_ngff.plate.tables.conditions import ColumnCondition, parse_filter
from napari_ngff.plate.tables.labelled_image import CLASS
from napari_ngff.plate.tables.table import (
    AGGREGATIONS,
    CATEGORY,
    FIELD,
    LABEL,
    PLACES,
    SHARE,
    WellTable,
)
from napari_ngff.viewer.browsing.table_offers import TableOffer, TableOrigin, TableRead
from napari_ngff.viewer.layers.coloring import (
    MOST_CATEGORIES,
    Color,
    Coloring,
    color_categories,
    color_numbers,
    natural_key,
    suits_log,
)

NUMBERS = ("sum", "mean", "median", "std", "min", "max")
"""How numbers of objects of images become that of a well, the usual way first."""

# Names of columns whose numbers only name things; most are CellProfiler's.
NUMBER = re.compile(
    r"(image|object)_?number$|^(id|index|label)$|^(image_)?metadata_", re.IGNORECASE
)
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
    shares
        Further ways in which the texts of a well become one value.
    """

    coloring: Coloring | None = None
    wells: frozenset[str] | None = None
    note: str = ""
    problem: str = ""
    shares: tuple[str, ...] = ()


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
        Those that were read, by where they come from, in the order of reading.
    offers
        All that there are or can be made, in the order of a list.
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
    offers: tuple[TableOffer, ...] = ()
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

    # Tables.

    def with_offers(self, offers: Iterable[TableOffer]) -> JoinedTables:
        """Offer further tables."""
        # Each stays where it is: people find it again. A later one has its path.
        every, order = {x: x for x in (*self.offers, *offers)}, list(TableOrigin)
        ordered = sorted(every.values(), key=lambda each: order.index(each.source))
        return replace(self, offers=tuple(ordered))

    def with_read(self, offer: TableOffer, read: TableRead) -> JoinedTables:
        """Add a table that was read, and the others of its file; later ones replace."""
        others = [replace(offer, name=table.name) for table in read.tables[1:]]
        tables = dict(zip([offer, *others], read.tables, strict=False))
        every = {**self.tables, **tables}
        return replace(self, tables=every).with_offers([offer, *others])

    def without_file(self, name: str) -> JoinedTables:
        """Take the tables of a file away."""
        kept = [x for x in self.offers if os.path.basename(x.path) != name]
        return replace(
            self,
            tables={x: self.tables[x] for x in self.tables if x in kept},
            offers=tuple(kept),
            chosen=self.chosen if self.chosen in kept else None,
        )

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

    def find_first_column(self, offer: TableOffer) -> str | None:
        """Find the column that a table begins with; None for none."""
        table = self.tables[offer]
        numbers = sorted(table.numeric_columns, key=lambda x: bool(NUMBER.search(x)))
        return next(iter((*numbers, *table.columns)), None)

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

    def list_ways(self, column: TableColumn | None = None) -> tuple[str, ...]:
        """List how the rows of a well can become one value, the usual way first.

        The share of a text, too: see `TableView.shares`.

        Parameters
        ----------
        column
            By default the one that colours the map.
        """
        column = column or self.table_column
        if column is not None and column.name == LABEL:
            return NUMBERS
        if column is None or self.tables[column.offer].is_numeric(column.name):
            return AGGREGATIONS
        return CATEGORY, "count"

    def find_way(self, column: TableColumn | None = None) -> str:
        """Find which of `list_ways` counts: the choice for the column, or the first."""
        column = column or self.table_column
        ways = self.list_ways(column)
        chosen = "" if column is None else self.ways.get(column, "")
        is_share = CATEGORY in ways and chosen.startswith(SHARE)
        return chosen if chosen in ways or is_share else ways[0]

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
        met, wells, problem = self._apply_filter()
        note = ""
        if wells is not None:
            count, total = len(wells), len(self.paths)
            note = f"Wells that match the filter: {count:,} of {total:,}."
        coloring, shares = self._color_wells(met), self._list_shares()
        return TableView(coloring, wells, note, problem, shares)

    def _list_shares(self) -> tuple[str, ...]:
        """List the shares that wells have of a text, for the most frequent ones."""
        column, found = self.table_column, list[str]()
        if column is not None and CATEGORY in self.list_ways(column):
            table = self.tables[column.offer]
            found = [] if table.has_lone_rows else table.list_texts(column.name)
        texts = sorted(found[:MOST_CATEGORIES], key=natural_key)
        return tuple(SHARE + text for text in texts)

    def rows_that_count(
        self, offer: TableOffer, *, in_all_wells: bool = False
    ) -> WellTable:
        """Return the rows of a table that count.

        They are of the acquisitions that are shown, meet the tests of the filter of
        columns of the table, and are in wells that the filter means. A filter that is
        not understood leaves out nothing.

        Parameters
        ----------
        offer
            One of `tables`.
        in_all_wells
            Whether those of other wells count as well, as of controls. Then tests of a
            table with one row for a well, which only choose wells, count for nothing.
        """
        met, wells, _ = self._apply_filter()
        whole = self.tables[offer]
        if in_all_wells:
            is_tested = offer in met and whole.place_columns
            rows = met[offer] if is_tested else self._rows_of(offer)
        else:
            rows = self._rows_that_meet(met, offer)
            rows = rows if wells is None or not self.paths else rows.of_wells(wells)
        if len(rows) == len(whole):
            return replace(whole, without=rows.without)
        frame = whole.frame.take(rows.frame.index)
        return replace(whole, frame=frame, without=rows.without)

    def wells_that_count(self) -> frozenset[str] | None:
        """Find the wells that the filter means; None for all."""
        return self._apply_filter()[1]

    def _apply_filter(
        self,
    ) -> tuple[dict[TableOffer, WellTable], frozenset[str] | None, str]:
        """Find the rows of each table that meet its tests, the wells that are meant,
        and why the filter is not understood.
        """
        try:
            words, tests = self._parse_filter()
            met = {offer: self._rows_of(offer, tests[offer]) for offer in tests}
            found = [rows.list_wells() for rows in met.values()]
            found += [self._find_wells(text) for text in words if text.strip(", ")]
        except ValueError as error:
            return {}, None, str(error)
        wells = frozenset(self.paths).intersection(*found) if found else None
        return met, wells, ""

    def _rows_that_meet(
        self, met: Mapping[TableOffer, WellTable], offer: TableOffer
    ) -> WellTable:
        """Give the rows of a table that meet all tests, here and in other tables."""
        rows = met[offer] if offer in met else self._rows_of(offer)
        for other in (met[each] for each in met if each != offer):
            rows = rows.of_wells(other.list_wells())
        return rows

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
        """Give the rows of a table that count and meet tests, with what is needed.

        The index is their place in the table.
        """
        table = self.tables[offer]
        kept = {*PLACES, table.acquisition_column, self.column}
        kept |= {test.column for test in tests}
        frame = table.frame[[column for column in table.frame if column in kept]]
        frame = frame.reset_index(drop=True)
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
        table, name, how = self.tables[column.offer], column.name, self.find_way()
        every = self._rows_of(column.offer)
        rows = self._rows_that_meet(met, column.offer)
        title = self.title_values(column, self._title_column(column))
        first = self._title_column(column)
        if how in NUMBERS and table.place_columns and title != first:
            is_count = first != name and FIELD in every.frame
            of = every.describe_fields() if is_count else table.row_noun
            per = " per field" if is_count and how != "sum" else ""
            title = f"{first}{per}, {how} of {of}"
        if self.hidden and table.acquisition_column:
            title += f", {' + '.join(self.shown)}"
        if how == CATEGORY:
            texts = rows.count_texts(name)["text"]
            found = {path: texts.get(path) for path in self.paths}
            # Of all rows, so that colours stay while a filter leaves out rows.
            names: set[str | None] = {*table.list_texts(name)}
            if len(names) > MOST_CATEGORIES:  # most of them are of no well
                known = table.count_texts(name)["text"]
                names = {*found.values(), *map(known.get, self.paths)}
            return color_categories(
                found,
                names,
                title,
                self.class_colors if name in (CLASS, PREDICTED) else {},
            )
        values, whole = (
            {path: by_well.get(path) for path in self.paths}
            for by_well in (rows.by_well(name, how), every.by_well(name, how))
        )
        # The scale stays, too.
        is_log = suits_log(whole) if self.log is None else self.log
        return color_numbers(values, title, is_log=is_log)

    def title_values(self, column: TableColumn, title: str) -> str:
        """Say how the rows of wells become the values of a column: "voxels, mean"."""
        table, how = self.tables[column.offer], self.find_way(column)
        # One row per well needs no word about how rows become one value.
        if how == "count":
            title += f", count of {table.row_noun}"
        elif how.startswith(SHARE):
            title += f", {how} among {table.region or table.row_noun}, %"
        elif how != CATEGORY and (column.name == LABEL or not table.has_lone_rows):
            is_number = self._title_column(column) != column.name and how != "sum"
            title += f", {how} of images" if is_number else f", {how}"
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
