"""Knows which labels this package made, and which ones the user has locked.

What is selected or gets a tool without a person's choice is never of others: neither
when a file is opened, nor when a field is shown, nor in a round of annotation. The
padlock of labels is that of all labels of their name, in all fields of a plate.
"""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from napari_ngff.labels.create_labels import METHOD, SOFTWARE
from napari_ngff.labels.kept_edits import place_text
from napari_ngff.labels.label_classes import classes_of
from napari_ngff.metadata.model import LabelInfo
from napari_ngff.store.hierarchy.location import ZIP_SUFFIXES
from napari_ngff.viewer.plans.layer_plan import (
    LayerPlan,
    layer_kind,
    origin_in,
    origin_of,
)
from napari_ngff.viewer.services.window import GuardedSignal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari.layers import Layer

    from napari_ngff.labels.places.label_location import LabelLocation
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.pyramids.pyramid import Pyramid


first_saved: Final = GuardedSignal((object, int), name="first_saved")
"""Emitted in the main thread when a window has saved into labels of others for the
first time; with their layer, and the number of voxels that were changed."""

_locked: set[tuple[str, str]] = set()
_saved: set[tuple[str, str]] = set()
_layers: weakref.WeakSet[Layer] = weakref.WeakSet()


def place_of_labels(layer: Layer) -> tuple[str, str]:
    """Return the hierarchy of the image of labels, and their name there."""
    origin, target = origin_in(layer.metadata), layer.metadata.get(TARGET)
    if isinstance(target, LabelTarget):
        name = target.name if origin is None else origin.label_name
        source = target.image_file
        return (target.node.location.source.name if target.node else source), name
    if origin is None:
        return "", layer.name
    image = origin.picture.image if origin.picture is not None else None
    node = origin.node if image is None else image.node
    return node.location.source.name, origin.label_name


def image_address(layer: Layer) -> str:
    """Return the address of the image that labels belong to, or that a layer shows."""
    origin, target = origin_of(layer), layer.metadata.get(TARGET)
    if isinstance(target, LabelTarget):
        return str(target.node)
    if origin is None:
        return ""
    picture = origin.picture
    if picture is not None and picture.image is not None:
        return str(picture.image.node)
    return str(origin.node).rsplit("/labels/", 1)[0]


def is_first_save(layer: Layer) -> bool:
    """Return whether labels are of others, and none of their name was saved here."""
    return are_of_others(layer) and place_of_labels(layer) not in _saved


def note_save(layer: Layer) -> None:
    """Note that labels of others were saved, which a message reports only once."""
    _saved.add(place_of_labels(layer))


def forget_save(layer: Layer) -> None:
    """Let the next save of labels of others be reported again."""
    _saved.discard(place_of_labels(layer))


def follow_padlock(layer: Layer) -> None:
    """Lock labels as those of their name are, and those from now on as these."""
    layer.locked = place_of_labels(layer) in _locked
    if layer not in _layers:
        _layers.add(layer)
        layer.events.locked.connect(_on_locked)


def _on_locked(event: Any) -> None:
    layer = event.source
    place = place_of_labels(layer)
    (_locked.add if layer.locked else _locked.discard)(place)
    for other in list(_layers):
        if place_of_labels(other) == place:
            other.locked = layer.locked


def is_own_node(node: Node) -> bool:
    """Return whether this package made a label image.

    It writes its name into the metadata of new labels. Earlier ones without it have
    named classes, and levels made as only new labels have them.
    """
    image = node.metadata.image
    if image is None or not image.multiscales:
        return False
    first, label = image.multiscales[0], image.label or LabelInfo()
    has_classes = first.method == METHOD and bool(classes_of(label))
    return first.software == SOFTWARE or has_classes


def is_in_sidecar(plan: LayerPlan) -> bool:
    """Return whether labels are in another hierarchy than the image they follow."""
    source = plan.node.location.source.name
    return plan.image is not None and plan.image.node.location.source.name != source


def is_own_plan(plan: LayerPlan) -> bool:
    """Return whether this package made opened labels; those in sidecars are copies."""
    return is_in_sidecar(plan) or is_own_node(plan.node)


def made_here(metadata: Mapping[str, Any]) -> bool:
    """Return whether this package made labels, by the metadata of their layer."""
    if TARGET in metadata:
        return True  # in this window
    origin = origin_in(metadata)
    if origin is None:
        return False
    return (
        is_own_node(origin.node)
        if origin.picture is None
        else is_own_plan(origin.picture)
    )


def are_of_others(layer: Layer) -> bool:
    """Return whether a layer has labels of a file that another program made."""
    is_labels = layer_kind(layer) == "labels" and origin_in(layer.metadata) is not None
    return is_labels and not made_here(layer.metadata)


TARGET = "ome-zarr-target"
"""Where a layer's ``metadata`` keeps its `LabelTarget`."""

SAVE_AS = "File ▸ IO Utilities ▸ Save as…"
"""Where labels are saved together with an image that is not of an OME-Zarr."""

Sidecar = bool | str | os.PathLike[str] | None


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """Where new labels are saved by their first save.

    Attributes
    ----------
    node
        The image's group; None where the image is not of an OME-Zarr.
    level
        Level of the image that is the finest of the labels.
    home
        The group that will list them; None where there is none.
    order
        The image's axis for each of the layer, None for a new one; None where the
        layer shows something else than the image's own voxels.
    sidecar
        As it was asked for, see `new_labels`.
    replaces
        Name of the label image that the first save may replace; "" for none.
    pyramid
        The image's levels as they were opened: a save into a file of this computer
        needs no server. None where they are to be opened again.
    image_file
        The file of an image that is not of an OME-Zarr; "" where it has none.
    """

    node: Node | None
    name: str
    level: int = 0
    home: LabelLocation | None = None
    order: tuple[int | None, ...] | None = None
    sidecar: Sidecar = None
    replaces: str = ""
    pyramid: Pyramid | None = None
    image_file: str = ""

    def __deepcopy__(self, memo: dict[int, Any]) -> LabelTarget:
        # napari copies a layer's metadata; this one never changes.
        return self


def has_no_file(layer: Layer) -> bool:
    """Return whether labels are new ones of an image that is not of an OME-Zarr.

    A save has no place for them; *Save as…* writes them together with the image.
    """
    target = layer.metadata.get(TARGET)
    return isinstance(target, LabelTarget) and target.node is None


def image_file(layer: Layer) -> str:
    """Return the file of an image that is not of an OME-Zarr; "" where it has none.

    By it, kept edits of its labels are found when it is opened again.
    """
    path = str(layer.source.path or "")
    # An OME-Zarr that another plugin reads: its labels are edited in layers of ours.
    is_other = os.path.isfile(path) and not path.lower().endswith(ZIP_SUFFIXES)
    return place_text(path, "") if is_other else ""
