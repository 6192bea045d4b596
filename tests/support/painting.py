"""Arrays in memory, pyramids of them, and the rules of painting in plain numpy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.ndimage import distance_transform_edt as edt


class Memory:
    """An array as a source; counts what is read."""

    def __init__(self, pixels, chunks=None):
        self.pixels = pixels
        self.chunks = tuple(chunks or (16,) * pixels.ndim)
        self.read_voxels = 0

    shape = property(lambda self: self.pixels.shape)
    dtype = property(lambda self: self.pixels.dtype)

    def read(self, box):
        block = self.pixels[tuple(slice(a, b) for a, b in box)].copy()
        self.read_voxels += block.size
        return block


class Empty:
    """An array of zeros of any size."""

    def __init__(self, shape, chunks=(512, 512), dtype="u2"):
        self.shape = tuple(shape)
        self.chunks = chunks
        self.dtype = np.dtype(dtype)

    def read(self, box):
        return np.zeros([b - a for a, b in box], self.dtype)


def holders(full, size):
    """Voxel of a level that holds each voxel of level 0: where its middle lies."""
    return np.floor((np.arange(full) + 0.5) * size / full + 1e-9).astype(int)


def samples(full, size):
    """Voxel of level 0 in the middle of each voxel of a level."""
    return np.floor((np.arange(size) + 0.5) * full / size + 1e-9).astype(int)


def between_sections(stack, weights):
    """Fill the sections between those of a stack, by distances in whole sections."""
    filled = stack.copy()
    for first, last in pairwise(np.flatnonzero(stack.any(axis=(1, 2)))):
        near, far = (
            edt(stack[i], weights) - edt(~stack[i], weights) for i in (first, last)
        )
        for index in range(first + 1, last):
            filled[index] = (last - index) * near + (index - first) * far > 0
    return filled


def pyramid(pixels, shapes, chunks=None):
    """Sample an array at coarser shapes."""
    levels = [Memory(pixels, chunks)]
    for shape in shapes:
        index = [samples(n, m) for n, m in zip(pixels.shape, shape, strict=True)]
        levels.append(Memory(pixels[np.ix_(*index)], chunks))
    return levels


def touched(mask, shape):
    """Voxels of a level any of whose voxels of level 0 are set."""
    out = np.zeros(shape, bool)
    index = [holders(n, m) for n, m in zip(mask.shape, shape, strict=True)]
    out[tuple(i[at] for i, at in zip(index, np.nonzero(mask), strict=True))] = True
    return out


def sampled(mask, shape):
    """Voxels of a level whose sample is set."""
    index = [samples(n, m) for n, m in zip(mask.shape, shape, strict=True)]
    return mask[np.ix_(*index)]
