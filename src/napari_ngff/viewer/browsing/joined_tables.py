"""Several tables of one plate, joined by their wells: columns, filters, colours."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.class_colors import PALETTE
from napari_ngff.plate.plate_layout import letters_index
from napari_ngff.plate.tables.conditions import is_condition, parse_conditions, parts_of
from napari_ngff.plate.tables.table import (
    AGGREGATIONS,
    CATEGORY,
    FIELD,
    LABEL,
    WELL,
    WellTable,
)
from napari_ngff.viewer.browsing.table_offers import TableOffer, TableOrigin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from napari_ngff.plate.plate_layout import MapWell, PlateMap
    from napari_ngff.plate.tables.conditions import ColumnCondition

__all__ = [
    "CATEGORY_COLORS",
    "MOST_CATEGORIES",
    "Coloring",
    "JoinedTables",
    "TableColumn",
    "WellDetails",
    "color_categories",
    "color_numbers",
    "map_colors",
    "matching_wells",
    "suits_log",
]

Color = tuple[int, ...]
"""Red, green and blue, 0-255."""

CATEGORY_COLORS: tuple[Color, ...] = tuple(
    color[:3] for color in (*PALETTE[:7], PALETTE[8])
)
"""Of categories, for all eyes; without the pale grey, which is that of no well."""


PATTERNS = 3
"""Number of patterns in which each colour is drawn, if there are more categories."""


NUMBERS = ("sum", "mean", "median", "std", "min", "max")
"""How numbers of objects of images become that of a well, the usual way first."""


LABELS = "labels"
"""Column of a table that counts labels."""


MOST_CATEGORIES = PATTERNS * len(CATEGORY_COLORS)
"""Categories above this number are drawn as one: "other"."""


LOG_SPAN = 100
"""Numbers of a wider span have a logarithmic scale, if most of them are small."""


SMALL = 0.1
"""Half of the numbers lie below this part of the largest where a log scale suits."""


@dataclass(frozen=True, slots=True)
class Coloring:
    """Values for the map.

    Attributes
    ----------
    values
        By path of the well; None where there is none. Of categories: their index.
    limits
        Values of the first and the last colour.
    title
        What they are.
    is_log
        Whether equal factors, not equal differences, have colours equally far apart.
    categories
        Their names, in order; () for numbers.
    class_colors
        Red, green and blue by the name of a category that is a class of labels.
    """

    values: Mapping[str, float | None]
    limits: tuple[float, float]
    title: str
    is_log: bool = False
    categories: tuple[str, ...] = ()
    class_colors: Mapping[str, Color] = field(default_factory=dict)

    @property
    def category_colors(self) -> tuple[Color, ...]:
        """The colours of the categories: of classes as on the canvas."""
        taken = {self.class_colors.get(name) for name in self.categories}
        free = [color for color in CATEGORY_COLORS if color not in taken]
        others = itertools.cycle(free or CATEGORY_COLORS)
        return tuple(self.class_colors.get(n) or next(others) for n in self.categories)


def color_numbers(
    values: Mapping[str, float | None],
    title: str,
    limits: tuple[float, float] | None = None,
    is_log: bool | None = None,
) -> Coloring:
    """Colour wells by numbers.

    Parameters
    ----------
    limits
        Values of the first and the last colour; None for all there are.
    is_log
        None for what suits, see `suits_log`. Never where no number is positive.
    """
    known = [v for v in values.values() if v is not None and math.isfinite(v)]
    positive = [v for v in known if v > 0]
    log = bool(positive) and (suits_log(known) if is_log is None else is_log)
    # A logarithm has no place for 0 and less.
    used = positive if log else known
    used_limits = (min(used), max(used)) if used else (0.0, 1.0)
    if limits is not None and not (log and limits[0] <= 0):
        used_limits = limits
    return Coloring(values, used_limits, title, log)


def suits_log(values: Iterable[float]) -> bool:
    """Return whether numbers suit a logarithmic scale, as doses do.

    That is if none is negative, the positive ones span more than a factor of
    `LOG_SPAN`, and half of these are small relative to the largest.
    """
    known = list(values)
    positive = [value for value in known if value > 0]
    if not positive or min(known) < 0:
        return False
    spread = max(positive) > LOG_SPAN * min(positive)
    return spread and median(positive) <= SMALL * max(positive)


def color_categories(
    texts: Mapping[str, str | None], names: Iterable[str], title: str
) -> Coloring:
    """Colour wells by categories.

    Parameters
    ----------
    texts
        By path of the well.
    names
        All texts there are, also in wells that a filter leaves out: colours stay.
    """
    # Sorted, so that colours do not depend on the order of rows.
    ordered = sorted(set(names), key=natural_key)
    categories = ordered
    if len(ordered) > MOST_CATEGORIES:
        categories = [*ordered[: MOST_CATEGORIES - 1]]
        categories.append(f"other ({len(ordered) - len(categories)})")
    places = {name: min(i, len(categories) - 1) for i, name in enumerate(ordered)}
    values = {
        path: None if text is None else float(places[text])
        for path, text in texts.items()
    }
    return Coloring(
        values, (0.0, max(1.0, len(categories) - 1)), title, False, tuple(categories)
    )


def natural_key(text: str) -> tuple[tuple[int, int | str], ...]:
    """Order texts as people do: "dose 2" before "dose 10"."""
    return tuple(
        (0, int(part)) if part.isdecimal() else (1, part.casefold())
        for part in re.split(r"(\d+)", text)
        if part
    )


def map_colors() -> np.ndarray[Any, Any]:
    """Return colours from low to high, suited to colour blindness.

    Returns
    -------
    numpy.ndarray
        uint8, 256 rows of red, green, blue.
    """
    from napari.utils.colormaps import ensure_colormap

    ramp = ensure_colormap("viridis").map(np.linspace(0, 1, 256))
    rounded: np.ndarray[Any, Any] = np.rint(255 * ramp[:, :3]).astype(np.uint8)
    return rounded


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


WellDetails = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""Title of each table, and the name and text of each of its columns."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of one of several tables."""

    offer: TableOffer
    name: str


