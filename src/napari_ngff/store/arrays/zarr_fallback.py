"""Reads arrays that only zarr-python can decode: rare codecs, types, grids.

It decodes them in another process, whose memory is bounded.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import CorruptDataError, OMEZarrError, UnsupportedError
from napari_ngff.store.arrays.chunk_layout import ArrayLayout, ChunkKeys
from napari_ngff.store.arrays.parse_array import IndirectError, codec_names, parse_keys
from napari_ngff.store.arrays.stored_objects import DOCUMENTS, join_key
from napari_ngff.store.bounded_call import ExcessError, call_bounded
from napari_ngff.store.limits import check_chunk, parse_json

if TYPE_CHECKING:
    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.sources.source import Source

EXPERIMENTAL = {"array.rectilinear_chunks": True}
"""Settings of zarr-python for what it reads only if it is asked."""

PACKAGES = {
    "imagecodecs": (
        "imagecodecs-numcodecs (for Zarr v3 imagecodecs-zarr, for which Python 3.12 is"
        " needed)."
    ),
    "zfpy": "'numcodecs[zfpy]'",
    "cast_value": "'zarr>=3.2' cast-value-rs, for which Python 3.12 is needed.",
    "scale_offset": "'zarr>=3.2', for which Python 3.12 is needed.",
    "rectilinear": "'zarr>=3.2', for which Python 3.12 is needed.",
}
"""Parts of names in documents -> packages by which zarr-python reads them."""

COPIES = 4
"""Of the voxels of a chunk and of a box, that zarr-python has in memory."""

MOST_EXCESSES = 3
"""Reads that took too much memory, after which an array is not read any more."""


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
        self._source = source
        self._place = path, parse_json(raw)["zarr_format"]
        # Its document is not read again for each box.
        self._known: dict[str, bytes | None] = {
            join_key(path, DOCUMENTS[self._place[1]]): raw,
            join_key(path, ".zattrs"): None,
        }
        self._excess = 0
        try:
            with zarr.config.set(EXPERIMENTAL):
                self._settings = deepcopy(zarr.config.config)
                array = zarr.open_array(
                    store=SourceStore(source),
                    path=path,
                    mode="r",
                    zarr_format=self._place[1],
                )
        # An error of the source names the object itself.
        except (OMEZarrError, OSError):
            raise
        # zarr and the codecs it finds among the installed packages raise anything.
        except Exception as error:
            used = " ".join((reason, *names))
            packages = [found for word, found in PACKAGES.items() if word in used]
            remedy = (
                "Write it again in common types and codecs, such as uint16 and zstd."
            )
            if packages:
                remedy = f"Run: pip install {packages[0]}"
            raise UnsupportedError(
                f"Cannot decode the array {path or '/'} in {source.name}: it uses"
                f" {reason} (codecs: {', '.join(names) or 'none'}), which zarr"
                f" {zarr.__version__} does not read: {str(error).rstrip('.')}.",
                remedy=remedy,
            ) from error
        self.layout = describe_layout(array, raw, names)

    def read(self, box: Box) -> npt.NDArray[Any]:
        """Read a box of voxels.

        Raises
        ------
        CorruptDataError
            Where zarr fails, for whatever reason.
        UnsupportedError
            Where a chunk is too large.
        OSError
            Where an object cannot be read.
        """
        check_chunk(self.layout.chunk_nbytes)
        names = f"its codecs ({', '.join(self.layout.codecs)})"
        if self._excess >= MOST_EXCESSES:
            raise CorruptDataError(f"{names} take more memory than its voxels")
        most = COPIES * self.layout.chunk_nbytes
        arguments = *self._place, box, self._settings
        try:
            chunk: npt.NDArray[Any] = call_bounded(
                read_box, self._source, arguments, most, ("zarr",), self._known
            )
            # The cache gives one chunk to many readers.
            chunk.setflags(write=False)
            return chunk
        except ExcessError as error:
            self._excess += 1
            raise CorruptDataError(f"{names}: {error}") from error


def read_box(
    source: Source,
    path: str,
    zarr_format: Literal[2, 3],
    box: Box,
    settings: dict[str, Any],
) -> npt.NDArray[Any]:
    """Read a box of voxels by zarr-python, in this process."""
    import zarr

    from napari_ngff.store.arrays.zarr_adapter import SourceStore

    store = SourceStore(source)
    zarr.config.set(settings)
    array = zarr.open_array(store=store, path=path, mode="r", zarr_format=zarr_format)
    return np.asarray(array[tuple(slice(start, stop) for start, stop in box)])


def describe_layout(array: Any, raw: bytes, names: tuple[str, ...]) -> ArrayLayout:
    """Describe an open zarr array; the layout cannot decode chunks."""
    try:
        chunks = getattr(array, "shards", None) or array.chunks
    # zarr-python gives no shape of chunks for a grid that is not regular.
    except NotImplementedError:
        chunks = tuple(map(max, array.write_chunk_sizes))
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
        shards=None,
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
