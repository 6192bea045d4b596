"""Browses a plate, a well or a collection of images in one viewer; no Qt.

`session_of(viewer).browse(node)` gives the `Browser`. Actions read in a worker by
themselves and change layers in the main thread; of two actions the later counts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import error_text
from napari_ngff.metadata.model import GroupKind
from napari_ngff.store.sources.server_logins import server_of
from napari_ngff.viewer.annotations.leaving import save_before_leaving
from napari_ngff.viewer.browsing.browsed_node import BrowsedNode
from napari_ngff.viewer.browsing.camera import is_fitted
from napari_ngff.viewer.browsing.field_labels import (
    ChangedFields,
    rename_in_field,
)
from napari_ngff.viewer.browsing.pins import PinnedFields
from napari_ngff.viewer.browsing.positions import Position
from napari_ngff.viewer.browsing.preparation import (
    PreparedFields,
    with_channels,
    with_labels_in_use,
)
from napari_ngff.viewer.browsing.shown_fields import (
    AcquisitionChange,
    BrowsingState,
    FieldEntry,
    FieldMove,
    FieldStep,
    ShownFields,
    WellStep,
)
from napari_ngff.viewer.browsing.shown_layers import ShownLayers
from napari_ngff.viewer.layers.plane_camera import KeptSliders
from napari_ngff.viewer.services.latest_task import LayerChange, LayerTask
from napari_ngff.viewer.services.notices import last_part, shorten_name
from napari_ngff.viewer.services.window import (
    Signal,
    Window,
    attempt_work,
    call_all,
    going_on,
)
from napari_ngff.viewer.streaming.outage_watch import logged_in
from napari_ngff.viewer.streaming.well_stream import WellStream

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from napari.layers import Layer

    from napari_ngff.plate.plate_layout import MapWell
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.annotations.annotations import Annotations
    from napari_ngff.viewer.layers.layer_groups import LayerGroup


class Browser(BrowsedNode):
    """Browses one plate, well or collection in one viewer.

    Attributes
    ----------
    state
        The fields that are wanted, failed and shown.
    layers
        The layers that show them.
    """

    position_changed = Signal(object)
    """Emitted with the `Position` that is shown now; None for a mosaic."""
    approached = Signal(str)
    """Emitted with the path of a well of a mosaic to which a key has moved the view."""
    wells_changed = Signal()
    """Emitted when `problems` has changed: a well was found broken."""
    layers_changed = Signal()
    """Emitted when fields, wells, pins, acquisitions or labels shown have changed."""
    path_opened = Signal(str)
    """Emitted with the address of a plate or a collection in a folder, to be opened."""
    busy = Signal(bool)
    """Emitted with True when an action starts to read, False when all is shown."""
    clicked = Signal(object)
    """Emitted with the `Position` in the overview that was clicked on the canvas."""
    menu_wanted = Signal(object)
    """Emitted with the `Position` that was clicked there by the right button."""
    closed = Signal()
    """Emitted when another plate or collection is browsed in the viewer."""

    def __init__(self, annotations: Annotations, node: Node) -> None:
        super().__init__(node)
        self.state = BrowsingState()
        # Fields of several acquisitions lie over each other: at first one of them is
        # shown.
        if len(self.acquisitions) > 1:
            self.state.acquisitions = (self.acquisitions[0].id,)
        self.layers = ShownLayers(
            annotations, self.state, self._follow_eye, self._on_labels_saved
        )
        self._task = LayerTask(
            partial(self._on_busy, "shown"),
            lambda: Window.current.hold_drawing(annotations.viewer),
            self._is_open,
        )
        self._sliders = KeptSliders()
        self._stream = WellStream(self._redraw_wells, self._make_room)
        self._reading: set[str] = set()
        self._problems: dict[str, str] = {}
        pinned = partial(self._on_busy, "pinned")
        self._pins = PinnedFields(
            self.layers, self.state, self.resolver, pinned, self.layers_changed.emit
        )
        self._saved_labels = ""  # name of the labels that were saved last
        self._clicked_well: str | None = None
        self.clicked.connect(self._note_click)
        self.layers.viewer.layers.events.inserted.connect(self._on_inserted)
        logged_in.connect(self.follow_login)

    def close(self) -> None:
        """Stop acting on the viewer, and hide all layers, until `resume`."""
        self._task.finish_steps()
        self.cancel_reading()
        self._stream.close()
        self._sliders.note(self.layers.viewer, self.layers.field_layers())
        self.layers.put_away()
        self.layers.are_away = True
        self.closed.emit()

    def resume(self, *, anew: bool) -> None:
        """Act on the viewer again; show what was hidden, unless layers come anew."""
        self.layers.are_away = False
        if not anew:
            self._stream.connect_wells(self.layers.tiles)
            self.layers.bring_back()
            self._sliders.restore(self.layers.viewer, self.layers.field_layers())
            self._tell_shown()

    def remove_layers(self) -> None:
        """Remove the layers of all fields; what the user has drawn on them stays."""
        self._pins.remove_all()
        for layer in self.layers.by_slot().values():
            self.layers.viewer.layers.remove(layer)

    def _is_open(self) -> bool:
        return Window.current.is_open(self.layers.viewer)

    # What is shown.

    @property
    def problems(self) -> dict[str, str]:
        """Reasons why wells are not shown, or not whole, by path; as far as known."""
        misfits = self._misfits.list_problems(self.layers.tiles)
        problems = misfits | self.resolver.arrangements.problems
        return {well or "": text for well, text in problems.items()}

    @property
    def chosen_acquisitions(self) -> tuple[int, ...]:
        """Ids of the acquisitions that are shown; () for all fields together."""
        return self.state.acquisitions

    @property
    def labels(self) -> str | None:
        """Name of the labels that overviews show."""
        return self.state.labels

    @property
    def position(self) -> Position | None:
        """The field on screen; None for an overview, or nothing."""
        return self.state.shown.position

    @property
    def shown_wells(self) -> tuple[str, ...]:
        """Paths of the wells of the overview, or of the well of the field."""
        return self.state.shown.wells

    @property
    def is_drawing(self) -> bool:
        """Return whether wells of an overview are still being read."""
        return self._stream.is_busy

    @property
    def pinned_fields(self) -> tuple[Position, ...]:
        """The fields that are shown for comparison."""
        return self._pins.pinned_positions()

    def rename_class(
        self, labels: str, names: tuple[str, str], goes_on: Callable[[int, int], bool]
    ) -> ChangedFields:
        """Rename a class in all fields but the one on screen; see `rename_in_field`.

        Labels on screen get the new name in their layer.
        """
        rename = partial(rename_in_field, labels, names)
        return self.change_fields(rename, goes_on, but=self.position)

    # Actions.

    def show_mosaic(self, wells: Collection[str] = (), zoom_well: str = "") -> None:
        """Show wells as one picture: all fields of all of them, or of some.

        Parameters
        ----------
        wells
            Their paths; all by default.
        zoom_well
            See `ShownFields`.
        """
        paths = tuple(w.path for w in self.map.wells if not wells or w.path in wells)
        are_seen = paths == self.shown_wells and bool(self.layers.well_cells())
        if are_seen:
            # At once: the user may move the view while they are read again.
            self.layers.fit_well(zoom_well)
        self._show_fields(ShownFields(paths, zoom_well=None if are_seen else zoom_well))

    def show_field(self, well: str | None, field: str | None = None) -> None:
        """Show one field as ordinary layers; the first one of the well by default.

        Layers that show another image get the data of this one.
        """
        self._clicked_well = None
        position = Position(well, field or "")
        self._show_fields(ShownFields(position=position, moves=(FieldEntry(),)))

    def show_well(self, path: str) -> None:
        """Show a well as wells are shown now: its first field, or an overview of it."""
        count = 0 if self.position is not None else len(self.shown_wells)
        if count == 1 or 0 < count < len(self.map.wells):
            self.show_mosaic([path])
        else:
            self.show_field(path)

    def show_image(self, path: str) -> None:
        """Show an image of a collection or a folder instead of the one on screen.

        The images of a scene are on screen together: the view moves to this one. A
        plate or a collection in a folder is opened in its own browser.
        """
        if self.kind is GroupKind.SCENE and self.layers.zoom_to_image(
            str(self.node.location.join_path(path))
        ):
            return
        # Only reading shows whether an entry of a plain folder is a plate.
        if self.kind is not GroupKind.SERIES:
            self.show_field(None, path)
            return

        def show_found(result: Node | str) -> None:
            if isinstance(result, str):
                Window.current.show_messages(
                    (result,), f"Not opened: {shorten_name(last_part(path))}"
                )
            elif result.kind in (GroupKind.IMAGE, GroupKind.LABEL):
                self.show_field(None, path)
            else:
                self.path_opened.emit(str(result))

        Window.current.run_work(
            partial(attempt_work, partial(self.node.child, path)), show_found
        )

    def step_well(self, rows: int, columns: int) -> None:
        """Go to the next readable well in a direction, to the field with the same name.

        In a mosaic the view moves from the well in its middle, or from one that was
        clicked since the last step, to the next; while all wells are in view, and none
        was clicked, to the first well.
        """
        start = self.state.start
        if start is not None:
            # At the border nothing happens, and nobody is asked about labels.
            if not self.is_at_border(start.named_position, rows, columns):
                self._show_fields(start.add_move(WellStep(rows, columns)))
            return
        target, is_first = self._find_start()
        if target is not None and not is_first:
            target = self.map.find_neighbour(target, rows, columns)
        if target is not None:
            self.zoom_to(target.path)
            self.approached.emit(target.path)

    def step_field(self, step: int) -> None:
        """Go to the next field (1) or the one before (-1), also in the next well.

        From a mosaic to the well from which `step_well` begins.
        """
        if not self._step_on(FieldStep(step)):
            well, _ = self._find_start()
            if well is not None or not self.map.wells:
                self.show_field(None if well is None else well.path)

    def _find_start(self) -> tuple[MapWell | None, bool]:
        """Find the well where steps in a mosaic begin, and if it is only the first."""
        path = self._clicked_well
        if path is None and not is_fitted(self.layers.viewer):
            path = self.layers.find_middle_well()
        if path is not None:
            return self.well_at(path), False
        shown = {*self.shown_wells}
        return next((x for x in self.map.wells if x.path in shown), None), True

    def choose_acquisitions(self, ids: Sequence[int]) -> None:
        """Show the fields of one acquisition, or of several as layers of their own."""
        self.state.acquisitions = tuple(ids)
        if not self._step_on(AcquisitionChange()):
            self._show_again()
        self.layers_changed.emit()

    def choose_labels(self, name: str | None) -> None:
        """Show the labels of this name in mosaics; None for none."""
        self.state.labels = name
        self.layers.slots.reveal_labels(name)
        self._show_again(has_hidden=False)
        self.layers_changed.emit()

    def toggle_pin(self, well: str | None, field: str | None = None) -> None:
        """Compare a field with the one on screen, or stop comparing it."""
        self._pins.toggle_pin(well, field)

    def zoom_to(self, well: str) -> None:
        """Bring a well in view, in the overview of the plate."""
        self._clicked_well = None
        # A camera move alone reads nothing, so wells on screen need no new overview.
        if self.position is None and well in self.shown_wells:
            # One that did not come is read again: its server may answer now.
            if self.resolver.arrangements.retry_wells([well]):
                self._redraw_wells()
            self.layers.fit_well(well)
        else:
            self.show_mosaic(zoom_well=well)

    def cancel_reading(self) -> None:
        """Stop reading; the layers stay as they are."""
        self._pins.cancel_reading()
        self._task.cancel()
        self.state.fail_wanted(None)
        self._on_busy("shown", False)

    def _step_on(self, move: FieldMove) -> bool:
        """Make a step from the field that is shown or wanted; False for an overview."""
        start = self.state.start
        if start is not None:
            self._show_fields(start.add_move(move))
        return start is not None

    def _show_again(self, *, has_hidden: bool = True) -> None:
        """Show the same wells again, with new choices, and hidden labels if they do."""
        fields = self.state.wanted
        if fields is None and self.layers.tiles:
            fields = self.state.shown
        hidden = (
            self.layers.slots.find_overview_labels(visible=False) if has_hidden else ()
        )
        if fields is not None and fields.position is None:
            self._show_fields(fields, tuple(hidden))

    def _follow_eye(self, event: Any = None) -> None:
        """Choose the labels that an overview shows since their eye was clicked."""
        seen = self.layers.slots.find_overview_labels(visible=True)
        if seen and self.labels is None and self.state.wanted is None:
            self.state.labels = seen[0]
            self._tell_shown()

    def _show_fields(self, asked: ShownFields, hidden: tuple[str, ...] = ()) -> None:
        """Show fields, as soon as those on screen are left and these are read."""
        # A worker may ask for a wider overview after the browser was closed.
        if self.layers.are_away:
            return
        # While something else is on its way, a step may lead back to what is shown.
        settled = self.position if self.state.wanted is None else None
        self.state.wanted = wanted = self.state.with_choices(asked)
        self._task.start(self._change_fields(wanted, settled, hidden))

    def _change_fields(
        self, wanted: ShownFields, settled: Position | None, hidden: tuple[str, ...]
    ) -> LayerChange:
        """Leave what is shown, read what is wanted, and show it; one after the other.

        Labels that are painted or saved while the next field is read are left, too.
        """
        while True:
            release = yield partial(
                save_before_leaving,
                self.layers.annotations,
                self.layers.layers_to_leave(),
            )
            if release is None:  # the user stays
                if self.state.cancel_wanted(wanted):
                    self._tell_shown()
                return None
            work = self._note_work()
            seen = self.layers.look_at_layers(settled, hidden)
            read = partial(self.resolver.resolve_fields, wanted, seen)
            prepared, error = yield self._task.in_worker(read)
            if error is not None:
                self.notices.show_failed(wanted, error_text(error))
                return None
            if prepared.reason:
                self.notices.show_failed(prepared.fields, prepared.reason)
                # The next step goes over it, unless it may come at the next try.
                failed = None if prepared.may_come else prepared.fields
                self.state.fail_wanted(failed)
                return None
            if not prepared.layers:  # it is on screen
                self.state.finish_wanted(wanted)
                return None
            if work == self._note_work():
                return self._apply_prepared(wanted, prepared, release)

    def _note_work(self) -> object:
        return self.resolver.save_count, self.layers.note_work()

    def _apply_prepared(
        self,
        wanted: ShownFields,
        prepared: PreparedFields,
        release: Callable[[], None],
    ) -> Iterator[None]:
        """Let the layers on screen show what was prepared, in short steps.

        What fails before the layers change leaves all as it was. After that, nothing
        that fails keeps picture, labels, title and place of saving apart.
        """
        layers, viewer = self.layers, self.layers.viewer
        position = prepared.fields.position
        with layers.slots.kept_on_error():
            # Before the layers change: the camera stays relative to what is seen now.
            look = layers.plan_camera(wanted, any_size=bool(self.map.wells))
            self._sliders.note(viewer, layers.field_layers())
            layers.slots.follow_acquisitions(prepared.groups)
            # Labels and channels may have been added while this was read.
            in_use = layers.labels_in_use()
            if position is not None:
                prepared = with_labels_in_use(prepared, in_use)
            prepared = with_channels(prepared, layers.slots.added_channels(viewer))
            exchange = layers.slots.show_prepared(viewer, prepared)
        with going_on():
            release()
        with going_on():
            self._stream.connect_wells(prepared.tiles)
            self.notices.show_missing(prepared.fields, prepared.messages)
        yield from exchange
        self.state.finish_wanted(wanted)
        self.state.set_shown(wanted, prepared.fields)
        layers.tiles = prepared.tiles
        last = [self._redraw_wells, self._tell_shown, self._make_room]
        if position is not None:
            coarser = partial(self.notices.show_coarser, position, prepared.coarser)
            last = [self._tell_shown, coarser, self._prefetch_neighbours]
        call_all(
            layers.follow_layers,
            # Within the same drawn frame as the layers.
            lambda: self._sliders.restore(viewer, layers.field_layers()),
            look,
            *last,
        )

    def _prefetch_neighbours(self) -> None:
        """Prepare the fields before and after in a worker, until another is wanted."""
        fields = self.state.with_choices(self.state.shown)
        views = self.layers.views()
        is_newest = self._task.check_newest()
        Window.current.run_later(
            lambda: self.resolver.prefetch_neighbours(fields, views, is_newest)
        )

    def adopt_mosaics(
        self, groups: Sequence[LayerGroup], wells: Sequence[str] | None = None
    ) -> None:
        """Take over mosaics that a reader made, and that are about to become layers.

        Parameters
        ----------
        groups
            As `napari_ngff.viewer.layers.node_contents.open_contents` returns them.
        wells
            Paths of the wells that they show; all by default.
        """
        joined = self.layers.slots.expect_layers(groups)
        all_wells = tuple(wells or (w.path for w in self.map.wells))
        if joined and joined[0].choice.acquisition is None:
            self.state.acquisitions = ()
        if self.labels not in {plan.name for group in groups for plan in group.labels}:
            self.state.labels = None
        if joined and str(joined[0].arrangements.screen.node) == str(self.node):
            # What was read there needs not be read again.
            self.resolver.use_arrangements(joined[0].arrangements)
        self.layers.tiles = tuple(joined)
        image = groups[0].image if len(groups) == 1 and not joined else None
        position = None  # also of a plate that is opened again
        if image is not None:
            inner = image.node.location.path[len(self.node.location.path) :]
            position = Position(None, inner.strip("/"))
        self.state.shown = self.state.with_choices(ShownFields(all_wells, position))
        self._stream.connect_wells(joined)
        self.layers_changed.emit()

    # What happens meanwhile.

    def _on_busy(self, what: str, busy: bool) -> None:
        """Report that reading begins, or that fields and pins are all there."""
        (self._reading.add if busy else self._reading.discard)(what)
        if not busy and what == "shown":
            # Nothing is read any more, so what is still wanted was not found.
            if self.state.wanted is not None:
                self.state.fail_wanted(None)
            with going_on():
                self._tell_problems()
        if busy or not self._reading:
            self.busy.emit(busy)

    def _tell_shown(self) -> None:
        """Report other wells, or another field, on screen."""
        call_all(
            # Before the signals: listeners must meet the pinned layers in their new
            # places.
            self._pins.follow_field,
            partial(self.position_changed.emit, self.position),
            self.layers_changed.emit,
            self._tell_problems,
        )

    def _tell_problems(self) -> None:
        if self.problems != self._problems:
            self._problems = self.problems
            self.wells_changed.emit()

    def _redraw_wells(self) -> None:
        if self._is_open():
            self.layers.redraw_wells()
            self._tell_problems()

    def follow_login(self, server: str) -> None:
        """Read wells again that this server refused before it was given a login."""
        is_ours = server_of(self.node.location.source.name) == server
        if self.layers.are_away or not is_ours:
            return
        if self.resolver.arrangements.retry_refused():
            self._redraw_wells()

    def _make_room(self) -> None:
        """Show the overview again, with room for wells that were found to be larger."""
        self._tell_problems()
        # What was asked for meanwhile will not be given up for it.
        if self.state.wanted is None and self._misfits.try_new(self.layers.tiles):
            self._show_again()

    def _on_inserted(self, event: Any) -> None:
        is_ours = self.layers.take_inserted(event.value)
        if is_ours and self.position is not None and len(self.layers.by_slot()) == 1:
            self._tell_shown()

    def _note_click(self, position: Position) -> None:
        self._clicked_well = position.well

    def _on_labels_saved(self, address: str, name: str, is_of_others: bool) -> None:
        root = str(self.node)
        if not address.startswith(root):
            return
        key = address[len(root) :].strip("/")
        self.forget_image(key)
        # Correcting labels of others annotates no field, unless a round is about them.
        if not is_of_others or name == self.states.labels:
            self.states.begin_field(key, name)
        # Overviews show labels that are saved, until the user chooses others.
        if name != self._saved_labels:
            self._saved_labels = name
            self.offer_labels([name])
            self.choose_labels(name)

    # Positions in the world.

    def position_at(self, world: Sequence[float]) -> Position | None:
        """Find the field of an overview at a world coordinate; reads nothing."""
        image = self.layers.find_image_at(world)
        if image is None:
            return None
        well, field = image
        run = field.acquisition if field is not None else None
        return Position(well, field.path if field is not None else "", run)

    def compared_at(self, world: Sequence[float]) -> Position | None:
        """Find the field that is shown for comparison at a world coordinate."""
        return self._pins.find_pinned(world)

    def compared_corners(self) -> tuple[tuple[str, tuple[float, float]], ...]:
        """Name the images that are compared, each with its first corner, y and x."""
        corners = self._pins.compared_corners()
        names = self.name_images(corners)
        return tuple(zip(names, corners.values(), strict=True))

    def title_of(self, layer: Layer) -> str:
        """Name the image that a layer shows or belongs to; "" for others' layers.

        It is not that of the caption where several acquisitions are on screen.
        """
        position = self.layers.position_of(layer)
        return "" if position is None else self.name_field(position)
