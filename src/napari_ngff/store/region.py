"""One read of a box of voxels: which chunks, by how many threads, and what failed."""

from __future__ import annotations

import itertools
import math
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import ChunkError, CorruptDataError, ServerError
from napari_ngff.store.cache import ENTRY, ByteCache
from napari_ngff.store.layout import ABSENT, Shape
from napari_ngff.store.objects import DOCUMENTS, Index, Objects
from napari_ngff.store.workers import LOCAL_CONCURRENCY, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari_ngff.store.fallback import ZarrReader

__all__ = ["Box", "Region", "cache"]

Array = npt.NDArray[Any]

Box = tuple[tuple[int, int], ...]
"""``(start, stop)`` per axis, in voxels, inside the array."""

cache: ByteCache[Array] = ByteCache(256 * 2**20)
"""Decoded chunks of all arrays of the process; set ``cache.limit`` in bytes."""


Meeting = tuple[int, slice, slice]
"""Where a box and a cell of a grid meet on one axis: the cell's position, and what is
inside the cell, and inside the box."""

Item = TypeVar("Item")

refused: ByteCache[tuple[float, str, str]] = ByteCache(2**20)
"""When a server did not give chunks; address and reason."""

SOON = 5.0
"""Seconds in which the main thread does not ask for these again: napari reads what it
shows there, more than once, and the window would stand still each time."""

WORTHWHILE = 2**18
"""Bytes of decoded chunks below which one thread reads local files sooner than two."""


