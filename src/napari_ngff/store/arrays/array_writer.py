"""Changes arrays one stored object at a time: read, change, write.

An object is a *unit*: a chunk, or a shard with its chunks. It is never held decoded as
a whole where it is a shard; memory is that of its bytes, twice, and of one chunk.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_ngff.errors import (
    ConflictError,
    CorruptDataError,
    NodeNotFoundError,
)
from napari_ngff.store.arrays.boxes import box_of, box_shape, inside
from napari_ngff.store.arrays.chunk_layout import ABSENT
from napari_ngff.store.arrays.encoding import Encoder, encode_shard
from napari_ngff.store.arrays.stored_objects import DOCUMENTS, Objects, join

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunk_layout import Layout, Shape
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.sources.revision import Revision
    from napari_ngff.store.write.transaction import Secure, Transaction

__all__ = ["MEMORY", "ArrayWriter", "Change", "Encoded", "Keep"]

Array = npt.NDArray[Any]

Change = Callable[["Box", Array], bool]
"""Given the box of a cell, cut at the array's border, and its voxels to change in
place; returns whether it changed any."""


MEMORY = 48 * 2**20
"""Bytes that the decoded chunks of all threads take at most, unless one takes more."""

COPIES = 6
"""Of a decoded chunk that are there at once, in each thread."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """Voxels of a cell as a file holds them.

    Attributes
    ----------
    layout
        How they are decoded.
    data
        The stored bytes of its chunk.
    shape
        Of the cell, cut at the array's border.
    """

    layout: Layout
    data: bytes
    shape: Shape

    def decode(self) -> Array:
        """Decode them: native byte order, writable."""
        chunk = self.layout.decode(self.data)
        part = chunk[tuple(map(slice, self.shape))]
        return part.astype(self.layout.dtype.newbyteorder("="))


Seen = tuple[str, "Revision | None"]
"""Key of an object, and the revision in which it was read."""

Keep = Callable[["Shape", "Array | Encoded"], None]
"""Given the position of a cell, and what stood there before it is written."""


class ArrayWriter:
    """Write into one array; safe to use from several threads, one per unit.

    Parameters
    ----------
    array
        What it has read and cached is not affected: see `ChunkedArray.refresh`.
    transaction
        Where to write; for its `commit`.
    keep
        Told what is overwritten before that is done; see `Keep`.
    secure
        See `Secure`.

    Attributes
    ----------
    unit
        Shape of a stored object in voxels.
    cell
        Shape of what is changed at once: a chunk, or what zarr-python writes as one.
    written
        What is in the objects written so far: key -> revision.

    Raises
    ------
    UnsupportedError
        Where the array is nowhere that can be written.
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
        self.array = array
        self._keep = keep
        self._secure = secure
        self.transaction = transaction
        source = self.transaction.source
        self.unit: Shape = array.shards or array.chunks
        self.cell: Shape = array.chunks if array.direct else self.unit
        self.written: dict[str, Revision | None] = {}
        self._objects = Objects(source, array.path, array.layout)
        self._zarr: Any = None
        self._encoder: Encoder | None = None
        if array.direct:
            raw = source.get(join(array.path, DOCUMENTS[array.zarr_format]))
            if raw is None:
                raise self._gone()
            self._encoder = Encoder.of(raw, array.layout)
            self._settle_separator()

    def _gone(self) -> NodeNotFoundError:
        return NodeNotFoundError(
            f"Array missing: {self.transaction.root}/{self.array.path} was moved or"
            " deleted.",
            remedy="Restore it, and save again.",
        )

    def _taken(self, key: str) -> ConflictError:
        return ConflictError(
            f"{self.transaction.root}/{key} was changed by another program since it was"
            " read. It is left as it is."
        )

    def _settle_separator(self) -> None:
        """Find out how keys of v2 are written where the document does not say."""
        if self.array.layout.keys.separator is None and self.array.ndim > 1:
            names = self._objects.source.names(self.array.path) or ()
            folders = [name for name in names if name.isdecimal()]
            self._objects.use_separator("/" if folders else ".")

    def key(self, unit: Shape) -> str:
        """Key of a unit below the hierarchy's root."""
        return join(self.array.path, self._objects.key(unit))

    def box(self, cell: Shape) -> Box:
        """Rectangle of a cell, cut at the border."""
        return box_of(cell, self.cell, self.array.shape)

    def unit_of(self, cell: Shape) -> Shape:
        """Position of the unit that holds a cell."""
        return tuple(
            i * n // m for i, n, m in zip(cell, self.cell, self.unit, strict=True)
        )

    def by_unit(self, cells: Iterable[Shape]) -> dict[Shape, set[Shape]]:
        """Group cells by the unit that holds them, in the order of the units."""
        units: dict[Shape, set[Shape]] = {}
        for cell in sorted(cells):
            units.setdefault(self.unit_of(cell), set()).add(cell)
        return units

    def update(
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
            Whether anything was written, or removed since nothing but the fill value
            was left.

        Raises
        ------
        CorruptDataError
            Where bytes that are there cannot be read; they stay as they are.
        ConflictError
            Where the object has another revision than expected.
        OSError
            Where it cannot be written.
        """
        key = self.key(unit)
        before = self.transaction.revision(key)
        if expected is not True and before != expected:
            raise self._taken(key)
        if self._encoder is None:
            changed = self._update_by_zarr((key, before), cells, change)
        elif self.array.layout.index is None:
            changed = self._update_chunk((key, before), unit, cells, change)
        else:
            changed = self._update_shard((key, before), unit, cells, change)
        if changed:
            self.written[key] = self.transaction.revision(key)
        return changed

    def _put(self, seen: Seen, data: bytes | None) -> None:
        key, before = seen
        if not self._objects.present():
            raise self._gone()
        self.transaction.expect(key, before)
        if data is None:
            self.transaction.delete(key, self._secure)
        else:
            self.transaction.put(key, data, self._secure)

    def _whole(self, unit: Shape) -> bytes | None:
        """Read an object; None where there is none in an array that is there."""
        data = self._objects.whole(unit)
        if data is None and not self._objects.present():
            raise self._gone()  # or its absence would be kept as what was there
        return data

    def _kept(self, cell: Shape, data: bytes | None) -> None:
        """Tell what is about to be overwritten, as it is stored where that is small."""
        if self._keep is None:
            return
        layout = self.array.layout
        shape = box_shape(self.box(cell))
        if data is None:
            fill = np.asarray(layout.fill_value, self.array.dtype)
            self._keep(cell, np.broadcast_to(fill, shape))
            return
        encoded = Encoded(layout, data, shape)
        packed = any(name != "crc32c" for name, _ in layout.steps)
        self._keep(cell, encoded if packed else encoded.decode())

    def _update_chunk(
        self,
        seen: Seen,
        unit: Shape,
        cells: Iterable[Shape],
        change: Change,
    ) -> bool:
        if unit not in cells:
            return False
        data = self._whole(unit)
        chunk = self._decoded(seen[0], data)
        if not self._change(chunk, unit, change):
            return False
        self._kept(unit, data)
        assert self._encoder is not None
        self._put(seen, self._encoder.encode(chunk))
        return True

    def _update_shard(
        self,
        seen: Seen,
        unit: Shape,
        cells: Iterable[Shape],
        change: Change,
    ) -> bool:
        assert self._encoder is not None
        grid = self.array.layout.index
        assert grid is not None
        chunks = self._stored(seen[0], unit)
        changed = False
        for cell in cells:
            within = tuple(i % n for i, n in zip(cell, grid.grid, strict=True))
            old = chunks.get(within)
            chunk = self._decoded(seen[0], old)
            if not self._change(chunk, cell, change):
                continue
            self._kept(cell, old)
            changed = True
            data = self._encoder.encode(chunk)
            if data is None:
                chunks.pop(within, None)
            else:
                chunks[within] = data
        if changed:
            self._put(seen, encode_shard(grid, chunks))
        return changed

    def _stored(self, key: str, unit: Shape) -> dict[Shape, bytes]:
        """Take a shard apart; its chunks stay encoded."""
        grid = self.array.layout.index
        assert grid is not None
        data = self._whole(unit)
        if data is None:
            return {}
        head = slice(0, grid.nbytes) if grid.at_start else slice(-grid.nbytes, None)
        try:
            entries = grid.decode(data[head])
        except CorruptDataError as error:
            raise self._error(key, f"the shard's index {error}") from error
        chunks = {}
        for position in itertools.product(*map(range, grid.grid)):
            offset, length = entries[position].tolist()
            if offset == length == ABSENT:
                continue
            if offset + length > len(data):
                raise self._error(key, "it ends before a chunk of its index")
            chunks[position] = data[offset : offset + length]
        return chunks

    def _decoded(self, key: str, data: bytes | None) -> Array:
        """Decode a chunk; the fill value where there is none. Native and writable."""
        layout = self.array.layout
        if data is None:
            return np.full(layout.chunks, layout.fill_value, self.array.dtype)
        try:
            return layout.decode(data).astype(self.array.dtype, order="C")
        except CorruptDataError as error:
            raise self._error(key, str(error)) from error

    def _error(self, key: str, reason: str) -> Exception:
        below = key.removeprefix(f"{self.array.path}/")
        return self._objects.error(below, CorruptDataError(reason))

    def _change(self, chunk: Array, cell: Shape, change: Change) -> bool:
        box = self.box(cell)
        return change(box, chunk[inside(box, box)])

    def _update_by_zarr(
        self, seen: Seen, cells: Iterable[Shape], change: Change
    ) -> bool:
        """Let zarr-python read and write what only it can encode."""
        import zarr

        from napari_ngff.store.arrays.zarr_adapter import TransactionStore

        if self._zarr is None:
            self._zarr = zarr.open_array(
                store=TransactionStore(self.transaction, self._secure),
                path=self.array.path,
                mode="r+",
                zarr_format=self.array.layout.zarr_format,
            )
        changed = False
        for cell in cells:
            box = self.box(cell)
            region = tuple(slice(*span) for span in box)
            try:
                block = np.array(self._zarr[region])
            except OSError:  # of the source; says more by itself
                raise
            # Codecs of other packages raise anything on damaged bytes.
            except Exception as error:
                raise self._error(self.key(self.unit_of(cell)), str(error)) from error
            before = block.copy()
            if change(box, block):
                if self._keep is not None:
                    self._keep(cell, before)
                self.transaction.expect(*seen)
                self._zarr[region] = block
                changed = True
        return changed

    @property
    def concurrency(self) -> int:
        """How many units at once pay; zarr-python has threads of its own."""
        if not self.array.direct:
            return 1
        room = MEMORY // (COPIES * self.array.layout.chunk_nbytes)
        return max(1, min(room, self._objects.source.concurrency))
