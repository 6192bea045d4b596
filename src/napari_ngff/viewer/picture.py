"""What is about to become layers: an image with its pyramid, and the axes it sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.lazy import LazyArray, Window
from napari_ngff.viewer.units import layer_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import Axis, LabelInfo, Omero
    from napari_ngff.metadata.model import Window as Contrast
    from napari_ngff.store.node import Node
    from napari_ngff.store.pyramid import Pyramid

__all__ = ["KEY", "Frame", "LayerData", "LayerOrigin", "Picture", "layer_arrays"]

LayerData = tuple[Any, dict[str, Any], str]
"""Data, keywords and type of a layer, as napari's readers return them."""

KEY = "ome-zarr"
"""Where a layer's ``metadata`` keeps its `LayerOrigin`."""

PLAIN_SIZE = 2048
"""A single level of at most this height and width is handed over as a plain array:
napari then keeps the whole plane, and does not read again at every move."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image, or a label image, that is ready to become layers.

    Attributes
    ----------
    name
        What the user shall read.
    node
        The group that says how to show it.
    pyramid
        Its arrays; of a mosaic, those of all its tiles together.
    """

    name: str
    node: Node
    pyramid: Pyramid
    omero: Omero | None = None
    label: LabelInfo | None = None


@dataclass(frozen=True, slots=True)
class LayerOrigin:
    """Where a layer came from; stands in ``layer.metadata[KEY]``.

    Attributes
    ----------
    node
        The group.
    channel
        Index on the channel axis; None for an image without one and for labels.
    contrast
        Window of the file: `min` and `max` are the range of the contrast slider.
    estimate
        True where no window is given and contrast is to be found from the pixels.
    start
        World coordinate at which the sliders start, by axis of the layer.
    """

    node: Node
    channel: int | None = None
    contrast: Contrast | None = None
    estimate: bool = False
    start: tuple[tuple[int, float], ...] = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> LayerOrigin:
        # napari copies a layer's metadata; this one never changes.
        return self


@dataclass(frozen=True, slots=True)
class Frame:
    """The axes that all layers of one file share: those of the image, less channel.

    Attributes
    ----------
    sizes
        Number of voxels of the image per axis.
    scale
        Size of a voxel, in the axis's unit.
    translation
        Coordinate of the centre of voxel 0, in the axis's unit.
    """

    axes: tuple[Axis, ...]
    sizes: tuple[int, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]

    @classmethod
    def of(cls, pyramid: Pyramid) -> Frame:
        """Take the frame of an image."""
        channel = pyramid.multiscale.channel_axis
        kept = [i for i in range(len(pyramid.multiscale.axes)) if i != channel]
        level = pyramid.multiscale.levels[0]
        return cls(
            tuple(pyramid.multiscale.axes[i] for i in kept),
            tuple(pyramid.levels[0].shape[i] for i in kept),
            tuple(level.scale[i] for i in kept),
            tuple(level.translation[i] for i in kept),
        )

    def keywords(self) -> dict[str, Any]:
        """Give the keywords that place a layer with these axes."""
        keywords: dict[str, Any] = {
            "scale": self.scale,
            "translate": self.translation,
            "axis_labels": tuple(axis.name for axis in self.axes),
        }
        units = layer_units(self.axes)
        if units is not None:
            keywords["units"] = units
        return keywords


def layer_arrays(windows: Sequence[Window]) -> tuple[Any, bool]:
    """Make the data of a layer of one window per level.

    Returns
    -------
    data
        A list of lazy dask arrays; or one, of a single small level.
    multiscale
        Which of the two.
    """
    arrays: list[Any] = [LazyArray.of(window) for window in windows]
    if windows[0].dtype.kind == "b":
        arrays = [array.astype(np.uint8) for array in arrays]
    elif windows[0].dtype.kind == "c":
        arrays = [abs(array) for array in arrays]
    if len(arrays) == 1 and max(windows[0].shape[-2:]) <= PLAIN_SIZE:
        return arrays[0], False
    return arrays, True
