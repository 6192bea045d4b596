"""Finds the most frequent id of each block of voxels, quickly."""

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
    """Take the most frequent id of each block; the smallest of equally frequent ones.

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
    Few blocks of labels hold more than one id, so ids are counted only in those.
    Squares of 2 x 2 are all computed at once, which is quicker.
    """
    all_count = all(repeated is None for repeated in inside)
    if all_count and lengths[-2:] == (2, 2) and math.prod(lengths) == 4:
        return _mode_of_squares(block)
    block = np.ascontiguousarray(block)
    # A block of a single id has it in its first voxel. Mixed blocks are overwritten
    # below.
    first = tuple(slice(None, None, n) for n in lengths)
    out = block[first].copy()
    positions = np.flatnonzero(_find_mixed(block, lengths))
    start, indices = _find_corners(positions, out.shape, lengths, block.shape)
    # One array for each voxel of a block: its ids in all mixed blocks.
    offsets = list(itertools.product(*map(range, lengths)))
    flat = block.reshape(-1)
    ids = [
        flat[int(np.ravel_multi_index(offset, block.shape)) :].take(start)
        for offset in offsets
    ]
    if all_count:
        out.reshape(-1)[positions] = _most_frequent(ids)
        return out
    # Some voxels are repeated by padding and must not count.
    weights = [_count_weight(offset, indices, inside) for offset in offsets]
    out.reshape(-1)[positions] = _most_frequent_inside(ids, weights)
    return out


def _mode_of_squares(block: Array) -> Array:
    """Take the mode of squares of 2 x 2 along y and x, which nearly all pyramids have.

    Notes
    -----
    Of four ids in ascending order it is the second, unless that one is alone: then the
    last two may be a pair, or the first is the smallest of four different ones.
    """
    # The two voxels of each column in order, then the two columns of a block: a few
    # comparisons of whole arrays instead of sorting each block.
    above, below = block[..., ::2, :], block[..., 1::2, :]
    low, high = np.minimum(above, below), np.maximum(above, below)
    even, odd = (..., slice(0, None, 2)), (..., slice(1, None, 2))
    first = np.minimum(low[even], low[odd])
    # The second and the third of the four ids, in either order.
    inner = np.maximum(low[even], low[odd]), np.minimum(high[even], high[odd])
    second = np.minimum(*inner)
    alone = (first != second) & (inner[0] != inner[1])
    if alone.any():
        third = np.maximum(inner[0][alone], inner[1][alone])
        last = np.maximum(high[even][alone], high[odd][alone])
        second[alone] = np.where(third == last, third, first[alone])
    return second


def _find_mixed(block: Array, lengths: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Find the blocks that hold more than one id.

    Notes
    -----
    Whole rows are compared with their neighbours. Comparing every n-th voxel with every
    n-th voxel takes several times longer.
    """
    *outer, length = lengths
    steps = [slice(None, None, n) for n in outer]
    # The first row of each block: axes (block along each outer axis, voxel along the
    # last).
    rows = block[tuple(steps)]
    differs = np.zeros(rows.shape, bool)
    # Whether a voxel differs from the next one of its row.
    if length > 1:
        np.not_equal(rows[..., :-1], rows[..., 1:], out=differs[..., :-1])
        differs[..., length - 1 :: length] = False  # that is the next block
    # Whether a voxel of the block's other rows differs from the one in its first row.
    for offset in itertools.islice(itertools.product(*map(range, outer)), 1, None):
        other = tuple(slice(o, None, n) for o, n in zip(offset, outer, strict=True))
        differs |= rows != block[other]
    if length in (2, 4, 8):
        # The flags of a block, read as one integer, are not 0 if any of them is True.
        whole: npt.NDArray[np.bool_] = differs.view(f"u{length}") != 0
        return whole
    mixed = differs[..., ::length].copy()
    for o in range(1, length):
        mixed |= differs[..., o::length]
    return mixed


def _find_corners(
    positions: Indices,
    shape: tuple[int, ...],
    lengths: tuple[int, ...],
    fine: tuple[int, ...],
) -> tuple[Any, list[Any]]:
    """Find the first voxels of blocks.

    Parameters
    ----------
    positions
        Blocks, as indices into all of them in C order.
    shape, lengths, fine
        Number of blocks, of voxels of a block, and of voxels, per axis.

    Returns
    -------
    start, indices
        Of each block: index of its first voxel in C order; its own index per axis.
    """
    start: Any = 0
    indices: list[Any] = []
    stride = 1
    for count, length, size in zip(shape[::-1], lengths[::-1], fine[::-1], strict=True):
        # One division for all positions is far quicker than `numpy.unravel_index`.
        rest = positions // count
        index = positions - rest * count
        start = start + index * (length * stride)
        indices.insert(0, index)
        positions, stride = rest, stride * size
    return start, indices


def _most_frequent(ids: list[Array]) -> Array:
    """Take the most frequent id at each place; the smallest of equally frequent ones.

    Parameters
    ----------
    ids
        One-dimensional, equally long.

    Notes
    -----
    The ids of each place are sorted by exchanging neighbours (odd-even transposition
    sort), all places at once. Equal ids are neighbours then.
    """
    ids = list(ids)
    for turn in range(len(ids)):
        for i in range(turn % 2, len(ids) - 1, 2):
            low, high = np.minimum(ids[i], ids[i + 1]), np.maximum(ids[i], ids[i + 1])
            ids[i], ids[i + 1] = low, high
    # The longest run of equal ids wins; `run` is the length of the one that ends here.
    best = ids[0].copy()
    most = np.ones(best.size, np.min_scalar_type(len(ids)))
    run = most.copy()
    for before, after in itertools.pairwise(ids):
        run *= after == before
        run += 1
        # Not >=: of two runs of equal length the first has the smaller id.
        np.copyto(best, after, where=run > most)
        np.maximum(most, run, out=most)
    return best


def _most_frequent_inside(ids: list[Array], weights: list[Indices]) -> Array:
    """Take the most frequent id at each place, as `_most_frequent`, where voxels count.

    Parameters
    ----------
    ids
        One-dimensional, equally long.
    weights
        Of each of `ids`, as `_count_weight` returns them.
    """
    # Each id of a place is a candidate once per voxel that has it; the smaller id wins
    # a draw.
    best, most = ids[0].copy(), np.full(ids[0].size, -1)
    for candidate in ids:
        count = sum(
            n * (ids_there == candidate)
            for n, ids_there in zip(weights, ids, strict=True)
        )
        better = (count > most) | ((count == most) & (candidate < best))
        best[better] = candidate[better]
        most[better] = count[better]
    return best


def _count_weight(
    offset: tuple[int, ...], indices: Any, inside: Sequence[Any]
) -> Indices:
    """Return 1 where a voxel of a block counts, 0 where padding repeated it."""
    weight = np.ones(indices[0].size, np.int64)
    for step, index, counts in zip(offset, indices, inside, strict=True):
        if counts is not None:
            weight *= counts[step][index]
    return weight
