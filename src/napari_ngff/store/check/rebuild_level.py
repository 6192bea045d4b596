"""Finds coarser levels of labels whose ids were interpolated, and computes them again.

An average of the ids 2 and 4 is 3, which may be another object. Every id of a coarser
level must be one of the ids that the finer level has there.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.boxes import box_of, cells_in, whole_box
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.write.transaction import replace_unchanged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.sources.revision import Revision
    from napari_ngff.store.write.transaction import NewTree, Revisions, Transaction


def count_strangers(
    fine: ChunkedArray,
    coarse: ChunkedArray,
    cancel: Callable[[], bool] | None = None,
) -> int:
    """Count voxels of a level whose id the finer level does not have there.

    Reads both levels once, a stored object of the coarser one at a time.

    Parameters
    ----------
    fine, coarse
        Two levels of one pyramid, of equal axes.
    cancel
        Asked before each object whether to stop.

    Returns
    -------
    int
        0 for a level made by nearest, stride or mode, with whatever offset: one voxel
        of the finer level more on each side counts as there.
    """
    strangers = 0
    for box in object_boxes(coarse):
        if cancel is not None and cancel():
            break
        ids = coarse.read(box)
        # One voxel more on each side: writers take different voxels of a block, and
        # round differently.
        sources, origin = source_box(box, fine.shape, coarse.shape, margin=1)
        below = fine.read(sources)
        strangers += count_unmatched(ids, below, box, origin, fine.shape, coarse.shape)
    return strangers


def count_unmatched(
    ids: npt.NDArray[Any],
    below: npt.NDArray[Any],
    box: Box,
    origin: Shape,
    fine: Shape,
    coarse: Shape,
) -> int:
    """Count ids of a block of the coarser level that no voxel `below` them has."""
    factors = [n / m for n, m in zip(fine, coarse, strict=True)]
    # Per axis: the first finer voxel that each voxel of the box stands for, as an
    # index of `below`. Factors need not be whole numbers, where sizes are odd.
    first = [
        np.floor(np.arange(start, stop) * factor).astype(int) - corner
        for (start, stop), factor, corner in zip(box, factors, origin, strict=True)
    ]
    reach = [range(-1, math.ceil(factor) + 1) for factor in factors]
    # The voxel itself first: it settles nearly all, and the rest are few.
    corners = np.ix_(
        *(f.clip(0, n - 1) for f, n in zip(first, below.shape, strict=True))
    )
    differs = below[corners] != ids
    # Positions, shape (axes, unmatched), and their ids: both shrink with each offset.
    positions, unmatched = np.array(differs.nonzero()), ids[differs]
    for offset in itertools.product(*reach):
        index = tuple(
            (starts[axis] + step).clip(0, size - 1)
            for starts, axis, step, size in zip(
                first, positions, offset, below.shape, strict=True
            )
        )
        differs = below[index] != unmatched
        positions, unmatched = positions[:, differs], unmatched[differs]
        if not unmatched.size:
            break
    return int(unmatched.size)


def rebuild_level(
    fine: ChunkedArray,
    coarse: ChunkedArray,
    transaction: Transaction,
    kept: str,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Compute a level again, by nearest (stride), and replace the old one by it.

    The new level is written beside the old one, with a copy of its metadata, and takes
    its place when it is complete: see `Transaction.replace_tree`. Memory is that of one
    stored object and of the finer voxels that it is made of.

    Parameters
    ----------
    fine
        The next finer level, right already.
    coarse
        The level to be made.
    transaction
        Of the hierarchy.
    kept
        Path at which the old level is kept; of several repairs the oldest state.
    progress
        Called with the level of each written object.

    Raises
    ------
    ConflictError
        Where another window saves into these levels again and again.
    """

    def change(box: Box, voxels: npt.NDArray[Any]) -> bool:
        sources, origin = source_box(box, fine.shape, coarse.shape)
        # In integers: a factor in floating point could round to the voxel before.
        index = (
            np.arange(start, stop) * n // m - corner
            for (start, stop), n, m, corner in zip(
                box, fine.shape, coarse.shape, origin, strict=True
            )
        )
        voxels[...] = fine.read(sources)[np.ix_(*index)]
        return bool((voxels != coarse.fill_value).any())

    def make_level(tree: NewTree) -> Revisions:
        # Of both levels, before any is read: a save in another window changes both,
        # and this level must have it.
        revisions: dict[str, Revision | None] = {}
        for level in (fine, coarse):
            revisions |= ArrayWriter(level, transaction).list_revisions()
            level.forget_chunks()
        for name in ("zarr.json", ".zarray", ".zattrs"):
            # Byte by byte, so that keys and settings that this package does not know
            # stay.
            document = transaction.source.get(join_key(coarse.path, name))
            if document is not None:
                transaction.put(join_key(tree.key, name), document)
        new = open_array(transaction.source, tree.key, coarse.zarr_format)
        writer = ArrayWriter(new, transaction)
        for box in object_boxes(coarse):
            unit = tuple(
                start // size for (start, _), size in zip(box, writer.unit, strict=True)
            )
            # One stored object at a time: a shard is written once, with all of its
            # chunks.
            writer.update_cells(unit, set(cells_in(box, writer.array.chunks)), change)
            if progress is not None:
                progress(coarse.path)
        return revisions

    # An error or a kill before the new level is there leaves the old one in place.
    replace_unchanged(transaction, coarse.path, make_level, kept=kept)
    transaction.commit()


def object_boxes(array: ChunkedArray) -> Iterator[Box]:
    """Yield the box of each stored object, cut at the border."""
    unit = array.shards or array.chunks
    for cell in cells_in(whole_box(array.shape), unit):
        yield box_of(cell, unit, array.shape)


def source_box(
    box: Box, fine: Shape, coarse: Shape, margin: int = 0
) -> tuple[Box, Shape]:
    """Return the box of the finer level that a box stands for, and its corner."""
    sources = []
    for (start, stop), n, m in zip(box, fine, coarse, strict=True):
        low = max(start * n // m - margin, 0)
        # Rounded up: the last voxel of a box may stand for a part of a block only.
        high = min(-(-stop * n // m) + margin, n)
        sources.append((low, high))
    return tuple(sources), tuple(low for low, _ in sources)
