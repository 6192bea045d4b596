"""Finds the rule by which the coarser levels of a label image were made.

Programs take the first voxel of a block, another one, or the most frequent id, and
seldom state which. A save follows the rule of the file below edits, and changes nothing
elsewhere: several rules may give the same at the places that are compared.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.arrays.boxes import slice_inside
from napari_ngff.store.pyramids.level_reduction import LevelReduction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from napari_ngff.labels.level_grid import Box
    from napari_ngff.store.arrays.lazy_array import ArraySource

SIDE = 32
"""Voxels along y and x of the coarser level that are compared at once."""

ENOUGH = 24
"""Number of blocks with more than one label that are enough to choose a rule: others
come out the same by every rule."""

PLACES = 3
"""Most places where two levels are compared, beside those near the edits."""

LARGEST = 2**22
"""A coarsest level of more voxels is not read to find where labels are."""

MOST_OFFSETS = 64
"""Most voxels of a block that are tried as the sampled one: all 64 of 4 x 4 x 4."""


def find_rules(
    levels: Sequence[ArraySource], stated: Sequence[LevelReduction], near: Iterable[Box]
) -> tuple[LevelReduction, ...]:
    """Find the rules by which the levels of a file were made.

    Parameters
    ----------
    levels
        As they are in the file, axes of the file.
    stated
        From each level to the next, as the metadata say: kept where it fits, and
        where no block shows it.
    near
        Boxes of level 0 that are about to change.

    Returns
    -------
    tuple
        From each level to the next: of several that fit the first, and where none does,
        the one that comes closest.
    """
    places = _ComparedPlaces(levels, near)
    rules: list[LevelReduction] = []
    pairs = zip(itertools.pairwise(levels), stated, strict=True)
    for (fine, coarse), reduction in pairs:
        boxes = list(_compare_levels(fine, coarse, reduction, places))
        fits = all(
            (compared.reduced_by(reduction) == compared.stored).all()
            for compared in boxes
        )
        rules.append(reduction if fits else _find_closest(reduction, boxes))
        if (
            fits
            and sum(compared.count_mixed(reduction) for compared in boxes) >= ENOUGH
        ):
            # A program makes all levels by one rule, so no other level has to be read.
            return (*rules, *stated[len(rules) :])
    return tuple(rules)


class _ComparedPlaces:
    """Places to compare levels at, as fractions of the axes: first near the edits."""

    def __init__(self, levels: Sequence[ArraySource], near: Iterable[Box]) -> None:
        shape = levels[0].shape
        self._near = [
            [(a + b) / 2 / n for (a, b), n in zip(box, shape, strict=True)]
            for box in itertools.islice(near, 2)
        ]
        self._coarsest = levels[-1]
        self._others: list[list[float]] | None = None

    def __iter__(self) -> Iterator[list[float]]:
        yield from self._near
        # Reads a whole level, so only if the places near the edits were not enough.
        if self._others is None:
            self._others = _find_borders(self._coarsest)
        yield from self._others


@dataclass(frozen=True, slots=True)
class _ComparedBox:
    """A box of the coarser level, and the blocks of the finer one that it stands for.

    Attributes
    ----------
    box, sources
        The boxes on the coarser and on the finer level.
    stored, finer
        Labels in `box` and in `sources`.
    """

    box: Box
    sources: Box
    stored: npt.NDArray[Any]
    finer: npt.NDArray[Any]

    def reduced_by(self, rule: LevelReduction) -> npt.NDArray[Any]:
        """Make the box by a rule."""
        part = slice_inside(rule.source_box(self.box), self.sources)
        return rule.reduce(self.finer[part], self.box)

    def count_mixed(self, rule: LevelReduction) -> int:
        """Count the blocks whose first and last voxels differ: rules differ there."""
        firsts = tuple(replace(steps, offset=0) for steps in rule.steps)
        lasts = tuple(
            replace(steps, offset=(steps.factor or 1) - 1) for steps in rule.steps
        )
        return int(
            (
                self.reduced_by(LevelReduction(firsts))
                != self.reduced_by(LevelReduction(lasts))
            ).sum()
        )


def _compare_levels(
    fine: ArraySource,
    coarse: ArraySource,
    rule: LevelReduction,
    places: _ComparedPlaces,
) -> Iterator[_ComparedBox]:
    """Read boxes of two levels until enough of their blocks hold several labels."""
    # Two more for the places near the edits.
    mixed = 0
    for middle in itertools.islice(places, PLACES + 2):
        box = _box_at(middle, coarse.shape)
        sources = tuple(
            (int(steps.block_start(a)), int(steps.block_stop(b - 1)))
            for steps, (a, b) in zip(rule.steps, box, strict=True)
        )
        with suppress(CorruptDataError, OSError):
            stored, below = coarse.read(box), fine.read(sources)
            # One label everywhere: each rule gives that.
            if (stored == below.flat[0]).all() and (below == below.flat[0]).all():
                continue
            compared = _ComparedBox(box, sources, stored, below)
            mixed += compared.count_mixed(rule)
            yield compared
        if mixed >= ENOUGH:
            return


def _find_closest(
    stated: LevelReduction, boxes: Sequence[_ComparedBox]
) -> LevelReduction:
    """Find the rule that gives most of what the file has."""
    candidates = list(_list_candidates(stated))
    wrong = [
        sum(int((box.reduced_by(rule) != box.stored).sum()) for box in boxes)
        for rule in candidates
    ]
    return candidates[int(np.argmin(wrong))]  # of several the first: what is stated


def _mark_borders(pixels: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Find voxels whose label differs from the one before them along any axis."""
    differs = np.zeros(pixels.shape, bool)
    # z, y and x: along t labels differ without a border between them.
    for axis in range(max(0, pixels.ndim - 3), pixels.ndim):
        along = np.diff(pixels, axis=axis) != 0
        differs[(slice(None),) * axis + (slice(1, None),)] |= along
    return differs


