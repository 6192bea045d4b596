"""Chooses the shapes of a new pyramid, and writes all its levels in one pass.

Level 0 is read once, tile by tile. A chunk is encoded, stored, and reduced into a part
of a chunk of the next level, which is treated in the same way once it is complete.
Tiles come in an order that completes chunks soon, so that memory is that of a few
chunks per level and thread, whatever the size of the image: see `PyramidWriter`.

Levels that are each read back from the one before, as `convert` and `rebuild` make
them unit by unit, take a quarter to three quarters more time: that was measured.
"""

from __future__ import annotations

import itertools
import math
import threading
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.metadata.model import Axis, Level
from napari_ngff.store.arrays.array_document import NewArray
from napari_ngff.store.arrays.boxes import (
    Box,
    box_of,
    box_shape,
    cells_in,
    intersect_boxes,
    slice_inside,
)
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.encoding import ChunkEncoder, ChunkJoiner
from napari_ngff.store.pyramids.level_reduction import Array, LevelReduction, Method
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.threads import CORES, share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari_ngff.store.arrays.chunk_layout import ChunkKeys, Shape
    from napari_ngff.store.arrays.lazy_array import ArraySource
    from napari_ngff.store.write.new_hierarchy import NewHierarchy

COARSEST = 256
"""Voxels up to which an axis is not halved any more."""

FLAT = 512
"""Side of a chunk along y and x where z is not halved."""

DEEP = (16, 256, 256)
"""Sides of a chunk along z, y and x where z is halved as well."""

SMALLEST, LARGEST = 128, 1024
"""Limits of the side of a chunk that is adapted to the source's chunks."""

IN_SHARD = 4
"""Most chunks of a shard along y and x."""


