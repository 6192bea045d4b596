"""Which wells of a plate a line of text means."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from napari_ngff.plate.layout import letters_index

if TYPE_CHECKING:
    from napari_ngff.plate.layout import MapWell, PlateMap

__all__ = ["matching"]

NAME = re.compile(r"([A-Z]{1,2})-?0*(\d+)")


def matching(plate: PlateMap, text: str) -> frozenset[str] | None:
    """Find the wells that one of the words of a text means.

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
        if any(means(word, well, plate) for word in words)
    )


def means(word: str, well: MapWell, plate: PlateMap) -> bool:
    """Tell whether one word means a well."""
    first, colon, last = word.partition(":")
    if colon:
        corners = place_of(first), place_of(last)
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
        or place_of(word) == (well.row, well.column)
        or fnmatchcase(name, word)
        or fnmatchcase(f"{row}{column.zfill(2)}", word)  # "B03", as many write it
    )


def place_of(name: str) -> tuple[int, int] | None:
    """0-based row and column of a name such as "B03"; None for others."""
    match = NAME.fullmatch(name)
    row = letters_index(match[1]) if match is not None else None
    return None if match is None or row is None else (row, int(match[2]) - 1)
