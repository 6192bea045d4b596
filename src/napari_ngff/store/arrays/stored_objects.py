"""The stored objects of one array: their keys, and reading them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import ChunkError, CorruptDataError
from napari_ngff.store.arrays.codecs import IndirectError, parse_array
from napari_ngff.store.limits import check_index
from napari_ngff.store.lru_cache import ByteCache
from napari_ngff.store.sources.revision import Revision

if TYPE_CHECKING:
    from napari_ngff.store.arrays.chunk_layout import Layout, Shape
    from napari_ngff.store.sources.source import Source

__all__ = ["DOCUMENTS", "Index", "Objects", "ShardChunks", "join"]

DOCUMENTS = {3: "zarr.json", 2: ".zarray"}
"""Name of an array's metadata document by Zarr format, the likelier first."""

LARGE = 64 << 20
"""Bytes of an object that are read whatever the chunk in it should take."""

Index = npt.NDArray[np.uint64]
"""Offset and length in bytes of each chunk of a shard, shape ``(*grid, 2)``."""


@dataclass(frozen=True, slots=True, eq=False)
class ShardChunks:
    """Where the chunks of a shard are, in one revision of it.

    Attributes
    ----------
    revision
        Of the shard; None where its source does not know.
    index
        What it says there.
    """

    revision: Revision | None
    index: Index


indexes: ByteCache[ShardChunks] = ByteCache(32 * 2**20)
tokens = itertools.count()


class Objects:
    """What of an array is in a source.

    Attributes
    ----------
    token
        Marks what was read from these objects in caches; changes with `refresh`.
        Never used twice in a process, which the ``id`` of an object may be.
    lent
        Whether the layout was not read, but is that of an array that is alike: where
        an object is missing, the document tells.
    """

    def __init__(
        self, source: Source, path: str, layout: Layout, lent: bool = False
    ) -> None:
        self.lent = lent
        self.source = source
        self.path = path
        self.layout = layout
        self.token = next(tokens)
        self._separator: str | None = None

    def refresh(self) -> None:
        """Take nothing that was read before for what is there now."""
        self.token = next(tokens)

    def use_separator(self, separator: str) -> None:
        """Write keys so where the document of the array does not say."""
        self._separator = separator

    def key(self, position: Shape) -> str:
        """Key below the array of the object at `position` in the grid of objects."""
        return self.layout.keys.encode(position, self._separator)

    def error(self, key: str, cause: Exception) -> ChunkError:
        """Say that the object `key` below the array cannot be used, and why."""
        error = ChunkError(self.source.name, join(self.path, key), cause)
        error.__cause__ = cause
        return error

    def present(self) -> bool:
        """Whether the array is still there; one that was lent, whether it is so."""
        key = join(self.path, DOCUMENTS[self.layout.zarr_format])
        if not self.lent:
            return self.source.get(key, 0, 1) is not None
        raw = self.source.get(key)
        try:
            number = self.layout.zarr_format
            return raw is not None and parse_array(raw, number) == self.layout
        except IndirectError:
            return False

    def whole(self, position: Shape) -> bytes | None:
        """Read an object; None where there is none.

        Raises
        ------
        CorruptDataError
            Where it is larger than any encoder would make it.
        """
        keys = self.layout.keys
        separator = self._separator  # once: another thread may find it out meanwhile
        data = self._bounded(keys.encode(position, separator))
        if keys.separator or separator or len(position) < 2:
            return data
        # Zarr v2 means "." where nothing is said, and yet there are files of OME-Zarr
        # 0.2 and later with nested folders and without the word. The first chunk
        # that is found decides.
        if data is not None:
            self._separator = "."
            return data
        data = self._bounded(keys.encode(position, "/"))
        if data is not None:
            self._separator = "/"
        return data

    def _bounded(self, key: str) -> bytes | None:
        place = join(self.path, key)
        most = max(LARGE, self.layout.most_stored)
        revision = self.source.revision(place)
        if isinstance(revision, Revision) and revision.size > most:
            raise CorruptDataError(
                f"it has {revision.size} bytes, more than any encoder"
            )
        return self.source.get(place)

    def shard(self, position: Shape) -> ShardChunks | None:
        """Find the chunks of a shard as it is now; None where there is no such object.

        Raises
        ------
        CorruptDataError
            Where it is cut off, or its checksum does not match.
        """
        layout, token = self.layout.index, self.token
        if layout is None:
            return None
        key = join(self.path, self.key(position))
        # Before reading: what changes in between is then seen as a change.
        revision = self.source.revision(key)
        known = indexes.get((token, position))
        if known is not None and known.revision == revision:
            return known
        check_index(layout.nbytes)
        start = 0 if layout.at_start else -layout.nbytes
        data = self.source.get(key, start, layout.nbytes)
        if data is None:
            return None
        try:
            index = layout.decode(data)
        except CorruptDataError as error:
            raise CorruptDataError(f"the shard's index {error}") from error
        chunks = ShardChunks(revision, index)
        indexes.put((token, position), chunks, index.nbytes)
        return chunks

    def is_current(self, position: Shape, chunks: ShardChunks) -> bool:
        """Whether a shard is what it was when its chunks were found."""
        key = join(self.path, self.key(position))
        return self.source.revision(key) == chunks.revision

    def part(self, shard: Shape, offset: int, length: int) -> bytes:
        """Read one chunk out of a shard; which may be another shard by now.

        Raises
        ------
        CorruptDataError
            Where the index points to something impossible.
        """
        if length > self.layout.most_stored:
            raise CorruptDataError(f"the shard's index states {length} bytes")
        data = self.source.get(join(self.path, self.key(shard)), offset, length)
        if data is None or len(data) < length:
            raise CorruptDataError("the shard ends before a chunk of its index")
        return data


def join(parent: str, name: str) -> str:
    """Path of `name` below `parent`, either of which may be ""."""
    return f"{parent}/{name}" if parent and name else parent or name
