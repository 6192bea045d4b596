"""The edits of one moment, applied to blocks of a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_ngff.labels.chunk_patch import ChunkPatch
from napari_ngff.labels.edits import Edit, EditLog
from napari_ngff.labels.level_grid import LevelGrid
from napari_ngff.store.arrays.boxes import (
    AxisOrder,
    Box,
    array_box,
    cell_ranges,
    order_block,
    order_box,
    slice_inside,
)

Array = npt.NDArray[Any]

FEW = 4
"""Number of cells up to which all are listed: reading them is cheaper than asking the
shape of the edit which of them it really covers."""


class Snapshot:
    """Some edits over level 0; safe to use from several threads.

    Parameters
    ----------
    edits
        In order.
    shape
        Of level 0 of the canvas.
    dtype
        Of its labels.
    """

    def __init__(
        self, edits: Iterable[Edit], shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.edits = tuple(edits)
        self.grid = LevelGrid(shape, shape)
        self.dtype = dtype
        self._log = EditLog(len(shape))
        for edit in self.edits:
            self._log.add_edit(edit)

    def with_edits(self, box: Box, before: Array, order: AxisOrder) -> Array:
        """Return what a box of the file should hold: its original with the edits.

        Parameters
        ----------
        box
            Of the file.
        before
            What stood there before any of the edits, axes of the file.
        order
            From the canvas to the file.

        Returns
        -------
        ndarray
            Axes of the file, type of the canvas.
        """
        # `astype` copies; `order_block` is a view, so edits of it change the copy.
        new = before.astype(self.dtype)
        self.apply_edits(order_box(box, order), order_block(new, order))
        return new

    def find_painted(self, box: Box, before: Array, order: AxisOrder) -> Array:
        """Find the voxels that any of the edits paints, whatever another makes of them.

        Parameters
        ----------
        box, before, order
            As of `with_edits`.
        """
        painted, block = np.zeros(before.shape, bool), before.astype(self.dtype)
        mask = self.apply_edits(order_box(box, order), order_block(block, order))
        if mask is not None:
            order_block(painted, order)[...] = mask
        return painted

    def apply_edits(self, box: Box, block: Array) -> Array | None:
        """Apply the edits to a block in place; return which voxels they paint, if any.

        Parameters
        ----------
        box
            Of the canvas.
        block
            What stood there before any of the edits.
        """
        patch = ChunkPatch(self.grid, box, self.dtype)

        def read_block(region: Box) -> Array:
            return block[slice_inside(region, box)]

        # All of them at level 0 and in one go: no records, nothing is undone here.
        for index in self._log.edits_touching(box):
            patch.apply_edit(self._log.edits[index], read_block, 0, note=False)
        if patch.values is not None:
            np.copyto(block, patch.values, where=patch.mask)
        return patch.mask  # type: ignore[no-any-return]


def touched_cells(
    edits: Sequence[Edit], grid: LevelGrid, order: AxisOrder, cell: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """List the cells of level 0 that edits may change; some may occur twice.

    Parameters
    ----------
    grid
        Of level 0 of the canvas.
    order
        From there to the file.
    cell
        Shape of a cell, axes of the file.
    """
    whole = tuple((0, size) for size in grid.full)
    for edit in edits:
        region = edit.region_in(grid, whole)
        if region is None:
            continue
        ranges = cell_ranges(array_box(region, order, len(cell)), cell)
        # A long stroke has a large rectangle, most cells of which it does not touch.
        many = np.prod([len(r) for r in ranges]) > FEW
        for position in itertools.product(*ranges):
            box = tuple(
                (i * n, (i + 1) * n) for i, n in zip(position, cell, strict=True)
            )
            if many:
                part = edit.region_in(grid, order_box(box, order))
                if part is None or edit.covered_voxels(grid, part) is False:
                    continue
            yield position
