"""Reads what napari will ask for when it shows the next image, before it asks.

napari 0.9 slices in the main thread: a chunk that has to come from a disk or over a
network then would block the window. What was decoded before is at hand.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OMEZarrError
from napari_ngff.store.arrays.lazy_array import LazyArray
from napari_ngff.store.pyramids.pyramid import LevelSource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.viewer.browsing.slots import Prepared, Slot

__all__ = ["LayerView", "prefetch", "views_of"]

MOST_BYTES = 32 * 2**20
"""What is larger would push out of the cache what is shown."""

MARGIN = 0.05
"""Share of the canvas that napari leaves free around what it brings in view."""


@dataclass(frozen=True, slots=True)
class LayerView:
    """What is seen of a layer.

    Attributes
    ----------
    level
        Index of the level that napari draws.
    point
        Voxel of level 0 at which the sliders stand, for each axis of the layer.
    corners
        First and last voxel of that level that are in view, by axis; only for axes of
        the picture.
    """

    level: int
    point: tuple[float, ...]
    corners: dict[int, tuple[int, int]]


def views_of(
    viewer: ViewerModel, layers: Mapping[Slot, Layer]
) -> dict[Slot, LayerView]:
    """Tell what is seen of visible layers; in the main thread."""
    views = {}
    for slot, layer in layers.items():
        lead = viewer.dims.ndim - layer.ndim
        displayed = [axis - lead for axis in viewer.dims.displayed if axis >= lead]
        if not layer.visible or len(displayed) != 2:
            continue
        point = layer.world_to_data(viewer.dims.point[lead:])
        first, last = np.asarray(layer.corner_pixels)
        corners = {axis: (int(first[axis]), int(last[axis])) for axis in displayed}
        level = layer.data_level if layer.multiscale else 0
        views[slot] = LayerView(level, tuple(map(float, point)), corners)
    return views


def prefetch(
    prepared: Prepared,
    views: Mapping[Slot, LayerView],
    wanted: Callable[[], bool],
    canvas: tuple[float, float] | None = None,
) -> None:
    """Decode what will be seen of images where others are seen now; in a worker.

    Parameters
    ----------
    prepared
        The images.
    views
        Of those that are shown, see `views_of`.
    wanted
        Asked before each layer whether to go on.
    canvas
        Its height and width in pixels, where the images will be brought in view whole.
    """
    for slot, (data, _, _) in prepared.layers.items():
        view = views.get(slot)
        levels = data if isinstance(data, list) else [data]
        alike = view is not None and len(view.point) == levels[0].ndim
        if view is None or not alike or not wanted():
            continue
        last = len(levels) - 1
        # The coarsest level is that of the thumbnail in the list of layers.
        parts = [(min(view.level, last), False), (last, True)]
        if canvas is not None:
            parts.append((fitted_level(levels, tuple(view.corners), canvas), True))
        for number, whole in parts:
            if keeps(levels[number]):
                index = _index(view, levels, number, whole)
                size = math.prod(part.stop - part.start for part in index)
                if size * levels[number].dtype.itemsize <= MOST_BYTES:
                    # napari meets the same error, and tells it.
                    with suppress(OMEZarrError, OSError):
                        np.asarray(levels[number][index])


def fitted_level(
    levels: Sequence[Any], axes: Sequence[int], canvas: tuple[float, float]
) -> int:
    """Foresee the level of an image that is brought in view whole.

    The coarsest that has more voxels there than the canvas has pixels, as napari 0.9
    chooses (`compute_multiscale_level`).

    Parameters
    ----------
    axes
        Those of y and x.
    canvas
        Height and width in pixels.
    """
    whole = levels[0].shape
    most = max(whole[axis] / size for axis, size in zip(axes, canvas, strict=True))
    most /= 1 - MARGIN
    enough = [
        number
        for number, level in enumerate(levels)
        if all(most * level.shape[axis] > whole[axis] for axis in axes)
    ]
    return enough[-1] if enough else 0


def keeps(level: Any) -> bool:
    """Tell whether what is read of a level is kept decoded."""
    window = level.window if isinstance(level, LazyArray) else None
    source = window.source if window is not None else None
    return isinstance(source, LevelSource) and source.array.direct


def _index(
    view: LayerView, levels: Sequence[Any], number: int, whole: bool
) -> tuple[slice, ...]:
    """Choose the part of a level; of all axes as many voxels as there are."""
    index = []
    for axis, size in enumerate(levels[number].shape):
        if axis in view.corners:
            start, stop = (0, size) if whole else view.corners[axis]
            stop += not whole
        else:
            factor = levels[0].shape[axis] / size
            start = math.floor(view.point[axis] / factor + 0.5)
            stop = start + 1
        start = min(max(start, 0), size - 1)
        index.append(slice(start, min(max(stop, start + 1), size)))
    return tuple(index)
