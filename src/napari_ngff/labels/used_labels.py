"""Finds labels that no pixel has, for a new class or a new object.

For that all stored pixels are looked at once, whatever the size of the image: coarser
levels lack small objects.
"""

from __future__ import annotations

import itertools
import math
import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from napari_ngff.labels.raster import Raster
from napari_ngff.store.arrays.boxes import box_of, cells_in, whole_box
from napari_ngff.store.arrays.lazy_array import ArraySource, ArrayWindow, BlankArray
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.threads import CORES, share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari_ngff.labels.canvas_level import CanvasLevel, Chunk
    from napari_ngff.labels.edits import Edit

SMALL = 1 << 16
"""Of labels below it is known which ones pixels have; of others, up to which one."""

LOOKED_AT = 1 << 26
"""Voxels of the coarsest level up to which it is read for a guess."""


def never() -> bool:
    """Return False: the work is still needed."""
    return False


def is_blank(source: ArraySource) -> bool:
    """Return whether an array is that of new labels, of which nothing is stored."""
    inner = source.source if isinstance(source, ArrayWindow) else source
    return isinstance(inner, BlankArray)


class StoredLabels:
    """Which labels the pixels of some arrays have.

    Attributes
    ----------
    highest
        The largest of them.
    """

    def __init__(self) -> None:
        self.highest = 0
        self._small = np.zeros(SMALL, bool)
        self._lock = threading.Lock()

    @classmethod
    def of_arrays(
        cls, sources: Iterable[ArraySource], stops: Callable[[], bool] = never
    ) -> StoredLabels | None:
        """Read all pixels, which may take long; None if `stops` has ended it."""
        found = cls()
        for source in sources:
            if not is_blank(source):
                inner = source.source if isinstance(source, ArrayWindow) else source
                found._look_at(inner, stops)
        return None if stops() else found

    def _look_at(self, source: ArraySource, stops: Callable[[], bool]) -> None:
        shape, chunks = source.shape, source.chunks

        def look_at_chunk(chunk: Chunk) -> None:
            box = box_of(chunk, chunks, shape)
            if isinstance(source, LevelSource):
                # Decoded chunks on the screen must stay in memory, and a broken chunk
                # is reported when it is shown.
                block = source.array.read(box, lambda _: None, keep=False)
            else:
                block = source.read(box)
            if block.any():
                self._add(block)

        cells = cells_in(whole_box(shape), chunks)
        left = itertools.takewhile(lambda _: not stops(), cells)
        count = math.prod(-(-n // size) for n, size in zip(shape, chunks, strict=True))
        share_work(left, look_at_chunk, count, CORES)

    def _add(self, block: np.ndarray[Any, Any]) -> None:
        highest = int(block.max())
        small = (block if highest < SMALL else block[block < SMALL]).astype(np.intp)
        with self._lock:
            self.highest = max(self.highest, highest)
            self._small[small] = True

    def list_small(self) -> set[int]:
        """Return the labels below `SMALL` that pixels have."""
        return set(np.flatnonzero(self._small).tolist())

    def has(self, label: int) -> bool:
        """Return whether a pixel has a label, or may have one as large as this."""
        return bool(self._small[label]) if label < SMALL else label <= self.highest


class EditedPyramid(Protocol):
    """What is asked of a canvas, whose attributes these are."""

    dtype: np.dtype[Any]
    highest: int
    levels: tuple[CanvasLevel, ...]

    @property
    def all_edits(self) -> tuple[Edit, ...]:
        """The edits, and those that are undone."""


class UsedLabels:
    """Which labels the pixels of a canvas have: stored, painted, or undone.

    Parameters
    ----------
    canvas
        Its pixels are read where it is not known yet: then call this in a worker.

    Attributes
    ----------
    stored
        The labels of stored pixels; None until all of them were looked at.
    """

    def __init__(self, canvas: EditedPyramid) -> None:
        self._canvas = canvas
        self.stored: StoredLabels | None = None
        self._has_looked = False  # at the coarsest level

    @property
    def is_known(self) -> bool:
        """Return whether nothing has to be read, as of new labels."""
        sources = [level.source for level in self._canvas.levels]
        return self.stored is not None or all(map(is_blank, sources))

    def look_at_all(self, stops: Callable[[], bool] = never) -> StoredLabels:
        """Look at all stored pixels, unless that was done."""
        stored = self.stored
        if stored is None:
            sources = [level.source for level in self._canvas.levels]
            stored = self.stored = StoredLabels.of_arrays(sources, stops)
        return stored or StoredLabels()

    def has(self, label: int) -> bool:
        """Return whether a pixel has a label, or would have it after undo or redo."""
        return self.look_at_all().has(label) or label in self.painted()

    def painted(self) -> set[int]:
        """Return the labels of all edits, also of those that are undone."""
        edits = self._canvas.all_edits
        labels = {edit.label for edit in edits}
        rasters = [edit.shape for edit in edits if isinstance(edit.shape, Raster)]
        return labels.union(*(np.unique(r.values).tolist() for r in rasters))

    def list_small(self) -> list[int]:
        """List the labels below `SMALL` that pixels have, as far as they are known."""
        small = {label for label in self.painted() if label < SMALL}
        if self.stored is not None:
            small |= self.stored.list_small()
        return sorted(small - {0})

    def find_next(self, taken: Iterable[int] = ()) -> int:
        """Return the first label above all that pixels have, and above `taken`."""
        return max(0, self.look_at_all().highest, *self.painted(), *taken) + 1

    def find_free(self, taken: Iterable[int] = ()) -> int:
        """Return a label that no pixel has, nor `taken`: that of `find_next`.

        Where the type ends before, the largest label is left out, which masks have;
        then it is the lowest that is free. Without any, the type has to be widened.
        """
        taken = set(taken)
        first, limit = self.find_next(taken), int(np.iinfo(self._canvas.dtype).max)
        if first <= limit:
            return first
        used = taken | self.painted() | self.look_at_all().list_small()
        second = max(used - {limit}, default=0) + 1
        free = set(range(1, min(limit + 1, SMALL))) - used
        return second if second in free else min(free, default=first)

    def guess_next(self, taken: Iterable[int] = ()) -> int:
        """Return what `find_next` does as far as it is known.

        The coarsest level is read once, if it is small: it shows most labels for the
        least reading, though small ones may lack.
        """
        coarsest, stored = self._canvas.levels[-1], self.stored
        if stored is None and not self._has_looked and coarsest.size <= LOOKED_AT:
            coarsest.read(whole_box(coarsest.shape))  # the canvas keeps the largest
            self._has_looked = True
        known = 0 if stored is None else stored.highest
        return max(self._canvas.highest, known, *taken) + 1
