"""Conditions on the rows of a table, written as one line of text."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "OPERATORS",
    "ColumnCondition",
    "is_condition",
    "parse_conditions",
    "parts_of",
]

OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "contains")

AND = re.compile(r"\s+and\s+|\s*&+\s*", re.IGNORECASE)
QUOTED = re.compile(r"\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)")
"""In double quotes, or in single ones that are no primes as in 5'-UTR."""
COMPARED = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?"
    r"(?P<zone>z|[+-]\d\d(?::?\d\d)?)?)?"
)
"""Of ISO 8601, in lower case."""
DATE_FORMS = "2026-11-22 or 2026-11-22T10:00"
"""How dates are written, for messages."""
OR = re.compile(r"(?:^|\s)(or|\|\|?)(?:\s|$)", re.IGNORECASE)
NOT = re.compile(r"not\s", re.IGNORECASE)
KEPT = re.compile(r"\"(\d+)\"")
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
        One of `OPERATORS`.
    value
        As written, without quotes.
    """

    column: str
    operator: str
    value: str

    def rows_meeting(self, frame: Any) -> Any:
        """Return which rows meet it; rows without a value never do.

        Numbers are compared as numbers, text without regard to case, dates as
        `read_dates` says.

        Parameters
        ----------
        frame
            A pandas.DataFrame with the column.

        Returns
        -------
        pandas.Series
            Of bool.

        Raises
        ------
        ValueError
            Where the value or the operator does not fit the column.
        """
        column = frame[self.column]
        # Booleans, integers and floats; all other types are compared as text.
        if self.operator != "contains" and column.dtype.kind in "biuf":
            return self._met_by_numbers(column)
        import pandas as pd

        # The test is done once per different value: these are few, rows may be
        # millions.
        codes, values = pd.factorize(column)
        texts = pd.Series(values, dtype=object).astype(str).str.strip().str.casefold()
        met = self._met_by_texts(texts)
        # Missing values have the code -1, which is the False at the end.
        matches = np.append(np.asarray(met, bool), False)[codes]
        return pd.Series(matches, index=column.index)

    def _met_by_texts(self, texts: Any) -> Any:
        value = self.value.casefold()
        if self.operator == "contains":
            return texts.str.contains(value, regex=False)
        dates = read_dates(texts, value)
        if dates is not None:
            return COMPARED[self.operator](dates[:-1], dates[-1])
        if self.operator in ("=", "!="):
            return COMPARED[self.operator](texts, value)
        msg = f"{self.column!r} holds text; it has no order for {self.operator!r}."
        if is_date(value) or texts.map(is_date).any():
            msg += f" Dates have one: all written as {DATE_FORMS}, in one time zone."
        raise ValueError(msg)

    def _met_by_numbers(self, column: Any) -> Any:
        value = self._compare_numbers(column)
        # Fractions that were typed are not stored exactly, whole numbers are.
        equal = column == value
        if column.dtype.kind == "f" and value % 1 > 0:
            equal |= (column - value).abs() <= EQUAL * abs(value)
        # NaN meets none of them, not even "!=".
        tests = {
            "=": lambda: equal,
            "!=": lambda: column.notna() & ~equal,
            "<": lambda: (column < value) & ~equal,
            "<=": lambda: (column < value) | equal,
            ">": lambda: (column > value) & ~equal,
            ">=": lambda: (column > value) | equal,
        }
        return tests[self.operator]()

    def _compare_numbers(self, column: Any) -> float:
        word = WORDS.get(self.value.casefold())
        if word is not None and column.dtype.kind == "b":
            return word
        try:
            # Not as float, which does not hold all ids of labels (above 2^53).
            return int(self.value)
        except ValueError:
            pass
        try:
            return float(self.value)
        except ValueError as error:
            msg = f"{self.column!r} holds numbers, and {self.value!r} is none."
            raise ValueError(msg) from error


def parts_of(text: str) -> tuple[str, ...]:
    """Cut a line at each "and" and "&" outside of quotes."""
    # Quoted text is replaced by its number, so that an "and" in it cuts nothing.
    kept: list[str] = []

    def hide_quoted(quoted: re.Match[str]) -> str:
        kept.append(quoted[0])
        return f'"{len(kept) - 1}"'

    hidden = QUOTED.sub(hide_quoted, text)
    parts = (part.strip() for part in AND.split(f" {hidden} "))
    return tuple(
        KEPT.sub(lambda number: kept[int(number[1])], part) for part in parts if part
    )


def is_condition(part: str) -> bool:
    """Return whether a part of a line is a test of a column."""
    return TEST.fullmatch(part) is not None


def parse_conditions(text: str, columns: Sequence[str]) -> tuple[ColumnCondition, ...]:
    """Read tests that are joined by "and": ``area > 200 and dose = 0.1``.

    Parameters
    ----------
    text
        Names and values may stand in quotes. Blank text has no conditions.
    columns
        Names there are; they are found in either case, the same one first.

    Raises
    ------
    ValueError
        Where a part is no test, or names no column.
    """
    # Reversed, so that of names that differ in case the first one wins.
    known = {name.casefold(): name for name in reversed(columns)}
    conditions = []
    for part in parts_of(text):
        test = TEST.fullmatch(part)
        if test is None or not test["value"]:
            msg = (
                f"{part!r} is not a test. Write a column, one of {' '.join(OPERATORS)}"
            )
            raise ValueError(f"{msg}, and a value: area > 200.")
        name = _strip_quotes(test["column"])
        column = name if name in columns else known.get(name.casefold())
        _refuse_words(test["value"], "" if column else test["column"])
        if column is None:
            raise ValueError(_no_column(name, columns))
        operator = test["op"].lower().replace("==", "=")
        conditions.append(
            ColumnCondition(column, operator, _strip_quotes(test["value"]))
        )
    return tuple(conditions)


def _refuse_words(value: str, column: str) -> None:
    """Refuse what other languages of filters have; names and values may be in quotes.

    Raises
    ------
    ValueError
        Where a word joins tests in another way than by "and", or denies one.
    """
    texts = (text for text in (column, value) if not QUOTED.fullmatch(text))
    if word := next(filter(None, map(OR.search, texts)), None):
        raise ValueError(
            f"{word[1]!r} is not supported: tests are joined by 'and' alone. Text with"
            " this word goes into quotes."
        )
    if NOT.match(column):
        raise ValueError("'not' is not supported: write !=, or the opposite test.")


def _no_column(name: str, columns: Sequence[str]) -> str:
    """Name the columns that may be meant: tables have dozens of them."""
    similar = get_close_matches(name, columns, n=LISTED)
    if similar:
        return f"There is no column {name!r}. Did you mean {' or '.join(similar)}?"
    listed = ", ".join(columns[:LISTED])
    more = f" and {len(columns) - LISTED} more" if len(columns) > LISTED else ""
    return f"There is no column {name!r}; there are {listed}{more}."


def is_date(text: str) -> bool:
    """Return whether a text in lower case is a date, with or without a time."""
    return DATE.fullmatch(text) is not None


def read_dates(texts: Sequence[str], value: str) -> NDArray[np.datetime64] | None:
    """Read dates, and cut them to the precision of the value that is asked for.

    Parameters
    ----------
    texts, value
        In lower case.

    Returns
    -------
    array or None
        The texts, then the value, in the time zone of the texts. None if one is no
        date, or time zones differ.
    """
    import pandas as pd

    asked = DATE.fullmatch(value)
    if asked is None or not all(map(is_date, texts)):
        return None
    try:
        dates = [pd.Timestamp(text.upper()) for text in (*texts, value)]
    except ValueError:  # such as the 30th of February
        return None
    # A value without a time zone is in that of the column.
    zoned = dates if asked["zone"] else dates[:-1]
    if len({date.utcoffset() for date in zoned}) > 1:
        return None
    precision = np.datetime64(value.removesuffix(asked["zone"] or "").upper()).dtype
    return np.array([date.tz_localize(None) for date in dates], precision)


def _strip_quotes(text: str) -> str:
    return (text[1:-1] if QUOTED.fullmatch(text) else text).strip()
