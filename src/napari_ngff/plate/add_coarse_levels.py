"""Adds levels to the model of a mosaic that are coarser than those of all images.

napari reads the coarsest level whole. For a plate whose images have only one level, or
few, that would take more memory than there is.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ngff.plate import kept_planes
from napari_ngff.store.arrays.lazy_array import BlankArray

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Level
    from napari_ngff.store.arrays.lazy_array import ArraySource
    from napari_ngff.store.pyramids.pyramid import Pyramid

__all__ = ["add_coarse_levels"]


def add_coarse_levels(
    model: Pyramid, far: tuple[int, int], size: tuple[int, int], itemsize: int
) -> Pyramid:
    """Add levels to an image's pyramid until the coarsest plane of the plate is small.

    Fields have no array for those levels: every n-th voxel of another one is shown, see
    `napari_ngff.plate.level_view`.

    Parameters
    ----------
    far
        Height and width of the plate, in voxels of level 0.
    size
        Height and width of the image, in voxels of level 0.
    itemsize
        Bytes of a voxel.
    """
    # Arrays and metadata of the levels, which stay equally long.
    levels, described = list(model.levels), list(model.multiscale.levels)

    def plane_bytes() -> int:
        sides = zip(far, size, levels[-1].shape[-2:], strict=True)
        # Of one plane of the plate at the coarsest level so far.
        return itemsize * math.prod(
            math.ceil(n * coarse / full) for n, full, coarse in sides
        )

    while plane_bytes() > kept_planes.PLANE_BYTES and max(levels[-1].shape[-2:]) > 1:
        coarse, description = _halve_level(levels[-1], described[-1])
        levels.append(coarse)
        described.append(description)
    multiscale = replace(model.multiscale, levels=tuple(described))
    return replace(model, multiscale=multiscale, levels=tuple(levels))


def _halve_level(array: ArraySource, level: Level) -> tuple[BlankArray, Level]:
    """Make the array and the metadata of a level that is half as high and wide."""
    shape = tuple(-(-n // 2) for n in array.shape[-2:])
    chunks = tuple(map(min, array.chunks[-2:], shape))
    # Not just doubled: an odd size is rounded up.
    scale = [
        step * fine / coarse
        for step, fine, coarse in zip(
            level.scale[-2:], array.shape[-2:], shape, strict=True
        )
    ]
    blank = BlankArray(
        (*array.shape[:-2], *shape), (*array.chunks[:-2], *chunks), array.dtype
    )
    # Without a path, by which `MosaicLevel` knows that images have no such array.
    return blank, replace(level, path="", scale=(*level.scale[:-2], *scale))
