"""Measures contrast limits from pixels, and chooses the range of the slider."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OMEZarrError
from napari_ngff.store.sources.read_ahead import call_at_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import ContrastWindow
    from napari_ngff.plate.mosaic_level import MosaicLevel

# Not the extremes: a few hot pixels of a camera would leave the rest dark.
CONTRAST_PERCENTILES = (0.1, 99.9)
CONTRAST_VOXELS = 1 << 22
"""Most voxels of one plane of the coarsest level that are read for contrast limits."""

SAMPLED_WELLS = 8
"""Wells of an overview by which contrast is measured where no window shows it."""

MOST_SAMPLED = 50
"""Channels of it that are read; of more, the first become layers."""

MARGIN = 0.25
"""Share of the range that is added above: finer levels are brighter than their mean."""

GREATEST = float(np.finfo("f4").max) / 16
"""Limits stay within it, so that the range of their slider is finite on a graphics
card, too."""

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


def measure_contrast(
    data: Any, areas: Sequence[Sequence[tuple[int, int]]] | None = None
) -> PixelContrast | None:
    """Measure the contrast in the middle of one array, or in some areas of it.

    Parameters
    ----------
    data
        The coarsest level, axes (..., y, x). Of its middle plane, at most the middle
        `CONTRAST_VOXELS` voxels are read.
    areas
        Rows and columns, each as first and last plus one.

    Returns
    -------
    PixelContrast or None
        Of the finite values; None where there is none.
    """
    side = int(CONTRAST_VOXELS**0.5)
    middle = _middle_of(data.shape)
    window = tuple(
        slice(max(0, (size - side) // 2), (size + side) // 2)
        for size in data.shape[-2:]
    )
    windows = [window]
    if areas is not None:
        windows = [tuple(slice(*span) for span in area) for area in areas]
    read = [np.asarray(data[middle + one]).ravel() for one in windows]
    pixels = np.concatenate(read) if read else np.empty(0, data.dtype)
    # Floats may have NaN where there are no pixels.
    if pixels.dtype.kind == "f":
        pixels = np.clip(pixels[np.isfinite(pixels)], -GREATEST, GREATEST)
    if not pixels.size:
        return None
    span = float(pixels.min()), float(pixels.max())
    low, high = (float(p) for p in np.percentile(pixels, CONTRAST_PERCENTILES))
    if low == high:
        # Nearly empty planes: more than 99.8 % of the pixels are equal.
        low, high = span
    if low == high:
        high = low + 1
    return PixelContrast(separate_limits(low, high), span)


def separate_limits(low: float, high: float) -> tuple[float, float]:
    """Return limits that increase also as the numbers of a graphics card, 32 bits.

    Large integers and floats may be closer than that. napari raises an error for equal
    limits.
    """
    low, high = (float(np.clip(limit, -GREATEST, GREATEST)) for limit in (low, high))
    step = float(np.spacing(np.float32(max(abs(low), abs(high)))))
    # Two numbers that are one step apart may be rounded to the one between them.
    return (low, high if np.float32(low) < np.float32(high) else low + 2 * step)


def _middle_of(shape: Sequence[int]) -> tuple[int, ...]:
    # The middle of t and z: the first plane of a stack is often empty.
    return tuple(size // 2 for size in shape[:-2])


def read_samples(level: MosaicLevel, channel: int | None) -> None:
    """Read, all at once, the pixels of a mosaic by which its contrast is measured.

    They stay in memory.

    Parameters
    ----------
    level
        The coarsest.
    channel
        Its axis of channels, which become layers.
    """
    middle = [(i, i + 1) for i in _middle_of(level.shape)]
    # One channel of each chunk: it brings the others of it along.
    first = [0]
    if channel is not None:
        count = min(level.shape[channel], MOST_SAMPLED)
        first = list(range(0, count, max(1, level.chunks[channel])))
    boxes = []
    for area in level.sample_areas(SAMPLED_WELLS):
        for i in first:
            lead = list(middle)
            if channel is not None:
                lead[channel] = i, i + 1
            boxes.append((*lead, *area))
    calls = [partial(level.read, box) for box in boxes]
    # Reported when they are measured.
    with suppress(OMEZarrError, OSError):
        call_at_once(level.tiles.arrangements.screen.node.location.source, calls)


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
    return separate_limits(window.min, window.max)


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