def coarser_shape(shape: Shape, factors: Shape) -> Shape:
    """Return the shape of the coarser level; its last voxels may cover fewer voxels."""
    return tuple(-(-n // f) for n, f in zip(shape, factors, strict=True))


def place_coarse_level(
    path: str, scale: Sequence[float], translation: Sequence[float], factors: Any
) -> Level:
    """Place a level so that its voxels are in the middle of their blocks.

    Parameters
    ----------
    scale, translation
        Of level 0; positions are those of the centres of voxels.
    factors
        Voxels of level 0 in one of the level, per axis.
    """
    size = np.asarray(scale, float)
    centre = np.asarray(translation) + (np.asarray(factors) - 1) / 2 * size
    return Level(path, tuple((size * factors).tolist()), tuple(centre.tolist()))


@dataclass(frozen=True, slots=True)
class PyramidPlan:
    """Shapes of a new pyramid; axes as in the image, y and x the last two.

    Attributes
    ----------
    shapes
        Of the levels, the finest first.
    factors
        Voxels of the next finer level in one voxel, per axis, for all but the first.
    chunk
        Shape of a chunk; smaller where the level is smaller.
    tile
        Shape that is read at once: whole chunks, here and of the source.
    sharded
        Whether several chunks become one stored object.
    """

    shapes: tuple[Shape, ...]
    factors: tuple[Shape, ...]
    chunk: Shape
    tile: Shape
    sharded: bool = False

    @classmethod
    def choose_shapes(
        cls,
        shape: Shape,
        axes: Sequence[Axis],
        scale: Sequence[float],
        source: Shape,
        *,
        sharded: bool = False,
        levels: int | None = None,
    ) -> PyramidPlan:
        """Choose the shapes of a pyramid.

        y and x are halved at each level until both have at most `COARSEST` voxels. z
        is halved with them where it has more, and voxels are not longer along z.
        A chunk has `FLAT` voxels along y and x, or `DEEP`; where the source has chunks,
        a length near to that which divides the side of these.

        Parameters
        ----------
        shape
            In voxels.
        axes, scale
            Their types; size of a voxel in their units.
        source
            Shape of a chunk of the source; 1 where that does not matter.
        sharded
            Whether to join up to `IN_SHARD` chunks along y and x.
        levels
            Number of levels; by default as many as `COARSEST` asks for.
        """
        spatial = [axis.type == "space" for axis in axes]
        z = len(shape) - 3 if len(shape) > 2 and spatial[-3] else None
        factors: list[Shape] = []
        shapes, voxel = [shape], list(scale)
        while (
            max(shapes[-1][-2:]) > COARSEST if levels is None else len(shapes) < levels
        ):
            step = [1] * len(shape)
            # y and x, the last two axes; t and c are never reduced.
            step[-2:] = 2, 2
            last = shapes[-1]
            # Voxels get as long along z as along y and x, before z is halved.
            if z is not None and last[z] > COARSEST and voxel[z] <= max(voxel[-2:]):
                step[z] = 2
            factors.append(tuple(step))
            shapes.append(coarser_shape(last, factors[-1]))
            voxel = [size * f for size, f in zip(voxel, step, strict=True)]
        # Cubes only where z is halved: else planes are read one by one, and flat chunks
        # waste nothing.
        deep = z is not None and any(step[z] > 1 for step in factors)
        wanted = [1] * (len(shape) - 3) + list(DEEP if deep else (1, FLAT, FLAT))
        # The list has three sides at least; an image of y and x has two.
        wanted = wanted[-len(shape) :]
        chunk = tuple(
            side if side == 1 else _choose_side(theirs, size, side)
            for side, theirs, size in zip(wanted, source, shape, strict=True)
        )
        # At least as large as a chunk of the source, so that few of these are decoded
        # twice.
        tile = tuple(
            c * math.ceil(min(theirs, size) / c)
            for c, theirs, size in zip(chunk, source, shape, strict=True)
        )
        return cls(tuple(shapes), tuple(factors), chunk, tile, sharded)

    def place_levels(
        self, scale: Sequence[float], translation: Sequence[float]
    ) -> tuple[Level, ...]:
        """Compute scale and translation of the levels.

        A voxel is in the middle of its block, the voxels of level 0 that it covers.

        Parameters
        ----------
        scale, translation
            Of level 0, in the axes' units.
        """
        total = np.ones(len(scale))
        levels = [place_coarse_level("0", scale, translation, total)]
        for number, factors in enumerate(self.factors, 1):
            total = total * factors
            levels.append(place_coarse_level(str(number), scale, translation, total))
        return tuple(levels)

    def describe_arrays(
        self, dtype: np.dtype[Any], names: tuple[str, ...], *, shuffle: bool
    ) -> list[tuple[str, NewArray]]:
        """Describe the arrays of all levels, each with its path in the group."""
        arrays = []
        for number, shape in enumerate(self.shapes):
            chunk = tuple(min(c, n) for c, n in zip(self.chunk, shape, strict=True))
            shard = None
            if self.sharded:
                grid = coarser_shape(shape, chunk)
                many = [1] * (len(shape) - 2) + [min(IN_SHARD, n) for n in grid[-2:]]
                # Only along y and x, the plane in which people look and paint.
                shard = tuple(c * n for c, n in zip(chunk, many, strict=True))
            new = NewArray(shape, chunk, dtype, names, shard, shuffle)
            arrays.append((str(number), new))
        return arrays

    @property
    def steps(self) -> list[tuple[Shape, Shape, Shape]]:
        """For each pair of levels: shape of the finer, of the coarser, and the
        factors.
        """
        pairs = zip(pairwise(self.shapes), self.factors, strict=True)
        return [(fine, coarse, factors) for (fine, coarse), factors in pairs]


def _choose_side(source: int, size: int, wanted: int) -> int:
    """Choose the side of a chunk: even, so that it has whole blocks of 2 voxels.

    Parameters
    ----------
    source
        Side of the source's chunk; 1 where that does not matter.
    size
        Of the axis.
    wanted
        Side without a source.
    """
    # The whole axis in one chunk, or none at all: nothing to adapt to.
    if source >= size or source < 2:
        return wanted
    largest = min(LARGEST, 2 * wanted)
    smallest = min(SMALLEST, wanted // 2)
    if source <= largest:
        # The source's chunks are small: several of them make one of ours.
        fitting = source * max(1, wanted // source)
        return fitting if fitting % 2 == 0 else wanted
    # The source's chunks are large: each is cut into equal parts, as few as the limit
    # allows.
    parts = range(math.ceil(source / largest), source // smallest + 1)
    even = [source // n for n in parts if source % n == 0 and source // n % 2 == 0]
    return even[0] if even else wanted


@dataclass(slots=True)
class _LevelState:
    """State of a level while it is written: incomplete chunks and shards."""

    new: NewArray
    encoder: ChunkEncoder
    joiner: ChunkJoiner
    reduction: LevelReduction | None = None
    partial: dict[Shape, tuple[Array, list[int]]] = field(default_factory=dict)

    def cell_box(self, cell: Shape) -> Box:
        return box_of(cell, self.new.chunks, self.new.shape)


class PyramidWriter:
    """Writes the levels of one pyramid into a draft.

    Parameters
    ----------
    draft
        Gets the objects.
    arrays
        Path in the draft and description of each level, the finest first. Shapes
        follow by `coarser_shape`; chunks hold whole blocks, or the whole axis.
    reductions
        How each level but the first follows from the one before.
    version
        Of OME-Zarr.
    tile
        Shape that is read at once: whole chunks of level 0.

    Notes
    -----
    Memory per thread: three times a tile and a chunk; and per level at most as many
    incomplete chunks as a block has voxels; of shards the stored bytes. 30 MB for
    chunks of 1 MB in two threads.
    """

    def __init__(
        self,
        draft: NewHierarchy,
        arrays: Sequence[tuple[str, NewArray]],
        reductions: Sequence[LevelReduction],
        version: str,
        tile: Shape,
    ) -> None:
        self.draft = draft
        self.tile = tile
        self._lock = threading.Lock()
        self._levels: list[_LevelState] = []
        source = FolderStore(draft.root)
        for path, new in arrays:
            name, document = new.make_document(version)
            # Before any chunk: the layout is read back from it, so that writer and
            # reader cannot differ.
            draft.put(f"{path}/{name}", document)
            layout = open_array(source, path).layout
            encoder = ChunkEncoder.from_document(document, layout)
            joiner = ChunkJoiner(layout, partial(self._put_object, path, layout.keys))
            self._levels.append(_LevelState(new, encoder, joiner))
        # One less than levels: the coarsest is not reduced.
        for level, reduction in zip(self._levels, reductions, strict=False):
            level.reduction = reduction

    def _put_object(self, path: str, keys: ChunkKeys, unit: Shape, data: bytes) -> None:
        self.draft.put(f"{path}/{keys.make_key(unit)}", data)

    def write_levels(
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
            Called after each tile with its number of voxels, by several threads; may
            raise to stop.
        concurrency
            Number of threads.
        """
        level = self._levels[0]
        shape = level.new.shape
        count = math.prod(coarser_shape(shape, self.tile))

        def write_position(position: Shape) -> None:
            box = box_of(position, self.tile, shape)
            block = source.read(box)
            for cell in cells_in(box, level.new.chunks):
                part = block[slice_inside(level.cell_box(cell), box)]
                self._write_chunk(0, cell, np.ascontiguousarray(part, level.new.dtype))
            if step is not None:
                # After the tile was written, so progress never runs ahead; raising here
                # stops all threads.
                step(math.prod(box_shape(box)))

        share_work(self._order_tiles(), write_position, count, concurrency)

    def _order_tiles(self) -> Iterator[Shape]:
        """Order the tiles: all tiles of one coarse voxel's block before the next
        block.
        """
        grids = [coarser_shape(self._levels[0].new.shape, self.tile)]
        reductions = (level.reduction for level in self._levels)
        steps = [reduction.factors for reduction in reductions if reduction]
        for factors in steps:
            grids.append(coarser_shape(grids[-1], factors))

        def list_below(number: int, position: Shape) -> Iterator[Shape]:
            if number == 0:
                yield position
                return
            spans = zip(position, steps[number - 1], grids[number - 1], strict=True)
            # Depth first: a coarse chunk is complete, and its memory free, before the
            # next is begun.
            for inner in itertools.product(
                *(range(i * f, min((i + 1) * f, n)) for i, f, n in spans)
            ):
                yield from list_below(number - 1, inner)

        for position in itertools.product(*map(range, grids[-1])):
            yield from list_below(len(steps), position)

    def _write_chunk(self, number: int, cell: Shape, voxels: Array) -> None:
        """Store a chunk, cut at the border, and reduce it into the next level."""
        level = self._levels[number]
        chunk = level.encoder.pad_chunk(voxels)
        # Looked at once for both uses: blank chunks are neither encoded nor reduced.
        blank = level.encoder.is_blank(chunk)
        # Before it is encoded: the voxels are still in the cache of the processor.
        whole = list(self._reduce_chunk(number, cell, voxels, blank=blank))
        data = None if blank else level.encoder.encode_always(chunk)
        level.joiner.add_chunk(cell, data)
        # Recursion is as deep as there are levels, some ten at most.
        for target, coarse in whole:
            self._write_chunk(number + 1, target, coarse)

    def _reduce_chunk(
        self, number: int, cell: Shape, voxels: Array, *, blank: bool
    ) -> Iterator[tuple[Shape, Array]]:
        """Reduce a chunk, and yield chunks of the next level that are complete by
        that.
        """
        level = self._levels[number]
        if level.reduction is None:
            return
        spans = zip(level.cell_box(cell), level.reduction.factors, strict=True)
        # Chunks begin at whole blocks (see `arrays`), so only the end is rounded, at
        # the border.
        box = tuple((a // f, -(-b // f)) for (a, b), f in spans)
        # Every reduction of fill values gives fill values.
        if blank:
            fill = level.encoder.layout.fill_value
            reduced = np.full(box_shape(box), fill, voxels.dtype)
        else:
            reduced = level.reduction.reduce(voxels, box)
        yield from self._fill_chunks(self._levels[number + 1], box, reduced)

    def _fill_chunks(
        self, level: _LevelState, box: Box, voxels: Array
    ) -> Iterator[tuple[Shape, Array]]:
        """Put voxels into chunks of a level, and yield those that are complete by
        that.
        """
        for cell in cells_in(box, level.new.chunks):
            cell_box = level.cell_box(cell)
            # Only the look-up is locked: allocating is cheap against waiting for
            # another thread's copy.
            with self._lock:
                if cell not in level.partial:
                    shape = box_shape(cell_box)
                    missing = [math.prod(shape)]
                    level.partial[cell] = np.empty(shape, level.new.dtype), missing
                chunk, missing = level.partial[cell]
            # Without the lock: the parts that threads fill do not overlap.
            common = intersect_boxes(cell_box, box)
            chunk[slice_inside(common, cell_box)] = voxels[slice_inside(common, box)]
            with self._lock:
                missing[0] -= math.prod(box_shape(common))
                # Counted in voxels; exactly one thread sees 0, and passes the chunk on.
                whole = missing[0] == 0
                if whole:
                    del level.partial[cell]
            if whole:
                yield cell, chunk


def open_pyramid_writer(
    draft: NewHierarchy,
    path: str,
    plan: PyramidPlan,
    axes: Sequence[Axis],
    dtype: np.dtype[Any],
    version: str,
    *,
    is_label: bool,
) -> PyramidWriter:
    """Create the arrays of a pyramid in the group at `path`, and return their writer.

    Coarser levels are the mean of an image, or the mode of labels.
    """
    names = tuple(axis.name for axis in axes)
    arrays = [
        (f"{path}/{level}".lstrip("/"), new)
        for level, new in plan.describe_arrays(dtype, names, shuffle=not is_label)
    ]
    method: Method = "mode" if is_label else "mean"
    reductions = [
        LevelReduction.between_shapes(fine, coarse, method, factors)
        for fine, coarse, factors in plan.steps
    ]
    return PyramidWriter(draft, arrays, reductions, version, plan.tile)
