"""A rule of the specification, and the small searches that rules are made of.

A search takes the value that a rule is about (a `Cursor` at its place in the document)
and yields the places that break the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.metadata.model import Severity

if TYPE_CHECKING:
    import re

    from napari_ngff.metadata.cursor import Cursor

MUST, SHOULD = Severity.ERROR, Severity.WARNING

Search = Callable[["Cursor"], Iterable["Cursor"]]


DRAFT = 9
"""Minor version of drafts after 0.6, in which axes are free (RFC-3)."""


@dataclass(frozen=True, slots=True)
class FormatRule:
    """One sentence of the specification.

    Attributes
    ----------
    code
        Of the problem that breaking it makes. Rows of one code are one rule, whose
        wording or severity differs between versions.
    severity
        `MUST` or `SHOULD`. A MUST of the prose that a published valid case breaks,
        because the schema does not have it, is a `SHOULD` here.
    sentence
        As the specification has it, in the words of the newest version.
    search
        Finds what breaks it.
    since, until
        First and last version it holds in; 4 for 0.4, `DRAFT` for later ones.
    consequence
        What the viewer does; "" where it does nothing.
    """

    code: str
    severity: Severity
    sentence: str
    search: Search
    since: int = 1
    until: int = DRAFT
    consequence: str = ""


def apply_rules(rules: Iterable[FormatRule], place: Cursor, minor: int) -> None:
    """Report what breaks those rules at `place` that hold in version 0.`minor`."""
    # Missing keys are places, too: the cursor of one says where it should be.
    for rule in rules:
        if rule.since <= minor <= rule.until:
            for broken in rule.search(place):
                state = broken.describe_value() if broken.is_present else "missing."
                text = f'"{rule.sentence}" Here it is {state}'
                broken.add_problem(rule.severity, rule.code, text, rule.consequence)


def find_absent(*keys: str) -> Search:
    """Find keys that an object lacks."""

    def search(place: Cursor) -> Iterator[Cursor]:
        # What should be an object and is none is another rule's.
        for key in keys:
            if isinstance(place.value, dict) and not place.at(key).is_present:
                yield place.at(key)

    return search


def find_other_values(right: Callable[[object], bool], *keys: str) -> Search:
    """Find keys of an object whose values are present and not `right`."""

    def search(place: Cursor) -> Iterator[Cursor]:
        for key in keys:
            value = place.at(key)
            if value.is_present and not right(value.value):
                yield value

    return search


def search_entries(key: str, search: Search) -> Search:
    """Search each entry of a list."""

    def searched(place: Cursor) -> Iterator[Cursor]:
        for child in place.at(key).children():
            yield from search(child)

    return searched


def find_repeated(key: str, form: Callable[[str], str] = str) -> Search:
    """Find entries of a list whose text at `key` repeats that of an earlier one."""

    def search(place: Cursor) -> Iterator[Cursor]:
        seen: set[str] = set()
        for child in place.children():
            value = child.at(key).value
            if isinstance(value, str):
                if form(value) in seen:
                    yield child.at(key)
                seen.add(form(value))

    return search


def is_text(value: object) -> bool:
    """Return whether a value is a string."""
    return isinstance(value, str)


def is_number(value: object) -> bool:
    """Return whether a value is a number."""
    # JSON's true is no number; Python's is.
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    """Return whether a value is an integer, in JSON also ``1.0``."""
    # Not `float.is_integer`: integers beyond 1.8e308 have no float.
    return is_number(value) and value == value // 1  # type: ignore[operator]


def is_index(value: object) -> bool:
    """Return whether a value is an integer from 0 on."""
    return is_integer(value) and value >= 0  # type: ignore[operator]


def is_count(value: object) -> bool:
    """Return whether a value is an integer from 1 on."""
    return is_integer(value) and value >= 1  # type: ignore[operator]


def match_pattern(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    """Make a test of strings by a pattern; values of other types pass."""
    return lambda value: not isinstance(value, str) or bool(pattern.fullmatch(value))
