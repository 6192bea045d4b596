"""Chooses the document of a converted array, and whether its chunks stay as they are.

The bytes of a chunk of Zarr v2 and v3 are the same where both have the compressor; only
the key changes then, or they are put into shards. Other arrays are decoded and encoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from napari_ngff.errors import OptionError, UnsupportedError
from napari_ngff.metadata.version import V0_4, V0_5
from napari_ngff.store.arrays.encoding import SHUFFLES
from napari_ngff.store.arrays.new_array import (
    NewArray,
    chunk_codecs,
    dump_document,
    regular_grid,
    shard_codec,
    shard_shape,
    usual_codec,
    v2_compressor,
)
from napari_ngff.store.arrays.parse_array import (
    IndirectError,
    configuration_of,
    name_of,
    parse_array,
)
from napari_ngff.store.arrays.stored_objects import DOCUMENTS, join_key
from napari_ngff.store.limits import dump_like, parse_json

if TYPE_CHECKING:
    import numpy as np

    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.arrays.chunk_layout import ArrayLayout, Shape
    from napari_ngff.store.convert.selection import Storage
    from napari_ngff.store.sources.source import Source

COMPRESSORS = ("zstd", "gzip", "blosc")
"""Compressors that Zarr v2 and v3 share."""

AUTO_SHUFFLE = -1
"""In Zarr v2: chosen by the size of a voxel."""


@dataclass(frozen=True, slots=True)
class ArrayRegion:
    """The voxels of an array that are kept.

    Attributes
    ----------
    spans
        Start and stop per axis; of the picked axis all of it.
    picked
        An axis of which single indices are kept; None for none.
    indices
        Those indices.
    """

    spans: tuple[tuple[int, int], ...]
    picked: int | None = None
    indices: tuple[int, ...] = ()

    @property
    def shape(self) -> Shape:
        """Shape of what is kept."""
        lengths = [stop - start for start, stop in self.spans]
        if self.picked is not None:
            lengths[self.picked] = len(self.indices)
        return tuple(lengths)

    def is_whole(self, shape: Shape) -> bool:
        """Return whether that is the whole array."""
        return self.picked is None and self.spans == tuple((0, n) for n in shape)

    def has_whole_units(self, unit: Shape, shape: Shape) -> bool:
        """Return whether it consists of whole stored objects, cut at the border."""
        for axis, ((start, stop), length) in enumerate(
            zip(self.spans, unit, strict=True)
        ):
            if axis == self.picked:
                if length != 1:
                    return False
            elif start % length or (stop % length and stop != shape[axis]):
                return False
        return True


@dataclass(frozen=True, slots=True)
class ConvertedArray:
    """What is written for an array.

    Attributes
    ----------
    documents
        Name -> text.
    keeps_chunks
        Whether its stored objects stay as they are.
    joins_chunks
        Whether the bytes of its chunks stay as they are, and are put into shards.
    """

    documents: dict[str, bytes]
    keeps_chunks: bool
    joins_chunks: bool = False


@dataclass(frozen=True, slots=True)
class ArrayTarget:
    """What an array is converted to.

    Attributes
    ----------
    zarr_format
        2 or 3.
    names
        Of the axes.
    is_label
        Whether it has labels.
    is_updated
        Whether the version changes: it gets what the new one demands, such as nested
        folders of chunks (0.2) and names of dimensions (0.5).
    is_new
        Whether its voxels are computed, not copied.
    """

    zarr_format: int
    names: tuple[str, ...]
    is_label: bool
    is_updated: bool
    is_new: bool = False


def read_documents(source: Source, path: str, zarr_format: int) -> dict[str, bytes]:
    """Read the documents of an array, by name."""
    names = ("zarr.json",) if zarr_format == 3 else (".zarray", ".zattrs")
    found = ((name, source.get(join_key(path, name))) for name in names)
    return {name: data for name, data in found if data is not None}


def convert_array(
    documents: dict[str, bytes],
    layout: ArrayLayout,
    region: ArrayRegion,
    target: ArrayTarget,
    storage: Storage,
) -> ConvertedArray:
    """Choose how an array is stored.

    Parameters
    ----------
    documents
        As of `read_documents`.
    layout
        Parsed from them.
    region
        What is kept of it.
    target
        What it is converted to.
    storage
        What is asked for.

    Raises
    ------
    ValueError
        Where shards do not fit.
    UnsupportedError
        Where its voxels cannot be stored in that format.
    """
    zarr_format = target.zarr_format
    raw = documents[DOCUMENTS[layout.zarr_format]]
    document = parse_json(raw)
    same = zarr_format == layout.zarr_format
    codec = _codec_of(document, layout)
    # Whether stored objects are chunks in the new format, too.
    keeps_bytes = (
        storage.codec in (None, codec)
        and not target.is_new
        and (same or (codec is not None and layout.shards is None))
        and is_regular(document)
        and region.has_whole_units(layout.shards or layout.chunks, layout.shape)
    )
    shape, names = region.shape, target.names
    # Chunks that stay as they are may be put into shards.
    chunks_stay = (
        keeps_bytes
        and layout.shards is None
        and not _differ(storage.chunks, layout.chunks, layout, names)
        and (codec is not None or not _is_indirect(raw, layout.zarr_format))
    )
    chunks = (
        layout.chunks if chunks_stay else _choose_chunks(layout, shape, target, storage)
    )
    shards = _choose_shards(layout, chunks, shape, target, storage)
    joins = chunks_stay and shards is not None
    # Whether other chunks or shards are asked for.
    asks = (
        _differ(storage.chunks, layout.chunks, layout, names)
        or _differ(storage.shards, layout.shards, layout, names)
        or (
            storage.auto_shards
            and layout.shards is None
            and shard_shape(shape, layout.chunks, layout.dtype.itemsize) is not None
        )
    )
    stays = keeps_bytes and not joins and not asks
    changes = _complete_document(document, layout, target)
    if stays and same and region.is_whole(layout.shape) and not changes:
        return ConvertedArray(documents, True)
    if stays:
        chunks, shards = layout.chunks, layout.shards
    elif layout.dtype.kind not in "biuf" and not joins:
        msg = f"Voxels of type {layout.dtype} can only be copied as they are."
        raise UnsupportedError(msg, remedy="Keep the version, and convert all of it.")
    if same:
        grid = None if stays else (chunks, shards)
        edited = _edit_document(raw, layout, shape, grid, storage.codec)
        like = dump_like(raw.decode(), edited | changes)
        edited_document = {DOCUMENTS[zarr_format]: like.encode()}
        return ConvertedArray(documents | edited_document, stays, joins)
    new = NewArray(
        shape,
        chunks,
        layout.dtype,
        names,
        shards,
        not target.is_label,
        codec if stays or joins or storage.codec is None else storage.codec,
        layout.fill_value,
    )
    name, text = new.make_document(V0_4 if zarr_format == 2 else V0_5)
    made = {name: text}
    extra = document.get("attributes") or parse_json(documents.get(".zattrs") or b"{}")
    if zarr_format == 3:
        made[name] = dump_document(parse_json(text) | {"attributes": extra})
    elif extra:
        made[".zattrs"] = dump_document(extra)
    return ConvertedArray(made, stays, joins)


def _complete_document(
    document: JSON, layout: ArrayLayout, target: ArrayTarget
) -> JSON:
    """Return what another version demands of the document of an array."""
    changes: JSON = {}
    if target.is_updated and target.zarr_format == 2 and layout.keys.separator != "/":
        changes["dimension_separator"] = "/"
    lacks = len(target.names) == len(layout.shape) and "dimension_names" not in document
    if target.is_updated and target.zarr_format == 3 and lacks:
        changes["dimension_names"] = list(target.names)
    return changes


def is_regular(document: JSON) -> bool:
    """Return whether all chunks of an array have one shape."""
    return "chunk_grid" not in document or name_of(document["chunk_grid"]) == "regular"


def _differ(
    asked: tuple[tuple[str, int], ...],
    stored: Shape | None,
    layout: ArrayLayout,
    names: tuple[str, ...],
) -> bool:
    for name, length in asked:
        if name in names:
            axis = names.index(name)
            now = None if stored is None else stored[axis]
            if now != length and not (
                now is not None and min(now, length) >= layout.shape[axis]
            ):
                return True
    return False


def _choose_chunks(
    layout: ArrayLayout, shape: Shape, target: ArrayTarget, storage: Storage
) -> Shape:
    wanted = dict(storage.chunks)
    return tuple(
        min(wanted.get(name, length), max(n, 1))
        for name, length, n in zip(
            _pad(target.names, shape), layout.chunks, shape, strict=True
        )
    )


def _choose_shards(
    layout: ArrayLayout,
    chunks: Shape,
    shape: Shape,
    target: ArrayTarget,
    storage: Storage,
) -> Shape | None:
    asked = dict(storage.shards)
    if target.zarr_format == 2:
        if asked or storage.auto_shards:
            msg = "OME-Zarr 0.4 has no shards: convert to 0.5, or leave --shards out."
            raise OptionError(msg, "shards")
        return None
    if storage.auto_shards or (storage.adds_shards and layout.shards is None):
        return shard_shape(shape, chunks, layout.dtype.itemsize)
    if layout.shards is None and not asked.keys() & set(target.names):
        return None
    shards = []
    stored = layout.shards or layout.chunks
    for name, length, old, n in zip(
        _pad(target.names, shape), chunks, stored, shape, strict=True
    ):
        most = length * -(-n // length)
        given = asked.get(name)
        if given is None:
            shards.append(min(length * max(1, old // length), most))
        elif given % length and given < n:
            msg = f"Shards of {name}={given} are not whole chunks of {length}."
            raise OptionError(msg, "shards")
        else:
            shards.append(min(given - given % length or length, most))
    return tuple(shards)


def _pad(names: tuple[str, ...], shape: Shape) -> tuple[str, ...]:
    """Return a name for each axis."""
    return names if len(names) == len(shape) else ("",) * len(shape)


def _codec_of(document: JSON, layout: ArrayLayout) -> JSON | None:
    """Return the compressor of chunks as of Zarr v3; None where both have none such."""
    order = [axis for axis in layout.order if layout.chunks[axis] > 1]
    if layout.dtype.kind not in "biuf" or order != sorted(order):
        return None
    try:
        if layout.zarr_format == 2:
            if document.get("filters"):
                return None
            return _from_numcodecs(document.get("compressor"), layout.dtype)
        codecs = list(document["codecs"])
        if name_of(codecs[0]) == "sharding_indexed":
            codecs = list(configuration_of(codecs[0])["codecs"])
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


def _from_numcodecs(compressor: Any, dtype: np.dtype[Any]) -> JSON | None:
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


def _is_indirect(raw: bytes, zarr_format: Literal[2, 3]) -> bool:
    """Return whether only zarr-python could encode chunks as this document states."""
    try:
        parse_array(raw, zarr_format)
    except IndirectError:
        return True
    return False


def _edit_document(
    raw: bytes,
    layout: ArrayLayout,
    shape: Shape,
    grid: tuple[Shape, Shape | None] | None,
    codec: JSON | None,
) -> JSON:
    """Change only what differs; all other keys stay. `grid` is None where that does."""
    document = parse_json(raw)
    if codec is None and grid and _is_indirect(raw, layout.zarr_format):
        codec = usual_codec(layout.dtype, shuffle=True)
    document["shape"] = list(shape)
    if layout.zarr_format == 2:
        document["chunks"] = grid[0] if grid else layout.chunks
        if codec is not None:
            document |= {"compressor": v2_compressor(codec), "filters": None}
        if document.get("dimension_separator") is None:
            document["dimension_separator"] = "/" if grid else "."
    elif grid:
        chunks, shards = grid
        document["chunk_grid"] = regular_grid(shards or chunks)
        codecs = document["codecs"]
        if layout.shards is not None:
            codecs = configuration_of(codecs[0])["codecs"]
        if codec is not None:
            codecs = chunk_codecs(layout.dtype, codec)
        document["codecs"] = [shard_codec(chunks, codecs)] if shards else codecs
    return document  # type: ignore[no-any-return]
