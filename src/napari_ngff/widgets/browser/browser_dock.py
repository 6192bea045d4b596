"""The browser: the map of a plate, the fields of a well, or a list of images."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, QSignalBlocker
from qtpy.QtGui import (  # type: ignore[attr-defined]
    QCursor,
    QKeyEvent,
    QKeySequence,
    QShortcut,
)
from qtpy.QtWidgets import (
    QApplication,
    QDockWidget,
    QMenu,
    QWidget,
)

from napari_ngff.metadata.model import GroupKind
from napari_ngff.plate.previews.preview import PreviewReader
from napari_ngff.plate.previews.preview_cache import PreviewCache
from napari_ngff.store.hierarchy.image_folder import BROWSED, find_images
from napari_ngff.viewer.browsing.positions import Position, WellFields, key_of
from napari_ngff.viewer.browsing.region_steps import STEP_KEYS
from napari_ngff.viewer.inspecting.inspection import node_of
from napari_ngff.viewer.reader import browse_folder, show_listed
from napari_ngff.viewer.services.notices import shorten_message
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.controls import CanvasMode, mode_of
from napari_ngff.widgets.browser.panel import BrowserPanel
from napari_ngff.widgets.browser.table_bar import TableDrops
from napari_ngff.widgets.canvas_keys import leave_space_key
from napari_ngff.widgets.connections import (
    Connections,
    WidgetTasks,
    connect_while_alive,
    make_timer,
)
from napari_ngff.widgets.dialogs import copy_text
from napari_ngff.widgets.docking import (
    ANNOTATE,
    INSPECTOR,
    RESULTS,
    bring_forward,
    place_dock,
    show_dock,
)
from napari_ngff.widgets.installation import install_widgets
from napari_ngff.widgets.theme_look import ThemeFollower

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.viewer.browsing.field_labels import WellStates

MAP_KEY = "Ctrl+Shift+M"
"""Leads to the map from wherever the keys are."""


class BrowserDock(BrowserPanel):
    """Shows the browser of the session; a dropped plate or folder is browsed next."""

    def __init__(
        self, napari_viewer: ViewerModel, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        install_widgets()
        self._viewer = napari_viewer
        self._session = session_of(napari_viewer)
        self._browser: Browser | None = None
        self._well: str | None = ""  # "" is no well yet; None is a group without wells
        self._listed: str | None = None  # the well whose fields are listed
        self._positions: tuple[Position, ...] = ()  # of the listed fields
        self._failures: dict[str, str] = {}
        self._counted_runs: tuple[int, ...] = ()  # acquisitions, for the map
        self._tasks = WidgetTasks(self)
        self._following = Connections(self)
        # Runs while a second click of a double-click can follow.
        pause = QApplication.doubleClickInterval()
        self._click = make_timer(self, pause, self._show_clicked)
        self._clicked: str | None = None
        self._menu = QMenu(self)
        TableDrops(napari_viewer, self.tables)
        self._map_key = QShortcut(QKeySequence(MAP_KEY), self)
        self._map_key.activated.connect(self.focusMap)
        leave_space_key(self)
        self._connect_signals()
        self._follow_viewer()
        place_dock(napari_viewer, self)
        ThemeFollower(self, napari_viewer, self.setColors)

    def _connect_signals(self) -> None:
        connect_while_alive(self._session.browsing, self, self.setBrowser)
        self.dropped.connect(self.showPath)
        self.plates.activated.connect(self._on_plate)
        self.map.chosen.connect(self.goToWell)
        self.map.approached.connect(self.zoomToWell)
        self.map.pinned.connect(self.pinWell)
        self.map.menu_wanted.connect(self._on_map_menu)
        self.map.stepped.connect(self.stepWell)
        self.map.picked.connect(self._on_picked)
        self.tables.results_wanted.connect(self._on_results)
        self.map.hovered.connect(self._on_hovered)
        self.well.chosen.connect(self.goToField)
        self.images.chosen.connect(self.showImage)
        self.images.added.connect(self.addImage)
        self.feed.errors_changed.connect(self._on_errors)
        self.cancel.clicked.connect(self._on_cancel)
        self.annotate.clicked.connect(self._on_annotate)
        self.controls.mode_chosen.connect(self.showMode)
        self.controls.geometry_chosen.connect(self._on_geometry)
        self.controls.acquisitions_chosen.connect(self._on_acquisitions)
        self.controls.labels_chosen.connect(self._on_labels)

    # --- what is browsed

    def browser(self) -> Browser | None:
        """Return the browser of a plate, well or collection; None for none."""
        return self._browser

    def setBrowser(self, browser: Browser) -> None:
        """Browse another plate, well or collection."""
        self.setPlates(self._session.plates.browsers, str(browser.node))
        if browser is self._browser:
            return
        self._leave_browser()
        self._browser = browser
        node = browser.node
        for signal, slot in (
            (browser.layers_changed, self._on_layers),
            (browser.labels_offered, self._on_labels_offered),
            (browser.approached, self._select_well),
            (browser.clicked, self._on_canvas_click),
            (browser.menu_wanted, self._on_menu),
            (browser.wells_changed, self._show_problems),
            (browser.busy, self._on_busy),
            (browser.states.changed, self._want_states),
            (browser.wells_selected, self._show_selected),
        ):
            self._following.connect(signal, slot)
        location, alike = node.location, node.kind in (GroupKind.PLATE, GroupKind.WELL)
        cache = PreviewCache()
        # The images of a folder may be of any version.
        version = None if node.kind is GroupKind.SERIES else node.zarr_format
        reader = PreviewReader(location.source, version, alike=alike, cache=cache)
        self.feed.setReader(reader, location.path)
        plate = node.metadata.plate
        name = (plate.name if plate is not None else "") or node.name
        kind = "images" if node.kind is GroupKind.SERIES else node.kind
        self.title.setText(f"{name} ({kind})")
        self.map.setMap(browser.map)
        tables = self._session.open_tables()
        self.tables.setTables(tables)
        self.controls.filter.setText("" if tables is None else tables.joined.text)
        self._show_selected()
        self._show_problems()
        self.showPages(node.kind)
        self._on_labels_offered()
        self._on_layers()
        if node.kind is GroupKind.PLATE:
            self.map.setFocus()
            self._tasks.start_task("labels", browser.label_names, self._on_label_names)
            self._want_states()
        else:
            self._show_well(None)

    def showPath(self, path: str) -> None:
        """Browse the group at a path or an address; show a plate as an overview."""
        self.status.setText("Opening…")
        self._tasks.start_task("opened", lambda: find_images(path), self._on_found)

    def event(self, event: QEvent | None) -> bool:
        """Follow the browser no longer once napari has removed the dock."""
        is_moved = event is not None and event.type() == QEvent.Type.ParentChange
        if is_moved and isinstance(self.parentWidget(), QDockWidget):
            # Behind another tab this widget is disabled, and so are its keys.
            self._map_key.setParent(self.parentWidget())
        if is_moved and self.parentWidget() is None:
            # Else both would be called until Python's garbage is collected, and once
            # that has begun, in a worker, a call fails.
            self._disconnect_browser()
            if (tables := self.tables.tables()) is not None:
                tables.stop()
            self.tables.setTables(None)
        return bool(super().event(event))

    def _disconnect_browser(self) -> None:
        self._browser = None
        self._following.end()
        self._menu.clear()

    def _leave_browser(self) -> None:
        self._disconnect_browser()
        self._well, self._failures, self._clicked = "", {}, None
        self._click.stop()
        self._tasks.cancel_others("opened")  # that task may be opening the next one
        self._tasks.cancel_others("states")
        self.tables.setTables(None)
        self.clear()

    def _follow_viewer(self) -> None:
        """Begin with what is browsed already, or with the group of the active layer."""
        if self._session.browser is not None:
            self.setBrowser(self._session.browser)
            return
        node = node_of(self._viewer.layers.selection.active)
        if node is not None and node.kind in BROWSED:
            self._session.browse(node)

    # --- what the user does

    def goToWell(self, path: str) -> None:
        """Show a well as the canvas shows wells now: one field, or the whole well."""
        self._well = "" if path in self.map.state.problems else self._well  # ask again
        self._clicked = path
        # The frame stays at the field on screen until the next field is shown.
        if self._browser is None or self._browser.position is None:
            self._mark_well(path)
        if self._canvas_mode() is CanvasMode.FIELD:
            self._show_clicked()
        else:
            # It may be the first of a double-click, which keeps the overview on screen.
            self._click.start()

    def zoomToWell(self, path: str) -> None:
        """Bring a well of the mosaic in view."""
        self._click.stop()
        if self._browser is not None:
            self._mark_well(path)
            self._browser.zoom_to(path)

    def goToField(self, field: str) -> None:
        """Show a field of the well below the map."""
        self._click.stop()
        if self._browser is not None:
            self._browser.show_field(self._listed, field)

    def showImage(self, path: str) -> None:
        """Show an image of a collection or a folder in place of the one on screen."""
        if self._browser is not None:
            self._browser.show_image(path)

    def addImage(self, path: str) -> None:
        """Show an image beside the one on screen, or take it away again."""
        if self._browser is not None:
            self._browser.toggle_pin(None, path)

    def showMode(self, mode: CanvasMode) -> None:
        """Show the plate, the selected wells, a well, or a field."""
        self._click.stop()
        browser = self._browser
        if browser is None:
            return
        wells = self.map.state.map.wells
        well = self._clicked or self._well or (wells[0].path if wells else None)
        if mode is CanvasMode.PLATE:
            browser.show_mosaic()
        elif mode is CanvasMode.SELECTED:
            browser.show_mosaic(self.map.selected())
        elif mode is CanvasMode.WELL:
            browser.show_mosaic(() if well is None else [well])
        else:
            browser.show_field(well)
        self._show_mode()

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """Step like the canvas: to wells by arrows, to fields by comma and period."""
        key = event.text() if event is not None else ""
        if event is not None and key in STEP_KEYS:
            self._click.stop()
            self._session.regions.step(STEP_KEYS[key])
            event.accept()
        else:
            self.map.keyPressEvent(event)

    def pinWell(self, path: str) -> None:
        """Show a well beside what is shown, or take it away again."""
        if self._browser is not None:
            self._browser.toggle_pin(path)

    def stepWell(self, rows: int, columns: int) -> None:
        """Go to the next well in a direction."""
        self._click.stop()
        if self._browser is not None:
            self._browser.step_well(rows, columns)

    def focusMap(self) -> None:
        """Let the keys go to the map, or to the list of images."""
        bring_forward(self)
        candidates = (self.map, self.images.list, self)
        next(w for w in candidates if w.isVisible() or w is self).setFocus()

    # --- the menu of a well or a field

    def _on_canvas_click(self, position: Position) -> None:
        self._select_well(position.well)

    def _on_map_menu(self, path: str) -> None:
        self._on_menu(Position(path, ""))

    def _on_menu(self, position: Position) -> None:
        """Open the menu of a well or a field."""
        browser, well, field = self._browser, position.well, position.field or None
        if browser is None:
            return
        name, pinned = browser.name_field(position), browser.pinned_fields
        compared = any(p.well == well and field in (None, p.field) for p in pinned)
        title = "Stop comparing" if compared else "Compare"
        self._menu.clear()
        self._menu.addAction(f"Open {name}", lambda: browser.show_field(well, field))
        self._menu.addAction(title, lambda: browser.toggle_pin(well, field))
        self._menu.addAction("Inspect", lambda: self._inspect(browser, position))
        self._menu.addAction("Copy name", lambda: copy_text(name))
        self._click.stop()
        self._menu.popup(QCursor.pos())

    def _inspect(self, browser: Browser, position: Position) -> None:
        address = browser.node.location.join_path(key_of(position))
        show_dock(self._viewer, INSPECTOR).showPath(str(address))

    def _on_annotate(self) -> None:
        show_dock(self._viewer, ANNOTATE)

    def _on_results(self) -> None:
        show_dock(self._viewer, RESULTS)

    def _on_picked(self) -> None:
        if self._browser is not None:
            self._browser.select_wells(self.map.selected())
        self._show_mode()

    def _show_selected(self) -> None:
        if self._browser is not None:
            # Else wells of other plates, which it has not, would be selected no more.
            blocker = QSignalBlocker(self.map)
            self.map.setSelected(self._browser.selected_wells)
            blocker.unblock()
        self._show_mode()

    def _on_cancel(self) -> None:
        if self._browser is not None:
            self._browser.cancel_reading()

    def _on_acquisitions(self, ids: tuple[int, ...]) -> None:
        if self._browser is not None:
            self._browser.choose_acquisitions(ids)

    def _on_labels(self, name: str | None) -> None:
        if self._browser is not None:
            self._browser.choose_labels(name)

    def _show_clicked(self) -> None:
        path = self._clicked
        if self._browser is None or path is None:
            return
        self._browser.show_well(path)

    def _on_geometry(self, wells: int | None) -> None:
        if self._browser is not None:
            self._browser.geometry = wells
            self.map.setMap(self._browser.map)

    # --- signals of the browser

    def _mark_well(self, well: str | None) -> None:
        self.map.setCurrent(well)
        self._show_well(well)

    def _select_well(self, well: str | None) -> None:
        """Select a well on the map, and list its fields."""
        if well is not None:
            self.map.setSelected([well])
        self._mark_well(well)

    def _on_layers(self) -> None:
        browser = self._browser
        if browser is None:
            return
        self.map.change_state(pinned={p.well for p in browser.pinned_fields})
        self.controls.setAcquisitions(browser.acquisitions, browser.chosen_acquisitions)
        self.controls.showLabels(browser.labels)
        self.well.setRuns(browser.chosen_acquisitions)
        if self._counted_runs != browser.chosen_acquisitions:
            self._want_states()
        chosen = browser.chosen_acquisitions if len(browser.acquisitions) > 1 else ()
        self.feed.setAcquisition(next(iter(chosen), None))
        self._show_mode()
        self.well.setCurrent(None)
        if browser.position is None:
            self._show_overview(browser)
        else:
            self._show_position(browser, browser.position)

    def _show_overview(self, browser: Browser) -> None:
        self.status.setText("")
        if self._canvas_mode() is CanvasMode.WELL and browser.shown_wells:
            self._mark_well(browser.shown_wells[0])
        elif self._canvas_mode() is CanvasMode.SELECTED and not self.map.selected():
            self.map.setSelected(browser.shown_wells)

    def _show_position(self, browser: Browser, position: Position) -> None:
        self.status.setText(browser.name_field(position))
        if position.well not in (None, self.map.state.current):
            self.map.setSelected([position.well])
        self._mark_well(position.well)
        self.well.setCurrent(position.field)
        self.images.list.setCurrent(position.field)

    def _on_busy(self, busy: bool) -> None:
        self.showBusy(busy)
        if not busy and not self._click.isActive():
            self._return_from_click()

    def _return_from_click(self) -> None:
        """Select the well on screen, if the one that was clicked cannot be shown."""
        clicked, self._clicked = self._clicked, None
        if self._browser is None or clicked is None:
            return
        position = self._browser.position
        if position is None or position.well in (None, clicked):
            return
        if self.map.selected() == (clicked,):
            self.map.setSelected([position.well])
        if clicked in self._browser.problems:
            self.status.setText(shorten_message(self._browser.problems[clicked]))

    def _show_problems(self) -> None:
        if self._browser is not None:
            problems = {**self._failures, **self._browser.problems}
            problems = {well: reason for well, reason in problems.items() if reason}
            self.map.change_state(problems=problems)

    def _want_states(self) -> None:
        """Count the states of annotation in a worker, and show them on the map."""
        browser = self._browser
        if browser is not None:
            self._counted_runs = browser.chosen_acquisitions
            count = partial(browser.count_states, self._counted_runs)
            self._tasks.start_task("states", count, self._on_states)

    def _on_states(self, states: dict[str, WellStates] | str) -> None:
        self.map.change_state(states={} if isinstance(states, str) else states)
        self._show_field_states()

    def _show_field_states(self) -> None:
        """Show how far each listed field is."""
        if self._browser is not None:
            states = self._browser.states
            listed = {p.field: states.state_of(key_of(p)) for p in self._positions}
            self.well.setStates(listed)
            self.images.list.setStates(listed)

    def _on_errors(self, errors: dict[str, str]) -> None:
        self._failures.update(errors)
        self._show_problems()

    # --- results of workers

    def _on_label_names(self, names: tuple[str, ...] | str) -> None:
        if not isinstance(names, str) and self._browser is not None:
            self._browser.offer_labels(names)

    def _on_labels_offered(self) -> None:
        browser = self._browser
        if browser is None:
            return
        if browser.kind in (GroupKind.PLATE, GroupKind.WELL):
            self.controls.setLabels(browser.known_labels, browser.labels)

    def _show_well(self, well: str | None) -> None:
        """Show the fields of a well, or the images of a collection."""
        browser = self._browser
        if browser is None or well == self._well:
            return
        self._well = well
        self.well.setHint(False)
        start = self._tasks.start_task
        start("fields", lambda: browser.fields_of(well), self._on_fields)
        if browser.kind in (GroupKind.PLATE, GroupKind.WELL):
            names = partial(browser.label_names, well)
            start("labels here", names, self._on_label_names)

    def _on_fields(self, fields: WellFields | str) -> None:
        browser = self._browser
        if browser is None:
            return
        if isinstance(fields, str):
            self.status.setText(fields)
            fields = WellFields(())
        else:
            self._on_hovered("")
        if browser.kind in (GroupKind.PLATE, GroupKind.WELL):
            self.well.setFields(fields)
        else:
            self.images.setImages(
                (f.position.field, f.title, f.problem) for f in fields.fields
            )
        self._positions = tuple(field.position for field in fields.fields)
        self._show_field_states()
        self._show_problems()
        # A click on a field goes to the well that was listed when it was clicked.
        self._listed = self._well
        self.feed.setWell(self._well)
        position = browser.position
        if position is not None and position.well == self._well:
            self.well.setCurrent(position.field)

    def _on_found(self, node: Node | str) -> None:
        if isinstance(node, str):
            self.status.setText(node)
            return
        browser = browse_folder(self._viewer, node)
        if node.kind in (GroupKind.PLATE, GroupKind.WELL):
            browser.show_mosaic()

    # --- what is shown

    def _on_plate(self, row: int) -> None:
        show_listed(self._session, self.plates.itemData(row))

    def _canvas_mode(self) -> CanvasMode | None:
        return None if self._browser is None else mode_of(self._browser)

    def _show_mode(self) -> None:
        browser = self._browser
        if browser is not None:
            has_plate = browser.kind is GroupKind.PLATE
            self.controls.setMode(
                self._canvas_mode(), bool(self.map.selected()), has_plate
            )

    def _on_hovered(self, path: str) -> None:
        well = self.map.wellOf(path)
        browser = self._browser
        title = (
            browser.name_field(browser.position) if browser and browser.position else ""
        )
        self.status.setText(well.name if well is not None else title)
