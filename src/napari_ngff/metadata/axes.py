"""Parses axes of a multiscale: objects in 0.4 to 0.6, strings in 0.3, tczyx before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.metadata.model import Axis
from napari_ngff.metadata.units import SPACE_UNITS, TIME_UNITS

if TYPE_CHECKING:
    from napari_ngff.metadata.cursor import Cursor

TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}

AXES_BEFORE_0_3 = tuple(Axis(name, TYPES[name]) for name in "tczyx")
"""Axes of 0.1 and 0.2: "data MUST be 5-dimensional (t, c, z, y, x)"."""


def parse_axes(axes: Cursor, minor: int) -> tuple[Axis, ...]:
    """Read a list of axes.

    Parameters
    ----------
    axes
        At the list.
    minor
        4 for version 0.4; plain strings are expected below it.

    Returns
    -------
    tuple[Axis, ...]
        One for each entry of the list, whatever the entry is; names are not empty and
        unique ("dim_1" for the second where it has none). A missing type is inferred
        from the names t, c, z, y, x in either case.
    """
    result: list[Axis] = []
    taken: set[str] = set()
    # One axis for each entry, whatever it is: leaving one out would move all scales and
    # translations to other axes of the arrays.
    for index, item in enumerate(axes.list_items()):
        axis = parse_axis(item, f"dim_{index}", minor)
        if axis.name in taken:
            name = f"{axis.name}_{index}"
            # The new name may be that of another axis.
            while name in taken:
                name += "_"
            text = f'"MUST be unique across all name fields": {axis.name[:40]!r}.'
            item.report_error(
                "axis-name-duplicate", text, f'The axis is named "{name[:60]}".'
            )
            axis = Axis(name, axis.type, axis.unit, axis.discrete)
        taken.add(axis.name)
        result.append(axis)
    return tuple(result)


def parse_axis(item: Cursor, default: str, minor: int) -> Axis:
    """Read one axis; `default` is its name where it states none."""
    if isinstance(item.value, str):
        # 0.3 lists names; later versions list objects.
        if minor >= 4:
            item.report_expected("an object", "It is used as the name of the axis.")
        name = item.value or default
        return Axis(name, TYPES.get(name.lower()))
    if not item.is_object():
        return Axis(default)
    name = item.at("name").read_name() or ""
    if not name:
        text = 'Each axis MUST contain the field "name", and not an empty one.'
        item.report_error("axis-name-missing", text, f'The axis is named "{default}".')
    kind = item.at("type").read_text() or TYPES.get(name.lower())
    # The axis gets the type that its name implies, since most files use t, c, z, y and
    # x.
    if not item.at("type").is_present:
        consequence = f'"{kind}" by its name.' if kind else "It gets a slider."
        item.report_warning("axis-type-missing", 'SHOULD contain "type".', consequence)
    # Kept as written: usual spellings such as "um" are known, and only a broken SHOULD.
    unit = item.at("unit").read_text()
    if unit is not None and unit not in (*SPACE_UNITS, *TIME_UNITS):
        stated = item.at("unit").describe_value()
        text = f"SHOULD be one of the listed units of UDUNITS-2, is {stated}"
        item.at("unit").report_warning(
            "axis-unit-unknown", text, "A known alias is used, else pixels."
        )
    return Axis(
        name or default,
        kind,
        unit or None,
        bool(item.at("discrete").read_flag()),
    )
