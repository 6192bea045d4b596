"""Limits the length of lists in metadata, and the number of equal problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from napari_ngff.metadata.model import Problem, Severity

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
"""Most entries that are read of a list, by its key; the largest plates have 3,456
wells."""

MOST_ALIKE = 100
"""Most problems of one code that are reported of one group or array."""

LEAVES = ("colors", "properties")
"""Lists with an entry for each label, which are not cut."""

NESTED = (dict, list)
"""Types of JSON that hold other values."""


def cut_long_lists(attributes: Any) -> tuple[Problem, ...]:
    """Shorten the lists in attributes to `MOST` entries, in place.

    Returns
    -------
    tuple
        A problem for each shortened list, in any order.
    """
    problems = []
    # A list, not recursion: a file may be nested deeper than Python's stack.
    pending: list[tuple[str, Any]] = [("", attributes)]
    while pending:
        where, value = pending.pop()
        if isinstance(value, list):
            # Entries of a list keep its path: a limit goes by key, and the message
            # names the list.
            pending += [(where, item) for item in value if isinstance(item, NESTED)]
            continue
        for key, item in value.items() if isinstance(value, dict) else ():
            if not isinstance(item, NESTED):
                continue
            path = f"{where}/{key}" if where else key
            most = MOST.get(key)
            if most is not None and isinstance(item, list) and len(item) > most:
                text = f"The list has {len(item):,} entries; {most:,} are read at most."
                used = f"Only its first {most:,} entries are used."
                problems.append(Problem(CODE, Severity.ERROR, path, text, used))
                # In place, so that later steps, which parse the same object, take no
                # longer.
                del item[most:]
            if key not in LEAVES:
                pending.append((path, item))
    return tuple(problems)


def limit_alike(
    findings: Iterable[tuple[str, Problem]],
) -> Iterator[tuple[str, Problem]]:
    """Report at most `MOST_ALIKE` problems of one code and place, and then the rest
    once.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for path, problem in findings:
        kind = path, problem.code
        counts[kind] += 1
        # Once, at the first that is left out: findings are yielded as they come, so the
        # final count is not known yet.
        if counts[kind] == MOST_ALIKE + 1:
            text = f"More than {MOST_ALIKE} problems of this kind are here."
            yield path, replace(problem, where="", text=text)
        elif counts[kind] <= MOST_ALIKE:
            yield path, problem
