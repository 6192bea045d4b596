"""Composes layers of napari into one image of OME-Zarr, with channels and labels.

The look of an image layer becomes the rendering settings of OME-Zarr.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.create_labels import SOFTWARE
from napari_ngff.labels.places.label_location import name_problem
from napari_ngff.metadata.model import (
    JSON,
    KIND,
    Channel,
    ContrastWindow,
    LabelInfo,
    LabelKind,
)
from napari_ngff.metadata.systems import Axis
from napari_ngff.store.arrays.lazy_array import (
    ArraySource,
    ArrayWindow,
    LazyArray,
    PlainSource,
)
from napari_ngff.store.convert.new_attributes import split_home
from napari_ngff.viewer.browsing.display_saving import channel_of
from napari_ngff.viewer.composing.layer_axes import (
    LayerPlace,
    layer_axes,
    ome_order,
    place_of,
)
from napari_ngff.viewer.layers.contrast import measure_contrast
from napari_ngff.viewer.layers.image_layers import dtype_range
from napari_ngff.viewer.layers.label_owners import made_here
from napari_ngff.viewer.painting.layer_classes import file_description
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.plans.layer_plan import LayerData, LayerOrigin, origin_in
from napari_ngff.viewer.saving.layer_description import (
    JOINED,
    colors_of,
    properties_of,
    unsaved_features,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.layers import Layer

    from napari_ngff.store.arrays.boxes import Box

PRIMARY = (
    ("red", (255, 0, 0)),
    ("green", (0, 255, 0)),
    ("blue", (0, 0, 255)),
    ("alpha", (255, 255, 255)),
)


@dataclass(frozen=True, slots=True, eq=False)
class StackedSource(ArraySource):
    """Sources of one shape along a new axis; itself an `ArraySource`.

    Attributes
    ----------
    sources
        At least one.
    axis
        Index of the new axis.
    dtype
        One that holds the values of all of them.
    """

    sources: Sequence[ArraySource]
    axis: int
    dtype: np.dtype[Any]

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        return self._insert_axis(self.sources[0].shape, len(self.sources))

    @property
    @override
    def chunks(self) -> tuple[int, ...]:
        # One channel at a time: each is a source, and so a read, of its own.
        all_chunks = zip(*(source.chunks for source in self.sources), strict=True)
        return self._insert_axis(tuple(map(max, all_chunks)), 1)

    def _insert_axis(self, sizes: tuple[int, ...], length: int) -> tuple[int, ...]:
        return (*sizes[: self.axis], length, *sizes[self.axis :])

    @override
    def read(self, box: Box) -> np.ndarray[Any, Any]:
        inner = (*box[: self.axis], *box[self.axis + 1 :])
        parts = [
            self.sources[i].read(inner).astype(self.dtype, copy=False)
            for i in range(*box[self.axis])
        ]
        return np.stack(parts, self.axis)


def rgb_channels(count: int, dtype: np.dtype[Any]) -> tuple[Channel, ...]:
    """Describe the channels of an image in colours; axes (..., `count`)."""
    low, high = dtype_range(dtype)
    # Colours are shown from 0 on, also of signed types.
    window = ContrastWindow(max(low, 0.0), high, low, high)
    return tuple(
        Channel(label, color, window, label != "alpha")
        for label, color in PRIMARY[:count]
    )


CHANNEL = Axis("c", "channel")

# Where the metadata of labels have their colours, properties and classes.
DESCRIBED = "ome-zarr-described"

SINGLY = "Save them one by one."


@dataclass(frozen=True, slots=True, eq=False)
class LayerPart:
    """Pixels and what is known of them; the axes are in the order of OME-Zarr.

    Attributes
    ----------
    name
        Of the image, or of the group of labels.
    source
        Level 0.
    channels
        How to show them, one per element of the channel axis, or one without such an
        axis; empty for labels, and where nothing is known.
    label
        Colours and properties; None for an image.
    software
        See `Multiscale`.
    origins
        Where each channel comes from; None for a layer of no OME-Zarr.
    """

    name: str
    source: ArraySource
    axes: tuple[Axis, ...]
    place: LayerPlace
    channels: tuple[Channel, ...] = ()
    label: LabelInfo | None = None
    software: str | None = None
    origins: tuple[LayerOrigin | None, ...] = ()


def read_layer_data(layer: Layer) -> LayerData:
    """Return a layer as napari's writers get it; labels as Ctrl+S describes them."""
    data, keywords, kind = layer.as_layer_data_tuple()
    if isinstance(layer, OMEZarrLabels):
        keywords["metadata"] = {
            **keywords["metadata"],
            DESCRIBED: replace(file_description(layer), source=LabelInfo().source),
        }
    return data, keywords, kind


