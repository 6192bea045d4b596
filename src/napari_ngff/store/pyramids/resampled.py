"""Pyramids in another coordinate system; each block is computed when it is read.

"Pull-back": for each voxel of the new grid, the transformation from the displayed
system to the intrinsic one gives the position of its value. So nothing has to be
inverted, and nothing outside of the block is read.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from napari_ngff.errors import UnsupportedError
from napari_ngff.metadata.compound_transform import (
    Coordinates,
    Displacements,
    Inverse,
    smooth_fields,
)
from napari_ngff.metadata.model import Axis, Level
from napari_ngff.metadata.vector_field import (
    columns_of,
    interpolate_array,
    make_lattice,
)
from napari_ngff.store.arrays.boxes import Box, box_shape, slice_inside
from napari_ngff.store.arrays.lazy_array import ArraySource
from napari_ngff.store.pyramids.pyramid import Pyramid
from napari_ngff.store.threads import share_work

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ngff.metadata.transform import Points, Transformation

CHUNK = 512
"""Edge of a block of the last two axes, in voxels."""

MAX_POINTS = 1 << 18
"""Voxels that are computed at once: some ten MB of coordinates."""

SAMPLES = {2: 33, 3: 17, 4: 7}
"""Points per axis that are transformed to find the extent of an image, by number of
axes; else 4."""

CORES = os.cpu_count() or 1

MAX_SLOPES = 100
"""Most points at which the size of a voxel is measured."""

HALF = 0.5 + 1e-6
"""Half a voxel, which it extends beyond its centre, and some rounding."""


@dataclass(frozen=True, slots=True)
class SampleGrid:
    """Voxels in the displayed system: ``origin + step * index``, axis by axis."""

    origin: tuple[float, ...]
    step: tuple[float, ...]
    shape: tuple[int, ...]

    def select_axes(self, axes: Sequence[int]) -> SampleGrid:
        """Return the grid of some of the axes."""
        parts = (self.origin, self.step, self.shape)
        return SampleGrid(*(tuple(part[i] for i in axes) for part in parts))  # type: ignore[arg-type]

    def coarser_grid(self, shape: tuple[int, ...]) -> SampleGrid:
        """Return a grid of fewer voxels for the same region, as napari places a
        level.
        """
        factors = [a / b for a, b in zip(self.shape, shape, strict=True)]
        origin = tuple(
            # The centre of the first coarse voxel is in the middle of the voxels that
            # it covers.
            o + s * (f - 1) / 2
            for o, s, f in zip(self.origin, self.step, factors, strict=True)
        )
        step = tuple(s * f for s, f in zip(self.step, factors, strict=True))
        return SampleGrid(origin, step, shape)


@dataclass(frozen=True, slots=True)
class PlacedAxis:
    """A source's axis on an axis of the intrinsic system: ``scale i + translation``."""

    axis: int
    scale: float
    translation: float


