"""One pass of a save: level 0 from the edits, each other level from the next finer.

Only blocks that edits touch are read, and of coarser levels only those whose finer
blocks came out differently.

Parts of coarser levels are kept that were reduced while finer blocks were in memory: a
block that was just written need not be read again for the next level. Parts are
compressed where room gets scarce; where there is none left, blocks are read again.
"""

from __future__ import annotations

import math
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
    BeforeImages,
    KeptLevels,
    OriginalLevel,
    reopen_array,
)
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.boxes import (
    AxisOrder,
    Cell,
    box_shape,
    cell_at,
    intersect_boxes,
    slice_inside,
)
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.sources.read_ahead import ReadLog
from napari_ngff.store.threads import share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari_ngff.labels.level_grid import Box
    from napari_ngff.labels.saving.save_run import SaveRun
    from napari_ngff.labels.saving.snapshot import Snapshot
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.pyramids.level_reduction import LevelReduction
    from napari_ngff.store.sources.blob import Revision
    from napari_ngff.store.store import Secure, Transaction

Array = npt.NDArray[Any]

ROOM = 16 * 2**20
"""Bytes of all parts together. From a quarter of that on they are compressed."""

CODEC = Zstd(1)
"""Level 1: faster than reading the block again."""


@dataclass(frozen=True, slots=True)
class ReducedPart:
    """What edits change of a coarser level.

    Attributes
    ----------
    box
        Of that level.
    values
        What the rule makes of the finer level with the edits.
    touched
        What edits have changed something below. Elsewhere the file keeps what it had,
        whatever the rule gives there.
    """

    box: Box
    values: Array
    touched: Array

    def change_values(self, before: Array, box: Box) -> Array:
        """Return the values of a box, changed where edits changed something below."""
        common = intersect_boxes(self.box, box)
        wanted = before.copy()
        if all(start < stop for start, stop in common):
            inside = slice_inside(common, self.box)
            target = wanted[slice_inside(common, box)]
            np.copyto(target, self.values[inside], where=self.touched[inside])
        return wanted


@dataclass(frozen=True, slots=True)
class _CachedPart:
    box: Box
    dtype: np.dtype[Any]
    packed: bool
    data: bytes


