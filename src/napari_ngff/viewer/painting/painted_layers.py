"""Makes layers that can be painted of the label images that the reader returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari.layers import Layer

from napari_ngff.labels.canvas import Canvas
from napari_ngff.metadata.model import KIND
from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.store.arrays.drawable_pixels import DrawablePixels, RoundedLabels
from napari_ngff.store.arrays.lazy_array import (
    ArraySource,
    ArrayWindow,
    LazyArray,
    PlainSource,
)
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.pyramids.resampled import ResampledLevel
from napari_ngff.viewer.layers.label_colors import LabelColors
from napari_ngff.viewer.layers.label_owners import TARGET, follow_padlock
from napari_ngff.viewer.painting.attachment import attach_saver
from napari_ngff.viewer.painting.layer_classes import (
    apply_stored_classes,
    bind_class_keys,
    read_classes_again,
)
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.screen_part import PaintedSlicing
from napari_ngff.viewer.plans.layer_plan import KEY, LayerData, levels_in, origin_in
from napari_ngff.viewer.private.lost import tells_missing
from napari_ngff.viewer.private.napari_window import notice_windows
from napari_ngff.viewer.private.slicing import PAINTS
from napari_ngff.viewer.saving.layer_description import JOINED
from napari_ngff.viewer.saving.left_labels import LeftLabels, take_left
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming.label_stream import stream_canvas

if TYPE_CHECKING:
    from napari.components import ViewerModel


OVERVIEW = "plate overview, open a field to paint."

COPY = "To paint on a copy in a sidecar, use Edit a copy in the layer controls."
"""Ends the reason of labels that can be copied."""


def as_layers(layers: list[LayerData]) -> list[Any]:
    """Replace the tuples of labels by layers that can be painted; keep the others.

    A reader may return both. Layers of the other tuples are made by napari, so that
    the user's preferences apply to them.
    """
    return [as_layer(data) if data[2] == "labels" else data for data in layers]


def as_layer(data: LayerData, read_only: str = "") -> Layer:
    """Make a layer of what the reader returned; labels as `OMEZarrLabels`.

    Parameters
    ----------
    read_only
        Reason why labels must not be painted; "" for none.
    """
    levels, keywords, kind = data
    if kind != "labels" or tells_missing(
        PAINTS, OMEZarrLabels, PaintedSlicing, LabelColors
    ):
        image = Layer.create(levels, keywords, kind)
        notice_windows(image, Window.start_services)
        return image
    canvas, reason, left = _open_canvas(data, read_only)
    layer = OMEZarrLabels(canvas, read_only=reason, **keywords)
    notice_windows(layer, Window.start_services)
    bind_class_keys(layer)
    attach_saver(layer, left)
    apply_stored_classes(layer)
    follow_padlock(layer)
    return layer


def add_sample(
    viewer: ViewerModel, layers: list[LayerData], where: str
) -> list[LayerData]:
    """Add the labels of a sample as layers that can be painted.

    From a sample napari takes tuples only, and would make its own labels of them. It
    adds the other layers later, above: then the labels are moved to the top.

    Parameters
    ----------
    where
        Folder of the sample, for a message.

    Returns
    -------
    list of tuple
        The other layers, which napari has to add.
    """
    from napari.utils.notifications import show_info

    labels = [as_layer(data) for data in layers if data[2] == "labels"]
    for layer in labels:
        viewer.add_layer(layer)

    def to_top(_: Any) -> None:
        added = [layer for layer in labels if layer in viewer.layers]
        for layer in added:
            viewer.layers.move(viewer.layers.index(layer), len(viewer.layers))

    # By way of a worker: it runs when napari has added the others.
    Window.current.run_work(lambda: None, to_top)
    if any(layer.editable for layer in labels):
        show_info(
            "Edits to this sample are saved.\n"
            f"They are in {where}. Delete that folder to reset the sample."
        )
    return [data for data in layers if data[2] != "labels"]


def exchange_labels(layer: Any, data: LayerData) -> bool:
    """Let a layer show and edit other labels, as the reader returned them.

    Parameters
    ----------
    layer
        Its edits are saved, or given up: see `Window.resolve_unsaved`.

    Returns
    -------
    bool
        False where a new layer is needed: for other axes, or while a save runs.
        Nothing has changed then.
    """
    keywords, ndim = data[1], levels_in(data)[0].ndim
    if not isinstance(layer, OMEZarrLabels) or layer.ndim != ndim:
        return False
    # A save that has begun reads what the layer shows, and writes it where it began.
    if layer.saver is not None and layer.saver.running:
        return False
    if layer.saver is not None and not layer.saver.leave_field():
        # Before the exchange: the journal must not get strokes on the new labels.
        layer.saver.keep_journal()
    canvas, reason, left = _open_canvas(data)
    for key in (KEY, TARGET, KIND, JOINED):  # the features of others come below
        layer.metadata.pop(key, None)
    layer.metadata.update(keywords["metadata"])
    layer.exchange_canvas(canvas, reason)
    _exchange_colors(layer, keywords)
    if "features" in keywords or len(layer.features):
        layer.features = keywords.get("features", {})
    attach_saver(layer, left)
    read_classes_again(layer)
    follow_padlock(layer)
    return True


def _open_canvas(
    data: LayerData, read_only: str = ""
) -> tuple[Canvas, str, LeftLabels | None]:
    """Make a canvas over levels, or go on with that of labels that were left.

    Returns
    -------
    canvas
        The levels, with edits.
    reason
        Why they cannot be edited; "" where they can, as new labels always.
    left
        The labels, if their field was left before.
    """
    metadata = data[1].get("metadata", {})
    sources = [level_source(level) for level in levels_in(data)]
    origin = origin_in(metadata)
    is_new = TARGET in metadata
    reason = read_only or ("" if is_new else why_read_only(sources[0]))
    if origin is not None and not (reason or is_new):
        location = origin.node.location
        left = take_left((location.source.name, location.path), sources)
        if left is not None:
            return left.writer.canvas, reason, left
    canvas = Canvas(sources)
    image = None if origin is None else origin.node.metadata.image
    if image is not None and image.label is not None:
        # Known without reading pixels: the next free label is above it.
        canvas.highest = max([0, *image.label.colors, *image.label.properties])
    stream_canvas(canvas)
    return canvas, reason, None


def _exchange_colors(layer: OMEZarrLabels, keywords: dict[str, Any]) -> None:
    from napari.utils import DirectLabelColormap
    from napari.utils.colormaps import label_colormap

    if "colormap" in keywords:
        layer.colormap = keywords["colormap"]
    elif isinstance(layer.colormap, DirectLabelColormap):
        # Colours that the old labels stated must not stay on labels that state none.
        layer.colormap = label_colormap()


def level_source(level: Any) -> ArraySource:
    """Return the whole array of a level of labels, in the axes of its layer."""
    window = level.window if isinstance(level, LazyArray) else None
    if window is None:
        return PlainSource(level)
    # Without `box`: labels are painted on the whole level, in the axes of the layer.
    return ArrayWindow(window.source, window.order)


def why_read_only(source: ArraySource) -> str:
    """Return the reason why labels cannot be edited; "" where they can.

    Parameters
    ----------
    source
        Of their level 0.
    """
    inner = source.source if isinstance(source, ArrayWindow) else source
    wrapped = isinstance(inner, DrawablePixels | RoundedLabels)
    if isinstance(getattr(inner, "source", None), MosaicLevel) and wrapped:
        return OVERVIEW
    if isinstance(inner, ResampledLevel):
        return "a field bends them here; show their own coordinate system to paint."
    if isinstance(inner, DrawablePixels):
        return f"they are stored as true and false, not as numbers. {COPY}"
    if isinstance(inner, RoundedLabels):
        return f"they are stored as floating point numbers. {COPY}"
    if not isinstance(inner, LevelSource):
        return OVERVIEW
    if not inner.array.direct:
        return f"their codecs can only be read, not written. {COPY}"
    # Last, since it asks the file system.
    why = inner.array.source.why_not_written(inner.array.path)
    return f"{why} {COPY}" if why else ""
