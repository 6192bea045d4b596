"""The voxels of a chunk -> the bytes of a stored object, as the document asks.

The counterpart of `napari_ngff.store.arrays.chunk_layout`, for the same arrays: what is
encoded here decodes there, and other libraries read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from google_crc32c import value as crc32c
from numcodecs import get_codec

from napari_ngff.store.arrays.chunk_layout import ABSENT, Layout, ShardIndex
from napari_ngff.store.arrays.codecs import V3_CODECS, configuration_of, name_of
from napari_ngff.store.limits import parse_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.compression import Buffer

__all__ = ["Encoder", "encode_shard"]

Array = npt.NDArray[Any]

SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes the chunks of one array.

    Attributes
    ----------
    layout
        Of the array.
    steps
        Bytes-to-bytes encoders, the first first. That may be given an array.
    """

    layout: Layout
    steps: tuple[Callable[[Any], Buffer], ...]

    @classmethod
    def of(cls, raw: bytes, layout: Layout) -> Encoder:
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
            compressor = document.get("compressor")
            steps = () if compressor is None else (get_codec(compressor).encode,)
            return cls(layout, steps)
        codecs = document["codecs"]
        if layout.index is not None:
            codecs = configuration_of(codecs[0])["codecs"]
        return cls(layout, tuple(_step(codec) for codec in codecs[1:]))

    def encode(self, chunk: Array) -> bytes | None:
        """Encode one chunk.

        Parameters
        ----------
        chunk
            Shape `Layout.chunks`, of any data type that holds the same values.

        Returns
        -------
        bytes or None
            None where there is nothing but the fill value: that is not stored.
        """
        return None if self.is_blank(chunk) else self.stored(chunk)

    def is_blank(self, chunk: Array) -> bool:
        """Whether there is nothing but the fill value in a chunk."""
        fill = self.layout.fill_value
        # A few voxels tell nearly always that there is something. NaN is not equal to
        # itself; such a chunk is merely stored.
        few = chunk[(slice(None, None, 16),) * chunk.ndim]
        return bool((few == fill).all() and (chunk == fill).all())

    def stored(self, chunk: Array) -> bytes:
        """Encode a chunk, whatever is in it."""
        order = self.layout.order
        data: Any = np.asarray(chunk, self.layout.dtype, order=order).ravel(order=order)
        for step in self.steps:
            data = step(data)
        return bytes(data) if self.steps else data.tobytes()


def _step(codec: Any) -> Callable[[Any], Buffer]:
    name, configuration = name_of(codec), configuration_of(codec)
    if name == "crc32c":
        return add_crc32c
    settings: Mapping[str, Any] = {
        key: SHUFFLES.get(value, value) if key == "shuffle" else value
        for key, value in configuration.items()
        # numcodecs takes it from the array, as zarr-python gives it.
        if key != "typesize"
    }
    return get_codec({"id": V3_CODECS[name], **settings}).encode  # type: ignore[no-any-return]


def add_crc32c(data: Any) -> bytes:
    """Put a CRC-32C behind bytes (Zarr v3 codec ``crc32c``)."""
    raw: bytes = data.tobytes() if isinstance(data, np.ndarray) else bytes(data)
    return raw + int(crc32c(raw)).to_bytes(4, "little")


def encode_shard(index: ShardIndex, chunks: Mapping[Shape, bytes]) -> bytes | None:
    """Put the encoded chunks of a shard together (Zarr v3 ``sharding_indexed``).

    Parameters
    ----------
    index
        How the index is stored.
    chunks
        Position in the shard -> stored bytes; chunks of fill value are left out.

    Returns
    -------
    bytes or None
        None where there is no chunk: then nothing is stored.
    """
    if not chunks:
        return None
    entries = np.full((*index.grid, 2), ABSENT, np.uint64)
    at = index.nbytes if index.at_start else 0
    parts: list[bytes] = []
    for position in sorted(chunks):
        part = chunks[position]
        entries[position] = at, len(part)
        at += len(part)
        parts.append(part)
    numbers = entries.astype(index.dtype).tobytes()
    stored = add_crc32c(numbers) if index.checksum else numbers
    return b"".join([stored, *parts] if index.at_start else [*parts, stored])
