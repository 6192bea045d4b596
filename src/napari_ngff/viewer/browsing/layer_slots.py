"""The layers of a browser, which stay while fields are exchanged in them."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_warning

from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.viewer.browsing.field_labels import (
    LabelsInUse,
    label_name,
    labels_in_use,
)
from napari_ngff.viewer.browsing.layer_swap import (
    COVERING,
    apply_look,
    find_labels_left,
    is_overview,
    look_of,
    make_empty_channel,
    put_away_tools,
    select_same_class,
    swap_layer,
    tell_other_classes,
)
from napari_ngff.viewer.browsing.shown_fields import Slot, renumber_slots
from napari_ngff.viewer.layers.image_layers import MOST_CHANNELS
from napari_ngff.viewer.layers.label_owners import are_of_others
from napari_ngff.viewer.painting.brush import PAINTING
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.plans.layer_plan import (
    KEY,
    LayerData,
    LayerPlan,
    layer_kind,
    levels_in,
    origin_of,
    picture_of,
)
from napari_ngff.viewer.services.notices import shorten_name
from napari_ngff.viewer.services.window import (
    Window,
    call_all,
    going_on,
    report_unexpected,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.labels.used_labels import StoredLabels
    from napari_ngff.plate.well_cells import WellCells
    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.browsing.preparation import PreparedFields
    from napari_ngff.viewer.layers.layer_groups import LayerGroup


OF_OTHERS = (
    "Not selected: '{}'.\nAnother program made the labels of this name in this field."
    " To change them, select their layer and choose a tool."
)

OTHER_KIND = "The tool is put away.\n'{}' are {} in this field, not in the one before."


class LayerSlots:
    """The layers of one browser by slot."""

    def __init__(self) -> None:
        self._layers: dict[Slot, Layer] = {}
        # Of labels that are gone, for the next field that has labels of this name.
        self._looks: dict[Slot, dict[str, Any]] = {}
        # As this class set them: another name was given by the user.
        self._names: dict[Slot, str] = {}
        self._in_use: dict[Slot, LabelsInUse] = {}
        # Labels that are of another kind than those in use: passed over.
        self._unlike: set[Slot] = set()
        # Names of labels of others on which the user has worked, or taken a tool.
        self._chosen: set[str | None] = set()
        # Name of those selected in the field before; None where another layer was.
        self.labels_left: str | None = None
        self._left_others = False  # those are of another program
        self._stands_in = False  # an image was selected in place of these labels
        self._visible: dict[tuple[Slot, bool], bool] = {}  # also by "is an overview"
        self._groups: tuple[Position, ...] = ()
        self._order: tuple[Slot, ...] = ()  # of what is shown, from the lowest layer
        self._is_other_lead = False  # of the acquisition of the field asked for
        self._reported: set[str] = set()
        self._has_selected = False  # own labels of a field
        self._lacking: dict[Slot, bool] = {}  # channels not there: whether visible else
        # Layers that a reader will add, by the identity of their picture; it is kept,
        # so that no other picture can get that identity.
        self._expected: dict[int, tuple[LayerPlan, int, str]] = {}

    def current_layers(self, viewer: ViewerModel) -> dict[Slot, Layer]:
        """Return the layers that the user has not removed."""
        there = set(viewer.layers)
        for slot, layer in list(self._layers.items()):
            if layer not in there:
                del self._layers[slot]
                self._in_use.pop(slot, None)
        return dict(self._layers)

    def expect_layers(self, groups: Sequence[LayerGroup]) -> list[WellCells]:
        """Expect the layers of groups; return the wells of those that are mosaics."""
        joined = []
        for number, group in enumerate(groups):
            for picture in (group.image, *group.labels):
                if picture is None:
                    continue
                kind = "image" if picture is group.image else "labels"
                self._expected[id(picture)] = picture, number, kind
                level = picture.pyramid.levels[0]
                if isinstance(level, MosaicLevel):
                    joined.append(level.tiles)
        return joined

    def expected_slot(self, layer: Layer) -> Slot | None:
        """Return the slot of an expected layer; None for any other layer."""
        origin = origin_of(layer)
        picture = origin.picture if origin is not None else None
        expected = self._expected.get(id(picture))
        if expected is None or origin is None or picture is None:
            return None
        _, number, kind = expected
        return number, kind, picture.name if kind == "labels" else origin.channel or 0

    def labels_in_use(self, viewer: ViewerModel) -> dict[Slot, LabelsInUse]:
        """Return the labels to continue with in the next field, with their tools.

        In a mosaic: those of the last field.
        """
        layers = self.current_layers(viewer)
        for slot, layer in layers.items():
            if slot[1] != "labels":
                continue
            if slot in self._unlike and slot in self._in_use:
                active = viewer.layers.selection.active is layer
                self._in_use[slot] = replace(self._in_use[slot], is_active=active)
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
            in_use = labels_in_use(viewer, layer, image, look_of(layer))
            if in_use is not None:
                self._in_use[slot] = in_use
                if are_of_others(layer):
                    self._chosen.add(label_name(layer))
            elif getattr(layer, "editable", False) and not self._is_put_away(layer):
                self._in_use.pop(slot, None)
        return dict(self._in_use)

    def _is_put_away(self, layer: Layer) -> bool:
        """Return whether labels are of others, and the user does not work on them."""
        return are_of_others(layer) and label_name(layer) not in self._chosen

    def position_of(self, layer: Layer) -> Position | None:
        """Return the image that a layer shows or belongs to; None for an overview."""
        slots = [slot for slot, other in self._layers.items() if other is layer]
        numbers = [slot[0] for slot in slots if slot[0] < len(self._groups)]
        position = self._groups[numbers[0]] if numbers else None
        return position if position is not None and position.field else None

    def follow_acquisitions(self, groups: Sequence[Position]) -> None:
        """Let layers stay those of their acquisition; see `renumber_slots`."""
        renumbered = renumber_slots(self._layers.keys(), self._groups, groups)
        leads = [each[0].acquisition for each in (self._groups, groups) if each]
        self._is_other_lead = len(set(leads)) > 1
        self._groups = tuple(groups)
        kept: list[dict[Slot, Any]]
        kept = [self._layers, self._names, self._in_use, self._lacking]
        for slots in kept:
            items = [(renumbered.get(s, s), value) for s, value in slots.items()]
            slots.clear()
            slots.update(items)

    def take_layer(self, slot: Slot, layer: Layer, chosen: str | None = None) -> None:
        """Take a layer into a slot; if a name is chosen, show those labels alone."""
        self._layers[slot], self._names[slot] = layer, layer.name
        if chosen is not None and slot[1] == "labels":
            layer.visible = slot[2] == chosen

    def take_channel(self, viewer: ViewerModel, layer: Layer) -> bool:
        """Take a layer of a further channel of an image on screen, if it is one."""
        picture = picture_of(layer)
        if picture is None:
            return False
        for (group, kind, _), other in self.current_layers(viewer).items():
            same = kind == "image" and picture_of(other) is picture
            if same and other is not layer:
                channel = layer.metadata[KEY].channel or 0
                self.take_layer((group, "image", channel), layer)
                return True
        return False

    def added_channels(self, viewer: ViewerModel) -> frozenset[Slot]:
        """Return the channels that the user has added to the first ones."""
        return frozenset(
            slot
            for slot in self.current_layers(viewer)
            if slot[1] == "image" and int(slot[2]) >= MOST_CHANNELS
        )

    @contextmanager
    def kept_on_error(self) -> Iterator[None]:
        """Do something after whose failure the slots are as before; it is raised."""
        before = {name: copy(value) for name, value in vars(self).items()}
        try:
            yield
        except BaseException:
            vars(self).update(before)
            raise

    def show_prepared(
        self, viewer: ViewerModel, prepared: PreparedFields
    ) -> Iterator[None]:
        """Let the layers show prepared fields, in the short steps that are returned.

        The layers stay the same, unless the number of axes changes, or labels are
        being saved: then new layers replace them and get their look. Channels that the
        next field lacks become empty; its missing labels and groups are removed.

        Whatever fails in these steps is shown, and none of the layers shows the field
        before when they end.
        """
        current = self.current_layers(viewer)
        others = {slot for slot, layer in current.items() if are_of_others(layer)}
        active = viewer.layers.selection.active
        was_active = active in current.values()
        self._stands_in &= active is not None and layer_kind(active) == "image"
        if not self._stands_in:
            self.labels_left = label_name(active)
            self._left_others = active is not None and are_of_others(active)
        return self._hold_strokes(
            [x for x in current.values() if isinstance(x, OMEZarrLabels)],
            self._exchange_layers(viewer, prepared, current, was_active),
            partial(self._choose_layers, viewer, others, was_active),
        )

    def _hold_strokes(
        self,
        painted: Sequence[OMEZarrLabels],
        steps: Iterator[None],
        finish: Callable[[], None],
    ) -> Iterator[None]:
        """Exchange the layers; a stroke meanwhile would land in half of a field."""
        self._expected.clear()
        for layer in painted:
            layer.is_exchanging = True
        try:
            yield from steps
            with going_on():
                finish()
        finally:
            for layer in painted:
                layer.is_exchanging = False

    def _exchange_layers(
        self,
        viewer: ViewerModel,
        prepared: PreparedFields,
        current: Mapping[Slot, Layer],
        was_active: bool,
    ) -> Iterator[None]:
        wanted = prepared.layers
        self._order = tuple(wanted)
        template = next((d for s, d in wanted.items() if s[1] == "image"), None)
        for slot in current:
            if slot in wanted:
                continue
            # Labels of the next field may have other names, so these layers go; also a
            # group that it does not have, as one of several acquisitions.
            empty = slot[1] == "image" and slot[0] < len(prepared.groups)
            leave = self._empty_channel if empty else self._leave_layer
            self._show_or_remove(viewer, slot, partial(leave, viewer, slot, template))
            yield
        for slot, data in wanted.items():
            layer = current.get(slot)
            with going_on():
                saver = layer.saver if isinstance(layer, OMEZarrLabels) else None
                goes_on = slot in self._in_use and not is_overview(data[1]["metadata"])
                # The journal of new labels without a stroke: their classes go along.
                if goes_on and saver is not None and saver.is_unpainted:
                    saver.wanted = False
            show = partial(self._show_one, viewer, slot)
            if not self._show_or_remove(viewer, slot, partial(show, layer, data)):
                self._show_or_remove(viewer, slot, partial(show, None, data))
            if slot in self._in_use and slot in self._layers:
                with going_on():
                    self._go_on_painting(viewer, slot, was_active, prepared.stored)
            yield
        for layer in current.values():
            # One that could not be removed, or that a new one replaces.
            if layer not in self._layers.values() and layer in viewer.layers:
                with going_on():
                    viewer.layers.remove(layer)

    def _choose_layers(
        self, viewer: ViewerModel, others: Collection[Slot], was_active: bool
    ) -> None:
        """Choose the selected layer, and tools, among those of a field."""
        in_use = self._in_use.items() if was_active else ()
        kept = {slot for slot, labels in in_use if labels.is_active}
        call_all(
            partial(put_away_tools, self._layers, kept),
            partial(self._put_away_others, viewer, others),
            partial(self._select_first_labels, viewer),
            partial(self._uncover_leading_image, viewer),
            partial(self._select_leading_image, viewer),
        )
        if was_active and not viewer.layers.selection:
            # The selected labels were removed: the first channel, as on opening.
            ours = set(self.current_layers(viewer).values())
            left = (layer for layer in viewer.layers if layer in ours)
            viewer.layers.selection.active = next(left, None)
            self._stands_in = self.labels_left is not None
        elif self._stands_in:
            layers = self.current_layers(viewer).values()
            again = find_labels_left(layers, self.labels_left, self._left_others)
            if again is not None:
                viewer.layers.selection.active, self._stands_in = again, False

    def _show_or_remove(
        self, viewer: ViewerModel, slot: Slot, show: Callable[[], bool]
    ) -> bool:
        """Let the layer of a slot show the next field; where that fails, remove it."""
        try:
            if show():
                return True
        except Exception as error:  # noqa: BLE001  of napari, of others, or of ours
            report_unexpected(error)
        layer = self._layers.pop(slot, None)
        if layer in viewer.layers:
            with going_on():
                viewer.layers.remove(layer)
        return False

    def _leave_layer(self, viewer: ViewerModel, slot: Slot, _: Any) -> bool:
        """Prepare the removal of a layer, for which False stands."""
        layer = self._layers[slot]
        if slot[1] == "labels":
            self._looks[slot] = look_of(layer)
            self._keep_visibility(slot, layer)
            saver = layer.saver if isinstance(layer, OMEZarrLabels) else None
            # What was saved can be undone after a return.
            if saver is not None and not saver.running:
                saver.leave_field()
        return False

    def _empty_channel(
        self, viewer: ViewerModel, slot: Slot, template: LayerData | None
    ) -> bool:
        """Empty a channel that the next field lacks; False where that is impossible."""
        layer = self._layers[slot]
        if template and not swap_layer(layer, make_empty_channel(template)):
            return False
        # An empty channel keeps its contrast and colour for fields that have it.
        if slot not in self._lacking:
            self._lacking[slot] = bool(layer.visible)
            # A compared field may have this channel: it stays visible there.
            viewer.layers.unlink_layers([layer], ("visible",))
            layer.visible = False
        return True

    def _put_away_others(self, viewer: ViewerModel, before: Collection[Slot]) -> None:
        """Take the tool off labels of others, unless the user took it up for them.

        Own labels of the same name may have been there. Labels that are still those of
        others, as `before`, stay selected.
        """
        layers = self.current_layers(viewer)
        for slot, layer in layers.items():
            if not self._is_put_away(layer):
                continue
            if isinstance(layer, OMEZarrLabels) and layer.mode in PAINTING:
                layer.mode = "pan_zoom"
            if slot not in before and viewer.layers.selection.active is layer:
                images = (x for s, x in layers.items() if s[:2] == (0, "image"))
                viewer.layers.selection.active = next(images, None)
                self._stands_in = True
                self._report_once(OF_OTHERS.format(shorten_name(layer.name)))

    def _select_first_labels(self, viewer: ViewerModel) -> None:
        """Select the visible own labels of a field, the first time that there are any.

        Opening a plate selects its first channel, since labels are hidden there. What
        the user has selected instead stays.
        """
        layers = self.current_layers(viewer).values()
        # Of labels in use, the user has selected the layer, or another one instead.
        is_chosen = self._has_selected or self._in_use
        if is_chosen or any(is_overview(x.metadata) for x in layers):
            return
        labels = [x for x in layers if isinstance(x, OMEZarrLabels) and x.visible]
        labels = [x for x in labels if not are_of_others(x)]
        channels = (x for x in layers if layer_kind(x) == "image")
        if labels and viewer.layers.selection.active is next(channels, None):
            viewer.layers.selection.active = labels[-1]
        self._has_selected = bool(labels)

    def _uncover_leading_image(self, viewer: ViewerModel) -> None:
        """Let no image cover that of the field asked for, where it did not lead before.

        An image that led keeps its look otherwise, and may lie above.
        """
        for slot, layer in self.current_layers(viewer).items():
            beside = self._is_other_lead and slot[1] == "image" and slot[0] > 0
            if beside and layer.blending in COVERING:
                layer.blending = "additive"

    def _select_leading_image(self, viewer: ViewerModel) -> None:
        """Select the image of the field asked for, in place of one beside it.

        Only if that field is of another acquisition than the one before: a layer that
        the user selects stays selected while fields are stepped through.
        """
        if not self._is_other_lead:
            return
        layers = self.current_layers(viewer)
        active = viewer.layers.selection.active
        slot = next((slot for slot, layer in layers.items() if layer is active), None)
        if slot is None or slot[1] != "image" or not slot[0]:
            return
        leading = [x for s, x in layers.items() if s[:2] == (0, "image")]
        if leading:
            viewer.layers.selection.active = layers.get((0, *slot[1:]), leading[0])

    def _show_one(
        self, viewer: ViewerModel, slot: Slot, old: Layer | None, data: LayerData
    ) -> bool:
        if old is not None and slot[1] == "image":
            self._rename_layer(slot, old, data)
        visible = (
            self._decide_visibility(slot, old, data) if slot[1] == "labels" else None
        )
        # A layer whose number of axes changes cannot be kept.
        if old is None or not swap_layer(old, data):
            self.take_layer(slot, self._replace_layer(viewer, slot, old, data))
        elif slot[1] == "labels":
            # The layer has another saver now, which a window has to follow.
            Window.current.watch_labels(viewer, old)
        if slot in self._lacking:
            visible = self._lacking.pop(slot)
        if visible is not None:
            self._layers[slot].visible = visible
        return True

    def _decide_visibility(
        self, slot: Slot, old: Layer | None, data: LayerData
    ) -> bool | None:
        """Decide whether labels are visible; None for no change.

        Labels hide the images of an overview, but not those of a field: so overviews
        and fields each keep their own choice of the user.
        """
        after = is_overview(data[1]["metadata"])
        if old is not None:
            if is_overview(old.metadata) == after:
                return None
            self._keep_visibility(slot, old)
        return self._visible.pop((slot, after), bool(data[1].get("visible", True)))

    def find_overview_labels(self, *, visible: bool) -> list[str]:
        """List the names of visible, or of hidden, labels on an overview."""
        return [
            str(name)
            for (_, kind, name), layer in self._layers.items()
            if kind == "labels"
            and layer.visible is visible
            and is_overview(layer.metadata)
        ]

    def reveal_labels(self, name: str | None) -> None:
        """Let an overview show these labels alone, since the user has chosen them."""
        if name is not None:
            for number in range(len(self._groups) or 1):
                self._visible[(number, "labels", name), True] = True
        for slot, layer in self._layers.items():
            if slot[1] == "labels" and is_overview(layer.metadata):
                layer.visible = slot[2] == name

    def _keep_visibility(self, slot: Slot, labels: Layer) -> None:
        self._visible[slot, is_overview(labels.metadata)] = bool(labels.visible)

    def _go_on_painting(
        self,
        viewer: ViewerModel,
        slot: Slot,
        was_active: bool,
        stored: Mapping[Slot, StoredLabels | None],
    ) -> None:
        """Give labels of the next field the classes and tools of those before."""
        layer, labels = self._layers[slot], self._in_use[slot]
        if not isinstance(layer, OMEZarrLabels) or not layer.editable:
            return
        layer.canvas.used.stored = stored.get(slot)
        classes = classes_of_layer(layer)
        # Before those of the other field are added.
        field_classes = classes.items
        if labels.classes:
            classes.keep_classes(labels.classes, unsaved=labels.has_unsaved_classes)
        self._unlike.discard(slot)
        if classes.kind is not labels.choices.kind:
            self._unlike.add(slot)
            # The label in hand means something else here: no stroke may have it.
            away = {"mode": "pan_zoom", "selected_label": layer.next_label()}
            look = {**labels.look, **away, "only_over": None}
            labels = replace(labels, classes=(), look=look)
            self._report_once(OTHER_KIND.format(layer.name, classes.kind))
        layer.visible = labels.look.get("visible", True)
        if labels.is_active and was_active:
            viewer.layers.selection.active = layer
        apply_look(layer, labels.look)
        select_same_class(classes, labels)
        texts = tell_other_classes(field_classes, classes.items, labels.classes)
        any(self._report_once(text) for text in texts)

    def _report_once(self, text: str) -> bool:
        """Show a warning that was not shown before; return whether it was not."""
        is_new = text not in self._reported
        if is_new:
            self._reported.add(text)
            show_warning(text)
        return is_new

    def _rename_layer(self, slot: Slot, layer: Layer, data: LayerData) -> None:
        """Rename a layer for the next field, unless the user has renamed it."""
        name = data[1].get("name")
        if name and layer.name == self._names.get(slot) != name:
            layer.name = name
            self._names[slot] = layer.name

    def _replace_layer(
        self, viewer: ViewerModel, slot: Slot, old: Layer | None, data: LayerData
    ) -> Layer:
        _, keywords, kind = data
        # A layer of one level would take no field of several later.
        keywords = {**keywords, "multiscale": True}
        look = look_of(old) if old is not None else self._looks.pop(slot, {})
        made: dict[str, Any] = {
            k: look[k] for k in ("name", "visible", "opacity", "blending") if k in look
        }
        new = as_layer((levels_in(data), {**keywords, **made}, kind))
        selected = old is not None and old in viewer.layers.selection
        if old is None:
            active = viewer.layers.selection.active
            index = self._find_index(viewer, slot)
            self._layers[slot] = new  # to be removed where this fails
            viewer.layers.insert(index, new)
            # As another acquisition: the user goes on with the layer in hand.
            if active is not None or are_of_others(new):
                viewer.layers.selection.discard(new)
                viewer.layers.selection.active = active
        else:
            index = viewer.layers.index(old)
            viewer.layers.remove(old)
            self._layers[slot] = new
            viewer.layers.insert(index, new)
        apply_look(new, look)
        # napari selects a layer that is inserted.
        if not selected and old is not None:
            viewer.layers.selection.discard(new)
        elif selected:
            viewer.layers.selection.active = new
        return new

    def _find_index(self, viewer: ViewerModel, slot: Slot) -> int:
        """Return the index of a new layer: above those of the browser, below labels.

        Labels come below those that follow them in their image: after an overview of
        labels, these are there already.
        """
        layers = self.current_layers(viewer)
        indices: dict[Slot, int]
        indices = {each: viewer.layers.index(layer) for each, layer in layers.items()}
        is_labels = slot[1] == "labels"
        following = self._order[self._order.index(slot) + 1 :] if is_labels else ()
        above = [indices[x] for x in following if x[1] == "labels" and x in indices]
        if above:
            return min(above)
        ours = [n for each, n in indices.items() if is_labels or each[1] == "image"]
        return max(ours) + 1 if ours else len(viewer.layers)
