"""The arrays of a task, opened once for all units of one run in this process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.encoding import ChunkEncoder
from napari_ngff.store.arrays.stored_objects import DOCUMENTS, ArrayObjects, join_key
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from napari_ngff.store.write.new_objects import target_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.convert.array_task import ArrayTask
    from napari_ngff.store.sources.source import Source


class OpenedTask:
    """The arrays of a task, opened once in a process."""

    def __init__(self, source: Source, target: str, task: ArrayTask) -> None:
        self.task = task
        made = target_source(target)
        # A level that is made again follows from the new one that is finer.
        place: Source = made if task.method else source
        self.source = open_array(place, task.source, task.zarr_format)
        self.target = open_array(made, task.target)
        self.unit = self.target.shards or self.target.chunks
        self.source_objects = _objects_of(self.source)
        self.target_objects = _objects_of(self.target)

    @cached_property
    def encoder(self) -> ChunkEncoder:
        """How chunks of the new array are encoded."""
        array = self.target
        raw = array.source.get(join_key(array.path, DOCUMENTS[array.zarr_format]))
        return ChunkEncoder.from_document(raw or b"", array.layout)

    def key_of(self, cell: Shape) -> str:
        """Return the key of a stored object of the new array."""
        return join_key(self.task.target, self.target_objects.object_key(cell))

    @cached_property
    def reduction(self) -> LevelReduction:
        """How the level follows from the finer one."""
        fine, coarse, task = self.source.shape, self.target.shape, self.task
        method: Any = task.method
        return LevelReduction.between_shapes(fine, coarse, method, task.factors)

    def source_boxes(self, box: Box) -> Iterator[tuple[tuple[slice, ...], Box]]:
        """Yield the parts of a box, each with the box of the source that fills it."""
        region = self.task.region
        if self.task.method:
            yield (...,), self.reduction.source_box(box)  # type: ignore[misc]
            return
        moved = [
            (start + first, stop + first)
            for (start, stop), (first, _) in zip(box, region.spans, strict=True)
        ]
        if region.picked is None:
            yield (...,), tuple(moved)  # type: ignore[misc]
            return
        axis = region.picked
        for i, index in enumerate(region.indices[slice(*box[axis])]):
            part = (slice(None),) * axis + (slice(i, i + 1),)
            yield part, (*moved[:axis], (index, index + 1), *moved[axis + 1 :])

    def stored_key(self, cell: Shape) -> str:
        """Return the key in the source of what is cell of the new array: a stored
        object, or a chunk where these get into shards.
        """
        region = self.task.region
        unit = self.source.shards or self.source.chunks
        there = [
            i + start // n
            for i, (start, _), n in zip(cell, region.spans, unit, strict=True)
        ]
        if region.picked is not None:
            there[region.picked] = region.indices[cell[region.picked]]
        return self.source_key(tuple(there))

    def source_key(self, cell: Shape) -> str:
        """Return the key of a stored object of the source."""
        return join_key(self.task.source, self.source_objects.object_key(cell))


def _objects_of(array: Any) -> ArrayObjects:
    objects = ArrayObjects(array.source, array.path, array.layout)
    objects.find_separator()
    return objects


class SharedRun:
    """What the units of one run share in this process.

    Each unit comes to another process with a source of its own, and an archive must
    not be opened for each.
    """

    def __init__(self) -> None:
        self.sources: dict[bytes, Source] = {}
        self.open_task = lru_cache(maxsize=64)(OpenedTask)


_runs: OrderedDict[str, SharedRun] = OrderedDict()
"""By `WorkUnit.run`; only `find_run` and `sharing_sources` change it."""

_changing = threading.Lock()

LATEST = 4
"""Runs that are kept in other processes, which are not told when one ends."""


def find_run(name: str) -> SharedRun:
    """Return what the units of a run share; the first call makes it."""
    with _changing:
        run = _runs.setdefault(name, SharedRun())
        _runs.move_to_end(name)
        while len(_runs) > LATEST:
            _runs.popitem(last=False)
    return run


@contextmanager
def sharing_sources(run: str) -> Iterator[None]:
    """Let the units of a run share sources in this process, which are closed then."""
    try:
        yield
    finally:
        with _changing:
            _runs.pop(run, None)
