"""Chooses what *Save as…* saves, and what goes along; names what is left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.object_classes import CLASSES_KEY
from napari_ngff.metadata.transform import join_matrix
from napari_ngff.store.convert.conversion_plan import TABLES, read_table
from napari_ngff.store.hierarchy.summary import list_tables, region_of
from napari_ngff.viewer.annotations.annotations import (
    Annotations,
    CopiedPart,
    ImageCopy,
)
from napari_ngff.viewer.annotations.file_annotation import image_node
from napari_ngff.viewer.composing.composition import name_labels
from napari_ngff.viewer.composing.layer_axes import layer_axes, ome_order, place_of
from napari_ngff.viewer.layers.image_layers import channel_count
from napari_ngff.viewer.layers.label_owners import image_address, place_of_labels
from napari_ngff.viewer.layers.move_layers import world_matrix
from napari_ngff.viewer.painting.new_labels import taken_names
from napari_ngff.viewer.plans.layer_plan import (
    SharedAxes,
    layer_kind,
    order_for_screen,
    origin_of,
    picture_of,
)
from napari_ngff.viewer.services.notices import count_noun
from napari_ngff.viewer.services.window import attempt_work

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from napari.components import LayerList
    from napari.layers import Layer

    from napari_ngff.store.hierarchy.node import Node

KINDS = ("image", "labels")
"""Types of layers that an OME-Zarr holds."""

# Names of what may go along, and that, or why it does not.
Planned = list[tuple[str, CopiedPart | str | None]]


@dataclass(frozen=True, slots=True)
class ChosenLayers:
    """The layers that *Save as…* saves.

    Attributes
    ----------
    layers
        In the order of the list.
    which
        "selected", "visible" or, where none is visible, "all".
    others
        What else is in the window and not empty; of selected layers, those of them.
    lacking
        What of the image is in no layer, for people.
    """

    layers: tuple[Layer, ...]
    which: str
    others: tuple[Layer, ...] = ()
    lacking: tuple[str, ...] = ()


def choose_layers(layers: LayerList, needed: Collection[Layer] = ()) -> ChosenLayers:
    """Choose the images and labels to save: several selected ones, else the visible.

    Hidden channels and labels of a visible image come along: they belong to it.

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
        others = [x for x in layers if x in layers.selection and x not in known]
    else:
        visible = [layer for layer in known if layer.visible or layer in needed]
        images = set(map(_image_of, visible)) - {None}
        whole = [x for x in known if x in visible or _belongs_to(x, images)]
        chosen, which = (whole, "visible") if visible else (known, "all")
        others = [x for x in layers if x not in chosen and not _is_lacking(x)]
    lacking = []
    shown = Counter(map(_image_of, layers))
    layer_of = {_image_of(layer): layer for layer in chosen}
    for image, layer in layer_of.items():
        picture = picture_of(layer) if image else None
        missing = channel_count(picture) - shown[image] if picture else 0
        if missing > 0:
            lacking.append(f"{count_noun(missing, 'channel')} without a layer")
        names = {place_of_labels(x)[1] for x in layers if _belongs_to(x, {image})}
        # As they are now: some may have been deleted, renamed or added since.
        is_listed = picture is not None and picture.label_names is not None
        listed = taken_names(layer) if is_listed else ()
        lacking += [f"labels '{x}' without a layer" for x in listed if x not in names]
    full = tuple(x for x in others if x in known or len(x.data))
    return ChosenLayers(tuple(chosen), which, full, tuple(lacking))


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


def _belongs_to(layer: Any, images: Collection[tuple[str, int] | None]) -> bool:
    """Return whether a layer is a channel of one of some images, or labels of it."""
    if layer_kind(layer) != "labels":
        return _image_of(layer) in images
    is_new = getattr(getattr(layer, "saver", None), "is_unpainted", False)
    return not is_new and image_address(layer) in [x[0] for x in images if x]


def _describe_layer(layer: Layer, noun: str = "") -> str:
    hidden = "hidden " if layer_kind(layer) in KINDS else ""
    return f"{hidden}{noun + 's' if noun else layer_kind(layer)} '{layer.name}'"


def plan_annotations(
    annotations: Annotations, chosen: ChosenLayers, copy: ImageCopy
) -> Planned:
    """Plan which annotations go along; other layers do not."""
    wanted = [
        (_describe_layer(x, getattr(each, "noun", "")), each)
        for x, each in ((x, annotations.of_layer(x)) for x in chosen.others)
    ]
    wanted += [(x.title, x) for x in annotations if x.layer is None]
    return [
        (title, attempt_work(partial(each.plan_copy, copy)) if each else "")
        for title, each in wanted
    ]


def plan_tables(copy: ImageCopy) -> Planned:
    """Plan which tables of the image go along; in a worker."""
    names = attempt_work(partial(list_tables, copy.node)) if copy.node else ()
    if isinstance(names, str):
        return [("tables", names)]
    plan = partial(_plan_table, copy, copy.node)
    return [(f"table '{x}'", attempt_work(partial(plan, x))) for x in names]


def _plan_table(copy: ImageCopy, image: Node, name: str) -> CopiedPart | str | None:
    attributes = image.child(f"{TABLES}/{name}").attributes
    labels = region_of(attributes)
    if labels and copy.labels.get(labels) != labels:
        # Classes of objects go along as their annotation has them.
        return (
            None
            if CLASSES_KEY in attributes
            else f"no labels '{labels}' are in the new file"
        )
    # Regions count from the first voxel, wherever that is; tables of old versions of
    # ngio state no type.
    if copy.is_scaled and "roi" in str(attributes.get("type", name)).lower():
        return "the voxels have another size in the new file"
    if image.location.source.list_names(image.location.path) is None:
        return (
            None if CLASSES_KEY in attributes else "its server does not list its files"
        )
    return CopiedPart(f"table '{name}'", partial(read_table, image, name))


def describe_copy(layers: Sequence[Layer]) -> ImageCopy:
    """Describe the new file of layers, as annotations of the first image see it."""
    images = [layer for layer in layers if layer_kind(layer) == "image"]
    labels = [layer for layer in layers if layer_kind(layer) == "labels"]
    pictures = [x.image for x in map(picture_of, labels) if x is not None]
    nodes = [*map(image_node, images)] or [x.node for x in pictures if x] or [None]
    node = nodes[0]
    if not images or node is None:
        return ImageCopy(node)
    own = {
        place_of_labels(layer)[1]: name
        for layer, name in zip(
            labels, name_labels([x.name for x in labels]), strict=True
        )
        if image_address(layer) == str(node)
    }
    image, ndim = images[0], images[0].ndim
    keywords = image.as_layer_data_tuple()[1]
    try:
        axes, place = layer_axes(keywords, ndim), place_of(keywords, ndim)
    except UnsupportedError:  # writing it says why
        return ImageCopy(None)
    to_voxels = np.linalg.inv(world_matrix(image)) @ image.affine.affine_matrix
    to_file = join_matrix(np.diag(place.scale), np.array(place.translation)) @ to_voxels
    in_file = [axes[i] for i in ome_order(axes)]
    shown = [in_file[i] for i in order_for_screen(in_file, None)]
    picture: Any = picture_of(image)
    stated = SharedAxes.from_metadata(picture.pyramid).layer_keywords()
    is_same = layer_axes(stated, len(stated["scale"])) == axes and np.allclose(
        stated["scale"], place.scale, rtol=1e-6, atol=0
    )
    # Else the coordinates would be shown along other axes.
    named = {x.name: x.unit or "" for x in axes} if shown == [*axes] else {}
    return ImageCopy(node, own, named, to_file, to_voxels, not is_same)
