"""Units of OME-Zarr axes as napari takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.metadata.axes import SPACE_UNITS, TIME_UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import Axis

__all__ = ["UNITLESS", "conversion", "layer_units", "unit_name"]

UNITLESS = "pixel"

ALIASES = {
    "um": "micrometer",
    "µm": "micrometer",
    "μm": "micrometer",
    "micron": "micrometer",
    "microns": "micrometer",
    "nm": "nanometer",
    "mm": "millimeter",
    "s": "second",
    "ms": "millisecond",
    "sec": "second",
    "min": "minute",
    "h": "hour",
}


def unit_name(unit: str | None) -> str | None:
    """Return the listed name of a unit, or None for what is none.

    Nothing else reaches napari: it raises for an unknown name, and takes "a.u." for
    atomic mass times year.
    """
    if unit is None:
        return None
    name = ALIASES.get(unit, unit)
    return name if name in SPACE_UNITS | TIME_UNITS else None


def layer_units(axes: Sequence[Axis]) -> tuple[str, ...] | None:
    """Units for a layer, one per axis; None where no axis has one.

    An axis without a unit counts in pixels. All layers of one file must be given the
    same: one layer without units turns them off for the whole viewer.
    """
    names = [unit_name(axis.unit) for axis in axes]
    if not any(names):
        return None
    return tuple(name or UNITLESS for name in names)


def conversion(unit: str | None, target: str | None) -> float:
    """Factor that turns numbers in `unit` into numbers in `target`; 1.0 if unclear."""
    source, wanted = unit_name(unit), unit_name(target)
    if source is None or wanted is None or source == wanted:
        return 1.0
    import pint

    registry = pint.get_application_registry()
    try:
        return float(registry.Quantity(1.0, source).to(wanted).magnitude)
    except pint.DimensionalityError:
        return 1.0
