"""Reads the stored objects of one array: chunks and shards, by their keys."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import ChunkError, CorruptDataError
from napari_ngff.store.arrays.parse_array import IndirectError, parse_array
from napari_ngff.store.limits import ARRAY_DOCUMENT, check_index
from napari_ngff.store.lru_cache import ByteCache

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunk_layout import ArrayLayout, Shape
    from napari_ngff.store.sources.blob import Blob, Revision
    from napari_ngff.store.store import Store

LARGE = 64 << 20
"""Bytes up to which any object is read, whatever size its chunk should have."""


@dataclass(frozen=True, slots=True, eq=False)
class ShardChunks:
    """Where the chunks of a shard are, in one revision of it.

    Attributes
    ----------
    revision
        Of the shard; None where its source does not know.
    index
        Offset and length in bytes of each chunk, shape ``(*grid, 2)``.
    tag
        The ETag that the shard had on its server when `index` was read; "" where that
        is unknown.
    """

    revision: Revision | None
    index: npt.NDArray[np.uint64]
    tag: str = ""


indexes: ByteCache[ShardChunks] = ByteCache(32 * 2**20)
tokens = itertools.count()


class ArrayObjects:
    """Chunks and shards of an array in a source.

    Attributes
    ----------
    token
        Key in caches of what was read from these objects; a new one after
        `forget_chunks`. Never used twice in a process, unlike the ``id`` of an object.
    failed
        Boxes that could not be read when that was tried last, and why.
    reader
        Reads the box of a chunk, where only zarr can decode these objects.
    lent
        Whether the layout is that of another array; see `ChunkedArray`.
    counts
        Counters of the source.
    """

    def __init__(
        self,
        source: Store,
        path: str,
        layout: ArrayLayout,
        lent: bool = False,
        reader: Callable[[Box], npt.NDArray[Any]] | None = None,
    ) -> None:
        self.lent = lent
        self.reader = reader
        self.source = source
        self.path = path
        self.layout = layout
        self.token = next(tokens)
        self.failed: dict[Box, ChunkError] = {}
        self._separator: str | None = None

    def forget_chunks(self) -> None:
        """Let caches not use what was read before."""
        self.token = next(tokens)
        self.failed.clear()

    def find_separator(self) -> None:
        """Find the separator of keys of Zarr v2 where the document states none."""
        ndim = len(self.layout.shape)
        if self.layout.keys.separator is None and ndim > 1:
            names = self.source.list_names(self.path)
            first = ""
            if names is None:
                # A server without listing: the first chunk is the likeliest to be
                # there.
                key = join_key(self.path, "/".join("0" * ndim))
                first = "0" if self.source.get(key, 0, 1) is not None else ""
            folders = [name for name in (*(names or ()), first) if name.isdecimal()]
            self._separator = "/" if folders else "."

    def object_key(self, position: Shape) -> str:
        """Return the key below the array of the object at a position of the grid."""
        return self.layout.keys.make_key(position, self._separator)

    def chunk_error(self, key: str, cause: Exception) -> ChunkError:
        """Make the error about an object that cannot be used."""
        group = self.path.rpartition("/")[0]
        error = ChunkError(self.source.name, join_key(self.path, key), cause, group)
        error.__cause__ = cause
        return error

    def is_present(self) -> bool:
        """Return whether the array still exists, and has the layout if that is lent."""
        key = join_key(self.path, ARRAY_DOCUMENT[self.layout.zarr_format])
        # One byte: on a server that is as good as a question whether it exists, which
        # signed addresses do not allow.
        if not self.lent:
            return self.source.get(key, 0, 1) is not None
        raw = self.source.get(key)
        try:
            number = self.layout.zarr_format
            return raw is not None and parse_array(raw, number) == self.layout
        except IndirectError:
            return False

    def read_object(self, position: Shape) -> Blob | None:
        """Read an object; None where there is none.

        Raises
        ------
        CorruptDataError
            Where it is larger than any encoder would make it.
        """
        keys = self.layout.keys
        separator = self._separator  # once: another thread may find it out meanwhile
        # Without a separator `make_key` takes ".", the default of Zarr v2.
        blob = self._read_bounded(keys.make_key(position, separator))
        if keys.separator or separator or len(position) < 2:
            return blob
        # Zarr v2 means "." where nothing is said, and yet there are files of OME-Zarr
        # 0.2 and later with nested folders and without the word. The first chunk
        # that is found decides.
        if blob is not None:
            self._separator = "."
            return blob
        blob = self._read_bounded(keys.make_key(position, "/"))
        if blob is not None:
            self._separator = "/"
        return blob

    def _read_bounded(self, key: str) -> Blob | None:
        most = max(LARGE, self.layout.most_stored)
        return read_bounded(self.source, join_key(self.path, key), most)

    def find_chunks(self, position: Shape) -> ShardChunks | None:
        """Find the chunks of a shard as it is now; None where there is no such object.

        Raises
        ------
        CorruptDataError
            Where it is cut off, or its checksum does not match.
        """
        layout, token = self.layout.index, self.token
        if layout is None:
            return None
        key = join_key(self.path, self.object_key(position))
        # Before the read: a change in between then counts as a change.
        revision = self.source.find_revision(key)
        known = indexes.get((token, position))
        if known is not None and known.revision == revision:
            return known
        # Computed from the document, before anything is read: a hostile shape could ask
        # for terabytes.
        check_index(layout.nbytes)
        # Negative: bytes from the end of the object, whose size need not be known.
        start = 0 if layout.at_start else -layout.nbytes
        blob = self.source.read(key, start, layout.nbytes)
        if blob is None:
            return None
        try:
            index = layout.decode_index(blob.data)
        except CorruptDataError as error:
            raise CorruptDataError(f"the shard's index {error}") from error
        chunks = ShardChunks(revision, index, blob.tag)
        indexes.put((token, position), chunks, index.nbytes)
        return chunks

    def find_revision(self, position: Shape) -> Revision | None:
        """Return the revision of an object; see `Store.find_revision`."""
        key = join_key(self.path, self.object_key(position))
        return self.source.find_revision(key)

    def read_part(
        self, shard: Shape, chunks: ShardChunks, offset: int, length: int
    ) -> bytes | None:
        """Read one chunk of a shard; None where the shard was replaced meanwhile.

        Raises
        ------
        CorruptDataError
            Where the index points to something impossible.
        """
        # The length comes from the file: no more memory is taken than an encoder could
        # fill.
        key = join_key(self.path, self.object_key(shard))
        if length > self.layout.most_stored:
            if self._is_replaced(shard, key, chunks, None):
                return None
            raise CorruptDataError(f"the shard's index states {length} bytes")
        blob = self.source.read(key, offset, length)
        if self._is_replaced(shard, key, chunks, blob):
            return None
        data = None if blob is None else blob.data
        if data is None or len(data) < length:
            # Servers state no ETag for a part behind the end; for the index they do.
            indexes.drop((self.token, shard))
            found = self.find_chunks(shard)
            if found is None or found.tag != chunks.tag:
                return None
            raise CorruptDataError("the shard ends before a chunk of its index")
        return data

    def _is_replaced(
        self, shard: Shape, key: str, chunks: ShardChunks, blob: Blob | None
    ) -> bool:
        """Return whether a shard is another one than that whose index was read.

        Parameters
        ----------
        key
            Of the shard, in the source.
        blob
            What was read of it since; None for nothing.
        """
        if self.source.find_revision(key) != chunks.revision:
            return True
        tag = "" if blob is None else blob.tag
        if not tag or not chunks.tag or tag == chunks.tag:
            return False
        # A server is not asked for revisions: the index would be used again.
        indexes.drop((self.token, shard))
        return True


def read_bounded(source: Store, key: str, most: int) -> Blob | None:
    """Read an object; None where there is none.

    Raises
    ------
    CorruptDataError
        Where it has more than `most` bytes.
    """
    # Archives have a directory of sizes: what is too large is not even inflated.
    listed = source.find_revision(key) if source.traits.has_directory else None
    if listed is None or listed.size <= most:
        # One byte more shows that it is too large, without asking for its size.
        part = () if source.traits.is_remote else (0, most + 1)
        blob = source.read(key, *part)
        if blob is None or len(blob.data) <= most:
            return blob
    raise CorruptDataError("it has more bytes than belong there")


def join_key(parent: str, name: str) -> str:
    """Join a parent and a name, either of which may be ""."""
    return f"{parent}/{name}" if parent and name else parent or name
