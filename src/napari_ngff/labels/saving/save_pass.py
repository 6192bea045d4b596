"""One pass of a save: level 0 from the edits, each other level from the next finer.

Only blocks that edits touch are read, and of coarser levels only those whose finer
blocks came out differently.

Parts of coarser levels are kept that were reduced while finer blocks were in memory: a
block that was just written need not be read again for the next level. Parts are
compressed where room gets scarce; where there is none left, blocks are read again.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numcodecs import Zstd

from napari_ngff.errors import ConflictError, CorruptDataError
from napari_ngff.labels.saving.before_images import (
    OriginalLevel,
    reopen_array,
)
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.boxes import cell_at, intersect_boxes, slice_inside
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.threads import share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari_ngff.labels.level_grid import Box
    from napari_ngff.labels.saving.before_images import BeforeImages
    from napari_ngff.labels.saving.level_rules import LevelRule
    from napari_ngff.labels.saving.save_run import SaveRun
    from napari_ngff.labels.saving.snapshot import Snapshot
    from napari_ngff.store.arrays.boxes import AxisOrder, Cell
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.pyramids.level_reduction import LevelReduction
    from napari_ngff.store.sources.revision import Revision
    from napari_ngff.store.write.transaction import Secure, Transaction

__all__ = [
    "DirtyCells",
    "LabelFiles",
    "ReductionCache",
    "SavePass",
]


Array = npt.NDArray[Any]

ROOM = 16 * 2**20
"""Bytes of all parts together. From a quarter of that on they are compressed."""

CODEC = Zstd(1)
"""Level 1: faster than reading the block again."""


@dataclass(frozen=True, slots=True)
class _CachedPart:
    box: Box
    dtype: np.dtype[Any]
    packed: bool
    data: bytes


class ReductionCache:
    """The parts of one save; safe to use from several threads.

    Parameters
    ----------
    reductions
        From each level to the next.
    room
        Bytes for all parts.
    """

    def __init__(self, reductions: Sequence[LevelReduction], room: int = ROOM) -> None:
        self._reductions = reductions
        self._room = room
        self._plain = room - room // 4
        self._full = False
        self._parts: dict[tuple[int, Cell], _CachedPart] = {}
        self._lock = threading.Lock()

    def add_block(self, number: int, cell: Cell, box: Box, block: Array) -> None:
        """Reduce a new block for the next level, if it needs no other block for that.

        Parameters
        ----------
        number
            Of its level.
        cell, box
            Its place there.
        block
            The new voxels.
        """
        # Without the lock: at worst a part is made in vain, or one more is read.
        if self._full or number == len(self._reductions):
            return
        reduction = self._reductions[number]
        target = reduction.target_box(box)
        if target is None:
            return
        sources = reduction.source_box(target)
        # A voxel that also needs a neighbouring block, which may not be written yet.
        if intersect_boxes(sources, box) != sources:
            return
        part = reduction.reduce(block[slice_inside(sources, box)], target)
        raw = np.ascontiguousarray(part)
        packed = self._room - raw.nbytes < self._plain
        data = bytes(CODEC.encode(raw)) if packed else raw.tobytes()
        with self._lock:
            self._full = len(data) > self._room
            if not self._full:
                self._room -= len(data)
                self._parts[number, cell] = _CachedPart(target, raw.dtype, packed, data)

    def get_part(self, number: int, cell: Cell, part: Box) -> Array | None:
        """Return a part of the next level; None if it has to be read.

        Parameters
        ----------
        number, cell
            Place of the block that it was made from.
        part
            Of the next level, inside of what the block reaches.
        """
        # Without the lock: one look-up in a dict is atomic.
        cached = self._parts.get((number, cell))
        if cached is None:
            return None
        shape = [stop - start for start, stop in cached.box]
        raw = CODEC.decode(cached.data) if cached.packed else cached.data
        pixels = np.frombuffer(raw, cached.dtype).reshape(shape)
        return pixels[slice_inside(part, cached.box)]

    def drop_blocks(self, number: int, cells: Iterable[Cell]) -> None:
        """Forget the parts of blocks that were not written after all."""
        with self._lock:
            for cell in cells:
                self._drop_part(number, cell)

    def drop_level(self, number: int) -> None:
        """Forget the parts of a level's blocks, after the next level was written."""
        with self._lock:
            for level, cell in list(self._parts):
                if level == number:
                    self._drop_part(level, cell)

    def _drop_part(self, number: int, cell: Cell) -> None:
        part = self._parts.pop((number, cell), None)
        if part is not None:
            self._room += len(part.data)
            self._full = False


