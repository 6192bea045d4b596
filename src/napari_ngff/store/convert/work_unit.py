"""Work units: a block of an array, or some files, that one worker converts alone.

A unit knows addresses, paths and indices only, so that it can be sent to another
process. It reads its source and writes its target itself, and returns a record: what
it wrote, by number and size, and in which state its source was.
"""

from __future__ import annotations

import math
import struct
import zlib
from array import array
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import (
    ChunkError,
    ConflictError,
    FileChangedError,
    OMEZarrError,
    error_text,
)
from napari_ngff.store.arrays.boxes import (
    Box,
    box_of,
    box_shape,
    cell_ranges,
    cells_in,
    slice_inside,
    whole_box,
)
from napari_ngff.store.arrays.encoding import ChunkJoiner
from napari_ngff.store.convert import array_task
from napari_ngff.store.convert.array_task import (
    ANY_BYTES,
    ArrayTask,
    CopyTask,
    DocumentTask,
    NewDocumentTask,
    OpenedTask,
    Task,
    grow_block,
    open_task,
    shared_sources,
)
from napari_ngff.store.sources.read_ahead import call_at_once
from napari_ngff.store.threads import share_work
from napari_ngff.store.write.partial_folder import UnitRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.sources.blob import Revision
    from napari_ngff.store.store import Store

LARGE = 16 << 20
"""Bytes of an object that is copied in parts."""

REVISION = struct.Struct("<QqQ")
"""Size, time and file of a revision."""

