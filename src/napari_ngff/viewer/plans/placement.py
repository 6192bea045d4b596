"""Places an image in a coordinate system, and chooses the axes of its layers there."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.systems import Axis, Reference
    from napari_ngff.metadata.transform import Matrix
    from napari_ngff.store.pyramids.resampled import BentImage

NOTHING = 1e-12
"""Entries of a matrix below that, relative to the largest of their column, are 0."""

MOST_STEPS = 10**7
"""Steps of one slider; napari's hold up to 999,999,998."""

SMALLEST, LARGEST = 2e-8, 1e20
"""Height and width that napari brings in view, and coordinates that graphics hold."""

FARTHEST = 1e12
"""Voxels from the origin; farther away their coordinates are no longer told apart."""


@dataclass(frozen=True, slots=True, eq=False)
class SystemView:
    """An image in a coordinate system.

    Attributes
    ----------
    system
        The displayed one.
    axes
        Its axes.
    matrix
        From the image's intrinsic system (from index coordinates of level 0 where
        `Level.transformation` says how these get there), (M + 1, N + 1).
    bent
        How the image gets there where a field bends it; `matrix` does not count then.
    """

    system: Reference
    axes: tuple[Axis, ...]
    matrix: Matrix
    bent: BentImage | None = None


def arrange_axes(
    axes: Sequence[Axis],
    system_axes: Sequence[Axis],
    matrix: Matrix,
    channel: int | None,
) -> tuple[tuple[int | None, ...], tuple[Axis, ...], Matrix]:
    """Arrange the data of layers so that slicing them stays orthogonal.

    napari slices along axes of the data and places what it finds by an affine; an
    affine that permutes axes would show other planes than the sliders say. So the
    data is permuted, gets an axis of one voxel where the displayed system has one
    that the image has not, and keeps, in front, those that the system has not.

    Parameters
    ----------
    axes
        Of the image, N.
    system_axes
        Of the displayed system, M.
    matrix
        From the former to the latter, (M + 1, N + 1).
    channel
        Index of the image's channel axis: it is left out, and its counterpart in the
        displayed system as well, where nothing else depends on them.

    Returns
    -------
    order
        The image's axis, or None, per axis of the layers.
    axes
        Of the displayed system, alike.
    affine
        Homogeneous, square, for axes in that order.
    """
    # Rounding would otherwise look like a mixture of axes, and forbid to leave one out.
    linear, offset = clear_rounding(matrix[:-1, :-1]), matrix[:-1, -1]
    rows, columns = kept_axes(linear, system_axes, channel)
    # Axes of the image that lead anywhere, and axes of the system that something leads
    # to.
    moving = [c for c in columns if linear[rows, c].any()]
    moved = [r for r in rows if linear[r, columns].any()]
    pairs = match_axes(linear, moved, moving)
    extra = [c for c in columns if c not in pairs.values()]
    # First the axes that the system has not, which become sliders; then those of the
    # system.
    order = (*extra, *(pairs.get(r) for r in rows))
    result = np.eye(len(order) + 1)
    for i, r in enumerate(rows, len(extra)):
        result[i, :-1] = [0.0 if c is None else linear[r, c] for c in order]
        result[i, -1] = offset[r]
        # An axis of one voxel, of size 1, at the offset.
        if r not in moved:
            result[i, i] = 1.0
    unmatched = [i for i, r in enumerate(rows, len(extra)) if r in moved]
    unmatched = [i for i in unmatched if order[i] is None]
    if unmatched:
        # A plane at an angle in space: its thickness is perpendicular to it.
        filled = [i for i in range(len(order)) if i not in unmatched]
        # The last columns of `basis` are perpendicular to all axes that are filled.
        basis, _, _ = np.linalg.svd(result[:-1, filled])
        result[:-1, unmatched] = basis[:, len(filled) :]
    return order, (*(axes[c] for c in extra), *(system_axes[r] for r in rows)), result


def can_be_drawn(
    sizes: Sequence[int],
    scale: Sequence[float],
    translation: Sequence[float],
    affine: Matrix | None = None,
) -> bool:
    """Return whether napari can show a layer with this place, and its sliders."""
    place = np.diag((*scale, 1.0))
    place[:-1, -1] = translation
    with np.errstate(all="ignore"):
        place = place if affine is None else affine @ place
        spans = place[:-1, :-1] * (np.array(sizes) - 1)
        steps = np.linalg.norm(place[:-1, :-1], axis=0)
        ends = place[:-1, -1] + [
            np.minimum(spans, 0).sum(1),
            np.maximum(spans, 0).sum(1),
        ]
        farthest, extent = np.abs(ends).max(0), np.ptp(ends, 0) + steps
    # False where a number is not finite.
    return bool(
        (farthest <= np.minimum(FARTHEST * steps, LARGEST)).all()
        and (steps <= LARGEST).all()
        and (extent[-2:] >= SMALLEST).all()
    )


def are_near(*spans: tuple[int, float, float]) -> bool:
    """Return whether one slider can lead through several layers.

    Parameters
    ----------
    *spans
        Along one axis: number of voxels, scale and translation.
    """
    with np.errstate(all="ignore"):
        counts, scales, starts = np.array(spans, float).T
        ends = np.concatenate([starts, starts + scales * (counts - 1)])
        return bool(np.ptp(ends) <= MOST_STEPS * np.abs(scales).min() < np.inf)


def clear_rounding(linear: Matrix) -> Matrix:
    """Set entries to 0 that differ from it only by rounding."""
    largest = abs(linear).max(axis=0, keepdims=True)
    return np.where(abs(linear) > NOTHING * largest, linear, 0.0)


def kept_axes(
    linear: Matrix, system_axes: Sequence[Axis], channel: int | None
) -> tuple[list[int], list[int]]:
    """Choose the rows and columns that layers have axes for: without channel, unless
    it is mixed with others.
    """
    rows, columns = list(range(linear.shape[0])), list(range(linear.shape[1]))
    if channel is not None:
        partners = np.flatnonzero(linear[:, channel])
        alone = [r for r in partners if np.count_nonzero(linear[r]) == 1]
        # The channel axis leads to one axis at most, and nothing else leads there: both
        # can go.
        if len(alone) == len(partners) <= 1:
            columns.remove(channel)
            rows = [r for r in rows if r not in alone]
    rows = [r for r in rows if system_axes[r].type != "channel" or linear[r].any()]
    return rows, columns


def match_axes(
    linear: Matrix, rows: Sequence[int], columns: Sequence[int]
) -> dict[int, int]:
    """Pair each displayed axis with the axis of the image that lies along it.

    Of all ways to pair them, the one with the largest sum of cosines; the order of
    the axes decides between equal ones.
    """
    largest = abs(linear).max(axis=0)
    scaled = abs(linear) / np.where(largest > 0, largest, 1)  # squares may overflow
    cosines = scaled / np.maximum(np.linalg.norm(scaled, axis=0), 1)
    # Five axes at most, so all ways can be tried: 120 permutations of one combination.
    best, best_pairs = -1.0, dict[int, int]()
    count = min(len(rows), len(columns))
    for some in itertools.combinations(rows, count):
        for order in itertools.permutations(columns, count):
            pairs = dict(zip(some, order, strict=True))
            score = sum(cosines[r, c] for r, c in pairs.items())
            # A cosine of 0 pairs axes that have nothing to do with each other.
            if score > best + 1e-9 and all(cosines[r, c] for r, c in pairs.items()):
                best, best_pairs = float(score), pairs
    return best_pairs
