"""Lists in metadata, and of what is wrong in it, are cut where nobody reads on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from napari_ngff.metadata.model import Problem, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["CODE", "cut_long_lists", "limit_alike"]

CODE = "list-too-long"
"""Code of the problem."""

MOST: Mapping[str, int] = {
    "axes": 100,
    "columns": 2_000,
    "coordinateSystems": 1_000,
    "coordinateTransformations": 1_000,
    "channels": 10_000,
    "acquisitions": 10_000,
    "datasets": 1_000,
    "images": 10_000,
    "labels": 10_000,
    "multiscales": 1_000,
    "rows": 2_000,
    "series": 10_000,
    "transformations": 1_000,
    "wells": 10_000,
}
"""Entries that are read of a list, by its key; the largest plates have 3,456 wells."""

MOST_ALIKE = 100
"""Problems of one code that are told of one group or array."""

LEAVES = ("colors", "properties")
"""Lists as long as there are labels; nothing in them is cut."""


def cut_long_lists(attributes: Any) -> tuple[Problem, ...]:
    """Cut what is longer than `MOST` out of attributes, in place.

    Returns
    -------
    tuple
        A problem for each list, in no certain order.
    """
    problems = []
    waiting: list[tuple[str, Any]] = [("", attributes)]
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, list):
            inside = (one for one in value if isinstance(one, dict | list))
            waiting += [(where, one) for one in inside]
            continue
        for key, found in value.items() if isinstance(value, dict) else ():
            place = f"{where}/{key}" if where else key
            most = MOST.get(key)
            if most is not None and isinstance(found, list) and len(found) > most:
                problems.append(too_long(place, len(found), most))
                del found[most:]
            if isinstance(found, dict | list) and key not in LEAVES:
                waiting.append((place, found))
    return tuple(problems)


def too_long(place: str, count: int, most: int) -> Problem:
    """Describe a list that was cut."""
    text = f"The list has {count:,} entries; {most:,} are read at most."
    consequence = f"Only its first {most:,} entries are used."
    return Problem(CODE, Severity.ERROR, place, text, consequence)


def limit_alike(
    findings: Iterable[tuple[str, Problem]],
) -> Iterator[tuple[str, Problem]]:
    """Leave out what one place has more of than anybody reads, and say so once."""
    counts: Counter[tuple[str, str]] = Counter()
    for path, problem in findings:
        kind = path, problem.code
        counts[kind] += 1
        if counts[kind] == MOST_ALIKE + 1:
            text = f"More than {MOST_ALIKE} problems of this kind are here."
            yield path, replace(problem, where="", text=text)
        elif counts[kind] <= MOST_ALIKE:
            yield path, problem
