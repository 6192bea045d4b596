"""Parses the metadata document of an array into an `ArrayLayout`.

Codecs and types in common use are decoded by this package (see `parse_array`); for
others `IndirectError` names the reason why zarr-python has to decode them.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.arrays.chunk_layout import (
    ArrayLayout,
    ChunkKeys,
    Shape,
    ShardIndex,
    most_encoded,
)
from napari_ngff.store.compression import CHECKSUMS, DECODERS, FILTERS, encoded_size
from napari_ngff.store.limits import LONGEST_AXIS, find_constants, parse_json

JSON = dict[str, Any]

Steps = tuple[tuple[str, int], ...]
"""See `ArrayLayout.steps`."""

V3_TYPES = {"bool"} | {
    f"{kind}{bits}"
    for kind, sizes in {
        "int": (8, 16, 32, 64),
        "uint": (8, 16, 32, 64),
        "float": (16, 32, 64),
    }.items()
    for bits in sizes
}
V3_CODECS = {
    "blosc": "blosc",
    "gzip": "gzip",
    "zstd": "zstd",
    "zstandard": "zstd",  # so written by examples of RFC-5
    "crc32c": "crc32c",
    **{f"numcodecs.{name}": name for name in (*DECODERS, *CHECKSUMS, "shuffle")},
}
"""Bytes-to-bytes codecs of Zarr v3 -> numcodecs id."""
RETIRED_PREFIXES = ("https://codec.zarrs.dev/numcodecs/", "https://zarr.dev/numcodecs/")
RETIRED_NAMES = {"endian": "bytes"}
"""Names that early writers of Zarr v3 gave to codecs -> those that are in use."""

RAW = {"type": "raw"}
"""How programs for N5 write that there is no compressor."""

ARRAY_KEYS = frozenset(
    """zarr_format node_type shape data_type chunk_grid chunk_key_encoding fill_value
    codecs attributes storage_transformers dimension_names""".split()  # noqa: SIM905
)
"""Keys of an array's document that Zarr v3 defines."""

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class IndirectError(Exception):
    """zarr-python may read the array, this package cannot; the message names why."""


