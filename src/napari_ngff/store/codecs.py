"""The metadata document of an array -> how its chunks are found and decoded.

Only what occurs in practice is decoded here (see `parse_array`); for the rest
`IndirectError` says why zarr-python has to do it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
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

__all__ = ["ChunkKeys", "IndirectError", "Layout", "ShardIndex", "parse_array"]

Shape = tuple[int, ...]
JSON = dict[str, Any]

ABSENT = 0xFFFF_FFFF_FFFF_FFFF
"""Offset and length of an empty chunk in a shard's index."""

V3_TYPES = frozenset(
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ]
)
V3_CODECS = {name: name for name in ("blosc", "zstd", "gzip")} | {
    "zstandard": "zstd",  # written by the examples of RFC-5
    **{f"numcodecs.{name}": name for name in DECODERS},
}
NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class IndirectError(Exception):
    """Readable perhaps, but not by us; the message says what is in the way."""


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
        parts = [self.prefix] if self.prefix else []
        parts += [str(i) for i in position]
        return between.join(parts) or "0"


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

    @property
    def chunk_nbytes(self) -> int:
        """Size in bytes of a decoded chunk."""
        return math.prod(self.chunks) * self.dtype.itemsize

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
        chunk = np.frombuffer(data, self.dtype).reshape(self.chunks, order=self.order)
        chunk.flags.writeable = False
        return chunk


