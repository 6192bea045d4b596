"""Changes arrays one stored object at a time: read, change, write.

A *unit* is one stored object: a chunk, or a shard with its chunks. A shard is not
decoded as a whole: it takes twice the memory of its bytes, and that of one decoded
chunk.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import (
    ConflictError,
    CorruptDataError,
    NodeNotFoundError,
    UnsupportedError,
)
from napari_ngff.store.arrays.boxes import (
    Box,
    box_of,
    box_shape,
    cells_in,
    slice_inside,
)
from napari_ngff.store.arrays.chunk_layout import ABSENT, ArrayLayout, Shape
from napari_ngff.store.arrays.chunked_array import ChunkedArray, make_array
from napari_ngff.store.arrays.encoding import ChunkEncoder, encode_shard
from napari_ngff.store.arrays.stored_objects import ArrayObjects, join_key
from napari_ngff.store.limits import ARRAY_DOCUMENT
from napari_ngff.store.store import TRIES, conflict_error

if TYPE_CHECKING:
    from napari_ngff.store.sources.blob import Blob, Revision
    from napari_ngff.store.store import NewTree, Revisions, Secure, Transaction

Array = npt.NDArray[Any]

Change = Callable[["Box", Array], bool]
"""Called with the box of a cell, cut at the array's border, and its voxels, which it
changes in place; returns whether it changed any."""


MEMORY = 48 * 2**20
"""Bytes that the decoded chunks of all threads take at most, unless one takes more."""

COPIES = 6
"""Copies of a decoded chunk that one thread holds at the same time."""


@dataclass(frozen=True, slots=True)
class EncodedVoxels:
    """Voxels of a cell as they are stored.

    Attributes
    ----------
    layout
        How they are decoded.
    data
        The stored bytes of its chunk.
    shape
        Of the cell, cut at the array's border.
    """

    layout: ArrayLayout
    data: bytes
    shape: Shape

    def decode_voxels(self) -> Array:
        """Decode the voxels: native byte order, writable."""
        chunk = self.layout.decode_chunk(self.data)
        part = chunk[tuple(map(slice, self.shape))]
        return part.astype(self.layout.dtype.newbyteorder("="))


Keep = Callable[["Shape", "Array | EncodedVoxels"], None]
"""Called with the position of a cell and its voxels before they are overwritten."""


class ArrayWriter:
    """Write into one array; safe to use from several threads, one per unit.

    Parameters
    ----------
    array
        What it has read and cached is not affected: see `ChunkedArray.forget_chunks`.
    transaction
        Where to write; the caller commits it.
    keep
        Called before voxels are overwritten; see `Keep`.
    secure
        See `Secure`.

    Attributes
    ----------
    unit
        Shape of a stored object in voxels.
    revisions
        Of the objects that were read or written so far, as they are now: key ->
        revision.

    Raises
    ------
    UnsupportedError
        Where only zarr-python can decode the array.
    NodeNotFoundError
        Where it is gone.
    """

    def __init__(
        self,
        array: ChunkedArray,
        transaction: Transaction,
        keep: Keep | None = None,
        secure: Secure | None = None,
    ) -> None:
        require_encodable(array)
        self.array = array
        self._keep = keep
        self._secure = secure
        self.transaction = transaction
        source = self.transaction.source
        self.unit: Shape = array.shards or array.chunks
        self.revisions: dict[str, Revision | None] = {}
        self._objects = ArrayObjects(source, array.path, array.layout)
        self._document = join_key(array.path, ARRAY_DOCUMENT[array.zarr_format])
        raw = source.get(self._document)
        if raw is None:
            raise self._missing_error()
        self._raw = raw
        self._require_layout(raw)
        # From the document as it is now, since a layout does not keep all settings of
        # its codecs (level, shuffle).
        self._encoder = ChunkEncoder.from_document(raw, array.layout)
        # As stored already: otherwise old and new chunks would have different keys.
        self._objects.find_separator()

    def _missing_error(self) -> NodeNotFoundError:
        return NodeNotFoundError(
            f"Array missing: {self.transaction.root}/{self.array.path} was moved or"
            " deleted.",
            remedy="Restore it, and save again.",
        )

    def _require_layout(self, raw: bytes) -> None:
        """Refuse an array whose document describes other chunks by now."""
        array = self.array
        source = self.transaction.source
        now = make_array(source, array.path, array.zarr_format, raw)
        if not now.layout.is_stored_like(array.layout):
            raise ConflictError(
                f"{self.transaction.root}/{array.path} was replaced by another program"
                f" since it was opened. It was {_describe(array)}; it is"
                f" {_describe(now)} now. It is left as it is.",
                remedy="Open the image again.",
            )

    def unit_key(self, unit: Shape) -> str:
        """Return the key of a unit below the hierarchy's root."""
        return join_key(self.array.path, self._objects.object_key(unit))

    def list_revisions(self) -> dict[str, Revision | None]:
        """Return the revision of each object of the array, None where there is none."""
        counts = (-(-n // m) for n, m in zip(self.array.shape, self.unit, strict=True))
        keys = map(self.unit_key, itertools.product(*map(range, counts)))
        return {key: self.transaction.find_revision(key) for key in keys}

    def cell_box(self, cell: Shape) -> Box:
        """Return the box of a cell, cut at the border."""
        return box_of(cell, self.array.chunks, self.array.shape)

    def unit_of(self, cell: Shape) -> Shape:
        """Return the position of the unit that holds a cell."""
        return tuple(
            i * n // m
            for i, n, m in zip(cell, self.array.chunks, self.unit, strict=True)
        )

    def key_of(self, cell: Shape) -> str:
        """Return the key of the unit that holds a cell."""
        return self.unit_key(self.unit_of(cell))

    def keys_in(self, boxes: Iterable[Box]) -> set[str]:
        """Return the keys of all units that boxes meet."""
        return {
            self.unit_key(unit) for box in boxes for unit in cells_in(box, self.unit)
        }

    def by_unit(self, cells: Iterable[Shape]) -> dict[Shape, set[Shape]]:
        """Group cells by the unit that holds them, in the order of the units."""
        units: dict[Shape, set[Shape]] = {}
        for cell in sorted(cells):
            units.setdefault(self.unit_of(cell), set()).add(cell)
        return units

    def update_cells(
        self,
        unit: Shape,
        cells: Iterable[Shape],
        change: Change,
        expected: Revision | bool | None = True,
    ) -> bool:
        """Change cells of one unit.

        Parameters
        ----------
        unit
            Its position in the grid of stored objects.
        cells
            Positions of its cells in the grid of cells of the array.
        change
            See `Change`; called once for each of `cells`.
        expected
            Revision in which the object was read, None for absent; True for any.

        Returns
        -------
        bool
            Whether the object was written, or removed because only fill values are
            left.

        Raises
        ------
        CorruptDataError
            Where bytes that are there cannot be read; they stay as they are.
        ConflictError
            Where the object has another revision than expected.
        OSError
            Where it cannot be written.
        """
        key = self.unit_key(unit)
        self.transaction.refresh()
        blob = self._read_unit(unit)
        before = None if blob is None else blob.revision
        if expected is not True and before != expected:
            raise conflict_error(self.transaction.root, [key])
        # Also after an error: by then the voxels may have been given to `keep`.
        self.revisions[key] = before
        changed = self._update_unit(key, blob, cells, change)
        # What was changed waits now, and this is the revision it will have. The next
        # save compares with it.
        now = self.transaction.find_revision(key) if changed else before
        self.revisions[key] = now
        return changed

    def _put_object(
        self, key: str, before: Revision | None, data: bytes | None
    ) -> None:
        # A folder that was moved meanwhile must not be made again with some chunks. For
        # a bucket the commit asks, once for all chunks.
        asks = not self._objects.source.traits.is_remote
        if asks and not self._objects.is_present():
            raise self._missing_error()
        self.transaction.expect_document(self._document, self._raw)
        self.transaction.note_revision(key, before)
        if data is None:
            self.transaction.delete(key, self._secure)
        else:
            self.transaction.put(key, data, self._secure)

    def _read_unit(self, unit: Shape) -> Blob | None:
        """Read a unit; None where the array exists and has no such object."""
        blob = self._objects.read_object(unit)
        if blob is None and not self._objects.is_present():
            # Otherwise fill values would be kept as what was there before.
            raise self._missing_error()
        return blob

    def _keep_before(self, cell: Shape, data: bytes | None) -> None:
        """Pass the voxels that are about to be overwritten to `keep`."""
        if self._keep is None:
            return
        layout = self.array.layout
        shape = box_shape(self.cell_box(cell))
        if data is None:
            # A view of one value, not an array of them.
            fill = np.asarray(layout.fill_value, self.array.dtype)
            self._keep(cell, np.broadcast_to(fill, shape))
            return
        encoded = EncodedVoxels(layout, data, shape)
        # As stored where it is compressed: that takes less memory than the voxels.
        packed = any(name != "crc32c" for name, _ in layout.steps)
        self._keep(cell, encoded if packed else encoded.decode_voxels())

    def _update_unit(
        self, key: str, blob: Blob | None, cells: Iterable[Shape], change: Change
    ) -> bool:
        index, ndim = self.array.layout.index, self.array.ndim
        # Without shards a unit has one chunk, itself.
        grid = (1,) * ndim if index is None else index.grid
        # Other chunks of a shard are copied as stored: only changed ones are decoded
        # and encoded.
        chunks = {} if blob is None else self._split_unit(key, blob.data)
        changed = False
        for cell in cells:
            within = tuple(i % n for i, n in zip(cell, grid, strict=True))
            old = chunks.get(within)
            chunk, box = self._decode_chunk(key, old), self.cell_box(cell)
            if not change(box, chunk[slice_inside(box, box)]):
                continue
            self._keep_before(cell, old)
            changed = True
            data = self._encoder.encode_chunk(chunk)
            if data is None:
                chunks.pop(within, None)
            else:
                chunks[within] = data
        if changed:
            whole = chunks.get((0,) * ndim)
            data = encode_shard(index, chunks) if index else whole
            self._put_object(key, None if blob is None else blob.revision, data)
        return changed

    def _split_unit(self, key: str, data: bytes) -> dict[Shape, bytes]:
        """Split a unit into its chunks, which stay encoded."""
        grid = self.array.layout.index
        if grid is None:
            return {(0,) * self.array.ndim: data}
        # The specification of `sharding_indexed` puts the index at the end unless
        # `index_location` says "start".
        head = slice(0, grid.nbytes) if grid.at_start else slice(-grid.nbytes, None)
        try:
            entries = grid.decode_index(data[head])
        except CorruptDataError as error:
            raise self._chunk_error(key, f"the shard's index {error}") from error
        chunks = {}
        for position in itertools.product(*map(range, grid.grid)):
            offset, length = entries[position].tolist()
            if offset == length == ABSENT:
                continue
            if offset + length > len(data):
                raise self._chunk_error(key, "it ends before a chunk of its index")
            chunks[position] = data[offset : offset + length]
        return chunks

    def _decode_chunk(self, key: str, data: bytes | None) -> Array:
        """Decode a chunk, or fill one where there is none: native byte order,
        writable.
        """
        layout = self.array.layout
        if data is None:
            return np.full(layout.chunks, layout.fill_value, self.array.dtype)
        try:
            # A copy: what was decoded is read-only, and may have the byte order of the
            # file.
            return layout.decode_chunk(data).astype(self.array.dtype, order="C")
        except CorruptDataError as error:
            raise self._chunk_error(key, str(error)) from error

    def _chunk_error(self, key: str, reason: str) -> Exception:
        below = key.removeprefix(f"{self.array.path}/")
        return self._objects.chunk_error(below, CorruptDataError(reason))

    @property
    def concurrency(self) -> int:
        """Useful number of units at the same time."""
        room = MEMORY // (COPIES * self.array.layout.chunk_nbytes)
        return max(1, min(room, self._objects.source.traits.at_once))


def replace_unchanged(
    transaction: Transaction,
    path: str,
    make: Callable[[NewTree], Revisions],
    *,
    kept: str = "",
) -> None:
    """Replace an array by one that is made of objects which others may change.

    Parameters
    ----------
    transaction
        Of the hierarchy.
    path
        Of the array.
    make
        Makes the new array; returns the objects that it was made of, with the revisions
        that they had before they were read. Called again if one was changed meanwhile,
        or where it raises a ConflictError.
    kept
        See `NewTree.commit`.

    Raises
    ------
    ConflictError
        Where others change these objects again and again; the array stays as it is.
    OSError
        Where the system refuses; the array stays as it is.
    """
    for tries_left in reversed(range(TRIES)):
        with transaction.replace_tree(path, documents=[path]) as tree:
            try:
                tree.commit(kept=kept, expected=make(tree))
                return
            except ConflictError:
                if not tries_left:
                    raise


def require_encodable(array: ChunkedArray) -> None:
    """Refuse an array that zarr-python alone can decode: it is only read.

    Raises
    ------
    UnsupportedError
        With its codecs.
    """
    if not array.direct:
        names = ", ".join(array.layout.codecs)
        msg = f"{array} can only be read (codecs: {names})."
        raise UnsupportedError(msg, remedy="Convert it, with --codec zstd.")


def _describe(array: ChunkedArray) -> str:
    """Describe how an array is stored: "uint8, shape 64 x 80, chunks 32 x 40"."""
    shape, chunks = (" x ".join(map(str, each)) for each in (array.shape, array.chunks))
    return f"{array.dtype}, shape {shape}, chunks {chunks}"
