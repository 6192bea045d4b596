"""Browses a plate, a well or a collection of images in one viewer; no Qt.

`session_of(viewer).browse(node)` gives the `Browser`. Methods named as questions
(`fields_of`, `label_names`) read files: call them through `run_work`. Actions read
in a worker by themselves and change layers in the main thread; of two actions only
the later one counts.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.metadata.model import GroupKind
from napari_ngff.plate.plate_layout import MapWell, PlateMap, map_plate
from napari_ngff.store.write.label_list_watch import (
    image_of_list,
    unwatch_lists,
    watch_lists,
)
from napari_ngff.viewer.browsing.camera import camera_of, is_fitted
from napari_ngff.viewer.browsing.canvas_controls import NavigationKeys
from napari_ngff.viewer.browsing.display import Display
from napari_ngff.viewer.browsing.field_labels import (
    AnnotatedLabels,
    AnnotationStates,
    RenamedFields,
    WellStates,
    find_annotated,
    rename_in_fields,
)
from napari_ngff.viewer.browsing.pins import PinnedFields
from napari_ngff.viewer.browsing.positions import (
    FieldPlace,
    Position,
    WellFields,
    fields_of,
    key_of,
    label_names,
    names_in_image,
    names_in_saved,
)
from napari_ngff.viewer.browsing.shown_fields import FieldStep, WellStep
from napari_ngff.viewer.notices import last_part, shorten_name
from napari_ngff.viewer.unexpected import Signal, attempt_work, call_all, going_on
from napari_ngff.viewer.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.metadata.model import Acquisition
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.camera import Corners
    from napari_ngff.viewer.browsing.canvas_controls import CanvasClicks
    from napari_ngff.viewer.placing.layer_groups import LayerGroup

__all__ = ["Browser", "FieldPlace", "Position", "WellFields"]


class Browser:
    """Browses one plate, well or collection in one viewer.

    Attributes
    ----------
    states
        How far the annotation of each field is.
    """

    position_changed = Signal(object)
    """Emitted with the `Position` that is shown now; None for a mosaic."""
    approached = Signal(str)
    """Emitted with the path of a well of a mosaic to which a key has moved the view."""
    wells_changed = Signal()
    """Emitted when `problems` has changed: a well was found broken."""
    layers_changed = Signal()
    """Emitted when wells or fields shown, pins, acquisitions or labels have changed."""
    labels_offered = Signal()
    """Emitted when `known_labels` has got more names."""
    path_opened = Signal(str)
    """Emitted with the address of a plate or a collection in a folder, to be opened."""
    busy = Signal(bool)
    """Emitted with True when an action starts to read, False when all is shown."""

    def __init__(self, viewer: ViewerModel, node: Node) -> None:
        self._viewer = weakref.ref(viewer)
        self._node = node
        self._geometry: int | None = None
        self._map: PlateMap | None = None
        self._problems: dict[str, str] = {}
        self._word = (
            "field" if node.kind in (GroupKind.PLATE, GroupKind.WELL) else "image"
        )
        if node.kind is GroupKind.SERIES:
            self._word = ""  # names of files
        listener = DisplayListener(self)
        self.states = AnnotationStates(node)
        self._display = Display(viewer, node, listener)
        runs = self.acquisitions
        # Fields of several acquisitions lie over each other: at first one of them is
        # shown.
        if len(runs) > 1:
            self._display.choose_acquisitions((runs[0].id,))
        pinning, pinned = listener.on_pins_busy, listener.on_pins_changed
        self._pins = PinnedFields(self._display, listener.name_field, pinning, pinned)
        self._whereabouts = NavigationKeys(viewer, self)
        self._known_labels: dict[str, None] = {}
        self._saved_labels = ""  # name of the labels that were saved last
        self._was_chosen = False
        self._clicked_well: str | None = None
        self.canvas_clicks.clicked.connect(self._note_click)
        watch_lists(self._on_list_saved)

    def close(self) -> None:
        """Stop acting on the viewer; the layers stay."""
        unwatch_lists(self._on_list_saved)
        self._display.close()
        self._pins.cancel_reading()
        self._whereabouts.close()

    @property
    def node(self) -> Node:
        """The plate, the well (opened without a plate) or the collection."""
        return self._node

    @property
    def kind(self) -> GroupKind | None:
        """Kind of the node; one of `BROWSED` in ``store/hierarchy/image_folder.py``."""
        return self._node.kind

    @property
    def map(self) -> PlateMap:
        """The map, from the plate's metadata alone; empty where there is no plate."""
        if self._map is None:
            plate = self._node.metadata.plate
            empty = PlateMap((), (), ())
            self._map = empty if plate is None else map_plate(plate, self._geometry)
        return self._map

    @property
    def geometry(self) -> int | None:
        """Number of wells of the plate that the map shows; None for what fits.

        Can be set to a key of `napari_ngff.plate.plate_layout.GEOMETRIES`.
        """
        return self._geometry

    @geometry.setter
    def geometry(self, wells: int | None) -> None:
        # Rows and columns follow from the geometry, so the map is made anew.
        self._geometry, self._map = wells, None

    @property
    def problems(self) -> dict[str, str]:
        """Reasons why wells are not shown, or not whole, by path; as far as known."""
        problems = self._display.problems
        return {well or "": text for well, text in problems.items()}

    @property
    def acquisitions(self) -> tuple[Acquisition, ...]:
        """Of the plate; () where it names none."""
        plate = self._node.metadata.plate
        return plate.acquisitions if plate is not None else ()

    @property
    def chosen_acquisitions(self) -> tuple[int, ...]:
        """Ids of the acquisitions that are shown; () for all fields together."""
        return self._display.shown.acquisitions

    @property
    def labels(self) -> str | None:
        """Name of the labels that overviews show."""
        return self._display.shown.labels

    @property
    def known_labels(self) -> tuple[str, ...]:
        """Names of the labels that were found in images, or saved into one."""
        return tuple(self._known_labels)

    @property
    def position(self) -> Position | None:
        """The field on screen; None for an overview, or nothing."""
        return self._display.shown.position

    @property
    def is_drawing(self) -> bool:
        """Return whether wells of an overview are still being read."""
        return self._display.is_drawing

    @property
    def shown_wells(self) -> tuple[str, ...]:
        """Paths of the wells of the overview, or of the well of the field."""
        return self._display.shown.wells

    @property
    def pinned_fields(self) -> tuple[Position, ...]:
        """The fields that are shown for comparison."""
        viewer = self._viewer()
        return self._pins.pinned_positions(viewer) if viewer is not None else ()

    @property
    def canvas_clicks(self) -> CanvasClicks:
        """The clicks on the canvas."""
        return self._whereabouts.clicks

    # Questions: they read.

    def fields_of(self, well: str | None) -> WellFields:
        """Read the images of a well, or of the collection, and where they lie.

        Images that a server did not deliver are asked for again. Raises what
        `positions_of` does.
        """
        # The user asks by showing the well: the one moment at which a failed request is
        # repeated.
        self._display.resolver.arrangements.retry_wells([well])
        return fields_of(self._display.resolver.arrangements, well)

    def positions_of(self, well: str | None) -> tuple[Position, ...]:
        """Read which images a well, or the collection, lists; the images are not read.

        Raises
        ------
        OMEZarrError, OSError
            Where the well cannot be read.
        """
        fields = self._display.resolver.arrangements.screen.list_fields(well)
        return tuple(Position(well, field.path, field.acquisition) for field in fields)

    def label_names(self, well: str | None = None) -> tuple[str, ...]:
        """Read the names of the labels of a well's first image (by default of a few
        wells, and of the fields saved last).
        """
        asked = [well] if well is not None else [w.path for w in self.map.wells]
        names = label_names(self._display.resolver.arrangements, asked or [None])
        saved = names_in_saved(self._node) if well is None else []
        return tuple(dict.fromkeys([*names, *saved]))

    def offer_labels(self, names: Iterable[str]) -> None:
        """Add names to `known_labels`."""
        count = len(self._known_labels)
        self._known_labels.update(dict.fromkeys(names))
        if len(self._known_labels) > count:
            self.labels_offered.emit()

    def _on_list_saved(self, root: str, group: str) -> None:
        """Offer the label images of a list that was saved, in whatever thread."""
        image = image_of_list(self._node.location, root, group)
        if image is not None:
            Window.current.run_in_main(partial(self._read_labels, image))

    def _read_labels(self, image: str) -> None:
        """Read the labels of an image again, and offer them."""
        self._display.forget_image(image)
        read = partial(names_in_image, self._node, image)
        Window.current.run_work(read, self.offer_labels)

    def _show_in_overviews(self, name: str) -> None:
        """Let overviews show labels that are saved, until the user chooses others."""
        if name != self._saved_labels:
            self._saved_labels = name
            self.offer_labels([name])
            self.choose_labels(name)

    def find_annotated(self, places: Iterable[Position], name: str) -> AnnotatedLabels:
        """Find the labels that were annotated in some images; see `positions`."""
        last = self.states.shown_labels
        return find_annotated(self._display.resolver.arrangements, places, name, last)

    def rename_class(
        self, labels: str, names: tuple[str, str], goes_on: Callable[[int, int], bool]
    ) -> RenamedFields:
        """Rename a class in all fields but the one on screen; see `rename_in_fields`.

        Labels on screen get the new name in their layer.
        """
        screen = self._display.resolver.arrangements.screen
        positions: list[Position] = []
        wells: list[str | None] = [well.path for well in self.map.wells]
        for well in wells or [None]:
            with suppress(OMEZarrError, OSError):  # the map shows it crossed out
                positions += self.positions_of(well)
        if self.position in positions:
            positions.remove(self.position)
        result = rename_in_fields(screen, positions, labels, names, goes_on)
        # What was read ahead has the name before.
        for position in result.renamed:
            forget = partial(self._display.forget_image, key_of(position))
            Window.current.run_in_main(forget)
        return result

    def count_states(self) -> dict[str, WellStates]:
        """Read how many fields of each well are annotated, in progress, or flagged.

        Wells of which all fields are to do are left out, and not read.

        Raises
        ------
        CorruptDataError, OSError
            Where the states cannot be read.
        """
        well_states = {}
        for path, counts in self.states.count_by_well().items():
            if self.well_at(path) is None:
                continue
            try:
                total = len(self.positions_of(path))
            except (OMEZarrError, OSError):
                # The document of the well cannot be read: at least these fields exist.
                total = sum(counts.values())
            well_states[path] = WellStates(counts, total)
        return well_states

    # Actions.

    def show_mosaic(self, wells: Iterable[str] | None = None) -> None:
        """Show wells as one picture: all fields of all of them, or of some."""
        chosen = None if wells is None else tuple(wells)
        self._display.show_overview(chosen or None, zoom_well="")

    def show_field(self, well: str | None, field: str | None = None) -> None:
        """Show one field as ordinary layers; the first one of the well by default.

        Layers that show another image get the data of this one.
        """
        self._was_chosen, self._clicked_well = True, None
        self._display.show_field(Position(well, field or ""))

    def show_image(self, path: str) -> None:
        """Show an image of a collection or a folder instead of the one on screen.

        The images of a scene are on screen together: the view moves to this one. A
        plate or a collection in a folder is opened in its own browser.
        """
        if self.kind is GroupKind.SCENE and self._display.zoom_to_image(path):
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
            partial(attempt_work, partial(self._node.child, path)),
            show_found,
        )

    def step_well(self, rows: int, columns: int) -> None:
        """Go to the next readable well in a direction, to the field with the same name.

        In a mosaic the view moves from the well in its middle, or from one that was
        clicked since the last step, to the next; at first, while nobody has chosen a
        well or moved the view, to the first well.
        """
        if self._display.step_on(WellStep(rows, columns)):
            return
        path, viewer = self._clicked_well or self._find_middle_well(), self._viewer()
        well = self.well_at(path) if path is not None else None
        target = (
            self.map.find_neighbour(well, rows, columns) if well is not None else None
        )
        if not self._was_chosen and viewer is not None and is_fitted(viewer):
            shown = [each for each in self.map.wells if each.path in self.shown_wells]
            target = min(shown, key=lambda each: (each.row, each.column), default=None)
        if target is not None:
            self.zoom_to(target.path)
            self.approached.emit(target.path)

    def _note_click(self, position: Position) -> None:
        self._clicked_well = position.well
        self._was_chosen = True

    def step_field(self, step: int) -> None:
        """Go to the next field (1) or the one before (-1), also in the next well."""
        if not self._display.step_on(FieldStep(step)):
            path = (
                self.shown_wells[0]
                if len(self.shown_wells) == 1
                else self._find_middle_well()
            )
            if path is not None or not self.map.wells:
                self.show_field(path)

    def choose_acquisitions(self, ids: Sequence[int]) -> None:
        """Show the fields of one acquisition, or of several as layers of their own."""
        self._display.choose_acquisitions(tuple(ids))
        self.layers_changed.emit()

    def choose_labels(self, name: str | None) -> None:
        """Show the labels of this name in mosaics; None for none."""
        self._display.choose_labels(name)
        self.layers_changed.emit()

    def toggle_pin(self, well: str | None, field: str | None = None) -> None:
        """Compare a field with the one on screen, or stop comparing it."""
        viewer = self._viewer()
        if viewer is not None:
            self._pins.toggle_pin(viewer, well, field)

    def unpin_all(self) -> None:
        """Remove all fields that are shown for comparison."""
        viewer = self._viewer()
        if viewer is not None:
            self._pins.remove_all(viewer)
        self.layers_changed.emit()

    def zoom_to(self, well: str) -> None:
        """Bring a well in view, in the overview of the plate."""
        self._was_chosen, self._clicked_well = True, None
        # A camera move alone reads nothing, so wells on screen need no new overview.
        if self.position is None and well in self.shown_wells:
            self._display.fit_well(well)
        else:
            self._display.show_overview(None, zoom_well=well)

    def cancel_reading(self) -> None:
        """Stop reading; the layers stay as they are."""
        self._pins.cancel_reading()
        self._display.cancel_reading()

    # Positions in the world.

    def position_at(self, world: Sequence[float]) -> Position | None:
        """Find the field of an overview at a world coordinate; reads nothing."""
        image = self._display.find_image_at(world)
        if image is None:
            return None
        well, field = image
        run = field.acquisition if field is not None else None
        return Position(well, field.path if field is not None else "", run)

    def compared_at(self, world: Sequence[float]) -> Position | None:
        """Find the field that is shown for comparison at a world coordinate."""
        viewer = self._viewer()
        return None if viewer is None else self._pins.find_pinned(viewer, world)

    def well_cells(self) -> dict[str, Corners]:
        """Return the corners of the wells of an overview in the world, by path."""
        return self._display.well_cells()

    def compared_corners(self) -> tuple[tuple[str, tuple[float, float]], ...]:
        """Name the images that are compared, each with its first corner, y and x.

        With the image that is shown, which comes first; () where nothing is pinned.
        """
        viewer = self._viewer()
        corners = {} if viewer is None else self._pins.pinned_corners(viewer)
        if not corners:
            return ()
        images, position = self._display.image_layers(), self.position
        if position is not None and images:
            # Row 0 is the corner with the least coordinates, of the whole layer.
            y, x = images[0].extent.world[0, -2:]
            corners = {position: (float(y), float(x)), **corners}
        wells = [self.well_at(p.well) if p.well else None for p in corners]
        names = [
            p.field if w is None else w.name
            for p, w in zip(corners, wells, strict=True)
        ]
        # Fields of one number are compared by their wells alone.
        alike = len({p.field for p in corners if p.well}) < 2
        return tuple(
            (name if alike and names.count(name) == 1 else self.name_field(p), corner)
            for name, (p, corner) in zip(names, corners.items(), strict=True)
        )

    def name_field(self, position: Position) -> str:
        """Name an image: "B3 - field 2", and one of several acquisitions."""
        well = self.well_at(position.well) if position.well is not None else None
        parts = [well.name if well is not None else position.well or ""]
        if position.field:
            parts.append(f"{self._word} {position.field}".strip())
        plate, run = self.node.metadata.plate, position.acquisition
        if plate is not None and run is not None and len(plate.acquisitions) > 1:
            parts.append(plate.name_acquisition(run))
        return " - ".join(part for part in parts if part)

    def well_at(self, path: str) -> MapWell | None:
        """Find a well of the map by its path."""
        return next((well for well in self.map.wells if well.path == path), None)

    def owns_layer(self, layer: Layer) -> bool:
        """Return whether a layer is one of the browser."""
        return self._display.owns_layer(layer)

    def title_of(self, layer: Layer) -> str:
        """Name the image that a layer shows or belongs to; "" for others' layers.

        It is not that of the caption where several acquisitions are on screen.
        """
        position = self.position_of(layer)
        return "" if position is None else self.name_field(position)

    def position_of(self, layer: Layer) -> Position | None:
        """Return the image that a layer shows or belongs to; None for an overview."""
        return self._display.position_of(layer)

    def adopt_mosaics(
        self, groups: Sequence[LayerGroup], wells: Sequence[str] | None = None
    ) -> None:
        """Take over mosaics that a reader made, and that are about to become layers.

        Parameters
        ----------
        groups
            As `napari_ngff.viewer.node_contents.open_contents` returns them.
        wells
            Paths of the wells that they show; all by default.
        """
        self._display.adopt_mosaics(groups, wells)
        self.layers_changed.emit()

    def _find_middle_well(self) -> str | None:
        """Return the well in the middle of the view of a mosaic."""
        viewer = self._viewer()
        if viewer is None:
            return None
        image = self._display.find_image_at(camera_of(viewer).center[-2:])
        return image[0] if image is not None else None