class Region:
    """A box of an array while it is being read.

    Parameters
    ----------
    objects
        Of the array.
    box
        What to read; not empty.
    strict
        Whether to stop at the first failure.
    keep
        Whether `cache` keeps the chunks.
    out
        Where to put the voxels; None for a new array.

    Attributes
    ----------
    out
        The voxels, shape of the box, native byte order.
    failures
        Of single objects, in the order in which they were found.
    """

    def __init__(
        self,
        objects: Objects,
        box: Box,
        strict: bool,
        keep: bool = True,
        out: Array | None = None,
    ) -> None:
        self.objects = objects
        self.layout = objects.layout
        self.box = box
        self.strict = strict
        if out is None:
            dtype = self.layout.dtype.newbyteorder("=")
            out = np.empty([stop - start for start, stop in box], dtype)
        self.out = out
        self.failures: list[ChunkError] = []
        self._token = objects.token
        self._missing = False
        self._indexes: dict[Shape, Index | None] = {}
        self._axes = meetings(box, self.layout.chunks)
        count = math.prod(map(len, self._axes))
        # What is larger than the cache would only push everything out of it.
        taken = count * (self.layout.chunk_nbytes + ENTRY)
        self._keep = keep and taken <= cache.limit // 2

    def read(self) -> None:
        """Fill `out` by decoding chunks."""
        if self.layout.shards is not None:
            self._open_shards(covering(self.box, self.layout.shards))
        self._each(self._axes, self._read_chunk)
        if self._missing:
            self._check_array()

    def read_by(self, reader: ZarrReader) -> None:
        """Fill `out` through zarr, chunk by chunk where all at once fails."""
        try:
            self.out[...] = reader.read(self.box)
        except CorruptDataError:
            for meets in self._until_failure(self._axes):
                cell, inside, target = parted(meets)
                part = tuple(
                    (c * n + at.start, c * n + at.stop)
                    for c, n, at in zip(cell, self.layout.chunks, inside, strict=True)
                )
                try:
                    self.out[target] = reader.read(part)
                except CorruptDataError as error:
                    self.out[target] = self.layout.fill_value
                    self._fail(reader.key(cell), error)
        # zarr does not tell whether it met a missing chunk.
        self._check_array()

    def _each(
        self, axes: Sequence[Sequence[Item]], step: Callable[[tuple[Item, ...]], None]
    ) -> None:
        count = math.prod(map(len, axes))
        concurrency = self.objects.source.concurrency if count > 1 else 1
        small = count * self.layout.chunk_nbytes < WORTHWHILE
        if small and concurrency <= LOCAL_CONCURRENCY:
            concurrency = 1
        share(self._until_failure(axes), step, count, concurrency)

    def _until_failure(
        self, axes: Sequence[Sequence[Item]]
    ) -> Iterator[tuple[Item, ...]]:
        for position in itertools.product(*axes):
            if self.strict and self.failures:
                return
            yield position

    def _open_shards(self, grid: Sequence[range]) -> None:
        # A local index is read sooner than a thread wakes up.
        if self.objects.source.concurrency > LOCAL_CONCURRENCY:
            self._each(grid, self._open_shard)
            return
        for shard in self._until_failure(grid):
            self._open_shard(shard)

    def _open_shard(self, shard: Shape) -> None:
        self._indexes[shard] = None
        try:
            index = self.objects.index(shard)
        except (CorruptDataError, OSError) as error:
            self._fail(self.objects.key(shard), error)
            return
        self._indexes[shard] = index
        if index is None:
            self._missing = True

    def _read_chunk(self, meets: tuple[Meeting, ...]) -> None:
        cell, inside, target = parted(meets)
        key = (self._token, cell)
        chunk = cache.get(key)
        if chunk is None:
            chunk = self._load(key, cell)
            if chunk is not None and self._keep:
                cache.put(key, chunk, chunk.nbytes)
        self.out[target] = self.layout.fill_value if chunk is None else chunk[inside]

    def _load(self, key: tuple[int, Shape], cell: Shape) -> Array | None:
        """Read and decode a chunk; None where it is missing or broken."""
        index = self.layout.index
        try:
            if index is None:
                stored = cell
                spare_main_thread(key)
                data = self.objects.whole(cell)
                if data is None:
                    self._missing = True
            else:
                stored = tuple(c // n for c, n in zip(cell, index.grid, strict=True))
                inside = tuple(c % n for c, n in zip(cell, index.grid, strict=True))
                data = self._load_part(stored, inside)
            return None if data is None else self.layout.decode(data)
        except (CorruptDataError, OSError) as error:
            if isinstance(error, ServerError):
                refused.put(key, (time.monotonic(), error.address, error.reason), 0)
            self._fail(self.objects.key(stored), error)
            return None

    def _load_part(self, shard: Shape, inside: Shape) -> bytes | None:
        entries = self._indexes[shard]
        if entries is None:
            return None
        offset, length = entries[inside].tolist()
        if offset == length == ABSENT:
            return None
        return self.objects.part(shard, offset, length)

    def _check_array(self) -> None:
        """Tell missing chunks from an array that was deleted while it was open."""
        if self.strict and self.failures:
            return
        document = DOCUMENTS[self.layout.zarr_format]
        try:
            if not self.objects.present():
                gone = FileNotFoundError("the array is gone; deleted or moved?")
                self._fail(document, gone)
        except (CorruptDataError, OSError) as error:
            self._fail(document, error)

    def _fail(self, key: str, cause: Exception) -> None:
        self.failures.append(self.objects.error(key, cause))


def spare_main_thread(key: tuple[int, Shape]) -> None:
    """Raise there again why a server did not give a chunk a moment ago."""
    found = refused.get(key)
    if found is None or threading.current_thread() is not threading.main_thread():
        return
    when, address, reason = found
    if time.monotonic() - when < SOON:
        raise ServerError(address, reason)


def covering(box: Box, lengths: Shape) -> list[range]:
    """Positions per axis, in a grid of cells of `lengths`, that a box touches."""
    return [
        range(start // n, -(-stop // n))
        for (start, stop), n in zip(box, lengths, strict=True)
    ]


def meetings(box: Box, lengths: Shape) -> list[list[Meeting]]:
    """Where a box and the cells of a grid meet, per axis."""
    axes: list[list[Meeting]] = []
    for (start, stop), n in zip(box, lengths, strict=True):
        axis: list[Meeting] = []
        for origin in range(start // n * n, stop, n):
            low, high = max(start, origin), min(stop, origin + n)
            inside = slice(low - origin, high - origin)
            axis.append((origin // n, inside, slice(low - start, high - start)))
        axes.append(axis)
    return axes


def parted(meets: tuple[Meeting, ...]) -> tuple[Any, Any, Any]:
    """Part what is known per axis: the cell, what is inside it, and inside the box."""
    cell, inside, target = zip(*meets, strict=True) if meets else ((), (), ())
    return cell, inside, target
