"""Rules of plates and wells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.metadata.dump import ALPHANUMERIC, NODE_NAME
from napari_ngff.metadata.rules.rule import (
    MUST,
    SHOULD,
    FormatRule,
    find_absent,
    find_other_values,
    find_repeated,
    is_count,
    is_index,
    is_text,
    match_pattern,
    search_entries,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.metadata.cursor import Cursor

IS_ALPHANUMERIC = match_pattern(ALPHANUMERIC)
# 0.6 allows what Zarr v3 allows as the name of a node.
IS_NODE_NAME = match_pattern(NODE_NAME)


def list_names(place: Cursor) -> Iterator[Cursor]:
    """Go to the name of each row and column."""
    for key in ("rows", "columns"):
        for child in place.at(key).children():
            if isinstance(child.value, dict):
                yield child.at("name")


def colliding_names(place: Cursor) -> Iterator[Cursor]:
    """Find names that differ from an earlier one only in upper and lower case."""
    for key in ("rows", "columns"):
        # Names that are equal as written break another rule, and are reported there.
        same = {name.where for name in find_repeated("name")(place.at(key))}
        for name in find_repeated("name", str.casefold)(place.at(key)):
            if name.where not in same:
                yield name


def misplaced_wells(plate: Cursor) -> Iterator[Cursor]:
    """Find wells whose path is not "row name/column name" of their indices."""
    rows, columns = (
        [child.at("name").value for child in plate.at(key).children()]
        for key in ("rows", "columns")
    )
    for well in plate.at("wells").children():
        row, column = (
            well.at(key).read_integer() for key in ("rowIndex", "columnIndex")
        )
        # Indices that are missing or out of range are reported by reading.
        if row is None or column is None or min(row, column) < 0:
            continue
        if row >= len(rows) or column >= len(columns):
            continue
        if well.at("path").value != f"{rows[row]}/{columns[column]}":
            yield well


PLATE = (
    FormatRule(
        "plate-version-missing",
        MUST,
        "version: A string defining the version of the specification.",
        find_absent("version"),
        until=3,
    ),
    FormatRule(
        "plate-version-missing",
        SHOULD,  # the schema of 0.5 does not have it
        "The plate dictionary MUST contain a version key whose value MUST be a string "
        "specifying the version of the plate specification.",
        find_absent("version"),
        since=5,
        until=5,
    ),
    FormatRule(
        "plate-untitled",
        SHOULD,
        "The plate object SHOULD contain a name key whose value MUST be a string "
        "defining the name of the plate.",
        find_absent("name"),
        since=4,
        consequence="It is shown by the name of its folder.",
    ),
    FormatRule(
        "plate-field-count-missing",
        SHOULD,
        "The plate object SHOULD contain a field_count key whose value MUST be a "
        "positive integer defining the maximum number of fields per view across all "
        "wells.",
        find_absent("field_count"),
        since=5,
    ),
    FormatRule(
        "plate-list-empty",
        MUST,
        "The plate object MUST contain rows, columns and wells; each has at least one.",
        find_other_values(
            lambda value: value not in ([], {}), "rows", "columns", "wells"
        ),
        consequence="There is nothing to show.",
    ),
    FormatRule(
        "plate-name-characters",
        MUST,
        "The name MUST contain only alphanumeric characters.",
        lambda plate: (n for n in list_names(plate) if not IS_ALPHANUMERIC(n.value)),
        since=4,
    ),
    FormatRule(
        "plate-name-collides",
        SHOULD,
        "Care SHOULD be taken to avoid collisions on case-insensitive filesystems.",
        colliding_names,
        since=4,
    ),
    FormatRule(
        "well-position-differs",
        MUST,  # in 0.4 and 0.6 a warning, since their valid cases break it
        "The rowIndex, columnIndex, and path MUST all refer to the same row/column "
        "pair.",
        misplaced_wells,
        since=5,
        until=5,
        consequence="The path counts where it names a row and a column.",
    ),
    FormatRule(
        "well-index-missing",
        MUST,
        "Each well object MUST contain both a rowIndex key ... and a columnIndex key.",
        search_entries("wells", find_absent("rowIndex", "columnIndex")),
        since=4,
        consequence="The path is used instead.",
    ),
    FormatRule(
        "acquisition-id",
        MUST,
        "Each acquisition object MUST contain an id key whose value MUST be an unique "
        "integer identifier greater than or equal to 0.",
        search_entries("acquisitions", find_other_values(is_index, "id")),
        since=4,
    ),
    FormatRule(
        "acquisition-name-missing",
        SHOULD,
        "Each acquisition object SHOULD contain a name key.",
        search_entries("acquisitions", find_absent("name")),
    ),
    FormatRule(
        "acquisition-count-missing",
        SHOULD,
        "Each acquisition object SHOULD contain a maximumfieldcount key.",
        search_entries("acquisitions", find_absent("maximumfieldcount")),
    ),
    FormatRule(
        "acquisition-count",
        MUST,
        "maximumfieldcount: a positive integer indicating the maximum number of fields "
        "of view for the acquisition.",
        search_entries(
            "acquisitions", find_other_values(is_count, "maximumfieldcount")
        ),
    ),
    FormatRule(
        "acquisition-text",
        MUST,
        "MAY contain a description key whose value MUST be a string.",
        search_entries("acquisitions", find_other_values(is_text, "description")),
    ),
    FormatRule(
        "acquisition-time",
        MUST,
        "MAY contain a starttime and/or endtime key whose values MUST be integer epoch "
        "timestamps.",
        search_entries(
            "acquisitions", find_other_values(is_index, "starttime", "endtime")
        ),
        since=4,
    ),
)

WELL = (
    FormatRule(
        "well-version-missing",
        SHOULD,
        "The well dictionary SHOULD contain a version key whose value MUST be a string "
        "specifying the version of the well specification.",
        find_absent("version"),
        since=5,
        until=5,
    ),
    FormatRule(
        "field-path-characters",
        MUST,
        "The path MUST contain only alphanumeric characters.",
        search_entries("images", find_other_values(IS_ALPHANUMERIC, "path")),
        until=5,
    ),
    FormatRule(
        "field-path-characters",
        MUST,
        "The path MUST only use characters in the sets a-z, A-Z, 0-9, -, _, . and MUST "
        "NOT consist only of periods or start with the reserved prefix __.",
        search_entries("images", find_other_values(IS_NODE_NAME, "path")),
        since=6,
    ),
)
