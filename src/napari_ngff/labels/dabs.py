"""Dabs of a round brush: their voxels, and those that the dab before did not paint.

Most voxels of a large dab were painted by the dab before it. Only the thin crescent
beyond that one is computed, compared and coloured in a step of a stroke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from napari_ngff.labels.level_grid import Indices
    from napari_ngff.store.arrays.boxes import Box

Dab = tuple["NDArray[np.float64]", ...]
"""Per axis: how far each voxel of a box is from the middle along it, squared."""

SMALL = 1 << 16
"""Voxels up to which a box is computed as a whole, without looking for a crescent."""

BAND = 256
"""Width in voxels of the bands into which a crescent is cut, each with its own box."""

MARGIN = 1e-9
"""Relative tolerance of a squared distance. Sums here are in another order than those
of `reached_mask`, and so differ in their last bits; boxes may be too large, never too
small."""


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
        # At level 0, and for samples, both are the same array: see `block_bounds`.
        # Distance to the nearest voxel of level 0 in the block, 0 where the centre is
        # inside.
        away = low - middle
        if high is not low:
            away = np.maximum(np.maximum(away, middle - high), 0)
        squares.append((away * weight) ** 2)
    return tuple(squares)


def part_of(dab: Dab, box: Sequence[tuple[int, int]]) -> Dab:
    """Restrict a dab to a part of its box."""
    return tuple(along[a:b] for along, (a, b) in zip(dab, box, strict=True))


def reached_mask(dab: Dab, square: float, exact: bool) -> NDArray[np.bool_]:
    """Return which voxels of its box a dab reaches.

    Parameters
    ----------
    square
        Of the radius.
    exact
        Whether no sum of squares is rounded: whole numbers and quarters, then twice as
        fast.
    """
    # One axis each, so that their sum is broadcast to the shape of the box.
    shaped = [
        along.reshape((-1,) + (1,) * (len(dab) - axis - 1))
        for axis, along in enumerate(dab)
    ]
    *others, last = shaped
    total: Any = sum(others)
    mask: NDArray[np.bool_]
    # The first form does not make the sum of the full shape, but rounds differently;
    # voxels at the rim must be those that napari paints.
    mask = last <= square - total if exact else total + last <= square
    return mask


def fills_box(dab: Dab, square: float) -> bool:
    """Return whether a dab reaches all of its box, that is, its farthest corner."""
    return bool(sum(along.max() for along in dab) <= square)


def crescent_boxes(dab: Dab, before: Dab, square: float) -> list[Box]:
    """Cover the voxels that a dab reaches, and the dab before did not, with few boxes.

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
    # Axes (start or stop, band).
    ends = np.stack([starts, stops])
    nearest = _band_extents(np.minimum, dab, longest, starts)
    farthest = _band_extents(np.maximum, before, longest, starts)
    spans = []
    some = np.ones(len(starts), bool)
    for axis in range(len(dab)):
        if axis == longest:
            spans.append(ends)
            continue
        # Along this axis: within reach if the other axes are at their nearest, and
        # beyond the dab before if they are at their farthest. Both hold for every voxel
        # of the crescent.
        near = square * (1 + MARGIN) - sum(nearest) + nearest[axis]
        far = square * (1 - MARGIN) - sum(farthest) + farthest[axis]
        # Axes (band, voxel along this axis).
        is_new = (dab[axis] <= near[:, None]) & (before[axis] > far[:, None])
        some &= is_new.any(axis=1)
        # `argmax` finds the first True, and from behind the last one.
        stop = is_new.shape[1] - is_new[:, ::-1].argmax(axis=1)
        spans.append(np.stack([is_new.argmax(axis=1), stop]))
    # From (start or stop, axis, band) to (band, axis, start or stop).
    boxes = np.stack(spans, axis=1).T[some].tolist()
    return [tuple((a, b) for a, b in box) for box in boxes]


def _band_extents(extreme: np.ufunc, dab: Dab, longest: int, starts: Any) -> list[Any]:
    """Find the nearest or farthest square per axis: of each band, or of all voxels.

    Bands are along the longest axis, and begin at `starts`.
    """
    return [
        extreme.reduceat(along, starts) if axis == longest else extreme.reduce(along)
        for axis, along in enumerate(dab)
    ]
