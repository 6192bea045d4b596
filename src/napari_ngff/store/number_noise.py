"""Removes the noise of floating point numbers: 0.30000000000000004 becomes 0.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

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
