"""Outlines labels along the edges of their voxels, as exact polygons with holes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["OutlinePolygon", "find_polygons"]

Ring = npt.NDArray[np.int64]
"""Corners, axes (corner, y and x); the last is joined with the first. Integers are the
edges between voxels: voxel 0 reaches from 0 to 1."""


@dataclass(frozen=True, slots=True, eq=False)
class OutlinePolygon:
    """One piece of an object whose voxels are connected by faces.

    Attributes
    ----------
    outer
        Counterclockwise, where y points down.
    holes
        Clockwise.
    """

    outer: Ring
    holes: tuple[Ring, ...] = ()

    @property
    def area(self) -> int:
        """Number of voxels."""
        return sum(
            abs(_double_area(ring)) * sign // 2 for ring, sign in self._signed_rings()
        )

    def _signed_rings(self) -> list[tuple[Ring, int]]:
        return [(self.outer, 1), *((hole, -1) for hole in self.holes)]


def find_polygons(mask: npt.NDArray[np.bool_]) -> list[OutlinePolygon]:
    """Outline the voxels that are set in a mask.

    Pieces that touch at a corner only are apart. No ring meets itself ("simple",
    OGC 06-103r4, 6.1.11).

    Parameters
    ----------
    mask
        Axes (y, x).
    """
    rings = _trace_rings(mask)
    outer = [ring for ring in rings if _double_area(ring) > 0]
    holes = [ring for ring in rings if _double_area(ring) < 0]
    # One piece has all holes; most objects are such.
    if len(outer) == 1:
        return [OutlinePolygon(outer[0], tuple(holes))]
    # Else each hole belongs to the piece that its ring bounds.
    pieces = _label_pieces(mask)
    owned: dict[int, list[Ring]] = {}
    for hole in holes:
        owned.setdefault(_piece_of(hole, pieces, inner=True), []).append(hole)
    return [
        OutlinePolygon(ring, tuple(owned.get(_piece_of(ring, pieces), ())))
        for ring in outer
    ]


def _label_pieces(mask: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    # By faces, scipy's default, so that pieces that touch at a corner are apart.
    from scipy import ndimage

    pieces: npt.NDArray[Any] = ndimage.label(mask)[0]
    return pieces


def _piece_of(ring: Ring, pieces: npt.NDArray[Any], inner: bool = False) -> int:
    """Return the number of the piece that a ring bounds, by its topmost edge.

    Below that edge lies the piece; or a hole, and the piece above it.
    """
    ends = np.roll(ring, -1, axis=0)
    # Only a horizontal edge has a voxel above it and one below it.
    flat = ring[:, 0] == ends[:, 0]
    top = int(np.argmin(np.where(flat, ring[:, 0], np.iinfo(np.int64).max)))
    y, x = int(ring[top, 0]), int(min(ring[top, 1], ends[top, 1]))
    return int(pieces[y - 1, x] if inner else pieces[y, x])


def _double_area(ring: Ring) -> int:
    """Return twice the area inside a ring; negative for a hole."""
    # Shoelace formula.
    y, x = ring.T
    after = np.roll(x, -1), np.roll(y, -1)
    return int(np.sum(y * after[0] - x * after[1]))


def _trace_rings(mask: npt.NDArray[np.bool_]) -> list[Ring]:
    """Follow the edges between voxels that are set and voxels that are not."""
    # So that voxels at the border have a neighbour that is not set.
    padded = np.pad(mask, 1)
    # Each edge runs with the object on its left, y pointing down: from start to stop.
    starts, stops = [], []
    for shift, start, stop in (
        ((-1, 0), (0, 1), (0, 0)),  # above
        ((1, 0), (1, 0), (1, 1)),  # below
        ((0, -1), (0, 0), (1, 0)),  # left
        ((0, 1), (1, 1), (0, 1)),  # right
    ):
        beside = np.roll(padded, (-shift[0], -shift[1]), (0, 1))
        # Less the padding.
        voxels = np.argwhere(padded & ~beside) - 1
        starts.append(voxels + start)
        stops.append(voxels + stop)
    return _join_edges(np.concatenate(starts), np.concatenate(stops), mask.shape[1] + 1)


def _join_edges(starts: Ring, stops: Ring, width: int) -> list[Ring]:
    """Join edges to rings without corners on straight lines."""
    following: dict[int, list[int]] = {}
    # A corner as one number, row by row; `width` counts corners, one more than voxels.
    keys = (starts[:, 0] * width + starts[:, 1]).tolist()
    ends = (stops[:, 0] * width + stops[:, 1]).tolist()
    for edge, key in enumerate(keys):
        following.setdefault(key, []).append(edge)
    steps = (stops - starts).tolist()
    rings = []
    free = [True] * len(keys)
    for first in range(len(keys)):
        if not free[first]:
            continue
        edge, corners = first, []
        while free[edge]:
            free[edge] = False
            after = following[ends[edge]]
            # Where two pieces touch at a corner, turn into the same one.
            chosen = after[0]
            if len(after) > 1:
                y, x = steps[edge]
                chosen = next(
                    edge_after for edge_after in after if steps[edge_after] == [-x, y]
                )
            if steps[chosen] != steps[edge]:
                corners.append(ends[edge])
            edge = chosen
        for loop in _split_loops(corners):
            ring = np.array(loop, np.int64)
            rings.append(np.stack([ring // width, ring % width], axis=1))
    return rings


def _split_loops(corners: list[int]) -> list[list[int]]:
    """Cut a ring where it meets itself: a hole that touches its border is a ring."""
    loops: list[list[int]] = []
    way: list[int] = []
    position: dict[int, int] = {}
    for corner in corners:
        if corner in position:
            loop = way[position[corner] :]
            del way[position[corner] :]
            for passed in loop:
                del position[passed]
            loops.append(loop)
        position[corner] = len(way)
        way.append(corner)
    return [*loops, way]
