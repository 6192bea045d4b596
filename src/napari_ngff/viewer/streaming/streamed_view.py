"""A rectangle of one level while its pixels come in."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.boxes import (
    box_of,
    box_shape,
    cells_in,
    intersect_boxes,
    slice_inside,
)
from napari_ngff.store.arrays.region_read import cache

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.store.arrays.boxes import Box, Cell
    from napari_ngff.store.pyramids.pyramid import LevelSource

__all__ = ["RETRY_AFTER", "StreamedView", "enlarge_pixels", "nearest_indices"]

RETRY_AFTER = 3.0
"""Seconds after which chunks that a server did not give are asked for again, when
they are looked at."""

UNTIL_LOGIN = math.inf
"""Time of chunks that a server refuses: they are asked for again after a login, since
some servers lock an account after many requests with a wrong one."""

Pixels = np.ndarray[Any, Any]


class StreamedView:
    """A rectangle of one level while its pixels come in.

    Parameters
    ----------
    level, number, box
        See below.
    pixels
        Its true pixels; None where they have to be read.

    Attributes
    ----------
    level, number
        The level, and its number.
    box
        Rectangle of the level.
    token
        Of the decoded chunks; another one once the array was written.
    pixels
        What is known of it: true pixels, and pixels of a coarser level.
    missing
        Chunks whose true pixels are not here, and their rectangles; those nearest to
        the centre first.
    todo
        Of these, those that no worker reads yet.
    failed
        Chunks that could not be read, and when that was, or `UNTIL_LOGIN`; coarser
        pixels stay there.
    absent
        Chunks of these when the view was drawn last.
    keeps
        Whether the cache keeps the decoded chunks: there is room for all of them.
    """

    __slots__ = (
        "_based",
        "_lock",
        "absent",
        "box",
        "failed",
        "keeps",
        "level",
        "missing",
        "number",
        "pixels",
        "todo",
        "token",
    )

    def __init__(
        self, level: LevelSource, number: int, box: Box, pixels: Pixels | None = None
    ) -> None:
        self.level, self.number, self.box = level, number, box
        self.token = level.array.token
        if pixels is None:
            fill, shape = level.array.fill_value, box_shape(box)
            # Zeros take no time until they are replaced.
            pixels = np.zeros(shape, level.dtype)
            if fill != 0:
                pixels[...] = fill
            self.missing = cells_from_centre(box, level)
        else:
            self.missing = {}
        self.pixels = pixels
        taken = len(self.missing) * math.prod(level.chunks) * level.dtype.itemsize
        self.keeps = taken <= cache.limit // 2
        self.todo: list[Cell] = []
        self.failed: dict[Cell, float] = {}
        self.absent: frozenset[Cell] = frozenset()
        self._based = False
        self._lock = threading.Lock()

    @property
    def is_whole(self) -> bool:
        """Whether all of it are true pixels."""
        return not self.missing and not self.failed

    def lacks_any(self, box: Box) -> bool:
        """Tell whether true pixels of a box are not here."""
        if self.is_whole:
            return False
        common = intersect_boxes(box, self.box)
        return any(
            cell in self.missing or cell in self.failed
            for cell in cells_in(common, self.level.chunks)
        )

    def note_absent(self) -> None:
        """Note which chunks are absent, before the pixels are drawn."""
        self.absent = frozenset(self.missing) | frozenset(self.failed)

    def fill_missing(self, others: Iterable[StreamedView]) -> None:
        """Show coarser pixels, and what was seen before, where pixels are missing."""
        if self._based or self.is_whole:
            return
        others = sorted(others, key=lambda other: other.number)
        base, self._based = self._take_coarser(others)
        seen = [other for other in others if self._shows_more(other)]
        if base is None and not seen:
            return
        for cell in (*tuple(self.missing), *tuple(self.failed)):
            area = self.area_of(cell)
            with self._lock:
                # Else the true pixels came meanwhile.
                if cell in self.missing or cell in self.failed:
                    if base is not None:
                        inside = slice_inside(area, self.box)
                        self.pixels[inside] = base[inside]
                    for other in seen:
                        self._take_seen(other, area)

    def _shows_more(self, other: StreamedView) -> bool:
        """Tell whether another view of the same level shows a part of this one."""
        if other.number != self.number or (other.missing and not other._based):
            return False
        common = intersect_boxes(self.box, other.box)
        return all(start < stop for start, stop in common)

    def _take_coarser(
        self, others: Iterable[StreamedView]
    ) -> tuple[Pixels | None, bool]:
        """Enlarge the finest coarser view that covers this one.

        Returns
        -------
        ndarray or None
            Nearest pixels of it.
        bool
            Whether they are true ones, so that they need not be asked for again.
        """
        for other in others:  # the finest that covers it: a thumbnail covers all
            if other.number <= self.number:
                continue
            shapes = self.level.shape, other.level.shape
            indices = nearest_indices(self.box, shapes[0], other.box, shapes[1])
            if indices is not None:
                whole = other.is_whole
                return enlarge_pixels(other.pixels, indices), whole or other._based
        return None, False

    def _take_seen(self, other: StreamedView, area: Box) -> None:
        """Take what another view of the same level shows of a part of this one."""
        common = intersect_boxes(area, other.box)
        if all(start < stop for start, stop in common):
            seen = other.pixels[slice_inside(common, other.box)]
            self.pixels[slice_inside(common, self.box)] = seen

    def take_chunks(self, other: StreamedView) -> None:
        """Take the chunks whose true pixels another view of the same level has."""
        absent = set(other.missing)  # before its pixels, which a worker goes on to fill
        for cell, area in tuple(self.missing.items()):
            if cell not in absent and intersect_boxes(area, other.box) == area:
                if cell in other.failed:
                    self.failed[cell] = other.failed[cell]
                self.put_chunk(cell, other.pixels[slice_inside(area, other.box)])

    def put_chunk(self, cell: Cell, pixels: Pixels) -> None:
        """Put the true pixels of a chunk."""
        with self._lock:
            area = self.missing.get(cell)
            if area is not None:
                self.pixels[slice_inside(area, self.box)] = pixels
                del self.missing[cell]  # last: another view copies what is not missing

    def give_up(self, cell: Cell, *, until_login: bool = False) -> None:
        """Stop waiting for a chunk that cannot be read; what is seen there stays."""
        self.failed[cell] = UNTIL_LOGIN if until_login else time.monotonic()
        with self._lock:
            self.missing.pop(cell, None)

    def take_cached(self) -> None:
        """Take the chunks whose pixels are in memory, however they got there."""
        for cell, area in tuple(self.missing.items()):
            chunk = self.level.array.cached_chunk(cell)
            if chunk is not None:
                whole = tuple(
                    (at * size, (at + 1) * size)
                    for at, size in zip(cell, self.level.chunks, strict=True)
                )
                self.put_chunk(cell, chunk[slice_inside(area, whole)])

    def area_of(self, cell: Cell) -> Box:
        """Give the rectangle of a chunk within the view."""
        whole = box_of(cell, self.level.chunks, self.level.shape)
        return intersect_boxes(whole, self.box)

    @property
    def passing(self) -> list[Cell]:
        """Chunks that failed, and may come without a login."""
        return [cell for cell, at in self.failed.copy().items() if at < UNTIL_LOGIN]

    def unlock_refused(self) -> bool:
        """Let chunks be asked for again that need a login; tell whether there are."""
        refused = [cell for cell, at in self.failed.copy().items() if at == UNTIL_LOGIN]
        self.failed.update(dict.fromkeys(refused, -UNTIL_LOGIN))
        return bool(refused)

    def unlock_failed(self) -> None:
        """Let all chunks be asked for again that failed, however long ago."""
        self.failed.update(dict.fromkeys(tuple(self.failed), -UNTIL_LOGIN))

    def retry_failed(self) -> None:
        """Let chunks be missing again that failed a while ago."""
        before = time.monotonic() - RETRY_AFTER
        again = [cell for cell, at in self.failed.copy().items() if at < before]
        if again:
            areas = cells_from_centre(self.box, self.level)
            self._based = False
            for cell in again:
                del self.failed[cell]
                self.missing[cell] = areas[cell]


def nearest_indices(
    box: Box, shape: Sequence[int], coarse_box: Box, coarse_shape: Sequence[int]
) -> list[Pixels] | None:
    """Find the nearest pixels of a box in one of a coarser level, per axis.

    Parameters
    ----------
    box, shape
        A rectangle of a level, and the shape of the level.
    coarse_box, coarse_shape
        The same of a coarser level.

    Returns
    -------
    list or None
        Indices into the coarse box; None if it does not cover the other one.
    """
    indices = []
    for (start, stop), size, coarse, (low, high) in zip(
        box, shape, coarse_shape, coarse_box, strict=True
    ):
        index = np.arange(start, stop) * coarse // size
        if index[0] < low or index[-1] >= high:
            return None
        indices.append(index - low)
    return indices


def enlarge_pixels(pixels: Pixels, indices: Sequence[Pixels]) -> Pixels:
    """Take the pixels at indices along each axis."""
    # Axis by axis: several times as fast as `numpy.ix_`. The last axis first: then all
    # others copy whole rows.
    for axis in reversed(range(len(indices))):
        pixels = np.take(pixels, indices[axis], axis)
    return pixels


def cells_from_centre(box: Box, level: LevelSource) -> dict[Cell, Box]:
    """List the chunks that a rectangle meets, those nearest to its centre first."""
    centre = [(start + stop) / 2 for start, stop in box[-2:]]

    def distance(area: Box) -> float:
        return math.dist([(start + stop) / 2 for start, stop in area[-2:]], centre)

    areas = {
        cell: intersect_boxes(box_of(cell, level.chunks, level.shape), box)
        for cell in cells_in(box, level.chunks)
    }
    return dict(sorted(areas.items(), key=lambda item: distance(item[1])))
