"""Coarser levels of label ids that were interpolated: found, and made again.

An average of the ids 2 and 4 is 3, which may be another object. Every id of a coarser
level must be one of those that it stands for.
"""

from __future__ import annotations

import itertools
import math
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.boxes import box_of, cells_in, whole_box
from napari_ngff.store.write.folder_transaction import FolderTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from napari_ngff.store.boxes import Box
    from napari_ngff.store.chunks import ChunkedArray
    from napari_ngff.store.layout import Shape

__all__ = ["count_strangers", "rebuild_level"]


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
    for box in blocks(coarse):
        if cancel is not None and cancel():
            break
        ids = coarse.read(box)
        sources, origin = source_box(box, fine.shape, coarse.shape, margin=1)
        below = fine.read(sources)
        strangers += unmatched(ids, below, box, origin, fine.shape, coarse.shape)
    return strangers


def unmatched(
    ids: npt.NDArray[Any],
    below: npt.NDArray[Any],
    box: Box,
    origin: Shape,
    fine: Shape,
    coarse: Shape,
) -> int:
    """Count ids of a block of the coarser level that no voxel `below` them has."""
    factors = [n / m for n, m in zip(fine, coarse, strict=True)]
    first = [
        np.floor(np.arange(start, stop) * factor).astype(int) - at
        for (start, stop), factor, at in zip(box, factors, origin, strict=True)
    ]
    reach = [range(-1, math.ceil(factor) + 1) for factor in factors]
    # The voxel itself first: it settles nearly all, and the rest are few.
    here = np.ix_(*(f.clip(0, n - 1) for f, n in zip(first, below.shape, strict=True)))
    other = below[here] != ids
    at, left = np.array(other.nonzero()), ids[other]
    for offset in itertools.product(*reach):
        index = tuple(
            (starts[axis] + step).clip(0, size - 1)
            for starts, axis, step, size in zip(
                first, at, offset, below.shape, strict=True
            )
        )
        other = below[index] != left
        at, left = at[:, other], left[other]
        if not left.size:
            break
    return int(left.size)


def rebuild_level(
    fine: ChunkedArray,
    coarse: ChunkedArray,
    root: str,
    progress: Callable[[str], None] | None = None,
) -> tuple[str, str]:
    """Make a level again, by nearest (stride), and put it in the place of the old one.

    Written beside, object by object, with the metadata of the old level to the letter.
    Complete it takes the place: see `TreeReplacement`. Memory is that of one object and
    what it is made of.

    Parameters
    ----------
    fine
        The next finer level, right already.
    coarse
        The level to be made.
    root
        Folder of the hierarchy.
    progress
        Told of each written object's level.

    Returns
    -------
    str, str
        The level's folder, and the folder in which the old level is kept.
    """
    import zarr

    folder = os.path.join(root, *coarse.path.split("/"))
    kept = f"{folder}.before-repair"
    with FolderTransaction(root).replace_tree(coarse.path) as tree:
        os.mkdir(tree.new)
        for name in ("zarr.json", ".zarray", ".zattrs"):
            if os.path.exists(os.path.join(folder, name)):
                shutil.copy2(os.path.join(folder, name), os.path.join(tree.new, name))
        target = zarr.open_array(tree.new, mode="r+")
        for box in blocks(coarse):
            sources, origin = source_box(box, fine.shape, coarse.shape)
            index = (
                np.arange(start, stop) * n // m - at
                for (start, stop), n, m, at in zip(
                    box, fine.shape, coarse.shape, origin, strict=True
                )
            )
            region = tuple(slice(start, stop) for start, stop in box)
            target[region] = fine.read(sources)[np.ix_(*index)].astype(coarse.dtype)
            if progress is not None:
                progress(coarse.path)
        # Of several repairs of one level the oldest state is kept.
        tree.commit(foreign=True, kept=kept)
    return folder, kept


def blocks(array: ChunkedArray) -> Iterator[Box]:
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
        high = min(-(-stop * n // m) + margin, n)
        sources.append((low, high))
    return tuple(sources), tuple(low for low, _ in sources)
