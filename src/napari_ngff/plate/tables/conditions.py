"""Filters as one line of text: words for wells, and conditions on rows of a table.

Only comparisons are read, and pandas does them: no text of a user is evaluated.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

QUOTED = r"\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)"
"""In double quotes, or in single ones that are no primes as in 5'-UTR."""
AND = re.compile(rf"({QUOTED})|\s+and\s+|\s*&+\s*", re.IGNORECASE)
REFUSED = re.compile(r"(?:^|\s)(or|\|\|?)(?:\s|$)|^(not)\s", re.IGNORECASE)
"""What other languages of filters have."""
COMPARED = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
DATE = re.compile(
    r"\d{4}-\d\d-\d\d([t ]\d\d:\d\d(:\d\d(\.\d+)?)?(z|[+-]\d\d(:?\d\d)?)?)?"
)
"""Of ISO 8601, in lower case."""
TEST = re.compile(
    r"\s*(?P<column>\"[^\"]+\"|'[^']+'|[^=<>!\"]+?)\s*"
    r"(?P<op>!=|<=|>=|==|=|<|>|\bcontains\b)\s*(?P<value>.*?)\s*",
    re.IGNORECASE,
)
EQUAL = 1e-6
"""Relative difference of fractions that count as equal: float32 has no 0.1."""
LISTED = 5
"""Most columns that a message names."""
WORDS = {"true": 1, "false": 0, "yes": 1, "no": 0}
"""What may be written for the two values of a column that has no others."""


@dataclass(frozen=True, slots=True)
class ColumnCondition:
    """A test of one column.

    Attributes
    ----------
    column
        Its name.
    operator
        One of those of `COMPARED`, or "contains".
    value
        As written, without quotes.
    """

    column: str
    operator: str
    value: str

    def rows_meeting(self, frame: Any) -> Any:
        """Return which rows meet it, as an array of bool; never one without a value.

        Numbers are compared as numbers, text without regard to case, dates by time.

        Parameters
        ----------
        frame
            A pandas.DataFrame with the column.

        Raises
        ------
        ValueError
            Where the value or the operator does not fit the column.
        """
        import pandas as pd

        column = frame[self.column]
        # Booleans, integers and floats; all other types are compared as text.
        if self.operator != "contains" and column.dtype.kind in "biuf":
            met = COMPARED[self.operator](*self._read_numbers(column))
            # NaN meets none of them, not even "!=".
            return (column.notna() & met).to_numpy(bool, na_value=False)
        # The test is done once per different value: these are few, rows may be
        # millions. Missing values have the code -1, which is the False at the end.
        codes, values = pd.factorize(column)
        texts = pd.Series(values, dtype=object).astype(str).str.strip().str.casefold()
        met = np.asarray(self._met_by_texts(texts), bool)
        return np.append(met, False)[codes]

    def _met_by_texts(self, texts: Any) -> Any:
        value = self.value.casefold()
        if self.operator == "contains":
            return texts.str.contains(value, regex=False)
        compare, dates = COMPARED[self.operator], _read_dates(texts, value)
        if dates is not None:
            return compare(*dates)
        if self.operator in ("=", "!="):
            return compare(texts, value)
        msg = f"{self.column!r} holds text; it has no order for {self.operator!r}."
        if any(map(DATE.fullmatch, [*texts, value])):
            msg += " Dates have one: all written as 2026-11-22 or 2026-11-22T10:00, in"
            msg += " one time zone."
        raise ValueError(msg)

    def _read_numbers(self, column: Any) -> tuple[Any, float]:
        """Return the column and the value, as numbers that can be compared."""
        import pandas as pd

        # A whole number is no float: not all ids of labels (above 2^53) are floats.
        value = pd.to_numeric(pd.Series([self.value]), errors="coerce").item()
        if column.dtype.kind == "b":
            value = WORDS.get(self.value.casefold(), value)
        if pd.isna(value):
            msg = f"{self.column!r} holds numbers, and {self.value!r} is none."
            raise ValueError(msg)
        # Fractions that were typed are not stored exactly, whole numbers are.
        if column.dtype.kind == "f" and value % 1 > 0:
            column = column.astype(float)
            is_equal = (column - value).abs() <= EQUAL * abs(value)
            column = column.mask(is_equal, value)
        return column, value


def parse_filter(
    text: str, columns: Sequence[str]
) -> tuple[list[str], list[ColumnCondition]]:
    """Read a line whose parts are joined by "and": ``A1:C4 and area > 200``.

    Parameters
    ----------
    text
        Names and values may stand in quotes. Blank text has no parts.
    columns
        Names there are; they are found in either case, the same one first.

    Returns
    -------
    list
        Parts without a comparison: words for wells.
    list
        Tests of columns.

    Raises
    ------
    ValueError
        Where a test has no value, or names no column.
    """
    # Reversed, so that of names that differ in case the first one wins.
    known = {name.casefold(): name for name in reversed(columns)}
    known |= {name: name for name in columns}
    words, conditions = [], []
    # An "and" in quotes cuts nothing.
    parts = AND.sub(lambda found: found[1] or "\0", f" {text} ").split("\0")
    for part in filter(None, map(str.strip, parts)):
        test = TEST.fullmatch(part)
        if test is None:
            words.append(part)
            continue
        if not test["value"]:
            raise ValueError(
                f"{part!r} has no value. A test is written so: area > 200."
            )
        if refused := REFUSED.search(re.sub(QUOTED, "", part)):
            raise ValueError(
                f"{refused[1] or refused[2]!r} is not supported: tests are joined by"
                " 'and' alone. Text with this word goes into quotes."
            )
        name, value = (
            (x[1:-1] if re.fullmatch(QUOTED, x) else x).strip()
            for x in (test["column"], test["value"])
        )
        column = known.get(name) or known.get(name.casefold())
        if column is None:
            raise ValueError(_no_column(name, columns))
        sign = test["op"].lower().replace("==", "=")
        conditions.append(ColumnCondition(column, sign, value))
    return words, conditions


def _no_column(name: str, columns: Sequence[str]) -> str:
    """Name the columns that may be meant: tables have dozens of them."""
    text = f"There is no column {name!r}"
    if not columns:
        return f"{text}: load or measure a table first."
    if similar := get_close_matches(name, columns, n=LISTED):
        return f"{text}. Did you mean {' or '.join(similar)}?"
    more = f" and {len(columns) - LISTED} more" if len(columns) > LISTED else ""
    return f"{text}; there are {', '.join(columns[:LISTED])}{more}."


def _read_dates(texts: Any, value: str) -> Any:
    """Read dates and a value, to the precision of which they are cut.

    None if one is no date, or time zones differ.
    """
    import pandas as pd

    matches = [*map(DATE.fullmatch, (*texts, value))]
    if not all(matches):
        return None
    *zones, zone = (match[4] for match in matches if match)
    try:
        # A value without a time zone is in that of the column. "Z" is "+00:00".
        stated = {*zones, zone} if zone else {*zones}
        times = [f"1970-01-01T00:00{text or ''}" for text in stated]
        if len({pd.Timestamp(time.upper()).utcoffset() for time in times}) > 1:
            return None
        dates = pd.to_datetime(texts.str.upper(), format="ISO8601").dt.tz_localize(None)
        date = pd.Timestamp(value.upper()).tz_localize(None)
    except ValueError:  # such as the 30th of February
        return None
    asked: Any = matches[-1]
    units = {"D": asked[1], "min": asked[2], "s": asked[3]}
    unit = next((unit for unit in units if not units[unit]), None)
    return dates if unit is None else dates.dt.floor(unit), date
