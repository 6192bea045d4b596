"""The layers that a browser shows: they stay, while what they show is exchanged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeGuard

from napari.utils.notifications import show_warning

from napari_ngff.errors import OMEZarrError
from napari_ngff.store.arrays.lazy_array import ArrayWindow, BlankArray, LazyArray
from napari_ngff.viewer import frontend
from napari_ngff.viewer.browsing.field_labels import label_name, labels_in_use
from napari_ngff.viewer.browsing.swap import swap
from napari_ngff.viewer.layers import MOST_CHANNELS, image_layers, layers_of
from napari_ngff.viewer.painting.classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import label_data
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.painted import as_layer
from napari_ngff.viewer.picture import KEY, LayerOrigin, is_joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.labels.classes import LabelClass
    from napari_ngff.viewer.browsing.field_labels import LabelsInUse
    from napari_ngff.viewer.groups import Group
    from napari_ngff.viewer.painting.classes import Classes
    from napari_ngff.viewer.picture import LayerData, Picture

__all__ = ["LayerSlots", "Prepared", "Slot", "prepare"]

Slot = tuple[int, str, int | str]
"""Which of the groups; "image" or "labels"; number of the channel or name of labels."""

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
"""What labels keep when others take their place."""

OTHER_CLASSES = (
    "Other classes in this field.\nLabel {} is '{}' here and '{}' in the field before."
    " Each field keeps its classes."
)

CONTRAST = ("contrast_limits_range", "contrast_limits", "colormap", "gamma")
"""What channels keep, too."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is to be shown next, ready to become layers.

    Attributes
    ----------
    layers
        By slot, in the order of the layers.
    messages
        For the user: what had to be left out.
    groups
        How many there are, with those of which nothing is shown here.
    coarser
        For the user: why images are shown at a lower resolution than they have.
    """

    layers: dict[Slot, LayerData] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    groups: int = 1
    coarser: tuple[str, ...] = ()

    @property
    def images(self) -> set[str]:
        """Addresses of the images that are shown."""
        origins = [
            data[1]["metadata"].get(KEY)
            for slot, data in self.layers.items()
            if slot[1] == "image"
        ]
        return {str(one.node) for one in origins if isinstance(one, LayerOrigin)}


def prepare(groups: Sequence[Group | None], *, estimate: bool) -> Prepared:
    """Prepare groups, each shown over the one before; None where nothing is."""
    layers: dict[Slot, LayerData] = {}
    messages: list[str] = []
    coarser: list[str] = []
    for number, group in enumerate(groups):
        if group is None:
            continue
        if group.image is not None:
            coarser += missing_levels(group.image)
        images, labels, left = layers_of(group, estimate=estimate)
        messages += left
        for data in images:
            layers[(number, "image", data[1]["metadata"][KEY].channel or 0)] = data
        for data in labels:
            layers[(number, "labels", data[1]["name"])] = data
    return Prepared(layers, tuple(messages), len(groups), tuple(coarser))


def missing_levels(image: Picture) -> list[str]:
    """Tell why levels finer than all that are shown cannot be read."""
    stated = image.node.metadata.image
    if stated is None or is_joined(image):
        return []
    shown = {level.path for level in image.pyramid.multiscale.levels}
    finest = stated.multiscales[0].levels[0].path
    if finest in shown:
        return []
    where = f"{image.node.location.key(finest)}:"
    return [p.text for p in image.pyramid.problems if p.where == where]


class LayerSlots:
    """The layers of one browser by slot."""

    def __init__(self) -> None:
        self._layers: dict[Slot, Layer] = {}
        self._looks: dict[Slot, dict[str, Any]] = {}
        self._names: dict[Slot, str] = {}
        self._in_use: dict[Slot, LabelsInUse] = {}
        self._visible: dict[tuple[Slot, bool], bool] = {}  # also by "is an overview"
        self._reported: set[str] = set()
        self._lacking: dict[Slot, bool] = {}  # channels not there: whether visible else

    def layers(self, viewer: ViewerModel) -> dict[Slot, Layer]:
        """Give those that the user has not removed."""
        there = set(viewer.layers)
        for slot, layer in list(self._layers.items()):
            if layer not in there:
                del self._layers[slot]
                self._in_use.pop(slot, None)
        return dict(self._layers)

    def labels_in_use(self, viewer: ViewerModel) -> dict[Slot, LabelsInUse]:
        """Note which labels go along to the next field, and how they are painted.

        Those of the last field on screen, while it is a mosaic.
        """
        layers = self.layers(viewer)
        for slot, layer in layers.items():
            if slot[1] != "labels":
                continue
            name = label_name(layer) or slot[2]
            renamed_slot = (*slot[:2], name)
            if (
                renamed_slot != slot and renamed_slot not in layers
            ):  # renamed before the first save
                self._layers[renamed_slot] = self._layers.pop(slot)
                self._names[renamed_slot] = layer.name
                self._in_use.pop(slot, None)
                slot = renamed_slot
            images = (x for s, x in layers.items() if s[:2] == (slot[0], "image"))
            image = next(images, None)
            in_use = labels_in_use(viewer, layer, image, _look(layer))
            if in_use is not None:
                self._in_use[slot] = in_use
            elif getattr(layer, "editable", False):
                self._in_use.pop(slot, None)
        return dict(self._in_use)

    def take(self, slot: Slot, layer: Layer) -> None:
        """Count a layer as one of ours."""
        self._layers[slot], self._names[slot] = layer, layer.name

    def take_channel(self, viewer: ViewerModel, layer: Layer) -> bool:
        """Count a further channel of an image that is shown as one of ours."""
        origin = layer.metadata.get(KEY)
        if not isinstance(origin, LayerOrigin) or origin.picture is None:
            return False
        for (group, kind, _), other in self.layers(viewer).items():
            one = other.metadata.get(KEY)
            same = isinstance(one, LayerOrigin) and one.picture is origin.picture
            if same and kind == "image" and other is not layer:
                self.take((group, "image", origin.channel or 0), layer)
                return True
        return False

    def added_channels(self, viewer: ViewerModel) -> frozenset[Slot]:
        """Tell which channels are shown beyond the first, which every image shows."""
        return frozenset(
            slot
            for slot in self.layers(viewer)
            if slot[1] == "image" and int(slot[2]) >= MOST_CHANNELS
        )

    def show(self, viewer: ViewerModel, prepared: Prepared) -> Iterator[None]:
        """Show something else, a step at a time, each short.

        The layers stay the same, unless the number of axes changes, or labels are
        being saved: then new ones take their places and looks. Channels that are
        missing now become empty; labels that are missing go, and so do groups.
        """
        painted = [x for x in self.layers(viewer).values() if is_painted(x)]
        for layer in painted:
            layer.is_exchanging = True
        try:
            yield from self._exchange(viewer, prepared)
        finally:
            for layer in painted:
                layer.is_exchanging = False

    def _exchange(self, viewer: ViewerModel, prepared: Prepared) -> Iterator[None]:
        here, wanted = self.layers(viewer), prepared.layers
        blank = [slot for slot in here if slot[1] == "image" and slot not in wanted]
        template = next((d for s, d in wanted.items() if s[1] == "image"), None)
        was_active = viewer.layers.selection.active in here.values()
        for slot in here:
            if slot[1] == "labels" and slot not in wanted:
                self._looks[slot] = _look(here[slot])
                self._keep_visibility(slot, here[slot])
                viewer.layers.remove(here[slot])
                del self._layers[slot]
                yield
        for slot in blank:
            gone = slot[0] >= prepared.groups
            if gone or (template and not swap(here[slot], _emptied(template))):
                viewer.layers.remove(here[slot])
                del self._layers[slot]
            elif slot not in self._lacking:
                self._lacking[slot] = bool(here[slot].visible)
                here[slot].visible = False
            yield
        for slot, data in wanted.items():
            self._show_one(viewer, slot, here.get(slot), data)
            if slot in self._in_use:
                self._go_on_painting(viewer, slot, was_active)
            yield
        if was_active and not viewer.layers.selection:
            # The labels in hand are gone; the next ones below take their place.
            ours = set(self.layers(viewer).values())
            below = [layer for layer in viewer.layers if layer in ours]
            viewer.layers.selection.active = below[-1] if below else None

    def _show_one(
        self, viewer: ViewerModel, slot: Slot, old: Layer | None, data: LayerData
    ) -> None:
        if old is not None and slot[1] == "image":
            self._rename(slot, old, data)
        visible = self._visibility(slot, old, data) if slot[1] == "labels" else None
        if old is None or not swap(old, data):
            self.take(slot, self._replace(viewer, slot, old, data))
        elif slot[1] == "labels":
            frontend.welcome(viewer, old)
        if slot in self._lacking:
            visible = self._lacking.pop(slot)
        if visible is not None:
            self._layers[slot].visible = visible

    def _visibility(
        self, slot: Slot, old: Layer | None, data: LayerData
    ) -> bool | None:
        """Decide whether labels are visible; None to leave that as it is.

        Labels hide the images of an overview, not of a field: so each of the two keeps
        what the user chose there.
        """
        after = is_overview(data[1]["metadata"])
        if old is not None:
            if is_overview(old.metadata) == after:
                return None
            self._keep_visibility(slot, old)
        return self._visible.pop((slot, after), bool(data[1].get("visible", True)))

    def _keep_visibility(self, slot: Slot, labels: Layer) -> None:
        self._visible[slot, is_overview(labels.metadata)] = bool(labels.visible)

    def _go_on_painting(
        self, viewer: ViewerModel, slot: Slot, was_active: bool
    ) -> None:
        """Give labels of the next field the classes and tools of those before."""
        layer, labels = self._layers[slot], self._in_use[slot]
        if not isinstance(layer, OMEZarrLabels) or not layer.editable:
            return
        classes = classes_of_layer(layer)
        own = classes.items
        if labels.classes:
            classes.keep(labels.classes)
        layer.visible = labels.look.get("visible", True)
        if labels.is_active and was_active:
            viewer.layers.selection.active = layer
        _dress(layer, labels.look)
        _select_same_class(classes, labels)
        self._report_other_classes(own, labels.classes)

    def _report_other_classes(
        self, own: Sequence[LabelClass], in_use: Sequence[LabelClass]
    ) -> None:
        """Show, once, that a label means another class than in the field before."""
        before = {one.value: one.name for one in in_use}
        for one in own:
            name = before.get(one.value, one.name)
            text = OTHER_CLASSES.format(one.value, one.name, name)
            if name != one.name and text not in self._reported:
                self._reported.add(text)
                show_warning(text)
                return

    def _rename(self, slot: Slot, layer: Layer, data: LayerData) -> None:
        """Call a layer by what it shows next, if its name tells of what it showed."""
        name = data[1].get("name")
        if name and layer.name == self._names.get(slot) != name:
            layer.name = name
            self._names[slot] = layer.name

    def _replace(
        self, viewer: ViewerModel, slot: Slot, old: Layer | None, data: LayerData
    ) -> Layer:
        levels, keywords, kind = data
        levels = levels if isinstance(levels, list) else [levels]
        keywords = {**keywords, "multiscale": True}
        look = _look(old) if old is not None else self._looks.pop(slot, {})
        made: dict[str, Any] = {
            k: look[k] for k in ("name", "visible", "opacity", "blending") if k in look
        }
        new = as_layer((levels, {**keywords, **made}, kind))
        selected = old is not None and old in viewer.layers.selection
        if old is None:
            viewer.layers.insert(self._position(viewer, slot), new)
        else:
            index = viewer.layers.index(old)
            viewer.layers.remove(old)
            viewer.layers.insert(index, new)
        _dress(new, look)
        if not selected and old is not None:
            viewer.layers.selection.discard(new)
        elif selected:
            viewer.layers.selection.active = new
        return new

    def _position(self, viewer: ViewerModel, slot: Slot) -> int:
        """Find where a new layer belongs: over what comes before it."""
        ours = [viewer.layers.index(x) for x in self.layers(viewer).values()]
        return max(ours) + 1 if ours else len(viewer.layers)


def is_painted(layer: Layer) -> TypeGuard[OMEZarrLabels]:
    """Tell whether a layer has labels that can be painted."""
    return isinstance(layer, OMEZarrLabels)


def is_overview(metadata: Mapping[str, Any]) -> bool:
    """Tell whether a layer with these metadata shows many fields as one image."""
    origin = metadata.get(KEY)
    image = origin.picture if isinstance(origin, LayerOrigin) else None
    return image is not None and is_joined(image)


def _emptied(data: LayerData) -> LayerData:
    """Make the layer of a channel that is not there, like that of one that is."""
    levels, keywords, kind = data
    levels = levels if isinstance(levels, list) else [levels]
    blanks = [
        LazyArray.of(
            ArrayWindow.whole(BlankArray(level.shape, level.chunksize, level.dtype))
        )
        for level in levels
    ]
    origin = keywords["metadata"][KEY]
    metadata = {KEY: LayerOrigin(origin.node)}
    return blanks, {**keywords, "metadata": metadata}, kind


def _look(layer: Layer) -> dict[str, Any]:
    names = LOOK + CONTRAST * (layer._type_string == "image")
    return {name: getattr(layer, name) for name in names if hasattr(layer, name)}


def _select_same_class(classes: Classes, labels: LabelsInUse) -> None:
    """Paint with the class that was in hand, whose label may be another one here."""
    value = labels.look.get("selected_label")
    names = {one.name for one in labels.classes if one.value == value}
    same = [one.value for one in classes.items if one.name in names]
    if same and value not in same:
        classes.select(same[0])


def _dress(layer: Layer, look: dict[str, Any]) -> None:
    """Give labels the tools that were in hand before, and channels their contrast."""
    for name in (*LOOK[4:], *CONTRAST):
        if name not in look or getattr(layer, name, None) == look[name]:
            continue
        if name == "mode" and not layer.editable:
            continue
        setattr(layer, name, look[name])


def with_channels(prepared: Prepared, added: Iterable[Slot]) -> Prepared:
    """Add channels beyond the first where an image has them; reads nothing."""
    layers = dict(prepared.layers)
    for slot in added:
        image = next((d for s, d in layers.items() if s[:2] == slot[:2]), None)
        origin = None if image is None else image[1]["metadata"][KEY]
        if slot in layers or origin is None or origin.picture is None:
            continue
        for data in image_layers(origin.picture, shown=[int(slot[2])]):
            layers[slot] = data
    return replace(prepared, layers=layers)


def with_labels_in_use(
    prepared: Prepared, in_use: Mapping[Slot, LabelsInUse]
) -> Prepared:
    """Add empty labels of the same names where the next field has none of them.

    Reads metadata of the field; nothing is written before somebody paints.
    """
    layers, messages = dict(prepared.layers), prepared.messages
    for slot, labels in in_use.items():
        group = slot[0]
        image = next((d for s, d in layers.items() if s[:2] == (group, "image")), None)
        if slot in layers or image is None:
            continue
        try:
            layers[slot] = label_data(image, labels.choices)
        except (OMEZarrError, OSError, ValueError) as error:
            reason = f"No labels '{labels.choices.name}' in this field. {error}"
            messages = (*messages, reason)
    return replace(prepared, layers=layers, messages=messages)
