"""Arithmetic of boxes and cells.

A *box* is a rectangle of an array: start and stop per axis. *Cells* are the equal boxes
into which a level is cut, its chunks or shards; those at the border are smaller. An
*order* has the axis of the array for each axis of a view of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Box = tuple[tuple[int, int], ...]
"""A rectangle of indices, ``(start, stop)`` per axis."""

Cell = tuple[int, ...]
"""Position of a cell in the grid of cells, per axis."""

AxisOrder = tuple[int | None, ...]
"""Axis of an array for each axis of a view of it; None for one of length 1 that the
array does not have. The view is at one index of the axes that are not in it."""


def whole_box(shape: Sequence[int]) -> Box:
    """Return the box of a whole array."""
    return tuple((0, size) for size in shape)


def box_shape(box: Box) -> tuple[int, ...]:
    """Return the length of a box per axis."""
    return tuple(stop - start for start, stop in box)


def box_of(cell: Cell, lengths: Sequence[int], shape: Sequence[int]) -> Box:
    """Return the box of a cell, cut at the border."""
    return tuple(
        (i * n, min((i + 1) * n, size))
        for i, n, size in zip(cell, lengths, shape, strict=True)
    )


def cell_at(box: Box, lengths: tuple[int, ...]) -> Cell:
    """Return the cell in which a box begins."""
    # Boxes do not have to begin at a border of cells: this is the cell of the first
    # voxel.
    return tuple(start // n for (start, _), n in zip(box, lengths, strict=True))


def cell_ranges(box: Box, lengths: Sequence[int]) -> list[range]:
    """Return the positions per axis of the cells that a box meets."""
    # The last cell counts though the box may end inside it: the division is rounded up.
    return [range(a // n, -(-b // n)) for (a, b), n in zip(box, lengths, strict=True)]


def cells_in(box: Box, lengths: Sequence[int]) -> Iterator[Cell]:
    """List the cells that a box meets."""
    return itertools.product(*cell_ranges(box, lengths))


def enclose_boxes(boxes: Sequence[Box]) -> Box:
    """Return the smallest box that contains all of these."""
    return tuple(
        (min(a for a, _ in spans), max(b for _, b in spans))
        for spans in zip(*boxes, strict=True)
    )


def intersect_boxes(first: Box, second: Box) -> Box:
    """Return the part that two boxes have in common."""
    return tuple(
        (max(a, c), min(b, d)) for (a, b), (c, d) in zip(first, second, strict=True)
    )


def slice_inside(part: Box, box: Box) -> tuple[slice, ...]:
    """Return the slices of a part of a box in an array of that box."""
    return tuple(
        slice(a - start, b - start)
        for (a, b), (start, _) in zip(part, box, strict=True)
    )


def order_box(box: Box, order: AxisOrder) -> Box:
    """Convert a box of an array into one on the axes of an order."""
    # An axis that the array does not have is one element long.
    return tuple((0, 1) if axis is None else box[axis] for axis in order)


def array_box(box: Box, order: AxisOrder, ndim: int) -> Box:
    """Convert a box on the axes of an order into one of the array."""
    # Axes that the order drops stay at their first element: `order_block` takes index 0
    # there.
    spans = [(0, 1)] * ndim
    for axis, span in zip(order, box, strict=True):
        if axis is not None:
            spans[axis] = span
    return tuple(spans)


def order_block(block: np.ndarray[Any, Any], order: AxisOrder) -> np.ndarray[Any, Any]:
    """View an array on the axes of an order; changes of the view change the array."""
    kept = [axis for axis in order if axis is not None]
    dropped = [axis for axis in range(block.ndim) if axis not in kept]
    index: Any = (..., *(0 for _ in dropped))
    # Transposing and picking index 0 copy nothing, so writing into the view writes into
    # the block.
    view = block.transpose((*kept, *dropped))[index]
    return np.expand_dims(view, tuple(i for i, a in enumerate(order) if a is None))
