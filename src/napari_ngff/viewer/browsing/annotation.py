"""The round of annotation: the same labels and classes in field after field.

Walks with a `Browser`. Before it goes on it saves; in a field that has no labels of
the name it makes some, of which nothing is written until somebody paints.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_error, show_warning
from psygnal import Signal

from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.states import TODO, FieldStates
from napari_ngff.viewer import frontend, session
from napari_ngff.viewer.painting.classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import TARGET, new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.picture import KEY, LayerOrigin

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.labels.classes import LabelClass
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.positions import Position

__all__ = ["Annotation", "annotate", "label_name"]

BEGUN = "in progress"

TOOLS = (
    "brush_size",
    "contiguous",
    "preserve_labels",
    "n_edit_dimensions",
    "contour",
    "opacity",
    "only_over",
    "selected_label",
    "mode",
)
"""What is in hand, and stays so from field to field."""

WAIT = 0.005
"""Seconds between two looks at a save that goes on in another thread."""


class Annotation:
    """One round of annotation; ends with `close`, or when another one begins.

    From a mosaic it goes to the first field that nobody has begun.

    Parameters
    ----------
    viewer
        Has the browser.
    browser
        Of a plate, a well or a collection.
    name
        Of the labels in every field.
    classes
        With which to begin.

    Attributes
    ----------
    fields
        Keys of all fields in order, such as "B/03/0"; empty until they are read.
    autosave
        Whether to save before going on. Else the window asks.
    """

    changed = Signal()
    """Emitted when a field was reached, or a state is another."""

    def __init__(
        self,
        viewer: ViewerModel,
        browser: Browser,
        name: str,
        classes: tuple[LabelClass, ...] = (),
    ) -> None:
        self._viewer = weakref.ref(viewer)
        self.browser = browser
        self.name = name
        self.classes = classes
        self.autosave = True
        self.fields: tuple[str, ...] = ()
        self._places: dict[str, Position] = {}
        self.states = FieldStates(browser.node)
        self._tools: dict[str, Any] = {}
        self._closed = False
        browser.position_changed.connect(self._arrive)
        frontend.run(self._list, self._listed)
        self._arrive(browser.position)

    def close(self) -> None:
        """Walk no more; layers and labels stay."""
        self._closed = True
        self.browser.position_changed.disconnect(self._arrive)

    def _list(self) -> dict[str, Position]:
        """Read which fields there are; those of broken wells are left out."""
        found = {}
        wells: list[str | None] = [well.path for well in self.browser.map.wells]
        for well in wells or [None]:
            if self._closed:
                break
            try:
                places = self.browser.positions_of(well)
            except (OMEZarrError, OSError):
                continue  # the map shows it crossed
            found.update({key_of(place): place for place in places})
        return found

    def _listed(self, places: dict[str, Position]) -> None:
        if self._closed:
            return
        self._places = places
        self.fields = tuple(places)
        if self.here is None and places:
            self.go(self.states.next_to_do(self.fields) or self.fields[0])
        self.changed.emit()

    # Where we are.

    @property
    def here(self) -> str | None:
        """Key of the field that is shown; None for a mosaic."""
        position = self.browser.position
        return None if position is None else key_of(position)

    @property
    def layer(self) -> OMEZarrLabels | None:
        """The labels of the field that is shown."""
        viewer = self._viewer()
        layers = [] if viewer is None or self.here is None else list(viewer.layers)
        mine = [x for x in layers if isinstance(x, OMEZarrLabels)]
        return next((x for x in mine if self._is_mine(x)), None)

    def _is_mine(self, layer: OMEZarrLabels) -> bool:
        """Whether labels are those of the round, whatever their layer is called."""
        return self.browser.owns(layer) and label_name(layer) == self.name

    @property
    def state(self) -> str:
        """Of the field that is shown."""
        return TODO if self.here is None else self.states.state(self.here)

    @property
    def progress(self) -> dict[str, int]:
        """How many fields are in each state."""
        return self.states.count(self.fields)

    def well_progress(self) -> dict[str, float]:
        """Share of the fields of each well that are done, by the well's path."""
        done: dict[str, list[bool]] = {}
        for key, place in self._places.items():
            if place.well is not None:
                done.setdefault(place.well, []).append(self.states.state(key) == "done")
        return {well: sum(flags) / len(flags) for well, flags in done.items()}

    def set_state(self, state: str) -> None:
        """Note the state of the field that is shown."""
        if self.here is not None:
            self._note(self.here, state)

    def _note(self, key: str, state: str) -> None:
        def work() -> Exception | None:
            try:
                self.states.set(key, state)
            except (OMEZarrError, OSError, ValueError) as error:
                return error
            return None

        def done(error: Exception | None) -> None:
            if error is not None:
                show_error(f"The state of {key} was not kept: {error}")
            self.changed.emit()

        frontend.run(work, done)

    # The round.

    def step(self, step: int) -> None:
        """Go to the next field (1) or the one before (-1), having saved this one."""
        self._leave(lambda: self.browser.step_field(step))

    def next_to_do(self) -> None:
        """Go to the next field that nobody has begun, having saved this one."""
        key = self.states.next_to_do(self.fields, self.here or "")
        if key is None or key == self.here:
            show_warning("Every field has been begun.")
            return
        self.go(key)

    def go(self, key: str) -> None:
        """Go to a field of `fields`, having saved this one."""
        place = self._places[key]
        self._leave(lambda: self.browser.show_field(place.well, place.field))

    def _leave(self, go: Callable[[], None]) -> None:
        """Save what is unsaved, in a worker, and then go; stay where that failed."""
        layer, here = self.layer, self.here
        if layer is None or not layer.unsaved:
            self._keep(layer)
            go()
            return
        if here is not None and self.state == TODO:
            self._note(here, BEGUN)
        self._keep(layer)
        if not self.autosave or layer.saver is None:
            go()
            return
        saver = layer.saver
        saver.save()

        def done(_: Any) -> None:
            if layer.unsaved:
                show_warning(f"{layer.name} is not saved; the field stays.")
            elif self.here == here and not self._closed:
                go()  # else the user went elsewhere meanwhile

        def wait() -> None:
            while saver.running:
                time.sleep(WAIT)

        frontend.run(wait, done)

    def _keep(self, layer: OMEZarrLabels | None) -> None:
        """Take classes and tools along."""
        if layer is not None:
            self.classes = classes_of_layer(layer).items
            self._tools = {tool: getattr(layer, tool) for tool in TOOLS}

    def _arrive(self, position: Position | None) -> None:
        """Have labels of the name in the field, with the classes of the round."""
        viewer = self._viewer()
        if viewer is None or position is None:
            self.changed.emit()
            return
        layer = self.layer or self._adopted(viewer) or self._made(viewer)
        if layer is not None:
            if self.classes:
                self._share(layer)
            layer.visible = True
            viewer.layers.selection.active = layer
            tools = self._tools if layer.editable else {}
            for tool, value in tools.items():
                if getattr(layer, tool) != value:
                    setattr(layer, tool, value)
        self.changed.emit()

    def _share(self, layer: OMEZarrLabels) -> None:
        """Give labels the classes; that alone is no reason to save them."""
        description = layer.saver.description if layer.saver is not None else None
        clean = description is not None and not description.changed
        classes_of_layer(layer).share(self.classes)
        if description is not None and clean:
            description.overlook()

    def _images(self, viewer: ViewerModel) -> list[Layer]:
        """List the channels of the field that is shown."""
        return [
            layer
            for layer in viewer.layers
            if layer._type_string == "image" and self.browser.owns(layer)
        ]

    def _adopted(self, viewer: ViewerModel) -> OMEZarrLabels | None:
        """Find labels of the name that somebody has made in the field already."""
        nodes = {
            str(layer.metadata[KEY].node)
            for layer in self._images(viewer)
            if isinstance(layer.metadata.get(KEY), LayerOrigin)
        }
        labels = [x for x in viewer.layers if isinstance(x, OMEZarrLabels)]
        for layer in labels:
            if label_name(layer) == self.name and _image_of(layer) in nodes:
                self.browser.take_labels(layer, self.name)
                return layer
        return None

    def _made(self, viewer: ViewerModel) -> OMEZarrLabels | None:
        images = self._images(viewer)
        if not images:
            return None
        try:
            layer = new_labels(images[0], self.name)
        except (OMEZarrError, ValueError, OSError) as error:
            show_error(f"There are no labels {self.name} here: {error}")
            return None
        viewer.add_layer(layer)
        self.browser.take_labels(layer, self.name)
        return layer


