"""Encodes chunks and shards as the document of their array states.

The counterpart of `napari_ngff.store.arrays.chunk_layout`, for the same arrays: it
decodes what is encoded here, and so do other libraries.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from google_crc32c import value as crc32c
from numcodecs import get_codec

from napari_ngff.store.arrays.chunk_layout import ABSENT, ArrayLayout, Shape, ShardIndex
from napari_ngff.store.arrays.parse_array import (
    configuration_of,
    name_of,
    numcodecs_settings,
)
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from napari_ngff.store.compression import Buffer

Array = npt.NDArray[Any]

SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


@dataclass(frozen=True, slots=True)
class ChunkEncoder:
    """Encodes the chunks of one array.

    Attributes
    ----------
    layout
        Of the array.
    steps
        Bytes-to-bytes encoders in order; the first gets an array.
    """

    layout: ArrayLayout
    steps: tuple[Callable[[Any], Buffer], ...]

    @classmethod
    def from_document(cls, raw: bytes, layout: ArrayLayout) -> ChunkEncoder:
        """Make the encoder of an array.

        Parameters
        ----------
        raw
            The metadata document that `layout` was parsed from.

        Raises
        ------
        ValueError
            Where numcodecs does not take the settings that the document gives.
        """
        document = parse_json(raw)
        if layout.zarr_format == 2:
            codecs = [*(document.get("filters") or ()), document.get("compressor")]
            encoders = [get_codec(codec).encode for codec in codecs if codec]
            return cls(layout, tuple(encoders))
        codecs = document["codecs"]
        if layout.index is not None:
            # The chunks in a shard have codecs of their own; those outside are only for
            # the shard.
            codecs = configuration_of(codecs[0])["codecs"]
        # "transpose" and "bytes" come first; `encode_always` does both itself.
        behind = [name_of(codec) for codec in codecs].index("bytes") + 1
        return cls(layout, tuple(_make_encoder(codec) for codec in codecs[behind:]))

    def encode_chunk(self, chunk: Array) -> bytes | None:
        """Encode one chunk.

        Parameters
        ----------
        chunk
            Shape `ArrayLayout.chunks`, of any data type that holds the same values.

        Returns
        -------
        bytes or None
            None for a chunk of fill values, which is not stored.
        """
        return None if self.is_blank(chunk) else self.encode_always(chunk)

    def pad_chunk(self, voxels: Array) -> Array:
        """Fill up a chunk that the border of the array cuts: all have one shape."""
        if voxels.shape == self.layout.chunks:
            return voxels
        chunk = np.full(self.layout.chunks, self.layout.fill_value, voxels.dtype)
        chunk[tuple(map(slice, voxels.shape))] = voxels
        return chunk

    def is_blank(self, chunk: Array) -> bool:
        """Return whether a chunk has nothing but the fill value."""
        fill = self.layout.fill_value
        # Of most chunks with other values, a few voxels have one already. NaN is not
        # equal to itself: such a chunk is stored, which is no error.
        few = chunk[(slice(None, None, 16),) * chunk.ndim]
        if not ((few == fill).all() and (chunk == fill).all()):
            return False
        # -0.0 equals 0.0, and is another value.
        signed = chunk.dtype.kind == "f"
        return not (signed and (np.signbit(chunk) != np.signbit(fill)).any())

    def encode_always(self, chunk: Array) -> bytes:
        """Encode a chunk, also one of fill values."""
        # One axis, in the order of the file: compressors of numcodecs take contiguous
        # bytes only.
        data: Any = np.asarray(chunk, self.layout.dtype)
        data = data.transpose(self.layout.order).ravel()
        for step in self.steps:
            data = step(data)
        return bytes(data) if self.steps else data.tobytes()


def _make_encoder(codec: Any) -> Callable[[Any], Buffer]:
    settings = numcodecs_settings(codec)
    if settings["id"] == "crc32c":
        return add_crc32c
    # numcodecs takes it from the array, as zarr-python gives it.
    settings.pop("typesize", None)
    if "shuffle" in settings:
        settings["shuffle"] = SHUFFLES.get(settings["shuffle"], settings["shuffle"])
    return get_codec(settings).encode  # type: ignore[no-any-return]


def add_crc32c(data: Any) -> bytes:
    """Append a CRC-32C to bytes (Zarr v3 codec ``crc32c``)."""
    raw: bytes = data.tobytes() if isinstance(data, np.ndarray) else bytes(data)
    return raw + int(crc32c(raw)).to_bytes(4, "little")


def encode_shard(index: ShardIndex, chunks: Mapping[Shape, bytes]) -> bytes | None:
    """Join the encoded chunks of a shard (Zarr v3 codec ``sharding_indexed``).

    Parameters
    ----------
    index
        How the index is stored.
    chunks
        Position in the shard -> stored bytes; chunks of fill value are left out.

    Returns
    -------
    bytes or None
        None without chunks: then nothing is stored.
    """
    if not chunks:
        return None
    entries = np.full((*index.grid, 2), ABSENT, np.uint64)
    offset = index.nbytes if index.at_start else 0
    parts: list[bytes] = []
    # Sorted, so that equal chunks make equal shards, whatever order threads have
    # finished in.
    for position in sorted(chunks):
        part = chunks[position]
        entries[position] = offset, len(part)
        offset += len(part)
        parts.append(part)
    numbers = entries.astype(index.dtype).tobytes()
    stored = add_crc32c(numbers) if index.checksum else numbers
    return b"".join([stored, *parts] if index.at_start else [*parts, stored])


class ChunkJoiner:
    """Gets the encoded chunks of an array in any order, and puts its stored objects.

    Parameters
    ----------
    layout
        Of the array.
    put
        Called with the position of a stored object and its bytes, by the thread that
        has added the last of its chunks.

    Attributes
    ----------
    shards
        Of shards that are not complete, by their position: number of their chunks, and
        those that are there, by their position inside.
    """

    def __init__(
        self, layout: ArrayLayout, put: Callable[[Shape, bytes], None]
    ) -> None:
        self.shards: dict[Shape, tuple[int, dict[Shape, bytes | None]]] = {}
        self._layout = layout
        self._put = put
        self._lock = threading.Lock()

    def add_chunk(self, cell: Shape, data: bytes | None) -> None:
        """Add a chunk; None for one that is not stored."""
        index, layout = self._layout.index, self._layout
        if index is None:
            if data is not None:
                self._put(cell, data)
            return
        pairs = list(zip(cell, index.grid, strict=True))
        unit = tuple(i // n for i, n in pairs)
        with self._lock:
            if unit not in self.shards:
                within = (
                    # At the border fewer chunks than the index has room for.
                    min(n, -(-size // c) - u * n)
                    for u, n, size, c in zip(
                        unit, index.grid, layout.shape, layout.chunks, strict=True
                    )
                )
                self.shards[unit] = math.prod(within), {}
            count, chunks = self.shards[unit]
            chunks[tuple(i % n for i, n in pairs)] = data
            if len(chunks) < count:
                return
            del self.shards[unit]
        stored = {inner: raw for inner, raw in chunks.items() if raw is not None}
        joined = encode_shard(index, stored)
        if joined is not None:
            self._put(unit, joined)
