"""The part of the browser about tables: choose, colour by a column, measure."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QEvent, QObject, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QMenu,
    QProgressBar,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
    QWidgetAction,
)

from napari_ngff.plate.tables.files import SUFFIXES
from napari_ngff.plate.tables.object_features import COLUMNS
from napari_ngff.viewer.browsing.joined_tables import TableView
from napari_ngff.viewer.browsing.table_offers import MeasureScope
from napari_ngff.viewer.layers.coloring import list_known
from napari_ngff.viewer.private.napari_window import qt_viewer_of
from napari_ngff.widgets.browser.controls import BrowserControls, make_caption
from napari_ngff.widgets.connections import (
    Connections,
    EventWatcher,
    choice_box,
    enable_if,
    filled_row,
    make_buttons,
    wrapping_label,
)
from napari_ngff.widgets.dialogs import ask_table_file, ask_table_to_load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qtpy.QtGui import QAction, QDropEvent  # type: ignore[attr-defined]

    from napari_ngff.viewer.browsing.plate_tables import PlateTables
    from napari_ngff.widgets.browser.plate_map import PlateMapView


NO_TABLE = "Load a table or measure labels first."


def is_table(path: str) -> bool:
    """Return whether a file is read as a table, by its name."""
    return path.lower().endswith(SUFFIXES)


class TableBar(QWidget):
    """Chooses tables and columns, and colours and dims the wells of a map by them.

    Parameters
    ----------
    plate_map
        Shows the values.
    controls
        Their filter line is applied here.
    """

    results_wanted = Signal()
    """Emitted when the user asks for the dock of results."""

    def __init__(
        self,
        plate_map: PlateMapView,
        controls: BrowserControls,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._map, self._controls = plate_map, controls
        self._tables: PlateTables | None = None
        self._following = Connections(self)
        tip = "Tables that were loaded or found; numbers of labels"
        self.table = choice_box(self, "Table", tip)
        tip = "Load a table: CSV or Parquet with a column 'well', or 'row' and 'column'"
        self.load_button, self.measure = make_buttons(
            self,
            ("Load…", tip, self._on_load),
            ("Measure", "Size, place and intensities of labels", None),
        )
        self.menu = QMenu(self.measure)
        # Ours, as the menu deletes its own ones when it lists labels anew.
        self._group_actions = [QWidgetAction(self) for _ in COLUMNS]
        # Boxes, a click on which leaves the menu open.
        self.groups = {group: QCheckBox(f"with {group}") for group in COLUMNS}
        self.column = choice_box(self, "Colour by", "Column that colours the map")
        tip = "How the rows of a well become one value"
        self.how = choice_box(self, "Value of a well", tip)
        self.how.setMinimumContentsLength(3)  # the dock is no wider when it appears
        self.log = QCheckBox("log", self)
        self.results, self.save_button, self.cancel = make_buttons(
            self,
            ("Results…", "Wells and conditions as a table", None),
            ("Save", "Save the chosen table into the plate, or as a file", None),
            ("Cancel", "", self._on_cancel),
        )
        self.save_menu = QMenu(self.save_button)
        self.progress = QProgressBar(self)
        self.note = wrapping_label(self)
        self._name_controls()
        self._lay_out()
        self._connect_signals()
        self._show_tables()

    def _name_controls(self) -> None:
        self.measure.setMenu(self.menu)
        boxes = self.groups.values()
        for box, action in zip(boxes, self._group_actions, strict=True):
            action.setDefaultWidget(box)
        for group, columns in COLUMNS.items():
            self.groups[group].setToolTip(", ".join(columns))
        self.save_button.setMenu(self.save_menu)
        self.save_menu.setToolTipsVisible(True)
        self.log.setToolTip(
            "Logarithmic colours. Set automatically for positive numbers that span"
            " more than two powers of ten."
        )
        # A thin line, in pixels: it says that something happens, without a number.
        self.progress.setMaximumHeight(6)
        self.progress.setTextVisible(False)
        for widget in (self.load_button, self.measure, self.save_button, self.results):
            widget.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        self.table_caption = make_caption("Table:", self.table, self)
        self.column_caption = make_caption("Colour:", self.column, self)
        # All rows are there from the beginning: the map below must not move.
        for wide, *parts in (
            (self.table, self.table_caption, self.table),
            (self.column, self.column_caption, self.column, self.how, self.log),
            (None, self.load_button, self.measure, self.results, self.save_button),
        ):
            row = filled_row(*parts, wide=wide)
            row.setSpacing(2)
            layout.addLayout(row)
        for widget in (self.how, self.log, self.progress, self.cancel):
            widget.hide()  # they would make a new dock wider than it needs

    def _connect_signals(self) -> None:
        # Methods: Qt keeps a lambda, and the widget it holds, for ever.
        self.table.activated.connect(self._on_table)
        self.column.activated.connect(self._on_column)
        self.how.activated.connect(self._on_how)
        self.log.clicked.connect(self._on_log)
        self.results.clicked.connect(self.results_wanted)
        self.menu.aboutToShow.connect(self._on_menu)
        self.save_menu.aboutToShow.connect(self._on_save_menu)
        self.menu.triggered.connect(self._on_measure)
        self._controls.filter_changed.connect(self._on_filter)
        self._controls.filter_applied.connect(self._on_filter_applied)

    # --- what it shows

    def tables(self) -> PlateTables | None:
        """Return the tables of the plate that is browsed; None for none."""
        return self._tables

    def setTables(self, tables: PlateTables | None) -> None:
        """Show the tables of a browser; None for none."""
        if self._tables is not None:
            self.destroyed.disconnect(self._tables.stop)
            self._following.end()
        self._tables = tables
        if tables is not None:
            self._following.connect(tables.changed, self._show_tables)
            self._following.connect(tables.message_sent, self._show_note)
            self._following.connect(tables.progressed, self._on_progress)
            self.destroyed.connect(tables.stop)
        self._on_progress(1, 1)
        self._show_tables()

    def load_file(self, path: str) -> None:
        """Read a table from a file and colour the map by it."""
        self._shown.load_file(path)

    @property
    def _shown(self) -> PlateTables:
        """The tables; the bar can be seen only while there are some."""
        assert self._tables is not None
        return self._tables

    # --- what the user does

    def _on_table(self, row: int) -> None:
        self._shown.choose_table(self.table.itemData(row))

    def _on_column(self, _: int) -> None:
        self._shown.color_by(self.column.currentData())

    def _on_how(self, _: int) -> None:
        self._shown.color_by(self.column.currentData(), self.how.currentText())

    def _on_log(self, checked: bool) -> None:
        self._shown.scale_by_log(checked)

    def _on_load(self) -> None:
        path = ask_table_to_load(self)
        if path:
            self.load_file(path)

    def _on_save_menu(self) -> None:
        """List what can be done with the chosen table."""
        self.save_menu.clear()
        tables = self._shown
        into = "plate" if tables.browser.map.wells else "images"
        paths = dict.fromkeys(x.path for x in tables.joined.offers if x.path)
        for text, call, reason in (
            (f"Save into the {into}", tables.save_in_plate, tables.why_not_saved),
            (
                "Save as a file…",
                self._on_save,
                "" if tables.joined.chosen else "Choose a table.",
            ),
            *(
                (f"Forget {name}", partial(tables.forget_file, name), "")
                for name in map(os.path.basename, paths)
            ),
        ):
            action: QAction = self.save_menu.addAction(text)
            action.triggered.connect(call)
            action.setEnabled(not reason)
            action.setToolTip(reason)

    def _on_save(self) -> None:
        table = self._shown.table
        path = ask_table_file(self, name=table.region if table is not None else "")
        if path:
            self._shown.save_table(path)

    def _on_cancel(self) -> None:
        self._shown.cancel_task()

    def _on_menu(self) -> None:
        """List the labels, and the regions where each can be measured now."""
        self.menu.clear()
        possible = {
            MeasureScope.FIELD: self._shown.browser.position is not None,
            MeasureScope.SELECTED: bool(self._map.selected()),
            MeasureScope.ALL: True,
        }
        for name in self._shown.browser.known_labels:
            for scope, is_possible in possible.items():
                action: QAction = self.menu.addAction(f"{name} {scope.value}")
                action.setData((name, scope))
                action.setEnabled(is_possible)
        self.menu.addSeparator()
        self.menu.addActions(self._group_actions)

    def _on_measure(self, action: QAction) -> None:
        if action in self._group_actions:
            return
        name, scope = action.data()
        groups = [group for group, box in self.groups.items() if box.isChecked()]
        wells = self._map.selected()
        self._shown.measure_labels(name, MeasureScope(scope), wells, groups)

    def _on_filter(self, text: str) -> None:
        if self._tables is not None:
            self._tables.filter_wells(text)

    def _on_filter_applied(self) -> None:
        if self._tables is not None:
            text = self._controls.filter.text()
            self._tables.filter_wells(text, self._select_wells)

    def _select_wells(self, view: TableView) -> None:
        self._map.setSelected(view.wells or ())

    # --- signals of tables

    def _on_progress(self, done: int, total: int) -> None:
        busy = done < total or not total
        self.progress.setVisible(busy)
        self.cancel.setVisible(busy)
        self.progress.setRange(0, total)
        self.progress.setValue(done)
        self._show_note()

    def _show_note(self, _: str = "") -> None:
        """Show what the user is told; without anything hide the line."""
        text = "" if self._tables is None else self._tables.note
        self.note.setText(text)
        self.note.setVisible(bool(text))

    def _show_tables(self) -> None:
        """Show the tables, columns and values, with those that are chosen."""
        tables = self._tables
        self.setVisible(tables is not None)
        self._show_note()
        view = TableView() if tables is None else tables.view
        self._map.change_state(shown=view.wells, coloring=view.coloring)
        self._map.setDetails(None if tables is None else tables.joined.describe_well)
        if tables is None:
            return
        joined, coloring = tables.joined, view.coloring
        offers = {offer: offer.title for offer in joined.offers}
        fill_box(self.table, offers, joined.chosen, "no table")
        fill_box(self.column, joined.list_columns(), joined.table_column, "thumbnails")
        # The chosen one may be of a column whose texts are not listed yet.
        way = joined.find_way()
        ways = dict.fromkeys((*joined.list_ways(), *view.shares, way))
        fill_box(self.how, {each: each for each in ways}, way)
        enable_if(
            bool(tables.browser.known_labels),
            self.measure,
            "Show a field with labels first.",
        )
        has_table = bool(joined.tables)
        for widget in (self.column_caption, self.column, self.results):
            widget.setVisible(bool(joined.paths))
            enable_if(has_table, widget, NO_TABLE)
        can_save = has_table or any(x.path for x in joined.offers)
        enable_if(can_save, self.save_button, NO_TABLE)
        self.how.setVisible(joined.table_column is not None)
        self.log.setVisible(coloring is not None and not coloring.categories)
        if coloring is not None:
            self.log.setChecked(coloring.is_log)
            enable_if(
                any(v > 0 for v in list_known(coloring.values)),
                self.log,
                "No value is above 0, as a logarithmic scale needs.",
            )


def fill_box(
    box: QComboBox, titles: Mapping[Any, str], chosen: Any, nothing: str = ""
) -> None:
    """Offer choices by their titles, below one for nothing, and show the chosen one."""
    box.clear()
    choices = {None: nothing, **titles} if nothing else titles
    for value, title in choices.items():
        box.addItem(title, value)
    box.setCurrentIndex(list(choices).index(chosen))


class TableDrops(EventWatcher):
    """Takes dropped tables before napari does, which would open them as layers.

    Parameters
    ----------
    viewer
        Of a window; without a window nothing is followed.
    tables
        Loads the tables while a plate is browsed.
    """

    def __init__(self, viewer: Any, tables: TableBar) -> None:
        super().__init__(tables)
        self._tables = tables
        view = qt_viewer_of(viewer)
        if view is not None:
            view.installEventFilter(self)

    def watchEvent(self, watched: QObject, event: QEvent) -> bool:
        """Load a table; leave all other files to napari."""
        if event.type() != QEvent.Type.Drop or self._tables.tables() is None:
            return False
        dropped: QDropEvent = event  # type: ignore[assignment]
        data = dropped.mimeData()
        paths = [url.toLocalFile() for url in (data.urls() if data is not None else ())]
        if not paths or not all(map(is_table, paths)):
            return False
        dropped.acceptProposedAction()
        for path in paths:
            self._tables.load_file(path)
        return True
