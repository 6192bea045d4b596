"""Dates in columns of text, as ISO 8601 has them: their text has an order."""

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
    """Tell whether a text in lower case is a date, with or without a time."""
    return DATE.fullmatch(text) is not None


def as_dates(texts: Iterable[str], value: str) -> tuple[list[str], str] | None:
    """Write dates so that they compare as text with one of them.

    They are cut to what that one says: to the day, if it is one without a time.

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
    kept = value.removesuffix(asked["zone"] or "").replace(" ", "t")
    dates = []
    for text in texts:
        match = DATE.fullmatch(text)
        if match is None:
            return None
        zones.add(match["zone"])
        time = match["time"] or ""
        dates.append(f"{match['day']}t{time}{MIDNIGHT[len(time) :]}"[: len(kept)])
    return (dates, kept) if len({_zone_offset(zone) for zone in zones}) <= 1 else None


def _zone_offset(zone: str | None) -> str:
    if zone is None or zone == "z":
        return "+0000" if zone else ""
    return f"{zone.replace(':', '')}00"[:5]
