"""Cells: the equal boxes that a level is cut into from its corner on."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ngff.labels.grid import Box

__all__ = ["Cell", "box_of", "cell_at", "cells_in", "hull", "inside", "overlap"]

Cell = tuple[int, ...]


def box_of(cell: Cell, lengths: tuple[int, ...], shape: tuple[int, ...]) -> Box:
    """Rectangle of a cell, cut at the border."""
    return tuple(
        (i * n, min((i + 1) * n, size))
        for i, n, size in zip(cell, lengths, shape, strict=True)
    )


def cell_at(box: Box, lengths: tuple[int, ...]) -> Cell:
    """Cell in which a rectangle begins."""
    return tuple(start // n for (start, _), n in zip(box, lengths, strict=True))


def cells_in(box: Box, lengths: tuple[int, ...]) -> Iterator[Cell]:
    """List the cells that a rectangle meets."""
    return itertools.product(
        *(range(a // n, -(-b // n)) for (a, b), n in zip(box, lengths, strict=True))
    )


def hull(boxes: Sequence[Box]) -> Box:
    """Smallest rectangle that holds some."""
    return tuple(
        (min(a for a, _ in spans), max(b for _, b in spans))
        for spans in zip(*boxes, strict=True)
    )


def overlap(first: Box, second: Box) -> Box:
    """Part that two rectangles have in common."""
    return tuple(
        (max(a, c), min(b, d)) for (a, b), (c, d) in zip(first, second, strict=True)
    )


def inside(part: Box, box: Box) -> tuple[slice, ...]:
    """Index of a part of a rectangle in an array of that rectangle."""
    return tuple(
        slice(a - start, b - start)
        for (a, b), (start, _) in zip(part, box, strict=True)
    )