@dataclass(frozen=True, slots=True, eq=False)
class ResampledLevel(ArraySource):
    """A level of an image in another system; an `ArraySource`.

    Attributes
    ----------
    source
        The level.
    places
        Scale and translation of each of its axes.
    pull
        From the displayed system, all its axes, to the intrinsic one.
    grid
        Voxels in the displayed system.
    axes
        The grid's axes among those of the displayed system; others are at 0.
    ndim
        Number of axes of the displayed system.
    order
        0 takes the nearest voxel, 1 interpolates linearly.
    """

    source: ArraySource
    places: tuple[PlacedAxis, ...]
    pull: Transformation
    grid: SampleGrid
    axes: tuple[int, ...]
    ndim: int
    order: int

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        return self.grid.shape

    @property
    @override
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    @override
    def chunks(self) -> tuple[int, ...]:
        plain = len(self.shape) - 2
        # Blocks of one plane, since napari slices planes.
        return tuple(
            1 if i < plain else min(n, CHUNK) for i, n in enumerate(self.shape)
        )

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Compute a box of the grid; 0 outside of the image."""
        out = np.zeros(box_shape(box), self.dtype)
        if not out.size:
            return out

        def make_piece(piece: Box) -> None:
            block = np.zeros(box_shape(piece), self.dtype)
            self._fill_values(block.reshape(-1), self._displayed_points(piece))
            out[slice_inside(piece, box)] = block

        # Threads help: the interpolation of scipy releases Python's lock.
        count = -(-out.size // MAX_POINTS)
        share_work(split_box(box), make_piece, count, CORES if count > 1 else 1)
        return out

    def _displayed_points(self, box: Box) -> Points:
        """Return the displayed coordinates of the voxels in a box, (voxels, axes)."""
        lines = [
            origin + step * np.arange(start, stop)
            for (start, stop), origin, step in zip(
                box, self.grid.origin, self.grid.step, strict=True
            )
        ]
        mesh = np.meshgrid(*lines, indexing="ij")
        points = columns_of(mesh[0].size, self.ndim)
        for axis, values in zip(self.axes, mesh, strict=True):
            points[:, axis] = values.ravel()
        return points

    def _fill_values(self, out: np.ndarray[Any, Any], points: Points) -> None:
        # (voxels, axes of the source), in fractions of a voxel.
        index = index_at(self.pull.apply(points), self.places)
        inside: Any = slice(None)
        # NaN, where a field has no vector, compares as False: such voxels stay 0.
        if not all(
            line.min() >= -HALF and line.max() <= size - 1 + HALF
            for line, size in zip(index.T, self.source.shape, strict=True)
        ):
            inside = np.ones(len(index), dtype=bool)
            for line, size in zip(index.T, self.source.shape, strict=True):
                inside &= (line >= -HALF) & (line <= size - 1 + HALF)
            if not inside.any():
                return
            index = index[inside]
        # Means of truth values or complex phases have no meaning.
        order = self.order if self.dtype.kind in "iuf" else 0
        values = interpolate_array(self.source.read, self.source.shape, index, order)
        if order and self.dtype.kind in "iu":
            # A cast would cut the fraction off, half a grey value too dark on average.
            np.rint(values, out=values)
            if self.dtype.itemsize == 8:
                # float64 rounds the largest integer up, out of the type.
                largest = np.nextafter(float(np.iinfo(self.dtype).max), 0)
                np.minimum(values, largest, out=values)
        out[inside] = values.astype(self.dtype, copy=False)


def split_box(box: Box) -> Iterator[Box]:
    """Split a box into halves until each has at most `MAX_POINTS` voxels."""
    lengths = box_shape(box)
    if math.prod(lengths) <= MAX_POINTS:
        yield box
        return
    # Along the longest axis: a compact piece reads fewer chunks of the source.
    axis = lengths.index(max(lengths))
    start, stop = box[axis]
    middle = (start + stop) // 2
    for part in ((start, middle), (middle, stop)):
        yield from split_box((*box[:axis], part, *box[axis + 1 :]))


def index_at(points: Points, places: Sequence[PlacedAxis]) -> Points:
    """Convert intrinsic coordinates into index coordinates of a source."""
    index = columns_of(len(points), len(places))
    for line, p in zip(index.T, places, strict=True):
        np.subtract(points[:, p.axis], p.translation, out=line)
        line /= p.scale
    return index


@dataclass(frozen=True, slots=True, eq=False)
class BentImage:
    """The way of an image into another coordinate system.

    Attributes
    ----------
    pull
        From the displayed system to the intrinsic one.
    axes
        Of the displayed system.
    grid
        Voxels of the finest level there, all axes.
    """

    pull: Transformation
    axes: tuple[Axis, ...]
    grid: SampleGrid

    @classmethod
    def cover_image(
        cls, pyramid: Pyramid, pull: Transformation, axes: tuple[Axis, ...]
    ) -> BentImage:
        """Choose a grid of voxels of the image's size that covers it.

        Raises
        ------
        UnsupportedError
            Where the image is nowhere in the displayed system, or the two systems have
            different numbers of axes.
        """
        level, shape = pyramid.multiscale.levels[0], pyramid.levels[0].shape
        grid = resampled_grid(smooth_fields(pull), level, shape, len(axes))
        return cls(pull, axes, grid)

    @property
    def is_covered(self) -> bool:
        """Return whether the field has vectors for the whole grid, or all but one."""
        domain = domain_of(self.pull)
        if domain is None:
            return True
        step, low = np.array(self.grid.step), np.array(self.grid.origin)
        high = low + step * (np.array(self.grid.shape) - 1)
        return bool(
            (low + step >= domain[0]).all() and (high - step <= domain[1]).all()
        )


def resample_pyramid(
    pyramid: Pyramid, bent: BentImage, places: tuple[PlacedAxis, ...] | None = None
) -> Pyramid:
    """Show an image, or a label image, in another system.

    Parameters
    ----------
    pyramid
        The image.
    bent
        Its way there; of a label image, that of its image.
    places
        Only for a label image: positions of its finest level in its image's intrinsic
        system. It has no channel axis then, and its values are not interpolated.
    """
    first, finest = pyramid.multiscale.levels[0], pyramid.levels[0]
    order = 1 if places is None else 0
    finest_places = places_of(first) if places is None else places
    axes_kept = tuple(
        i for i, a in enumerate(bent.axes) if places is None or a.type != "channel"
    )
    # For each displayed axis, the source's axis that changes most along it.
    half = (np.array(bent.grid.shape) - 1) / 2
    middle = np.array(bent.grid.origin) + np.array(bent.grid.step) * half
    slopes = abs(slopes_at(smooth_fields(bent.pull), middle[None], finest_places)[0])
    columns = [slopes[:, i] for i in axes_kept]
    leading = [int(each.argmax()) if each.any() else None for each in columns]
    grid = bent.grid.select_axes(axes_kept)
    levels, sources = [], []
    for level, source in zip(pyramid.multiscale.levels, pyramid.levels, strict=True):
        part = grid.coarser_grid(
            coarser_shape(grid, leading, finest.shape, source.shape)
        )
        level_places = place_level(finest_places, first, level, finest.shape)
        ndim = len(bent.axes)
        sources.append(
            ResampledLevel(
                source, level_places, bent.pull, part, axes_kept, ndim, order
            )
        )
        levels.append(Level(level.path, part.step, part.origin))
    axes = tuple(bent.axes[i] for i in axes_kept)
    multiscale = replace(pyramid.multiscale, axes=axes, levels=tuple(levels))
    return Pyramid(multiscale, tuple(sources), pyramid.problems)


def place_level(
    places: Sequence[PlacedAxis], first: Level, level: Level, shape: Sequence[int]
) -> tuple[PlacedAxis, ...]:
    """Place a coarser level relative to the finest, by the metadata of both."""
    levels = []
    for i, placed_axis in enumerate(places):
        # An axis of one voxel is not reduced, whatever its level states.
        if shape[i] == 1 or level is first:
            levels.append(placed_axis)
            continue
        unit = placed_axis.scale / first.scale[i]
        offset = placed_axis.translation - unit * first.translation[i]
        scale, translation = level.scale[i] * unit, level.translation[i] * unit
        levels.append(PlacedAxis(placed_axis.axis, scale, translation + offset))
    return tuple(levels)


def places_of(level: Level) -> tuple[PlacedAxis, ...]:
    """Place the axes of a level by its own metadata."""
    pairs = zip(level.scale, level.translation, strict=True)
    return tuple(PlacedAxis(i, s, t) for i, (s, t) in enumerate(pairs))


def coarser_shape(
    grid: SampleGrid,
    leading: Sequence[int | None],
    full: tuple[int, ...],
    shape: tuple[int, ...],
) -> tuple[int, ...]:
    """Reduce the shape of a grid as a level is reduced along the leading axes."""
    factors = [1.0 if j is None else full[j] / shape[j] for j in leading]
    return tuple(max(1, round(n / f)) for n, f in zip(grid.shape, factors, strict=True))


def slopes_at(
    pull: Transformation, points: Points, places: Sequence[PlacedAxis]
) -> np.ndarray[Any, Any]:
    """Return index coordinates per displayed coordinate near points, (points, N, M)."""
    step = 0.5 * max(min(abs(placed_axis.scale) for placed_axis in places), 1e-12)
    columns = []
    # Central differences, half a voxel to both sides: a field of vectors has no formula
    # whose derivative could be taken.
    for move in step * np.eye(points.shape[1]):
        ends = [index_at(pull.apply(points + way * move), places) for way in (1, -1)]
        columns.append((ends[0] - ends[1]) / (2 * step))
    slopes = np.stack(columns, axis=2)
    # Rounding only; it would otherwise name an axis that does not change at all as the
    # leading one.
    slopes[abs(slopes) < 1e-9] = 0
    return slopes


def resampled_grid(
    pull: Transformation, level: Level, shape: tuple[int, ...], ndim: int
) -> SampleGrid:
    """Choose voxels that cover an image in the displayed system.

    Parameters
    ----------
    pull
        From the displayed system to the intrinsic one.
    level, shape
        The finest level and its number of voxels.
    ndim
        Number of axes of the displayed system.

    Raises
    ------
    UnsupportedError
        Where the image is nowhere in the displayed system, or the two systems have
        different numbers of axes.
    """
    if len(shape) != ndim:
        msg = f"An image of {len(shape)} axes cannot be bent into {ndim}."
        raise UnsupportedError(msg)
    corners = np.array([(0.0,) * ndim, tuple(n - 1.0 for n in shape)])
    ends = corners * np.array(level.scale) + np.array(level.translation)
    # A scale may be negative, so the ends are not always in order.
    samples = make_lattice(ends.min(axis=0), ends.max(axis=0), SAMPLES.get(ndim, 4))
    # Only these few points are inverted; blocks are computed by `pull` itself.
    candidates = Inverse(pull).apply(samples)
    points = candidates[np.isfinite(candidates).all(axis=1)]
    if not len(points):
        msg = "The image is nowhere in that coordinate system."
        raise UnsupportedError(msg)
    low, high = points.min(axis=0), points.max(axis=0)
    if len(points) < len(candidates):
        # The field ends inside the image: its edge is somewhere between two samples.
        margin = (high - low) / (SAMPLES.get(ndim, 4) - 1)
        domain = domain_of(pull) or (low, high)
        low = np.maximum(low - margin, np.minimum(domain[0], low))
        high = np.minimum(high + margin, np.maximum(domain[1], high))
    # The median: at a fold of the field the size of a voxel means nothing.
    some = points[:: -(-len(points) // MAX_SLOPES)]
    slopes = slopes_at(pull, some, places_of(level))
    lengths = np.median(np.linalg.norm(slopes, axis=1), axis=0)
    step = 1 / np.where(lengths > 0, lengths, 1)
    # Both ends are voxels; the small number keeps rounding from losing the last one.
    counts = [max(1, math.floor(n + 1e-6) + 1) for n in (high - low) / step]
    return SampleGrid(tuple(low.tolist()), tuple(step.tolist()), tuple(counts))


def domain_of(pull: Transformation) -> tuple[Points, Points] | None:
    """Return the domain of a field that is applied first; None for anything else."""
    steps = getattr(pull, "steps", (pull,))
    if isinstance(steps[0], Displacements | Coordinates):
        return steps[0].vectors.domain
    forward = getattr(steps[0], "forward", None)
    return domain_of(forward) if forward is not None else None
