"""Dabs of a round brush: what one reaches, and what it reaches beyond one before it.

Of a large brush most was painted by the dab before. The rest is a thin crescent, and
all that a step of a stroke has to work out, to compare and to colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from napari_ngff.labels.level_grid import Indices
    from napari_ngff.store.arrays.boxes import Box

__all__ = [
    "SMALL",
    "Dab",
    "crescent_boxes",
    "dab_over",
    "fills_box",
    "part_of",
    "reached_mask",
]

Dab = tuple["NDArray[np.float64]", ...]
"""Per axis: how far each voxel of a box is from the middle along it, squared."""

SMALL = 1 << 16
"""A box of so many voxels is worked out as a whole."""

BAND = 256
"""Voxels across a band, of which each has a box of its own about its crescent."""

MARGIN = 1e-9
"""Part of a square of the radius: the order of a sum decides about its last bits."""


def dab_over(centre: Indices, bounds: Sequence[Any], weights: Sequence[float]) -> Dab:
    """Measure how far the voxels of a box are from a centre.

    Parameters
    ----------
    centre
        One coordinate per axis, in voxels of level 0.
    bounds
        Per axis: first and last voxel of level 0 of each voxel of the box.
    weights
        Size of a voxel of level 0 along each axis.
    """
    squares = []
    for middle, (low, high), weight in zip(centre, bounds, weights, strict=True):
        # At level 0 both are the same array.
        away = low - middle
        if high is not low:
            away = np.maximum(np.maximum(away, middle - high), 0)
        squares.append((away * weight) ** 2)
    return tuple(squares)


def part_of(dab: Dab, box: Sequence[tuple[int, int]]) -> Dab:
    """Restrict a dab to a part of its box."""
    return tuple(along[a:b] for along, (a, b) in zip(dab, box, strict=True))


def reached_mask(dab: Dab, square: float, exact: bool) -> NDArray[np.bool_]:
    """Tell which voxels of its box a dab reaches.

    Parameters
    ----------
    square
        Of the radius.
    exact
        Whether no sum of squares is rounded: whole numbers and quarters, then twice as
        fast.
    """
    shaped = [
        along.reshape((-1,) + (1,) * (len(dab) - axis - 1))
        for axis, along in enumerate(dab)
    ]
    *others, last = shaped
    total: Any = sum(others)
    mask: NDArray[np.bool_]
    mask = last <= square - total if exact else total + last <= square
    return mask


def fills_box(dab: Dab, square: float) -> bool:
    """Whether a dab reaches all of its box, that is, its farthest corner."""
    return bool(sum(along.max() for along in dab) <= square)


def crescent_boxes(dab: Dab, before: Dab, square: float) -> list[Box]:
    """Cover with a few boxes what a dab reaches and the one before does not.

    Parameters
    ----------
    dab, before
        Over the same box.
    square
        Of the radius.

    Returns
    -------
    list of tuple
        Start and stop per axis, counted in the box: one for each band across its
        longest axis. No two overlap.
    """
    # Bands across the longest axis: one box around a whole crescent is mostly empty.
    longest = int(np.argmax([len(along) for along in dab]))
    starts = np.arange(0, len(dab[longest]), BAND)
    stops = np.append(starts[1:], len(dab[longest]))
    ends = np.stack([starts, stops])
    nearest = [
        _band_extent(np.minimum, along, axis == longest, starts)
        for axis, along in enumerate(dab)
    ]
    farthest = [
        _band_extent(np.maximum, along, axis == longest, starts)
        for axis, along in enumerate(before)
    ]
    spans = []
    some = np.ones(len(starts), bool)
    for axis in range(len(dab)):
        if axis == longest:
            spans.append(ends)
            continue
        near = square * (1 + MARGIN) - sum(nearest) + nearest[axis]
        far = square * (1 - MARGIN) - sum(farthest) + farthest[axis]
        is_new = (dab[axis] <= near[:, None]) & (before[axis] > far[:, None])
        some &= is_new.any(axis=1)
        stop = is_new.shape[1] - is_new[:, ::-1].argmax(axis=1)
        spans.append(np.stack([is_new.argmax(axis=1), stop]))
    boxes = np.stack(spans, axis=1).T[some].tolist()
    return [tuple((a, b) for a, b in box) for box in boxes]


def _band_extent(extreme: np.ufunc, along: Any, bands: bool, starts: Any) -> Any:
    """Nearest or farthest square along an axis: of each band, or of all."""
    return extreme.reduceat(along, starts) if bands else extreme.reduce(along)
