"""Reads arrays that only zarr-python can decode: rare codecs, filters, types, grids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import CorruptDataError, OMEZarrError, UnsupportedError
from napari_ngff.store.arrays.chunk_layout import ArrayLayout, ChunkKeys
from napari_ngff.store.arrays.parse_array import IndirectError, codec_names, parse_keys
from napari_ngff.store.limits import check_chunk, parse_json

if TYPE_CHECKING:
    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.sources.source import Source

__all__ = ["ZarrReader"]


class ZarrReader:
    """Reads boxes through zarr-python.

    Parameters
    ----------
    source, path
        Where the array is.
    raw
        Its metadata document.
    reason
        What this package cannot decode, for the message.

    Raises
    ------
    UnsupportedError
        Where the installed zarr cannot open the array either.
    """

    def __init__(self, source: Source, path: str, raw: bytes, reason: str) -> None:
        # Only here: most arrays need no zarr-python, and its import takes 0.1 s.
        import zarr

        from napari_ngff.store.arrays.zarr_adapter import SourceStore

        names = codec_names(raw)
        try:
            self._array: Any = zarr.open_array(
                store=SourceStore(source),
                path=path,
                mode="r",
                zarr_format=parse_json(raw)["zarr_format"],
            )
        # An error of the source names the object itself.
        except (OMEZarrError, OSError):
            raise
        # zarr and the codecs it finds among the installed packages raise anything.
        except Exception as error:
            raise UnsupportedError(
                f"Cannot decode the array {path or '/'} in {source.name}: it uses"
                f" {reason} (codecs: {', '.join(names) or 'none'}), and zarr"
                f" reports: {error}.",
                remedy="Install the package that provides it.",
            ) from error
        self.layout = describe_layout(self._array, raw, names)

    def read(self, box: tuple[tuple[int, int], ...]) -> npt.NDArray[Any]:
        """Read a box of voxels.

        Raises
        ------
        CorruptDataError
            Where zarr fails, for whatever reason.
        """
        selection = tuple(slice(start, stop) for start, stop in box)
        try:
            check_chunk(self.layout.chunk_nbytes)
            return np.asarray(self._array[selection])
        # Codecs of other packages raise anything on damaged bytes.
        except Exception as error:
            raise CorruptDataError(f"{type(error).__name__}: {error}") from error

    def object_key(self, cell: Shape) -> str:
        """Return the key below the array of the object that holds a chunk."""
        layout = self.layout
        stored = layout.shards or layout.chunks
        return layout.keys.make_key(
            tuple(
                c * n // s for c, n, s in zip(cell, layout.chunks, stored, strict=True)
            )
        )


def describe_layout(array: Any, raw: bytes, names: tuple[str, ...]) -> ArrayLayout:
    """Describe an open zarr array; the layout cannot decode chunks."""
    try:
        chunks = array.chunks
    # zarr-python gives no shape of chunks for a grid that is not regular.
    except NotImplementedError:
        chunks = array.shape
    fill_value = array.fill_value
    if fill_value is None:
        fill_value = np.zeros((), array.dtype)[()]
    if array.dtype.kind not in "biufcSUmMV":
        msg = f"It holds {array.dtype}, which cannot be shown as numbers."
        raise UnsupportedError(msg)
    dimension_names = getattr(array.metadata, "dimension_names", None)
    return ArrayLayout(
        zarr_format=array.metadata.zarr_format,
        shape=tuple(array.shape),
        dtype=np.dtype(array.dtype),
        chunks=tuple(max(1, n) for n in chunks),
        shards=getattr(array, "shards", None),
        fill_value=fill_value,
        dimension_names=None if dimension_names is None else tuple(dimension_names),
        codecs=names,
        keys=document_keys(parse_json(raw)),
        order=tuple(range(len(array.shape))),
        steps=(),
    )


def document_keys(document: dict[str, Any]) -> ChunkKeys:
    """Return the keys of an array's objects, for messages."""
    if document["zarr_format"] == 2:
        return ChunkKeys("", document.get("dimension_separator") or ".")
    try:
        return parse_keys(document["chunk_key_encoding"])
    except IndirectError:
        return ChunkKeys("c", "/")
