"""Shapes of edits, in voxels of level 0, as immutable values.

Each shape answers two questions about a level. Which voxels does it *touch*: it covers
at least one voxel of their blocks? Which *samples* does it cover: the middle voxels of
blocks? At level 0 both are the same.

Polygons are filled exactly as napari paints them. napari fills polygons with Pillow's
``ImageDraw.polygon``. How that treats corners, and rounds in single precision, differs
between releases and machines. So Pillow is used here, too, in bands of rows as wide as
napari's picture. The bits are the same as in one piece, since a row depends on no other
row, and its rounding only on the first column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.dabs import (
    SMALL,
    crescent_boxes,
    dab_over,
    fills_box,
    part_of,
    reached_mask,
)
from napari_ngff.labels.runs import cover_runs, mask_runs, sort_runs
from napari_ngff.store.arrays.boxes import Box, box_shape, whole_box

if TYPE_CHECKING:
    from napari_ngff.labels.level_grid import Indices, LevelGrid

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


Cover = np.ndarray[Any, np.dtype[np.bool_]] | bool
"""Which voxels of a box are covered; True for all of them, False for none."""

MANY_DABS = 16
"""Number of small dabs from which on they are put into a mask together."""

FEW_DABS = 64
"""Number of dabs up to which Python compares them faster than NumPy."""

GATHERED = 1 << 18
"""Most voxels of dabs that are computed at once: 2 MiB of float64 per array."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """The dabs of a round brush along some points.

    A row of dabs at whole voxels, as napari paints it: for each way from one point to
    the next ``steps`` dabs at equal distances, the first point left out, or a single
    dab at the first point where its steps are 0.

    Attributes
    ----------
    points
        Coordinates, one per painted axis, in voxels of level 0; at least two.
    steps
        One fewer than points.
    radius
        Of the brush, in voxels of the finest painted axis.
    weights
        Size of a voxel along each painted axis, the smallest being 1: the brush is
        round in the world, not in voxels.
    """

    points: tuple[tuple[float, ...], ...]
    steps: tuple[int, ...]
    radius: float
    weights: tuple[float, ...]

    @property
    def bbox(self) -> Box:
        """Rectangle of level 0 that it stays inside."""
        # A dab covers `int(radius / weight)` voxels to each side of its centre.
        box = []
        for coordinates, weight in zip(
            zip(*self.points, strict=True), self.weights, strict=True
        ):
            reach = int(self.radius / weight)
            box.append(
                (round(min(coordinates)) - reach, round(max(coordinates)) + reach + 1)
            )
        return tuple(box)

    def followed_by(self, other: Stroke) -> Stroke | None:
        """Join a stroke of the same brush that begins where this one ends."""
        same = (self.radius, self.weights) == (other.radius, other.weights)
        if not same or self.points[-1] != other.points[0]:
            return None
        # The other's first point is this one's last.
        points, steps = self.points + other.points[1:], self.steps + other.steps
        return Stroke(points, steps, self.radius, self.weights)

    def dab_centres(self) -> Indices:
        """Centres of the dabs; axes (dab, painted axis)."""
        points = np.array(self.points)
        steps = np.array(self.steps)
        counts = np.maximum(steps, 1)
        # For each dab: the piece of the way it is on, and its number there, from 1.
        way = np.repeat(np.arange(len(steps)), counts)
        number = np.arange(len(way)) - (np.cumsum(counts) - counts)[way] + 1
        # A piece of 0 steps is a single dab at its first point.
        number = np.where(steps[way] == 0, 0, number)[:, None]
        # As `numpy.linspace`, by which napari places dabs, to the last bit: that also
        # sets the last point itself instead of a product.
        stride = (points[1:] - points[:-1]) / counts[:, None]
        distances = number * stride[way] + points[:-1][way]
        last = number[:, 0] == steps[way]
        distances[last & (steps[way] > 0)] = points[1:][way[last & (steps[way] > 0)]]
        # Halves to the even number, as napari rounds.
        centres: Indices = np.round(distances).astype(np.int64)
        return centres

    @property
    def _is_exact(self) -> bool:
        """Return whether squared distances are whole: their sums are not rounded."""
        return set(self.weights) == {1.0}

    def covered_voxels(self, grid: LevelGrid, box: Box, touch: bool) -> Cover:
        """Return which voxels of a box of a level it covers."""
        bounds = [grid.block_bounds(axis, span, touch) for axis, span in enumerate(box)]
        # Most chunks meet few dabs of a long stroke.
        dabs = self._pick_near(bounds)
        if not len(dabs):
            return False
        if len(dabs) == 1 and math.prod(box_shape(box)) <= SMALL:
            dab = dab_over(dabs[0], bounds, self.weights)
            mask = reached_mask(dab, self.radius**2, self._is_exact)
            return True if mask.all() else mask if mask.any() else False
        # A chunk inside a large dab is known without computing its voxels.
        if self._is_full(dabs, bounds):
            return True
        mask = np.zeros(box_shape(box), bool)
        spans = self._dab_spans(dabs, bounds)
        # The largest part of the box that a dab reaches, per axis.
        windows = (spans[..., 1] - spans[..., 0]).max(axis=0)
        if len(dabs) >= MANY_DABS and windows.prod() * len(dabs) <= GATHERED:
            self._put_at_once(mask, dabs, bounds, spans[..., 0], windows)
        else:
            self._put_each(mask, dabs, bounds, spans)
        return mask if mask.any() else False

    def _pick_near(self, bounds: list[Any]) -> Indices:
        """Pick the dabs that reach into the box."""
        dabs = _unique_centres(self)
        keep = np.ones(len(dabs), bool)
        for axis, (low, high) in enumerate(bounds):
            reach = int(self.radius / self.weights[axis])
            centres = dabs[:, axis]
            keep &= (centres + reach >= low[0]) & (centres - reach <= high[-1])
        return dabs[keep]

    def _is_full(self, dabs: Indices, bounds: list[Any]) -> bool:
        """Return whether one dab covers the whole box, up to the farthest corner."""
        total = np.zeros(len(dabs))
        for axis, (low, high) in enumerate(bounds):
            # First and last block of the box; a block counts by its nearest voxel.
            ends = np.stack([low[[0, -1]], high[[0, -1]]])
            centres = dabs[:, axis, None]
            away = np.maximum(np.maximum(ends[0] - centres, centres - ends[1]), 0).max(
                axis=1
            )
            total += (away * self.weights[axis]) ** 2
        return bool((total <= self.radius**2).any())

    def _dab_spans(self, dabs: Indices, bounds: list[Any]) -> Indices:
        """Part of the box that each dab may reach; axes (dab, axis, start or stop)."""
        spans = np.empty((*dabs.shape, 2), np.int64)
        for axis, (low, high) in enumerate(bounds):
            reach = int(self.radius / self.weights[axis])
            # Blocks are in ascending order: from the first one that ends in reach to
            # the last one that begins in reach.
            spans[:, axis, 0] = np.searchsorted(high, dabs[:, axis] - reach)
            spans[:, axis, 1] = np.searchsorted(low, dabs[:, axis] + reach, "right")
        return spans

    def _put_each(
        self, mask: Any, dabs: Indices, bounds: list[Any], spans: Indices
    ) -> None:
        """Put dabs into the mask one by one; of a large dab only its crescent."""
        square, before = self.radius**2, None
        for centre, span in zip(dabs, spans.tolist(), strict=True):
            parts = [
                (low[a:b], high[a:b])
                for (low, high), (a, b) in zip(bounds, span, strict=True)
            ]
            dab = dab_over(centre, parts, self.weights)
            boxes: Any = [[(0, b - a) for a, b in span]]
            # What the dab before covers is in the mask already.
            if before is not None and math.prod(box_shape(span)) > SMALL:
                last = dab_over(before, parts, self.weights)
                boxes = crescent_boxes(dab, last, square)
            for box in boxes:
                target = tuple(
                    slice(a + start, a + stop)
                    for (a, _), (start, stop) in zip(span, box, strict=True)
                )
                mask[target] |= reached_mask(part_of(dab, box), square, self._is_exact)
            before = centre

    def boxes_beyond(
        self, other: Stroke, grid: LevelGrid, box: Box, touch: bool
    ) -> list[Box]:
        """Cut a box of a level to what this covers and a stroke before it does not.

        The boxes may hold more than that. A box that a dab covers as a whole stays
        whole, unless the one before did so, too.
        """
        # The other's last dab is where this one begins.
        dabs, before = _unique_centres(self), _unique_centres(other)[-1:]
        same = (self.radius, self.weights) == (other.radius, other.weights)
        if not same or len(dabs) > 1:
            return [box]
        bounds = [grid.block_bounds(axis, span, touch) for axis, span in enumerate(box)]
        dab, last = (
            dab_over(centres[0], bounds, self.weights) for centres in (dabs, before)
        )
        square = self.radius**2
        if fills_box(last, square):
            return []
        if fills_box(dab, square):
            return [box]
        return [
            tuple(
                (start + a, start + b)
                for (start, _), (a, b) in zip(box, part, strict=True)
            )
            for part in crescent_boxes(dab, last, square)
        ]

    def _put_at_once(
        self, mask: Any, dabs: Indices, bounds: list[Any], first: Any, windows: Any
    ) -> None:
        """Put many small dabs into the mask at once."""
        ndim = len(bounds)
        total: Any = 0
        index = []
        for axis, (low, high) in enumerate(bounds):
            # Windows of one size for all dabs; at the border some indices repeat the
            # last one.
            indices = np.minimum(
                first[:, axis, None] + np.arange(windows[axis]), len(low) - 1
            )
            dab = dabs[:, axis, None]
            away = np.maximum(np.maximum(low[indices] - dab, dab - high[indices]), 0)
            shape = [len(dabs)] + [1] * ndim
            shape[axis + 1] = -1
            # Axes (dab, axis 0 of the window, axis 1, ...), broadcast only here.
            total = total + ((away * self.weights[axis]) ** 2).reshape(shape)
            index.append(indices.reshape(shape))
        inside = total <= self.radius**2
        places = [np.broadcast_to(i, inside.shape)[inside] for i in index]
        mask[tuple(places)] = True


@lru_cache(maxsize=1024)
def _unique_centres(stroke: Stroke) -> Indices:
    """Return the centres of the dabs in order, each once; cached."""
    dabs = stroke.dab_centres()
    if len(dabs) == 1:
        return dabs
    if len(dabs) <= FEW_DABS:
        # Both ways keep the order, on which `boxes_beyond` and `_put_each` rely.
        return np.array(list(dict.fromkeys(map(tuple, dabs.tolist()))), np.int64)
    _, first = np.unique(dabs, axis=0, return_index=True)
    return dabs[np.sort(first)]


@dataclass(frozen=True, slots=True)
class Polygon:
    """A filled polygon of whole voxels; its outline belongs to it.

    Attributes
    ----------
    points
        Corners, in voxels of the two painted axes.
    frame
        Number of voxels of level 0 along the painted axes: napari cuts before it
        rasterises, and the last bit of its rounding depends on where.
    """

    points: tuple[tuple[int, int], ...]
    frame: tuple[int, int]

    @property
    def bbox(self) -> Box:
        """Rectangle of level 0 that it stays inside."""
        return tuple(
            (max(min(values), 0), min(max(values) + 1, size))
            for values, size in zip(
                zip(*self.points, strict=True), self.frame, strict=True
            )
        )

    def covered_voxels(self, grid: LevelGrid, box: Box, touch: bool) -> Cover:
        """Return which voxels of a box of a level it covers.

        Exact at level 0. At a coarser one, of a polygon that is too large to be drawn
        as a whole, as if its outline were off by up to one voxel of level 0.
        """
        # Level 0 must be what napari paints; a coarser one only shows it for now.
        if grid.sizes == grid.full and is_large(self.points, self.frame):
            runs = polygon_rows(self.points, self.frame, *box[0])
        else:
            runs = polygon_runs(self.points, self.frame)
        cover: Cover = cover_runs(runs, grid, box, touch)
        return cover


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """Any set of voxels, as runs along the last painted axis.

    Attributes
    ----------
    runs
        Axes (run, column), sorted: the index along each painted axis but the last,
        then start and stop along the last.
    """

    runs: Indices

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mask) and np.array_equal(self.runs, other.runs)

    def __hash__(self) -> int:
        return hash(self.runs.tobytes())

    @property
    def bbox(self) -> Box:
        """Rectangle of level 0 that it stays inside."""
        low, high = self.runs.min(axis=0), self.runs.max(axis=0)
        leading = [
            (int(a), int(b) + 1) for a, b in zip(low[:-2], high[:-2], strict=True)
        ]
        return (*leading, (int(low[-2]), int(high[-1])))

    def covered_voxels(self, grid: LevelGrid, box: Box, touch: bool) -> Cover:
        """Return which voxels of a box of a level it covers."""
        cover: Cover = cover_runs(self.runs, grid, box, touch)
        return cover


@dataclass(frozen=True, slots=True)
class Everywhere:
    """All voxels of the painted axes.

    Attributes
    ----------
    frame
        Number of voxels of level 0 along the painted axes.
    """

    frame: tuple[int, ...]

    @property
    def bbox(self) -> Box:
        """All of level 0."""
        return whole_box(self.frame)

    def covered_voxels(self, grid: LevelGrid, box: Box, touch: bool) -> Cover:
        """Return which voxels of a box of a level it covers: all."""
        return True


Shape = Stroke | Polygon | Mask | Everywhere
