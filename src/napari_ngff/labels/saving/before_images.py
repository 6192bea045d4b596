"""Blocks of a file as they were before edits were saved into it (before-images).

A canvas shows its edits over the pyramid *as it was opened*, also after they were
saved. So every step can be undone, and a save computes each block anew, from the
original block and all edits. No edit is ever applied to its own result.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import threading
import weakref
import zlib
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numcodecs import Zstd

from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.store.arrays.array_writer import EncodedVoxels
from napari_ngff.store.arrays.boxes import (
    box_of,
    box_shape,
    cells_in,
    intersect_boxes,
    slice_inside,
)
from napari_ngff.store.arrays.chunk_layout import ArrayLayout, ChunkKeys
from napari_ngff.store.arrays.chunked_array import ChunkedArray
from napari_ngff.store.arrays.lazy_array import ArraySource, ArrayWindow
from napari_ngff.store.compression import from_zstd
from napari_ngff.store.limits import check_chunk, parse_json
from napari_ngff.store.pyramids.pyramid import LevelSource, OnError, innermost_source
from napari_ngff.store.write.append_log import AppendLog
from napari_ngff.store.write.fsync import flush_open_file
from napari_ngff.store.write.replace_file import nameless_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from napari_ngff.labels.level_grid import Box
    from napari_ngff.labels.saving.snapshot import Snapshot
    from napari_ngff.store.arrays.boxes import AxisOrder
    from napari_ngff.store.pyramids.level_reduction import LevelReduction
    from napari_ngff.store.store import Store

Array = npt.NDArray[Any]
Cell = tuple[int, ...]
"""Position of a cell in the grid of a level, per axis."""

CODEC = Zstd(1)
"""Level 1: labels compress well at any level, and this runs during a save."""


LONGEST = 1 << 20
"""Bytes of the line before a block; those of ours have some hundred."""


@dataclass(frozen=True, slots=True)
class _BlockRecord:
    """Where a block is kept; `layout` is None if this class encoded it."""

    file: IO[bytes] | None
    offset: int
    length: int
    shape: tuple[int, ...]
    dtype: str
    constant: int | None
    layout: ArrayLayout | None


class BeforeImages:
    """Overwritten blocks, compressed in a file that only grows.

    A block is kept as its file held it where that was compressed: it is neither decoded
    nor encoded for this. Safe to use from several threads. In memory there are some 300
    bytes per block. A record that a crash cut off is left out when the file is opened
    again.

    Parameters
    ----------
    opener
        Opens the file for reading and appending, in binary and without a buffer, when
        there is something to keep; it is closed with this object. By default a
        temporary file, which is deleted when it is closed.
    durable
        Whether `flush_blocks` has to bring them to the disk.
    on_failure
        Called with the error where that file cannot be opened or written. Blocks go
        into a temporary file from then on. By default the error is raised.
    """

    def __init__(
        self,
        opener: Callable[[], IO[bytes]] | None = None,
        durable: bool = False,
        on_failure: Callable[[OSError], None] | None = None,
    ) -> None:
        self._opener = opener or nameless_file
        self._on_failure = on_failure
        self._opened: IO[bytes] | None = None
        self._append_log: AppendLog | None = None
        self._finalizers: list[weakref.finalize[..., Any]] = []
        self._durable = durable
        self._unflushed = False
        self._lock = threading.Lock()
        # A second lock, so that blocks can be kept while others are flushed.
        self._flush_lock = threading.Lock()
        self._records: dict[tuple[int, Cell], _BlockRecord] = {}

    @property
    def _open_log(self) -> IO[bytes]:
        if self._opened is None:
            self._opened = self._opener()
            self._close_with_me(self._opened)
        return self._opened

    def _close_with_me(self, opened: IO[bytes]) -> None:
        finalizer = weakref.finalize(self, opened.close)
        # Finalizers would close the file before the journal writes its last edits; the
        # end of the process closes it, too.
        finalizer.atexit = False
        self._finalizers.append(finalizer)

    def close(self) -> None:
        """Close the file; nothing can be kept or returned any more."""
        for finalizer in self._finalizers:
            finalizer()

    def __contains__(self, place: tuple[int, Cell]) -> bool:
        return place in self._records

    def __len__(self) -> int:
        return len(self._records)

    def put_block(self, level: int, cell: Cell, block: Array | EncodedVoxels) -> None:
        """Keep a block, unless an earlier state of it is kept already."""
        with self._lock:
            # The first one is the original; what follows are results of our own saves.
            if (level, cell) in self._records:
                return
        # A record is a line of JSON and the bytes of the block, so a reader needs no
        # index.
        head: dict[str, Any] = {"level": level, "cell": cell, "shape": block.shape}
        if isinstance(block, EncodedVoxels):
            layout, data = block.layout, block.data
            head |= {
                "dtype": layout.dtype.str,
                "constant": None,
                "chunks": layout.chunks,
                "order": layout.order,
                "steps": layout.steps,
            }
        else:
            first = block.flat[0]
            # Most blocks of labels are background alone, which takes no bytes at all.
            constant = int(first) if (block == first).all() else None
            data = b""
            if constant is None:
                data = bytes(CODEC.encode(np.ascontiguousarray(block)))
            head |= {"dtype": block.dtype.str, "constant": constant}
        # A crash may leave a record of the right length and wrong bytes.
        head |= {"length": len(data), "crc": zlib.crc32(data)}
        # Through the reader of records, so that both ways give the same.
        record = _parse_record(head, 0)
        with self._lock:
            # In the file first: a block that could not be kept must not count as kept,
            # and the caller then does not overwrite it.
            start = self._append_record(head, data)
            self._records[level, cell] = replace(
                record, file=self._open_log, offset=start
            )

    def _append_record(self, head: dict[str, Any], data: bytes) -> int:
        """Write a record; return where its bytes begin."""
        line = json.dumps(head).encode() + b"\n"
        try:
            start = self._write_record(line + data)
        except OSError as error:
            if self._on_failure is None:
                raise
            # Once: if the temporary file fails, too, the save has to stop.
            on_failure, self._on_failure = self._on_failure, None
            # Records before this stay in the old file, which each of them names.
            self._opened, self._append_log, self._durable = nameless_file(), None, False
            self._close_with_me(self._opened)
            start = self._write_record(line + data)
            on_failure(error)
        self._unflushed = True
        return start + len(line)

    def _write_record(self, record: bytes) -> int:
        if self._append_log is None:
            self._append_log = AppendLog(self._open_log)
        return self._append_log.append(record)

    def flush_blocks(self) -> None:
        """Wait until all blocks are on the disk."""
        if not self._durable:
            return
        # A second caller waits: what the first is flushing is not on the disk yet.
        with self._flush_lock:
            with self._lock:
                waiting, self._unflushed = self._unflushed, False
            if not waiting:
                return
            try:
                flush_open_file(self._open_log)
            except BaseException:
                # The next call has to flush these blocks again.
                self._unflushed = True
                raise

    def get_block(self, level: int, cell: Cell) -> Array | None:
        """Return a block as it was; None where it was never overwritten."""
        record = self._records.get((level, cell))
        if record is None:
            return None
        # In the byte order of the machine, as arrays are read, whatever the file has.
        dtype = np.dtype(record.dtype).newbyteorder("=")
        if record.constant is not None:
            return np.full(record.shape, record.constant, dtype)
        with self._lock:
            # One position of the file for all threads.
            file = record.file or self._open_log
            file.seek(record.offset)
            data = file.read(record.length)
        if record.layout is not None:
            return EncodedVoxels(record.layout, data, record.shape).decode_voxels()
        raw = from_zstd(data, math.prod(record.shape) * dtype.itemsize)
        # A copy: `frombuffer` is read-only, and edits are applied in place.
        return np.frombuffer(raw, dtype).reshape(record.shape).copy()

    def drop_block(self, level: int, cell: Cell) -> None:
        """Forget a block, so that the one in the file counts again."""
        with self._lock:
            # The file only grows: a record without a shape says that the block is
            # dropped.
            if self._records.pop((level, cell), None) is not None:
                head = {"level": level, "cell": cell, "length": 0, "crc": 0}
                self._append_record(head, b"")

    def list_cells(self, level: int) -> list[Cell]:
        """List the blocks of a level that were overwritten."""
        with self._lock:
            return [cell for number, cell in self._records if number == level]

    def load(self) -> None:
        """Read the records of the file, up to where a crash may have cut it off."""
        # A second, buffered file object on the same open file: lines are read byte by
        # byte from one without a buffer.
        with os.fdopen(os.dup(self._open_log.fileno()), "rb") as file:
            end = self._load_records(file)
        # Later records must not follow a broken one, behind which nothing is read.
        self._open_log.truncate(end)

    def _load_records(self, file: IO[bytes]) -> int:
        """Read all complete records; return where the last one ends."""
        file.seek(0)
        end, size = 0, os.fstat(file.fileno()).st_size
        while line := file.readline(LONGEST):
            try:
                head = parse_json(line)
                start = file.tell()
                if not 0 <= head["length"] <= size - start:
                    break
                if zlib.crc32(file.read(head["length"])) != head["crc"]:
                    break
                key = head["level"], tuple(head["cell"])
                record = _parse_record(head, start) if "shape" in head else None
                if record is not None:
                    _check_record(key, record)
            except Exception:  # noqa: BLE001  a file may hold anything
                break
            end = file.tell()
            if record is None:
                self._records.pop(key, None)
                continue
            self._records[key] = replace(record, file=self._opened)
        return end


def _parse_record(head: Mapping[str, Any], offset: int) -> _BlockRecord:
    """Read the line before the bytes of a block."""
    layout = None
    if "steps" in head:
        steps = tuple((str(name), int(size)) for name, size in head["steps"])
        chunks = tuple(head["chunks"])
        order = tuple(head["order"])
        if order in (("C",), ("F",)):  # of files of earlier versions
            order = tuple(range(len(chunks)))[:: 1 if order == ("C",) else -1]
        layout = _chunk_layout(head["dtype"], chunks, order, steps)
    shape = tuple(head["shape"])
    constant = head["constant"]
    return _BlockRecord(
        None, offset, head["length"], shape, head["dtype"], constant, layout
    )


def _check_record(key: tuple[int, Cell], record: _BlockRecord) -> None:
    """Refuse a record that would fail, or fill the memory, when its block is needed."""
    dtype = np.dtype(record.dtype)
    check_chunk(np.broadcast_to(np.empty((), dtype), record.shape).nbytes)
    numbers = (key[0], *key[1], record.constant or 0)
    if dtype.kind not in "iub" or {*map(type, numbers)} != {int}:
        raise ValueError("its values are not labels")


@cache
def _chunk_layout(
    dtype: str,
    chunks: tuple[int, ...],
    order: tuple[int, ...],
    steps: tuple[tuple[str, int], ...],
) -> ArrayLayout:
    """Describe how one chunk is decoded; equal arguments give the same object."""
    kind = np.dtype(dtype)
    return ArrayLayout(
        zarr_format=3,
        shape=chunks,
        dtype=kind,
        chunks=chunks,
        shards=None,
        fill_value=kind.type(0),
        dimension_names=None,
        codecs=(),
        keys=ChunkKeys("", "/"),
        order=order,
        steps=steps,
    )


class BeforeImagesCopy(dict[tuple[int, Cell], Array]):
    """The blocks of a `BeforeImages` for another process, by level and cell."""

    def get_block(self, level: int, cell: Cell) -> Array | None:
        """Return a block as it was; None where it was never overwritten."""
        return super().get((level, cell))

    def list_cells(self, level: int) -> list[Cell]:
        """List the blocks of a level."""
        return [cell for number, cell in self if number == level]


@dataclass(frozen=True, slots=True, eq=False)
class OriginalLevel:
    """A level as it was before anything was saved into it, as an `ArraySource`.

    Attributes
    ----------
    source
        The level as it is.
    before_images
        What was overwritten in it.
    number
        Of the level.
    cell
        Shape of the blocks in `before_images`.
    """

    source: ArraySource
    before_images: BeforeImages | BeforeImagesCopy
    number: int
    cell: tuple[int, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process cannot read our open file, so blocks are pickled as arrays.
        blocks = BeforeImagesCopy()
        for cell in self.before_images.list_cells(self.number):
            block = self.before_images.get_block(self.number, cell)
            if block is not None:
                blocks[self.number, cell] = block
        return OriginalLevel, (self.source, blocks, self.number, self.cell)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of voxels per axis."""
        return self.source.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a voxel."""
        return self.source.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of what is read at once."""
        return self.source.chunks

    def read(self, box: Box) -> Array:
        """Read a rectangle."""
        out = self.source.read(box)
        # Looked at after reading: blocks are kept before they are overwritten, so one
        # that is not kept now had not been overwritten when it was read.
        if not len(self.before_images):
            return out
        ranges = (
            range(a // n, -(-b // n)) for (a, b), n in zip(box, self.cell, strict=True)
        )
        for cell in itertools.product(*ranges):
            block = self.before_images.get_block(self.number, cell)
            if block is None:
                continue
            inside, target = [], []
            for i, n, size, (a, b) in zip(
                cell, self.cell, block.shape, box, strict=True
            ):
                # Along an axis: box from a to b, block `size` voxels from i * n.
                low, high = max(a, i * n), min(b, i * n + size)
                inside.append(slice(low - i * n, high - i * n))
                target.append(slice(low - a, high - a))
            out[tuple(target)] = block[tuple(inside)]
        return out


@dataclass(frozen=True, slots=True)
class KeptLevels:
    """The levels of a label image, and what was overwritten in them.

    Attributes
    ----------
    arrays
        The levels.
    rules
        From each level to the next.
    images
        What was overwritten.
    known
        The edits in each state in which saves can have left a block.
    order
        The file's axis for each of the edits.
    """

    arrays: Sequence[ChunkedArray]
    rules: Sequence[LevelReduction]
    images: BeforeImages
    known: Sequence[Snapshot]
    order: AxisOrder

    @property
    def originals(self) -> list[OriginalLevel]:
        """The levels before our edits, which coarser ones may not contain yet."""
        return [
            OriginalLevel(LevelSource(array), self.images, number, array.chunks)
            for number, array in enumerate(self.arrays)
        ]

    def rebase(self, number: int, cells: Iterable[Cell]) -> None:
        """Let kept blocks be as the file is now, where no edit has changed them.

        Elsewhere they stay the original, which is shown where an edit is undone.
        """
        array = self.arrays[number]
        for cell in cells:
            box = box_of(cell, array.chunks, array.shape)
            kept = self.images.get_block(number, cell)
            self.images.drop_block(number, cell)
            with suppress(CorruptDataError):
                now = array.read(box)
                block = np.where(
                    self.find_edited(number, box), now if kept is None else kept, now
                )
                self.images.put_block(number, cell, block.astype(now.dtype))

    def find_edited(self, number: int, box: Box) -> Array:
        """Find the voxels of a level that follow from edits in the finest one.

        Also from those that were undone, as long as a coarser level may have them.
        """
        if number:
            rule = self.rules[number - 1]
            finer = self.find_edited(number - 1, rule.source_box(box))
            return rule.find_touched(finer, box)
        chunks, shape = self.arrays[0].chunks, self.arrays[0].shape
        edited = np.zeros(box_shape(box), bool)
        for cell in cells_in(box, chunks):
            before = self.images.get_block(0, cell)
            if before is None:
                continue
            whole = box_of(cell, chunks, shape)
            part = intersect_boxes(whole, box)
            for one in self.known:
                painted = one.find_painted(whole, before, self.order)
                edited[slice_inside(part, box)] |= painted[slice_inside(part, whole)]
        return edited


def file_array_of(source: Any) -> tuple[ChunkedArray, tuple[int | None, ...]]:
    """Find the array below a level of a canvas, and how its axes are arranged."""
    order: tuple[int | None, ...] = tuple(range(len(source.shape)))
    # From the outside in, as `LabelWriter._read_through` wraps them.
    if isinstance(source, ArrayWindow):
        order, source = source.order, source.source
    if isinstance(source, OriginalLevel):
        source = source.source
    array = source.array if isinstance(source, LevelSource) else source
    if not isinstance(array, ChunkedArray):
        msg = f"{array} is not an array in a file, and cannot be saved in place."
        raise UnsupportedError(msg)
    return array, order


def on_error_of(source: Any) -> OnError | None:
    """Return the handler for unreadable chunks of a level of a canvas."""
    inner = innermost_source(source)
    return inner.on_error if isinstance(inner, LevelSource) else None


def reopen_array(array: ChunkedArray, source: Store) -> ChunkedArray:
    """Open an array once more, with nothing read yet, as it is in `source`."""
    return ChunkedArray(source, array.path, array.layout)