def title_in_table(name: str, offer: TableOffer) -> str:
    """Return the title of a column with that of its table."""
    return f"{name} ({offer.title})"


class JoinedTables:
    """The tables that were read, joined by their wells.

    Wells are what they have in common: a test of a column is met by a well if one of
    the rows of that table meets it.
    """

    def __init__(self) -> None:
        self.tables: dict[TableOffer, WellTable] = {}
        self._acquisitions: tuple[tuple[str, ...], frozenset[str]] = (), frozenset()
        self._forget_results()

    def _forget_results(self) -> None:
        # All caches: filters and colours may use any of the tables.
        self._rows: dict[TableOffer, WellTable] = {}
        self._kept: tuple[object, WellTable] | None = None
        self._shown: tuple[object, frozenset[str] | None] | None = None
        self._values: tuple[object, Coloring] | None = None

    def _rows_of(self, offer: TableOffer) -> WellTable:
        """Give the rows of a table that are of the acquisitions shown."""
        if offer not in self._rows:
            hidden = self._acquisitions[1]
            self._rows[offer] = self.tables[offer].hide_acquisitions(hidden)
        return self._rows[offer]

    def add_table(self, offer: TableOffer, table: WellTable) -> None:
        """Take a table, instead of an earlier one of the same origin."""
        self.tables[offer] = table
        self._forget_results()

    def show_acquisitions(self, shown: Sequence[str], hidden: Iterable[str]) -> bool:
        """Let only rows of the acquisitions that are shown count, by their names.

        Returns
        -------
        bool
            Whether others were shown before.
        """
        acquisitions = tuple(shown), frozenset(hidden)
        if acquisitions == self._acquisitions:
            return False
        self._acquisitions = acquisitions
        self._forget_results()
        return True

    def title_columns(self) -> dict[TableColumn, str]:
        """Return all columns with titles that name the table where names clash."""
        # Columns of all tables, in the order in which they were read.
        columns = [
            TableColumn(offer, name)
            for offer, table in self.tables.items()
            # The number of objects is no column, and counted from the rows.
            for name in (*table.place_columns[-1:], *table.columns)
            if name != FIELD
        ]
        names = [self._title_column(column) for column in columns]
        return {
            column: name
            if names.count(name) == 1
            else title_in_table(name, column.offer)
            for column, name in zip(columns, names, strict=True)
        }

    def _is_number(self, column: TableColumn) -> bool:
        """Return whether a column has the numbers of objects of images."""
        counts = column.offer.source is TableOrigin.COUNT and column.name == LABELS
        return counts or column.name == LABEL

    def _title_column(self, column: TableColumn) -> str:
        if not self._is_number(column):
            return column.name
        counted = self.tables[column.offer].region or "objects"
        is_count = column.offer.source is TableOrigin.COUNT
        return column.offer.title if is_count else f"number of {counted}"

    def object_table(self, chosen: TableOffer | None) -> WellTable | None:
        """Give the table whose rows are objects: the chosen one, else the latest."""
        if chosen is None:
            return None
        ordered = (self.tables[o] for o in (chosen, *reversed(self.tables)))
        return next((table for table in ordered if LABEL in table.place_columns), None)

    def describe_well(self, path: str) -> WellDetails:
        """Sum up what all tables hold of a well; tables without rows of it do not."""
        descriptions = (
            (offer.title, self._rows_of(offer).describe_well(path))
            for offer in self.tables
        )
        return tuple((title, columns) for title, columns in descriptions if columns)

    def ways_of(self, column: TableColumn | None) -> tuple[str, ...]:
        """List how the rows of a well can become one value, the usual way first."""
        if column is None:
            return AGGREGATIONS
        if column.name == LABEL:
            return NUMBERS
        numeric = self.tables[column.offer].is_numeric(column.name)
        return AGGREGATIONS if numeric else (CATEGORY, "count")

    # Conditions.

    def _in_order(self, chosen: TableOffer | None) -> list[TableOffer]:
        others = [offer for offer in self.tables if offer != chosen]
        return [] if chosen is None else [chosen, *others]

    def parse_line(
        self, text: str, chosen: TableOffer | None
    ) -> tuple[tuple[str, ...], dict[TableOffer, tuple[ColumnCondition, ...]]]:
        """Read a line: words for wells, and the tests of each table.

        Raises
        ------
        ValueError
            Where a test cannot be read, or there is no such column.
        """
        parts = parts_of(text)
        # A part without a comparison is a word for wells.
        tests = [part for part in parts if is_condition(part)]
        words = tuple(part for part in parts if part not in tests)
        if tests and chosen is None:
            raise ValueError("Choose a table first: there are no columns to test.")
        owners = self._owners_of_columns(chosen)
        conditions: dict[TableOffer, tuple[ColumnCondition, ...]] = {}
        for test in parse_conditions(" and ".join(tests), tuple(owners)):
            self._require_one_table(test.column, chosen)
            offer, name = owners[test.column]
            renamed = type(test)(name, test.operator, test.value)
            conditions[offer] = (*conditions.get(offer, ()), renamed)
        return words, conditions

    def _owners_of_columns(
        self, chosen: TableOffer | None
    ) -> dict[str, tuple[TableOffer, str]]:
        """Return table and column for each name that a line may use."""
        owners: dict[str, tuple[TableOffer, str]] = {}
        # The chosen table first: of two columns with one name, its own is meant.
        for offer in self._in_order(chosen):
            table = self.tables[offer]
            for name in (*table.columns, *table.place_columns):
                owners.setdefault(name, (offer, name))
        # With the name of its table a column is found whatever else is loaded.
        for offer, table in self.tables.items():
            for name in table.columns:
                owners.setdefault(title_in_table(name, offer), (offer, name))
        return owners

    def _require_one_table(self, name: str, chosen: TableOffer | None) -> None:
        """Refuse a column of several tables, none of which is chosen."""
        found = [offer for offer, table in self.tables.items() if name in table.columns]
        if chosen in found or len(found) < 2:
            return
        first, second = (f'"{title_in_table(name, offer)}"' for offer in found[:2])
        raise ValueError(f"Several tables have {name!r}. Write {first} or {second}.")

    def wells_shown(
        self, text: str, chosen: TableOffer | None, plate: PlateMap
    ) -> frozenset[str] | None:
        """Find the wells that a line means; None for all. Raises as `parse_line`."""
        # The map asks several times per change; joining large tables takes long.
        key = text, chosen, plate
        if self._shown is not None and self._shown[0] == key:
            return self._shown[1]
        words, tests = self.parse_line(text, chosen)
        met = [matching_wells(plate, word) for word in words]
        for word in " ".join(words).replace(",", " ").split() if plate.wells else ():
            if word.lower() != "or" and not matching_wells(plate, word):
                msg = f"This plate has no well {word!r}."
                raise ValueError(f"{msg} A test is written so: area > 200.")
        wells = [well.path for well in plate.wells]
        met += [self._wells_met(offer, tests[offer], wells) for offer in tests]
        known = [wells_met for wells_met in met if wells_met is not None]
        self._shown = key, frozenset.intersection(*known) if known else None
        return self._shown[1]

    def _wells_met(
        self, offer: TableOffer, tests: Sequence[ColumnCondition], wells: Sequence[str]
    ) -> frozenset[str]:
        return frozenset(
            self._rows_of(offer).rows_where(tests).wells_of(wells).values()
        )

    def filter_rows(
        self, offer: TableOffer, text: str, wells: Sequence[str]
    ) -> WellTable:
        """Give the rows of a table that a line lets through. Raises as `conditions`."""
        key = offer, text, tuple(wells)
        if self._kept is None or self._kept[0] != key:
            tests = self.parse_line(text, offer)[1]
            rows = self._rows_of(offer).rows_where(tests.pop(offer, ()))
            for other, others in tests.items():
                met = self._wells_met(other, others, wells)
                known = rows.wells_of(wells).items()
                rows = rows.of_wells([key for key, path in known if path in met])
            self._kept = key, rows
        return self._kept[1]

    # Colours.

    def color_wells(
        self, column: TableColumn, how: str, text: str, wells: Sequence[str]
    ) -> Coloring:
        """Return the values for the map, from the rows that a line lets through."""
        key = column, how, text, tuple(wells)
        if self._values is None or self._values[0] != key:
            try:
                rows = self.filter_rows(column.offer, text, wells)
            except ValueError:  # while a filter is typed the map stays as it is
                rows = self._rows_of(column.offer)
            self._values = key, self._color_rows(rows, column, how, wells)
        return self._values[1]

    def _color_rows(
        self, rows: WellTable, column: TableColumn, how: str, wells: Sequence[str]
    ) -> Coloring:
        table, name = self.tables[column.offer], column.name
        if how == CATEGORY:
            texts = rows.category_by_well(wells, name)
            # Of all rows, so that colours stay while a filter leaves out rows.
            names = set(table.list_texts(name))
            if len(names) > MOST_CATEGORIES:  # most of them are of no well
                known = (*table.category_by_well(wells, name).values(), *texts.values())
                names = {text for text in known if text is not None}
            return color_categories(texts, names, self._title_values(column, ""))
        values = rows.value_by_well(wells, name, how)
        return color_numbers(values, self._title_values(column, how))

    def _title_values(self, column: TableColumn, how: str) -> str:
        """Say what the values of the wells are: "voxels, mean, day 1"."""
        table = self.tables[column.offer]
        counted = "objects" if LABEL in table.place_columns else "images"
        if how == "count":
            how = f"count of {counted if table.place_columns else 'rows'}"
        elif how != "sum" and self._is_number(column):
            how = f"{how} of images"
        # One row per well needs no word about how rows become one value.
        alone = table.frame[WELL].is_unique and column.name != LABEL
        parts = [self._title_column(column)]
        parts += [how] if how and (not alone or how.startswith("count")) else []
        if self._rows_of(column.offer) is not table:
            parts.append(" + ".join(self._acquisitions[0]))
        return ", ".join(parts)
