"""Keeps parts of coarser levels that were reduced while finer blocks were in memory.

A block that was just written need not be read again for the next level. Parts are
compressed where room gets scarce; where there is none left, blocks are read again.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numcodecs import Zstd

from napari_ngff.store.arrays.boxes import intersect_boxes, slice_inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.labels.level_grid import Box
    from napari_ngff.store.arrays.boxes import Cell
    from napari_ngff.store.pyramids.level_reduction import LevelReduction

__all__ = ["ReductionCache"]

Array = npt.NDArray[Any]

ROOM = 16 * 2**20
"""Bytes of all parts together. From a quarter of that on they are compressed."""

CODEC = Zstd(1)
"""Level 1: faster than reading the block again."""


@dataclass(frozen=True, slots=True)
class _CachedPart:
    box: Box
    dtype: np.dtype[Any]
    packed: bool
    data: bytes


class ReductionCache:
    """The parts of one save; safe to use from several threads.

    Parameters
    ----------
    reductions
        From each level to the next.
    room
        Bytes for all parts.
    """

    def __init__(self, reductions: Sequence[LevelReduction], room: int = ROOM) -> None:
        self._reductions = reductions
        self._room = room
        self._plain = room - room // 4
        self._full = False
        self._parts: dict[tuple[int, Cell], _CachedPart] = {}
        self._lock = threading.Lock()

    def add_block(self, number: int, cell: Cell, box: Box, block: Array) -> None:
        """Reduce a new block for the next level, if it needs no other block for that.

        Parameters
        ----------
        number
            Of its level.
        cell, box
            Its place there.
        block
            The new voxels.
        """
        # Without the lock: at worst a part is made in vain, or one more is read.
        if self._full or number == len(self._reductions):
            return
        reduction = self._reductions[number]
        target = reduction.target_box(box)
        if target is None:
            return
        sources = reduction.source_box(target)
        # A voxel that also needs a neighbouring block, which may not be written yet.
        if intersect_boxes(sources, box) != sources:
            return
        part = reduction.reduce(block[slice_inside(sources, box)], target)
        raw = np.ascontiguousarray(part)
        packed = self._room - raw.nbytes < self._plain
        data = bytes(CODEC.encode(raw)) if packed else raw.tobytes()
        with self._lock:
            self._full = len(data) > self._room
            if not self._full:
                self._room -= len(data)
                self._parts[number, cell] = _CachedPart(target, raw.dtype, packed, data)

    def get_part(self, number: int, cell: Cell, part: Box) -> Array | None:
        """Return a part of the next level; None if it has to be read.

        Parameters
        ----------
        number, cell
            Place of the block that it was made from.
        part
            Of the next level, inside of what the block reaches.
        """
        # Without the lock: one look-up in a dict is atomic.
        cached = self._parts.get((number, cell))
        if cached is None:
            return None
        shape = [stop - start for start, stop in cached.box]
        raw = CODEC.decode(cached.data) if cached.packed else cached.data
        pixels = np.frombuffer(raw, cached.dtype).reshape(shape)
        return pixels[slice_inside(part, cached.box)]

    def drop_blocks(self, number: int, cells: Iterable[Cell]) -> None:
        """Forget the parts of blocks that were not written after all."""
        with self._lock:
            for cell in cells:
                self._drop_part(number, cell)

    def drop_level(self, number: int) -> None:
        """Forget the parts of a level's blocks, after the next level was written."""
        with self._lock:
            for level, cell in list(self._parts):
                if level == number:
                    self._drop_part(level, cell)

    def _drop_part(self, number: int, cell: Cell) -> None:
        part = self._parts.pop((number, cell), None)
        if part is not None:
            self._room += len(part.data)
            self._full = False