def keep_keys(attributes: JSON, part: LayerPart) -> JSON:
    """Add keys of the file of an image, or of labels, to the attributes of its copy.

    Nothing is added where the channels are of several images.
    """
    origins = [origin for origin in part.origins if origin is not None]
    if len({str(x.node) for x in origins}) != 1 or len(origins) < len(part.origins):
        return attributes
    stored = origins[0].node
    old, others = split_home(stored.attributes, stored.zarr_format)
    home = attributes.get("ome", attributes)
    if isinstance(old.get("omero"), dict) and "omero" in home:
        _add_missing(home["omero"], old["omero"], "version")
        listed = old["omero"].get("channels")
        stated = dict(enumerate(listed if isinstance(listed, list) else ()))
        for origin, entry in zip(origins, home["omero"]["channels"], strict=False):
            # Left out where it is false.
            _add_missing(entry, stated.get(origin.channel or 0), "inverted")
    # The copy is in no store of SpatialData, and may be written by others.
    _add_missing(attributes, others, "_ARRAY_DIMENSIONS", "spatialdata_attrs")
    return attributes


def _add_missing(content: JSON, stated: Any, *but: str) -> None:
    """Add the keys that are stated elsewhere, but for some."""
    entries = stated.items() if isinstance(stated, dict) else ()
    content |= {key: x for key, x in entries if key not in (*content, *but)}


@dataclass(frozen=True, slots=True, eq=False)
class LayerComposition:
    """The parts of one new hierarchy.

    Attributes
    ----------
    image
        At its root; without images the one label image. None for several label images
        without an image: then the root is a list of labels.
    labels
        Below it.
    """

    image: LayerPart | None
    labels: tuple[LayerPart, ...] = ()


def compose_layers(layers: Sequence[LayerData], name: str) -> LayerComposition:
    """Compose layers into one image with labels.

    Images of the same shape, axes and place become the channels of one; labels on the
    same axes become its labels. Labels without an image need nothing in common.

    Parameters
    ----------
    layers
        As ``Layer.as_layer_data_tuple`` gives them: images and labels.
    name
        Of the image, where the names of several layers do not say.

    Raises
    ------
    UnsupportedError
        Where they are not one image, or one that OME-Zarr cannot hold; with the reason.
    """
    if not layers:
        raise UnsupportedError("There are no layers to save.")
    parts = [_read_layer(layer) for layer in layers]
    images = [part for part in parts if part.label is None]
    labels = [part for part in parts if part.label is not None]
    names = zip(labels, name_labels([label.name for label in labels]), strict=True)
    labels = [replace(label, name=name) for label, name in names]
    if not images:
        alone = [
            # Without a source: there is no image that they belong to.
            replace(label, label=replace(label.label or LabelInfo(), source=""))
            for label in labels
        ]
        if len(alone) == 1:
            return LayerComposition(alone[0])
        return LayerComposition(None, tuple(alone))
    image = _join_images(images, name)
    for label in labels:
        _require_on(image, label)
    return LayerComposition(image, tuple(labels))


def _read_layer(layer: LayerData) -> LayerPart:
    """Read one layer."""
    data, keywords, kind = layer
    name = str(keywords.get("name", ""))
    if kind not in ("image", "labels"):
        msg = f"OME-Zarr holds images and labels, but {name} is {kind}."
        raise UnsupportedError(msg)
    try:
        part = _read_source(_finest_level(data, keywords), keywords, kind, name)
    except UnsupportedError as error:
        msg = f"{name or 'A layer'} cannot be saved as OME-Zarr. {error}"
        raise UnsupportedError(msg) from error
    return replace(part, origins=(origin_in(keywords.get("metadata", {})),))


