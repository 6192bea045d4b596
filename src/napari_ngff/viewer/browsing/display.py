"""Shows the fields of a browser as layers: an overview of wells, or one field."""

from __future__ import annotations

import weakref
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.store.sources.server_logins import server_of
from napari_ngff.viewer.browsing.camera import (
    MARGIN,
    OVERVIEW_MARGIN,
    camera_of,
    canvas_of,
    cells_of,
    corners_of,
    fit_camera,
    follow_image,
    follow_point,
    image_at,
    is_whole,
)
from napari_ngff.viewer.browsing.field_labels import (
    image_address,
    label_name,
)
from napari_ngff.viewer.browsing.layer_slots import LayerSlots
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.browsing.preparation import (
    FieldResolver,
    SeenLayers,
    views_of,
    with_channels,
    with_labels_in_use,
)
from napari_ngff.viewer.browsing.shown_fields import (
    AcquisitionChange,
    BrowsingState,
    FieldEntry,
    FieldExtras,
    FieldNotices,
    ShownFields,
)
from napari_ngff.viewer.browsing.well_stream import (
    OversizedWells,
    WellStream,
    reread_layer,
)
from napari_ngff.viewer.latest_task import LayerTask
from napari_ngff.viewer.layer_plan import layer_kind
from napari_ngff.viewer.painting.label_owners import are_of_others
from napari_ngff.viewer.saving.leaving import save_before_leaving
from napari_ngff.viewer.sliders import KeptSliders
from napari_ngff.viewer.streaming.outage_watch import follow_logins
from napari_ngff.viewer.unexpected import call_all, going_on
from napari_ngff.viewer.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.metadata.model import WellField
    from napari_ngff.plate.well_cells import WellCells
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.camera import Corners
    from napari_ngff.viewer.browsing.field_labels import LabelsInUse
    from napari_ngff.viewer.browsing.preparation import LayerView, PreparedFields
    from napari_ngff.viewer.browsing.shown_fields import (
        DisplayObserver,
        FieldMove,
        Slot,
    )
    from napari_ngff.viewer.placing.layer_groups import LayerGroup
    from napari_ngff.viewer.saving.layer_saver import LayerSaver
    from napari_ngff.viewer.saving.save_report import SaveResult

__all__ = ["Display"]


