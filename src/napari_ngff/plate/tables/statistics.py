"""Sums over the voxels of each label, which are added up block by block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
    starts, stops
        First index, and that after the last one, int64, shape (labels, axes).
    sums, lows, highs
        Of intensities, float64, shape (labels, channels); NaN counts as in numpy.
    """

    labels: npt.NDArray[Any]
    counts: npt.NDArray[np.int64]
    moments: Floats
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
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
        Intensities of the same shape; one is held at a time.
    corner
        Index of the block's first voxel, per axis.
    """
    # By runs along the last axis, which are far fewer than voxels; those of a label
    # follow each other, so that they are reduced in one call.
    flat = labels.ravel()
    is_first = np.ones(flat.size, bool)
    np.not_equal(flat[1:], flat[:-1], out=is_first[1:])
    is_first[:: labels.shape[-1]] = True
    runs = np.flatnonzero(is_first)
    lengths = np.diff(runs, append=flat.size)
    inside = flat[runs] != 0
    runs, lengths = runs[inside], lengths[inside]
    ids, order, firsts, _ = _group(flat[runs])
    runs, lengths = runs[order], lengths[order]
    counts = np.add.reduceat(lengths, firsts)
    starts = np.stack(np.unravel_index(runs, labels.shape), axis=1) + corner
    stops = starts + 1
    stops[:, -1] += lengths - 1
    # The mean index of a run times its length.
    moments = (starts + stops - 1) * (lengths / 2)[:, None]
    columns: list[Any] = []
    for channel in channels:
        ends = np.cumsum(lengths)
        voxels = np.arange(lengths.sum()) + np.repeat(runs - ends + lengths, lengths)
        values = channel.ravel()[voxels].astype(float)
        steps = np.add, np.minimum, np.maximum
        firsts_of = np.cumsum(counts) - counts
        columns.append([step.reduceat(values, firsts_of) for step in steps])
    return LabelStatistics(
        ids,
        counts,
        np.add.reduceat(moments, firsts, axis=0),
        np.minimum.reduceat(starts, firsts, axis=0),
        np.maximum.reduceat(stops, firsts, axis=0),
        *np.array(columns).reshape(len(columns), 3, len(ids)).transpose(1, 2, 0),
    )


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
        combine("starts", np.minimum),
        combine("stops", np.maximum),
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
