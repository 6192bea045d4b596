"""From what the reader makes of a label image to a layer that can be painted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.canvas import Canvas
from napari_ngff.store.arranged import Arranged
from napari_ngff.store.folder import FolderSource
from napari_ngff.store.lazy import LazyArray
from napari_ngff.store.ozx import ZipSource
from napari_ngff.store.pyramid import LevelSource
from napari_ngff.store.resampled import ResampledLevel
from napari_ngff.viewer.picture import KEY, LayerOrigin
from napari_ngff.viewer.saving.description import JOINED

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.store.lazy import ArraySource, Box
    from napari_ngff.viewer.picture import LayerData

__all__ = ["add_sample", "as_layer", "as_layers", "exchange", "why_read_only"]

INSTEAD = "To paint all the same, use File ▸ New Layer ▸ New OME-Zarr labels."

COPY = (
    "To paint on a copy that is kept beside it, use Layers ▸ Annotate ▸ Edit a copy of"
    " OME-Zarr labels."
)


def as_layers(layers: list[LayerData]) -> list[Any]:
    """Make layers that can be painted of labels, and leave the rest as tuples.

    napari takes both from a reader; only it may make layers of the tuples, so that
    what the user chose for them holds.
    """
    return [as_layer(data) if data[2] == "labels" else data for data in layers]


def as_layer(data: LayerData) -> Layer:
    """Make a layer of what the reader returned; labels so that they can be painted."""
    from napari.layers import Layer

    from napari_ngff.viewer.painting.paint import OMEZarrLabels
    from napari_ngff.viewer.saving.attachment import attach

    levels, keywords, kind = data
    if kind != "labels":
        return Layer.create(levels, keywords, kind)
    levels = levels if isinstance(levels, list) else [levels]
    sources = [_source(level) for level in levels]
    canvas = Canvas(sources)
    canvas.highest = _highest(keywords)
    layer = OMEZarrLabels(canvas, read_only=why_read_only(sources[0]), **keywords)
    attach(layer)
    return layer


def add_sample(
    viewer: ViewerModel, layers: list[LayerData], where: str
) -> list[LayerData]:
    """Add the labels of a sample, so that they can be painted, and leave the rest.

    Of a sample napari takes tuples alone, and would make its own labels of them. It
    adds the rest later, above: then the labels are moved to the top.

    Parameters
    ----------
    where
        The sample's folder, of which the user is told.

    Returns
    -------
    list of tuple
        What napari has to add.
    """
    from napari.utils.notifications import show_info

    from napari_ngff.viewer.frontend import run

    labels = [as_layer(data) for data in layers if data[2] == "labels"]
    for layer in labels:
        viewer.add_layer(layer)

    def to_top(_: Any) -> None:
        shown = [layer for layer in labels if layer in viewer.layers]
        for layer in shown:
            viewer.layers.move(viewer.layers.index(layer), len(viewer.layers))
        for layer in shown[:1]:
            viewer.layers.selection.active = layer

    run(lambda: None, to_top)
    if any(layer.editable for layer in labels):
        show_info(
            f"Paint on the labels of this sample as you like: they are saved into"
            f" {where}. Without that folder, it is drawn anew."
        )
    return [data for data in layers if data[2] != "labels"]


def exchange(layer: Any, data: LayerData) -> bool:
    """Let a layer of labels show and edit others, as the reader returned them.

    Parameters
    ----------
    layer
        Its edits are saved, or given up: see `napari_ngff.viewer.frontend.settle`.

    Returns
    -------
    bool
        False where only a new layer can: other axes, a save that is going on, or
        classes somebody works with. Nothing has changed then.
    """
    from napari.utils import DirectLabelColormap
    from napari.utils.colormaps import label_colormap

    from napari_ngff.viewer.painting.classes import has_classes
    from napari_ngff.viewer.painting.paint import OMEZarrLabels
    from napari_ngff.viewer.saving.attachment import attach

    levels, keywords, _ = data
    levels = levels if isinstance(levels, list) else [levels]
    if not isinstance(layer, OMEZarrLabels) or layer.ndim != levels[0].ndim:
        return False
    # A save that has begun reads what the layer shows, and writes it where it began.
    if has_classes(layer) or (layer.saver is not None and layer.saver.running):
        return False
    if layer.saver is not None:
        layer.saver.keep()
    sources = [_source(level) for level in levels]
    canvas = Canvas(sources)
    canvas.highest = _highest(keywords)
    layer.metadata[KEY] = keywords["metadata"][KEY]
    layer.metadata.pop(JOINED, None)  # the features of others come below
    layer.exchange(canvas, why_read_only(sources[0]))
    if "colormap" in keywords:
        layer.colormap = keywords["colormap"]
    elif isinstance(layer.colormap, DirectLabelColormap):
        layer.colormap = label_colormap()
    if "features" in keywords or len(layer.features):
        layer.features = keywords.get("features", {})
    attach(layer)
    return True


def _highest(keywords: dict[str, Any]) -> int:
    """Largest label that the metadata mentions."""
    origin = keywords.get("metadata", {}).get(KEY)
    image = origin.node.metadata.image if isinstance(origin, LayerOrigin) else None
    label = image.label if image is not None else None
    if label is None:
        return 0
    return max([0, *label.colors, *label.properties])


def _source(level: Any) -> ArraySource:
    window = level.window if isinstance(level, LazyArray) else None
    if window is None:
        return _DaskSource(level)
    return Arranged(window.source, window.axes)


@dataclass(frozen=True, slots=True, eq=False)
class _DaskSource:
    """A dask array, such as labels that are stored as true and false."""

    array: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        return tuple(self.array.chunksize)

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        return np.asarray(self.array[tuple(slice(*span) for span in box)])


def why_read_only(source: ArraySource) -> str:
    """Say why labels cannot be edited; "" where they can.

    Parameters
    ----------
    source
        Of their level 0.
    """
    inner = source.source if isinstance(source, Arranged) else source
    if isinstance(inner, ResampledLevel):
        return "a field bends them here; show their own coordinate system to paint."
    if not isinstance(inner, LevelSource):
        whole = "this picture is put together from several files"
        return f"{whole}; open one of them to paint. {INSTEAD}"
    store = inner.array.source
    places: tuple[str, ...]
    if isinstance(store, FolderSource):
        places = (os.path.join(store.root, inner.array.path),)
    elif isinstance(store, ZipSource):
        # It is written anew beside the old one, and renamed.
        file = os.path.realpath(store.path)
        places = file, os.path.dirname(file)
    else:
        return f"{store.name} cannot be written in place. {COPY}"
    for path in places:
        if not os.access(path, os.W_OK):
            return f"there is no permission to write {path}. {COPY}"
    return ""
