"""Bounded decompression: bytes out are never more than the caller expects.

A chunk's size follows from its array's metadata, so every function here takes the most
bytes that can belong there and refuses anything else *before* it allocates more: a
small file cannot claim the memory of the machine.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from google_crc32c import value as crc32c
from numcodecs import blosc, get_codec, lz4, zstd
from numcodecs.compat import ensure_contiguous_ndarray

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.limits import parse_json

Buffer = bytes | memoryview | npt.NDArray[np.uint8]
"""Contiguous bytes."""

Decoder = Callable[[Buffer, int], Buffer]
"""``decode(encoded, most)``: at most that many bytes, or `CorruptDataError`."""

# In the main thread, where napari slices, numcodecs would hand each chunk to threads of
# libblosc; a chunk is too small for that, and ours work on several. zarr does the same.
blosc.use_threads = False

BLOSC_HEADER = struct.Struct("<4xIII")  # uncompressed, block, compressed bytes
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MOST_COPIED = 2**33  # bytes behind the members of a stream; some seconds of work
XZ_MEMORY = 2**27  # a stream states the size of its dictionary; preset 9 needs half
GZIP, ZLIB, RAW_DEFLATE = 31, 15, -15  # wbits of zlib.decompressobj


def require_size(nbytes: int, size: int) -> None:
    """Raise `CorruptDataError` unless the number of bytes is `size`."""
    if nbytes != size:
        raise CorruptDataError(f"holds {nbytes} bytes where {size} belong")


def require_most(nbytes: int, most: int) -> None:
    """Raise `CorruptDataError` where the number of bytes is above `most`."""
    if nbytes > most:
        raise CorruptDataError(f"holds {nbytes} bytes where {most} belong")


def from_blosc(data: Buffer, most: int) -> Buffer:
    """Decode a blosc (version 1) frame."""
    if len(data) < 16:
        raise CorruptDataError(f"blosc frame cut off after {len(data)} bytes")
    uncompressed, _, compressed = BLOSC_HEADER.unpack(bytes(data[:16]))
    require_most(uncompressed, most)
    # libblosc trusts this number: more than there is would read past the end.
    if compressed > len(data):
        raise CorruptDataError(
            f"blosc frame cut off: {len(data)} of {compressed} bytes"
        )
    decoded: bytes = blosc.decompress(data)
    return decoded


def zstd_content_size(data: Buffer) -> int | None:
    """Read how many bytes a Zstandard frame declares, None where it does not.

    RFC 8878, section 3.1.1.1 (frame header).
    """
    if bytes(data[:4]) != ZSTD_MAGIC or len(data) < 6:
        raise CorruptDataError("not a Zstandard frame")
    descriptor = int(data[4])
    flag, single_segment = descriptor >> 6, bool(descriptor & 0x20)
    # Such a frame has no field for its size.
    if flag == 0 and not single_segment:
        return None
    start = 5 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3]
    width = 1 << flag
    field = bytes(data[start : start + width])
    if len(field) < width:
        raise CorruptDataError("Zstandard frame cut off in its header")
    # "When FCS_Field_Size is 2, the offset of 256 is added."
    return int.from_bytes(field, "little") + (256 if flag == 1 else 0)


def from_zstd(data: Buffer, most: int) -> Buffer:
    """Decode one Zstandard frame; without a declared size, it has to hold `most`."""
    declared = zstd_content_size(data)
    if declared is not None:
        require_most(declared, most)
    # Into a buffer of this size: numcodecs would allocate what the frame holds.
    out = np.empty(most if declared is None else declared, np.uint8)
    zstd.decompress(data, out)
    return out


def from_lz4(data: Buffer, most: int) -> Buffer:
    """Decode a numcodecs LZ4 block: its size in 4 bytes, then the block."""
    size = int.from_bytes(bytes(data[:4]), "little")
    require_most(size, most)
    out = np.empty(size, np.uint8)
    lz4.decompress(data, out)
    return out


def from_stream(data: Buffer, most: int, start: Callable[[], Any]) -> bytes:
    """Decode the one or more members of a stream, whose checksums are verified."""
    parts: list[bytes] = []
    total = copied = 0
    rest: Any = data
    while True:
        stream = start()
        # One byte more than belongs there: enough to notice, no more to hold.
        part = stream.decompress(rest, most - total + 1)
        parts.append(part)
        total += len(part)
        if total > most:
            raise CorruptDataError(f"holds more than the {most} bytes that belong")
        if not stream.eof:
            raise CorruptDataError(f"compressed stream cut off after {total} bytes")
        rest = stream.unused_data
        copied += len(rest)
        if copied > MOST_COPIED:
            raise CorruptDataError(f"consists of more than {len(parts)} streams")
        # gzip(1) and Python's gzip module allow zero padding after a member.
        if not rest.strip(b"\0"):
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def from_zlib(data: Buffer, most: int) -> Buffer:
    """Decode a zlib stream; its checksum is verified."""
    return from_stream(data, most, lambda: zlib.decompressobj(ZLIB))


def inflate_stream(data: Buffer, size: int) -> bytes:
    """Decode a raw deflate stream of `size` bytes, as zip archives hold it."""
    content = from_stream(data, size, lambda: zlib.decompressobj(RAW_DEFLATE))
    require_size(len(content), size)
    return content


def verify_crc32c(data: Buffer) -> Buffer:
    """Check the four bytes CRC-32C at the end (Zarr v3 codec ``crc32c``).

    Returns
    -------
    Buffer
        The bytes before the checksum, not copied.
    """
    if len(data) < 4:
        raise CorruptDataError("too short for its CRC-32C checksum")
    view = np.frombuffer(data, np.uint8)
    if crc32c(view[:-4]) != int.from_bytes(view[-4:].tobytes(), "little"):
        raise CorruptDataError("has a CRC-32C checksum that does not match")
    return view[:-4]


DECODERS: Mapping[str, Decoder] = {
    "blosc": from_blosc,
    "bz2": partial(from_stream, start=bz2.BZ2Decompressor),
    "gzip": partial(from_stream, start=partial(zlib.decompressobj, GZIP)),
    "lz4": from_lz4,
    # Only xz, which is the default of numcodecs' lzma.
    "lzma": partial(
        from_stream,
        start=partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=XZ_MEMORY),
    ),
    "zlib": from_zlib,
    "zstd": from_zstd,
}
"""By numcodecs id; the same names in Zarr v2 and, some prefixed, in v3."""

DECODING_ERRORS = (
    CorruptDataError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    zlib.error,
)
"""What the libraries raise on damaged bytes."""


CHECKSUMS = ("adler32", "crc32", "crc32c", "fletcher32", "jenkins_lookup3")
NUMBERS = ("delta", "fixedscaleoffset", "quantize")
"""Filters that store numbers of ``dtype`` as those of ``astype``."""

FILTERS = frozenset(
    {*CHECKSUMS, *NUMBERS, "astype", "base64", "bitround", "packbits", "shuffle"}
)
"""By numcodecs id."""


@lru_cache(maxsize=256)
def _make_filter(settings: str) -> Any:
    return get_codec(parse_json(settings))


def encoded_size(settings: str, size: int) -> int:
    """Return how many bytes a filter stores for a number of bytes.

    Parameters
    ----------
    settings
        As numcodecs takes them, in JSON, with an ``id`` of `FILTERS`.

    Raises
    ------
    ValueError
        For other codecs, settings that numcodecs does not take, and other types than
        numbers.
    """
    try:
        codec = _make_filter(settings)
    # Whatever numcodecs makes of settings that it does not expect.
    except Exception as error:
        raise ValueError(str(error)) from error
    name = codec.codec_id
    if name not in FILTERS:
        raise ValueError(f"{name} is not a filter")
    if name in CHECKSUMS:
        return size + 4
    if name == "packbits":
        return 1 + -(-size // 8)
    if name == "base64":
        return 4 * -(-size // 3)
    if name == "astype":
        return _count_bytes(size, codec.decode_dtype, codec.encode_dtype)
    if name in NUMBERS:
        return _count_bytes(size, codec.dtype, codec.astype)
    return size


def _count_bytes(size: int, decoded: np.dtype[Any], encoded: np.dtype[Any]) -> int:
    if not {decoded.kind, encoded.kind} <= set("biuf"):
        raise ValueError("it stores other than numbers")
    return size // decoded.itemsize * encoded.itemsize


def decode_filter(settings: str, data: Buffer, most: int) -> Buffer:
    """Decode what a filter stored.

    Parameters
    ----------
    settings
        See `encoded_size`.
    most
        Bytes that may come out.

    Raises
    ------
    CorruptDataError
        Where the bytes are damaged, or more than belong there.
    """
    require_most(len(data), encoded_size(settings, most))
    try:
        # A scale of zero, or a NaN as an integer, is no reason to warn.
        with np.errstate(all="ignore"):
            decoded = ensure_contiguous_ndarray(_make_filter(settings).decode(data))
    # Whatever numcodecs makes of damaged bytes.
    except Exception as error:
        raise CorruptDataError(str(error) or type(error).__name__) from error
    content: Buffer = decoded.view(np.uint8)
    return content
