"""The layers that a browser shows: they stay, while what they show is exchanged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from napari_ngff.labels.blank import Blank
from napari_ngff.store.lazy import LazyArray, Window
from napari_ngff.viewer import frontend
from napari_ngff.viewer.browsing.swap import swap
from napari_ngff.viewer.layers import layers_of
from napari_ngff.viewer.painting.painted import as_layer
from napari_ngff.viewer.picture import KEY, LayerOrigin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.viewer.groups import Group
    from napari_ngff.viewer.picture import LayerData

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
    """

    layers: dict[Slot, LayerData] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    groups: int = 1


def prepare(groups: Sequence[Group | None], *, estimate: bool) -> Prepared:
    """Prepare groups, each shown over the one before; None where nothing is."""
    layers: dict[Slot, LayerData] = {}
    messages: list[str] = []
    for number, group in enumerate(groups):
        if group is None:
            continue
        images, labels, left = layers_of(group, estimate=estimate)
        messages += left
        for data in images:
            layers[(number, "image", data[1]["metadata"][KEY].channel or 0)] = data
        for data in labels:
            layers[(number, "labels", data[1]["name"])] = data
    return Prepared(layers, tuple(messages), len(groups))


class LayerSlots:
    """The layers of one browser by slot."""

    def __init__(self) -> None:
        self._layers: dict[Slot, Layer] = {}
        self._looks: dict[Slot, dict[str, Any]] = {}
        self._names: dict[Slot, str] = {}

    def layers(self, viewer: ViewerModel) -> dict[Slot, Layer]:
        """Give those that the user has not removed."""
        there = set(viewer.layers)
        for slot, layer in list(self._layers.items()):
            if layer not in there:
                del self._layers[slot]
        return dict(self._layers)

    def take(self, slot: Slot, layer: Layer) -> None:
        """Count a layer as one of ours."""
        self._layers[slot], self._names[slot] = layer, layer.name

    def show(self, viewer: ViewerModel, prepared: Prepared) -> Iterator[None]:
        """Show something else, a step at a time, each short.

        The layers stay the same, unless the number of axes changes, or labels are
        being saved: then new ones take their places and looks. Channels that are
        missing now become empty; labels that are missing go, and so do groups.
        """
        here, wanted = self.layers(viewer), prepared.layers
        blank = [slot for slot in here if slot[1] == "image" and slot not in wanted]
        template = next((d for s, d in wanted.items() if s[1] == "image"), None)
        was_active = viewer.layers.selection.active in here.values()
        for slot in here:
            if slot[1] == "labels" and slot not in wanted:
                self._looks[slot] = _look(here[slot])
                viewer.layers.remove(here[slot])
                del self._layers[slot]
                yield
        for slot in blank:
            gone = slot[0] >= prepared.groups
            if gone or (template and not swap(here[slot], _emptied(template))):
                viewer.layers.remove(here[slot])
                del self._layers[slot]
            yield
        for slot, data in wanted.items():
            old = here.get(slot)
            if old is not None and slot[1] == "image":
                self._rename(slot, old, data)
            if old is None or not swap(old, data):
                self.take(slot, self._replace(viewer, slot, old, data))
            elif slot[1] == "labels":
                frontend.welcome(viewer, old)
            yield
        if was_active and not viewer.layers.selection:
            # The labels in hand are gone; the next ones below take their place.
            ours = set(self.layers(viewer).values())
            below = [layer for layer in viewer.layers if layer in ours]
            viewer.layers.selection.active = below[-1] if below else None

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


def _emptied(data: LayerData) -> LayerData:
    """Make the layer of a channel that is not there, like that of one that is."""
    levels, keywords, kind = data
    levels = levels if isinstance(levels, list) else [levels]
    blanks = [
        LazyArray.of(Window.whole(Blank(level.shape, level.chunksize, level.dtype)))
        for level in levels
    ]
    origin = keywords["metadata"][KEY]
    metadata = {KEY: LayerOrigin(origin.node)}
    return blanks, {**keywords, "metadata": metadata}, kind


def _look(layer: Layer) -> dict[str, Any]:
    names = LOOK + CONTRAST * (layer._type_string == "image")
    return {name: getattr(layer, name) for name in names if hasattr(layer, name)}


def _dress(layer: Layer, look: dict[str, Any]) -> None:
    """Give labels the tools that were in hand before, and channels their contrast."""
    for name in (*LOOK[4:], *CONTRAST):
        if name not in look or getattr(layer, name, None) == look[name]:
            continue
        if name == "mode" and not layer.editable:
            continue
        setattr(layer, name, look[name])
