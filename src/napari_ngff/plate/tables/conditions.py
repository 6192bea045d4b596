"""Filters as one line of text: words for wells, and conditions on rows of a table."""

from __future__ import annotations

import operator
import re
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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
        One of those of `COMPARED`, or "contains".
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
        pandas.Series or array
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
        return np.append(np.asarray(met, bool), False)[codes]

    def _met_by_texts(self, texts: Any) -> Any:
        value: Any = self.value.casefold()
        if self.operator == "contains":
            return texts.str.contains(value, regex=False)
        dates = read_dates(texts, value)
        if dates is not None:
            texts, value = dates[:-1], dates[-1]
        elif self.operator not in ("=", "!="):
            msg = f"{self.column!r} holds text; it has no order for {self.operator!r}."
            if is_date(value) or texts.map(is_date).any():
                msg += (
                    f" Dates have one: all written as {DATE_FORMS}, in one time zone."
                )
            raise ValueError(msg)
        return COMPARED[self.operator](texts, value)

    def _met_by_numbers(self, column: Any) -> Any:
        value = self._read_number(column)
        # Fractions that were typed are not stored exactly, whole numbers are.
        if column.dtype.kind == "f" and value % 1 > 0:
            column = column.astype(float)
            is_equal = (column - value).abs() <= EQUAL * abs(value)
            column = column.mask(is_equal, value)
        # NaN meets none of them, not even "!=".
        return column.notna() & COMPARED[self.operator](column, value)

    def _read_number(self, column: Any) -> float:
        word = WORDS.get(self.value.casefold())
        if word is not None and column.dtype.kind == "b":
            return word
        # First as an integer: not all ids of labels (above 2^53) are floats.
        for kind in (int, float):
            with suppress(ValueError):
                return kind(self.value)
        msg = f"{self.column!r} holds numbers, and {self.value!r} is none."
        raise ValueError(msg)


def _parts_of(text: str) -> tuple[str, ...]:
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
    words, conditions = [], []
    for part in _parts_of(text):
        test = TEST.fullmatch(part)
        if test is None:
            words.append(part)
            continue
        if not test["value"]:
            raise ValueError(
                f"{part!r} has no value. A test is written so: area > 200."
            )
        name = _strip_quotes(test["column"])
        column = name if name in columns else known.get(name.casefold())
        _refuse_words(test["value"], "" if column else test["column"])
        if column is None:
            raise ValueError(_no_column(name, columns))
        operator = test["op"].lower().replace("==", "=")
        condition = ColumnCondition(column, operator, _strip_quotes(test["value"]))
        conditions.append(condition)
    return words, conditions


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
    text = f"There is no column {name!r}"
    if not columns:
        return f"{text}: load or measure a table first."
    if similar := get_close_matches(name, columns, n=LISTED):
        return f"{text}. Did you mean {' or '.join(similar)}?"
    more = f" and {len(columns) - LISTED} more" if len(columns) > LISTED else ""
    return f"{text}; there are {', '.join(columns[:LISTED])}{more}."


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
