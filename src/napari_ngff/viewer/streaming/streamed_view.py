"""A rectangle of one level while its pixels come in; of several sections, joined."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from napari_ngff.store.arrays.boxes import (
    Box,
    Cell,
    box_of,
    box_shape,
    cell_ranges,
    cells_in,
    intersect_boxes,
    slice_inside,
)
from napari_ngff.store.arrays.drawable_pixels import drawn_numbers
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.store.threads import CORES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari_ngff.errors import ChunkError
    from napari_ngff.store.pyramids.pyramid import LevelSource

RETRY_AFTER = 3.0
"""Seconds after which chunks that a server did not give are asked for again, when
they are looked at."""

UNTIL_LOGIN = math.inf
"""Time of chunks that a server refuses: they are asked for again after a login, since
some servers lock an account after many requests with a wrong one."""

Pixels = np.ndarray[Any, Any]

_joins = threading.BoundedSemaphore(CORES)
"""Of many helpers that wait for a server, those that join sections: others would keep
the main thread from Python."""


FUNCTIONS: dict[str, Callable[..., Pixels]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
}
"""Projection of napari -> function that makes it."""


@dataclass(frozen=True, slots=True)
class SectionJoin:
    """How several sections become one picture.

    Attributes
    ----------
    mode
        Projection of napari: a key of `FUNCTIONS`.
    axes
        Axes of the level along which they lie.
    is_converted
        Whether the stored pixels are first made numbers that napari can draw.
    """

    mode: str
    axes: tuple[int, ...]
    is_converted: bool = False

    def join(self, pixels: Pixels) -> Pixels:
        """Make one section of all; its axes stay, one element long."""
        numbers = drawn_numbers(pixels) if self.is_converted else pixels
        return FUNCTIONS[self.mode](numbers, axis=self.axes, keepdims=True)

    def shape_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the picture of sections."""
        return tuple(1 if i in self.axes else n for i, n in enumerate(shape))

    def coarser_indices(
        self, indices: Sequence[Pixels], box: Box, join: SectionJoin | None
    ) -> list[Pixels] | None:
        """Find the pixels of a coarser picture that stand for these sections.

        Parameters
        ----------
        indices
            Of the nearest pixels in a coarser box, per axis.
        box, join
            That box, and how its sections were joined.

        Returns
        -------
        list or None
            Indices into the joined pixels; None if they are of other sections.
        """
        found = list(indices)
        for axis in self.axes:
            start, stop = box[axis]
            taken = int(found[axis][-1] - found[axis][0]) + 1
            # napari rounds the thickness in each level: one more on each side is near.
            if stop - start > taken + 2 or (join is None and stop - start > 1):
                return None
            found[axis] = np.zeros(1, int)
        return found if join is None or join == self else None


class PixelStream(Protocol):
    """What the views are of; see `ImageStream`.

    Attributes
    ----------
    coarsest
        Number of the coarsest level.
    stepped_axes
        Axes that a slider moves along, where they are not displayed.
    """

    coarsest: int
    stepped_axes: frozenset[int]

    @property
    def drawn_views(self) -> tuple[StreamedView, ...]:
        """Views that are on screen."""


