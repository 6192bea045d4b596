"""An image of a plate as a level of its mosaic wants it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.store.node import read_node
from napari_ngff.store.pyramid import LevelSource, open_pyramid

if TYPE_CHECKING:
    from napari_ngff.plate.screen import FieldImage
    from napari_ngff.store.chunks import ChunkedArray
    from napari_ngff.store.lazy import Box
    from napari_ngff.store.pyramid import OnError, Pyramid

__all__ = ["View", "Wanted", "can_hold", "cast", "view_of"]

ALIKE = 1.5
"""Voxels so many times larger or smaller than wanted are taken as they are."""


class Wanted(Protocol):
    """What a level of a mosaic is like."""

    @property
    def model(self) -> Pyramid:
        """The pyramid of the image that the mosaic is modelled on."""

    @property
    def number(self) -> int:
        """Index of the level in it."""

    @property
    def factors(self) -> tuple[float, float]:
        """Voxels of level 0 of an image per voxel, along y and x."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """An array on the axes of a mosaic.

    Attributes
    ----------
    order
        Its axis for each of the mosaic; None for one that it lacks: it lies at 0
        there. Axes that the mosaic lacks are seen at 0.
    shape
        Number of voxels per axis of the mosaic.
    steps
        Along y and x only every so manieth voxel, where there is no level as coarse.
    lent
        Whether the array's document was not read, see `FieldImage.lent`.
    """

    array: ChunkedArray
    order: tuple[int | None, ...]
    shape: tuple[int, ...]
    steps: tuple[int, int] = (1, 1)
    lent: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a voxel."""
        return self.array.dtype

    @property
    def plain(self) -> bool:
        """Whether the array is taken as it is, on all axes."""
        return self.steps == (1, 1) and self.order == tuple(range(self.array.ndim))

    @property
    def hides(self) -> bool:
        """Whether the array has more along axes that the mosaic lacks."""
        sizes = enumerate(self.array.shape)
        return any(n > 1 for axis, n in sizes if axis not in self.order)

    def read(self, box: Box, on_error: OnError | None) -> np.ndarray[Any, Any]:
        """Read a rectangle inside `shape`."""
        if self.plain:
            return self.array.read(box, on_error)
        spans = [(0, 1)] * self.array.ndim
        picks = [slice(None)] * self.array.ndim
        steps = (1,) * (len(box) - 2) + self.steps
        for axis, (start, stop), step in zip(self.order, box, steps, strict=True):
            if axis is not None:
                spans[axis] = start * step, (stop - 1) * step + 1
                picks[axis] = slice(None, None, step)
        pixels = self.array.read(tuple(spans), on_error)[tuple(picks)]
        kept = [axis for axis in self.order if axis is not None]
        dropped = [i for i in range(pixels.ndim) if i not in kept]
        shape = [stop - start for start, stop in box]
        return pixels.transpose((*kept, *dropped)).reshape(shape)


def view_of(
    image: FieldImage, size: tuple[int, int], wanted: Wanted, *, lent: bool = True
) -> View:
    """Find the level of an image that a level of a mosaic shows.

    The one of the same name where the image has the levels and axes of the model; else
    the one with voxels of like size, or every so manieth voxel of the next finer.

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
        array = image.lent(number) if lent else image.array(number)
        shape, factors = array.shape, wanted.factors
        height, width = size[0] / factors[0], size[1] / factors[1]
        fits = abs(height - shape[-2]) <= 1 and abs(width - shape[-1]) <= 1
        if fits and len(shape) == len(names):
            order = tuple(range(len(shape)))
            return View(array, order, shape, lent=not image.has(number))
    return _nearest(image, size, wanted)


def _nearest(image: FieldImage, size: tuple[int, int], wanted: Wanted) -> View:
    pyramid = open_pyramid(read_node(image.location, image.zarr_format))
    axes = [name.lower() for name in pyramid.multiscale.axis_names]
    names = [name.lower() for name in wanted.model.multiscale.axis_names]
    order = [axes.index(name) if name in axes else None for name in names]
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
        if min(ratios) < 1 / ALIKE:
            break
        near = max(ratios) <= ALIKE
        height, width = (1 if near else max(1, round(ratio)) for ratio in ratios)
        chosen, steps = source, (height, width)
    if not isinstance(chosen, LevelSource):
        msg = f"{image.location} is no plain array."
        raise UnsupportedError(msg)
    shape = [1 if axis is None else chosen.shape[axis] for axis in order]
    shape[-2:] = (-(-n // step) for n, step in zip(shape[-2:], steps, strict=True))
    return View(chosen.array, tuple(order), tuple(shape), steps)


def can_hold(dtype: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Tell whether a type has room for all values of another."""
    return dtype == other or np.can_cast(other, dtype, "safe")


def cast(pixels: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Change the type of pixels; values beyond its range become the nearest in it."""
    if can_hold(dtype, pixels.dtype):
        return pixels
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        pixels = np.clip(np.nan_to_num(pixels), info.min, info.max)
    return pixels.astype(dtype)