def label_name(layer: Layer | None) -> str | None:
    """Return the name of labels in their file, whatever their layer is called."""
    if not isinstance(layer, OMEZarrLabels):
        return None
    origin, target = layer.metadata.get(KEY), layer.metadata.get(TARGET)
    if isinstance(origin, LayerOrigin):
        return str(origin.node.name)
    return None if target is None else str(target.name)


def _image_of(layer: Layer) -> str:
    """Name the image that labels belong to, by its address."""
    origin, target = layer.metadata.get(KEY), layer.metadata.get(TARGET)
    if isinstance(origin, LayerOrigin):
        return str(origin.node).rsplit("/labels/", 1)[0]
    return "" if target is None else str(target.node)


def key_of(position: Position) -> str:
    """Name a field by its path below the plate, the well or the collection."""
    parts = (position.well, position.field)
    return "/".join(part for part in parts if part)


def annotate(viewer: ViewerModel, name: str) -> Annotation:
    """Begin a round of annotation in what the viewer browses; an older one ends.

    Raises
    ------
    ValueError
        Where nothing is browsed.
    CorruptDataError, OSError
        Where the states of the fields cannot be read.
    """
    viewer = getattr(viewer, "__wrapped__", viewer)
    browser = session.session_of(viewer).browser
    if browser is None:
        raise ValueError("Open a plate, a well or a collection first.")
    older = _rounds.pop(viewer, None)
    if older is not None:
        older.close()
    _rounds[viewer] = Annotation(viewer, browser, name)
    return _rounds[viewer]


_rounds: weakref.WeakKeyDictionary[Any, Annotation] = weakref.WeakKeyDictionary()
