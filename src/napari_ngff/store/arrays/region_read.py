"""One read of a box of voxels: which chunks, by how many threads, and what failed."""

from __future__ import annotations

import itertools
import math
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import (
    ChunkError,
    CorruptDataError,
    ServerError,
    UnsupportedError,
)
from napari_ngff.store.arrays.boxes import box_shape, cell_ranges
from napari_ngff.store.arrays.chunk_layout import ABSENT, Shape
from napari_ngff.store.arrays.stored_objects import DOCUMENTS, Objects, ShardChunks
from napari_ngff.store.limits import check_chunk
from napari_ngff.store.lru_cache import ENTRY, ByteCache
from napari_ngff.store.workers import LOCAL_CONCURRENCY, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.zarr_fallback import ZarrReader
    from napari_ngff.store.sources.revision import Revision

__all__ = ["RegionRead", "cache"]

Array = npt.NDArray[Any]

cache: ByteCache[Array] = ByteCache(256 * 2**20)
"""Decoded chunks of all arrays of the process; set ``cache.limit`` in bytes."""


Meeting = tuple[int, slice, slice]
"""Where a box and a cell of a grid meet on one axis: the cell's position, and what is
inside the cell, and inside the box."""

CacheKey = tuple[int, Shape, "Revision | None"]
"""Token of the array, position of a chunk, and the revision of the shard that holds
it."""

Item = TypeVar("Item")

refused: ByteCache[tuple[float, str, str]] = ByteCache(2**20)
"""When a server did not give chunks; address and reason."""

SOON = 5.0
"""Seconds in which the main thread does not ask for these again: napari reads what it
shows there, more than once, and the window would stand still each time."""

ATTEMPTS = 5
"""To read a chunk of a shard that is written anew meanwhile."""

WORTHWHILE = 2**18
"""Bytes of decoded chunks below which one thread reads local files sooner than two."""


class RegionRead:
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
            out = np.empty(box_shape(box), dtype)
        self.out = out
        self.failures: list[ChunkError] = []
        self._token = objects.token
        self._missing = False
        self._shards: dict[Shape, ShardChunks | None] = {}
        self._axes = meetings(box, self.layout.chunks)
        count = math.prod(map(len, self._axes))
        # What is larger than the cache would only push everything out of it.
        taken = count * (self.layout.chunk_nbytes + ENTRY)
        self._keep = keep and taken <= cache.limit // 2

    def read(self) -> None:
        """Fill `out` by decoding chunks."""
        if self.layout.shards is not None:
            self._open_shards(cell_ranges(self.box, self.layout.shards))
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
        chunks = None
        try:
            chunks = self.objects.shard(shard)
            self._missing |= chunks is None
        except (CorruptDataError, OSError) as error:
            self._fail(self.objects.key(shard), error)
        self._shards[shard] = chunks

    def _read_chunk(self, meets: tuple[Meeting, ...]) -> None:
        cell, inside, target = parted(meets)
        chunk = cache.get(self._cache_key(cell))
        if chunk is None:
            chunk = self._load(cell)
        self.out[target] = self.layout.fill_value if chunk is None else chunk[inside]

    def _cache_key(self, cell: Shape) -> CacheKey:
        """Name a chunk, and the revision of the shard that holds it.

        Objects that are one chunk are read whole: they need no revision here, and the
        system is not asked for it at each look.
        """
        index = self.layout.index
        chunks = index and self._shards[shard_of(cell, index.grid)]
        return self._token, cell, chunks.revision if chunks else None

    def _load(self, cell: Shape) -> Array | None:
        """Read, decode and keep a chunk; None where it is missing or broken."""
        index, key = self.layout.index, self._cache_key(cell)
        try:
            if index is None:
                stored = cell
                spare_main_thread(key)
                data = self.objects.whole(cell)
                if data is None:
                    self._missing = True
            else:
                stored = shard_of(cell, index.grid)
                inside = tuple(c % n for c, n in zip(cell, index.grid, strict=True))
                data, revision = self._load_part(stored, inside)
                key = self._token, cell, revision
            if data is not None:
                check_chunk(self.layout.chunk_nbytes)
            chunk = None if data is None else self.layout.decode(data)
            if chunk is not None and self._keep:
                cache.put(key, chunk, chunk.nbytes)
            return chunk
        except (CorruptDataError, UnsupportedError, OSError) as error:
            if isinstance(error, ServerError):
                refused.put(key, (time.monotonic(), error.address, error.reason), 0)
            self._fail(self.objects.key(stored), error)
            return None

    def _load_part(
        self, shard: Shape, inside: Shape
    ) -> tuple[bytes | None, Revision | None]:
        """Read a chunk of a shard, which may be written anew meanwhile.

        Returns
        -------
        bytes or None
            None where it is missing.
        Revision or None
            Of the shard that it was read from.
        """
        for _ in range(ATTEMPTS):
            chunks = self._shards[shard]
            if chunks is None:
                return None, None
            offset, length = chunks.index[inside].tolist()
            if offset == length == ABSENT:
                return None, chunks.revision
            try:
                data = self.objects.part(shard, offset, length)
            except CorruptDataError:
                if self.objects.is_current(shard, chunks):
                    raise
            else:
                if self.objects.is_current(shard, chunks):
                    return data, chunks.revision
            self._open_shard(shard)
        raise CorruptDataError("another program keeps writing it; read it again")

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


def shard_of(cell: Shape, grid: Shape) -> Shape:
    """Position of the shard that holds a chunk; `grid` is its number of chunks."""
    return tuple(c // n for c, n in zip(cell, grid, strict=True))


def spare_main_thread(key: CacheKey) -> None:
    """Raise there again why a server did not give a chunk a moment ago."""
    refusal = refused.get(key)
    if refusal is None or threading.current_thread() is not threading.main_thread():
        return
    when, address, reason = refusal
    if time.monotonic() - when < SOON:
        raise ServerError(address, reason)


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