def _find_borders(level: ArraySource) -> list[list[float]]:
    """Find places where labels meet, as fractions of the axes."""
    if np.prod(level.shape) > LARGEST:
        return []
    pixels = None
    with suppress(CorruptDataError, OSError):
        pixels = level.read(tuple((0, n) for n in level.shape))
    if pixels is None:
        return []
    differs = _mark_borders(pixels)
    positions = np.flatnonzero(differs)
    # Spread over all of them: neighbours would show the same object.
    some = positions[
        np.linspace(0, len(positions) - 1, min(PLACES, len(positions))).astype(int)
    ]
    indices = np.stack(np.unravel_index(some, pixels.shape), axis=1)
    return ((indices + 0.5) / pixels.shape).tolist()  # type: ignore[no-any-return]


def _list_candidates(stated: LevelReduction) -> Iterator[LevelReduction]:
    yield stated
    if stated.method == "nearest":
        yield replace(stated, method="mode")
    ranges = [range(steps.factor or 1) for steps in stated.steps]
    for offsets in itertools.islice(itertools.product(*ranges), MOST_OFFSETS):
        steps = tuple(
            replace(steps, offset=offset)
            for steps, offset in zip(stated.steps, offsets, strict=True)
        )
        if stated.method == "mode" or any(offsets):
            yield LevelReduction(steps, "nearest")


def _box_at(middle: Sequence[float], shape: tuple[int, ...]) -> Box:
    """Rectangle around a place: one index of the axes before z, two planes of z."""
    spans = []
    for axis, (fraction, n) in enumerate(zip(middle, shape, strict=True)):
        depth = len(shape) - axis
        side = SIDE if depth <= 2 else 2 if depth == 3 else 1
        start = min(max(int(fraction * n) - side // 2, 0), max(n - side, 0))
        spans.append((start, min(start + side, n)))
    return tuple(spans)
