"""Filled polygons as runs of voxels, exactly as napari paints them.

napari fills polygons with Pillow's ``ImageDraw.polygon``. How that treats corners, and
rounds in single precision, differs between releases and machines. So Pillow is used
here, too, in bands of rows as wide as napari's picture. The bits are the same as in one
piece, since a row depends on no other row, and its rounding only on the first column.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.runs import mask_runs, sort_runs

if TYPE_CHECKING:
    from napari_ngff.labels.level_grid import Indices

__all__ = ["is_large", "polygon_rows", "polygon_runs"]

Points = tuple[tuple[int, int], ...]

EXACT = 1 << 26
"""Up to so many voxels of bounding box Pillow decides about all of a polygon at once;
napari would need as many bytes. Of a larger one it decides about the rows that are
asked for, and about the whole a scanline of double precision does, which may differ
from Pillow's by one voxel at the outline."""

BAND = 1 << 21
"""Voxels that Pillow draws at once; with more, fresh memory takes most of the time."""


def _cut_to_frame(points: Points, frame: tuple[int, int]) -> tuple[Indices, Any, Any]:
    """Return corners, first voxel inside the frame, and the one after the last."""
    corners = np.array(points, np.int64)
    # Axes (y, x) for all three.
    low = np.maximum(corners.min(axis=0), 0)
    high = np.minimum(corners.max(axis=0) + 1, frame)
    return corners, low, np.maximum(low, high)


@lru_cache(maxsize=64)
def is_large(points: Points, frame: tuple[int, int]) -> bool:
    """Return whether a polygon is too large for `polygon_runs` to be exact."""
    _, low, high = _cut_to_frame(points, frame)
    return int((high - low).prod()) > EXACT


@lru_cache(maxsize=64)
def polygon_runs(points: Points, frame: tuple[int, int]) -> Indices:
    """Find the voxels of a polygon, its outline included.

    Parameters
    ----------
    points
        Corners, in voxels of two axes (y, x).
    frame
        Size of the array (y, x); what lies outside is cut off.

    Returns
    -------
    ndarray
        Runs with the columns (y, first x, x after the last), sorted. Where the polygon
        `is_large`, the outline may be off by one voxel.
    """
    if is_large(points, frame):
        return _scan_rows(*_cut_to_frame(points, frame))
    return polygon_rows(points, frame, 0, frame[0])


def polygon_rows(
    points: Points, frame: tuple[int, int], first: int, last: int
) -> Indices:
    """Find the voxels of a polygon in some rows, exactly, whatever its size.

    Parameters
    ----------
    points, frame
        As of `polygon_runs`.
    first, last
        The first row, and the one after the last.

    Returns
    -------
    ndarray
        Runs as of `polygon_runs`.
    """
    _, low, high = _cut_to_frame(points, frame)
    first, last = max(first, int(low[0])), min(last, int(high[0]))
    if first >= last or low[1] >= high[1]:
        return np.empty((0, 3), np.int64)
    # Bands are counted from the polygon's first row, so that chunks beside and below
    # each other ask for the same bands, which are cached.
    rows = max(1, BAND // int(high[1] - low[1]))
    top = int(low[0])
    bands = range((first - top) // rows, (last - 1 - top) // rows + 1)
    # Whole bands; the rows that were asked for are cut out below.
    runs = np.concatenate(
        [_draw_band(points, frame, band * rows, rows) for band in bands]
    )
    return runs[slice(*np.searchsorted(runs[:, 0], [first, last]))]


@lru_cache(maxsize=512)
def _draw_band(
    points: Points, frame: tuple[int, int], start: int, rows: int
) -> Indices:
    """Let Pillow draw some rows, counted from the first of the polygon."""
    from PIL import Image, ImageDraw  # slow, and only polygons need it

    corners, low, high = _cut_to_frame(points, frame)
    height = min(rows, int(high[0] - low[0]) - start)
    picture = Image.new("L", (int(high[1] - low[1]), height), 0)
    # As wide as napari's picture, whose rounding depends on the first column.
    moved = corners - low - (start, 0)
    ImageDraw.Draw(picture).polygon(
        [(int(x), int(y)) for y, x in moved], outline=1, fill=1
    )
    # Of 0 and 1 in one byte each: no copy.
    mask = np.asarray(picture).view(bool)
    return mask_runs(mask, (int(low[0]) + start, int(low[1])))


def _scan_rows(corners: Indices, low: Any, high: Any) -> Indices:
    """Fill between the crossings of each row with the edges, and draw the edges."""
    # Edges from each corner (y, x) to the next, turned so that y grows.
    start, stop = corners, np.roll(corners, -1, axis=0)
    upward = start[:, 0] > stop[:, 0]
    start, stop = (
        np.where(upward[:, None], stop, start),
        np.where(upward[:, None], start, stop),
    )
    # Row by row, the part of an edge within half a voxel of the row's middle.
    edge, row = _pair_rows(
        np.maximum(start[:, 0], low[0]), np.minimum(stop[:, 0], high[0] - 1)
    )
    rise = np.maximum(stop[:, 0] - start[:, 0], 1)
    slope = (stop[:, 1] - start[:, 1]) / rise
    offset = row - start[edge, 0]
    # A horizontal edge is drawn from end to end, and is never crossed.
    flat = (stop[:, 0] == start[:, 0])[edge]
    ends = [
        start[edge, 1] + slope[edge] * np.clip(offset + half, 0, rise[edge])
        for half in (-0.5, 0.5)
    ]
    ends = [
        np.where(flat, start[edge, 1], ends[0]),
        np.where(flat, stop[edge, 1], ends[1]),
    ]
    outline = np.stack(
        [row, np.rint(np.minimum(*ends)), np.rint(np.maximum(*ends)) + 1], axis=1
    )
    # Half open, so that a corner where an edge goes on counts once.
    crossing = ~flat & (row < stop[edge, 0])
    x = (start[edge, 1] + slope[edge] * offset)[crossing]
    order = np.lexsort((x, row[crossing]))
    x, row = np.rint(x[order]), row[crossing][order]
    # Even-odd rule: between the first and second crossing of a row, the third and
    # fourth. Each row has an even number of crossings.
    inside = np.stack([row[::2], x[::2], x[1::2] + 1], axis=1)
    runs = sort_runs([outline.astype(np.int64), inside.astype(np.int64)])
    runs[:, 1] = np.maximum(runs[:, 1], low[1])
    runs[:, 2] = np.minimum(runs[:, 2], high[1])
    return runs[runs[:, 1] < runs[:, 2]]


def _pair_rows(first: Indices, last: Indices) -> tuple[Indices, Indices]:
    """List each edge with each of its rows, both ends included."""
    counts = np.maximum(last - first + 1, 0)
    edge = np.repeat(np.arange(len(first)), counts)
    before = np.cumsum(counts) - counts
    return edge, first[edge] + np.arange(len(edge)) - before[edge]
