"""Dates in columns of text, in forms of ISO 8601 whose text sorts by time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FORMS", "as_dates", "is_date"]

FORMS = "2026-11-22 or 2026-11-22T10:00"
"""How dates are written, for messages."""

DATE = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(?:[t ](?P<time>\d\d:\d\d(?::\d\d(?:\.\d+)?)?)"
    r"(?P<zone>z|[+-]\d\d(?::?\d\d)?)?)?"
)
MIDNIGHT = "00:00:00.000000000"


def is_date(text: str) -> bool:
    """Return whether a text in lower case is a date, with or without a time."""
    return DATE.fullmatch(text) is not None


def as_dates(texts: Iterable[str], value: str) -> tuple[list[str], str] | None:
    """Write dates and a value in one form, so that they can be compared as text.

    Dates are cut to the precision of the value: to the day, if it has no time.

    Parameters
    ----------
    texts
        In lower case.
    value
        What they are compared with, in lower case, too.

    Returns
    -------
    tuple or None
        Both, in one form; None where one is no date, or time zones differ.
    """
    asked = DATE.fullmatch(value)
    if asked is None:
        return None
    zones = {asked["zone"]} - {None}
    # Lower case "t", since texts are in lower case.
    kept = value.removesuffix(asked["zone"] or "").replace(" ", "t")
    dates = []
    for text in texts:
        match = DATE.fullmatch(text)
        if match is None:
            return None
        zones.add(match["zone"])
        time = match["time"] or ""
        dates.append(f"{match['day']}t{time}{MIDNIGHT[len(time) :]}"[: len(kept)])
    # Texts of different zones have no order.
    return (dates, kept) if len({_zone_offset(zone) for zone in zones}) <= 1 else None


def _zone_offset(zone: str | None) -> str:
    if zone is None or zone == "z":
        return "+0000" if zone else ""
    return f"{zone.replace(':', '')}00"[:5]
