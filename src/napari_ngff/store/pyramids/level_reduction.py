"""Reduces pixels and label ids to coarser levels.

*mean* is for images. Of labels, each id of a coarser level occurs in its block:
*nearest* takes one voxel of each block, usually the first (``fine[::f]``). *mode* takes
the most frequent id of the block, of equally frequent ones the smallest but 0: else a
stroke in one plane would be in no level of half the planes. Blocks depend only on the
shapes of two levels, so a part is computed exactly as the whole was.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_ngff.store.arrays.boxes import Box, Cell, box_of, cells_in

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


def block_mode(block: Array, lengths: tuple[int, ...]) -> Array:
    """Take the most frequent id of each block; of several the smallest that is not 0.

    Parameters
    ----------
    block
        A whole number of blocks per axis.
    lengths
        Voxels of a block per axis.

    Notes
    -----
    Few blocks of labels hold more than one id, so ids are counted only in those.
    Squares of 2 x 2 are all computed at once, which is quicker.
    """
    if lengths[-2:] == (2, 2) and math.prod(lengths) == 4:
        return _mode_of_squares(block)
    block = np.ascontiguousarray(block)
    # A block of a single id has it in its first voxel. Mixed blocks are overwritten
    # below.
    first = tuple(slice(None, None, n) for n in lengths)
    out = block[first].copy()
    positions = np.flatnonzero(_find_mixed(block, lengths))
    start = _find_corners(positions, out.shape, lengths, block.shape)
    # One array for each voxel of a block: its ids in all mixed blocks.
    offsets = list(itertools.product(*map(range, lengths)))
    flat = block.reshape(-1)
    ids = [
        flat[int(np.ravel_multi_index(offset, block.shape)) :].take(start)
        for offset in offsets
    ]
    out.reshape(-1)[positions] = _most_frequent(ids)
    return out


def _mode_of_squares(block: Array) -> Array:
    """Take the mode of squares of 2 x 2 along y and x, which nearly all pyramids have.

    Notes
    -----
    Of four ids in ascending order it is the second, unless that one is alone: then the
    last two may be a pair, or the first is the smallest of four different ones. Where
    that is 0 the second is, and two of 0 lose against a pair of another id.
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
    # Or the first two are 0, and the two between are no pair.
    alone = ((first != second) | (second == 0)) & (inner[0] != inner[1])
    if alone.any():
        third = np.maximum(inner[0][alone], inner[1][alone])
        last = np.maximum(high[even][alone], high[odd][alone])
        single = np.where(first[alone] == 0, second[alone], first[alone])
        second[alone] = np.where(third == last, third, single)
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
) -> Any:
    """Find the first voxels of blocks, as indices into all voxels in C order.

    Parameters
    ----------
    positions
        Blocks, as indices into all of them in C order.
    shape, lengths, fine
        Number of blocks, of voxels of a block, and of voxels, per axis.
    """
    start: Any = 0
    stride = 1
    for count, length, size in zip(shape[::-1], lengths[::-1], fine[::-1], strict=True):
        # One division for all positions is far quicker than `numpy.unravel_index`.
        rest = positions // count
        start = start + (positions - rest * count) * (length * stride)
        positions, stride = rest, stride * size
    return start