@lru_cache(maxsize=4096)
def parse_array(raw: bytes, zarr_format: Literal[2, 3]) -> Layout:
    """Understand the metadata document of an array.

    Parsed documents are kept by their bytes: the images of a plate share theirs.

    Parameters
    ----------
    raw
        Of ``zarr.json`` (3) or ``.zarray`` (2).
    zarr_format
        Which of the two it is.

    Raises
    ------
    CorruptDataError
        Where it is no JSON, or not the document of an array.
    IndirectError
        Where it says something that only zarr-python may read: other codecs,
        filters, data types of other kinds than b, i, u, f, other grids.
    """
    try:
        document = json.loads(raw)
    except ValueError as error:
        raise CorruptDataError(f"is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise CorruptDataError("is not a JSON object")
    if document.get("zarr_format") != zarr_format:
        raise CorruptDataError(
            f"says zarr_format {document.get('zarr_format')!r}, not {zarr_format}"
        )
    if document.get("node_type", "array") != "array":
        raise CorruptDataError(f"describes a {document['node_type']}, not an array")
    try:
        return parse_v3(document) if zarr_format == 3 else parse_v2(document)
    except KeyError as error:
        raise CorruptDataError(f"has no {error.args[0]!r}") from error
    except (AttributeError, TypeError) as error:
        # A value of another JSON type than the specification gives it.
        raise CorruptDataError(f"is not as specified: {error}") from error


def codec_names(raw: bytes) -> tuple[str, ...]:
    """Names of all codecs and filters of a document, for messages."""
    document = json.loads(raw)
    if document.get("zarr_format") == 2:
        items = [*(document.get("filters") or ()), document.get("compressor")]
        return tuple(str(item.get("id")) for item in items if item)
    names: list[str] = []
    for item in document.get("codecs", ()):
        names.append(name_of(item))
        inner = configuration_of(item).get("codecs", ())
        names += [name_of(codec) for codec in inner]
    return tuple(names)


def name_of(extension: Any) -> str:
    """Name of a v3 extension point, written as an object or as a mere string."""
    return str(extension if isinstance(extension, str) else extension["name"])


def configuration_of(extension: Any) -> JSON:
    """Its configuration, {} where there is none."""
    found = {} if isinstance(extension, str) else extension.get("configuration")
    return dict(found or {})


def parse_shape(value: Any, least: int, ndim: int | None = None) -> Shape:
    """Read a list of lengths, each `least` or more."""
    shape = tuple(value)
    if any(type(n) is not int or n < least for n in shape):
        raise CorruptDataError(f"has impossible lengths {list(shape)}")
    if ndim is not None and len(shape) != ndim:
        raise CorruptDataError(f"has chunks {list(shape)} of other than {ndim} axes")
    return shape


def parse_v2(document: JSON) -> Layout:
    """Read a ``.zarray`` document (Zarr v2 specification, "Metadata")."""
    shape = parse_shape(document["shape"], 0)
    chunks = parse_shape(document["chunks"], 1, len(shape))
    if document.get("filters"):
        raise IndirectError("filters")
    dtype = document["dtype"]
    if not isinstance(dtype, str):
        raise IndirectError("a structured data type")
    try:
        stored = np.dtype(dtype)
    except TypeError as error:
        raise IndirectError(f"the data type {dtype!r}") from error
    check_dtype(stored)
    order = document.get("order", "C")
    separator = document.get("dimension_separator")
    if order not in ("C", "F") or separator not in (None, ".", "/"):
        raise CorruptDataError(f"says order {order!r}, separator {separator!r}")
    nbytes = math.prod(chunks) * stored.itemsize
    compressor = document.get("compressor")
    steps: tuple[tuple[str, int], ...] = ()
    if compressor is not None:
        if compressor["id"] not in DECODERS or not is_plain(compressor):
            raise IndirectError(f"the compressor {compressor['id']!r}")
        steps = ((compressor["id"], nbytes),)
    return Layout(
        zarr_format=2,
        shape=shape,
        dtype=stored,
        chunks=chunks,
        shards=None,
        fill_value=parse_fill(document.get("fill_value"), stored),
        dimension_names=None,
        codecs=tuple(name for name, _ in steps),
        keys=ChunkKeys("", separator),
        order=order,
        steps=steps,
    )


def parse_v3(document: JSON) -> Layout:
    """Read a ``zarr.json`` document of an array (Zarr v3 core specification)."""
    shape = parse_shape(document["shape"], 0)
    if document.get("storage_transformers"):
        raise IndirectError("storage transformers")
    grid = document["chunk_grid"]
    if name_of(grid) != "regular":
        raise IndirectError(f"the chunk grid {name_of(grid)!r}")
    outer = parse_shape(configuration_of(grid)["chunk_shape"], 1, len(shape))
    data_type = document["data_type"]
    if not isinstance(data_type, str) or data_type not in V3_TYPES:
        raise IndirectError(f"the data type {data_type!r}")
    codecs = list(document["codecs"])
    inner, index = outer, None
    names: tuple[str, ...] = ()
    if codecs and name_of(codecs[0]) == "sharding_indexed":
        if len(codecs) > 1:
            raise IndirectError("codecs after sharding_indexed")
        names = ("sharding_indexed",)
        sharding = configuration_of(codecs[0])
        inner = parse_shape(sharding["chunk_shape"], 1, len(shape))
        index = parse_index(sharding, outer, inner)
        codecs = list(sharding["codecs"])
    names += tuple(name_of(codec) for codec in codecs)
    stored = parse_bytes(codecs, np.dtype(data_type))
    nbytes = math.prod(inner) * stored.itemsize
    dimension_names = document.get("dimension_names")
    return Layout(
        zarr_format=3,
        shape=shape,
        dtype=stored,
        chunks=inner,
        shards=outer if index else None,
        fill_value=parse_fill(document["fill_value"], stored),
        dimension_names=None if dimension_names is None else tuple(dimension_names),
        codecs=names,
        keys=parse_keys(document["chunk_key_encoding"]),
        order="C",
        steps=parse_steps(codecs[1:], nbytes),
        index=index,
    )


def parse_keys(encoding: Any) -> ChunkKeys:
    """Read a ``chunk_key_encoding``."""
    name = name_of(encoding)
    if name not in ("default", "v2"):
        raise IndirectError(f"the chunk key encoding {name!r}")
    usual = "/" if name == "default" else "."
    separator = configuration_of(encoding).get("separator", usual)
    if separator not in (".", "/"):
        raise CorruptDataError(f"has the separator {separator!r}")
    return ChunkKeys("c" if name == "default" else "", separator)


def parse_bytes(codecs: list[Any], dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Stored data type, from the ``bytes`` codec that has to be the first."""
    if not codecs or name_of(codecs[0]) != "bytes":
        raise IndirectError(f"the codec {name_of(codecs[0])!r}" if codecs else "none")
    endian = configuration_of(codecs[0]).get("endian", "little")
    if endian not in ("little", "big"):
        raise CorruptDataError(f"has bytes of the order {endian!r}")
    return dtype.newbyteorder("<" if endian == "little" else ">")


def parse_steps(codecs: list[Any], nbytes: int) -> tuple[tuple[str, int], ...]:
    """Decoders of bytes-to-bytes codecs, the last encoder first.

    Several compressors in a row are left to zarr: what is between them has no size
    that could be checked.
    """
    steps: list[tuple[str, int]] = []
    size: int = nbytes
    compressed = False
    for codec in codecs:
        name = name_of(codec)
        if name == "crc32c":
            steps.append(("crc32c", size))
            size += 4
        elif name in V3_CODECS and not compressed and is_plain(configuration_of(codec)):
            steps.append((V3_CODECS[name], size))
            compressed = True
        else:
            raise IndirectError(f"the codec {name!r}")
    return tuple(reversed(steps))


def parse_index(sharding: JSON, outer: Shape, inner: Shape) -> ShardIndex:
    """Read how a shard's index is stored."""
    if any(o % i for o, i in zip(outer, inner, strict=True)):
        raise CorruptDataError(f"has chunks {inner} that do not divide shards {outer}")
    codecs = list(sharding["index_codecs"])
    names = [name_of(codec) for codec in codecs]
    if names not in (["bytes"], ["bytes", "crc32c"]):
        raise IndirectError(f"index codecs {names}")
    location = sharding.get("index_location", "end")
    if location not in ("start", "end"):
        raise CorruptDataError(f"has its shard index at {location!r}")
    return ShardIndex(
        grid=tuple(o // i for o, i in zip(outer, inner, strict=True)),
        at_start=location == "start",
        checksum=len(names) == 2,
        dtype=parse_bytes(codecs, np.dtype(np.uint64)).str,
    )


def is_plain(configuration: JSON) -> bool:
    """Whether a compressor's settings leave its stream self-describing."""
    # numcodecs' lzma: 1 is the .xz container; raw and .lzma streams need more.
    return configuration.get("format", 1) == 1


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Raise `IndirectError` for anything but bool, integers and floats."""
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or dtype.shape:
        raise IndirectError(f"the data type {dtype.str!r}")


def parse_fill(value: Any, dtype: np.dtype[Any]) -> np.generic:
    """Value of missing chunks; null (v2 only, in effect) means zero.

    Raises
    ------
    IndirectError
        For a value that the data type cannot hold; zarr may know better.
    """
    native = dtype.newbyteorder("=")
    try:
        if value is None:
            return native.type(0)
        if dtype.kind == "f":
            if isinstance(value, str) and value.startswith("0x"):
                bits = np.array(int(value, 16), f"u{dtype.itemsize}")
                return native.type(bits.view(native)[()])
            return native.type(NON_FINITE.get(value, value))
        if isinstance(value, bool) == (dtype.kind == "b") or value in (0, 1):
            number = int(value)
            if number == value and (dtype.kind != "b" or number in (0, 1)):
                return native.type(number)
    except (TypeError, ValueError, OverflowError) as error:
        raise IndirectError(f"the fill value {value!r}") from error
    raise IndirectError(f"the fill value {value!r}")
