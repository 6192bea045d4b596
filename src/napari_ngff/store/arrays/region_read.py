"""Reads a box of an array: chunk by chunk, by several threads."""

from __future__ import annotations

import itertools
import math
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import ChunkError, CorruptDataError, UnsupportedError
from napari_ngff.store.arrays.boxes import Box, box_of, box_shape, cell_ranges
from napari_ngff.store.arrays.chunk_layout import ABSENT, Shape
from napari_ngff.store.limits import ARRAY_DOCUMENT, check_chunk
from napari_ngff.store.lru_cache import ENTRY, ByteCache
from napari_ngff.store.threads import LOCAL_CONCURRENCY, share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

    from napari_ngff.store.arrays.stored_objects import ArrayObjects, ShardChunks
    from napari_ngff.store.sources.blob import Revision

cache: ByteCache[npt.NDArray[Any]] = ByteCache(256 * 2**20)
"""Decoded chunks of all arrays of the process; set ``cache.limit`` in bytes."""

ATTEMPTS = 5
"""Attempts to read a chunk of a shard that is replaced again and again."""

WORTHWHILE = 2**18
"""Bytes of decoded chunks below which one thread reads local files faster than two."""


class RegionRead:
    """One read of a box of an array.

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
    stops
        Asked before each chunk whether nobody needs the voxels any more.

    Attributes
    ----------
    out
        The voxels, shape of the box, native byte order.
    failures
        Of single objects, in the order in which they were found.
    """

    def __init__(
        self,
        objects: ArrayObjects,
        box: Box,
        strict: bool,
        keep: bool = True,
        out: npt.NDArray[Any] | None = None,
        stops: Callable[[], bool] | None = None,
    ) -> None:
        self._stops = stops
        self.objects = objects
        self.layout = objects.layout
        self.box = box
        self.strict = strict
        if out is None:
            dtype = self.layout.dtype.newbyteorder("=")
            # Not filled with zeros first: each voxel belongs to one chunk, and is
            # written by that, or gets the fill value.
            out = np.empty(box_shape(box), dtype)
        self.out = out
        self.failures: list[ChunkError] = []
        # Taken once: if chunks are forgotten while this read is under way, it must not
        # put old ones under the new token.
        self._token = objects.token
        self._missing = False
        self._shards: dict[Shape, ShardChunks | None] = {}
        self._axes = cell_spans(box, self.layout.chunks)
        count = math.prod(map(len, self._axes))
        # A read of more than half of the cache would push everything else out of it.
        taken = count * (self.layout.chunk_nbytes + ENTRY)
        self._keep = keep and taken <= cache.limit // 2

    def read_chunks(self) -> None:
        """Fill `out` by decoding chunks."""
        if self.layout.shards is not None:
            # All indexes before the first chunk: a chunk can be found only by the index
            # of its shard.
            self._open_shards(cell_ranges(self.box, self.layout.shards))
        self._share_cells(self._axes, self._read_chunk)
        if self._missing:
            # A missing chunk is usual and means fill values. Only one question per read
            # then distinguishes a sparse array from a deleted one.
            self._check_array()

    def _share_cells(
        self, axes: Sequence[Collection[int]], step: Callable[[Shape], None]
    ) -> None:
        count = math.prod(map(len, axes))
        # A single chunk is read in the calling thread: a helper would only add its
        # start.
        concurrency = self.objects.source.traits.at_once if count > 1 else 1
        small = count * self.layout.chunk_nbytes < WORTHWHILE
        if small and concurrency <= LOCAL_CONCURRENCY:
            concurrency = 1
        share_work(self._until_failure(axes), step, count, concurrency)

    def _until_failure(self, axes: Sequence[Collection[int]]) -> Iterator[Shape]:
        for cell in itertools.product(*axes):
            # Asked before each chunk, so helpers stop soon after the first failure of a
            # strict read.
            if self.strict and self.failures:
                return
            if self._stops is not None and self._stops():
                return
            yield cell

    def _open_shards(self, grid: Sequence[range]) -> None:
        # A local index is read faster than a thread wakes up.
        if self.objects.source.traits.is_remote:
            self._share_cells(grid, self._open_shard)
            return
        for shard in self._until_failure(grid):
            self._open_shard(shard)

    def _open_shard(self, shard: Shape) -> None:
        chunks = None
        try:
            chunks = self.objects.find_chunks(shard)
            self._missing |= chunks is None
            self._note_read(shard, self.layout.shards)
        except (CorruptDataError, OSError) as error:
            key = self.objects.object_key(shard)
            self._add_failure(key, error, shard, self.layout.shards)
        self._shards[shard] = chunks

    def _read_chunk(self, cell: Shape) -> None:
        index = self.layout.index
        shard = None if index is None else shard_of(cell, index.grid)
        key = self._cache_key(cell, shard)
        chunk = cache.get(key)
        if chunk is None:
            chunk = self._load_chunk(cell, shard, key)
        else:
            self._note_read(cell)
        spans = map(getitem, self._axes, cell)
        inside, target = zip(*spans, strict=True) if cell else ((), ())
        # Without a lock: the parts of `out` that chunks fill do not overlap.
        self.out[target] = self.layout.fill_value if chunk is None else chunk[inside]

    def _cache_key(self, cell: Shape, shard: Shape | None) -> Hashable:
        """Name a chunk, and the revision of the shard that holds it.

        An object of one chunk is read as a whole and needs no revision here; so the
        system is not asked for one at each read.
        """
        chunks = None if shard is None else self._shards[shard]
        return self._token, cell, chunks.revision if chunks else None

    # In threads: failures are collected, not raised, so that the other chunks are read.
    def _load_chunk(
        self, cell: Shape, shard: Shape | None, key: Hashable
    ) -> npt.NDArray[Any] | None:
        """Read, decode and keep a chunk; None where it is missing or broken."""
        reader, layout = self.objects.reader, self.layout
        chunk: npt.NDArray[Any] | None
        try:
            if reader is not None:
                chunk = reader(box_of(cell, layout.chunks, layout.shape))
                # zarr does not report missing chunks.
                self._missing = True
            else:
                chunk, key = self._decode_stored(cell, shard, key)
            if chunk is not None and self._keep:
                cache.put(key, chunk, chunk.nbytes)
            self._note_read(cell)
            return chunk
        except (CorruptDataError, UnsupportedError, OSError) as error:
            self._add_failure(self.objects.object_key(shard or cell), error, cell)
            return None

    def _decode_stored(
        self, cell: Shape, shard: Shape | None, key: Hashable
    ) -> tuple[npt.NDArray[Any] | None, Hashable]:
        """Decode the bytes of a chunk; return it, and what it is named now."""
        index = self.layout.index
        if index is None or shard is None:
            blob = self.objects.read_object(cell)
            data = None if blob is None else blob.data
            if data is None:
                self._missing = True
        else:
            inside = tuple(c % n for c, n in zip(cell, index.grid, strict=True))
            data, revision = self._load_part(shard, inside)
            key = self._token, cell, revision
        if data is None:
            return None, key
        # Only where there are bytes to decode: fill values need no memory for a whole
        # chunk.
        check_chunk(self.layout.chunk_nbytes)
        return self.layout.decode_chunk(data), key

    def _load_part(
        self, shard: Shape, inside: Shape
    ) -> tuple[bytes | None, Revision | None]:
        """Read a chunk of a shard, which may be replaced meanwhile.

        Returns
        -------
        bytes or None
            None where it is missing.
        Revision or None
            Revision of the shard that it was read from.
        """
        # The index and the chunk are two reads: if the shard was replaced in between,
        # the offset is one of the old shard, and its bytes may decode without an error.
        for _ in range(ATTEMPTS):
            chunks = self._shards[shard]
            if chunks is None:
                return None, None
            offset, length = chunks.index[inside].tolist()
            if offset == length == ABSENT:
                return None, chunks.revision
            data = self.objects.read_part(shard, chunks, offset, length)
            if data is not None:
                return data, chunks.revision
            # The shard was replaced: the same chunk is looked up in its new index.
            self._open_shard(shard)
        raise CorruptDataError("another program keeps writing it; read it again")

    def _check_array(self) -> None:
        """Add a failure where chunks are missing because the array was deleted."""
        if self.strict and self.failures:
            return
        document = ARRAY_DOCUMENT[self.layout.zarr_format]
        try:
            if not self.objects.is_present():
                gone = FileNotFoundError("the array is gone; deleted or moved?")
                self._add_failure(document, gone)
        except (CorruptDataError, OSError) as error:
            self._add_failure(document, error)

    def _add_failure(
        self,
        key: str,
        cause: Exception,
        cell: Shape | None = None,
        lengths: Shape | None = None,
    ) -> None:
        """Note a failure, and of which cell of a grid: of the chunks by default."""
        error = self.objects.chunk_error(key, cause)
        self.failures.append(error)
        if cell is not None:
            self.objects.failed[self._box_of(cell, lengths)] = error.without_frames()

    def _note_read(self, cell: Shape, lengths: Shape | None = None) -> None:
        """Note that a cell was read, where it had failed before."""
        if self.objects.failed:
            self.objects.failed.pop(self._box_of(cell, lengths), None)

    def _box_of(self, cell: Shape, lengths: Shape | None) -> Box:
        return box_of(cell, lengths or self.layout.chunks, self.layout.shape)


def cached_chunk(objects: ArrayObjects, cell: Shape) -> npt.NDArray[Any] | None:
    """Return a decoded chunk of a server, if it is in memory."""
    index = objects.layout.index
    # An archive on a server knows the revisions of shards, without asking it.
    revision = index and objects.find_revision(shard_of(cell, index.grid))
    return cache.get((objects.token, cell, revision or None))


def shard_of(cell: Shape, grid: Shape) -> Shape:
    """Return the position of the shard of a chunk; `grid` is its number of chunks."""
    return tuple(c // n for c, n in zip(cell, grid, strict=True))


def cell_spans(box: Box, lengths: Shape) -> list[dict[int, tuple[slice, slice]]]:
    """Return per axis the common parts of a box and each cell of a grid that it meets.

    Position of the cell -> the part as slices of the cell and of the box.
    """
    axes: list[dict[int, tuple[slice, slice]]] = []
    for (start, stop), n in zip(box, lengths, strict=True):
        axis: dict[int, tuple[slice, slice]] = {}
        for origin in range(start // n * n, stop, n):
            low, high = max(start, origin), min(stop, origin + n)
            inside = slice(low - origin, high - origin)
            axis[origin // n] = inside, slice(low - start, high - start)
        axes.append(axis)
    return axes
