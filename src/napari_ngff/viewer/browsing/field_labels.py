"""Labels that the user paints in one field after another, under the same layer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer.painting.brush import PAINTING
from napari_ngff.viewer.painting.classes import classes_of_layer
from napari_ngff.viewer.painting.label_target import TARGET, LabelTarget
from napari_ngff.viewer.painting.new_labels import LabelChoices
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.picture import KEY, LayerOrigin
from napari_ngff.viewer.saving.attachment import renamed

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.labels.classes import LabelClass

__all__ = [
    "LabelsInUse",
    "image_address",
    "label_name",
    "labels_in_use",
]


@dataclass(frozen=True, slots=True)
class LabelsInUse:
    """Labels that are painted, to go on with in the next field.

    Attributes
    ----------
    choices
        What new labels like these need.
    look
        Tools and looks of the layer, by attribute.
    is_active
        Whether their layer is the selected one.
    """

    choices: LabelChoices
    classes: tuple[LabelClass, ...] = ()
    look: dict[str, Any] = field(default_factory=dict)
    is_active: bool = False


def label_name(layer: Layer | None) -> str | None:
    """Return the name of labels in their file, whatever their layer is called.

    None for other layers, and for copies of labels, which are in no file.
    """
    if not isinstance(layer, OMEZarrLabels):
        return None
    if layer.saver is not None and layer.saver.is_copy:
        return None
    origin, target = layer.metadata.get(KEY), layer.metadata.get(TARGET)
    if isinstance(origin, LayerOrigin):
        return str(origin.node.name)
    if not isinstance(target, LabelTarget):
        return None
    try:
        return renamed(layer.name, target.name)
    except ValueError:
        return target.name  # the first save reports it


def image_address(layer: Layer) -> str:
    """Return the address of the image that labels belong to, or that a layer shows."""
    origin, target = layer.metadata.get(KEY), layer.metadata.get(TARGET)
    if isinstance(target, LabelTarget):
        return str(target.node)
    if not isinstance(origin, LayerOrigin):
        return ""
    picture = origin.picture
    if picture is not None and picture.image is not None:
        return str(picture.image.node)
    return str(origin.node).rsplit("/labels/", 1)[0]


def labels_in_use(
    viewer: ViewerModel, layer: Layer, image: Layer | None, look: dict[str, Any]
) -> LabelsInUse | None:
    """Note how to go on with the labels of a field; None for labels only looked at.

    Parameters
    ----------
    layer
        Labels that were made in this window, painted, or selected with a tool that
        paints go along to the next field.
    image
        A channel of their image.
    look
        Tools and looks of the layer.
    """
    name = label_name(layer)
    if not isinstance(layer, OMEZarrLabels) or name is None or not layer.editable:
        return None
    is_active = viewer.layers.selection.active is layer
    target = layer.metadata.get(TARGET)
    is_painted = target is not None or layer.canvas.log.end > 0
    if not is_painted and not (is_active and layer.mode in PAINTING):
        return None
    choices = LabelChoices(name, _level_of(layer, image), layer.canvas.dtype)
    if isinstance(target, LabelTarget):
        choices = replace(choices, level=target.level, sidecar=target.sidecar)
    return LabelsInUse(choices, classes_of_layer(layer).items, look, is_active)


def _level_of(layer: OMEZarrLabels, image: Layer | None) -> int:
    """Find the level of the image that is as large as the finest of the labels."""
    if image is None or not image.multiscale:
        return 0
    size = tuple(layer.canvas.shape[-2:])
    sizes = [tuple(map(int, shape[-2:])) for shape in image.level_shapes]
    return sizes.index(size) if size in sizes else 0