class StreamedView:
    """A rectangle of one level while its pixels come in.

    Parameters
    ----------
    level, number, box, join
        See below.
    pixels
        Its true pixels; None where they have to be read.

    Attributes
    ----------
    level, number
        The level, and its number.
    box
        Rectangle of the level.
    join
        How its sections are drawn as one; None where they are not. Then its chunks
        are columns of chunks, and `pixels` has one section.
    chunks
        Shape of such a chunk.
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
        "chunks",
        "failed",
        "join",
        "keeps",
        "level",
        "missing",
        "number",
        "pixels",
        "todo",
        "token",
    )

    def __init__(
        self,
        level: LevelSource,
        number: int,
        box: Box,
        join: SectionJoin | None = None,
        pixels: Pixels | None = None,
    ) -> None:
        self.level, self.number, self.box, self.join = level, number, box, join
        self.token = level.token
        axes = () if join is None else join.axes
        self.chunks = tuple(
            level.shape[axis] if axis in axes else length
            for axis, length in enumerate(level.chunks)
        )
        if pixels is None:
            # Zeros take no time until they are replaced.
            pixels = np.zeros(box_shape(box), level.dtype)
            if join is not None:
                some = join.join(pixels[(slice(1),) * pixels.ndim])
                pixels = np.zeros(join.shape_of(pixels.shape), some.dtype)
            self.missing = self._cells_from_centre()
        else:
            self.missing = {}
        self.pixels = pixels
        counts = map(len, cell_ranges(box, level.chunks)) if self.missing else (0,)
        taken = math.prod((*counts, *level.chunks, level.dtype.itemsize))
        self.keeps = taken <= cache.limit // 2
        self.todo: list[Cell] = []
        self.failed: dict[Cell, float] = {}
        self.absent: frozenset[Cell] = frozenset()
        self._based = False
        self._lock = threading.Lock()

    def _cells_from_centre(self) -> dict[Cell, Box]:
        """List its chunks and their rectangles, those nearest to its centre first."""
        areas = {cell: self.area_of(cell) for cell in cells_in(self.box, self.chunks)}

        def distance(item: tuple[Cell, Box]) -> float:
            return centre_distance(item[1], self.box)

        return dict(sorted(areas.items(), key=distance))

    def _inside(self, area: Box) -> tuple[slice, ...]:
        """Give the slices of `pixels` that show a rectangle of the level."""
        axes = () if self.join is None else self.join.axes
        inside = slice_inside(area, self.box)
        return tuple(
            slice(None) if axis in axes else part for axis, part in enumerate(inside)
        )

    @property
    def is_whole(self) -> bool:
        """Return whether all of it are true pixels."""
        return not self.missing and not self.failed

    def lacks_any(self, box: Box) -> bool:
        """Return whether true pixels of a box are not here."""
        common = intersect_boxes(box, self.box)
        return any(
            cell in self.missing or cell in self.failed
            for cell in cells_in(common, self.chunks)
        )

    def fill_missing(self, others: Iterable[StreamedView]) -> None:
        """Show coarser pixels, and what was seen before, where pixels are missing."""
        if self._based or self.is_whole:
            return
        others = sorted(others, key=lambda other: other.number)
        coarser, self._based = self._find_coarser(others)
        seen = [other for other in others if self._shows_more(other)]
        if coarser is None and not seen:
            return
        for cell in (*tuple(self.missing), *tuple(self.failed)):
            area = self.area_of(cell)
            with self._lock:
                # Else the true pixels came meanwhile.
                if cell in self.missing or cell in self.failed:
                    if coarser is not None:
                        self._take_coarser(*coarser, area)
                    for other in seen:
                        self._take_seen(other, area)

    def _shows_more(self, other: StreamedView) -> bool:
        """Return whether another view of the same level shows a part of this one."""
        if not self._shows_same(other) or (other.missing and not other._based):
            return False
        common = intersect_boxes(self.box, other.box)
        return all(start < stop for start, stop in common)

    def _shows_same(self, other: StreamedView) -> bool:
        """Return whether another view is of the same level and sections."""
        if other.number != self.number or other.join != self.join:
            return False
        axes = () if self.join is None else self.join.axes
        return all(self.box[axis] == other.box[axis] for axis in axes)

    def _find_coarser(
        self, others: Iterable[StreamedView]
    ) -> tuple[tuple[Pixels, list[Pixels]] | None, bool]:
        """Find the finest coarser view that covers this one.

        Returns
        -------
        tuple or None
            Its pixels, and the indices of the nearest ones per axis.
        bool
            Whether they are true ones, so that they need not be asked for again.
        """
        for other in others:  # the finest that covers it: a thumbnail covers all
            if other.number <= self.number:
                continue
            shapes = self.level.shape, other.level.shape
            indices = nearest_indices(self.box, shapes[0], other.box, shapes[1])
            if indices is not None and self.join is not None:
                indices = self.join.coarser_indices(indices, other.box, other.join)
            elif other.join is not None:
                continue
            if indices is not None:
                whole = other.is_whole
                return (other.pixels, indices), whole or other._based
        return None, False

    def _take_coarser(
        self, pixels: Pixels, indices: Sequence[Pixels], area: Box
    ) -> None:
        """Enlarge what a coarser view shows of a part of this one."""
        # Part by part: new memory for the whole takes longer than its pixels.
        inside = self._inside(area)
        near = [index[part] for index, part in zip(indices, inside, strict=True)]
        self.pixels[inside] = enlarge_pixels(pixels, near)

    def _take_seen(self, other: StreamedView, area: Box) -> None:
        """Take what another view of the same level shows of a part of this one."""
        common = intersect_boxes(area, other.box)
        if all(start < stop for start, stop in common):
            self.pixels[self._inside(common)] = other.pixels[other._inside(common)]

    def take_chunks(self, other: StreamedView) -> None:
        """Take the chunks whose true pixels another view of the same level has."""
        if not self._shows_same(other):
            return
        absent = set(other.missing)  # before its pixels, which a worker goes on to fill
        for cell, area in tuple(self.missing.items()):
            if cell not in absent and intersect_boxes(area, other.box) == area:
                if cell in other.failed:
                    self.failed[cell] = other.failed[cell]
                self.put_chunk(cell, other.pixels[other._inside(area)])

    def put_chunk(self, cell: Cell, pixels: Pixels) -> None:
        """Put the true pixels of a chunk."""
        with self._lock:
            area = self.missing.get(cell)
            if area is not None:
                self.pixels[self._inside(area)] = pixels
                del self.missing[cell]  # last: another view copies what is not missing

    def give_up(self, cell: Cell, *, until_login: bool = False) -> None:
        """Stop waiting for a chunk that cannot be read; what is seen there stays."""
        self.failed[cell] = UNTIL_LOGIN if until_login else time.monotonic()
        with self._lock:
            self.missing.pop(cell, None)

    def read_chunk(self, cell: Cell, report: Callable[[ChunkError], None]) -> Pixels:
        """Read a chunk as it is drawn, in a worker."""
        area = self.area_of(cell)
        pixels = self.level.read_stored(area, report, self.keeps)
        if self.join is None:
            return pixels
        with _joins:
            return self.join.join(pixels)

    def take_cached(self) -> None:
        """Take the chunks whose pixels are in memory, however they got there."""
        if self.join is not None:
            return  # a worker has them as soon, and joins them
        for cell, area in tuple(self.missing.items()):
            chunk = self.level.cached_chunk(cell)
            if chunk is not None:
                whole = tuple(
                    (at * size, (at + 1) * size)
                    for at, size in zip(cell, self.level.chunks, strict=True)
                )
                self.put_chunk(cell, chunk[slice_inside(area, whole)])

    def area_of(self, cell: Cell) -> Box:
        """Give the rectangle of a chunk within the view."""
        whole = box_of(cell, self.chunks, self.level.shape)
        return intersect_boxes(whole, self.box)

    @property
    def passing(self) -> list[Cell]:
        """Chunks that failed, and may come without a login."""
        return [cell for cell, at in self.failed.copy().items() if at < UNTIL_LOGIN]

    def unlock_failed(self, since: float = 0.0) -> bool:
        """Let chunks be asked for again that failed then or later; tell if any did."""
        again = [cell for cell, at in self.failed.copy().items() if at >= since]
        self.failed.update(dict.fromkeys(again, -UNTIL_LOGIN))
        return bool(again)

    def retry_failed(self) -> None:
        """Let chunks be missing again that failed a while ago."""
        before = time.monotonic() - RETRY_AFTER
        again = [cell for cell, at in self.failed.copy().items() if at < before]
        if again:
            self._based = False
            for cell in again:
                del self.failed[cell]
                self.missing[cell] = self.area_of(cell)


def centre_distance(box: Box, other: Box) -> float:
    """Return the distance of the centres of two boxes, in voxels of the last axes."""
    return math.dist(
        [(start + stop) / 2 for start, stop in box[-2:]],
        [(start + stop) / 2 for start, stop in other[-2:]],
    )


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
    single = [slice(i[0], i[0] + 1) if len(i) == 1 else slice(None) for i in indices]
    pixels = pixels[tuple(single)]
    for axis in reversed(range(len(indices))):
        if len(indices[axis]) > 1:
            pixels = np.take(pixels, indices[axis], axis)
    return pixels
