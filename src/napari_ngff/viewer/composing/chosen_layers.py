"""Chooses the layers that *Save as…* saves, and names what is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.viewer.layer_plan import origin_of
from napari_ngff.viewer.layers import channel_count
from napari_ngff.viewer.notices import count_noun

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from napari.components import LayerList
    from napari.layers import Layer

    from napari_ngff.viewer.layer_plan import LayerPlan

__all__ = ["ChosenLayers", "choose_layers"]

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
    known = [x for x in layers if x._type_string in KINDS and not _is_lacking(x)]
    # A single selected layer says nothing: napari selects each layer that is added.
    selected = [layer for layer in known if layer in layers.selection]
    if len(selected) > 1 and not needed:
        others = layers.selection - set(selected)
        return _name_left(layers, selected, others, "selected")
    visible = [layer for layer in known if layer.visible or layer in needed]
    images = [image for image in map(_image_of, visible) if image is not None]
    whole = [x for x in known if x in visible or _is_one_of(_image_of(x), images)]
    chosen, which = (whole, "visible") if visible else (known, "all")
    return _name_left(layers, chosen, [x for x in layers if x not in chosen], which)


def _is_lacking(layer: Layer) -> bool:
    """Return whether a layer is that of a channel which the image on screen lacks."""
    origin = origin_of(layer)
    return (
        origin is not None and layer._type_string == "image" and origin.picture is None
    )


def _image_of(layer: Layer) -> LayerPlan | None:
    """Return the image whose channel a layer shows; None for all other layers."""
    origin = origin_of(layer)
    is_image = origin is not None and layer._type_string == "image"
    return origin.picture if origin is not None and is_image else None


def _is_one_of(image: LayerPlan | None, images: Iterable[LayerPlan]) -> bool:
    return image is not None and any(
        (str(image.node), image.multiscale) == (str(other.node), other.multiscale)
        for other in images
    )


def _name_left(
    layers: LayerList, chosen: Sequence[Layer], others: Iterable[Layer], which: str
) -> ChosenLayers:
    """Name the other layers, unless they are empty, and channels without a layer."""
    left = []
    for layer in others:
        is_known = layer._type_string in KINDS
        if not _is_lacking(layer) and (is_known or len(layer.data)):
            name = f"{layer._type_string} '{layer.name}'"
            left.append(f"hidden {name}" if is_known else name)
    images: list[LayerPlan] = []
    for image in filter(None, map(_image_of, chosen)):
        if not _is_one_of(image, images):
            images.append(image)
            shown = [x for x in map(_image_of, layers) if _is_one_of(x, [image])]
            missing = channel_count(image) - len(shown)
            if missing > 0:
                left.append(f"{count_noun(missing, 'channel')} without a layer")
    return ChosenLayers(tuple(chosen), which, tuple(left))
