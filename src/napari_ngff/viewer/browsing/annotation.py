"""Annotates all fields of a plate or a collection: labels of one name in each of them.

The browser saves the labels of a field before it shows the next, and keeps tools and
classes. Nothing is written in a field before somebody paints there.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_error, show_warning

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.field_states import TODO
from napari_ngff.labels.label_classes import LabelClass, used_classes
from napari_ngff.metadata.model import LabelInfo, LabelKind
from napari_ngff.viewer.browsing.field_labels import BEGUN, label_name
from napari_ngff.viewer.browsing.positions import Position, key_of, own_first
from napari_ngff.viewer.layers.label_owners import are_of_others
from napari_ngff.viewer.painting.brush import PAINTING
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.plans.layer_plan import layer_kind
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.window import Signal, Window, attempt_work

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.labels.used_labels import UsedLabels
    from napari_ngff.viewer.browsing.browser import Browser

    ListedFields = tuple[dict[str, Position], tuple[str, LabelInfo]]

STATE_KEYS = {"Shift-D": "done", "Shift-F": "flagged"}
"""Keys that set the state of the field that is shown; neither napari 0.8 nor 0.9 uses
them. Pressed again, they take the state back."""


class AnnotationRound:
    """Shows labels of one name in each field, until `close`.

    From a mosaic it goes to the first field that is still to do.

    Parameters
    ----------
    browser
        Of a plate, a well or a collection.
    name
        Of the labels in every field; "" for those of fields that were begun before.

    Attributes
    ----------
    states
        How far each field is; see `AnnotationStates`.
    """

    changed = Signal()
    """Emitted when another field is on screen, or a state has changed."""

    def __init__(self, browser: Browser, name: str) -> None:
        self.browser = browser
        self.name = name
        self._places: dict[str, Position] = {}
        self._classes: tuple[LabelClass, ...] = ()
        # Of new labels: that of the first that are seen.
        self._kind: LabelKind | None = None
        self.states = browser.states
        self.states.read_states()
        self.states.show_labels(name)
        self._closed = False
        self._has_begun = False  # on a field, since the last overview
        self.states.changed.connect(self.changed.emit)
        browser.position_changed.connect(self._arrive_at_field)
        for key, state in STATE_KEYS.items():
            switch = self._make_switch(state)
            browser.layers.viewer.bind_key(key, switch, overwrite=True)
        Window.current.run_work(self._list_fields, self._on_fields_listed)
        # The browser may be on a field already: no signal comes for that one.
        self._arrive_at_field(browser.position)

    def close(self) -> None:
        """End the round; layers and labels stay."""
        self._closed = True
        self.states.changed.disconnect(self.changed.emit)
        self.browser.position_changed.disconnect(self._arrive_at_field)
        for key in STATE_KEYS:
            self.browser.layers.viewer.bind_key(key, None)

    def _make_switch(self, state: str) -> Callable[[Any], None]:
        return lambda _: self.switch_state(state)

    def _list_fields(self) -> ListedFields:
        """Read which fields there are, and the labels of those that are begun.

        Fields of broken wells are left out.
        """
        positions = {}
        wells: list[str | None] = [well.path for well in self.browser.map.wells]
        for well in wells or [None]:
            if self._closed:
                break
            try:
                places = self.browser.positions_of(well)
            except (OMEZarrError, OSError):
                continue  # the map shows it crossed out
            # A dict keeps the order of the plate: that in which fields are annotated.
            positions.update({key_of(position): position for position in places})
        states = self.states.read_states()
        newest = states.newest_fields(len(positions), self.name)
        begun = [positions[key] for key in newest if key in positions]
        # Without a name, one is chosen that no labels of others have.
        seen = begun if begun or self.name else positions.values()
        return positions, self.browser.find_annotated(seen, self.name)

    def _on_fields_listed(self, listed: ListedFields) -> None:
        if self._closed:
            return
        self._places, (name, info) = listed
        self._classes, self._kind = used_classes(info), info.kind or self._kind
        if not self.name:
            self.name = name
            self.states.show_labels(self.name)
            self._arrive_at_field(self.browser.position)
        self._add_classes(self.layer)
        if self.current_key is None and self.fields:
            self.go_to_field(self.states.next_to_do(self.fields) or self.fields[0])
        self.changed.emit()

    # The field on screen.

    @property
    def current_key(self) -> str | None:
        """Key of the field that is shown; None for a mosaic."""
        position = self.browser.position
        return None if position is None else key_of(position)

    @property
    def layer(self) -> OMEZarrLabels | None:
        """The labels of the field that is shown."""
        layers = (
            [] if self.current_key is None else list(self.browser.layers.viewer.layers)
        )
        painted = [x for x in layers if isinstance(x, OMEZarrLabels)]
        return next((x for x in painted if self._is_in_round(x)), None)

    def _is_in_round(self, layer: OMEZarrLabels) -> bool:
        """Return whether labels have the name of the round, in the field asked for."""
        if not self.browser.layers.owns_layer(layer) or label_name(layer) != self.name:
            return False
        # Another acquisition on screen may have labels of this name.
        return self.browser.layers.position_of(layer) in (None, self.browser.position)

    @property
    def state(self) -> str:
        """The state of the field on screen."""
        return (
            TODO if self.current_key is None else self.states.state_of(self.current_key)
        )

    @property
    def progress(self) -> dict[str, int]:
        """The number of fields in each state."""
        return self.states.count_states(self.fields)

    def set_state(self, state: str) -> None:
        """Set the state of the field on screen; what is done is saved as well.

        Else a field could be done whose strokes were discarded later. Who wants to be
        asked before labels are saved is asked when the field is left.
        """
        if self.current_key is None:
            return
        self.states.set_state(self.current_key, state)
        layer, saves = self.layer, settings.saves_when_moving_on() and state == "done"
        if saves and layer is not None and layer.saver is not None and layer.unsaved:
            layer.saver.save()

    def switch_state(self, state: str) -> None:
        """Set a state of the field that is shown, or take it back where it has it."""
        self.set_state(BEGUN if self.state == state else state)

    # The round.

    @property
    def run(self) -> int | None:
        """Id of the acquisition that the round goes through; None for all fields."""
        runs, position = self.browser.chosen_acquisitions, self.browser.position
        runs = runs if position is None else own_first(position, runs)
        return runs[0] if runs else None

    @property
    def fields(self) -> tuple[str, ...]:
        """Keys of the fields of that acquisition in order, such as "B/03/0".

        Empty until they are read.
        """
        run, places = self.run, self._places.items()
        own = tuple(key for key, at in places if run in (None, at.acquisition))
        return own or tuple(self._places)

    def next_to_do(self) -> None:
        """Go to the next field that is still to do."""
        key = self.states.next_to_do(self.fields, self.current_key or "")
        if key is None or key == self.current_key:
            show_warning("Every field has been begun.")
            return
        self.go_to_field(key)

    def go_to_field(self, key: str) -> None:
        """Go to a field of `fields`."""
        position = self._places[key]
        self.browser.show_field(position.well, position.field)

    def _arrive_at_field(self, position: Position | None) -> None:
        """Find the labels of the field, or make them, select them and take the brush.

        Where the user had another layer in hand in the field before, no layer is
        selected.
        """
        layers = self.browser.layers
        selection = layers.viewer.layers.selection
        # Without a name the fields that were begun before are still being read.
        if position is None or not self.name:
            self._has_begun = False
            self.changed.emit()
            return
        active: Any = selection.active
        is_other = label_name(active) not in (None, self.name)
        # The user may correct other labels than those of the round, or add points.
        is_elsewhere = is_other and getattr(active, "mode", None) in PAINTING
        is_elsewhere |= self._has_begun and layers.slots.labels_left is None
        self._has_begun = True
        # In memory: nothing is written in a field before somebody paints there.
        layer = self.layer or self._make_labels(layers.viewer)
        if layer is not None:
            self._kind = self._kind or classes_of_layer(layer).kind
            if not layer.visible:  # else napari would put the tool away
                layer.visible = True
            # Those of others stay as they are: the user may have a tool in hand there.
            if is_elsewhere:
                selection.active = active
            elif not are_of_others(layer):
                selection.active = layer
                if layer.editable and layer.mode not in PAINTING:
                    layer.mode = "paint"
            self._add_classes(layer)
        self.changed.emit()

    def _add_classes(self, layer: OMEZarrLabels | None) -> None:
        """Give labels without classes the classes of fields that were begun before."""
        if layer is None or classes_of_layer(layer).kind is LabelKind.OBJECTS:
            return
        classes, used = classes_of_layer(layer), layer.canvas.used
        # Classes that a field has already are those its pixels mean.
        if not classes.items and self._classes:
            if not used.is_known:
                look = partial(attempt_work, used.look_at_all)
                Window.current.run_work(look, partial(self._go_on, layer, used))
                return
            classes.keep_classes(self._classes)
        if classes.items and classes.selected is None:
            classes.select_class(classes.items[0].value)

    def _go_on(self, layer: OMEZarrLabels, used: UsedLabels, found: Any) -> None:
        """Add classes, once it is known which labels pixels have."""
        if layer.canvas.used is used and used.is_known and not self._closed:
            self._add_classes(layer)

    def _make_labels(self, viewer: ViewerModel) -> OMEZarrLabels | None:
        images = [
            layer
            for layer in viewer.layers
            if layer_kind(layer) == "image" and self.browser.layers.owns_layer(layer)
        ]
        if not images:
            return None
        try:
            layer = new_labels(
                images[0], self.name, kind=self._kind or LabelKind.CLASSES
            )
        except (OMEZarrError, ValueError, OSError) as error:
            show_error(f"No labels are made in this field.\n{self.name}: {error}")
            return None
        viewer.add_layer(layer)
        return layer


def labels_in_hand(viewer: ViewerModel) -> str:
    """Return the name of the selected labels, for a round to continue with; or "".

    Labels that another program made are only looked at, until the user has painted
    there or chosen a tool.
    """
    layer = viewer.layers.selection.active
    name = label_name(layer)
    if name is None or not isinstance(layer, OMEZarrLabels):
        return ""
    is_in_use = layer.mode in PAINTING or layer.canvas.log.end > 0
    return name if is_in_use or not are_of_others(layer) else ""
