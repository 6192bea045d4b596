"""Parses ``plate`` and ``well``.

The position of a well on the plate follows from the two names in its path, or from its
indices. In published files of 0.4 and 0.6 these disagree, so neither alone is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.metadata.model import (
    Acquisition,
    Consequence,
    PlateMetadata,
    WellField,
    WellMetadata,
    WellReference,
)

if TYPE_CHECKING:
    from napari_ngff.metadata.cursor import Cursor

__all__ = ["parse_plate", "parse_well"]


def parse_plate(plate: Cursor, minor: int) -> PlateMetadata | None:
    """Read a ``plate`` object; None where there is none.

    Parameters
    ----------
    plate
        At it.
    minor
        4 for version 0.4, the first in which wells have indices.

    Returns
    -------
    PlateMetadata or None
        Its rows and columns are those listed, and after them those that only the
        wells' paths name. Wells of an unusable or a repeated path are left out.
    """
    if not plate.is_object():
        return None
    # Lists that grow: names that only wells' paths have are added behind them.
    rows = parse_names(plate.at("rows"))
    columns = parse_names(plate.at("columns"))
    wells: dict[str, WellReference] = {}
    listed = plate.at("wells")
    listed.require_value('MUST contain the field "wells".', "The plate is empty.")
    for item in listed.list_items():
        path = item.at("path").read_path() if item.is_object() else None
        if path in wells:
            # Less the period at the end of the description.
            text = f"The well {item.at('path').describe_value()[:-1]} is listed before."
            item.report_error("well-duplicate", text)
        elif path is not None:
            row, column = find_position(item, path, rows, columns, minor)
            wells[path] = WellReference(path, row, column)
    return PlateMetadata(
        plate.at("name").read_name() or "",
        tuple(rows),
        tuple(columns),
        tuple(wells.values()),
        parse_acquisitions(plate.at("acquisitions")),
        parse_count(plate.at("field_count")),
    )


def parse_names(items: Cursor) -> list[str]:
    """Read the names of rows or columns, one for each entry."""
    items.require_value(
        "MUST list the rows and columns.", "The wells' paths name them."
    )
    names: list[str] = []
    known: set[str] = set()
    for index, item in enumerate(items.list_items()):
        if isinstance(item.value, str):
            item.report_expected("an object", "It is used as the name.")
        stated = item.at("name") if isinstance(item.value, dict) else item
        name = stated.read_name()
        if name is None:
            name = str(index + 1)
            text = "Each row and column MUST have a name."
            item.report_error("plate-name-missing", text, f'It is named "{name}".')
        elif name in known:
            text = f"The name {stated.describe_value()[:-1]} MUST NOT be a duplicate."
            item.report_error(
                "plate-name-duplicate", text, "The first one takes the wells."
            )
        # Repeated names stay, since indices of wells count them.
        names.append(name)
        known.add(name)
    return names


def find_position(
    well: Cursor, path: str, rows: list[str], columns: list[str], minor: int
) -> tuple[int, int]:
    """Find row and column of a well; missing names are added to `rows`, `columns`."""
    parts = path.split("/")
    # Up to 0.3 an acquisition could stand before row and column.
    if len(parts) != 2 and not (len(parts) > 2 and minor <= 3):
        text = (
            f"A well's path MUST be row/column, is {well.at('path').describe_value()}"
        )
        well.report_error("well-path-depth", text, "Its last names are used.")
    row, column = ["", *parts][-2:]
    # The path comes first: it is where the data is, and what people read.
    named = index_of(row, rows), index_of(column, columns)
    stated = (
        parse_index(well.at("rowIndex"), rows, minor),
        parse_index(well.at("columnIndex"), columns, minor),
    )
    if None in named and None not in stated:
        text = f'"{row[:40]}/{column[:40]}" names no row and column of the plate.'
        well.report_warning("well-position-differs", text, "The indices count.")
        named = stated
    elif None in named:
        text = f'"{row[:40]}/{column[:40]}" names no row and column of the plate.'
        well.report_warning("well-position-unknown", text, "The names are added to it.")
    elif any(i not in (None, n) for i, n in zip(stated, named, strict=True)):
        text = "Path, rowIndex and columnIndex MUST refer to the same row and column."
        well.report_warning("well-position-differs", text, "The path counts.")
    return (
        choose_index(named[0], stated[0], row, rows),
        choose_index(named[1], stated[1], column, columns),
    )


def index_of(name: str, names: list[str]) -> int | None:
    return names.index(name) if name in names else None


def parse_index(stated: Cursor, names: list[str], minor: int) -> int | None:
    """Read an index into `names`; None where absent or out of range."""
    index = stated.read_integer()
    if index is not None and not 0 <= index < len(names):
        stated.report_expected(
            f"an index below {len(names)}", "The path is used instead."
        )
        return None
    if minor >= 4:
        stated.require_value(
            "MUST contain rowIndex and columnIndex.", "The path is used instead."
        )
    return index


def choose_index(
    named: int | None, stated: int | None, name: str, names: list[str]
) -> int:
    """Return the index by name or the stated one, or append the `name`."""
    if named is not None:
        return named
    # An index counts only where the name of the path is not listed.
    if stated is not None:
        return stated
    names.append(name)
    return len(names) - 1


def parse_acquisitions(items: Cursor) -> tuple[Acquisition, ...]:
    """Read the acquisitions that have a unique id."""
    result: dict[int, Acquisition] = {}
    for item in items.list_items():
        stated = item.at("id")
        if item.is_object():
            stated.require_value('MUST contain the key "id".', Consequence.LEFT_OUT)
        identity = stated.read_integer()
        # Fields name their acquisition by it, so a second one could not be chosen.
        if identity in result:
            item.report_error(
                "acquisition-duplicate", f"The id {identity} MUST be unique."
            )
        elif identity is not None:
            start, end = (
                item.at("starttime").read_integer(),
                item.at("endtime").read_integer(),
            )
            name = item.at("name").read_name()
            result[identity] = Acquisition(identity, name, start, end)
    return tuple(result.values())


def parse_count(count: Cursor) -> int | None:
    """Read a number of fields."""
    value = count.read_integer()
    if value is not None and value < 1:
        count.report_expected("an integer greater than 0")
        return None
    return value


def parse_well(well: Cursor) -> WellMetadata | None:
    """Read a ``well`` object; None where there is none.

    Fields of an unusable or a repeated path are left out.
    """
    if not well.is_object():
        return None
    images = well.at("images")
    images.require_value('MUST contain the field "images".', "The well is empty.")
    fields: dict[str, WellField] = {}
    for item in images.list_items():
        path = item.at("path").read_path() if item.is_object() else None
        if path in fields:
            item.report_error("field-duplicate", "The images of a well MUST be unique.")
        elif path is not None:
            fields[path] = WellField(path, item.at("acquisition").read_integer())
    if images.is_present and not fields:
        images.report_error(
            "well-empty", "A well MUST have an image.", "The well is empty."
        )
    return WellMetadata(tuple(fields.values()))
