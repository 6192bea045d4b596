"""Exchanges the data that a layer shows, with as little as that takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.lazy_array import ArrayWindow, BlankArray, LazyArray
from napari_ngff.viewer.browsing.field_labels import label_name
from napari_ngff.viewer.layers.image_layers import untouched_look
from napari_ngff.viewer.layers.label_owners import are_of_others
from napari_ngff.viewer.painting.brush import PAINTING
from napari_ngff.viewer.painting.layer_classes import KEYS, LayerClasses
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.painted_layers import exchange_labels
from napari_ngff.viewer.plans.layer_plan import (
    KEY,
    LayerData,
    LayerOrigin,
    is_joined,
    layer_kind,
    levels_in,
    origin_in,
)
from napari_ngff.viewer.private.napari_layers import (
    hold_reactions,
    hold_refresh,
    whole_corners,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from napari.layers import Layer

    from napari_ngff.labels.label_classes import LabelClass
    from napari_ngff.viewer.browsing.field_labels import LabelsInUse
    from napari_ngff.viewer.browsing.shown_fields import Slot

OTHER_CLASSES = (
    "Other classes in this field.\nLabel {} is '{}' here and '{}' in the field before."
    " Each field keeps its classes."
)

OTHER_KEYS = (
    "Other keys in this field.\nKey {} is '{}' here and '{}' in the field before."
    " Each field keeps the order of its classes."
)

LOOK = (
    "name",
    "visible",
    "opacity",
    "blending",
    "contour",
    "brush_size",
    "contiguous",
    "preserve_labels",
    "n_edit_dimensions",
    "selected_label",
    "mode",
)
"""Attributes that a layer of labels keeps when it gets other labels."""

CONTRAST = ("contrast_limits_range", "contrast_limits", "colormap", "gamma")
"""Attributes that channels keep as well."""

COVERING = ("opaque", "translucent", "translucent_no_depth")
"""Blending of images under which others are not seen."""

PLACEMENT = ("scale", "translate", "axis_labels", "units")


def swap_layer(layer: Layer, data: LayerData) -> bool:
    """Exchange the data that a layer shows; False where it has other axes.

    What is as large is shown in the part and at the level of what was there before:
    napari begins with the coarsest level each time, and draws twice.
    """
    levels, keywords = levels_in(data), data[1]
    if layer.ndim != levels[0].ndim or (not layer.multiscale and len(levels) > 1):
        return False
    sizes = [_size_of(level) for level in levels]
    present = layer.data if layer.multiscale else [layer.data]
    alike = sizes == [_size_of(level) for level in present]
    corners, level = layer.corner_pixels, getattr(layer, "data_level", 0)
    locked = getattr(layer, "locked_data_level", None)
    # Each change would read, scale and upload the picture again.
    with hold_refresh(layer):
        with hold_reactions(layer, ("data", *PLACEMENT, "affine"), alike):
            if not _exchange_data(layer, data, levels):
                return False
            moved = _place_layer(layer, keywords)
        if locked is not None:
            layer.locked_data_level = locked
        elif alike and layer.multiscale:
            layer.corner_pixels = corners
            layer.data_level = level
        elif layer.multiscale:
            # Those of a larger overview are no part of a field: where that is not in
            # view, napari keeps them, and cannot draw.
            layer.corner_pixels = whole_corners(layer)
        if moved or not alike:
            # Only this, once all is in place, lets napari forget the extent, also of a
            # hidden layer, and then look for the ranges of the sliders.
            layer.scale = layer.scale
    layer.refresh(extent=False)
    return True


def _exchange_data(layer: Layer, data: LayerData, levels: Sequence[Any]) -> bool:
    if layer_kind(layer) == "labels":
        return exchange_labels(layer, data)
    origin, given = data[1]["metadata"][KEY], untouched_look(layer)
    layer.metadata[KEY] = replace(origin, given=given)
    layer.data = levels if layer.multiscale else levels[0]
    return True


def _size_of(level: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return tuple(level.shape), np.dtype(level.dtype)


def _place_layer(layer: Layer, keywords: dict[str, Any]) -> bool:
    """Place a layer in the world; return whether it has moved."""
    moved = False
    for name in PLACEMENT:
        value = keywords.get(name)
        # Each assignment makes napari look for the extent of all layers again.
        if value is not None and not _are_equal(getattr(layer, name), value):
            setattr(layer, name, value)
            moved = True
    affine = keywords.get("affine", np.eye(layer.ndim + 1))
    if not np.array_equal(layer.affine.affine_matrix, affine):
        layer.affine = affine
        moved = True
    return moved


def _are_equal(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray):
        return bool(np.array_equal(first, np.asarray(second, float)))
    return tuple(map(str, first)) == tuple(map(str, second))


def make_empty_channel(data: LayerData) -> LayerData:
    """Make the layer of a channel that is not there, like that of one that is."""
    _, keywords, kind = data
    blanks = [
        LazyArray.of_window(
            ArrayWindow.whole_source(
                BlankArray(level.shape, level.chunksize, level.dtype)
            )
        )
        for level in levels_in(data)
    ]
    origin = keywords["metadata"][KEY]
    # Without a picture: nothing of it can be saved, measured or labelled.
    metadata = {KEY: LayerOrigin(origin.node)}
    return blanks, {**keywords, "metadata": metadata}, kind


def look_of(layer: Layer) -> dict[str, Any]:
    """Return the attributes of a layer that the next field keeps; see `apply_look`."""
    names = LOOK + CONTRAST * (layer_kind(layer) == "image")
    look = {name: getattr(layer, name) for name in names if hasattr(layer, name)}
    if layer_kind(layer) == "image":
        look["given"] = untouched_look(layer)
    if isinstance(layer, OMEZarrLabels):
        look["tool"] = layer.describe_tool()
        look["only_over"] = layer.only_over
    return look


def apply_look(layer: Layer, look: dict[str, Any]) -> None:
    """Give labels the tools that were in hand before, and channels their contrast."""
    for name in (*LOOK[4:], *CONTRAST):
        # Each assignment draws the layer again.
        if name not in look or getattr(layer, name, None) == look[name]:
            continue
        if name == "mode" and not layer.editable:
            continue
        setattr(layer, name, look[name])
    if "given" in look:
        origin = replace(layer.metadata[KEY], given=look["given"])
        layer.metadata[KEY] = origin
    if isinstance(layer, OMEZarrLabels) and "tool" in look:
        # The size in voxels is that at the zoom of the field before.
        layer.take_brush(look["tool"])


def put_away_tools(layers: Mapping[Slot, Layer], kept: Collection[Slot]) -> None:
    """Take the tool off labels, except those that were selected in the field before.

    Others may be selected in place of a layer that goes with that field, and the next
    click would paint.
    """
    for slot, layer in layers.items():
        armed = isinstance(layer, OMEZarrLabels) and layer.mode in PAINTING
        if armed and slot not in kept:
            layer.mode = "pan_zoom"


def find_labels_left(
    layers: Iterable[Layer], name: str | None, of_others: bool
) -> Layer | None:
    """Find the labels of a name that a user had selected, after fields that lack them.

    Own ones are not continued in those of another program.
    """
    fields = (x for x in layers if name and not is_overview(x.metadata))
    found = (x for x in fields if label_name(x) == name)
    return next((x for x in found if of_others or not are_of_others(x)), None)


def select_same_class(classes: LayerClasses, labels: LabelsInUse) -> None:
    """Paint with, and over, the same classes, whose labels may be others here."""
    value = labels.look.get("selected_label")
    same = _find_same_class(classes, labels, value)
    if same and value not in same:
        classes.select_class(same[0])
    only_over = labels.look.get("only_over")
    over = _find_same_class(classes, labels, only_over)
    if only_over is not None and over and only_over not in over:
        only_over = over[0]
    classes.draw_over(only_over)


def _find_same_class(
    classes: LayerClasses, labels: LabelsInUse, value: int | None
) -> list[int]:
    """Return the labels here of the class that a label has in the field before."""
    names = {
        label_class.name for label_class in labels.classes if label_class.value == value
    }
    return [
        label_class.value for label_class in classes.items if label_class.name in names
    ]


def tell_other_classes(
    field_classes: Sequence[LabelClass],
    classes: Sequence[LabelClass],
    in_use: Sequence[LabelClass],
) -> Iterator[str]:
    """Tell what means another class than in the field before: labels, number keys.

    Parameters
    ----------
    field_classes
        Those that the field has of its own.
    classes
        Those that it has with the classes in use.
    in_use
        Those of the field before.
    """
    before = {item.value: item.name for item in in_use}
    for item in field_classes:
        name = before.get(item.value, item.name)
        if name != item.name:
            yield OTHER_CLASSES.format(item.value, item.name, name)
    pairs = zip(classes[:KEYS], in_use[:KEYS], strict=False)
    for number, (item, earlier) in enumerate(pairs, 1):
        if item.name != earlier.name:
            yield OTHER_KEYS.format(number, item.name, earlier.name)


def is_overview(metadata: Mapping[str, Any]) -> bool:
    """Return whether a layer with these metadata shows many fields as one image."""
    origin = origin_in(metadata)
    image = origin.picture if origin is not None else None
    return image is not None and is_joined(image)