@dataclass(slots=True)
class DirtyCells:
    """Cells of all levels that are still to be written.

    Attributes
    ----------
    pending
        Cells of level 0.
    stale
        For each coarser level, the cells of the next finer one that changed and are
        not in it yet; for level 0 nothing.
    doubted
        Those of `pending` that no edit is known to touch; they are looked at, but not
        counted as saved blocks.
    """

    pending: set[Cell]
    stale: list[set[Cell]]
    doubted: set[Cell] = field(default_factory=set)

    @classmethod
    def of_levels(cls, levels: int) -> DirtyCells:
        """Return an object without any cells."""
        return cls(set(), [set() for _ in range(levels)])

    def __bool__(self) -> bool:
        return bool(self.pending) or any(self.stale)

    def add_cells(self, cells: Iterable[Cell]) -> None:
        """Add cells of level 0 that edits touch."""
        wanted = set(cells)
        self.pending |= wanted
        self.doubted -= wanted

    @property
    def wanted_cells(self) -> frozenset[Cell]:
        """Cells of level 0 that edits touch and that are not written yet."""
        return frozenset(self.pending) - self.doubted

    def recheck_written(self, retained: BeforeImages) -> None:
        """Look again at all cells that were ever overwritten."""
        doubted = set(retained.list_cells(0)) - self.pending
        self.doubted |= doubted
        self.pending |= doubted
        for number in range(1, len(self.stale)):
            self.stale[number].update(retained.list_cells(number - 1))


@dataclass(frozen=True, slots=True)
class LabelFiles:
    """The arrays of a label image, and how they are written.

    Attributes
    ----------
    arrays
        Its levels.
    order
        The file's axis for each of the canvas.
    rules
        From each level to the next.
    transaction
        Writes them.
    revisions
        Of the objects that were read: key -> revision.
    secure
        See `Secure`.
    """

    arrays: tuple[ChunkedArray, ...]
    order: AxisOrder
    rules: tuple[LevelRule, ...]
    transaction: Transaction
    revisions: dict[str, Revision | None]
    secure: Secure


