"""Lines of a plan: an array that is converted in blocks, files that are copied, or
documents that were read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.store.arrays.boxes import box_of, box_shape

if TYPE_CHECKING:
    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.convert.array_document import ArrayRegion

KEPT, CODED = 64 << 20, 24 << 20
"""Bytes of the voxels of a unit whose chunks are copied, or decoded and encoded."""


@dataclass(frozen=True, slots=True)
class ArrayTask:
    """An array that is converted; a plan keeps one line for each.

    Attributes
    ----------
    source, target
        Path of the array in the source, and in the new hierarchy.
    zarr_format
        Of the source.
    region
        What is kept of it.
    keeps_chunks
        Whether stored objects are copied.
    joins_chunks
        Whether stored chunks are copied into shards.
    block
        Shape of a unit in voxels, whole stored objects of the target.
    itemsize
        Bytes of a voxel.
    method, factors
        How a level is made from a finer one of the new hierarchy, whose path is
        `source`: mean, mode or nearest, and voxels per axis; "" for any other.
    stage
        Tasks of lower stages have to be done before.
    """

    source: str
    target: str
    zarr_format: int
    region: ArrayRegion
    keeps_chunks: bool
    joins_chunks: bool
    block: Shape
    itemsize: int
    method: str = ""
    factors: Shape = ()
    stage: int = 0

    @property
    def grid(self) -> Shape:
        """Number of units per axis."""
        return tuple(
            -(-n // b) for n, b in zip(self.region.shape, self.block, strict=True)
        )

    @property
    def count(self) -> int:
        """Number of units."""
        return math.prod(self.grid)

    @property
    def nbytes(self) -> int:
        """Bytes of the voxels."""
        return math.prod(self.region.shape) * self.itemsize

    def unit_box(self, index: int) -> Box:
        """Return the voxels of a unit, in the new array."""
        position = tuple(int(i) for i in np.unravel_index(index, self.grid or (1,)))
        return box_of(position[: len(self.block)], self.block, self.region.shape)

    def unit_bytes(self, index: int) -> int:
        """Return the bytes of the voxels of a unit."""
        return math.prod(box_shape(self.unit_box(index))) * self.itemsize


class _OneUnit:
    """A task of one unit, without voxels, that depends on nothing."""

    __slots__ = ()

    stage = 0
    count = 1
    nbytes = 0

    def unit_bytes(self, index: int) -> int:
        """Return 0: only reading would show a size."""
        del index
        return 0


@dataclass(frozen=True, slots=True)
class CopyTask(_OneUnit):
    """Objects that are copied as they are, whatever they hold; one unit.

    Attributes
    ----------
    source, target
        Path of a group in the source, and in the new hierarchy.
    names
        Of the objects below it.
    """

    source: str
    target: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DocumentTask(_OneUnit):
    """Documents that the plan was made from; one unit, which writes nothing.

    Attributes
    ----------
    keys
        Of the documents in the source.
    sums
        Checksums of their bytes.
    """

    keys: tuple[str, ...]
    sums: tuple[int, ...]

    source = target = ""


def choose_block(
    unit: Shape, source: Shape, shape: Shape, itemsize: int, keeps_chunks: bool
) -> Shape:
    """Choose the shape of units: whole stored objects of both arrays, if they fit.

    Parameters
    ----------
    unit, source
        Shape of a stored object of the new array and of the source.
    shape
        Of the new array.
    itemsize
        Bytes of a voxel.
    keeps_chunks
        Whether chunks are only copied.
    """
    return grow_block(
        unit, source, shape, max(1, (KEPT if keeps_chunks else CODED) // itemsize)
    )


def grow_block(unit: Shape, source: Shape, shape: Shape, most: int) -> Shape:
    """Join units up to a number of voxels; one unit where that is larger."""
    # Units at the border are cut there.
    block = [min(n, m) for n, m in zip(unit, shape, strict=True)]
    # First so that no chunk of the source is needed by two units, where that fits.
    for i in range(len(block) - 1, -1, -1):
        joined = min(math.lcm(unit[i], source[i]), shape[i])
        if math.prod(block) // block[i] * joined <= most:
            block[i] = joined
    for i in range(len(block) - 1, -1, -1):
        if block[i] < shape[i]:
            fits = most // math.prod(block)
            block[i] = min(block[i] * max(1, fits), shape[i])
    # Whole units: an axis that ends in one counts as a whole one.
    return tuple(-(-b // n) * n for b, n in zip(block, unit, strict=True))
