"""Several tables of one plate, joined by their wells: columns, conditions, colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.plate.tables.conditions import is_condition, parse_conditions, parts_of
from napari_ngff.plate.tables.table import AGGREGATIONS, CATEGORY, LABEL, WELL, Table
from napari_ngff.viewer.browsing.map_values import (
    MOST_CATEGORIES,
    Coloring,
    color_categories,
    color_numbers,
)
from napari_ngff.viewer.browsing.table_offers import Offer, TableOrigin
from napari_ngff.viewer.browsing.well_filter import matching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.plate.layout import PlateMap
    from napari_ngff.plate.tables.conditions import ColumnCondition

__all__ = ["JoinedTables", "TableColumn", "WellDetails"]

WellDetails = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""Title of each table, and the name and text of each of its columns."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of one of several tables."""

    offer: Offer
    name: str


class JoinedTables:
    """Tables that were read; the first one asked is the one that is chosen.

    Wells are what they have in common: a test of a column is met by a well if one of
    the rows of that table meets it.
    """

    def __init__(self) -> None:
        self.tables: dict[Offer, Table] = {}
        self._kept: tuple[object, Table] | None = None
        self._shown: tuple[object, frozenset[str] | None] | None = None
        self._values: tuple[object, Coloring] | None = None

    def add(self, offer: Offer, table: Table) -> None:
        """Take a table, instead of an earlier one of the same origin."""
        self.tables[offer] = table
        self._kept = self._shown = self._values = None

    def columns(self) -> dict[TableColumn, str]:
        """Give all columns with their titles: with the table's where names clash."""
        columns = [
            TableColumn(offer, name)
            for offer, table in self.tables.items()
            for name in table.columns
        ]
        names = [column.name for column in columns]
        return {
            column: column.name
            if names.count(column.name) == 1
            else f"{column.name} ({column.offer.title})"
            for column in columns
        }

    def object_table(self, chosen: Offer | None) -> Table | None:
        """Give the table whose rows are objects: the chosen one, else the latest."""
        if chosen is None:
            return None
        ordered = (self.tables[o] for o in (chosen, *reversed(self.tables)))
        return next((table for table in ordered if LABEL in table.places), None)

    def describe_well(self, path: str) -> WellDetails:
        """Sum up what all tables hold of a well; tables without rows of it do not."""
        descriptions = (
            (offer.title, table.describe_well(path))
            for offer, table in self.tables.items()
        )
        return tuple((title, columns) for title, columns in descriptions if columns)

    def ways(self, column: TableColumn | None) -> tuple[str, ...]:
        """List how the rows of a well can become one value."""
        if column is None or self.tables[column.offer].is_numeric(column.name):
            return AGGREGATIONS
        return CATEGORY, "count"

    # Conditions.

    def _in_order(self, chosen: Offer | None) -> list[Offer]:
        others = [offer for offer in self.tables if offer != chosen]
        return [] if chosen is None else [chosen, *others]

    def conditions(
        self, text: str, chosen: Offer | None
    ) -> tuple[tuple[str, ...], dict[Offer, tuple[ColumnCondition, ...]]]:
        """Read a line: words for wells, and the tests of each table.

        Raises
        ------
        ValueError
            Where a test cannot be read, or there is no such column.
        """
        parts = parts_of(text)
        tests = [part for part in parts if is_condition(part)]
        words = tuple(part for part in parts if part not in tests)
        if tests and chosen is None:
            raise ValueError("Choose a table first: there are no columns to test.")
        owners: dict[str, tuple[Offer, str]] = {}
        for offer in self._in_order(chosen):
            table = self.tables[offer]
            for name in (*table.columns, *table.places):
                owners.setdefault(name, (offer, name))
        for column, title in self.columns().items():
            owners.setdefault(title, (column.offer, column.name))
        found: dict[Offer, tuple[ColumnCondition, ...]] = {}
        for test in parse_conditions(" and ".join(tests), tuple(owners)):
            offer, name = owners[test.column]
            renamed = type(test)(name, test.operator, test.value)
            found[offer] = (*found.get(offer, ()), renamed)
        return words, found

    def wells_shown(
        self, text: str, chosen: Offer | None, plate: PlateMap
    ) -> frozenset[str] | None:
        """Find the wells that a line means; None for all. Raises as `conditions`."""
        key = text, chosen, plate
        if self._shown is not None and self._shown[0] == key:
            return self._shown[1]
        words, tests = self.conditions(text, chosen)
        met = [matching(plate, word) for word in words]
        wells = [well.path for well in plate.wells]
        met += [self._wells_met(offer, tests[offer], wells) for offer in tests]
        known = [one for one in met if one is not None]
        self._shown = key, frozenset.intersection(*known) if known else None
        return self._shown[1]

    def _wells_met(
        self, offer: Offer, tests: Sequence[ColumnCondition], wells: Sequence[str]
    ) -> frozenset[str]:
        return frozenset(self.tables[offer].where(tests).on(wells).values())

    def rows(self, offer: Offer, text: str, wells: Sequence[str]) -> Table:
        """Give the rows of a table that a line lets through. Raises as `conditions`."""
        key = offer, text, tuple(wells)
        if self._kept is None or self._kept[0] != key:
            tests = self.conditions(text, offer)[1]
            rows = self.tables[offer].where(tests.pop(offer, ()))
            for other, others in tests.items():
                met = self._wells_met(other, others, wells)
                keys = [k for k, path in rows.on(wells).items() if path in met]
                frame = rows.frame[rows.frame[WELL].isin(keys)]
                rows = Table(rows.name, frame, rows.region)
            self._kept = key, rows
        return self._kept[1]

    # Colours.

    def coloring(
        self, column: TableColumn, how: str, text: str, wells: Sequence[str]
    ) -> Coloring:
        """Give the values for the map, of the rows that a line lets through."""
        key = column, how, text, tuple(wells)
        if self._values is None or self._values[0] != key:
            try:
                rows = self.rows(column.offer, text, wells)
            except ValueError:  # while a filter is typed the map stays as it is
                rows = self.tables[column.offer]
            self._values = key, self._colored(rows, column, how, wells)
        return self._values[1]

    def _colored(
        self, rows: Table, column: TableColumn, how: str, wells: Sequence[str]
    ) -> Coloring:
        table, name = self.tables[column.offer], column.name
        if how == CATEGORY:
            texts = rows.categories(wells, name)
            names = set(table.texts(name))
            if len(names) > MOST_CATEGORIES:  # most of them are of no well
                known = (*table.categories(wells, name).values(), *texts.values())
                names = {text for text in known if text is not None}
            return color_categories(texts, names, name)
        alone = table.frame[WELL].is_unique and how != "count"
        if column.offer.source is TableOrigin.COUNT:
            name = column.offer.title
        title = name if alone else f"{name}, {how}"
        return color_numbers(rows.values(wells, column.name, how), title)
