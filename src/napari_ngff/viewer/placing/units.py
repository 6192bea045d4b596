"""Units of OME-Zarr axes as napari takes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from napari_ngff.metadata.axes import SPACE_UNITS, TIME_UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import Axis

__all__ = ["UNITLESS", "layer_units", "unit_factor", "unit_name", "unit_symbol"]

UNITLESS = "pixel"

ALIASES = {
    "um": "micrometer",
    "µm": "micrometer",
    "μm": "micrometer",
    "micron": "micrometer",
    "nm": "nanometer",
    "pm": "picometer",
    "mm": "millimeter",
    "cm": "centimeter",
    "m": "meter",
    "km": "kilometer",
    "\N{LATIN CAPITAL LETTER A WITH RING ABOVE}": "angstrom",
    "\N{ANGSTROM SIGN}": "angstrom",
    "ångström": "angstrom",
    "ångstrom": "angstrom",
    "angström": "angstrom",
    "inche": "inch",
    "feet": "foot",
    "s": "second",
    "sec": "second",
    "ms": "millisecond",
    "msec": "millisecond",
    "us": "microsecond",
    "µs": "microsecond",
    "μs": "microsecond",
    "ns": "nanosecond",
    "ps": "picosecond",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
}
"""Spelling -> name in OME-Zarr; words in small letters and without a plural."""

SYMBOLS = {
    "angstrom": "Å",
    "picometer": "pm",
    "nanometer": "nm",
    "micrometer": "µm",
    "millimeter": "mm",
    "centimeter": "cm",
    "meter": "m",
    "kilometer": "km",
    "nanosecond": "ns",
    "microsecond": "µs",
    "millisecond": "ms",
    "second": "s",
    "minute": "min",
    "hour": "h",
    "day": "d",
}
"""Name in OME-Zarr -> symbol; rare units are written by their name."""

SHORT = 3
"""Letters of a symbol at most; "msec" and what is longer are words."""


def unit_name(unit: str | None) -> str | None:
    """Return the name of a unit in OME-Zarr; None where OME-Zarr does not list it.

    napari gets only these: it raises for an unknown name, and takes "a.u." for atomic
    mass times year.
    """
    if unit is None:
        return None
    text = unit.strip()
    if len(text) > SHORT:  # of short ones the case counts: "Mm" is no millimetre
        text = text.lower().removesuffix("s")
        text = re.sub("metre$", "meter", text)
    name = ALIASES.get(text, text)
    return name if name in SPACE_UNITS | TIME_UNITS else None


def unit_symbol(unit: str | None) -> str:
    """Return the symbol of a unit for people, such as "µm"; "" for none."""
    return SYMBOLS.get(unit_name(unit) or "", unit or "")


def layer_units(axes: Sequence[Axis]) -> tuple[str, ...] | None:
    """Return the units of a layer, one per axis; None where no axis has a unit.

    An axis without a unit counts in pixels. All layers of one file must get the same
    units: one layer without units turns them off for the whole viewer.
    """
    names = [unit_name(axis.unit) for axis in axes]
    if not any(names):
        return None
    return tuple(name or UNITLESS for name in names)


def unit_factor(unit: str | None, target: str | None) -> float:
    """Return the factor from `unit` to `target`; 1.0 where one of them is unknown."""
    source, wanted = unit_name(unit), unit_name(target)
    if source is None or wanted is None or source == wanted:
        return 1.0
    import pint

    # The registry that napari uses, so that units compare as there.
    registry = pint.get_application_registry()
    try:
        return float(registry.Quantity(1.0, source).to(wanted).magnitude)
    # Seconds and micrometres, for example.
    except pint.DimensionalityError:
        return 1.0
