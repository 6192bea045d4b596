"""Writes all levels of a new pyramid while level 0 is read, once, tile by tile.

A chunk is encoded, stored, and reduced into the chunk of the next level that it is
part of; that one goes the same way when it is whole. Tiles come in an order that
makes chunks whole soon, so that memory is that of a few chunks per level and thread,
whatever the size of the image: see `PyramidWriter`.
"""

from __future__ import annotations

import itertools
import math
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from napari_ngff.store.arrays.boxes import box_of, box_shape, cells_in, inside, overlap
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.encoding import Encoder, encode_shard
from napari_ngff.store.arrays.stored_objects import Objects
from napari_ngff.store.sources.folder_source import FolderSource
from napari_ngff.store.workers import CORES, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.arrays.lazy_array import ArraySource
    from napari_ngff.store.arrays.new_array import NewArray
    from napari_ngff.store.write.new_hierarchy import Draft

__all__ = ["LevelReducer", "MeanReducer", "PyramidWriter", "coarser_shape"]

Array = npt.NDArray[Any]


class LevelReducer(Protocol):
    """Makes a coarser level from the next finer one."""

    def reduce(self, block: Array, box: Box) -> Array:
        """Make a box of the coarser level of all voxels that it stands for."""


def coarser_shape(shape: Shape, factors: Shape) -> Shape:
    """Shape of a level whose last voxels may stand for fewer voxels."""
    return tuple(-(-n // f) for n, f in zip(shape, factors, strict=True))


@dataclass(frozen=True, slots=True)
class MeanReducer:
    """Mean of the voxels of a block; of integers the nearest one, halves upwards.

    Attributes
    ----------
    factors
        Voxels of a block per axis; the last block may have fewer.
    """

    factors: Shape

    def reduce(self, block: Array, box: Box) -> Array:
        """Make a box of the coarser level; its type is that of the block."""
        for axis, factor in enumerate(self.factors):
            surplus = -block.shape[axis] % factor
            if surplus:
                # The last voxel once more: a mean of one where there are pairs.
                pad = [(0, surplus if i == axis else 0) for i in range(block.ndim)]
                block = np.pad(block, pad, mode="edge")
        offsets = itertools.product(*map(range, self.factors))
        parts = [
            block[
                tuple(slice(o, None, f) for o, f in zip(at, self.factors, strict=True))
            ]
            for at in offsets
        ]
        count = len(parts)
        if block.dtype.kind == "f":
            wide = np.result_type(block.dtype, np.float32)
            total = parts[0].astype(wide)
            for part in parts[1:]:
                total += part
            return (total / count).astype(block.dtype)
        return _integer_mean(parts, count)


def _integer_mean(parts: Sequence[Array], count: int) -> Array:
    dtype = parts[0].dtype
    if dtype.itemsize < 8:
        wide = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
        total = parts[0].astype(wide)
        for part in parts[1:]:
            total += part
        total += wide.type(count // 2)
        mean: Array = (total // wide.type(count)).astype(dtype)
        return mean
    # The sum may not fit into any type: quotients and remainders do.
    n = dtype.type(count)
    quotient, rest = parts[0] // n, parts[0] % n
    for part in parts[1:]:
        quotient += part // n
        rest += part % n
    whole: Array = quotient + (rest + n // dtype.type(2)) // n
    return whole


@dataclass(slots=True)
class _LevelState:
    """What is known of a level while it is written."""

    path: str
    new: NewArray
    encoder: Encoder
    objects: Objects
    reducer: LevelReducer | None = None
    factors: Shape = ()
    partial: dict[Shape, tuple[Array, list[int]]] = field(default_factory=dict)
    shards: dict[Shape, dict[Shape, bytes | None]] = field(default_factory=dict)

    @property
    def grid(self) -> Shape:
        return coarser_shape(self.new.shape, self.new.chunks)

    def box(self, cell: Shape) -> Box:
        return box_of(cell, self.new.chunks, self.new.shape)


class PyramidWriter:
    """The levels of one pyramid, being written into a draft.

    Parameters
    ----------
    draft
        Gets the objects.
    arrays
        Path in the draft and description of each level, the finest first. Shapes
        follow by `coarser_shape`; chunks hold whole blocks, or the whole axis.
    reducers
        How each level but the first is made, with the number of voxels of a block
        per axis.
    version
        Of OME-Zarr.
    tile
        Shape of what is read at once: whole chunks of level 0 per axis.

    Notes
    -----
    Memory per thread: a tile and a chunk three times; and per level some chunks that
    are not whole, at most as many as a block has voxels, per thread; of shards the
    stored bytes. 30 MB for chunks of 1 MB in two threads.
    """

    def __init__(
        self,
        draft: Draft,
        arrays: Sequence[tuple[str, NewArray]],
        reducers: Sequence[tuple[LevelReducer, Shape]],
        version: str,
        tile: Shape,
    ) -> None:
        self.draft = draft
        self.tile = tile
        self._lock = threading.Lock()
        self._levels: list[_LevelState] = []
        source = FolderSource(draft.root)
        for path, new in arrays:
            name, document = new.document(version)
            draft.put(f"{path}/{name}", document)
            layout = open_array(source, path).layout
            encoder = Encoder.of(document, layout)
            objects = Objects(source, path, layout)
            self._levels.append(_LevelState(path, new, encoder, objects))
        for level, (reducer, factors) in zip(self._levels, reducers, strict=False):
            level.reducer, level.factors = reducer, factors

    def write(
        self,
        source: ArraySource,
        step: Callable[[int], None] | None = None,
        concurrency: int = CORES,
    ) -> None:
        """Read a source of level 0's shape once, and write all levels.

        Parameters
        ----------
        source
            Read by several threads at once.
        step
            Told after each tile how many voxels it had; may raise to stop. Called
            by several threads.
        concurrency
            Number of threads.
        """
        shape = self._levels[0].new.shape
        count = math.prod(coarser_shape(shape, self.tile))

        def one(position: Shape) -> None:
            box = box_of(position, self.tile, shape)
            self._tile(box, source.read(box))
            if step is not None:
                step(math.prod(box_shape(box)))

        share(self._order(), one, count, concurrency)

    def _order(self) -> Iterator[Shape]:
        """Positions of the tiles: all of a block of blocks before the next one."""
        grids = [coarser_shape(self._levels[0].new.shape, self.tile)]
        steps = [level.factors for level in self._levels if level.factors]
        for factors in steps:
            grids.append(coarser_shape(grids[-1], factors))

        def below(number: int, position: Shape) -> Iterator[Shape]:
            if number == 0:
                yield position
                return
            spans = zip(position, steps[number - 1], grids[number - 1], strict=True)
            for inner in itertools.product(
                *(range(i * f, min((i + 1) * f, n)) for i, f, n in spans)
            ):
                yield from below(number - 1, inner)

        for position in itertools.product(*map(range, grids[-1])):
            yield from below(len(steps), position)

    def _tile(self, box: Box, block: Array) -> None:
        """Write the chunks of level 0 that a tile consists of."""
        level = self._levels[0]
        for cell in cells_in(box, level.new.chunks):
            part = block[inside(level.box(cell), box)]
            self._chunk(0, cell, np.ascontiguousarray(part, level.new.dtype))

    def _chunk(self, number: int, cell: Shape, voxels: Array) -> None:
        """Store a chunk, cut at the border, and pass it on to the next level."""
        level = self._levels[number]
        chunk = _filled(voxels, level)
        blank = level.encoder.is_blank(chunk)
        # Before it is encoded, which leaves less of it in the cache of the core.
        whole = list(self._reduced(number, cell, voxels, blank=blank))
        self._store(level, cell, None if blank else level.encoder.stored(chunk))
        for target, coarse in whole:
            self._chunk(number + 1, target, coarse)

    def _reduced(
        self, number: int, cell: Shape, voxels: Array, *, blank: bool
    ) -> Iterator[tuple[Shape, Array]]:
        """Reduce a chunk; return those of the next level that are whole by that."""
        level = self._levels[number]
        if level.reducer is None:
            return
        spans = zip(level.box(cell), level.factors, strict=True)
        box = tuple((a // f, -(-b // f)) for (a, b), f in spans)
        if blank:  # of which any reduction makes the same
            fill = level.encoder.layout.fill_value
            reduced = np.full(box_shape(box), fill, voxels.dtype)
        else:
            reduced = level.reducer.reduce(voxels, box)
        yield from self._deposit(self._levels[number + 1], box, reduced)

    def _deposit(
        self, level: _LevelState, box: Box, voxels: Array
    ) -> Iterator[tuple[Shape, Array]]:
        """Put voxels into chunks of a level; return those that are whole by that."""
        for cell in cells_in(box, level.new.chunks):
            cell_box = level.box(cell)
            with self._lock:
                if cell not in level.partial:
                    shape = box_shape(cell_box)
                    missing = [math.prod(shape)]
                    level.partial[cell] = np.empty(shape, level.new.dtype), missing
                chunk, missing = level.partial[cell]
            common = overlap(cell_box, box)
            chunk[inside(common, cell_box)] = voxels[inside(common, box)]
            with self._lock:
                missing[0] -= math.prod(box_shape(common))
                whole = missing[0] == 0
                if whole:
                    del level.partial[cell]
            if whole:
                yield cell, chunk

    def _store(self, level: _LevelState, cell: Shape, data: bytes | None) -> None:
        """Write an encoded chunk, or its shard where it is the last one of that."""
        index = level.encoder.layout.index
        if index is None:
            if data is not None:
                self.draft.put(f"{level.path}/{level.objects.key(cell)}", data)
            return
        pairs = list(zip(cell, index.grid, strict=True))
        unit = tuple(i // n for i, n in pairs)
        with self._lock:
            chunks = level.shards.setdefault(unit, {})
            chunks[tuple(i % n for i, n in pairs)] = data
            within = (
                min(n, size - u * n)
                for u, n, size in zip(unit, index.grid, level.grid, strict=True)
            )
            if len(chunks) < math.prod(within):
                return
            del level.shards[unit]
        stored = {at: one for at, one in chunks.items() if one is not None}
        joined = encode_shard(index, stored)
        if joined is not None:
            self.draft.put(f"{level.path}/{level.objects.key(unit)}", joined)


def _filled(voxels: Array, level: _LevelState) -> Array:
    """Fill a chunk that is cut at the border up to its full shape."""
    if voxels.shape == level.new.chunks:
        return voxels
    chunk = np.zeros(level.new.chunks, level.new.dtype)
    chunk[tuple(slice(0, n) for n in voxels.shape)] = voxels
    return chunk