def _crop_to_touched(touched: Array, box: Box) -> Box:
    """Return the smallest box of all voxels that are touched, all of it if none is."""
    if touched.all():
        return box
    spans: list[tuple[int, int]] = []
    for axis, (start, _) in enumerate(box):
        others = tuple(other for other in range(len(box)) if other != axis)
        found = np.flatnonzero(touched.any(axis=others))
        if not len(found):
            return box
        spans.append((start + int(found[0]), start + int(found[-1]) + 1))
    return tuple(spans)


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

    def add_block(
        self, number: int, cell: Cell, box: Box, block: Array, before: Array
    ) -> None:
        """Reduce a new block for the next level, if it needs no other block for that.

        Parameters
        ----------
        number
            Of its level.
        cell, box
            Its place there.
        block, before
            The new voxels, and those before any edit.
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
        inside = slice_inside(sources, box)
        touched = reduction.find_touched(block[inside] != before[inside], target)
        whole, target = target, _crop_to_touched(touched, target)
        touched = touched[slice_inside(target, whole)]
        inside = slice_inside(reduction.source_box(target), box)
        part = reduction.reduce(block[inside], target)
        raw = part.tobytes() + np.packbits(touched).tobytes()
        packed = self._room - len(raw) < self._plain
        data = bytes(CODEC.encode(raw)) if packed else raw
        with self._lock:
            self._full = len(data) > self._room
            if not self._full:
                self._room -= len(data)
                self._parts[number, cell] = _CachedPart(
                    target, part.dtype, packed, data
                )

    def get_part(self, number: int, cell: Cell) -> ReducedPart | None:
        """Return what a block changes of the next level; None if it has to be read.

        Parameters
        ----------
        number, cell
            Place of the block.
        """
        # Without the lock: one look-up in a dict is atomic.
        cached = self._parts.get((number, cell))
        if cached is None:
            return None
        shape = box_shape(cached.box)
        raw = CODEC.decode(cached.data) if cached.packed else cached.data
        count = math.prod(shape)
        bits = np.frombuffer(raw, "u1", offset=count * cached.dtype.itemsize)
        touched = np.unpackbits(bits, count=count).astype(bool)
        values = np.frombuffer(raw, cached.dtype, count)
        return ReducedPart(cached.box, values.reshape(shape), touched.reshape(shape))

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
    handled
        Keys of objects that levels were made of, or compared with: if one has been
        changed by others when all is saved, what follows from it is made again.
    """

    pending: set[Cell]
    stale: list[set[Cell]]
    doubted: set[Cell] = field(default_factory=set)
    handled: set[str] = field(default_factory=set)

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
    rules: tuple[LevelReduction, ...]
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
    shared
        The levels with all edits that may be in them, if others have changed labels:
        what is kept of two levels may be of different moments then. So all that follows
        from these edits is made anew, and everything else stays as it is in the file.
    """

    files: LabelFiles
    before_images: BeforeImages
    dirty: DirtyCells
    snapshot: Snapshot
    state: SaveRun
    shared: KeptLevels | None = None
    _reductions: ReductionCache = field(init=False)
    _writers: dict[int, ArrayWriter] = field(init=False, default_factory=dict)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._reductions = ReductionCache(self.files.rules)

    def write_levels(self, finest: bool = True) -> None:
        """Write dirty cells level by level until the end or a cancel.

        Parameters
        ----------
        finest
            False to write only what follows from level 0 as it is.
        """
        if finest:
            self._write_finest()
        for number in range(1, len(self.files.arrays)):
            # A level follows from the one just written, so never two at a time.
            if self.state.check_cancel():
                self._write_coarser(number)

    def _array_writer(self, number: int) -> ArrayWriter:
        # Once for each level: it reads the document of the array.
        if number not in self._writers:
            files, keep = self.files, partial(self.before_images.put_block, number)
            self._writers[number] = ArrayWriter(
                files.arrays[number], files.transaction, keep, files.secure
            )
        return self._writers[number]

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
            self._note_change(0, writer, box, new, before)
            # In place: `ArrayWriter` encodes this very array.
            block[...] = new
            return True

        self._update_units(0, writer, edit_cell, self.dirty.pending)

    def _write_coarser(self, number: int) -> None:
        stale = self.dirty.stale[number]
        if not stale:
            return
        reduction = self.files.rules[number - 1]
        fine, opened = self._reopen_level(number - 1)
        writer = self._array_writer(number)
        targets = reduction.target_cells(stale, fine.chunks, writer.array.chunks)

        def read_part(part: Box) -> ReducedPart:
            sources = reduction.source_box(part)
            new = fine.read(sources)
            if self.shared is None:
                differs = new != opened.read(sources)
                touched = reduction.find_touched(differs, part)
            else:
                touched = self.shared.find_edited(number, part)
            return ReducedPart(part, reduction.reduce(new, part), touched)

        def reduce_cell(box: Box, block: Any) -> bool:
            changed = False
            cell = cell_at(box, writer.array.chunks)
            parts = [intersect_boxes(target, box) for _, target in targets[cell]]
            self._note_sources(number, writer.key_of(cell), parts)
            before = self._before_image(number, cell, block)
            # Only the part below a changed finer block is made anew, not the whole
            # cell.
            for (finer, _), part in zip(targets[cell], parts, strict=True):
                inside = slice_inside(part, box)
                reduced = self._reductions.get_part(number - 1, finer)
                if reduced is None:
                    reduced = read_part(part)
                new = reduced.change_values(before[inside], part)
                if not np.array_equal(new, block[inside]):
                    block[inside] = new
                    changed = True
            if changed:
                self._note_change(number, writer, box, block, before)
            else:
                self.before_images.put_block(number, cell, block)
            return changed

        # Cells are taken out when they are written; a finer cell stays stale as long as
        # one of those that follow from it is not.
        unwritten = set(targets)
        self._update_units(number, writer, reduce_cell, unwritten)
        remaining = {finer for cell in unwritten for finer, _ in targets[cell]}
        stale.intersection_update(remaining)
        self._reductions.drop_level(number - 1)

    def _note_sources(self, number: int, key: str, parts: Iterable[Box]) -> None:
        """Note what parts of a block are made of."""
        finer, rule = self._array_writer(number - 1), self.files.rules[number - 1]
        sources = finer.keys_in(map(rule.source_box, parts))
        self.files.transaction.note_sources(key, sources)
        # At once, so without the lock.
        self.dirty.handled.update(sources, [key])

    def _reopen_level(self, number: int) -> tuple[LevelSource, OriginalLevel]:
        """Open a level as it was just written, and as it was before any edit."""
        files = self.files
        # By the transaction, which knows blocks that have not got their names yet.
        source = ReadLog(files.transaction.source, files.revisions)
        array = reopen_array(files.arrays[number], source)
        # `keep=False`: decoded chunks of a save must not fill the cache.
        level = LevelSource(array, keep=False)
        return level, OriginalLevel(level, self.before_images, number, array.chunks)

    def _before_image(self, number: int, cell: Cell, block: Any) -> Any:
        """Return a block as it was before anything was saved into it."""
        before = self.before_images.get_block(number, cell)
        if before is None or self.shared is not None:
            return block.copy()
        # Labels may have got a wider type since.
        return before.astype(block.dtype, copy=False)

    def _note_change(
        self, number: int, writer: ArrayWriter, box: Box, block: Any, before: Any
    ) -> None:
        """Reduce a new block for the next level, and note that this depends on it."""
        cell = cell_at(box, writer.array.chunks)
        if self.shared is None:
            self._reductions.add_block(number, cell, box, block, before)
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
            # Our own write is no change by others. A block that was only looked at is
            # kept as it was: a later change of it is a conflict.
            self.files.revisions[key] = writer.revisions.pop(key)
            state.report_object(number, len(units))