# The bytes are the key: images of a plate have few different documents, and the number
# bounds the memory.
@lru_cache(maxsize=4096)
def parse_array(raw: bytes, zarr_format: Literal[2, 3]) -> ArrayLayout:
    """Parse the metadata document of an array.

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
        Where it is not JSON, or not the document of an array.
    IndirectError
        Where it states something that only zarr-python may read: other codecs,
        filters, data types of other kinds than b, i, u, f, other grids.
    """
    try:
        document = parse_json(raw)
    except ValueError as error:
        raise CorruptDataError(f"is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise CorruptDataError("is not a JSON object")
    if document.get("zarr_format") != zarr_format:
        raise CorruptDataError(
            f"states zarr_format {document.get('zarr_format')!r}, not {zarr_format}"
        )
    if document.get("node_type", "array") != "array":
        raise CorruptDataError(f"describes a {document['node_type']}, not an array")
    try:
        # Keys are taken without a look whether they are there: all that can be wrong
        # with a document ends in the two handlers below.
        layout = parse_v3(document) if zarr_format == 3 else parse_v2(document)
        found = find_constants(raw)
        native, stated = layout.fill_value.dtype, document.get("fill_value")
        if exact_fill(stated, native) is None:
            text = f"Its fill value {stated!r} is none of {native}; missing chunks are"
            found += (f"{text} {layout.fill_value}.",)
        return replace(layout, flaws=layout.flaws + found) if found else layout
    except KeyError as error:
        raise CorruptDataError(f"has no {error.args[0]!r}") from error
    except (AttributeError, TypeError) as error:
        # A value of another JSON type than the specification gives it.
        raise CorruptDataError(f"is not as specified: {error}") from error


def codec_names(raw: bytes) -> tuple[str, ...]:
    """List the codecs and filters of a readable document in encoding order."""
    document = parse_json(raw)
    try:
        if document["zarr_format"] == 2:
            items = [*(document.get("filters") or ()), document.get("compressor")]
            return tuple(str(item["id"]) for item in items if item)
        names: list[str] = []
        for item in document["codecs"]:
            inner = configuration_of(item).get("codecs", ())
            names += [name_of(item), *map(name_of, inner)]
    except (AttributeError, KeyError, TypeError):
        return ()
    return tuple(names)


def name_of(extension: Any) -> str:
    """Return the name of an extension of Zarr v3, written as an object or a string."""
    name = str(extension if isinstance(extension, str) else extension["name"])
    for prefix in RETIRED_PREFIXES:
        if name.startswith(prefix):
            return f"numcodecs.{name.removeprefix(prefix)}"
    return RETIRED_NAMES.get(name, name)


def configuration_of(extension: Any) -> JSON:
    """Return the configuration of an extension, {} where it has none."""
    stated = {} if isinstance(extension, str) else extension.get("configuration")
    return dict(stated or {})


def parse_shape(value: Any, least: int, ndim: int | None = None) -> Shape:
    """Read a list of lengths, each `least` or more."""
    shape = tuple(value)
    # `type`: True is an `int` for Python, and no length.
    if any(type(n) is not int or not least <= n <= LONGEST_AXIS for n in shape):
        raise CorruptDataError(f"has impossible lengths {list(shape)}")
    if ndim is not None and len(shape) != ndim:
        raise CorruptDataError(f"has chunks {list(shape)} of other than {ndim} axes")
    return shape


def parse_v2(document: JSON) -> ArrayLayout:
    """Read a ``.zarray`` document (Zarr v2 specification, "Metadata")."""
    shape = parse_shape(document["shape"], 0)
    chunks = parse_shape(document["chunks"], 1, len(shape))
    dtype = document["dtype"]
    if not isinstance(dtype, str):
        raise IndirectError("a structured data type")
    try:
        stored = np.dtype(dtype)
    except TypeError as error:
        raise IndirectError(f"the data type {dtype!r}") from error
    # float128 is as wide as the machine that wrote it wants.
    if stored.kind not in "biuf" or stored.itemsize > 8 or stored.shape:
        raise IndirectError(f"the data type {stored.str!r}")
    order = document.get("order", "C")
    separator = document.get("dimension_separator")
    if order not in ("C", "F") or separator not in (None, ".", "/"):
        raise CorruptDataError(f"states order {order!r}, separator {separator!r}")
    codecs = [*(document.get("filters") or ()), document.get("compressor")]
    codecs = [codec for codec in codecs if codec not in (None, RAW)]
    axes = tuple(range(len(shape)))
    return ArrayLayout(
        zarr_format=2,
        shape=shape,
        dtype=stored,
        chunks=chunks,
        shards=None,
        fill_value=parse_fill(document.get("fill_value"), stored),
        dimension_names=None,
        codecs=tuple(str(codec["id"]) for codec in codecs),
        keys=ChunkKeys("", separator),
        order=axes if order == "C" else axes[::-1],
        steps=parse_steps(codecs, math.prod(chunks) * stored.itemsize),
    )


def parse_v3(document: JSON) -> ArrayLayout:
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
        # A codec behind it would compress the whole shard: then none of its chunks
        # could be read alone.
        if len(codecs) > 1:
            raise IndirectError("codecs after sharding_indexed")
        names = ("sharding_indexed",)
        sharding = configuration_of(codecs[0])
        inner = parse_shape(sharding["chunk_shape"], 1, len(shape))
        index = parse_index(sharding, outer, inner)
        codecs = list(sharding["codecs"])
    names += tuple(name_of(codec) for codec in codecs)
    order, codecs = parse_order(codecs, len(shape))
    stored = parse_bytes(codecs, np.dtype(data_type))
    nbytes = math.prod(inner) * stored.itemsize
    # What is against the specification, but is read.
    flaws = [unknown_key(key) for key in unknown_keys(document, ARRAY_KEYS)]
    if stored.itemsize > 1 and "endian" not in configuration_of(codecs[0]):
        flaws.append(
            'The codec "bytes" MUST state "endian" for types of several bytes; it is'
            " read as little."
        )
    dimension_names = document.get("dimension_names")
    return ArrayLayout(
        zarr_format=3,
        shape=shape,
        dtype=stored,
        chunks=inner,
        shards=outer if index else None,
        fill_value=parse_fill(document["fill_value"], stored),
        dimension_names=None if dimension_names is None else tuple(dimension_names),
        codecs=names,
        keys=parse_keys(document["chunk_key_encoding"]),
        order=order,
        steps=parse_steps(list(map(numcodecs_settings, codecs[1:])), nbytes),
        index=index,
        flaws=tuple(flaws),
    )


def unknown_keys(document: JSON, known: frozenset[str]) -> list[str]:
    """List keys that Zarr v3 does not define, and that readers must understand."""
    return [
        key
        for key, value in document.items()
        if key not in known
        and not (isinstance(value, dict) and value.get("must_understand") is False)
    ]


def unknown_key(key: str) -> str:
    """Describe a key that Zarr v3 does not define."""
    return (
        f'The key "{key[:40]}" is unknown to Zarr v3. Without "must_understand": false,'
        ' readers "MUST fail to open Zarr groups or arrays" with it.'
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
    """Find the stored data type in the ``bytes`` codec, which has to be the first."""
    if not codecs or name_of(codecs[0]) != "bytes":
        raise IndirectError(f"codecs {[name_of(codec) for codec in codecs]}")
    endian = configuration_of(codecs[0]).get("endian", "little")
    if endian not in ("little", "big"):
        raise CorruptDataError(f"has bytes of the order {endian!r}")
    return dtype.newbyteorder("<" if endian == "little" else ">")


def parse_order(codecs: list[Any], ndim: int) -> tuple[Shape, list[Any]]:
    """Read the order of axes in ``transpose`` codecs; return it and the codecs behind.

    Raises
    ------
    CorruptDataError
        Where one is no order of all axes.
    """
    order = tuple(range(ndim))
    for number, codec in enumerate(codecs):
        if name_of(codec) != "transpose":
            return order, codecs[number:]
        given: Any = configuration_of(codec)["order"]
        # Words of early drafts of Zarr v3.
        words: JSON = {"C": range(ndim), "F": range(ndim)[::-1]}
        given = words.get(str(given), given)
        if sorted(given) != list(range(ndim)):
            raise CorruptDataError(f"has axes in the impossible order {given}")
        # Each works on what the one before has made.
        order = tuple(order[axis] for axis in given)
    return order, []


def numcodecs_settings(codec: Any) -> JSON:
    """Return a bytes-to-bytes codec of Zarr v3 as numcodecs states it."""
    name = name_of(codec)
    return configuration_of(codec) | {"id": V3_CODECS.get(name, name)}


def parse_steps(codecs: list[JSON], nbytes: int) -> Steps:
    """Order the decoders of codecs, the last encoder first.

    Parameters
    ----------
    codecs
        Settings of numcodecs in encoding order.
    nbytes
        Of a chunk.
    """
    steps: list[tuple[str, int]] = []
    size: int = nbytes
    for codec in codecs:
        name = codec["id"]
        if name == "crc32c" and codec.get("location", "end") == "end":
            # The checksum is computed over what the codecs before it made, and adds its
            # own 4 bytes behind that.
            steps.append(("crc32c", size))
            size += 4
        # numcodecs' lzma: 1 is the .xz container; raw and .lzma streams need more.
        elif name in DECODERS and codec.get("format", 1) == 1:
            steps.append((name, size))
            # Not twice the one before: no chain of compressors needs more.
            size = max(size, most_encoded(nbytes))
        elif name in FILTERS:
            settings = json.dumps(codec)
            steps.append((settings, size))
            try:
                size = encoded_size(settings, size)
            except ValueError as error:
                raise IndirectError(f"the codec {settings}") from error
        else:
            raise IndirectError(f"the codec {name!r}")
    # Codecs are listed in the order of encoding (Zarr v3, "codecs"); decoding goes the
    # other way.
    return tuple(reversed(steps))


def parse_index(sharding: JSON, outer: Shape, inner: Shape) -> ShardIndex:
    """Read how a shard's index is stored."""
    if any(o % i for o, i in zip(outer, inner, strict=True)):
        raise CorruptDataError(f"has chunks {inner} that do not divide shards {outer}")
    codecs = list(sharding["index_codecs"])
    names = [name_of(codec) for codec in codecs]
    # The index must have a fixed size to be found at the end, so no compressor.
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


def parse_fill(value: Any, dtype: np.dtype[Any]) -> np.generic:
    """Read the value of missing chunks.

    Of one that the data type cannot hold, an integer wraps, as in zarr-python 2, and
    anything else is 0: what is stored can be read all the same.
    """
    native = dtype.newbyteorder("=")
    exact = exact_fill(value, native)
    if exact is not None:
        return exact
    whole = isinstance(value, int) and native.kind in "iu"
    bits = np.array([value % 2 ** (8 * native.itemsize) if whole else 0], "u8")
    filled: np.generic = bits.astype(native)[0]
    return filled


def exact_fill(value: Any, native: np.dtype[Any]) -> np.generic | None:
    """Read the value of missing chunks; null, which v2 allows, means zero.

    Returns
    -------
    numpy.generic or None
        None for a value that the data type cannot hold.
    """
    number: Any = value
    try:
        if isinstance(value, str) and native.kind == "f":
            # Zarr v3: "0x" and the bits of a float, for a NaN other than the usual one.
            if value.startswith("0x"):
                bits = np.array([int(value, 16)], f"u{native.itemsize}")
                return bits.view(native)[0]  # type: ignore[no-any-return]
            # Python knows "nan" and "inf", which some write.
            number = NON_FINITE[value] if value in NON_FINITE else float(value)
        filled: np.generic = native.type(0 if value is None else number)
        # A float rounds 0.1; an integer must hold its value exactly.
        same = value is None or isinstance(value, str) or native.kind == "f"
        if np.ndim(filled) == 0 and (same or filled == value):
            return filled
    except (TypeError, ValueError, OverflowError):
        pass
    return None
