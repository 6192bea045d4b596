"""Writes the metadata documents of new arrays and groups."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from napari_ngff.metadata.version import Version

if TYPE_CHECKING:
    import numpy as np

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.arrays.chunk_layout import Shape

ZSTD = 1
"""Level of zstd. On labels it is ten times faster than blosc at level 5, and smaller.
On pixels of several bytes, the shuffle of blosc saves another quarter."""

LARGEST_SHARD, MOST_JOINED = 32 * 2**20, 4096
"""Limits of a shard: bytes of its decoded chunks, since a save holds the encoded ones
twice, and number of its chunks, each of which takes space in the index."""


@dataclass(frozen=True, slots=True)
class NewArray:
    """An array that is to be created; axes in its own order.

    Attributes
    ----------
    shape, chunks
        In voxels.
    dtype
        Of integers or floats; stored in little endian.
    names
        Of the dimensions, which Zarr v3 keeps.
    shards
        Shape of a stored object that holds several chunks; None for none.
    shuffle
        Whether to shuffle the bytes of voxels before they are compressed: good for
        pixels, bad for labels.
    """

    shape: Shape
    chunks: Shape
    dtype: np.dtype[Any]
    names: tuple[str, ...]
    shards: Shape | None = None
    shuffle: bool = False

    def make_document(self, version: str) -> tuple[str, bytes]:
        """Return the name and the text of the metadata document.

        Raises
        ------
        ValueError
            Where shards are asked for up to 0.4, which is Zarr v2.
        """
        # Up to OME-Zarr 0.4 arrays are of Zarr v2; versions compare as text, since all
        # are "0.n".
        if Version(version).zarr_format == 2:
            return ".zarray", _dump_json(self._v2_document(Version(version)))
        unit = self.shards or self.chunks
        document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": self.shape,
            "data_type": self.dtype.name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": unit}},
            "chunk_key_encoding": {
                "name": "default",
                "configuration": {"separator": "/"},
            },
            "fill_value": 0 if self.dtype.kind in "iu" else 0.0,
            "codecs": self._list_codecs(),
            "attributes": {},
            "dimension_names": self.names,
            "storage_transformers": [],
        }
        return "zarr.json", _dump_json(document)

    @property
    def _shuffled(self) -> bool:
        return self.shuffle and self.dtype.itemsize > 1

    def _v2_document(self, version: Version) -> JSON:
        if self.shards is not None:
            msg = f"OME-Zarr {version} has no shards: write 0.5 or newer."
            raise ValueError(msg)
        compressor: JSON = {"id": "zstd", "level": ZSTD}
        if self._shuffled:
            compressor = {
                "id": "blosc",
                "cname": "zstd",
                "clevel": ZSTD,
                "shuffle": 1,
                "blocksize": 0,
            }
        return {
            "zarr_format": 2,
            "shape": self.shape,
            "chunks": self.chunks,
            "dtype": self.dtype.newbyteorder("<").str,
            "compressor": compressor,
            "fill_value": 0,
            "order": "C",
            "filters": None,
            # 0.2: "chunks are nested" (its changelog); 0.1 had Zarr's usual ".".
            "dimension_separator": "/" if version.has_nested_chunks else ".",
        }

    def _list_codecs(self) -> list[JSON]:
        """List the codecs of Zarr v3 in encoding order."""
        # As numcodecs' zstd does by default, which encodes the same chunks in Zarr v2.
        compressor: JSON = {"level": ZSTD, "checksum": False}
        if self._shuffled:
            compressor = {
                "typesize": self.dtype.itemsize,
                "cname": "zstd",
                "clevel": ZSTD,
                "shuffle": "shuffle",
                "blocksize": 0,  # chosen by blosc; the codec requires the key
            }
        codecs: list[JSON] = [
            {"name": "bytes", "configuration": {"endian": "little"}},
            {
                "name": "blosc" if self._shuffled else "zstd",
                "configuration": compressor,
            },
        ]
        if self.shards is None:
            return codecs
        inner = {
            "chunk_shape": self.chunks,
            "codecs": codecs,
            "index_codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "index_location": "end",
        }
        return [{"name": "sharding_indexed", "configuration": inner}]


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
            ".zgroup": _dump_json({"zarr_format": 2}),
            ".zattrs": _dump_json(attributes),
        }
    group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    return {"zarr.json": _dump_json(group)}


def _dump_json(document: JSON) -> bytes:
    return json.dumps(document, indent=2).encode()
