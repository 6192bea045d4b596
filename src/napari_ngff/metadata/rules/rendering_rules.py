"""Rules of ``omero`` and ``image-label``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ngff.metadata.rules.rule import (
    MUST,
    SHOULD,
    FormatRule,
    apply_rules,
    find_absent,
    find_other_values,
    is_text,
    search_entries,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.metadata.cursor import Cursor

__all__ = ["LABEL", "OMERO", "check_label", "check_omero"]


def bare_windows(omero: Cursor) -> Iterator[Cursor]:
    """Find limits that a window lacks."""
    # A missing window is another rule's, which also differs between versions.
    for channel in omero.at("channels").children():
        yield from find_absent("min", "max", "start", "end")(channel.at("window"))


def empty_lists(label: Cursor) -> Iterator[Cursor]:
    """Find ``colors`` and ``properties`` without an entry."""
    return (label.at(k) for k in ("colors", "properties") if label.at(k).value == [])


COLOR = FormatRule(
    "channel-color-missing",
    MUST,
    "Each object in channels MUST contain the field color, which is a string of 6 "
    "hexadecimal digits specifying the color of the channel in RGB format.",
    search_entries("channels", find_absent("color")),
    until=4,  # see `OMERO` for later versions
    consequence="It gets a colour of napari's.",
)
WINDOW = FormatRule(
    "channel-window-missing",
    MUST,
    "Each object in channels MUST contain the field window, which is a object "
    "describing the windowing of the channel.",
    search_entries("channels", find_absent("window")),
    until=4,
    consequence="Its contrast comes from the pixels.",
)

OMERO = (
    COLOR,
    WINDOW,
    # The schemas of 0.5 and 0.6 have neither.
    replace(COLOR, severity=SHOULD, since=5, until=6),
    replace(WINDOW, severity=SHOULD, since=5, until=6),
    FormatRule(
        "channel-window-incomplete",
        MUST,
        "The field window MUST contain the fields min and max, which are the minimum "
        "and maximum values of the window, respectively. It MUST also contain the "
        "fields start and end, which are the start and end values of the window, "
        "respectively.",
        bare_windows,
        consequence="Missing values are taken from the pixels.",
    ),
    FormatRule(
        "channel-family-type",
        MUST,
        "family: a string.",
        search_entries("channels", find_other_values(is_text, "family")),
    ),
)

LABEL = (
    FormatRule(
        "label-version-missing",
        SHOULD,
        "That image-label object SHOULD contain ... a version key, whose value MUST be "
        "a string specifying the version of the OME-Zarr image-label schema.",
        find_absent("version"),
        since=4,
        until=5,
    ),
    FormatRule(
        "label-colors-missing",
        SHOULD,
        "That image-label object SHOULD contain a colors key, whose value MUST be a "
        "JSON array describing color information for the unique label values.",
        find_absent("colors"),
        since=4,
        consequence="napari's colours are used.",
    ),
    FormatRule(
        "label-list-empty",
        MUST,
        "colors and properties: an array of at least one object (minItems of the "
        "schema).",
        empty_lists,
        since=4,
    ),
)


def check_omero(omero: Cursor, minor: int) -> None:
    """Report broken rules of an ``omero`` object."""
    apply_rules(OMERO, omero, minor)


def check_label(label: Cursor, minor: int) -> None:
    """Report broken rules of an ``image-label`` object."""
    apply_rules(LABEL, label, minor)
