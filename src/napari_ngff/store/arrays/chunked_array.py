"""Opens arrays and reads boxes of them, without zarr's event loop.

`open_array` reads one metadata document. Codecs in common use are decoded here, several
chunks at a time; zarr-python decodes the others, behind the same interface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import (
    ChunkError,
    CorruptDataError,
    NodeNotFoundError,
)
from napari_ngff.store.arrays.boxes import Box, intersect_boxes, whole_box
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.arrays.parse_array import (
    IndirectError,
    parse_array,
)
from napari_ngff.store.arrays.region_read import (
    RegionRead,
    cache,
    cached_chunk,
)
from napari_ngff.store.arrays.stored_objects import ArrayObjects, join_key
from napari_ngff.store.limits import ARRAY_DOCUMENT

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from napari_ngff.store.arrays.chunk_layout import ArrayLayout, Shape
    from napari_ngff.store.arrays.zarr_adapter import ZarrReader
    from napari_ngff.store.store import Store


__all__ = ["Box", "ChunkedArray", "OnError", "cache", "open_array"]

OnError = Callable[[ChunkError], None]


def open_array(
    source: Store, path: str, zarr_format: int | None = None
) -> ChunkedArray:
    """Open an array by reading its metadata document, and nothing else.

    Parameters
    ----------
    source
        Where the bytes are.
    path
        Of the array inside `source`, "" where the root is one.
    zarr_format
        2 or 3; None tries 3, then 2.

    Raises
    ------
    NodeNotFoundError
        Where there is no such document.
    CorruptDataError
        Where the document is damaged.
    UnsupportedError
        Where neither we nor the installed zarr can decode the array.
    """
    # Zarr v3 first: where a folder has both documents, the newer one counts, as for
    # zarr-python.
    for number, name in ARRAY_DOCUMENT.items():
        if zarr_format not in (None, number):
            continue
        raw = source.get(join_key(path, name))
        if raw is not None:
            return make_array(source, path, number, raw)
    address = join_key(source.name, path)
    raise NodeNotFoundError(
        f"No zarr array at {address}.",
        remedy="Check the path; a level may be missing on disk.",
    )


def make_array(source: Store, path: str, zarr_format: int, raw: bytes) -> ChunkedArray:
    """Make an array from its metadata document; raises what `open_array` does."""
    # First our decoder, which is faster; see docs/design/002-direct-chunk-reader.md.
    try:
        return ChunkedArray(source, path, parse_array(raw, zarr_format))
    except IndirectError as reason:
        # Only here: most arrays need no zarr-python, and its import takes 0.1 s.
        from napari_ngff.store.arrays.zarr_adapter import ZarrReader

        reader = ZarrReader(source, path, raw, str(reason))
        return ChunkedArray(source, path, reader.layout, reader)
    except CorruptDataError as error:
        key = join_key(path, ARRAY_DOCUMENT[zarr_format])
        raise CorruptDataError(
            f"{source.name}/{key} {error}.", remedy="Restore it from a copy."
        ) from error


class ChunkedArray:
    """A zarr array that reads boxes of voxels; array-like for whole indices.

    Made by `open_array`. Safe to read from many threads at once. Decoded chunks are
    kept in `cache` until `forget_chunks`.

    Parameters
    ----------
    source, path
        Where the array is.
    layout
        How it is stored.
    reader
        Reads by zarr-python, for what cannot be decoded here.
    lent
        Whether the layout is that of another array, not read from this one: the fields
        of a plate are alike, and opening thousands of documents takes long. Where a
        chunk is missing, the document is read and compared; another layout is a
        `ChunkError`.
    """

    def __init__(
        self,
        source: Store,
        path: str,
        layout: ArrayLayout,
        reader: ZarrReader | None = None,
        *,
        lent: bool = False,
    ) -> None:
        self.source = source
        self.path = path
        self.layout = layout
        read = None if reader is None else reader.read
        self.objects = ArrayObjects(source, path, layout, lent, read)

    def __reduce__(self) -> tuple[Any, ...]:
        # zarr's array holds locks and an event loop, which cannot be pickled.
        if not self.direct:
            return open_array, (self.source, self.path, self.zarr_format)
        return ChunkedArray, (self.source, self.path, self.layout)

    def __repr__(self) -> str:
        return (
            f"<ChunkedArray {join_key(self.source.name, self.path)} "
            f"{self.shape} {self.dtype}>"
        )

    @property
    def shape(self) -> Shape:
        """Length of each axis in voxels."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        """Number of voxels."""
        return math.prod(self.layout.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of what `read` returns: native byte order."""
        return self.layout.dtype.newbyteorder("=")

    @property
    def chunks(self) -> Shape:
        """Shape of a chunk; of the inner one where sharded."""
        return self.layout.chunks

    @property
    def shards(self) -> Shape | None:
        """Shape of a stored object that holds several chunks, or None."""
        return self.layout.shards

    @property
    def fill_value(self) -> Any:
        """Value of voxels that are not stored."""
        return self.layout.fill_value

    @property
    def zarr_format(self) -> int:
        """2 or 3."""
        return self.layout.zarr_format

    @property
    def direct(self) -> bool:
        """Return whether chunks are decoded here, not by zarr-python."""
        return self.objects.reader is None

    @property
    def has_lent_layout(self) -> bool:
        """Return whether the layout is that of another array; see `lent`."""
        return self.objects.lent

    @property
    def token(self) -> int:
        """Key of the decoded chunks in caches; a new one after `forget_chunks`."""
        return self.objects.token

    def forget_chunks(self) -> None:
        """Forget decoded chunks, after the array was written."""
        self.objects.forget_chunks()

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("A zarr array cannot be viewed without copying it.")
        everything = self.read(whole_box(self.shape))
        return everything if dtype is None else everything.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        """Read what integers, slices of step 1 and ``...`` select, as numpy would.

        Raises
        ------
        IndexError
            For any other index.
        """
        window = ArrayWindow.whole_source(self).select_index(index)
        if window is None:
            raise IndexError("only integers and slices of step 1 can be read")
        return window.read()[()]

    def read(
        self,
        box: Sequence[tuple[int, int]],
        on_error: OnError | None = None,
        keep: bool = True,
        out: npt.NDArray[Any] | None = None,
        stops: Callable[[], bool] | None = None,
    ) -> npt.NDArray[Any]:
        """Read a box of voxels; what is not stored is the fill value.

        Parameters
        ----------
        box
            ``(start, stop)`` per axis, inside the array.
        on_error
            Called in this thread once for each chunk that cannot be read; its part
            of the box is the fill value then.
        keep
            Whether `cache` keeps the decoded chunks; False for what is read only once.
        out
            Where to put the voxels: shape of the box, dtype `dtype`; partly filled
            after an error. None for a new array.
        stops
            Asked before each chunk whether nobody needs the voxels any more; what is
            returned then is of no use.

        Returns
        -------
        ndarray
            `out`, or a new array: shape of the box, dtype `dtype`.

        Raises
        ------
        ChunkError
            Without `on_error`: a chunk is damaged or unreadable, or the array was
            deleted since it was opened.
        """
        # Plain integers: those of numpy would overflow in the products below.
        bounds = tuple((int(start), int(stop)) for start, stop in box)
        if len(bounds) != self.ndim:
            raise ValueError(f"a box of {len(bounds)} axes for {self.ndim}")
        region = RegionRead(self.objects, bounds, on_error is None, keep, out, stops)
        if region.out.size:
            region.read_chunks()
        # Here and not in the threads that read: `on_error` may belong to the main
        # thread.
        for error in region.failures:
            if on_error is None:
                raise error
            on_error(error)
        return region.out

    @property
    def has_failed(self) -> bool:
        """Return whether there are chunks that could not be read."""
        return bool(self.objects.failed)

    def failed_parts(self, box: Box) -> dict[Box, ChunkError]:
        """Give the chunks, or shards, of a box that could not be read, and why.

        Those that were read since, or are not stored, have not failed.
        """
        return {
            failed: error
            for failed, error in tuple(self.objects.failed.items())
            if all(low < high for low, high in intersect_boxes(failed, box))
        }

    def cached_chunk(self, cell: Shape) -> np.ndarray[Any, Any] | None:
        """Return a decoded chunk of a remote array if it is in memory.

        It has the shape of a chunk also where the array ends in it.
        """
        return cached_chunk(self.objects, cell)
