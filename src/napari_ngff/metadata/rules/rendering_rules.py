"""Rules of ``omero`` and ``image-label``."""

from __future__ import annotations

from dataclasses import replace

from napari_ngff.metadata.rules.rule import (
    MUST,
    SHOULD,
    FormatRule,
    find_absent,
    find_other_values,
    is_text,
    search_entries,
)

LIMITS = ("min", "max", "start", "end")

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
        # A missing window is another rule's, which also differs between versions.
        lambda omero: (
            limit
            for channel in omero.at("channels").children()
            for limit in find_absent(*LIMITS)(channel.at("window"))
        ),
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
        find_other_values(lambda value: value != [], "colors", "properties"),
        since=4,
    ),
)
