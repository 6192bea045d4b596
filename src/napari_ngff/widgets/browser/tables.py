"""The part of the browser about tables: which one, which column, what is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.compat import isalive
from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QAction  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QMenu,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.plate.tables.files import SUFFIXES
from napari_ngff.plate.tables.table import AGGREGATIONS
from napari_ngff.viewer.browsing.map_values import colors
from napari_ngff.viewer.browsing.table_offers import Scope
from napari_ngff.viewer.browsing.tables import Tables
from napari_ngff.widgets.browser.legend import Legend
from napari_ngff.widgets.browser.map_painting import Scale
from napari_ngff.widgets.dialogs import ask_table_file

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.widgets.browser.controls import BrowserControls
    from napari_ngff.widgets.browser.plate_map import PlateMapView

__all__ = ["TableBar", "is_table"]

FILES = f"Tables ({' '.join('*' + suffix for suffix in SUFFIXES)})"


def is_table(path: str) -> bool:
    """Tell whether a file is read as a table, by its name."""
    return path.lower().endswith(SUFFIXES)


class TableBar(QWidget):
    """Chooses tables and columns; colours, dims and crosses the wells of a map.

    Parameters
    ----------
    plate_map
        Shows the values.
    controls
        Their filter line is answered here.
    """

    _progressed = Signal(int, int)

    def __init__(
        self,
        plate_map: PlateMapView,
        controls: BrowserControls,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._map, self._controls = plate_map, controls
        self._tables: Tables | None = None
        self._message = ""
        self.legend = Legend(plate_map)
        self.table = QComboBox(self)
        self.load_button = QPushButton("&Load table…", self)
        self.measure = QPushButton("&Measure", self)
        self.menu = QMenu(self.measure)
        self.column = QComboBox(self)
        self.how = QComboBox(self)
        self.save_button = QPushButton("Save table…", self)
        self.save_button.setToolTip("The chosen table as CSV or Parquet.")
        self.progress = QProgressBar(self)
        self.cancel = QPushButton("Cancel", self)
        self.note = QLabel(self)
        self._dress()
        self._lay_out()
        self._connect()
        self._show()

    def _dress(self) -> None:
        self.table.setAccessibleName("Table")
        self.table.setToolTip("Tables that were loaded or found; numbers of labels")
        self.load_button.setToolTip(
            "CSV or Parquet with a column 'well', or 'row' and 'column'"
        )
        self.measure.setToolTip("Size, place and intensities of labels")
        self.measure.setMenu(self.menu)
        self.column.setAccessibleName("Column")
        self.column.setToolTip("What the map is coloured by")
        self.how.setAccessibleName("Value of a well")
        self.how.setToolTip("How the rows of a well become one value")
        self.how.addItems(AGGREGATIONS)
        self.progress.setMaximumHeight(6)
        self.progress.setTextVisible(False)
        self.note.setWordWrap(True)
        for box in (self.table, self.column):
            box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            box.setMinimumContentsLength(8)

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for row in (
            (self.table, self.load_button, self.measure),
            (self.column, self.how, self.save_button),
            (self.progress, self.cancel),
        ):
            line = QHBoxLayout()
            for widget in row:
                line.addWidget(widget)
            line.setStretchFactor(row[0], 1)
            layout.addLayout(line)
        layout.addWidget(self.note)

    def _connect(self) -> None:
        # Methods: lambdas that hold a widget keep it for ever.
        self.table.activated.connect(self._on_table)
        self.column.activated.connect(self._on_column)
        self.how.activated.connect(self._on_column)
        self.load_button.clicked.connect(self._on_load)
        self.save_button.clicked.connect(self._on_save)
        self.cancel.clicked.connect(self._on_cancel)
        self.menu.aboutToShow.connect(self._on_menu)
        self.menu.triggered.connect(self._on_measure)
        self.legend.limited.connect(self._on_limits)
        self.legend.widened.connect(self._on_widened)
        self._controls.filter_changed.connect(self._on_filter)
        self._controls.filter_applied.connect(self._on_filter_applied)
        self._progressed.connect(self._on_progress)

    # --- what it is given

    def tables(self) -> Tables | None:
        """Return the tables of what is walked."""
        return self._tables

    def setBrowser(self, viewer: ViewerModel, browser: Browser | None) -> None:
        """Show the tables of what is walked; None for none."""
        tables, self._tables = self._tables, None
        if tables is not None:
            tables.changed.disconnect(self._show, missing_ok=True)
            tables.told.disconnect(self._say, missing_ok=True)
            tables.progressed.disconnect(self._relay, missing_ok=True)
            tables.close()
        if browser is not None:
            self._tables = Tables(viewer, browser)
            self._tables.changed.connect(self._show)
            self._tables.told.connect(self._say)
            self._tables.progressed.connect(self._relay)
            self._tables.find()
        self._on_progress(1, 1)
        self._show()

    def load(self, path: str) -> None:
        """Read a table from a file and colour the map by it."""
        if self._tables is not None:
            self._tables.load(path)

    # --- what the user does

    def _on_table(self, row: int) -> None:
        self._message = ""
        if self._tables is not None:
            self._tables.choose(self.table.itemData(row))

    def _on_column(self, _: int) -> None:
        if self._tables is not None:
            self._tables.color_by(self.column.currentData(), self.how.currentText())

    def _on_load(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Load table", "", FILES)
        if path:
            self.load(path)

    def _on_save(self) -> None:
        path = ask_table_file(self)
        if path and self._tables is not None:
            self._tables.save(path)

    def _on_cancel(self) -> None:
        if self._tables is not None:
            self._tables.cancel()

    def _on_menu(self) -> None:
        """Offer what can be measured now."""
        self.menu.clear()
        tables = self._tables
        for name in tables.labels if tables is not None else ():
            for scope in Scope:
                action = QAction(f"{name}: {scope.value}", self.menu)
                action.setData((name, scope))
                if scope is Scope.SELECTED:
                    action.setEnabled(bool(self._map.selected()))
                if scope is Scope.FIELD and tables is not None:
                    action.setEnabled(tables.browser.position is not None)
                self.menu.addAction(action)

    def _on_measure(self, action: QAction) -> None:
        name, scope = action.data()
        if self._tables is not None:
            self._tables.measure(name, Scope(scope), self._map.selected())

    def _on_limits(self, low: float, high: float) -> None:
        if self._tables is not None:
            self._tables.limit((low, high))

    def _on_widened(self) -> None:
        if self._tables is not None:
            self._tables.limit(None)

    def _on_filter(self, text: str) -> None:
        self._message = ""
        if self._tables is not None:
            self._tables.filter(text)

    def _on_filter_applied(self) -> None:
        if self._tables is not None:
            self._map.setSelected(self._tables.shown or ())

    # --- what is seen

    def _relay(self, done: int, total: int) -> None:
        """Pass on what a worker tells to the main thread; end it if nobody looks."""
        if isalive(self):  # type: ignore[no-untyped-call]
            self._progressed.emit(done, total)
        elif self._tables is not None:
            self._tables.give_up()

    def _on_progress(self, done: int, total: int) -> None:
        busy = done < total or not total
        self.progress.setVisible(busy)
        self.cancel.setVisible(busy)
        self.progress.setRange(0, total)
        self.progress.setValue(done)
        if not total:  # it begins
            self._say("")

    def _say(self, text: str) -> None:
        """Show a sentence, or what is wrong with the filter; no sentence shows none."""
        if isalive(self):  # type: ignore[no-untyped-call]
            self._message = text
            wrong = self._tables.problem if self._tables is not None else ""
            self.note.setText(wrong or text)
            self.note.setVisible(bool(wrong or text))

    def _show(self) -> None:
        """Show what there is, and what of it is chosen."""
        if not isalive(self):  # type: ignore[no-untyped-call]
            return
        tables = self._tables
        self.setVisible(tables is not None)
        self._say(self._message if tables is not None else "")
        if tables is None:
            self._map.setShown(None)
            self._map.setValues(None)
            self.legend.setLimits(None)
            return
        self.table.clear()
        self.table.addItem("no table", None)
        for offer in tables.offers:
            self.table.addItem(offer.title, offer)
        chosen = tables.chosen
        self.table.setCurrentIndex(
            0 if chosen is None else tables.offers.index(chosen) + 1
        )
        self.measure.setEnabled(bool(tables.labels))
        self._show_columns(tables)
        self._show_values(tables)

    def _show_columns(self, tables: Tables) -> None:
        self.column.clear()
        self.column.addItem("thumbnails", None)
        for name in tables.columns:
            self.column.addItem(name, name)
        self.column.setCurrentIndex(max(0, self.column.findData(tables.column)))
        self.how.setCurrentText(tables.how)
        has_table, has_map = tables.table is not None, bool(tables.wells)
        self.save_button.setVisible(has_table)
        self.column.setVisible(has_table and has_map)
        self.how.setVisible(has_table and has_map)

    def _show_values(self, tables: Tables) -> None:
        self._map.setShown(tables.shown)
        found = tables.coloring()
        if found is None:
            self._map.setValues(None)
            self.legend.setLimits(None)
        else:
            scale = Scale(found.limits, colors(), found.title)
            self._map.setValues(found.values, scale)
            self.legend.setLimits(found.limits)
