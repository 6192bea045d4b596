"""Finds the level of an image that fits a level of a mosaic."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.hierarchy.node import read_node
from napari_ngff.store.pyramids.pyramid import LevelSource, Pyramid, open_pyramid

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Multiscale
    from napari_ngff.plate.plate_contents import FieldImage

ALIKE = 1.5
"""Largest ratio of voxel sizes at which an image's level is used without striding."""


class WantedLevel(Protocol):
    """A level of a mosaic, for which images are to be read."""

    @property
    def model(self) -> Pyramid:
        """The pyramid of the image that the mosaic is modelled on."""

    @property
    def number(self) -> int:
        """Index of the level in it."""

    @property
    def factors(self) -> tuple[float, float]:
        """Voxels of level 0 of an image per voxel, along y and x."""


def view_of(
    image: FieldImage, size: tuple[int, int], wanted: WantedLevel, *, lent: bool = True
) -> ArrayWindow:
    """Find the level of an image that fits a level of a mosaic.

    The one of the same name, if the image has the levels and axes of the model. Else
    the one with voxels of similar size, or every n-th voxel of the next finer one.

    Parameters
    ----------
    image
        An image or a label image.
    size
        Height and width of the image, or of that of the label image, at level 0.
    wanted
        The level of the mosaic.
    lent
        Whether a level may be taken to be like that of an alike image.

    Raises
    ------
    OMEZarrError, OSError
        Where the image has no such level that can be read.
    """
    path = wanted.model.multiscale.levels[wanted.number].path
    paths = [level.path for level in image.multiscale.levels]
    names = wanted.model.multiscale.axis_names
    if path in paths and image.multiscale.axis_names == names:
        number = paths.index(path)
        array = image.like_opened(number) if lent else image.open_level(number)
        shape, factors = array.shape, wanted.factors
        # Sizes may be rounded up or down; more than a voxel is another level.
        height, width = size[0] / factors[0], size[1] / factors[1]
        fits = abs(height - shape[-2]) <= 1 and abs(width - shape[-1]) <= 1
        if fits and len(shape) == len(names):
            return ArrayWindow.whole_source(array)
    return _nearest_level(image, size, wanted)


def _nearest_level(
    image: FieldImage, size: tuple[int, int], wanted: WantedLevel
) -> ArrayWindow:
    pyramid = open_pyramid(read_node(image.location, image.zarr_format))
    axes = [name.lower() for name in pyramid.multiscale.axis_names]
    names = [name.lower() for name in wanted.model.multiscale.axis_names]
    order = [axes.index(name) if name in axes else None for name in names]
    # Not named y and x: the last two axes are the picture.
    if None in order[-2:]:
        order[-2:] = [len(axes) - 2, len(axes) - 1]
    chosen, steps = pyramid.levels[0], (1, 1)
    for source in pyramid.levels:
        ratios = [
            factor * source.shape[axis] / full
            for full, factor, axis in zip(
                size, wanted.factors, (order[-2], order[-1]), strict=True
            )
            if axis is not None
        ]
        # Coarser than wanted, as all levels after it: the one before is strided.
        if min(ratios) < 1 / ALIKE:
            break
        near = max(ratios) <= ALIKE
        height, width = (1 if near else max(1, round(ratio)) for ratio in ratios)
        chosen, steps = source, (height, width)
    if not isinstance(chosen, LevelSource):
        msg = f"{image.location} is not a plain array."
        raise UnsupportedError(msg)
    # Axes that the mosaic lacks are seen at 0.
    box = tuple((0, n if i in order else 1) for i, n in enumerate(chosen.shape))
    strides = [1] * len(box)
    for axis, step in zip(order[-2:], steps, strict=True):
        if axis is not None:
            strides[axis] = step
    return ArrayWindow(chosen.array, tuple(order), box, tuple(strides))


def mirror_view(view: ArrayWindow, image: Multiscale, model: Multiscale) -> ArrayWindow:
    """Mirror a view along axes on which the image counts against the mosaic.

    Along y and x a mosaic counts upwards, along others as the image does that it is
    modelled on.
    """
    theirs, ours = image.levels[0].scale, model.levels[0].scale
    steps = list(view.steps)
    for number, axis in enumerate(view.order):
        if axis is None or axis >= len(theirs):
            continue
        ahead = number >= len(ours) - 2 or ours[number] > 0
        if (theirs[axis] > 0) != ahead:
            steps[axis] = -steps[axis]
    return replace(view, steps=tuple(steps))


def can_hold(dtype: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return whether a type has room for all values of another."""
    return dtype == other or np.can_cast(other, dtype, "safe")


def cast_pixels(
    pixels: np.ndarray[Any, Any], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Convert pixels to a type; values beyond its range become the nearest in it."""
    if can_hold(dtype, pixels.dtype):
        return pixels
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        # Clipped, never wrapped: 65536 must not become black in uint16.
        pixels = np.clip(np.nan_to_num(pixels), info.min, info.max)
    return pixels.astype(dtype)
