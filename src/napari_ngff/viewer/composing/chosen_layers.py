"""Chooses the layers that *Save as…* saves, and names what is left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.viewer.layers.image_layers import channel_count
from napari_ngff.viewer.plans.layer_plan import layer_kind, origin_of, picture_of
from napari_ngff.viewer.services.notices import count_noun

if TYPE_CHECKING:
    from collections.abc import Collection

    from napari.components import LayerList
    from napari.layers import Layer

KINDS = ("image", "labels")
"""Types of layers that an OME-Zarr holds."""


@dataclass(frozen=True, slots=True)
class ChosenLayers:
    """The layers that *Save as…* saves.

    Attributes
    ----------
    layers
        In the order of the list.
    which
        "selected", "visible" or, where none is visible, "all".
    left_out
        What else is in the window, for people: "points 'spots'".
    """

    layers: tuple[Layer, ...]
    which: str
    left_out: tuple[str, ...] = ()


def choose_layers(layers: LayerList, needed: Collection[Layer] = ()) -> ChosenLayers:
    """Choose the images and labels to save: several selected ones, else the visible.

    Hidden channels of a visible image come along, since the file can state that they
    are hidden.

    Parameters
    ----------
    needed
        Labels that are saved in any case; then the selection does not count.
    """
    known = [x for x in layers if layer_kind(x) in KINDS and not _is_lacking(x)]
    # A single selected layer says nothing: napari selects each layer that is added.
    selected = [layer for layer in known if layer in layers.selection]
    if len(selected) > 1 and not needed:
        chosen, which = selected, "selected"
        others = [x for x in layers.selection if layer_kind(x) not in KINDS]
    else:
        visible = [layer for layer in known if layer.visible or layer in needed]
        images = set(map(_image_of, visible)) - {None}
        whole = [x for x in known if x in visible or _image_of(x) in images]
        chosen, which = (whole, "visible") if visible else (known, "all")
        others = [x for x in layers if x not in chosen and not _is_lacking(x)]
    left = [_describe_layer(x) for x in others if x in known or len(x.data)]
    shown = Counter(map(_image_of, layers))
    origins = {_image_of(layer): origin_of(layer) for layer in chosen}
    for image, origin in origins.items():
        picture = origin.picture if image and origin else None
        missing = channel_count(picture) - shown[image] if picture else 0
        if missing > 0:
            left.append(f"{count_noun(missing, 'channel')} without a layer")
    return ChosenLayers(tuple(chosen), which, tuple(left))


def _is_lacking(layer: Layer) -> bool:
    """Return whether a layer is that of a channel which the image on screen lacks."""
    origin = origin_of(layer)
    is_image = origin is not None and layer_kind(layer) == "image"
    return is_image and _image_of(layer) is None


def _image_of(layer: Layer) -> tuple[str, int] | None:
    """Return what the channels of one image share; None for all other layers."""
    picture = picture_of(layer)
    if picture is None or layer_kind(layer) != "image":
        return None
    return str(picture.node), picture.multiscale


def _describe_layer(layer: Layer) -> str:
    hidden = "hidden " if layer_kind(layer) in KINDS else ""
    return f"{hidden}{layer_kind(layer)} '{layer.name}'"
