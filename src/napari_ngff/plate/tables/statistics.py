"""Sums over the voxels of each label, which are added up block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LabelStatistics:
    """Statistics of the labels in one block or in several.

    Sums of integers are exact up to 2^53, beyond which float64 rounds.

    Attributes
    ----------
    labels
        Ids, ascending, without 0; int64 or uint64, shape (labels,).
    counts
        Number of voxels, int64, shape (labels,).
    moments
        Sums of indices, float64, shape (labels, axes).
    sums, lows, highs
        Of intensities, float64, shape (labels, channels); NaN counts as in numpy.
    """

    labels: npt.NDArray[Any]
    counts: npt.NDArray[np.int64]
    moments: Floats
    sums: Floats
    lows: Floats
    highs: Floats


def statistics_of_block(
    labels: npt.NDArray[Any],
    channels: Iterable[npt.NDArray[Any]],
    corner: Sequence[int],
) -> LabelStatistics:
    """Measure the labels of one block.

    Parameters
    ----------
    labels
        Ids, integers, in any number of axes; 0 is the background.
    channels
        Intensities of the same shape, at least one channel; one is held at a time.
    corner
        Index of the block's first voxel, per axis.
    """
    # Only voxels of labels from here on: in most images a small part of all.
    flat = labels.ravel()
    inside = np.flatnonzero(flat)
    ids, rows = _rows_of(flat[inside])
    size = len(ids)
    counts = np.bincount(rows, minlength=size).astype(np.int64)
    moments = np.empty((size, labels.ndim))
    for axis, index in enumerate(np.unravel_index(inside, labels.shape)):
        # With weights, `bincount` sums them: here the indices of a label's voxels. The
        # corner is added afterwards, so that sums in a block stay small.
        within = np.bincount(rows, index, size)
        moments[:, axis] = within + corner[axis] * counts.astype(float)
    sums: list[Any] = []
    lows: list[Any] = []
    highs: list[Any] = []
    for channel in channels:
        values = channel.ravel()[inside].astype(float)
        sums.append(np.bincount(rows, values, size))
        low, high = np.full(size, np.inf), np.full(size, -np.inf)
        # `at`, since a row occurs once per voxel of its label.
        np.minimum.at(low, rows, values)
        np.maximum.at(high, rows, values)
        lows.append(low)
        highs.append(high)
    return LabelStatistics(
        ids, counts, moments, *(np.stack(x, axis=1) for x in (sums, lows, highs))
    )


def add_up(parts: Sequence[LabelStatistics]) -> LabelStatistics:
    """Add up the statistics of several blocks, at least one."""
    if len(parts) == 1:
        return parts[0]
    ids, rows = _rows_of(np.concatenate([part.labels for part in parts]))
    size = len(ids)
    counts = np.zeros(size, np.int64)
    np.add.at(counts, rows, np.concatenate([part.counts for part in parts]))

    def combine_columns(name: str, start: float, step: np.ufunc) -> Floats:
        values = np.concatenate([getattr(part, name) for part in parts])
        sums = np.full((size, values.shape[1]), start, float)
        step.at(sums, rows, values)
        return sums

    return LabelStatistics(
        ids,
        counts,
        combine_columns("moments", 0, np.add),
        combine_columns("sums", 0, np.add),
        combine_columns("lows", np.inf, np.minimum),
        combine_columns("highs", -np.inf, np.maximum),
    )


def _rows_of(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Find the ids among values, and for each value the row of its id."""
    import pandas as pd

    # uint64 stays: float64, which NumPy makes of both, does not hold all ids.
    wide = values if values.dtype == np.uint64 else values.astype(np.int64)
    rows, ids = pd.factorize(wide, sort=True)
    return ids, rows
