"""Rules of axes and coordinate systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.metadata.axes import parse_axes
from napari_ngff.metadata.rules.rule import (
    MUST,
    SHOULD,
    FormatRule,
    apply_rules,
    find_absent,
    find_other_values,
    find_repeated,
    is_text,
    search_entries,
)
from napari_ngff.metadata.units import SPACE_UNITS, TIME_UNITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.metadata.cursor import Cursor

UNITS = {"space": SPACE_UNITS, "time": TIME_UNITS}
TYPES_TO_0_5 = ("space", "time", "channel")
TYPES_0_6 = ("array", *TYPES_TO_0_5, "coordinate", "displacement")


def list_types(axes: Cursor) -> list[str]:
    """List the types as written: rules are about types, not about names."""
    stated = [axis.at("type").value for axis in axes.children()]
    return [kind if isinstance(kind, str) else "" for kind in stated]


def without_plane(axes: Cursor) -> Iterator[Cursor]:
    """Find lists without 2 or 3 axes of space, unless all are of type array."""
    types = list_types(axes)
    # Of an empty list only the number is wrong; systems of arrays (0.6) need no space.
    if types and set(types) != {"array"} and types.count("space") not in (2, 3):
        yield axes


def find_unordered(axes: Cursor) -> Iterator[Cursor]:
    """Find types out of the order time, channel or custom, space."""
    if set(types := list_types(axes)) != {"array"}:
        # Any other type, or none, counts as "custom".
        ranks = [{"time": 0, "space": 2}.get(kind, 1) for kind in types]
        if ranks != sorted(ranks):
            yield axes


def find_crowded(axes: Cursor) -> Iterator[Cursor]:
    """Find lists with several axes of time, or several neither of time nor of space."""
    if set(types := list_types(axes)) != {"array"}:
        others = [kind for kind in types if kind not in ("time", "space")]
        if types.count("time") > 1 or len(others) > 1:
            yield axes


def unordered_planes(axes: Cursor) -> Iterator[Cursor]:
    """Find spatial axes called z, y and x in another order."""
    names = [
        str(axis.at("name").value).lower()
        for axis in axes.children()
        if axis.at("type").value == "space"
    ]
    if sorted(names) == ["x", "y", "z"] and names != ["z", "y", "x"]:
        yield axes


def foreign_units(axes: Cursor) -> Iterator[Cursor]:
    """Find units of time on an axis of space and the other way round."""
    for axis in axes.children():
        kind, unit = axis.at("type").value, axis.at("unit").value
        other = {"space": "time", "time": "space"}.get(str(kind))
        if other and is_text(unit) and unit in UNITS[other]:
            yield axis.at("unit")


def strings_out_of_order(axes: Cursor) -> Iterator[Cursor]:
    """Find known axes of 0.3 in another order than tczyx."""
    names = [axis.value for axis in axes.children()]
    # An unknown name is reported by the other rule, and has no place in the order.
    if set(map(str, names)) <= set("tczyx") and names != sorted(
        names, key=lambda name: "tczyx".index(str(name))
    ):
        yield axes


def unknown_letters(axes: Cursor) -> Iterator[Cursor]:
    """Find axes of 0.3 that are not t, c, z, y or x, or are repeated."""
    seen: list[object] = []
    for axis in axes.children():
        if axis.value not in tuple("tczyx") or axis.value in seen:
            yield axis
        # A list, since a value may be anything, also what cannot be hashed.
        seen.append(axis.value)


# 0.1 and 0.2 have no axes: their arrays are always tczyx.
NUMBER = FormatRule(
    "axes-number",
    MUST,
    "The length of axes must be between 2 and 5.",
    lambda axes: (
        (axes,)
        if isinstance(axes.value, list) and not 2 <= len(axes.value) <= 5
        else ()
    ),
    since=3,
    until=6,
    consequence="The axes decide, as long as the arrays have as many.",
)

LETTERS = (
    NUMBER,
    FormatRule(
        "axes-letters",
        MUST,
        'The values MUST be unique and one of {"t", "c", "z", "y", "x"}.',
        unknown_letters,
        since=3,
        until=3,
    ),
    FormatRule(
        "axes-order",
        MUST,
        "All image arrays must be up to 5-dimensional with dimension order (t, c, z, "
        "y, x).",
        strings_out_of_order,
        since=3,
        until=3,
        consequence="They are taken in their order.",
    ),
)

AXES = (
    NUMBER,
    FormatRule(
        "axes-space",
        MUST,
        'The axes MUST contain 2 or 3 entries of "type:space" (0.6: or only entries of '
        "type array).",
        without_plane,
        since=4,
        until=6,
    ),
    FormatRule(
        "axes-order",
        MUST,
        "In addition, the entries MUST be ordered by type where the time axis must "
        "come first (if present), followed by the channel or custom axis (if present) "
        "and the axes of type space.",
        find_unordered,
        since=4,
        until=6,
        consequence="They are taken in their order.",
    ),
    FormatRule(
        "axes-several",
        MUST,
        "... MAY contain one additional entry of type:time and MAY contain one "
        "additional entry of type:channel or a null / custom type.",
        find_crowded,
        since=4,
        until=6,
        consequence="Each is a separate axis.",
    ),
    FormatRule(
        "axes-order-planes",
        SHOULD,
        "If there are three spatial axes where two correspond to the image plane (yx) "
        "and images are stacked along the other (anisotropic) axis (z), the spatial "
        "axes SHOULD be ordered as zyx.",
        unordered_planes,
        since=4,
        until=6,
    ),
    FormatRule(
        "axis-type-custom",
        SHOULD,
        "SHOULD contain the field type. It SHOULD be one of the strings space, time or "
        "channel.",
        lambda axes: (
            axis.at("type")
            for axis in axes.children()
            if is_text(axis.at("type").value)
            and axis.at("type").value not in TYPES_TO_0_5
        ),
        since=4,
        until=5,
        consequence="It gets a slider.",
    ),
    FormatRule(
        "axis-type-custom",
        SHOULD,
        "SHOULD contain the field type. It SHOULD be one of the strings array, space, "
        "time, channel, coordinate, or displacement.",
        lambda axes: (
            axis.at("type")
            for axis in axes.children()
            if is_text(axis.at("type").value) and axis.at("type").value not in TYPES_0_6
        ),
        since=6,
        until=6,
        consequence="It gets a slider.",
    ),
    FormatRule(
        "axis-unit-missing",
        SHOULD,
        "SHOULD contain the field unit to specify the physical unit of this dimension.",
        lambda axes: (
            missing
            for axis in axes.children()
            # Not of channels: nobody can state a unit of them.
            if axis.at("type").value in ("space", "time")
            for missing in find_absent("unit")(axis)
        ),
        since=4,
        consequence="It is measured in pixels.",
    ),
    FormatRule(
        "axis-unit-kind",
        SHOULD,
        "The value SHOULD be one of the following strings ... Units for space axes ... "
        "Units for time axes ...",
        foreign_units,
        since=4,
    ),
    FormatRule(
        "axis-long-name-type",
        MUST,
        "MAY contain the field longName. The value MUST be a string.",
        lambda axes: (
            wrong
            for axis in axes.children()
            for wrong in find_other_values(is_text, "longName")(axis)
        ),
        since=6,
    ),
)

# Systems of a scene are in no array, so neither a number nor an order holds for them.
SCENE_AXES = (
    FormatRule(
        "axes-space",
        SHOULD,  # the schema alone says it of scenes
        "axes: 2 or 3 entries of type space, or at least 2 of type array.",
        without_plane,
        since=6,
    ),
)

SYSTEMS = (
    FormatRule(
        "coordinate-system-name",
        MUST,
        "MUST contain the field name. The value MUST be a non-empty string that is "
        "unique among all entries under coordinateSystems.",
        search_entries("coordinateSystems", find_absent("name")),
        since=6,
    ),
    FormatRule(
        "coordinate-system-name",
        MUST,
        "The value MUST be a non-empty string.",
        search_entries(
            "coordinateSystems",
            # `find_absent` above has the missing ones.
            find_other_values(lambda v: is_text(v) and v != "", "name"),
        ),
        since=6,
    ),
    FormatRule(
        "coordinate-system-duplicate",
        MUST,
        "The value MUST be ... unique among all entries under coordinateSystems.",
        lambda place: find_repeated("name")(place.at("coordinateSystems")),
        since=6,
        consequence="The first one is used.",
    ),
    FormatRule(
        "coordinate-system-axes-missing",
        MUST,
        "MUST contain the field axes, whose value is an array of valid axes.",
        search_entries("coordinateSystems", find_absent("axes")),
        since=6,
    ),
)


def check_axes(axes: Cursor, minor: int) -> None:
    """Report broken rules of a list of axes: objects, or strings in 0.3."""
    if minor == 3:
        apply_rules(LETTERS, axes, minor)
    elif minor > 3:
        parse_axes(axes, minor)  # reports on each axis by itself
        apply_rules(AXES, axes, minor)


def check_systems(place: Cursor, minor: int, arrays: bool) -> None:
    """Report on the ``coordinateSystems`` of a place.

    Parameters
    ----------
    place
        At a multiscale or a scene.
    minor
        6 for version 0.6.
    arrays
        Whether the rules hold that systems of arrays have: 2 to 5 axes, in order.
    """
    apply_rules(SYSTEMS, place, minor)
    for system in place.at("coordinateSystems").children():
        if arrays:
            check_axes(system.at("axes"), minor)
        else:
            parse_axes(system.at("axes"), minor)
            apply_rules(SCENE_AXES, system.at("axes"), minor)