def _most_frequent(ids: list[Array]) -> Array:
    """Take the most frequent id at each place; of several the smallest that is not 0.

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
        # Of two runs of equal length the first has the smaller id; that may be 0.
        np.copyto(best, after, where=(run > most) | (run == most) & (best == 0))
        np.maximum(most, run, out=most)
    return best


def _any_in_block(block: Array, lengths: tuple[int, ...]) -> Array:
    """Find the blocks that have a voxel that is true."""
    for axis, length in enumerate(lengths):
        before = (slice(None),) * axis
        steps = [block[(*before, slice(o, None, length))] for o in range(length)]
        block = functools.reduce(np.logical_or, steps)
    return block


def _add_blocks(block: Array, factors: tuple[int, ...], wide: np.dtype[Any]) -> Array:
    """Add up the voxels of each block, axis by axis, in a type that holds the sums."""
    total = block.astype(wide) if max(factors, default=1) == 1 else block
    for axis, factor in enumerate(factors):
        if factor == 1:
            continue
        before = (slice(None),) * axis
        first, *others = (
            total[(*before, slice(start, None, factor))] for start in range(factor)
        )
        total = first.astype(wide)
        for part in others:
            total += part
    return total


def _integer_mean(block: Array, factors: tuple[int, ...]) -> Any:
    dtype, count = block.dtype, math.prod(factors)
    bits = 8 * dtype.itemsize + count.bit_length()
    sizes = (size for size in (2, 4, 8) if 8 * size >= bits)
    if size := next(sizes, 0):
        wide = np.dtype(f"{dtype.kind}{size}")
        total = _add_blocks(block, factors, wide)
        total += wide.type(count // 2)
        return total // wide.type(count)
    # The sums may fit into no type; those of quotients and of remainders fit.
    wide = np.dtype(f"{dtype.kind}8")
    n = wide.type(count)
    quotients, rests = (
        _add_blocks(part, factors, wide) for part in np.divmod(block, n)
    )
    return quotients + (rests + n // wide.type(2)) // n


def _float_mean(block: Array, factors: tuple[int, ...]) -> Array:
    count = math.prod(factors)
    wide = np.dtype(np.float64)
    # Not a number, and infinity of both signs, are no reason to warn.
    with np.errstate(over="ignore", invalid="ignore"):
        mean = _add_blocks(block, factors, wide) / count
        if block.dtype.itemsize == 8 and not np.isfinite(mean).all():
            # The sum of huge numbers may overflow, where their mean does not.
            scale = 0.5 ** count.bit_length()
            small = _add_blocks(block * scale, factors, wide) / count
            top = np.finfo(wide).max * scale
            np.clip(small, -top, top, out=small, where=np.isfinite(small))
            mean = np.where(np.isfinite(mean), mean, small / scale)
    return mean


def block_mean(block: Array, lengths: tuple[int, ...]) -> Array:
    """Take the mean of each block; of integers the nearest one, halves upwards.

    It is exact for integers of every type. A block of truth values becomes true if at
    least half of them are.

    Parameters
    ----------
    block, lengths
        As of `block_mode`.
    """
    dtype = block.dtype
    if dtype.kind == "b":
        return block_mean(block.astype(np.uint8), lengths).astype(dtype)
    mean_of = _float_mean if dtype.kind == "f" else _integer_mean
    return mean_of(block, lengths).astype(dtype, copy=False)


Method = Literal["nearest", "mode", "mean"]


def method_named(name: str | None) -> Method:
    """Choose the method of ids by the ``type`` of a multiscale.

    Whatever it says of an image, ids cannot be averaged: all but mode is nearest.
    """
    # "type" is free text in the specification.
    return "mode" if name is not None and "mode" in name.lower() else "nearest"


@dataclass(frozen=True, slots=True)
class AxisSteps:
    """The blocks of one axis.

    Attributes
    ----------
    fine, coarse
        Number of voxels of the two levels.
    factor
        Voxels of a block; the last block may have fewer, or leave voxels over. None
        where no whole number fits: block ``i`` begins at ``i * fine // coarse``.
    offset
        Of the voxel that *nearest* takes from the first of its block; of a block that
        ends before, the last.
    """

    fine: int
    coarse: int
    factor: int | None
    offset: int = 0

    @classmethod
    def between_sizes(
        cls, fine: int, coarse: int, ratio: float | None = None
    ) -> AxisSteps:
        """Find the factor between two lengths.

        Parameters
        ----------
        fine, coarse
            Number of voxels; the first is not less.
        ratio
            Of the sizes of their voxels where known; it settles which of several
            factors is meant: 7 to 3 may be 2 or 3.
        """
        wanted = ratio or fine / coarse
        # Writers round the size of a level down or up; either way of a factor is
        # possible. A known one may be larger than the ratio of the sizes: 4 to 2 by 3.
        known = max(1, round(min(fine, wanted)))
        fitting = [
            factor
            for factor in (*range(1, -(-fine // coarse) + 1), known)
            if coarse in (fine // factor, -(-fine // factor))
        ]
        # The closest to what the voxel sizes say, and the smaller one of two as close.
        factor = min(fitting, key=lambda f: (abs(f - wanted), f), default=None)
        return cls(fine, coarse, factor)

    def block_start(self, index: Any) -> Any:
        """First voxel of a block."""
        if self.factor is None:
            return index * self.fine // self.coarse
        return index * self.factor

    def sampled_voxel(self, index: Any) -> Any:
        """Voxel that *nearest* takes from a block."""
        # An offset is added only where there is one, since the clipping costs time.
        if not self.offset:
            return self.block_start(index)
        return np.minimum(self.block_start(index) + self.offset, self.fine - 1)

    def block_stop(self, index: Any) -> Any:
        """First voxel after a block."""
        return np.minimum(self.block_start(index + 1), self.fine)

    def blocks_meeting(self, start: int, stop: int) -> tuple[int, int]:
        """Blocks that meet a span of voxels."""
        if self.factor is None:
            # The inverse of `block_start` for factors that are not whole.
            first = ((start + 1) * self.coarse - 1) // self.fine
            last = (stop * self.coarse - 1) // self.fine
        else:
            first, last = start // self.factor, (stop - 1) // self.factor
        return min(first, self.coarse), min(last + 1, self.coarse)

    def blocks_sampling(self, start: int, stop: int) -> tuple[int, int]:
        """Blocks of which *nearest* takes a voxel in a span of voxels."""
        if self.factor is None:
            pair = (-(-voxel * self.coarse // self.fine) for voxel in (start, stop))
        else:
            pair = (-(-(voxel - self.offset) // self.factor) for voxel in (start, stop))
        first, last = (max(voxel, 0) for voxel in pair)
        if self.offset and stop == self.fine:
            last = self.coarse  # the voxel of the last block may be its last
        return min(first, self.coarse), min(last, self.coarse)


@dataclass(frozen=True, slots=True)
class LevelReduction:
    """How one level follows from the next finer one.

    Attributes
    ----------
    steps
        Per axis.
    method
        Of choosing an id, or "mean".
    """

    steps: tuple[AxisSteps, ...]
    method: Method = "nearest"

    @property
    def factors(self) -> tuple[int, ...]:
        """Voxels of a block per axis, where whole numbers fit."""
        return tuple(steps.factor or 1 for steps in self.steps)

    @classmethod
    def between_shapes(
        cls,
        fine: Sequence[int],
        coarse: Sequence[int],
        method: Method = "nearest",
        ratios: Sequence[float] | None = None,
    ) -> LevelReduction:
        """Find the reduction between the shapes of two levels.

        Parameters
        ----------
        fine, coarse
            Number of voxels per axis.
        method
            Of choosing an id.
        ratios
            Of the sizes of their voxels per axis, where known.

        Raises
        ------
        ValueError
            Where an axis grows.
        """
        # Levels are listed from high to low resolution (MUST); others cannot be
        # reduced.
        if any(n < m for n, m in zip(fine, coarse, strict=True)):
            msg = f"A level of shape {tuple(coarse)} cannot follow one of {tuple(fine)}"
            raise ValueError(msg)
        given = ratios or (None,) * len(fine)
        steps = map(AxisSteps.between_sizes, fine, coarse, given)
        return cls(tuple(steps), method)

    def target_box(self, box: Box) -> Box | None:
        """Return the part of the coarser level that a box of the finer one changes."""
        spans = tuple(
            steps.blocks_sampling(*span)
            if self.method == "nearest"
            else steps.blocks_meeting(*span)
            for steps, span in zip(self.steps, box, strict=True)
        )
        return spans if all(start < stop for start, stop in spans) else None

    def target_cells(
        self,
        changed: Iterable[Cell],
        fine: tuple[int, ...],
        coarse: tuple[int, ...],
    ) -> dict[Cell, list[tuple[Cell, Box]]]:
        """Find the cells of the coarser level that depend on cells of the finer one.

        Parameters
        ----------
        changed
            Cells of the finer level.
        fine, coarse
            Shapes of the cells of both.

        Returns
        -------
        dict
            Cell of the coarser level -> each cell that it depends on, and what part of
            the coarser level that one reaches.
        """
        shape = tuple(steps.fine for steps in self.steps)
        targets: dict[Cell, list[tuple[Cell, Box]]] = {}
        for cell in list(changed):
            reached = self.target_box(box_of(cell, fine, shape))
            if reached is not None:
                for target in cells_in(reached, coarse):
                    targets.setdefault(target, []).append((cell, reached))
        return targets

    def source_box(self, box: Box) -> Box:
        """Return the part of the finer level that makes a box of the coarser one."""
        if self.method != "nearest":
            return tuple(
                (int(steps.block_start(a)), int(steps.block_stop(b - 1)))
                for steps, (a, b) in zip(self.steps, box, strict=True)
            )
        return tuple(
            (int(steps.sampled_voxel(a)), int(steps.sampled_voxel(b - 1)) + 1)
            for steps, (a, b) in zip(self.steps, box, strict=True)
        )

    def reduce(self, block: Array, box: Box) -> Array:
        """Compute a box of the coarser level.

        Parameters
        ----------
        block
            What stands in `source_box` of the box.
        box
            Of the coarser level.
        """
        # Axis by axis: each slice is a view, or makes the next step smaller.
        if self.method == "nearest":
            sampled = block
            for axis, (steps, span) in enumerate(zip(self.steps, box, strict=True)):
                ends = steps.block_start(span[1] - 1) + steps.offset
                # A slice wherever no block is cut off: a view, not a copy.
                index: Any = slice(None, None, steps.factor)
                if steps.factor is None or ends >= steps.fine:
                    voxels = steps.sampled_voxel(np.arange(*span))
                    index = voxels - steps.sampled_voxel(span[0])
                sampled = sampled[(slice(None),) * axis + (index,)]
            return sampled
        reduce = block_mode if self.method == "mode" else block_mean
        return self._reduce_blocks(block, box, reduce)

    def find_touched(self, differs: Array, box: Box) -> Array:
        """Find the voxels of the coarser level that depend on a voxel that differs.

        Parameters
        ----------
        differs
            Which voxels of `source_box` of the box do.
        box
            Of the coarser level.
        """
        if self.method == "nearest":
            return self.reduce(differs, box)
        return self._reduce_blocks(differs, box, _any_in_block)

    def _reduce_blocks(
        self,
        block: Array,
        box: Box,
        reduce: Callable[[Array, tuple[int, ...]], Array],
        lengths: tuple[int, ...] = (),
    ) -> Array:
        """Reduce blocks of equal lengths together.

        Parameters
        ----------
        block, box
            As of `reduce`.
        reduce
            Called with blocks, and the voxels of each per axis.
        lengths
            Of the blocks along the first axes, which are equal already.
        """
        axis = len(lengths)
        if axis == len(self.steps):
            return reduce(block, lengths)
        steps, span = self.steps[axis], box[axis]
        # All blocks of the span are whole.
        if steps.factor is not None and steps.block_start(span[1]) <= steps.fine:
            return self._reduce_blocks(block, box, reduce, (*lengths, steps.factor))
        blocks = np.arange(*span)
        starts = steps.block_start(blocks)
        sizes = steps.block_stop(blocks) - starts
        parts = []
        for size in sorted(set(sizes.tolist()), reverse=True):
            first = starts[sizes == size] - starts[0]
            index: Any = slice(first[0], first[-1] + size)
            if len(first) * size != index.stop - index.start:
                index = (first[:, None] + np.arange(size)).ravel()
            part = block[(slice(None),) * axis + (index,)]
            parts.append(self._reduce_blocks(part, box, reduce, (*lengths, size)))
        joined = np.concatenate(parts, axis, dtype=parts[0].dtype)
        # By their sizes now: back into their own order, if that is another one.
        if (np.diff(sizes) > 0).any():
            joined = joined.take(np.argsort(np.argsort(-sizes, kind="stable")), axis)
        return joined