def _finest_level(data: Any, keywords: dict[str, Any]) -> ArraySource:
    """Return level 0; of labels with a copy of the edits that they have now."""
    canvas = getattr(data, "canvas", None)
    if canvas is not None:
        # A copy: the user may paint on while a worker reads.
        source: ArraySource = canvas.copy().levels[0]
        return source
    if keywords.get("multiscale") or isinstance(data, list | tuple):
        data = data[0]
    return PlainSource(data)


def _read_source(
    source: ArraySource, keywords: dict[str, Any], kind: str, name: str
) -> LayerPart:
    # napari keeps the colours of rgb behind all other axes, and does not count that
    # axis.
    rgb = bool(keywords.get("rgb")) and kind == "image"
    ndim = len(source.shape) - rgb
    axes = layer_axes(keywords, ndim)
    _require_type(source.dtype, kind)
    if 0 in source.shape:
        raise UnsupportedError("It has no pixels.")
    order = ome_order(axes)
    # In the order of OME-Zarr, "time, channel, space" (0.4 and later, "axes").
    placement = place_of(keywords, ndim).reorder_axes(order)
    axes = tuple(axes[i] for i in order)
    if kind == "labels":
        table = getattr(keywords.get("colormap"), "color_dict", None)
        features, metadata = keywords.get("features"), keywords.get("metadata", {})
        if features is not None:
            # Columns of a table are only shown with the labels.
            joined = [*metadata.get(JOINED, ())]
            features = features.drop(columns=joined, errors="ignore")
        left = () if features is None else unsaved_features(features)
        if left:
            msg = f"Its features hold {' and '.join(left)}."
            raise UnsupportedError(msg, remedy="Remove these first.")
        info = metadata.get(DESCRIBED) or LabelInfo(
            colors_of(table, {}),
            {} if features is None else properties_of(features, {}),
            kind=LabelKind.parse(keywords.get("metadata", {}).get(KIND)),
        )
        software = SOFTWARE if made_here(metadata) else None
        window = ArrayWindow(source, order)
        return LayerPart(name, window, axes, placement, (), info, software)
    if not rgb:
        channel = channel_of(_with_limits(keywords, source), source.dtype)
        # A layer has one look for all its channels; OME-Zarr wants a description of
        # each.
        counts = zip(axes, (source.shape[i] for i in order), strict=True)
        count = next((n for axis, n in counts if axis.type == "channel"), 1)
        channels = () if channel is None else (channel,) * count
        return LayerPart(name, ArrayWindow(source, order), axes, placement, channels)
    channel_index = _channel_place(axes)
    placement = placement.reorder_axes(
        [*range(channel_index), None, *range(channel_index, ndim)]
    )
    # The colours move from the last axis to where a channel axis belongs; nothing is
    # copied.
    arranged = ArrayWindow(
        source, (*order[:channel_index], ndim, *order[channel_index:])
    )
    axes = (*axes[:channel_index], CHANNEL, *axes[channel_index:])
    channels = rgb_channels(source.shape[-1], source.dtype)
    return LayerPart(name, arranged, axes, placement, channels)


def _with_limits(keywords: dict[str, Any], source: ArraySource) -> dict[str, Any]:
    """Return the keywords with contrast limits, measured where none are given.

    Colours are stored with a window of contrast only, and that of the whole type would
    show most images of 16 bits nearly black.
    """
    is_coloured = keywords.get("colormap") is not None
    if not is_coloured or keywords.get("contrast_limits") is not None:
        return keywords
    pixels = LazyArray.of_window(ArrayWindow.whole_source(source))
    measured = measure_contrast(pixels) if len(source.shape) > 1 else None
    return keywords | ({} if measured is None else {"contrast_limits": measured.limits})


def _require_type(dtype: np.dtype[Any], kind: str) -> None:
    kinds = "iu" if kind == "labels" else "iuf"
    if dtype.kind in kinds and dtype.itemsize <= 8:
        return
    what = "integers" if kind == "labels" else "integers or floats of up to 64 bits"
    msg = f"Its pixels must be {what}, not {dtype}."
    raise UnsupportedError(msg, remedy="Convert them first.")


def _channel_place(axes: Sequence[Axis]) -> int:
    """Return the index at which a channel axis belongs: after time."""
    return sum(axis.type == "time" for axis in axes)