class DisplayListener:
    """Turns notifications of a display into signals of a browser."""

    def __init__(self, browser: Browser) -> None:
        self._browser = weakref.ref(browser)
        self._reading: set[str] = set()

    def read_map(self) -> PlateMap:
        browser = self._browser()
        return PlateMap((), (), ()) if browser is None else browser.map

    def on_busy(self, busy: bool) -> None:
        self._report_busy("shown", busy)

    def on_pins_busy(self, busy: bool) -> None:
        self._report_busy("pinned", busy)

    def _report_busy(self, what: str, busy: bool) -> None:
        """Report the end of reading once the field and the pins are there."""
        (self._reading.add if busy else self._reading.discard)(what)
        browser = self._browser()
        if browser is not None and (busy or not self._reading):
            browser.busy.emit(busy)

    def on_shown(self) -> None:
        browser = self._browser()
        if browser is None:
            return
        position = browser.position
        viewer = browser._viewer()
        if viewer is not None:
            # Before the signals: listeners must meet the pinned layers in their new
            # places.
            with going_on():
                browser._pins.follow_field(viewer)
        title = browser.name_field(position) if position is not None else ""
        call_all(
            partial(browser._whereabouts.show_title, title),
            partial(browser.position_changed.emit, position),
            browser.layers_changed.emit,
            browser._whereabouts.refresh_status,
            self.on_problems,
        )

    def on_labels_saved(self, key: str, name: str) -> None:
        browser = self._browser()
        if browser is not None:
            browser.states.begin_field(key, name)
            browser._show_in_overviews(name)

    def name_field(self, position: Position) -> str:
        browser = self._browser()
        return "" if browser is None else browser.name_field(position)

    def on_pins_changed(self) -> None:
        browser = self._browser()
        if browser is not None:
            browser.layers_changed.emit()

    def on_problems(self) -> None:
        browser = self._browser()
        if browser is not None and browser.problems != browser._problems:
            browser._problems = browser.problems
            browser.wells_changed.emit()
