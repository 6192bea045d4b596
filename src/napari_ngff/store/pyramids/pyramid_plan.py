"""Chooses the shapes of a new pyramid: levels, chunks, shards, and tiles to read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from napari_ngff.metadata.model import Level
from napari_ngff.store.arrays.new_array import NewArray
from napari_ngff.store.pyramids.pyramid_writer import coarser_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from napari_ngff.metadata.model import Axis
    from napari_ngff.store.arrays.chunk_layout import Shape

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
        total = [1] * len(scale)
        levels = []
        for number in range(len(self.shapes)):
            if number:
                steps = self.factors[number - 1]
                total = [n * f for n, f in zip(total, steps, strict=True)]
            pairs = list(zip(scale, total, strict=True))
            levels.append(
                Level(
                    str(number),
                    tuple(float(size * n) for size, n in pairs),
                    tuple(
                        # Positions are those of the centres of voxels.
                        float(start + (n - 1) / 2 * size)
                        for start, (size, n) in zip(translation, pairs, strict=True)
                    ),
                )
            )
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
