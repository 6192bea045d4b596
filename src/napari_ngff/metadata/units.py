"""Units of axes: names in OME-Zarr, other spellings, symbols, sizes; exact numbers."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


MICROMETER = "micrometer"

PREFIXES = {
    "yocto": -24, "zepto": -21, "atto": -18, "femto": -15, "pico": -12, "nano": -9,
    "micro": -6, "milli": -3, "centi": -2, "deci": -1, "hecto": 2, "kilo": 3,
    "mega": 6, "giga": 9, "tera": 12, "peta": 15, "exa": 18, "zetta": 21, "yotta": 24,
}  # fmt: skip
"""Prefix -> power of ten, as the specification lists them: without "deca", and none of
those of 2022."""

METER, SECOND = Fraction(1), Fraction(1)

SPACE_UNITS = {
    "angstrom": METER / 10**10,
    "foot": METER * 3048 / 10**4,
    "inch": METER * 254 / 10**4,
    "meter": METER,
    "mile": METER * 1609344 / 10**3,
    "parsec": METER * 30856775814913673,
    "yard": METER * 9144 / 10**4,
} | {f"{name}meter": METER * Fraction(10) ** power for name, power in PREFIXES.items()}
"""The 26 UDUNITS names that 0.4 to 0.6 list for space -> metres."""

TIME_UNITS = {
    "day": SECOND * 86400,
    "hour": SECOND * 3600,
    "minute": SECOND * 60,
    "second": SECOND,
} | {f"{name}second": SECOND * Fraction(10) ** p for name, p in PREFIXES.items()}
"""The 23 UDUNITS names that 0.4 to 0.6 list for time -> seconds."""

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
    return name if name in (*SPACE_UNITS, *TIME_UNITS) else None


def unit_symbol(unit: str | None) -> str:
    """Return the symbol of a unit for people, such as "µm"; "" for none."""
    return SYMBOLS.get(unit_name(unit) or "", unit or "")


@lru_cache(maxsize=256)
def unit_factor(unit: str | None, target: str | None) -> float | None:
    """Return how many of `target` one of `unit` is, in any spelling.

    None where one of them is unknown, or one is of space and the other of time.
    """
    source, wanted = unit_name(unit), unit_name(target)
    for sizes in (SPACE_UNITS, TIME_UNITS):
        if source in sizes and wanted in sizes:
            return float(sizes[source] / sizes[wanted])
    return None


def to_micrometers(length: float, unit: str | None) -> float | None:
    """Convert a length, which is not negative then; None for no unit of length."""
    factor = unit_factor(unit, MICROMETER)
    return None if factor is None else abs(length) * factor


DIGITS = 15
"""Significant digits that every float64 holds exactly; the 16th and 17th are noise of
sums and products."""

LARGEST = 22
"""Largest power of ten that a float64 holds exactly."""


def drop_noise(values: Any) -> npt.NDArray[np.float64]:
    """Round float64 to `DIGITS` significant digits; tiny, huge and no numbers stay."""
    numbers = np.asarray(values, np.float64)
    sizes = np.abs(numbers)
    usual = (sizes > 1e-7) & (sizes < 10.0**DIGITS)
    decimals = np.zeros(numbers.shape)
    np.log10(sizes, out=decimals, where=usual)
    powers = 10.0 ** np.clip(DIGITS - 1 - np.floor(decimals), 0, LARGEST)
    # Division of whole numbers by an exact power gives the nearest float64.
    rounded: npt.NDArray[np.float64] = np.rint(numbers * powers) / powers
    return np.where(usual, rounded, numbers)
