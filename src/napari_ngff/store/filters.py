"""Bounded decoding of filters: codecs that change numbers, or add a checksum.

numcodecs decodes them. They do not compress: how many bytes they store for a number of
bytes follows from their settings, so a longer input is refused before it is decoded.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numcodecs import get_codec
from numcodecs.compat import ensure_contiguous_ndarray

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.compression import Buffer, require_most
from napari_ngff.store.limits import parse_json

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