class Display:
    """Shows the fields of one browser in its layers.

    Parameters
    ----------
    viewer
        Where the layers are.
    node
        A plate, a well or a collection.
    observer
        Is notified of changes.

    Attributes
    ----------
    resolver
        Reads, in workers, what the layers show next.
    """

    def __init__(
        self, viewer: ViewerModel, node: Node, observer: DisplayObserver
    ) -> None:
        self._viewer = weakref.ref(viewer)
        self._node = node
        self._observer = observer
        self._state = BrowsingState()
        self._tiles: tuple[WellCells, ...] = ()  # wells of the overview on screen
        self._is_closed = False
        self.notices = FieldNotices(observer.name_field)
        self.resolver = FieldResolver(node, self.notices, observer.read_map)
        self._wells = observer.read_map().wells
        self._task = LayerTask(self._on_busy, self._hold_drawing, self._is_open)
        self._slots = LayerSlots()
        self._sliders = KeptSliders()
        self._extras = FieldExtras()
        self._stream = WellStream(self._redraw_wells, self._make_room)
        self._misfits = OversizedWells()
        self._followed: weakref.WeakSet[LayerSaver] = weakref.WeakSet()
        self._saved_images: list[str] = []  # addresses, in the order of saves
        viewer.layers.events.inserted.connect(self._on_inserted)
        follow_logins(self)

    @property
    def shown(self) -> ShownFields:
        """What is on screen, with the choices that hold for what comes next."""
        return self._state.shown

    def close(self) -> None:
        """Stop acting on the viewer; the layers stay."""
        self._is_closed = True
        self._task.cancel()
        self._stream.close()
        viewer = self._viewer()
        if viewer is not None:
            viewer.layers.events.inserted.disconnect(self._on_inserted)

    def cancel_reading(self) -> None:
        """Stop reading; the layers stay as they are."""
        self._task.cancel()
        self._state.forget_wanted()
        self._observer.on_busy(False)

    def _is_open(self) -> bool:
        viewer = self._viewer()
        return viewer is not None and Window.current.is_open(viewer)

    def _hold_drawing(self) -> Callable[[], None]:
        viewer = self._viewer()
        return (lambda: None) if viewer is None else Window.current.hold_drawing(viewer)

    def _on_busy(self, busy: bool) -> None:
        if not busy:
            # Nothing is read any more, so what is still wanted was not found.
            if self._state.wanted is not None:
                self._state.fail_wanted(None)
            with going_on():
                self._observer.on_problems()
        self._observer.on_busy(busy)

    def owns_layer(self, layer: Layer) -> bool:
        """Return whether a layer is one of the browser."""
        return layer in self._layers_by_slot().values()

    def position_of(self, layer: Layer) -> Position | None:
        """Return the image that a layer shows or belongs to; None for an overview."""
        owner = self._slots if self.owns_layer(layer) else self._extras
        return owner.position_of(layer)

    def _layers_by_slot(self) -> dict[Slot, Layer]:
        viewer = self._viewer()
        return {} if viewer is None else self._slots.current_layers(viewer)

    @property
    def is_drawing(self) -> bool:
        """Return whether wells of an overview are still being read."""
        return self._stream.is_busy

    @property
    def problems(self) -> dict[str | None, str]:
        """Reasons why wells are not shown, or not whole, by path."""
        return (
            self._misfits.list_problems(self._tiles)
            | self.resolver.arrangements.problems
        )

    def image_layers(self) -> list[Layer]:
        """List the layers of channels that are shown."""
        layers = self._layers_by_slot()
        slots = [slot for slot in layers if slot[1] == "image"]
        return [layers[slot] for slot in sorted(slots, key=lambda s: (s[0], int(s[2])))]

    def _field_layers(self) -> list[Layer]:
        """List those of the field on screen; none of an overview."""
        return self.image_layers() if self.shown.position is not None else []

    def leading_layers(self) -> dict[int | str, Layer]:
        """Return layers by channel or name of labels, of the first of acquisitions."""
        layers = self._layers_by_slot()
        return {slot[2]: layer for slot, layer in layers.items() if slot[0] == 0}

    def show_overview(
        self, paths: Sequence[str] | None, zoom_well: str | None = None
    ) -> None:
        """Show wells as one picture.

        Parameters
        ----------
        paths
            Of the wells; None for all.
        zoom_well
            See `ShownFields`.
        """
        wells = (w.path for w in self._wells if paths is None or w.path in paths)
        self._show_fields(ShownFields(tuple(wells), zoom_well=zoom_well))

    def show_field(self, position: Position) -> None:
        """Show a field, or the first one of a well where it names no field."""
        self._show_fields(ShownFields(position=position, moves=(FieldEntry(),)))

    def step_on(self, move: FieldMove) -> bool:
        """Make a step from the field that is shown or wanted; False for an overview."""
        start = self._state.start
        if start is not None:
            self._show_fields(start.add_move(move))
        return start is not None

    def show_again(self, *, has_hidden: bool = True) -> None:
        """Show the same wells again, with new choices, and hidden labels if they do."""
        fields = self._state.wanted
        if fields is None and self._tiles:
            fields = self.shown
        hidden = self._slots.find_overview_labels(visible=False) if has_hidden else ()
        if fields is not None and fields.position is None:
            self._show_fields(fields, tuple(hidden))

    def choose_acquisitions(self, ids: tuple[int, ...]) -> None:
        """Show the fields of one acquisition, or of several as layers of their own."""
        self._state.choose_acquisitions(ids)
        if not self.step_on(AcquisitionChange()):
            self.show_again()

    def choose_labels(self, name: str | None) -> None:
        """Show the labels of this name in overviews; None for none."""
        self._state.choose_labels(name)
        self._slots.reveal_labels(name)
        self.show_again(has_hidden=False)

    def _follow_eye(self, event: Any = None) -> None:
        """Choose the labels that an overview shows since their eye was clicked."""
        seen = self._slots.find_overview_labels(visible=True)
        if seen and self.shown.labels is None and self._state.wanted is None:
            self._state.choose_labels(seen[0])
            self._observer.on_shown()

    def _show_fields(self, asked: ShownFields, hidden: tuple[str, ...] = ()) -> None:
        """Resolve fields in a worker, then apply what was prepared."""
        # A worker may ask for a wider overview after the browser was closed.
        if self._is_closed:
            return
        # Before `wanted` is set: it shows whether something else is on its way.
        seen = self._look_at_layers(hidden)
        wanted = self._state.with_choices(asked)
        self._state.wanted = wanted
        saves_before = len(self._saved_images)

        def leave_fields(
            prepared: PreparedFields, proceed: Callable[[bool], None]
        ) -> None:
            if prepared.reason:
                self.notices.show_failed(prepared.fields, prepared.reason)
                # The next step goes over it, unless it may come at the next try.
                failed = None if prepared.may_come else prepared.fields
                self._state.fail_wanted(failed)
                proceed(False)
            elif prepared.layers:
                self._leave_labels(wanted, prepared, saves_before, proceed)
            else:  # it is on screen
                self._state.finish_wanted(wanted)
                proceed(False)

        self._task.start(
            lambda turn: self.resolver.resolve_fields(wanted, seen, turn.is_newest),
            lambda prepared: self._apply_prepared(wanted, prepared),
            leave_fields,
            lambda reason: self.notices.show_failed(wanted, reason),
        )

    def _look_at_layers(self, hidden: tuple[str, ...]) -> SeenLayers:
        """Note what is on screen, for a worker that prepares what comes next."""
        viewer, position = self._viewer(), self.shown.position
        # It will be brought in view whole, unless one is in view already.
        canvas = canvas_of(viewer) if viewer is not None and position is None else None
        added = frozenset() if viewer is None else self._slots.added_channels(viewer)
        # While something else is on its way, a step may lead back to what is shown.
        settled = position if self._state.wanted is None else None
        views, in_use = self._layer_views(), self._labels_in_use()
        return SeenLayers(views, added, in_use, canvas, settled, hidden)

    def _leave_labels(
        self,
        wanted: ShownFields,
        prepared: PreparedFields,
        saves_before: int,
        proceed: Callable[[bool], None],
    ) -> None:
        """Save the labels of what is shown, or ask; then `proceed` with the answer.

        Where labels of what comes next were saved after it was read, it is read again.
        """
        viewer = self._viewer()
        layers = self._layers_by_slot().items()
        labels = [layer for slot, layer in layers if slot[1] == "labels"]

        def on_answer(may_leave: bool) -> None:
            saved = set(self._saved_images[saves_before:])
            if wanted.position is not None:
                saved &= prepared.image_addresses
            elif wanted.labels is None:
                saved = set()  # an overview of images alone
            if may_leave and saved and self._state.wanted is wanted:
                self._show_fields(wanted)
                return
            if not may_leave and self._state.cancel_wanted(wanted):
                self._observer.on_shown()
            proceed(may_leave)

        if viewer is None:
            on_answer(False)
        else:
            save_before_leaving(viewer, labels, on_answer)

    def _apply_prepared(
        self, wanted: ShownFields, prepared: PreparedFields
    ) -> Iterator[None]:
        """Let the layers on screen show what was prepared, in short steps.

        What fails before the layers change leaves all as it was. After that, nothing
        that fails keeps picture, labels, title and place of saving apart.
        """
        viewer = self._viewer()
        if viewer is None:
            return
        position = prepared.fields.position
        with self._slots.kept_on_error():
            # Before the layers change: the camera stays relative to what is seen now.
            look = self._plan_camera(wanted)
            self._sliders.note(viewer, self._field_layers())
            self._slots.follow_acquisitions(prepared.groups)
            # Labels and channels may have been added while this was read.
            in_use = self._labels_in_use()
            if position is not None:
                prepared = with_labels_in_use(prepared, in_use)
            prepared = with_channels(prepared, self._slots.added_channels(viewer))
            exchange = self._slots.show_prepared(viewer, prepared)
        with going_on():
            self._stream.connect_wells(prepared.tiles)
            self.notices.show_missing(prepared.fields, prepared.messages)
        yield from exchange
        self._state.finish_wanted(wanted)
        self._state.set_shown(wanted, prepared.fields)
        self._tiles = prepared.tiles
        last = [self._redraw_wells, self._observer.on_shown, self._make_room]
        if position is not None:
            coarser = partial(self.notices.show_coarser, position, prepared.coarser)
            last = [self._observer.on_shown, coarser, self._prefetch_neighbours]
        call_all(
            lambda: self.keep_layers(self._layers_by_slot().values()),
            self._show_extras,
            # Within the same drawn frame as the layers.
            lambda: self._sliders.restore(viewer, self._field_layers()),
            look,
            *last,
        )

    def _plan_camera(self, wanted: ShownFields) -> Callable[[], None]:
        """Note the present view; return a function that sets the next one."""
        viewer, zoom_well = self._viewer(), wanted.zoom_well
        if wanted.position is not None and viewer is not None:
            any_size = bool(self._wells)
            return follow_image(viewer, self._field_layers, any_size=any_size)
        if zoom_well is None:
            return self._stay_in_well()
        return partial(self.fit_well, zoom_well) if zoom_well else self.fit_all

    def _layer_views(self) -> dict[Slot, LayerView]:
        viewer = self._viewer()
        return {} if viewer is None else views_of(viewer, self._layers_by_slot())

    def _prefetch_neighbours(self) -> None:
        """Prepare the fields before and after in a worker, until another is wanted."""
        fields, views = self.shown, self._layer_views()
        is_newest = self._task.current_turn().is_newest
        Window.current.run_later(
            lambda: self.resolver.prefetch_neighbours(fields, views, is_newest)
        )

    def _labels_in_use(self) -> dict[Slot, LabelsInUse]:
        viewer = self._viewer()
        return {} if viewer is None else self._slots.labels_in_use(viewer)

    def _show_extras(self) -> None:
        viewer = self._viewer()
        if viewer is not None:
            self._extras.forget_layers(self._layers_by_slot().values())
            self._extras.show_those_of(viewer, self.shown.position)
            active = viewer.layers.selection.active
            ours = self._layers_by_slot().values()
            # Keys and tools act on the active layer, which must not be a hidden one.
            visible = [x for x in ours if x.visible and not are_of_others(x)]
            if visible and (active is None or not active.visible):
                viewer.layers.selection.active = visible[-1]

    def _redraw_wells(self) -> None:
        # Only wells of an overview come in here; remote fields have their own stream.
        for layer in self._layers_by_slot().values() if self._tiles else ():
            reread_layer(layer)
        self._observer.on_problems()

    def follow_login(self, server: str) -> None:
        """Read wells again that this server refused before it was given a login."""
        is_ours = server_of(self._node.location.source.name) == server
        if self._is_closed or not is_ours:
            return
        if self.resolver.arrangements.retry_refused():
            self._redraw_wells()

    def _make_room(self) -> None:
        """Show the overview again, with room for wells that were found to be larger."""
        self._observer.on_problems()
        # What was asked for meanwhile will not be given up for it.
        if self._state.wanted is None and self._misfits.try_new(self._tiles):
            self.show_again()

    def fit_all(self) -> None:
        """Bring all that is shown in view."""
        viewer, images = self._viewer(), self.image_layers()
        if viewer is not None and images:
            margin = OVERVIEW_MARGIN if len(self.well_cells()) > 1 else MARGIN
            low, high = images[0].extent.world[:, -2:]
            fit_camera(viewer, low, high, margin)

    def zoom_to_image(self, path: str) -> bool:
        """Bring an image in view that is on screen with others; False without one."""
        viewer, address = self._viewer(), str(self._node.location.join_path(path))
        for layer in self.image_layers():
            if viewer is not None and image_address(layer) == address:
                fit_camera(viewer, *layer.extent.world[:, -2:])
                viewer.layers.selection.active = layer
                return True
        return False

    def fit_well(self, well: str) -> None:
        """Bring a well of the mosaic in view; one that did not come is read again."""
        # Its server may answer now.
        if self.resolver.arrangements.retry_wells([well]):
            self._redraw_wells()
        viewer, corners = self._viewer(), self._well_corners(well)
        if viewer is not None and corners is not None:
            fit_camera(viewer, *corners)

    def _stay_in_well(self) -> Callable[[], None]:
        """Note the well in view; return a function that follows it with the camera."""
        viewer = self._viewer()
        image = None
        if viewer is not None:
            image = self.find_image_at(camera_of(viewer).center[-2:])
        well = image[0] if image is not None else None
        before, whole = self._well_corners(well), is_whole(self.image_layers())

        def move_camera() -> None:
            after = self._well_corners(well)
            if viewer is None or before is None or after is None:
                return
            # The well has not moved, so the camera is right already.
            if before[0] == after[0]:
                return
            if whole:
                self.fit_all()
            else:
                follow_point(viewer, before[0], after[0])

        return move_camera

    def _well_corners(self, well: str | None) -> Corners | None:
        images = self.image_layers()
        if not images or not self._tiles:
            return None
        return corners_of(images[0], self._tiles[0], well)

    def well_cells(self) -> dict[str, Corners]:
        """Return the corners of the wells of an overview; {} for a field."""
        is_overview = self._tiles and self.shown.position is None
        images = self.image_layers() if is_overview else []
        return cells_of(images[0], self._tiles[0]) if images else {}

    def find_image_at(
        self, world: Sequence[float]
    ) -> tuple[str | None, WellField | None] | None:
        """Find the well and the image at a world coordinate; reads nothing."""
        if self.shown.position is not None:
            return None
        layers = {slot[0]: layer for slot, layer in self._layers_by_slot().items()}
        image = image_at(layers, self._tiles, world)
        if image is not None and image[0] is None and len(self.shown.wells) == 1:
            return self.shown.wells[0], image[1]
        return image

    def adopt_mosaics(
        self, groups: Sequence[LayerGroup], wells: Sequence[str] | None = None
    ) -> None:
        """Take over mosaics that will become layers; see `Browser.adopt_mosaics`."""
        joined = self._slots.expect_layers(groups)
        all_wells = tuple(wells or (w.path for w in self._wells))
        # Without the position of a plate that is opened again.
        fields = replace(self.shown, wells=all_wells, position=None)
        if joined and joined[0].choice.acquisition is None:
            fields = replace(fields, acquisitions=())
        if joined and str(joined[0].arrangements.screen.node) == str(self._node):
            # What was read there needs not be read again.
            self.resolver.use_arrangements(joined[0].arrangements)
        self._tiles = tuple(joined)
        image = groups[0].image if len(groups) == 1 and not joined else None
        if image is not None:
            inner = image.node.location.path[len(self._node.location.path) :]
            fields = replace(fields, position=Position(None, inner.strip("/")))
        self._state.adopt_shown(fields, {x.name for g in groups for x in g.labels})
        self._stream.connect_wells(joined)

    def _on_inserted(self, event: Any) -> None:
        layer, viewer = event.value, self._viewer()
        slot = self._slots.expected_slot(layer)
        if viewer is None:
            return
        if slot is not None:
            chosen = self.shown.labels if self._tiles else None
            self._slots.take_layer(slot, layer, chosen)
            self.keep_layers([layer])
            layers = viewer.layers
            if len(layers) > 1 and not any(x.visible for x in layers if x is not layer):
                self.fit_all()  # as napari does for the first layer
            if self.shown.position is not None and len(self._layers_by_slot()) == 1:
                self._observer.on_shown()
        # Anything else lies on the field that is on screen, and is hidden with it.
        elif not (self._slots.take_channel(viewer, layer) or self._take_labels(layer)):
            # A layer of the user, such as points: it belongs to the field on which it
            # was made.
            self._extras.add_layer(layer, self.shown.position)

    def _take_labels(self, layer: Layer) -> bool:
        """Take labels that were made for an image on screen as part of its field."""
        name, ours = label_name(layer), self._layers_by_slot()
        if name is None or self._tiles or layer in ours.values():
            return False
        # Read-only labels have no saver that would have to follow the field.
        if not layer.editable:
            return False
        images = {s: x for s, x in ours.items() if s[1] == "image"}
        for (group, _, _), image in images.items():
            slot: Slot = group, "labels", name
            if slot not in ours and image_address(image) == image_address(layer):
                self._slots.take_layer(slot, layer)
                self.keep_layers([layer])
                return True
        return False

    def keep_layers(self, layers: Iterable[Layer]) -> None:
        """Take layers as part of the fields on screen, and note saves of labels."""
        for layer in layers:
            self._extras.forget_layers([layer])
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
        if labels is None or outcome is None or not outcome.blocks:
            return
        address, root = image_address(labels), str(self._node)
        self._forget_field(address)
        if address.startswith(root):
            inner = address[len(root) :].strip("/")
            self.resolver.arrangements.screen.forget_image(inner)
            self._observer.on_labels_saved(inner, label_name(labels) or "")

    def _forget_field(self, address: str) -> None:
        # A field that is being read now may have been read before this save.
        self._saved_images.append(address)
        self.resolver.forget_field(address)

    def forget_image(self, path: str) -> None:
        """Read an image anew when it is shown next, since labels of it were written."""
        self._forget_field(f"{self._node}/{path}")
        self.resolver.arrangements.screen.forget_image(path)
