"""Sets of voxels as runs along the last axis: small and exact.

A table of runs has the axes (run, column), sorted by columns: the index along each
axis but the last, then start and stop along the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_ngff.labels.level_grid import Indices, LevelGrid
from napari_ngff.store.arrays.boxes import Box, box_shape, whole_box


def mask_runs(mask: Any, origin: Sequence[int]) -> Indices:
    """Find the runs of a mask whose first voxel lies at `origin`."""
    # One more column, False, after each row.
    padded = np.zeros((*mask.shape[:-1], mask.shape[-1] + 1), bool)
    padded[..., :-1] = mask
    flat = padded.ravel()
    # The padding ends each row, so that starts and stops alternate.
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    if flat[0]:
        edges = np.concatenate([[0], edges])
    starts = np.unravel_index(edges[::2], padded.shape)
    stops = np.unravel_index(edges[1::2], padded.shape)[-1]
    columns = [index + offset for index, offset in zip(starts, origin, strict=True)]
    return np.stack([*columns, stops + origin[-1]], axis=1).astype(np.int64)


def point_runs(points: Indices) -> Indices:
    """Join single voxels, axes (point, axis), to runs."""
    points = np.unique(points, axis=0)
    # `np.unique` sorts by columns, so neighbours in a row follow each other.
    same_row = (points[1:, :-1] == points[:-1, :-1]).all(axis=1)
    follows = same_row & (points[1:, -1] == points[:-1, -1] + 1)
    first = np.concatenate([[True], ~follows])
    last = np.concatenate([~follows, [True]])
    return np.concatenate([points[first], points[last][:, -1:] + 1], axis=1)


def runs_mask(runs: Indices, box: Box) -> Any:
    """Return the mask of runs in a box of level 0."""
    shape, starts = box_shape(box), [start for start, _ in box]
    inner = runs - np.array([*starts, starts[-1]])
    cover = cover_runs(inner, LevelGrid(shape, shape), whole_box(shape), True)
    return np.broadcast_to(cover, shape)


def sort_runs(parts: Sequence[Indices]) -> Indices:
    """Join tables of runs into one."""
    runs = np.concatenate(list(parts))
    # `lexsort` takes the last key as the first one to sort by.
    return runs[np.lexsort(runs.T[::-1])]


def cover_runs(runs: Indices, grid: LevelGrid, box: Box, touch: bool) -> Any:
    """Return which voxels of a box of a level the runs cover.

    Parameters
    ----------
    runs
        In voxels of level 0.
    box
        On the level.
    touch
        True where one covered voxel of a block is enough, False where the sample
        counts.

    Returns
    -------
    ndarray or bool
        Shape of the box; True or False for all or none of it.
    """
    start, stop = box[0]
    # Runs are sorted by the first axis, so those of other rows are skipped unread.
    first, last = grid.block_start(0, start), grid.block_start(0, stop)
    runs = runs[slice(*np.searchsorted(runs[:, 0], [first, last]))]
    last_axis = len(box) - 1
    rows = [grid.holder_index(axis, runs[:, axis]) for axis in range(last_axis)]
    begin, end = _cover_columns(runs, grid, touch)
    keep = np.ones(len(runs), bool)
    if not touch:
        # Only rows that are samples themselves.
        samples = [grid.block_sample(axis, row) for axis, row in enumerate(rows)]
        keep = np.all([s == runs[:, a] for a, s in enumerate(samples)], axis=0)
    begin, end = np.maximum(begin, box[-1][0]), np.minimum(end, box[-1][1])
    keep &= begin < end
    for row, (low, high) in zip(rows, box[:-1], strict=True):
        keep &= (row >= low) & (row < high)
    if not keep.any():
        return False
    rows, begin, end = [r[keep] for r in rows], begin[keep], end[keep]
    if _fills_rows(rows, (begin == box[-1][0]) & (end == box[-1][1]), box):
        return True
    return _paint_runs(rows, begin, end, box)


def _cover_columns(
    runs: Indices, grid: LevelGrid, touch: bool
) -> tuple[Indices, Indices]:
    """Find where runs begin and end along the last axis of a level."""
    axis = runs.shape[1] - 2
    starts, stops = runs[:, -2], runs[:, -1] - 1
    first, last = grid.holder_index(axis, starts), grid.holder_index(axis, stops)
    if touch:
        return first, last + 1
    # From the first to the last voxel whose sample is in the run.
    begin = first + (grid.block_sample(axis, first) < starts)
    end = last + (grid.block_sample(axis, last) <= stops)
    return begin, end


def _fills_rows(rows: list[Indices], whole: Any, box: Box) -> bool:
    """Return whether every row of a box has a run from end to end."""
    # At a coarser level several runs fall into one row, which counts once.
    shape = [high - low for low, high in box[:-1]]
    count = int(np.prod(shape))
    if np.count_nonzero(whole) < count:
        return False
    places = [row[whole] - low for row, (low, _) in zip(rows, box[:-1], strict=True)]
    return len(np.unique(np.ravel_multi_index(places, shape))) == count


def _paint_runs(rows: list[Indices], begin: Indices, end: Indices, box: Box) -> Any:
    """Set the runs of a level in a box, all of them inside it."""
    shape = [high - low for low, high in box]
    # +1 where a run begins and -1 after its end: their sum along the row is the number
    # of runs over a voxel.
    change = np.zeros((*shape[:-1], shape[-1] + 1), np.int32)
    index = tuple(row - low for row, (low, _) in zip(rows, box[:-1], strict=True))
    # Not `change[index] += 1`, which counts runs that begin at the same voxel once.
    np.add.at(change, (*index, begin - box[-1][0]), 1)
    np.add.at(change, (*index, end - box[-1][0]), -1)
    mask = np.cumsum(change, axis=-1)[..., :-1] > 0
    return True if mask.all() else mask
