"""Describes how an array is stored: the keys, the grid and the codecs of its chunks."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.compression import (
    DECODERS,
    DECODING_ERRORS,
    Buffer,
    decode_filter,
    require_size,
    verify_crc32c,
)

Shape = tuple[int, ...]

CHUNK_NAME = re.compile(r"(c|\d+)(\.\d+)*")
"""Of a chunk, or of the folder that holds chunks, by any encoding of keys."""

ABSENT = 0xFFFF_FFFF_FFFF_FFFF
"""Offset and length of an empty chunk in a shard's index."""


def most_encoded(nbytes: int) -> int:
    """Return the upper limit of what codecs make of a number of bytes."""
    # Bytes that cannot be compressed grow by some headers, far less than this.
    return 2 * nbytes + 65536


@dataclass(frozen=True, slots=True)
class ChunkKeys:
    """Makes the key of a stored object from its position in the grid.

    Attributes
    ----------
    prefix
        "c" for the ``default`` encoding of Zarr v3, "" for the one of v2.
    separator
        "/" or "."; None where a v2 document states none (see `make_key`).
    """

    prefix: str
    separator: str | None

    def make_key(self, position: Shape, separator: str | None = None) -> str:
        """Make the key of an object; `separator` is used if the document has none."""
        between = self.separator or separator or "."
        parts = map(str, position)
        # "0": the one chunk of an array without axes, in Zarr v2.
        return between.join((self.prefix, *parts) if self.prefix else parts) or "0"

    def is_misnamed(self, name: str, ndim: int) -> bool:
        """Return whether a name in an array's folder is a chunk's by other keys."""
        if self.separator is None or not CHUNK_NAME.fullmatch(name):
            return False
        first, *others = name.split(".")
        parts = ndim + bool(self.prefix) if self.separator == "." else 1
        return (first == "c") != bool(self.prefix) or len(others) != max(parts, 1) - 1


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """How the index of a shard is stored (Zarr v3 codec ``sharding_indexed``).

    Attributes
    ----------
    grid
        Number of chunks in a shard per axis, axis order of the array.
    at_start
        Whether the index is before the chunks, else behind them.
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
        # Two numbers of 8 bytes for each chunk; a CRC-32C has 4.
        return 16 * math.prod(self.grid) + 4 * self.checksum

    def decode_index(self, data: bytes) -> npt.NDArray[np.uint64]:
        """Decode an index: offsets and lengths in bytes, shape ``(*grid, 2)``.

        Raises
        ------
        CorruptDataError
            Where it is cut off, or its checksum does not match.
        """
        # First the number of bytes: `reshape` would otherwise fail with an error that
        # says nothing about the file.
        require_size(len(data), self.nbytes)
        body = verify_crc32c(data) if self.checksum else data
        index = np.frombuffer(body, self.dtype).astype(np.uint64)
        return index.reshape(*self.grid, 2)


@dataclass(frozen=True, slots=True)
class ArrayLayout:
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
        Axes as a chunk's voxels are in memory, the one with the longest steps first.
    steps
        Decoders from the stored bytes to the voxels: a name of `DECODERS`, "crc32c" or
        the settings of a filter as JSON, each with the most bytes of its result.
    index
        Not None where sharded.
    flaws
        Deviations of the document from the specification of Zarr, a sentence each.
    chunk_nbytes
        Size in bytes of a decoded chunk.
    strides
        Bytes between neighbours in a decoded chunk, per axis.
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
    order: Shape
    steps: tuple[tuple[str, int], ...]
    index: ShardIndex | None = None
    flaws: tuple[str, ...] = ()
    chunk_nbytes: int = field(init=False)
    strides: Shape = field(init=False, repr=False)

    def __post_init__(self) -> None:
        nbytes = self.dtype.itemsize
        strides = [0] * len(self.chunks)
        for axis in reversed(self.order):
            strides[axis] = nbytes
            nbytes *= self.chunks[axis]
        # The way of a frozen dataclass; computed once, since it is used for each chunk.
        object.__setattr__(self, "strides", tuple(strides))
        object.__setattr__(self, "chunk_nbytes", nbytes)

    @property
    def most_stored(self) -> int:
        """Upper limit of the bytes of an encoded chunk."""
        return most_encoded(self.chunk_nbytes)

    def is_stored_like(self, other: ArrayLayout) -> bool:
        """Return whether chunks of the one can be read and written as the other."""
        names = (
            "shape",
            "dtype",
            "chunks",
            "shards",
            "keys",
            "order",
            "steps",
            "index",
        )
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def decode_chunk(self, data: Buffer) -> npt.NDArray[Any]:
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
                    continue
                # Each decoder gets how many bytes can belong there, so a hostile chunk
                # cannot fill the memory.
                decode = DECODERS.get(name)
                if decode is None:
                    data = decode_filter(name, data, size)
                else:
                    data = decode(data, size)
            require_size(len(data), self.chunk_nbytes)
        except CorruptDataError:
            raise
        except DECODING_ERRORS as error:
            raise CorruptDataError(str(error) or type(error).__name__) from error
        chunk: npt.NDArray[Any]
        # A view of the decoded bytes, not a copy.
        chunk = np.ndarray(self.chunks, self.dtype, data, strides=self.strides)
        # The cache gives one chunk to many readers.
        chunk.setflags(write=False)
        return chunk
