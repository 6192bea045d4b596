"""Numbers without the noise of sums and products."""

import numpy as np
import pytest

from napari_ngff.metadata.units import drop_noise


@pytest.mark.parametrize(
    ("noisy", "clean"),
    [
        (0.1 + 0.2, 0.3),
        (3 * 0.325, 0.975),
        (-1.1 * 3, -3.3),
        (1e15 / 3, 333_333_333_333_333.0),
        (0.1 * 3 * 1e6, 300_000.0),
        (1 / 3, 0.333333333333333),
        (0.0, 0.0),
        (1e-300, 1e-300),
        (2.0**60, 2.0**60),
    ],
)
def test_the_last_two_digits_go(noisy, clean):
    assert drop_noise([noisy]).tolist() == [clean]


def test_what_is_no_number_stays():
    found = drop_noise([np.nan, np.inf, -np.inf])
    assert np.isnan(found[0])
    assert found[1:].tolist() == [np.inf, -np.inf]


def test_nothing_changes_by_more_than_the_fifteenth_digit():
    values = np.random.default_rng(1).lognormal(0, 8, 10_000)
    assert (abs(drop_noise(values) / values - 1) < 1e-14).all()
