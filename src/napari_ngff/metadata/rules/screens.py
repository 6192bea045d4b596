"""Rules of plates and wells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.metadata.rules.rule import (
    MUST,
    SHOULD,
    Rule,
    absent,
    apply,
    inside,
    is_count,
    is_index,
    is_text,
    matches,
    otherwise,
    repeated,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.metadata.cursor import Cursor

__all__ = ["PLATE", "WELL", "check_plate", "check_well"]

ALPHANUMERIC = matches("[A-Za-z0-9]+")
NODE_NAME = matches(r"(?!__)(?!\.+$)[A-Za-z0-9_.-]+")


def empty_lists(place: Cursor) -> Iterator[Cursor]:
    """Find rows, columns and wells without an entry."""
    for key in ("rows", "columns", "wells"):
        if place.at(key).value in ([], {}):
            yield place.at(key)


def names(place: Cursor) -> Iterator[Cursor]:
    """Go to the name of each row and column."""
    for key in ("rows", "columns"):
        for child in place.at(key).children():
            if isinstance(child.value, dict):
                yield child.at("name")


def odd_names(place: Cursor) -> Iterator[Cursor]:
    """Find names with other characters than letters and digits."""
    return (name for name in names(place) if not ALPHANUMERIC(name.value))


def colliding_names(place: Cursor) -> Iterator[Cursor]:
    """Find names that differ from one before in upper and lower case alone."""
    for key in ("rows", "columns"):
        same = {found.where for found in repeated("name")(place.at(key))}
        for found in repeated("name", str.casefold)(place.at(key)):
            if found.where not in same:
                yield found


def misplaced_wells(plate: Cursor) -> Iterator[Cursor]:
    """Find wells whose path is not "row name/column name" of their indices."""
    rows, columns = (
        [child.at("name").value for child in plate.at(key).children()]
        for key in ("rows", "columns")
    )
    for well in plate.at("wells").children():
        row, column = (well.at(key).integer() for key in ("rowIndex", "columnIndex"))
        if row is None or column is None or min(row, column) < 0:
            continue
        if row >= len(rows) or column >= len(columns):
            continue
        if well.at("path").value != f"{rows[row]}/{columns[column]}":
            yield well


PLATE = (
    Rule(
        "plate-version-missing",
        MUST,
        "version: A string defining the version of the specification.",
        absent("version"),
        until=3,
    ),
    Rule(
        "plate-version-missing",
        SHOULD,  # the schema of 0.5 does not have it
        "The plate dictionary MUST contain a version key whose value MUST be a string "
        "specifying the version of the plate specification.",
        absent("version"),
        since=5,
        until=5,
    ),
    Rule(
        "plate-untitled",
        SHOULD,
        "The plate object SHOULD contain a name key whose value MUST be a string "
        "defining the name of the plate.",
        absent("name"),
        since=4,
        consequence="It is shown by the name of its folder.",
    ),
    Rule(
        "plate-field-count-missing",
        SHOULD,
        "The plate object SHOULD contain a field_count key whose value MUST be a "
        "positive integer defining the maximum number of fields per view across all "
        "wells.",
        absent("field_count"),
        since=5,
    ),
    Rule(
        "plate-list-empty",
        MUST,
        "The plate object MUST contain rows, columns and wells; each has at least one.",
        empty_lists,
        consequence="There is nothing to show.",
    ),
    Rule(
        "plate-name-characters",
        MUST,
        "The name MUST contain only alphanumeric characters.",
        odd_names,
        since=4,
    ),
    Rule(
        "plate-name-collides",
        SHOULD,
        "Care SHOULD be taken to avoid collisions on case-insensitive filesystems.",
        colliding_names,
        since=4,
    ),
    Rule(
        "well-position-differs",
        MUST,  # in 0.4 and 0.6 a warning, since their valid cases break it
        "The rowIndex, columnIndex, and path MUST all refer to the same row/column "
        "pair.",
        misplaced_wells,
        since=5,
        until=5,
        consequence="The path counts where it names a row and a column.",
    ),
    Rule(
        "well-index-missing",
        MUST,
        "Each well object MUST contain both a rowIndex key ... and a columnIndex key.",
        inside("wells", absent("rowIndex", "columnIndex")),
        since=4,
        consequence="The path is used instead.",
    ),
    Rule(
        "acquisition-id",
        MUST,
        "Each acquisition object MUST contain an id key whose value MUST be an unique "
        "integer identifier greater than or equal to 0.",
        inside("acquisitions", otherwise(is_index, "id")),
        since=4,
    ),
    Rule(
        "acquisition-name-missing",
        SHOULD,
        "Each acquisition object SHOULD contain a name key.",
        inside("acquisitions", absent("name")),
    ),
    Rule(
        "acquisition-count-missing",
        SHOULD,
        "Each acquisition object SHOULD contain a maximumfieldcount key.",
        inside("acquisitions", absent("maximumfieldcount")),
    ),
    Rule(
        "acquisition-count",
        MUST,
        "maximumfieldcount: a positive integer indicating the maximum number of fields "
        "of view for the acquisition.",
        inside("acquisitions", otherwise(is_count, "maximumfieldcount")),
    ),
    Rule(
        "acquisition-text",
        MUST,
        "MAY contain a description key whose value MUST be a string.",
        inside("acquisitions", otherwise(is_text, "description")),
    ),
    Rule(
        "acquisition-time",
        MUST,
        "MAY contain a starttime and/or endtime key whose values MUST be integer epoch "
        "timestamps.",
        inside("acquisitions", otherwise(is_index, "starttime", "endtime")),
        since=4,
    ),
)

WELL = (
    Rule(
        "well-version-missing",
        SHOULD,
        "The well dictionary SHOULD contain a version key whose value MUST be a string "
        "specifying the version of the well specification.",
        absent("version"),
        since=5,
        until=5,
    ),
    Rule(
        "field-path-characters",
        MUST,
        "The path MUST contain only alphanumeric characters.",
        inside("images", otherwise(ALPHANUMERIC, "path")),
        until=5,
    ),
    Rule(
        "field-path-characters",
        MUST,
        "The path MUST only use characters in the sets a-z, A-Z, 0-9, -, _, . and MUST "
        "NOT consist only of periods or start with the reserved prefix __.",
        inside("images", otherwise(NODE_NAME, "path")),
        since=6,
    ),
)


def check_plate(plate: Cursor, minor: int) -> None:
    """Report what breaks the rules of a ``plate`` object."""
    apply(PLATE, plate, minor)


def check_well(well: Cursor, minor: int) -> None:
    """Report what breaks the rules of a ``well`` object."""
    apply(WELL, well, minor)
