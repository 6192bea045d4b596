"""Lines of a plan, and what their units share in one process.

A line is an array that is converted in blocks, files that are copied, documents that
are written, or documents that were read.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.boxes import Box, box_of
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.encoding import ChunkEncoder
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.limits import ARRAY_DOCUMENT
from napari_ngff.store.pyramids.level_reduction import LevelReduction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.convert.array_plan import ArrayRegion
    from napari_ngff.store.store import Store

KEPT, CODED = 64 << 20, 24 << 20
"""Bytes of the voxels of a unit whose chunks are copied, or decoded and encoded."""


ANY_BYTES = "latin-1"
"""Encoding of documents in a plan: also of what is no UTF-8, and stays as it is."""


@dataclass(frozen=True, slots=True)
class ArrayTask:
    """An array that is converted; a plan keeps one line for each.

    Attributes
    ----------
    source, target
        Path of the array in the source, and in the new hierarchy.
    zarr_format
        Of the source.
    region
        What is kept of it.
    keeps_chunks
        Whether stored objects are copied.
    joins_chunks
        Whether stored chunks are copied into shards.
    block
        Shape of a unit in voxels, whole stored objects of the target.
    itemsize
        Bytes of a voxel.
    method, factors
        How a level is made from a finer one of the new hierarchy, whose path is
        `source`: mean, mode or nearest, and voxels per axis; "" for any other.
    stage
        Tasks of lower stages have to be done before, such as its documents.
    """

    source: str
    target: str
    zarr_format: int
    region: ArrayRegion
    keeps_chunks: bool
    joins_chunks: bool
    block: Shape
    itemsize: int
    method: str = ""
    factors: Shape = ()
    stage: int = 1

    @property
    def grid(self) -> Shape:
        """Number of units per axis."""
        return tuple(
            -(-n // b) for n, b in zip(self.region.shape, self.block, strict=True)
        )

    @property
    def count(self) -> int:
        """Number of units."""
        return math.prod(self.grid)

    @property
    def nbytes(self) -> int:
        """Bytes of the voxels."""
        return math.prod(self.region.shape) * self.itemsize

    def unit_box(self, index: int) -> Box:
        """Return the voxels of a unit, in the new array."""
        position = tuple(int(i) for i in np.unravel_index(index, self.grid or (1,)))
        return box_of(position[: len(self.block)], self.block, self.region.shape)


class _OneUnit:
    """A task of one unit, without voxels, that depends on nothing."""

    __slots__ = ()

    stage = 0
    count = 1
    nbytes = 0


@dataclass(frozen=True, slots=True)
class CopyTask(_OneUnit):
    """Objects that are copied as they are, whatever they hold; one unit.

    Attributes
    ----------
    source, target
        Path of a group in the source, and in the new hierarchy.
    names
        Of the objects below it.
    """

    source: str
    target: str
    names: tuple[str, ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Keys of the objects in the source, and in the new hierarchy."""
        ends = self.source, self.target
        return [(join_key(ends[0], n), join_key(ends[1], n)) for n in self.names]


@dataclass(frozen=True, slots=True)
class DocumentTask(_OneUnit):
    """Documents that the plan was made from; one unit, which writes nothing.

    Attributes
    ----------
    keys
        Of the documents in the source.
    sums
        Checksums of their bytes.
    """

    keys: tuple[str, ...]
    sums: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NewDocumentTask(_OneUnit):
    """Documents that are written; one unit.

    Attributes
    ----------
    texts
        By key; see `ANY_BYTES`.
    """

    texts: Mapping[str, str]


Task = ArrayTask | CopyTask | DocumentTask | NewDocumentTask


def choose_block(
    unit: Shape, source: Shape, shape: Shape, itemsize: int, keeps_chunks: bool
) -> Shape:
    """Choose the shape of units: whole stored objects of both arrays, if they fit.

    Parameters
    ----------
    unit, source
        Shape of a stored object of the new array and of the source.
    shape
        Of the new array.
    itemsize
        Bytes of a voxel.
    keeps_chunks
        Whether chunks are only copied.
    """
    return grow_block(
        unit, source, shape, max(1, (KEPT if keeps_chunks else CODED) // itemsize)
    )


def grow_block(unit: Shape, source: Shape, shape: Shape, most: int) -> Shape:
    """Join units up to a number of voxels; one unit where that is larger."""
    # Units at the border are cut there.
    block = [min(n, m) for n, m in zip(unit, shape, strict=True)]
    # First so that no chunk of the source is needed by two units, where that fits.
    for i in range(len(block) - 1, -1, -1):
        joined = min(math.lcm(unit[i], source[i]), shape[i])
        if math.prod(block) // block[i] * joined <= most:
            block[i] = joined
    for i in range(len(block) - 1, -1, -1):
        if block[i] < shape[i]:
            fits = most // math.prod(block)
            block[i] = min(block[i] * max(1, fits), shape[i])
    # Whole units: an axis that ends in one counts as a whole one.
    return tuple(-(-b // n) * n for b, n in zip(block, unit, strict=True))


class OpenedTask:
    """The arrays of a task, opened once in a process."""

    def __init__(self, source: Store, target: Store, task: ArrayTask) -> None:
        self.task = task
        # A level that is made again follows from the new one that is finer.
        place = target if task.method else source
        self.source = open_array(place, task.source, task.zarr_format)
        self.target = open_array(target, task.target)
        self.unit = self.target.shards or self.target.chunks
        for array in (self.source, self.target):
            array.objects.find_separator()

    @cached_property
    def encoder(self) -> ChunkEncoder:
        """How chunks of the new array are encoded."""
        array = self.target
        raw = array.source.get(join_key(array.path, ARRAY_DOCUMENT[array.zarr_format]))
        return ChunkEncoder.from_document(raw or b"", array.layout)

    def key_of(self, cell: Shape) -> str:
        """Return the key of a stored object of the new array."""
        return join_key(self.task.target, self.target.objects.object_key(cell))

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
        """Return the source key of the object that becomes `cell`, a stored object of
        the new array, or a chunk where chunks are joined into shards.
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
        return join_key(self.task.source, self.source.objects.object_key(cell))


LATEST = 4
"""Runs whose sources are kept in other processes, which are not told when one ends."""


@lru_cache(LATEST)
def shared_sources(run: str) -> dict[str, Store]:
    """Return the sources that the units of a run share in this process, by their names.

    Each unit comes to another process with a source of its own, an archive must not be
    opened for each, and what a source has read must not make it another one.
    """
    return {}


open_task = lru_cache(64)(OpenedTask)
"""Opens the arrays of a task, once."""


@contextmanager
def sharing_sources() -> Iterator[None]:
    """Let the units of a run share sources in this process, which are closed then.

    Other runs open theirs again.
    """
    try:
        yield
    finally:
        shared_sources.cache_clear()
        open_task.cache_clear()
