"""Measures contrast limits from pixels, and chooses the range of the slider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from napari_ngff.metadata.model import ContrastWindow

__all__ = ["PixelContrast", "measure_contrast", "slider_range", "stated_range"]

# Not the extremes: a few hot pixels of a camera would leave the rest dark.
CONTRAST_PERCENTILES = (0.1, 99.9)
CONTRAST_VOXELS = 1 << 22
"""Most voxels of one plane of the coarsest level that are read for contrast limits."""

MARGIN = 0.25
"""Share of the range that is added above: finer levels are brighter than their mean."""

FIRST_RANGE = 3.0
"""Range of the slider relative to the limits, before pixels are known."""


@dataclass(frozen=True, slots=True)
class PixelContrast:
    """Contrast of the pixels that were read, in intensity.

    Attributes
    ----------
    limits
        The two percentiles of `CONTRAST_PERCENTILES`.
    span
        The least and the greatest pixel.
    """

    limits: tuple[float, float]
    span: tuple[float, float]


def measure_contrast(data: Any) -> PixelContrast | None:
    """Measure the contrast in the middle of one array.

    Parameters
    ----------
    data
        The coarsest level, axes (..., y, x). Of its middle plane, at most the middle
        `CONTRAST_VOXELS` voxels are read.

    Returns
    -------
    PixelContrast or None
        Of the finite values; None where there is none.
    """
    side = int(CONTRAST_VOXELS**0.5)
    # The middle of t and z: the first plane of a stack is often empty.
    middle = tuple(size // 2 for size in data.shape[:-2])
    window = tuple(
        slice(max(0, (size - side) // 2), (size + side) // 2)
        for size in data.shape[-2:]
    )
    pixels = np.asarray(data[middle + window])
    # Floats may have NaN where there are no pixels.
    pixels = pixels[np.isfinite(pixels)] if pixels.dtype.kind == "f" else pixels.ravel()
    if not pixels.size:
        return None
    span = float(pixels.min()), float(pixels.max())
    low, high = (float(p) for p in np.percentile(pixels, CONTRAST_PERCENTILES))
    if low == high:
        # Nearly empty planes: more than 99.8 % of the pixels are equal.
        low, high = span
    return PixelContrast((low, high) if low < high else (low, low + 1), span)


def stated_range(
    window: ContrastWindow | None, dtype: Any
) -> tuple[float, float] | None:
    """Return the range that a file states; None for that of the whole type.

    Many programs write 0 to 65535 for any image; both handles of the slider would then
    lie over each other.
    """
    if window is None or window.min is None or window.max is None:
        return None
    kind = np.dtype(dtype)
    if kind.kind in "iu" and kind.itemsize > 1 and window.max >= np.iinfo(kind).max:
        return None
    return window.min, window.max


def slider_range(
    limits: tuple[float, float], dtype: Any, span: tuple[float, float] | None = None
) -> tuple[float, float]:
    """Choose the range of a contrast slider, in intensity.

    Parameters
    ----------
    limits
        Contrast limits; always inside.
    dtype
        Of the pixels; integers do not reach beyond it.
    span
        The least and the greatest pixel; by default guessed from the limits.
    """
    low, high = limits
    kind = np.dtype(dtype)
    if kind.kind in "iu" and kind.itemsize == 1:
        info = np.iinfo(kind)
        # 8 bits are few enough for the slider to have all of them.
        return min(low, float(info.min)), max(high, float(info.max))
    if span is None:
        end = low + FIRST_RANGE * (high - low)
    else:
        low, high = min(low, span[0]), max(high, span[1])
        end = high + MARGIN * (high - low)
    if kind.kind in "iu":
        # Values beyond the type cannot occur; stated limits may lie there anyway.
        end = max(high, min(end, float(np.iinfo(kind).max)))
    if low > 0 and kind.kind == "u":
        low = 0.0
    return low, end