@dataclass(slots=True)
class SavePass:
    """Writes the dirty cells of all levels; see the top of the module.

    Attributes
    ----------
    files
        The label image that is written.
    before_images
        Keeps what is overwritten.
    dirty
        What to write; what is done is taken out of it.
    snapshot
        The edits.
    state
        Progress and result of the save.
    """

    files: LabelFiles
    before_images: BeforeImages
    dirty: DirtyCells
    snapshot: Snapshot
    state: SaveRun
    _reductions: ReductionCache = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._reductions = ReductionCache([rule.reduction for rule in self.files.rules])

    def write_levels(self) -> None:
        """Write dirty cells level by level until the end or a cancel."""
        self._write_finest()
        for number in range(1, len(self.files.arrays)):
            # A level follows from the one just written, so never two at a time.
            if self.state.check_cancel():
                self._write_coarser(number)

    def _array_writer(self, number: int) -> ArrayWriter:
        files, keep = self.files, partial(self.before_images.put_block, number)
        return ArrayWriter(files.arrays[number], files.transaction, keep, files.secure)

    def _write_finest(self) -> None:
        writer = self._array_writer(0)

        def edit_cell(box: Box, block: Any) -> bool:
            # Always from the original: the file may contain some of the edits already,
            # and a replacement of labels must not be applied to its own result.
            cell = cell_at(box, writer.array.chunks)
            before = self.before_images.get_block(0, cell)
            before = block if before is None else before
            new = self.snapshot.with_edits(box, before, self.files.order)
            if np.array_equal(new, block):
                # Kept all the same: without it, what another program changes here
                # later would be taken for the original, and get these edits once more.
                self.before_images.put_block(0, cell, block)
                return False
            # In place: `ArrayWriter` encodes this very array.
            block[...] = new
            self._note_change(0, writer, box, block)
            return True

        self._update_units(0, writer, edit_cell, self.dirty.pending)

    def _write_coarser(self, number: int) -> None:
        stale = self.dirty.stale[number]
        if not stale:
            return
        rule = self.files.rules[number - 1]
        reduction = rule.reduction
        fine, opened = self._reopen_level(number - 1)
        writer = self._array_writer(number)
        targets = reduction.target_cells(stale, fine.chunks, writer.array.chunks)

        def reduce_cell(box: Box, block: Any) -> bool:
            changed = False
            cell = cell_at(box, writer.array.chunks)
            before = None if rule.exact else self._before_image(number, cell, block)
            # Only the part below a changed finer block is made anew, not the whole
            # cell.
            for finer, target in targets[cell]:
                part = intersect_boxes(target, box)
                new = self._reduce_part(number, fine, finer, part)
                if before is not None:
                    # The rule only comes closest: take its result where the edits
                    # change it, and keep what the file had elsewhere.
                    made = reduction.reduce(
                        opened.read(reduction.source_box(part)), part
                    )
                    new = np.where(new != made, new, before[slice_inside(part, box)])
                old = block[slice_inside(part, box)]
                if not np.array_equal(new, old):
                    old[...] = new
                    changed = True
            if changed:
                self._note_change(number, writer, box, block)
            return changed

        # Cells are taken out when they are written; a finer cell stays stale as long as
        # one of those that follow from it is not.
        unwritten = set(targets)
        self._update_units(number, writer, reduce_cell, unwritten)
        remaining = {finer for cell in unwritten for finer, _ in targets[cell]}
        stale.intersection_update(remaining)
        self._reductions.drop_level(number - 1)

    def _reopen_level(self, number: int) -> tuple[ChunkedArray, OriginalLevel]:
        """Open a level as it was just written, and as it was before any edit."""
        files = self.files
        # By the transaction, which knows blocks that have not got their names yet.
        array = reopen_array(files.arrays[number], files.transaction.source)
        # As it was: for rules that do not fit exactly.
        original = OriginalLevel(
            LevelSource(array), self.before_images, number, array.chunks
        )
        return array, original

    def _reduce_part(
        self, number: int, fine: ChunkedArray, finer: Cell, part: Box
    ) -> Any:
        """Make a part of a level from a cell of the finer level, `fine`."""
        new = self._reductions.get_part(number - 1, finer, part)
        if new is not None:
            return new
        reduction = self.files.rules[number - 1].reduction
        # `keep=False`: decoded chunks of a save must not fill the cache.
        source = fine.read(reduction.source_box(part), keep=False)
        return reduction.reduce(source, part)

    def _before_image(self, number: int, cell: Cell, block: Any) -> Any:
        """Return a block as it was before anything was saved into it."""
        before = self.before_images.get_block(number, cell)
        return block.copy() if before is None else before

    def _note_change(
        self, number: int, writer: ArrayWriter, box: Box, block: Any
    ) -> None:
        """Reduce a new block for the next level, and note that this depends on it."""
        cell = cell_at(box, writer.array.chunks)
        self._reductions.add_block(number, cell, box, block)
        if number + 1 < len(self.files.arrays):
            with self._lock:
                self.dirty.stale[number + 1].add(cell)

    def _update_units(
        self,
        number: int,
        writer: ArrayWriter,
        change: Callable[[Box, Any], bool],
        unwritten: set[Cell],
    ) -> None:
        """Update units in several threads; take finished cells out of `unwritten`."""
        # By stored object: two threads must never change the same shard.
        units = writer.by_unit(unwritten)
        step = partial(self._update_unit, number, writer, change, (unwritten, units))
        # Asked before each object, so that a cancel takes effect between two of them.
        planned = takewhile(lambda _: self.state.check_cancel(), units)
        share_work(planned, step, len(units), writer.concurrency)

    def _update_unit(
        self,
        number: int,
        writer: ArrayWriter,
        change: Callable[[Box, Any], bool],
        work: tuple[set[Cell], dict[Cell, set[Cell]]],
        unit: Cell,
    ) -> None:
        unwritten, units = work
        cells, key, state = units[unit], writer.unit_key(unit), self.state
        kept = {cell for cell in cells if (number, cell) in self.before_images}
        try:
            # True: never read before, so whatever revision it has now is taken.
            expected = self.files.revisions.get(key, True)
            written = writer.update_cells(unit, cells, change, expected)
        except (CorruptDataError, ConflictError) as error:
            # The coarser level must not get what is not in this one.
            self._reductions.drop_blocks(number, cells)
            # What was kept just now is older than what another program wrote there:
            # the next save would put it back.
            for cell in cells - kept:
                self.before_images.drop_block(number, cell)
            with self._lock:
                state.note_refused(error)
            return
        except BaseException:
            # Such as a full disk. Blocks that were kept are older than what another
            # program may write from now on: that has to be a conflict.
            if key in writer.revisions:
                self.files.revisions.setdefault(key, writer.revisions[key])
            raise
        with self._lock:
            if number == 0:
                state.blocks += len(cells - self.dirty.doubted)
                self.dirty.doubted -= cells
            unwritten.difference_update(cells)
            state.objects += written
            if written or number == 0:
                # Our own write is no change by others. A block of level 0 that was
                # only looked at is kept as it was: a later change of it is a conflict.
                self.files.revisions[key] = writer.revisions.pop(key)
            state.report_object(number, len(units))
