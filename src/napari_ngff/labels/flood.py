"""Finds the connected region of one label around a voxel, chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.runs import mask_runs, sort_runs
from napari_ngff.store.arrays.boxes import box_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ngff.labels.canvas_level import CanvasLevel, Chunk
    from napari_ngff.labels.level_grid import Indices
    from napari_ngff.store.arrays.boxes import Box

__all__ = ["FILL_BUDGET", "flood_region"]

FILL_BUDGET = 1 << 25
"""Most voxels that are read to fill a region, in whole chunks: about a second of
work."""


def flood_region(
    level: CanvasLevel,
    seed: Sequence[int],
    axes: Sequence[int],
    budget: int = FILL_BUDGET,
) -> Indices | None:
    """Find the voxels of the seed's value that are connected with it by faces.

    Parameters
    ----------
    level
        Level 0 of a canvas.
    seed
        Index of a voxel, on all axes.
    axes
        Along which to go, ascending; the others stay at the seed.

    Returns
    -------
    ndarray or None
        Runs on `axes`; None where more than `budget` voxels would have to be read.
    """
    return _FloodRegions(level, seed, axes, budget).find_runs()


class _FloodRegions:
    """The regions of the chunks that were read so far, and the rest to be done."""

    def __init__(
        self, level: CanvasLevel, seed: Sequence[int], axes: Sequence[int], budget: int
    ) -> None:
        self.level = level
        self.seed = tuple(seed)
        self.axes = tuple(axes)
        self.voxels_left = budget
        self.value = level.read_points([np.array([i]) for i in seed])[0]
        # Of each chunk, the number of the region that each voxel is in, 0 for none; and
        # the numbers of the regions that are connected with the seed.
        self.regions: dict[Chunk, Any] = {}
        self.connected: dict[Chunk, set[int]] = {}

    def chunk_box(self, chunk: Chunk) -> Box:
        return tuple(
            span if axis in self.axes else (self.seed[axis], self.seed[axis] + 1)
            for axis, span in enumerate(self.level.chunk_box(chunk))
        )

    def label_regions(self, chunk: Chunk) -> Any:
        """Give each region of a chunk a number, from 1."""
        from scipy import ndimage  # slow, and only this tool needs it

        if chunk not in self.regions:
            box = self.chunk_box(chunk)
            self.voxels_left -= int(np.prod(box_shape(box)))
            same = self.level.read(box) == self.value
            # By faces, scipy's default, as napari's own fill bucket.
            numbers, count = ndimage.label(same)
            # scipy gives 32 bits per voxel; most chunks have fewer than 256 regions.
            self.regions[chunk] = numbers.astype(np.min_scalar_type(count))
        return self.regions[chunk]

    def list_neighbours(self, chunk: Chunk, number: int) -> Iterator[tuple[Chunk, int]]:
        """List the regions of other chunks that touch a region of one."""
        mine = self.label_regions(chunk)
        for axis in self.axes:
            for side in (-1, 1):
                index = chunk[axis] + side
                if not 0 <= index * self.level.chunks[axis] < self.level.shape[axis]:
                    continue
                # Where the region reaches the face between both chunks.
                face = np.take(mine, 0 if side < 0 else -1, axis) == number
                if not face.any():
                    continue
                other = (*chunk[:axis], index, *chunk[axis + 1 :])
                # Before the other chunk is read, which may take long.
                if self.voxels_left < 0:
                    return
                theirs = np.take(
                    self.label_regions(other), -1 if side < 0 else 0, axis
                )[face]
                for neighbour in np.unique(theirs[theirs > 0]):
                    yield other, int(neighbour)

    def find_runs(self) -> Indices | None:
        level = self.level
        first = tuple(i // c for i, c in zip(self.seed, level.chunks, strict=True))
        inner_seed = tuple(
            i - start
            for i, (start, _) in zip(self.seed, self.chunk_box(first), strict=True)
        )
        # A stack instead of recursion: a region may wind through thousands of chunks.
        todo = [(first, int(self.label_regions(first)[inner_seed]))]
        seen = set(todo)
        while todo and self.voxels_left >= 0:
            chunk, number = todo.pop()
            self.connected.setdefault(chunk, set()).add(number)
            new = set(self.list_neighbours(chunk, number)) - seen
            seen |= new
            todo += new
        if self.voxels_left < 0:
            return None
        return sort_runs([self.chunk_runs(c, n) for c, n in self.connected.items()])

    def chunk_runs(self, chunk: Chunk, numbers: set[int]) -> Indices:
        box = self.chunk_box(chunk)
        fixed = tuple(axis for axis in range(len(box)) if axis not in self.axes)
        mask = np.isin(self.regions[chunk], list(numbers)).squeeze(axis=fixed)
        return mask_runs(mask, [box[axis][0] for axis in self.axes])
