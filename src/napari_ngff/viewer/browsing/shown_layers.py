"""The layers of what a browser shows, and where wells and images lie on the canvas."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.viewer.browsing.camera import (
    MARGIN,
    OVERVIEW_MARGIN,
    CameraView,
    Corners,
    canvas_of,
    cells_of,
    corners_of,
    describe_end,
    fit_camera,
    follow_image,
    follow_point,
    image_at,
    is_whole,
)
from napari_ngff.viewer.browsing.field_labels import LabelsInUse, label_name
from napari_ngff.viewer.browsing.layer_slots import LayerSlots
from napari_ngff.viewer.browsing.preparation import LayerView, SeenLayers, views_of
from napari_ngff.viewer.layers.label_owners import are_of_others, image_address
from napari_ngff.viewer.plans.layer_plan import layer_kind
from napari_ngff.viewer.streaming.well_stream import reread_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari.layers import Layer

    from napari_ngff.metadata.model import WellField
    from napari_ngff.plate.well_cells import WellCells
    from napari_ngff.viewer.annotations.annotations import Annotations
    from napari_ngff.viewer.browsing.positions import Position
    from napari_ngff.viewer.browsing.shown_fields import (
        BrowsingState,
        ShownFields,
        Slot,
    )
    from napari_ngff.viewer.saving.layer_saver import LayerSaver
    from napari_ngff.viewer.saving.save_report import SaveResult


class ShownLayers:
    """The layers of the fields on screen, and those that belong to them.

    Parameters
    ----------
    annotations
        Of the viewer where the layers are.
    state
        Which fields are shown.
    follow_eye
        Called when labels were made visible, or hidden; a method.
    note_saved
        Called with the address of an image, the name of its labels, and whether another
        program made them, when they were saved.

    Attributes
    ----------
    annotations, viewer
        See above.
    slots
        The layers that stay while fields are exchanged in them.
    tiles
        The wells of an overview on screen, by acquisition and labels.
    are_away
        Whether another plate is on screen instead.
    """

    def __init__(
        self,
        annotations: Annotations,
        state: BrowsingState,
        follow_eye: Callable[[Any], None],
        note_saved: Callable[[str, str, bool], None],
    ) -> None:
        self.annotations, self.viewer = annotations, annotations.viewer
        self._state = state
        self._follow_eye, self._note_saved = follow_eye, note_saved
        self.slots = LayerSlots()
        self.tiles: tuple[WellCells, ...] = ()
        # Layers of the user, such as points or results of plugins, each with its field.
        # They exist only in memory, so none is removed.
        self._extras: weakref.WeakKeyDictionary[Layer, Position]
        self._extras = weakref.WeakKeyDictionary()
        self._hidden: weakref.WeakSet[Layer] = weakref.WeakSet()
        self._followed: weakref.WeakSet[LayerSaver] = weakref.WeakSet()
        # What is seen again when this plate is shown instead of another one.
        self._put_away: weakref.WeakSet[Layer] = weakref.WeakSet()
        self._selected: weakref.WeakSet[Layer] = weakref.WeakSet()
        self._camera: CameraView | None = None
        self.are_away = False

    def put_away(self, layers: Iterable[Layer] | None = None) -> None:
        """Hide layers until `bring_back`; by default all, and note the view."""
        if layers is None:
            layers, images = self.viewer.layers, self.image_layers()
            self._put_away.clear()
            self._selected.clear()
            self._selected.update(self.viewer.layers.selection)
            self._camera = (
                CameraView.note_view(self.viewer, images[0]) if images else None
            )
        for layer in layers:
            if layer.visible:
                self._put_away.add(layer)
                layer.visible = False

    def bring_back(self) -> None:
        """Show what was put away, as it was in view."""
        for layer in self.viewer.layers:
            layer.visible |= layer in self._put_away
        self.viewer.layers.selection = self._selected & {*self.viewer.layers}
        self.follow_layers()
        images = self.image_layers()
        if self._camera and images:
            self._camera.apply_to(self.viewer, images[0])
        else:
            self.fit_all()

    def by_slot(self) -> dict[Slot, Layer]:
        """Return the layers that the user has not removed."""
        return self.slots.current_layers(self.viewer)

    @property
    def are_replaced(self) -> bool:
        """Whether the user has removed all of them, and others are in the viewer."""
        return bool(self.viewer.layers) and not self.by_slot()

    def labels(self) -> list[Any]:
        """List the layers of labels."""
        return [layer for slot, layer in self.by_slot().items() if slot[1] == "labels"]

    def layers_to_leave(self) -> list[Any]:
        """List the labels, the field on screen, and what the user made on it."""
        shown = self._state.shown.position
        extras = [layer for layer, at in self._extras.items() if at == shown]
        return [*self.labels(), *self.field_layers(), *extras]

    def owns_layer(self, layer: Layer) -> bool:
        """Return whether a layer is one of the browser."""
        return layer in self.by_slot().values()

    def position_of(self, layer: Layer) -> Position | None:
        """Return the image that a layer shows or belongs to; None for an overview."""
        if self.owns_layer(layer):
            return self.slots.position_of(layer)
        return self._extras.get(layer)

    def image_layers(self) -> list[Layer]:
        """List the layers of channels that are shown."""
        layers = self.by_slot()
        slots = [slot for slot in layers if slot[1] == "image"]
        return [layers[slot] for slot in sorted(slots, key=lambda s: (s[0], int(s[2])))]

    def field_layers(self) -> list[Layer]:
        """List those of the field on screen; none of an overview."""
        return self.image_layers() if self._state.shown.position is not None else []

    def look_at_layers(
        self, settled: Position | None, hidden: tuple[str, ...]
    ) -> SeenLayers:
        """Note what is on screen, for a worker that prepares what comes next.

        Parameters
        ----------
        settled, hidden
            See `SeenLayers`.
        """
        viewer = self.viewer
        # It will be brought in view whole, unless one is in view already.
        canvas = canvas_of(viewer) if self._state.shown.position is None else None
        added, in_use = self.slots.added_channels(viewer), self.labels_in_use()
        return SeenLayers(self.views(), added, in_use, canvas, settled, hidden)

    def views(self) -> dict[Slot, LayerView]:
        """Note the part in view of each visible layer."""
        return views_of(self.viewer, self.by_slot())

    def labels_in_use(self) -> dict[Slot, LabelsInUse]:
        """Return the labels to continue with in the next field."""
        return self.slots.labels_in_use(self.viewer)

    def note_work(self) -> object:
        """Note how far the work on the field is, to find later whether it went on."""
        left = self.layers_to_leave()
        states = [x.state for x in self.annotations if x.goes_with(left)]
        return [(x.subject, x.version, x.unsaved, x.drawn) for x in states]

    def follow_layers(self) -> None:
        """Keep the layers of a field that is shown now, and show what lies on it."""
        ours, selection = self.by_slot().values(), self.viewer.layers.selection
        self.keep_layers(ours)
        left = selection.active
        self._show_extras()
        active = selection.active
        # Keys and tools act on the active layer, which must not be a hidden one, nor
        # labels that nobody selected: napari selects any in place of points that go.
        visible = [x for x in ours if x.visible and not are_of_others(x)]
        visible.sort(key=lambda layer: layer_kind(layer) != "image")
        if visible and (active is None or active is not left or not active.visible):
            selection.active = visible[0]

    def _show_extras(self) -> None:
        """Show the layers of the user on the field on screen, and hide all others.

        Those that have a file of their own go and come with their field.
        """
        self.annotations.follow_fields()
        viewer, shown = self.viewer, self._state.shown.position
        for layer, position in list(self._extras.items()):
            if layer not in viewer.layers:
                continue
            if position == shown and layer in self._hidden:
                layer.visible = True
                self._hidden.discard(layer)
            elif position != shown and layer.visible:
                layer.visible = False
                self._hidden.add(layer)
                viewer.layers.selection.discard(layer)

    def redraw_wells(self) -> None:
        """Draw the wells of an overview with what can be read now."""
        # Only these: remote fields have their own stream.
        for layer in self.by_slot().values() if self.tiles else ():
            reread_layer(layer)

    def plan_camera(self, wanted: ShownFields, *, any_size: bool) -> Callable[[], None]:
        """Note the present view; return a function that sets the next one.

        Parameters
        ----------
        any_size
            See `follow_image`.
        """
        if wanted.position is not None:
            return follow_image(self.viewer, self.field_layers, any_size=any_size)
        if wanted.zoom_well is None:
            return self._stay_in_well()
        return partial(self.fit_well, wanted.zoom_well)

    def fit_all(self) -> None:
        """Bring all that is shown in view."""
        images = self.image_layers()
        if images:
            margin = OVERVIEW_MARGIN if len(self.well_cells()) > 1 else MARGIN
            low, high = images[0].extent.world[:, -2:]
            fit_camera(self.viewer, low, high, margin)

    def fit_well(self, well: str) -> None:
        """Bring a well of the mosaic in view; all that is shown for ""."""
        corners = self._well_corners(well) if well else None
        if corners is not None:
            fit_camera(self.viewer, *corners)
        elif not well:
            self.fit_all()

    def zoom_to_image(self, address: str) -> bool:
        """Bring an image in view that is on screen with others; False without one."""
        for layer in self.image_layers():
            if image_address(layer) == address:
                fit_camera(self.viewer, *layer.extent.world[:, -2:])
                self.viewer.layers.selection.active = layer
                return True
        return False

    def find_middle_well(self) -> str | None:
        """Return the well in the middle of the view of an overview."""
        image = self.find_image_at(self.viewer.scene.camera.center[-2:])
        return image[0] if image is not None else None

    def _stay_in_well(self) -> Callable[[], None]:
        """Note the well in view; return a function that follows it with the camera."""
        well = self.find_middle_well()
        before, whole = self._well_corners(well), is_whole(self.image_layers())

        def move_camera() -> None:
            after = self._well_corners(well)
            if before is None or after is None:
                return
            # The well has not moved, so the camera is right already.
            if before[0] == after[0]:
                return
            if whole:
                self.fit_all()
            else:
                follow_point(self.viewer, before[0], after[0])

        return move_camera

    def _well_corners(self, well: str | None) -> Corners | None:
        images = self.image_layers()
        if not images or not self.tiles:
            return None
        return corners_of(images[0], self.tiles[0], well)

    def well_cells(self) -> dict[str, Corners]:
        """Return the corners of the wells of an overview; {} for a field."""
        is_overview = self.tiles and self._state.shown.position is None
        images = self.image_layers() if is_overview else []
        return cells_of(images[0], self.tiles[0]) if images else {}

    def find_image_at(
        self, world: Sequence[float]
    ) -> tuple[str | None, WellField | None] | None:
        """Find the well and the image at a world coordinate; reads nothing."""
        if self._state.shown.position is not None:
            return None
        layers = {slot[0]: layer for slot, layer in self.by_slot().items()}
        image = image_at(layers, self.tiles, world)
        if image is not None and image[0] is None and len(self._state.shown.wells) == 1:
            return self._state.shown.wells[0], image[1]
        return image

    def describe_end(self, world: Sequence[float]) -> str:
        """Say that the image at a place of an overview lacks the plane on screen."""
        if self._state.shown.position is not None:
            return ""
        layers = {slot[0]: layer for slot, layer in self.by_slot().items()}
        return describe_end(layers, self.tiles, world)

    def take_inserted(self, layer: Layer) -> bool:
        """Take a layer that was added; return whether it was expected."""
        state, slot = self._state, self.slots.expected_slot(layer)
        if slot is not None:
            self.slots.take_layer(slot, layer, state.labels if self.tiles else None)
            self.keep_layers([layer])
            if self.are_away:  # from a server it comes late
                self.put_away([layer])
                return False
            layers = self.viewer.layers
            if len(layers) > 1 and not any(x.visible for x in layers if x is not layer):
                self.fit_all()  # as napari does for the first layer
            return True
        if (
            self.are_away
            or self.slots.take_channel(self.viewer, layer)
            or self._take_labels(layer)
        ):
            return False
        # Anything else lies on the field that is on screen, and is hidden with it. Only
        # what was opened from a file, which has a path, or lies on an image of another
        # file, belongs to no field.
        address = image_address(layer)
        ours = map(image_address, self.by_slot().values())
        is_apart = layer.source.path is not None or self.are_replaced
        is_apart |= bool(address) and address not in ours
        if state.shown.position is not None and not is_apart:
            self._extras[layer] = state.shown.position
        return False

    def _take_labels(self, layer: Layer) -> bool:
        """Take labels that were made for an image on screen as part of its field."""
        name, ours = label_name(layer), self.by_slot()
        if name is None or self.tiles or layer in ours.values():
            return False
        # Read-only labels have no saver that would have to follow the field.
        if not layer.editable:
            return False
        images = {s: x for s, x in ours.items() if s[1] == "image"}
        for (group, _, _), image in images.items():
            slot: Slot = group, "labels", name
            if slot not in ours and image_address(image) == image_address(layer):
                self.slots.take_layer(slot, layer)
                self.keep_layers([layer])
                return True
        return False

    def keep_layers(self, layers: Iterable[Layer]) -> None:
        """Take layers as part of the fields on screen, and note saves of labels."""
        for layer in layers:
            self._extras.pop(layer, None)
            if layer_kind(layer) == "labels":
                layer.events.visible.connect(self._follow_eye)
            saver = getattr(layer, "saver", None)
            if saver is not None and saver not in self._followed:
                self._followed.add(saver)
                # The signal must not keep alive a layer that the user removes.
                report = partial(self._on_saved, weakref.ref(layer))
                saver.saved.connect(report)

    def _on_saved(self, layer: weakref.ref[Layer], result: SaveResult) -> None:
        labels, outcome = layer(), result.outcome
        if labels is not None and outcome is not None and outcome.blocks:
            name, is_of_others = label_name(labels) or "", are_of_others(labels)
            self._note_saved(image_address(labels), name, is_of_others)
