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
    # Only voxels of labels from here on: in most images a small part of all. Those of
    # a label follow each other, so that they are reduced in one call.
    flat = labels.ravel()
    inside = np.flatnonzero(flat)
    ids, order, starts, counts = _group(flat[inside])
    inside = inside[order]
    moments = np.empty((len(ids), labels.ndim))
    for axis, index in enumerate(np.unravel_index(inside, labels.shape)):
        # The corner is added afterwards, so that sums in a block stay small.
        within = np.add.reduceat(index, starts)
        moments[:, axis] = within + corner[axis] * counts.astype(float)
    columns: list[Any] = []
    for channel in channels:
        values = channel.ravel()[inside].astype(float)
        steps = np.add, np.minimum, np.maximum
        columns.append([step.reduceat(values, starts) for step in steps])
    return LabelStatistics(ids, counts, moments, *np.array(columns).transpose(1, 2, 0))


def add_up(parts: Sequence[LabelStatistics]) -> LabelStatistics:
    """Add up the statistics of several blocks, at least one."""
    ids, order, starts, _ = _group(np.concatenate([part.labels for part in parts]))

    def combine(name: str, step: np.ufunc) -> Any:
        values = np.concatenate([getattr(part, name) for part in parts])
        return step.reduceat(values[order], starts, axis=0)

    return LabelStatistics(
        ids,
        combine("counts", np.add),
        combine("moments", np.add),
        combine("sums", np.add),
        combine("lows", np.minimum),
        combine("highs", np.maximum),
    )


def _group(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """Find the ids among values, the order of values by their id, the place in that
    order where each id starts, and how often it occurs.
    """
    # uint64 stays: float64, which NumPy makes of both, does not hold all ids.
    wide = values if values.dtype == np.uint64 else values.astype(np.int64)
    order = np.argsort(wide, kind="stable")
    ids, starts, counts = np.unique(wide[order], return_index=True, return_counts=True)
    return ids, order, starts, counts
