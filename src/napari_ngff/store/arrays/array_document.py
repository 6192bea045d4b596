"""Reads documents of stored arrays, and writes those of new arrays and groups."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from napari_ngff.metadata.version import V0_4, V0_5, Version
from napari_ngff.store.arrays.encoding import SHUFFLES
from napari_ngff.store.arrays.parse_array import (
    IndirectError,
    configuration_of,
    name_of,
    parse_array,
)
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.limits import ARRAY_DOCUMENT, parse_json

if TYPE_CHECKING:
    import numpy as np

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.arrays.chunk_layout import ArrayLayout, Shape
    from napari_ngff.store.store import Store, Transaction

ZSTD = 1
"""Level of zstd. On labels it is ten times faster than blosc at level 5, and smaller.
On pixels of several bytes, the shuffle of blosc saves another quarter."""

LARGEST_SHARD, MOST_JOINED = 32 * 2**20, 4096
"""Limits of a shard: bytes of its decoded chunks, since a save holds the encoded ones
twice, and number of its chunks, each of which takes space in the index."""


COMPRESSORS = ("zstd", "gzip", "blosc")
"""Compressors that Zarr v2 and v3 share."""

AUTO_SHUFFLE = -1
"""In Zarr v2: chosen by the size of a voxel."""


@dataclass(frozen=True, slots=True)
class NewArray:
    """An array that is to be created; axes in its own order.

    Attributes
    ----------
    shape, chunks
        In voxels.
    dtype
        Of integers or floats, in the byte order in which it is stored.
    names
        Of the dimensions, which Zarr v3 keeps.
    shards
        Shape of a stored object that holds several chunks; None for none.
    shuffle
        Whether to shuffle the bytes of voxels before they are compressed: good for
        pixels, bad for labels.
    codec
        A compressor of Zarr v3 with its configuration, {} for none; None for the usual
        one.
    fill_value
        Of voxels that are not stored.
    """

    shape: Shape
    chunks: Shape
    dtype: np.dtype[Any]
    names: tuple[str, ...]
    shards: Shape | None = None
    shuffle: bool = False
    codec: JSON | None = None
    fill_value: Any = 0

    def make_document(self, version: str) -> tuple[str, bytes]:
        """Return the name and the text of the metadata document.

        Raises
        ------
        ValueError
            Where shards are asked for up to 0.4, which is Zarr v2.
        """
        codec = self.codec
        if codec is None:
            codec = usual_codec(self.dtype, shuffle=self.shuffle)
        fill = self.dtype.type(self.fill_value).item()
        if isinstance(fill, float) and not math.isfinite(fill):
            fill = "NaN" if math.isnan(fill) else f"{'-' * (fill < 0)}Infinity"
        document: JSON = {"zarr_format": Version(version).zarr_format}
        # Up to OME-Zarr 0.4 arrays are of Zarr v2.
        if document["zarr_format"] == 2:
            if self.shards is not None:
                msg = f"OME-Zarr {version} has no shards: write 0.5 or newer."
                raise ValueError(msg)
            # 0.2: "chunks are nested" (its changelog); 0.1 had Zarr's usual ".".
            nested = Version(version).has_nested_chunks
            document |= {
                "shape": self.shape,
                "dtype": self.dtype.str,
                "fill_value": fill,
                "order": "C",
                "dimension_separator": "/" if nested else ".",
            }
        else:
            document |= {
                "node_type": "array",
                "shape": self.shape,
                "data_type": self.dtype.name,
                "chunk_key_encoding": {
                    "name": "default",
                    "configuration": {"separator": "/"},
                },
                "fill_value": fill,
                "attributes": {},
                "storage_transformers": [],
            }
            if len(self.names) == len(self.shape):
                document["dimension_names"] = self.names
        state_chunks(document, self.chunks, self.shards, self.dtype, codec)
        return ARRAY_DOCUMENT[document["zarr_format"]], dump_document(document)

    def make_documents(
        self, zarr_format: int, documents: dict[str, bytes], document: JSON
    ) -> dict[str, bytes]:
        """Make the documents of an array with the attributes of another one.

        Parameters
        ----------
        documents, document
            As of `read_documents`, and that of the array parsed.
        """
        name, text = self.make_document(V0_4 if zarr_format == 2 else V0_5)
        extra = document.get("attributes")
        extra = extra or parse_json(documents.get(".zattrs") or b"{}")
        if zarr_format == 3:
            text = dump_document(parse_json(text) | {"attributes": extra})
        elif extra:
            return {name: text, ".zattrs": dump_document(extra)}
        return {name: text}


def state_chunks(
    document: JSON,
    chunks: Shape,
    shards: Shape | None,
    dtype: np.dtype[Any],
    codec: JSON | None,
) -> None:
    """State in the document of an array how its voxels are cut and compressed.

    Parameters
    ----------
    document
        Of Zarr v2 or v3; changed in place.
    chunks, shards, dtype
        As of `NewArray`.
    codec
        A compressor as of Zarr v3; None for the codecs that the document has.
    """
    if document["zarr_format"] == 2:
        document["chunks"] = chunks
        if codec is not None:
            document |= {"compressor": v2_compressor(codec), "filters": None}
        return
    codecs = inner_codecs(document) if codec is None else chunk_codecs(dtype, codec)
    stored = list(shards or chunks)
    document["chunk_grid"] = {
        "name": "regular",
        "configuration": {"chunk_shape": stored},
    }
    document["codecs"] = [shard_codec(chunks, codecs)] if shards else codecs


def read_documents(source: Store, path: str, zarr_format: int) -> dict[str, bytes]:
    """Read the documents of an array, by name."""
    names = ("zarr.json",) if zarr_format == 3 else (".zarray", ".zattrs")
    found = ((name, source.get(join_key(path, name))) for name in names)
    return {name: data for name, data in found if data is not None}


def is_regular(document: JSON) -> bool:
    """Return whether all chunks of an array have one shape."""
    return "chunk_grid" not in document or name_of(document["chunk_grid"]) == "regular"


def is_indirect(raw: bytes, zarr_format: Literal[2, 3]) -> bool:
    """Return whether only zarr-python could encode chunks as this document states."""
    try:
        parse_array(raw, zarr_format)
    except IndirectError:
        return True
    return False


def inner_codecs(document: JSON) -> list[JSON]:
    """Return the codecs of chunks of Zarr v3, also where these are in shards."""
    codecs = list(document["codecs"])
    if name_of(codecs[0]) == "sharding_indexed":
        codecs = list(configuration_of(codecs[0])["codecs"])
    return codecs


def usual_codec(dtype: np.dtype[Any], *, shuffle: bool) -> JSON:
    """Return the compressor of new arrays, as of Zarr v3."""
    if not shuffle or dtype.itemsize == 1:
        # As numcodecs' zstd does by default, which encodes the same chunks in Zarr v2.
        return {"name": "zstd", "configuration": {"level": ZSTD, "checksum": False}}
    settings = {
        "cname": "zstd",
        "clevel": ZSTD,
        "shuffle": "shuffle",
        "blocksize": 0,  # chosen by blosc; the codec requires the key
    }
    return {"name": "blosc", "configuration": settings}


def v2_compressor(codec: JSON) -> JSON | None:
    """Return a compressor of Zarr v3 as Zarr v2 states it; None for {}."""
    if not codec:
        return None
    settings = {k: v for k, v in codec["configuration"].items() if k != "typesize"}
    if codec["name"] == "blosc":
        settings["shuffle"] = SHUFFLES.get(settings["shuffle"], settings["shuffle"])
    elif not settings.get("checksum", True):
        del settings["checksum"]
    return {"id": codec["name"], **settings}


def v3_compressor(compressor: Any, dtype: np.dtype[Any]) -> JSON | None:
    """Return a compressor of Zarr v2 as Zarr v3 states it; None where it has none."""
    if compressor is None:
        return {}
    settings = dict(compressor)
    name = settings.pop("id")
    if name == "zstd":
        settings = {"checksum": False, "level": 0} | settings
        settings["checksum"] = bool(settings["checksum"])
    elif name == "blosc":
        shuffle = settings.get("shuffle", 1)
        if shuffle == AUTO_SHUFFLE:
            shuffle = 2 if dtype.itemsize == 1 else 1
        settings["shuffle"] = {n: word for word, n in SHUFFLES.items()}[shuffle]
        settings.setdefault("blocksize", 0)
    elif name != "gzip":
        return None
    return {"name": name, "configuration": settings}


def find_codec(document: JSON, layout: ArrayLayout) -> JSON | None:
    """Return the compressor of chunks as of Zarr v3; None where both have none such."""
    order = [axis for axis in layout.order if layout.chunks[axis] > 1]
    if layout.dtype.kind not in "biuf" or order != sorted(order):
        return None
    try:
        if layout.zarr_format == 2:
            if document.get("filters"):
                return None
            return v3_compressor(document.get("compressor"), layout.dtype)
        codecs = inner_codecs(document)
        if name_of(codecs[0]) != "bytes" or len(codecs) > 2:
            return None
        if len(codecs) == 1:
            return {}
        name = name_of(codecs[1])
        if name not in COMPRESSORS:
            return None
        settings = configuration_of(codecs[1])
        settings.pop("typesize", None)
        return {"name": name, "configuration": settings}
    except (AttributeError, KeyError, TypeError):
        return None


def chunk_codecs(dtype: np.dtype[Any], codec: JSON) -> list[JSON]:
    """List the codecs of chunks in Zarr v3, in encoding order."""
    endian = "big" if dtype.str.startswith(">") else "little"
    codecs: list[JSON] = [{"name": "bytes", "configuration": {"endian": endian}}]
    if codec:
        settings = dict(codec["configuration"])
        if codec["name"] == "blosc":
            settings["typesize"] = dtype.itemsize
        codecs.append({"name": codec["name"], "configuration": settings})
    return codecs


def shard_codec(chunks: Shape, codecs: list[JSON]) -> JSON:
    """Return the codec that joins chunks of some codecs into shards."""
    index = [
        {"name": "bytes", "configuration": {"endian": "little"}},
        {"name": "crc32c"},
    ]
    configuration = {
        "chunk_shape": list(chunks),
        "codecs": codecs,
        "index_codecs": index,
        "index_location": "end",
    }
    return {"name": "sharding_indexed", "configuration": configuration}


def shard_shape(shape: Shape, chunks: Shape, itemsize: int) -> Shape | None:
    """Choose shards that make few stored objects of an array.

    Axes are joined from the last to the first, the last two in turn: blocks of a plane
    that are seen together are stored together.

    Parameters
    ----------
    shape, chunks
        Of the array, in voxels.
    itemsize
        Bytes of a voxel.

    Returns
    -------
    tuple of int or None
        In voxels, whole chunks; None where there is one chunk, or chunks are so large
        that none can be joined.
    """
    grid = [-(-n // c) for n, c in zip(shape, chunks, strict=True)]
    # Number of chunks that a shard may have, by both limits.
    room = min(MOST_JOINED, LARGEST_SHARD // max(1, math.prod(chunks) * itemsize))
    joined = [1] * len(grid)
    # Doubled axis by axis, so that shards stay about as long as wide.
    for axes in ([-1, -2][: len(grid)], *([i] for i in range(-3, -len(grid) - 1, -1))):
        growing = set(axes)
        while growing:
            axis = min(growing, key=lambda i: (joined[i], -i))
            others = math.prod(joined) // joined[axis]
            larger = min(2 * joined[axis], grid[axis])
            if larger == joined[axis] or larger * others > room:
                growing.remove(axis)
            else:
                joined[axis] = larger
    if math.prod(joined) == 1:
        return None
    return tuple(c * n for c, n in zip(chunks, joined, strict=True))


def group_documents(attributes: JSON, version: str) -> dict[str, bytes]:
    """Write the metadata documents of a group: name -> text."""
    if Version(version).zarr_format == 2:
        return {
            ".zgroup": dump_document({"zarr_format": 2}),
            ".zattrs": dump_document(attributes),
        }
    group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    return {"zarr.json": dump_document(group)}


def put_new_group(
    transaction: Transaction, path: str, attributes: JSON, version: str
) -> bytes:
    """Put the documents of a new group but that with its attributes; return that.

    By the attributes a group is a list, so that they are to be put last.
    """
    *others, (_, text) = group_documents(attributes, version).items()
    for name, data in others:  # of Zarr v2
        transaction.put_document(join_key(path, name), data)
    return text


def dump_document(document: JSON) -> bytes:
    """Write a new document."""
    return json.dumps(document, indent=2).encode()
