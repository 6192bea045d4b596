"""Plots: doses are on a logarithmic axis, that of untreated wells at its left edge."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from napari_ngff.viewer.results.plot_data import (
    DOSES,
    HISTOGRAM,
    KINDS,
    OBJECTS,
    WELLS,
    choose_columns,
    make_plot,
)

SERIES = [
    [0, 0.1, 1, 10, 30],
    [0, 0, 1e-9, 1e-6],
    [0.001, 0.01, 0.1, 1.0],
    [0, 3, 900, 30, 300, 90, 10],
]


def plot_doses(kind, doses):
    """Plot some doses of a condition, with a value each."""
    frame = pd.DataFrame({"well": "A/1", "dose": doses, "area": np.arange(len(doses))})
    asked = {"kind": kind, "x": "dose", "y": "area", "group": ""}
    return make_plot((frame, ["area", "dose"], ["dose"]), asked)


@pytest.mark.parametrize("kind", [DOSES, WELLS, OBJECTS])
@pytest.mark.parametrize("doses", SERIES)
def test_doses_are_on_a_logarithmic_axis_with_0_at_its_left(kind, doses):
    plot, doses = plot_doses(kind, doses), np.array(doses, float)
    x, is_zero = plot.dots["x"].to_numpy(), doses == 0
    np.testing.assert_allclose(x[~is_zero], np.log10(doses[~is_zero]))
    assert (x[is_zero] < x[~is_zero].min()).all()
    named = {text: place for place, text in plot.ticks}
    for place, text in plot.ticks:
        if text != "0":
            assert float(text) == pytest.approx(10**place)
    left = ", 0 at the left edge" if is_zero.any() else ""
    assert plot.title == f"dose (logarithmic{left})"
    if is_zero.any():
        assert {named["0"]} == {*x[is_zero]}


@pytest.mark.parametrize("count", [1, 2])
def test_curves_are_counted_in_words(count):
    doses = np.tile([0, 0.01, 0.1, 1.0, 10, 100], 2 * count)
    names = np.repeat(["a", "b"][:count], 12)
    area = 100 - 80 * doses / (doses + 1)
    rows = {"well": "A/1", "dose": doses, "area": area, "drug": names}
    asked = {"kind": DOSES, "x": "dose", "y": "area", "group": "drug"}
    plot = make_plot((pd.DataFrame(rows), ["area", "dose"], ["dose", "drug"]), asked)
    assert f" {count} curve{'s' * (count > 1)};" in plot.note


COLUMNS = "area, mean", "voxels, mean", "kind, %", "dose"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asked", [{}, *({"y": y} for y in COLUMNS)])
def test_an_axis_shows_another_column_than_the_other_one(kind, asked):
    choice, _ = choose_columns([*COLUMNS], ["dose", "drug"], {"kind": kind, **asked})
    assert choice["x"] != choice["y"]
    first = "number of objects" if kind == HISTOGRAM else asked.get("y", COLUMNS[0])
    assert choice["y"] == first
    if kind == HISTOGRAM:
        assert choice["x"] == COLUMNS[0]


@pytest.mark.parametrize("doses", [[0, 1, 2, 4], [5, 5], [-1, 1, 1000], [0, 0], [1, 9]])
@pytest.mark.parametrize("kind", [WELLS, OBJECTS])
def test_other_numbers_are_on_a_plain_axis(kind, doses):
    plot = plot_doses(kind, doses)
    assert plot.title == "dose"
    assert sorted(plot.dots["x"]) == sorted(doses)
