"""How an array is stored: the keys, the grid and the codecs of its chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.compression import (
    DECODERS,
    DECODING_ERRORS,
    Buffer,
    require,
    verify_crc32c,
)

__all__ = ["ABSENT", "ChunkKeys", "Layout", "Shape", "ShardIndex"]

Shape = tuple[int, ...]

ABSENT = 0xFFFF_FFFF_FFFF_FFFF
"""Offset and length of an empty chunk in a shard's index."""


@dataclass(frozen=True, slots=True)
class ChunkKeys:
    """Position of a stored object in the grid -> its key below the array.

    Attributes
    ----------
    prefix
        "c" for the ``default`` encoding of Zarr v3, "" for the one of v2.
    separator
        "/" or "."; None where a v2 document does not say (see `encode`).
    """

    prefix: str
    separator: str | None

    def encode(self, position: Shape, separator: str | None = None) -> str:
        """Key of the object; `separator` stands in where the document has none."""
        between = self.separator or separator or "."
        parts = map(str, position)
        return between.join((self.prefix, *parts) if self.prefix else parts) or "0"


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """Where the chunks of a shard are (Zarr v3 codec ``sharding_indexed``).

    Attributes
    ----------
    grid
        Number of chunks in a shard per axis, axis order of the array.
    at_start
        Whether the index stands before the chunks.
    checksum
        Whether a CRC-32C follows it.
    dtype
        Of its numbers: unsigned, 8 bytes, either byte order.
    """

    grid: Shape
    at_start: bool
    checksum: bool
    dtype: str

    @property
    def nbytes(self) -> int:
        """Stored size in bytes."""
        return 16 * math.prod(self.grid) + 4 * self.checksum

    def decode(self, data: bytes) -> npt.NDArray[np.uint64]:
        """Offsets and lengths in bytes, shape ``(*grid, 2)``.

        Raises
        ------
        CorruptDataError
            Where it is cut off, or its checksum does not match.
        """
        require(len(data), self.nbytes)
        body = verify_crc32c(data) if self.checksum else data
        index = np.frombuffer(body, self.dtype).astype(np.uint64)
        return index.reshape(*self.grid, 2)


@dataclass(frozen=True, slots=True)
class Layout:
    """An array as its metadata document describes it.

    Attributes
    ----------
    dtype
        As stored, with the byte order of the file.
    chunks
        Shape of what is decoded at once: of the inner chunk where sharded.
    shards
        Shape of a stored object where it holds several chunks, else None.
    fill_value
        Of missing chunks, in native byte order.
    dimension_names
        One per axis (None for one without), or None where the document has none.
    codecs
        Names of the codecs in encoding order, for display.
    order
        Memory order of a chunk's voxels.
    steps
        Decoders from the stored bytes to the voxels, each with the size in bytes of
        its result.
    index
        Not None where sharded.
    flaws
        What the document has against the text of Zarr, a sentence each.
    chunk_nbytes
        Size in bytes of a decoded chunk.
    """

    zarr_format: Literal[2, 3]
    shape: Shape
    dtype: np.dtype[Any]
    chunks: Shape
    shards: Shape | None
    fill_value: np.generic
    dimension_names: tuple[str | None, ...] | None
    codecs: tuple[str, ...]
    keys: ChunkKeys
    order: Literal["C", "F"]
    steps: tuple[tuple[str, int], ...]
    index: ShardIndex | None = None
    flaws: tuple[str, ...] = ()
    chunk_nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        nbytes = math.prod(self.chunks) * self.dtype.itemsize
        object.__setattr__(self, "chunk_nbytes", nbytes)

    @property
    def most_stored(self) -> int:
        """More bytes than any encoder makes of one chunk."""
        return 2 * self.chunk_nbytes + 65536

    def decode(self, data: Buffer) -> npt.NDArray[Any]:
        """Decode one chunk.

        Parameters
        ----------
        data
            The stored bytes.

        Returns
        -------
        ndarray
            Shape `chunks`, dtype `dtype`, read-only.

        Raises
        ------
        CorruptDataError
            Where the bytes are damaged, or not as many as belong there.
        """
        try:
            for name, size in self.steps:
                if name == "crc32c":
                    data = verify_crc32c(data)
                else:
                    data = DECODERS[name](data, size)
            require(len(data), self.chunk_nbytes)
        except CorruptDataError:
            raise
        except DECODING_ERRORS as error:
            raise CorruptDataError(str(error) or type(error).__name__) from error
        chunk: npt.NDArray[Any]
        chunk = np.ndarray(self.chunks, self.dtype, data, order=self.order)
        chunk.setflags(write=False)
        return chunk
