"""EC50 of known curves, and what is told where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.plate.results.dose_curves import compute_responses, fit_curve

DOSES = np.repeat(10 ** np.linspace(-3, 2, 11), 3)
LOGS = np.log10(DOSES)
NOISE = np.random.default_rng(3)


@given(
    middle=st.floats(-1.5, 0.5),
    slope=st.floats(0.8, 4),
    left=st.floats(-1e4, 1e4),
    height=st.floats(1, 1e6),
    is_falling=st.booleans(),
)
def test_a_curve_without_noise_is_found(middle, slope, left, height, is_falling):
    right = left - height if is_falling else left + height
    values = compute_responses((left, right, middle, slope), LOGS)
    fit = fit_curve(DOSES, values)
    assert fit.ec50[0] == pytest.approx(10**middle, rel=1e-3)
    assert fit.parameters == pytest.approx(
        (left, right, middle, slope), rel=1e-2, abs=1e-2 * height
    )


def test_intervals_hold_ec50_as_often_as_they_state():
    held = []
    for _ in range(200):
        middle = NOISE.uniform(-1.2, 0.2)
        values = compute_responses((10, 90, middle, NOISE.uniform(0.8, 2)), LOGS)
        fit = fit_curve(DOSES, values + NOISE.normal(0, 5, len(DOSES)))
        held.append(fit.ec50[1] <= 10**middle <= fit.ec50[2])
    assert 0.9 <= np.mean(held) <= 0.99


def test_wells_without_a_dose_are_the_plateau_of_the_curve():
    doses = np.repeat([0, 0.3, 1, 3, 10, 30], 3)
    with np.errstate(divide="ignore"):
        values = compute_responses((5, 80, 0.0, 1.2), np.log10(doses))
    assert fit_curve(doses, values).parameters[:2] == pytest.approx((5, 80), rel=1e-3)
    # Without them no dose is on that plateau.
    assert "low doses" in fit_curve(doses[3:], values[3:]).text


@pytest.mark.parametrize(
    ("doses", "values", "text"),
    [
        ([], [], "0 doses"),
        ([1, 1, 1, 1, 1], [1, 2, 3, 4, 5], "1 doses"),
        ([1, 2], [0, 1], "2 doses"),
        ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], "4 doses"),
        ([-1, 1, 2, 3, np.nan, 4, np.inf], range(7), "4 doses"),
        ([1, 2, 3, 4, 5], [np.nan, 1, np.inf, 2, 3], "3 doses"),
        ([1, 2, 3, 4, 5], [7] * 5, "all values are equal"),
        (DOSES, NOISE.normal(size=len(DOSES)), "do not depend"),
        (DOSES, compute_responses((0, 1, 3.0, 1), LOGS), "EC50 is above"),
        (DOSES, compute_responses((0, 1, -4.0, 1), LOGS), "EC50 is below"),
        (DOSES, compute_responses((0, 1, 1.9, 1), LOGS), "no plateau is reached"),
        (DOSES, (LOGS > 0) * 1.0, "do not determine EC50"),
    ],
)
def test_it_is_told_why_there_is_no_fit(doses, values, text):
    fit = fit_curve(doses, values)
    assert text in fit.text
    assert not fit.ec50


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", [6, 15, 20, 21, 26, 65, 154])
def test_flat_values_do_not_depend_on_the_dose(seed):
    random = np.random.default_rng(seed)
    doses = 10 ** np.linspace(-3, 1, random.integers(5, 9))
    doses = np.repeat(doses, random.integers(1, 3))
    values = random.uniform(89, 111, len(doses)).round(random.integers(0, 3))
    text = "no fit: values do not depend on the dose"
    assert fit_curve(doses, values).text == text


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, -1, np.nan, np.inf, 1e-300, 1e-3, 1, 2, 3, 1e3, 1e300]),
            st.floats() | st.integers(-3, 3).map(float),
        ),
        max_size=30,
    )
)
def test_any_input_has_a_fit_or_a_reason(wells):
    fit = fit_curve(*(zip(*wells, strict=True) if wells else ([], [])))
    assert fit.text
    assert len(fit.ec50) in (0, 3)
    assert np.isfinite(fit.ec50[:1]).all()
