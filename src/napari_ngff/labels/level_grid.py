"""Converts between the voxels of a level and those of level 0, in whole numbers.

napari takes the ratio of two shapes as the factor between them, whole or not; so a
level always covers level 0 exactly, and each voxel of level 0 belongs to one *block*:
the voxels of level 0 that one voxel of the level stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_ngff.store.arrays.boxes import Box

__all__ = ["Box", "Indices", "LevelGrid"]

Indices = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class LevelGrid:
    """The grid of one level over that of level 0.

    Attributes
    ----------
    full
        Number of voxels of level 0 per axis.
    sizes
        Number of voxels of the level per axis; none exceeds that of level 0.
    """

    full: tuple[int, ...]
    sizes: tuple[int, ...]

    def on_axes(self, axes: Sequence[int]) -> LevelGrid:
        """Return the grid of some axes."""
        return LevelGrid(
            tuple(self.full[a] for a in axes), tuple(self.sizes[a] for a in axes)
        )

    def holder_index(self, axis: int, index: Any) -> Any:
        """Return the index of the level's voxel that holds a voxel of level 0."""
        # floor((index + 1/2) / factor): by the centre of the voxel, in integers, since
        # floats would put some voxels into the next block.
        return (2 * index + 1) * self.sizes[axis] // (2 * self.full[axis])

    def block_start(self, axis: int, index: Any) -> Any:
        """Return the first voxel of level 0 in the block of a voxel."""
        # The inverse of `holder_index`: ceil(index * factor - 1/2), as -floor(-x).
        full, size = self.full[axis], self.sizes[axis]
        return -((size - 2 * full * index) // (2 * size))

    def block_sample(self, axis: int, index: Any) -> Any:
        """Return the voxel of level 0 in the middle of a voxel's block."""
        # floor((index + 1/2) * factor): the voxel that contains the block's centre.
        return (2 * index + 1) * self.full[axis] // (2 * self.sizes[axis])

    def plane_index(self, axis: int, index: int) -> int:
        """Return the index of the plane that napari shows for one of level 0.

        Along an axis that is not displayed, napari divides by the factor and rounds
        (``_ScalarFieldSliceRequest._thick_slice_at_level``).
        """
        factor = self.full[axis] / self.sizes[axis]
        # `np.round` takes halves to the even number, as napari does.
        return int(np.round(min(index / factor, self.sizes[axis] - 1)))

    def block_bounds(self, axis: int, span: tuple[int, int], touch: bool) -> Any:
        """Return first and last voxel of level 0 that count for each voxel of a span.

        Parameters
        ----------
        span
            Start and stop on the level.
        touch
            True for the whole block, False for the sample alone.
        """
        index = np.arange(*span, dtype=np.int64)
        if self.full[axis] == self.sizes[axis]:
            return index, index
        if touch:
            return self.block_start(axis, index), self.block_start(axis, index + 1) - 1
        sample = self.block_sample(axis, index)
        return sample, sample