ABSENT = 0
"""State of an object that is not there; each state is a number of four bytes."""


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """One unit of a plan.

    Attributes
    ----------
    run
        A text that no other conversion has.
    number
        Its place in the plan.
    source
        The hierarchy that is read.
    target
        The new hierarchy.
    task, index
        What it is a part of, and which.
    done
        What an earlier run noted; it is compared, and done again only if it differs.
    skips
        Whether chunks that cannot be read are left out; otherwise they are errors.
    looks
        Whether only the state of the source is found again.
    """

    run: str
    number: int
    source: Store
    target: Store
    task: Task
    index: int
    done: UnitRecord | None = None
    skips: bool = False
    looks: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of its voxels; of what has none, only reading would show a size."""
        if not isinstance(self.task, ArrayTask):
            return 0
        return math.prod(box_shape(self.task.unit_box(self.index))) * self.task.itemsize


def _open_task(unit: WorkUnit) -> OpenedTask:
    """Open the arrays of a unit, once for all units of a task."""
    assert isinstance(unit.task, ArrayTask)
    return open_task(unit.source, unit.target, unit.task)


@dataclass(slots=True)
class _Written:
    """Objects that a unit has written: key -> size."""

    unit: WorkUnit
    objects: dict[str, int]
    problems: list[str]
    states: array[int]

    def put(self, key: str, parts: Iterable[bytes]) -> None:
        size = 0

        def counted() -> Iterator[bytes]:
            nonlocal size
            for part in parts:
                size += len(part)
                yield part

        self.unit.target.put_new(key, counted())
        self.objects[key] = size

    def copy_in_bucket(self, source_key: str, key: str) -> bool:
        """Let a server copy an object; False where it has to be read and written."""
        target = self.unit.target
        copied = target.copy_new(self.unit.source, source_key, key)
        if copied:
            found = target.ask_revision(key)
            if found is None:
                return False
            self.objects[key] = found.size
        return copied is not None

    def record(self) -> UnitRecord:
        """Return what is noted of the unit."""
        return UnitRecord(
            len(self.objects),
            sum(self.objects.values()),
            zlib.crc32(self.states.tobytes()),
            tuple(self.problems),
            self.states.tobytes(),
        )


def run_unit(unit: WorkUnit) -> UnitRecord:
    """Convert one unit; a task for a worker, which may be done twice.

    Raises
    ------
    ChunkError
        Where a chunk cannot be read, unless these are skipped.
    ConflictError
        Where the source changes meanwhile.
    OSError
        Where reading or writing fails.
    """
    shared = shared_sources(unit.run)
    source, target = (shared.setdefault(s.name, s) for s in (unit.source, unit.target))
    unit = replace(unit, source=source, target=target)
    written = _Written(unit, {}, [], _note_states(unit))
    if unit.looks or isinstance(unit.task, DocumentTask):
        return written.record()
    done = unit.done
    if done and done.seen == written.record().seen and _is_intact(unit, done):
        return done
    if isinstance(unit.task, NewDocumentTask):
        _put_documents(unit.task, written)
    elif isinstance(unit.task, CopyTask):
        _copy_objects(unit, unit.task.pairs, written)
    else:
        opened = _open_task(unit)
        if unit.task.keeps_chunks:
            cells = cells_in(unit.task.unit_box(unit.index), opened.unit)
            pairs = [(opened.stored_key(cell), opened.key_of(cell)) for cell in cells]
            _copy_objects(unit, pairs, written)
        elif unit.task.joins_chunks:
            _join_chunks(opened, unit, written)
        else:
            _encode_block(opened, unit, written)
    # A server is asked once more when all is done, not here.
    if not unit.source.traits.is_remote:
        changed = find_changed_key(
            written.states, _note_states(unit), source_keys(unit)
        )
        if changed is not None:
            raise ConflictError(
                f"{unit.source.name}/{changed} was changed while it was read.",
                remedy="Convert it again when nothing writes there.",
            )
    unit.target.flush_new(sorted(written.objects))
    return written.record()


def _note_states(unit: WorkUnit) -> array[int]:
    """Note the state of what a unit reads."""
    task = unit.task
    if isinstance(task, DocumentTask):
        if not unit.looks:
            return array("I", task.sums)
        calls = [partial(unit.source.get, key) for key in task.keys]
        found = call_at_once(unit.source, calls)
        return array("I", (ABSENT if d is None else zlib.crc32(d) for d in found))
    finer = isinstance(task, ArrayTask) and task.method
    source = unit.target if finer else unit.source
    # A server is asked by a request for each; a finer level there has no state.
    find = source.find_revision if finer else source.ask_revision
    states = call_at_once(source, [partial(find, key) for key in source_keys(unit)])
    return array("I", map(_sum_revision, states))


def _sum_revision(revision: Revision | None) -> int:
    if revision is None:
        return ABSENT
    numbers = REVISION.pack(revision.size, revision.stamp, revision.file)
    return zlib.crc32(numbers + revision.tag.encode()) or 1


def find_changed_key(
    before: array[int], after: array[int], keys: Iterable[str]
) -> str | None:
    """Return the first object whose state is another one; None if all are as before."""
    if before == after:
        return None
    trios = zip(keys, before, after, strict=True)
    return next((key for key, old, new in trios if old != new), None)


def source_keys(unit: WorkUnit) -> Iterator[str]:
    """List the objects that a unit reads."""
    task = unit.task
    if isinstance(task, DocumentTask):
        yield from task.keys
    elif isinstance(task, CopyTask):
        yield from (source for source, _ in task.pairs)
    elif isinstance(task, ArrayTask):
        opened = _open_task(unit)
        box = task.unit_box(unit.index)
        stored = opened.source.shards or opened.source.chunks
        for _, moved in opened.source_boxes(box):
            yield from map(opened.source_key, cells_in(moved, stored))


def _is_intact(unit: WorkUnit, done: UnitRecord) -> bool:
    """Compare the sizes of what is in the target with the note of an earlier run.

    What is noted was on the disk before.
    """
    if isinstance(unit.task, NewDocumentTask):
        keys = list(unit.task.texts)
    elif isinstance(unit.task, CopyTask):
        keys = [target for _, target in unit.task.pairs]
    else:
        opened = _open_task(unit)
        cells = cells_in(opened.task.unit_box(unit.index), opened.unit)
        keys = [opened.key_of(cell) for cell in cells]
    ask = unit.target.ask_revision
    found = call_at_once(unit.target, [partial(ask, key) for key in keys])
    sizes = [revision.size for revision in found if revision is not None]
    return (len(sizes), sum(sizes)) == (done.objects, done.nbytes)


def _put_documents(task: NewDocumentTask, written: _Written) -> None:
    calls = [
        partial(written.put, key, (text.encode(ANY_BYTES),))
        for key, text in task.texts.items()
    ]
    call_at_once(written.unit.target, calls)


def _copy_objects(
    unit: WorkUnit, pairs: list[tuple[str, str]], written: _Written
) -> None:
    def copy_object(pair: tuple[str, str]) -> None:
        source, target = pair
        if written.copy_in_bucket(source, target):
            return
        data = None
        try:
            revision = unit.source.find_revision(source)
            if revision is not None and revision.size > LARGE:
                written.put(target, _read_parts(unit.source, source, revision.size))
                return
            data = unit.source.get(source)
        except (OMEZarrError, OSError) as error:
            _note_unreadable(error, source, unit, written)
        if data is not None:
            written.put(target, (data,))

    call_at_once(unit.source, [partial(copy_object, pair) for pair in pairs])


def _note_unreadable(
    error: Exception, key: str, unit: WorkUnit, written: _Written
) -> None:
    """Note the error that is handled, if it is one of the source that is skipped."""
    full = getattr(error, "filename", None)
    ours = isinstance(full, str) and full.startswith(unit.target.name)
    if not unit.skips or ours or isinstance(error, ConflictError | FileChangedError):
        raise error
    written.problems.append(f"{key}: {error_text(error)}")


def _read_parts(source: Store, key: str, size: int) -> Iterator[bytes]:
    for start in range(0, size, LARGE):
        length = min(LARGE, size - start)
        part = source.get(key, start, length)
        if part is None or len(part) != length:
            raise ConflictError(f"{source.name}/{key} was changed while it was read.")
        yield part


def _encode_block(opened: OpenedTask, unit: WorkUnit, written: _Written) -> None:
    """Decode and encode the voxels of a unit, some chunks at a time."""
    task, target = opened.task, opened.target
    box = task.unit_box(unit.index)
    most = max(1, array_task.CODED // task.itemsize)
    # What a coarser level is made from is larger than itself.
    most = max(1, most // math.prod(task.factors))
    stored = target.chunks if task.method else opened.source.chunks
    step = grow_block(target.chunks, stored, box_shape(box), most)
    joiner = _open_joiner(opened, written)
    for position in cells_in(whole_box(box_shape(box)), step):
        inner = box_of(position, step, box_shape(box))
        part = tuple(
            (a + start, b + start)
            for (a, b), (start, _) in zip(inner, box, strict=True)
        )
        voxels = _read_voxels(opened, part, unit, written)
        for cell in cells_in(part, target.chunks):
            joiner.add_chunk(cell, _encode_cell(opened, cell, part, voxels))


def _open_joiner(opened: OpenedTask, written: _Written) -> ChunkJoiner:
    return ChunkJoiner(
        opened.target.layout,
        lambda unit, data: written.put(opened.key_of(unit), (data,)),
    )


def _join_chunks(opened: OpenedTask, unit: WorkUnit, written: _Written) -> None:
    """Put the chunks of a unit into shards as they are, one shard after the other."""
    target, box = opened.target, opened.task.unit_box(unit.index)
    joiner = _open_joiner(opened, written)

    def read_chunk(cell: Shape) -> None:
        data, key = None, opened.stored_key(cell)
        try:
            data = unit.source.get(key)
        except (OMEZarrError, OSError) as error:
            _note_unreadable(error, key, unit, written)
        joiner.add_chunk(cell, data)

    cells = (
        cell
        for place in cells_in(box, opened.unit)
        for cell in cells_in(box_of(place, opened.unit, target.shape), target.chunks)
    )
    count = math.prod(map(len, cell_ranges(box, target.chunks)))
    share_work(cells, read_chunk, count, unit.source.traits.waits_at_once)


def _read_voxels(
    opened: OpenedTask, part: Box, unit: WorkUnit, written: _Written
) -> np.ndarray[Any, Any]:
    def keep_problem(error: ChunkError) -> None:
        written.problems.append(error_text(error))

    array, method = opened.source, opened.task.method
    on_error = keep_problem if unit.skips and not method else None
    boxes = list(opened.source_boxes(part))
    if len(boxes) == 1:
        voxels = array.read(boxes[0][1], on_error, keep=False)
        return opened.reduction.reduce(voxels, part) if method else voxels
    voxels = np.empty(box_shape(part), array.dtype)
    for place, box in boxes:
        voxels[place] = array.read(box, on_error, keep=False)
    return voxels


def _encode_cell(
    opened: OpenedTask, cell: Shape, part: Box, voxels: np.ndarray[Any, Any]
) -> bytes | None:
    target, encoder = opened.target, opened.encoder
    inside = slice_inside(box_of(cell, target.chunks, target.shape), part)
    chunk = encoder.pad_chunk(voxels[inside])
    return encoder.encode_chunk(np.ascontiguousarray(chunk))
