"""Counts the blocks of a file that the next save changes."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from napari_ngff.labels.level_grid import LevelGrid
from napari_ngff.labels.saving.save_run import count_common
from napari_ngff.labels.saving.snapshot import touched_cells

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.labels.edits import Edit
    from napari_ngff.store.arrays.boxes import AxisOrder

MOST = 10_000
"""Number of blocks up to which they are counted."""

Cell = tuple[int, ...]


class ChangedBlocks:
    """Counts the blocks of level 0 that edits touch; each edit is looked at once.

    Parameters
    ----------
    shape
        Of level 0 of the canvas.
    order
        From the axes of the canvas to those of the file.
    cell
        Shape of a block, axes of the file.
    """

    def __init__(
        self, shape: tuple[int, ...], order: AxisOrder, cell: tuple[int, ...]
    ) -> None:
        self._grid = LevelGrid(shape, shape)
        self._order = order
        self._cell = cell
        self._edits: tuple[Edit, ...] = ()
        self._cells: list[frozenset[Cell]] = []

    def count_blocks(self, edits: tuple[Edit, ...], others: Iterable[Cell] = ()) -> int:
        """Count the blocks, up to `MOST` and some more.

        Parameters
        ----------
        edits
            Unsaved ones: made, or taken back.
        others
            Blocks to be saved whatever the edits are.
        """
        # Counted after each stroke for the display: what was counted for earlier edits
        # is kept, one set of blocks for each.
        same = count_common(self._edits, edits)
        del self._cells[same:]
        self._edits = edits
        for edit in edits[same:]:
            touched = touched_cells((edit,), self._grid, self._order, self._cell)
            # One edit of everything may touch millions of blocks.
            self._cells.append(frozenset(islice(touched, MOST + 1)))
        return len(set(chain(others, *self._cells)))
