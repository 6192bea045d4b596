"""Contrast of a layer where the file gives none."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["estimate_contrast"]

CONTRAST_PERCENTILES = (0.1, 99.9)
CONTRAST_VOXELS = 1 << 22
"""At most so many voxels of one plane of the coarsest level are looked at."""


def estimate_contrast(data: Any) -> tuple[float, float] | None:
    """Find contrast limits from the middle of one array.

    Parameters
    ----------
    data
        The coarsest level, axes (..., y, x). Of its middle plane, at most the middle
        `CONTRAST_VOXELS` voxels are read.

    Returns
    -------
    tuple or None
        Two percentiles of the finite values, in intensity; None where there is none.
    """
    side = int(CONTRAST_VOXELS**0.5)
    middle = tuple(size // 2 for size in data.shape[:-2])
    window = tuple(
        slice(max(0, (size - side) // 2), (size + side) // 2)
        for size in data.shape[-2:]
    )
    pixels = np.asarray(data[middle + window])
    pixels = pixels[np.isfinite(pixels)] if pixels.dtype.kind == "f" else pixels.ravel()
    if not pixels.size:
        return None
    low, high = (float(p) for p in np.percentile(pixels, CONTRAST_PERCENTILES))
    if low == high:
        low, high = float(pixels.min()), float(pixels.max())
    return (low, high) if low < high else (low, low + 1)
