"""Writes all levels of a new pyramid in one pass over level 0, tile by tile.

A chunk is encoded, stored, and reduced into a part of a chunk of the next level, which
is treated in the same way once it is complete. Tiles come in an order that completes
chunks soon, so that memory is that of a few chunks per level and thread, whatever the
size of the image: see `PyramidWriter`.
"""

from __future__ import annotations

import itertools
import math
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.boxes import (
    box_of,
    box_shape,
    cells_in,
    intersect_boxes,
    slice_inside,
)
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.encoding import ChunkEncoder, ChunkJoiner
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from napari_ngff.store.sources.folder_source import FolderSource
from napari_ngff.store.threads import CORES, share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari_ngff.metadata.model import Axis
    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunk_layout import ChunkKeys, Shape
    from napari_ngff.store.arrays.lazy_array import ArraySource
    from napari_ngff.store.arrays.new_array import NewArray
    from napari_ngff.store.pyramids.level_reduction import Array, Method
    from napari_ngff.store.pyramids.pyramid_plan import PyramidPlan
    from napari_ngff.store.write.new_hierarchy import NewHierarchy


def coarser_shape(shape: Shape, factors: Shape) -> Shape:
    """Return the shape of the coarser level; its last voxels may cover fewer voxels."""
    return tuple(-(-n // f) for n, f in zip(shape, factors, strict=True))


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
        source = FolderSource(draft.root)
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
        chunk = voxels
        # All chunks of an array have one shape in the file, also those at the border.
        if voxels.shape != level.new.chunks:
            chunk = np.zeros(level.new.chunks, level.new.dtype)
            chunk[tuple(slice(0, n) for n in voxels.shape)] = voxels
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