def _join_images(images: Sequence[LayerPart], name: str) -> LayerPart:
    """Make several images the channels of one image."""
    first = images[0]
    if len(images) == 1:
        return first
    for other in images[1:]:
        reason = _find_difference(first, other)
        if reason:
            msg = (
                f"{first.name} and {other.name} are not channels of one image:"
                f" {reason}. {SINGLY}"
            )
            raise UnsupportedError(msg)
    # One array has one type: the smallest that holds the values of all channels.
    dtype = np.result_type(*(image.source.dtype for image in images))
    for image in images:
        # numpy calls a cast of 64 bits to a float safe, which drops digits.
        image_dtype = image.source.dtype
        if (
            dtype.kind == "f"
            and image_dtype.kind != "f"
            and 2 * image_dtype.itemsize > dtype.itemsize
        ):
            msg = f"No type of pixels holds the values of all channels. {SINGLY}"
            raise UnsupportedError(msg)
    channel_index = _channel_place(first.axes)
    source = StackedSource([image.source for image in images], channel_index, dtype)
    ndim = len(first.axes)
    placement = first.place.reorder_axes(
        [*range(channel_index), None, *range(channel_index, ndim)]
    )
    axes = (*first.axes[:channel_index], CHANNEL, *first.axes[channel_index:])
    # The reader names layers "image: channel"; saved again they get the old names.
    common, names = _split_names([image.name for image in images])
    channels = tuple(
        replace(image.channels[0], label=label)
        for image, label in zip(images, names, strict=True)
        if image.channels
    )
    # "omero" describes all channels or none.
    if len(channels) < len(images):
        channels = ()
    return LayerPart(
        common or name,
        source,
        axes,
        placement,
        channels,
        origins=tuple(origin for image in images for origin in image.origins),
    )


def _find_difference(first: LayerPart, other: LayerPart) -> str:
    """Describe why two images are not channels of one image; "" where they are."""
    if any(axis.type == "channel" for axis in (*first.axes, *other.axes)):
        return "one of them has channels already"
    if first.source.shape != other.source.shape:
        return f"their shapes are {first.source.shape} and {other.source.shape}"
    if first.axes != other.axes:
        return "their axes differ, or the units of these"
    if not first.place.is_same(other.place):
        return "their positions differ"
    return ""


def _split_names(names: Sequence[str]) -> tuple[str, list[str]]:
    """Split "cells: DNA", "cells: actin" into the image's name and channel names."""
    heads = {name.partition(": ")[0] for name in names}
    rests = [name.partition(": ")[2] for name in names]
    return (heads.pop(), rests) if len(heads) == 1 and all(rests) else ("", list(names))


def _require_on(image: LayerPart, label: LayerPart) -> None:
    """Refuse labels that are not on the axes of an image."""
    channel = next((i for i, a in enumerate(image.axes) if a.type == "channel"), None)
    kept = [i for i in range(len(image.axes)) if i != channel]
    placement = image.place.reorder_axes(kept)
    reason = ""
    if tuple(image.axes[i] for i in kept) != label.axes:
        theirs = ", ".join(axis.name for axis in label.axes)
        reason = f"its axes are {theirs}, or have other units"
    # Voxels may be of another size, or begin elsewhere; a rotation against the image
    # cannot be written.
    elif not placement.same_world(label.place):
        reason = "it is turned or sheared in another way"
    if reason:
        msg = (
            f"{label.name} cannot be a label image of {image.name}: {reason}. {SINGLY}"
        )
        raise UnsupportedError(msg)


def name_labels(wanted: Sequence[str]) -> list[str]:
    """Give each label image a name that a group can have."""
    taken: list[str] = []
    for label_name in wanted:
        plain = "".join(
            "_" if letter in '/\\:*?"<>|' or not letter.isprintable() else letter
            for letter in label_name.strip()
        )
        # A name that no group can have, such as "." or one that is empty.
        start = "labels" if name_problem(plain) else plain
        numbers = (f"{start}-{n}" for n in range(2, len(wanted) + 2))
        name = next(n for n in (start, *numbers) if not name_problem(n, taken))
        taken.append(name)
    return taken
