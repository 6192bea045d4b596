"""The most frequent id of each block of voxels, quickly."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["block_mode"]

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


def block_mode(block: Array, lengths: tuple[int, ...], inside: Sequence[Any]) -> Array:
    """Take the id that most voxels of each block have, of several the smallest.

    Parameters
    ----------
    block
        A whole number of blocks per axis.
    lengths
        Voxels of a block per axis.
    inside
        As `LevelReduction` makes it: what counts.

    Notes
    -----
    Few blocks of labels hold more than one id. Only in those is anything counted, but
    for squares, where all at once is quicker.
    """
    all_count = all(repeated is None for repeated in inside)
    if all_count and lengths[-2:] == (2, 2) and math.prod(lengths) == 4:
        return _mode_of_squares(block)
    block = np.ascontiguousarray(block)
    first = tuple(slice(None, None, n) for n in lengths)
    out = block[first].copy()
    positions = np.flatnonzero(_find_mixed(block, lengths))
    start, indices = _find_corners(positions, out.shape, lengths, block.shape)
    offsets = list(itertools.product(*map(range, lengths)))
    flat = block.reshape(-1)
    ids = [
        flat[int(np.ravel_multi_index(offset, block.shape)) :].take(start)
        for offset in offsets
    ]
    if all_count:
        out.reshape(-1)[positions] = _most_frequent(ids)
        return out
    counts = np.stack([_count_weight(offset, indices, inside) for offset in offsets])
    best, most = ids[0].copy(), np.full(positions.size, -1)
    for candidate in ids:
        count = sum(
            n * (ids_there == candidate)
            for n, ids_there in zip(counts, ids, strict=True)
        )
        better = (count > most) | ((count == most) & (candidate < best))
        best[better] = candidate[better]
        most[better] = count[better]
    out.reshape(-1)[positions] = best
    return out


def _mode_of_squares(block: Array) -> Array:
    """Do the same for squares of 2 x 2 along y and x, which nearly all pyramids have.

    Notes
    -----
    Of four ids in ascending order it is the second, unless that one is alone: then the
    last two may be a pair, or the first is the smallest of four different ones.
    """
    above, below = block[..., ::2, :], block[..., 1::2, :]
    low, high = np.minimum(above, below), np.maximum(above, below)
    left, right = (..., slice(0, None, 2)), (..., slice(1, None, 2))
    first = np.minimum(low[left], low[right])
    inner = np.maximum(low[left], low[right]), np.minimum(high[left], high[right])
    second = np.minimum(*inner)
    alone = (first != second) & (inner[0] != inner[1])
    if alone.any():
        third = np.maximum(inner[0][alone], inner[1][alone])
        last = np.maximum(high[left][alone], high[right][alone])
        second[alone] = np.where(third == last, third, first[alone])
    return second


def _find_mixed(block: Array, lengths: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Find the blocks that hold more than one id.

    Notes
    -----
    Rows are compared with their neighbours as a whole, which is several times quicker
    than voxels with those of a stride.
    """
    *outer, length = lengths
    steps = [slice(None, None, n) for n in outer]
    rows = block[tuple(steps)]
    differs = np.zeros(rows.shape, bool)
    if length > 1:
        np.not_equal(rows[..., :-1], rows[..., 1:], out=differs[..., :-1])
        differs[..., length - 1 :: length] = False  # that is the next block
    for offset in itertools.islice(itertools.product(*map(range, outer)), 1, None):
        other = tuple(slice(o, None, n) for o, n in zip(offset, outer, strict=True))
        differs |= rows != block[other]
    if length in (2, 4, 8):
        # A block's are one number: not 0 where any of them is True.
        whole: npt.NDArray[np.bool_] = differs.view(f"u{length}") != 0
        return whole
    mixed = differs[..., ::length].copy()
    for o in range(1, length):
        mixed |= differs[..., o::length]
    return mixed


def _find_corners(
    at: Indices, shape: tuple[int, ...], lengths: tuple[int, ...], fine: tuple[int, ...]
) -> tuple[Any, list[Any]]:
    """Find the first voxels of blocks.

    Parameters
    ----------
    at
        Blocks, as indices into all of them in C order.
    shape, lengths, fine
        Number of blocks, of voxels of a block, and of voxels, per axis.

    Returns
    -------
    start, place
        Of each block: index of its voxel in C order; its own index per axis.
    """
    start: Any = 0
    indices: list[Any] = []
    stride = 1
    for count, length, size in zip(shape[::-1], lengths[::-1], fine[::-1], strict=True):
        # By one number for all, which is far quicker than `numpy.unravel_index`.
        rest = at // count
        index = at - rest * count
        start = start + index * (length * stride)
        indices.insert(0, index)
        at, stride = rest, stride * size
    return start, indices


def _most_frequent(ids: list[Array]) -> Array:
    """Take the most frequent of the ids at each place, of several the smallest.

    Parameters
    ----------
    ids
        One-dimensional, equally long.

    Notes
    -----
    Sorted by exchanging neighbours, all places at once; equal ids are neighbours then.
    """
    ids = list(ids)
    for turn in range(len(ids)):
        for i in range(turn % 2, len(ids) - 1, 2):
            low, high = np.minimum(ids[i], ids[i + 1]), np.maximum(ids[i], ids[i + 1])
            ids[i], ids[i + 1] = low, high
    best = ids[0].copy()
    most = np.ones(best.size, np.min_scalar_type(len(ids)))
    run = most.copy()
    for before, after in itertools.pairwise(ids):
        run *= after == before
        run += 1
        np.copyto(best, after, where=run > most)
        np.maximum(most, run, out=most)
    return best


def _count_weight(offset: tuple[int, ...], at: Any, inside: Sequence[Any]) -> Indices:
    """1 where a voxel of a block counts, 0 where it is a repeated one."""
    weight = np.ones(at[0].size, np.int64)
    for step, index, counts in zip(offset, at, inside, strict=True):
        if counts is not None:
            weight *= counts[step][index]
    return weight
