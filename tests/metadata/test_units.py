"""Units: the sizes of all that OME-Zarr lists, in every spelling that is known."""

from __future__ import annotations

import itertools

import pint
import pytest

from napari_ngff.metadata.units import (
    ALIASES,
    SPACE_UNITS,
    TIME_UNITS,
    to_micrometers,
    unit_factor,
    unit_name,
)

REGISTRY = pint.UnitRegistry()
SPELLINGS = [
    *SPACE_UNITS,
    *TIME_UNITS,
    *ALIASES,
    *(f"{name[:-5]}metres" for name in SPACE_UNITS if name.endswith("meter")),
    *(f" {name.upper()}S " for name in TIME_UNITS),
]


@pytest.mark.parametrize("unit", SPELLINGS)
def test_a_length_is_as_long_as_pint_says(unit):
    name = unit_name(unit)
    if name in TIME_UNITS:
        assert to_micrometers(2.5, unit) is None
        return
    expected = REGISTRY.Quantity(2.5, name).to("micrometer").magnitude
    assert to_micrometers(2.5, unit) == pytest.approx(expected, rel=1e-10)
    assert to_micrometers(-2.5, unit) == to_micrometers(2.5, unit)


def test_factors_of_every_two_units():
    for first, second in itertools.product([*SPACE_UNITS, *TIME_UNITS], repeat=2):
        factor = unit_factor(first, second)
        if (first in SPACE_UNITS) != (second in SPACE_UNITS):
            assert factor is None
            continue
        expected = REGISTRY.Quantity(1.0, first).to(second).magnitude
        assert factor == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("unit", [None, "", "pixel", "a.u.", "Mm", "furlong", "µ"])
def test_what_is_no_unit_has_no_length(unit):
    assert unit_name(unit) is None
    assert to_micrometers(1.0, unit) is None
    assert unit_factor(unit, "micrometer") is None
