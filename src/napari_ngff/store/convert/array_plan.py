"""Chooses how a converted array is stored, and whether its chunks stay as they are.

The bytes of a chunk of Zarr v2 and v3 are the same where both have the compressor; only
the key changes then, or they are put into shards. Other arrays are decoded and encoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.errors import OptionError, UnsupportedError
from napari_ngff.store.arrays.array_document import (
    NewArray,
    find_codec,
    is_indirect,
    is_regular,
    shard_shape,
    state_chunks,
    usual_codec,
)
from napari_ngff.store.limits import ARRAY_DOCUMENT, dump_like, parse_json

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.arrays.chunk_layout import ArrayLayout, Shape
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.convert.request import ConversionRequest


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
class PlannedLevel:
    """An array of an image that is copied, or made again.

    Attributes
    ----------
    path
        Of the array in its group.
    array
        In the source.
    axes
        Their names.
    is_label
        Whether it has labels.
    region
        What is kept; of a level that is made again, all of its new shape.
    finer
        Path of the level that it is made from; "" where it is copied.
    method
        How it is made: mean, mode or nearest; "" where it is copied.
    factors
        Voxels of the finer level in one of its own, per axis.
    stage
        Number of levels that have to be there before.
    """

    path: str
    array: ChunkedArray
    axes: tuple[str, ...]
    is_label: bool
    region: ArrayRegion
    finer: str = ""
    method: str = ""
    factors: Shape = ()
    stage: int = 0


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


def convert_array(
    documents: dict[str, bytes],
    level: PlannedLevel,
    request: ConversionRequest,
    *,
    updates: bool,
) -> ConvertedArray:
    """Choose how an array is stored.

    Parameters
    ----------
    documents
        As of `read_documents`.
    level
        What becomes of the array.
    request
        What is asked for.
    updates
        Whether the version changes: the array gets what the new one demands, such as
        nested folders of chunks (0.2) and names of dimensions (0.5).

    Raises
    ------
    ValueError
        Where shards do not fit.
    UnsupportedError
        Where its voxels cannot be stored in that format.
    """
    layout, region = level.array.layout, level.region
    zarr_format = request.version.zarr_format
    raw = documents[ARRAY_DOCUMENT[layout.zarr_format]]
    document = parse_json(raw)
    same = zarr_format == layout.zarr_format
    codec = find_codec(document, layout)
    # Whether stored objects are chunks in the new format, too.
    keeps_bytes = (
        request.codec in (None, codec)
        and not level.finer
        and (same or (codec is not None and layout.shards is None))
        and is_regular(document)
        and region.has_whole_units(layout.shards or layout.chunks, layout.shape)
    )
    shape, names = region.shape, level.axes
    asks_chunks = _asks_for_others(request.chunks, layout.chunks, layout, names)
    # Chunks that stay as they are may be put into shards.
    chunks_stay = (
        keeps_bytes
        and layout.shards is None
        and not asks_chunks
        and (codec is not None or not is_indirect(raw, layout.zarr_format))
    )
    chunks = layout.chunks if chunks_stay else _choose_chunks(level, request)
    shards = _choose_shards(level, chunks, request)
    joins = chunks_stay and shards is not None
    # Whether other chunks or shards are asked for.
    asks = (
        asks_chunks
        or _asks_for_others(request.shards, layout.shards, layout, names)
        or (
            request.auto_shards
            and layout.shards is None
            and shard_shape(shape, layout.chunks, layout.dtype.itemsize) is not None
        )
    )
    stays = keeps_bytes and not joins and not asks
    changes = _complete_document(document, layout, names) if updates and same else {}
    if stays and same and region.is_whole(layout.shape) and not changes:
        return ConvertedArray(documents, True)
    if stays:
        chunks, shards = layout.chunks, layout.shards
    elif layout.dtype.kind not in "biuf" and not joins:
        msg = f"Voxels of type {layout.dtype} can only be copied as they are."
        raise UnsupportedError(msg, remedy="Keep the version, and convert all of it.")
    if same:
        grid = None if stays else (chunks, shards)
        edited = _edit_document(raw, level, grid, request.codec) | changes
        text = dump_like(raw.decode(), edited).encode()
        return ConvertedArray(
            documents | {ARRAY_DOCUMENT[zarr_format]: text}, stays, joins
        )
    if not (stays or joins) and request.codec is not None:
        codec = request.codec
    fill, shuffle = layout.fill_value, not level.is_label
    new = NewArray(shape, chunks, layout.dtype, names, shards, shuffle, codec, fill)
    made = new.make_documents(zarr_format, documents, document)
    return ConvertedArray(made, stays, joins)


def _edit_document(
    raw: bytes,
    level: PlannedLevel,
    grid: tuple[Shape, Shape | None] | None,
    codec: JSON | None,
) -> JSON:
    """Change only what differs; all other keys stay. `grid` is None where that does."""
    document: JSON = parse_json(raw)
    layout = level.array.layout
    document["shape"] = list(level.region.shape)
    if layout.zarr_format == 2 and document.get("dimension_separator") is None:
        document["dimension_separator"] = "/" if grid else "."
    if grid:
        if codec is None and is_indirect(raw, layout.zarr_format):
            codec = usual_codec(layout.dtype, shuffle=True)
        state_chunks(document, *grid, layout.dtype, codec)
    return document


def _complete_document(
    document: JSON, layout: ArrayLayout, names: tuple[str, ...]
) -> JSON:
    """Return what another version demands of the document of an array."""
    if layout.zarr_format == 2:
        return {} if layout.keys.separator == "/" else {"dimension_separator": "/"}
    if len(names) != len(layout.shape) or "dimension_names" in document:
        return {}
    return {"dimension_names": list(names)}


def _asks_for_others(
    asked: tuple[tuple[str, int], ...],
    stored: Shape | None,
    layout: ArrayLayout,
    names: tuple[str, ...],
) -> bool:
    """Return whether chunks or shards are asked for that are not there already."""
    for name, length in asked:
        if name in names:
            axis = names.index(name)
            now = None if stored is None else stored[axis]
            if now != length and not (
                now is not None and min(now, length) >= layout.shape[axis]
            ):
                return True
    return False


def _axis_names(level: PlannedLevel) -> tuple[str, ...]:
    """Return a name for each axis of an array; "" where it has other axes."""
    ndim = level.array.ndim
    return level.axes if len(level.axes) == ndim else ("",) * ndim


def _choose_chunks(level: PlannedLevel, request: ConversionRequest) -> Shape:
    wanted = dict(request.chunks)
    sizes = zip(level.array.chunks, level.region.shape, strict=True)
    return tuple(
        min(wanted.get(name, length), max(n, 1))
        for name, (length, n) in zip(_axis_names(level), sizes, strict=True)
    )


def _choose_shards(
    level: PlannedLevel, chunks: Shape, request: ConversionRequest
) -> Shape | None:
    layout, shape = level.array.layout, level.region.shape
    asked = dict(request.shards)
    if request.version.zarr_format == 2:
        if asked or request.auto_shards:
            msg = "OME-Zarr 0.4 has no shards: convert to 0.5, or leave --shards out."
            raise OptionError(msg, "shards")
        return None
    if request.auto_shards or (request.adds_shards and layout.shards is None):
        return shard_shape(shape, chunks, layout.dtype.itemsize)
    if layout.shards is None and not asked.keys() & set(level.axes):
        return None
    shards = []
    stored = layout.shards or layout.chunks
    for name, length, old, n in zip(
        _axis_names(level), chunks, stored, shape, strict=True
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
