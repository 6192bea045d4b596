"""The part of the browser about tables: choose, colour by a column, measure.

Also the legend of a map under the mouse: dragging its ends changes the limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, QPoint, Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import (  # type: ignore[attr-defined]
    QAction,
    QStandardItemModel,
)
from qtpy.QtWidgets import (
    QCheckBox,
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
from napari_ngff.viewer.browsing.joined_tables import map_colors
from napari_ngff.viewer.browsing.plate_tables import PlateTables
from napari_ngff.viewer.browsing.table_offers import MeasureScope
from napari_ngff.viewer.napari_private import qt_viewer_of
from napari_ngff.widgets.browser.controls import ChoiceBox, make_caption
from napari_ngff.widgets.browser.legend_painting import (
    CategoryScale,
    ColorScale,
    legend_height,
)
from napari_ngff.widgets.dialogs import ask_table_file, ask_table_to_load
from napari_ngff.widgets.event_watcher import EventWatcher
from napari_ngff.widgets.wrapping_row import WrappingRow

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from qtpy.QtGui import QDropEvent, QMouseEvent

    from napari_ngff.viewer.browsing.browser import Browser
    from napari_ngff.widgets.browser.controls import BrowserControls
    from napari_ngff.widgets.browser.plate_map import PlateMapView

__all__ = [
    "LegendWatcher",
    "TableBar",
    "TableDrops",
    "is_table",
]


Limits = tuple[float, float]


class LegendWatcher(EventWatcher):
    """Follows the mouse at the bottom of a map, where the legend is drawn.

    Dragging in the left half moves the lower limit, in the right half the upper one;
    the width of the legend is the range that it shows. A double-click resets both.

    Parameters
    ----------
    plate_map
        Draws the legend.
    """

    limited = Signal(float, float)
    """Emitted with other limits."""
    widened = Signal()
    """Emitted when the limits shall be those of all values."""

    def __init__(self, plate_map: PlateMapView) -> None:
        super().__init__(plate_map)
        self._scale: ColorScale | None = None
        self._pulled: tuple[int, Limits, bool] | None = None
        port = plate_map.viewport()
        assert port is not None
        self._port = port
        port.installEventFilter(self)

    def setScale(self, scale: ColorScale | None) -> None:
        """Set the scale that is drawn; None if it has no limits to drag."""
        self._scale = scale
        if scale is None:
            self._pulled = None
            self._port.unsetCursor()

    def watchEvent(self, watched: QObject, event: QEvent) -> bool:
        """Handle the mouse on the legend; all other events go to the map."""
        if self._scale is None:
            return False
        kinds = QEvent.Type
        if event.type() == kinds.MouseButtonRelease and self._pulled is not None:
            self._pulled = None
            return True
        if event.type() not in (
            kinds.MouseButtonPress,
            kinds.MouseButtonDblClick,
            kinds.MouseMove,
        ):
            return False
        mouse: QMouseEvent = event  # type: ignore[assignment]
        point = mouse.position().toPoint()
        if event.type() == kinds.MouseMove:
            return self._move_limit(point)
        if not self._holds_point(point) or mouse.button() != Qt.MouseButton.LeftButton:
            return False
        if event.type() == kinds.MouseButtonDblClick:
            self._pulled = None
            self.widened.emit()
        else:
            lower = point.x() < self._port.width() / 2
            # The limits at the press: those of now change while they are dragged.
            self._pulled = point.x(), self._scale.limits, lower
        return True

    def _holds_point(self, point: QPoint) -> bool:
        if self._scale is None:
            return False
        metrics, width = self._port.fontMetrics(), self._port.width()
        high = legend_height(metrics, self._scale, width)
        return point.y() >= self._port.height() - high

    def _move_limit(self, point: QPoint) -> bool:
        if self._pulled is None or self._scale is None:
            if self._holds_point(point):
                self._port.setCursor(Qt.CursorShape.SizeHorCursor)
            else:
                self._port.unsetCursor()
            return False
        start, (low, high), lower = self._pulled
        part = (point.x() - start) / max(1, self._port.width())
        if self._scale.is_log:
            factor = (high / low if high > low else 10.0) ** part
            pulled = low * factor, high * factor
        else:
            # Equal limits have no range to scale by.
            moved = part * (high - low or abs(high) or 1.0)
            pulled = low + moved, high + moved
        if lower:
            # The limits may meet, but not pass each other.
            self.limited.emit(min(pulled[0], high), high)
        else:
            self.limited.emit(low, max(pulled[1], low))
        return True


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

    def __init__(
        self,
        plate_map: PlateMapView,
        controls: BrowserControls,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._map, self._controls = plate_map, controls
        self._tables: PlateTables | None = None
        self._message = ""
        self.legend = LegendWatcher(plate_map)
        self.table = ChoiceBox(self)
        self.load_button = QPushButton("Load…", self)
        self.measure = QPushButton("Measure", self)
        self.menu = QMenu(self.measure)
        self.column = ChoiceBox(self)
        self.how = ChoiceBox(self)
        self.log = QCheckBox("log", self)
        self.save_button = QPushButton("Save…", self)
        self.progress = QProgressBar(self)
        self.cancel = QPushButton("Cancel", self)
        self.note = QLabel(self)
        self._name_controls()
        self._lay_out()
        self._connect_signals()
        self._show_tables()

    def _name_controls(self) -> None:
        self.table.setAccessibleName("Table")
        self.table.setToolTip("Tables that were loaded or found; numbers of labels")
        self.load_button.setToolTip(
            "Load a table: CSV or Parquet with a column 'well', or 'row' and 'column'"
        )
        self.save_button.setToolTip("Save the chosen table as CSV or Parquet")
        self.measure.setToolTip("Size, place and intensities of labels")
        self.measure.setMenu(self.menu)
        self.column.setAccessibleName("Colour by")
        self.column.setToolTip("Column that colours the map")
        self.how.setAccessibleName("Value of a well")
        self.how.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToContents)
        self.how.setToolTip("How the rows of a well become one value")
        self.log.setToolTip(
            "Logarithmic colours. Set automatically for positive numbers that span"
            " more than two powers of ten."
        )
        # A thin line, in pixels: it says that something happens, without a number.
        self.progress.setMaximumHeight(6)
        self.progress.setTextVisible(False)
        self.note.setWordWrap(True)
        for box in (self.table, self.column):
            # By default a box, and so the dock, is as wide as the longest title.
            box.allowNarrow()
        for widget in (self.load_button, self.measure, self.save_button):
            widget.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)

    def _lay_out(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        self.table_caption = make_caption("Table:", self.table, self)
        self.column_caption = make_caption("Colour:", self.column, self)
        for box, caption, more in (
            (self.table, self.table_caption, (self.load_button, self.measure)),
            (self.column, self.column_caption, (self.how, self.log)),
        ):
            row = WrappingRow()
            row.setSpacing(2)
            row.addGroup(caption, box, grows=box)
            row.addGroup(*more)
            layout.addLayout(row)
        for first, button in (
            # Not in the row of Measure, which would move when Save… appears: the second
            # click of a double click would save. Nor below Cancel, which goes.
            (self.note, self.save_button),
            (self.progress, self.cancel),
        ):
            line = QHBoxLayout()
            line.setSpacing(2)
            line.addWidget(first, 1)
            line.addWidget(button)
            corner = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop
            line.setAlignment(self.save_button, corner)  # where it is in this line
            layout.addLayout(line)
        for widget in (
            self.save_button,
            self.column_caption,
            self.column,
            self.how,
            self.log,
            self.progress,
            self.cancel,
        ):
            widget.hide()  # they would make a new dock wider than it needs

    def _connect_signals(self) -> None:
        # Methods: Qt keeps a lambda, and the widget it holds, for ever.
        self.table.activated.connect(self._on_table)
        self.column.activated.connect(self._on_column)
        self.how.activated.connect(self._on_how)
        self.log.clicked.connect(self._on_log)
        self.load_button.clicked.connect(self._on_load)
        self.save_button.clicked.connect(self._on_save)
        self.cancel.clicked.connect(self._on_cancel)
        self.menu.aboutToShow.connect(self._on_menu)
        self.menu.triggered.connect(self._on_measure)
        self.legend.limited.connect(self._on_limits)
        self.legend.widened.connect(self._on_widened)
        self._controls.filter_changed.connect(self._on_filter)
        self._controls.filter_applied.connect(self._on_filter_applied)

    # --- what it shows

    def tables(self) -> PlateTables | None:
        """Return the tables of the plate that is browsed; None for none."""
        return self._tables

    def setBrowser(self, viewer: ViewerModel, browser: Browser | None) -> None:
        """Show the tables of a browser; None for none."""
        tables, self._tables = self._tables, None
        if tables is not None:
            tables.changed.disconnect(self._show_tables, missing_ok=True)
            tables.message_sent.disconnect(self._show_message, missing_ok=True)
            tables.outdated_changed.disconnect(self._show_outdated, missing_ok=True)
            tables.progressed.disconnect(self._on_progress, missing_ok=True)
            self.destroyed.disconnect(tables.give_up)
            tables.close()
        if browser is not None:
            self._tables = PlateTables(viewer, browser)
            self._tables.changed.connect(self._show_tables)
            self._tables.message_sent.connect(self._show_message)
            self._tables.outdated_changed.connect(self._show_outdated)
            self._tables.progressed.connect(self._on_progress)
            self.destroyed.connect(self._tables.give_up)
            self._tables.find_tables()
        self._on_progress(1, 1)
        self._show_tables()

    def load_file(self, path: str) -> None:
        """Read a table from a file and colour the map by it."""
        if self._tables is not None:
            self._tables.load_file(path)

    # --- what the user does

    def _on_table(self, row: int) -> None:
        self._message = ""
        if self._tables is not None:
            self._tables.choose_table(self.table.itemData(row))

    def _on_column(self, _: int) -> None:
        if self._tables is not None:
            self._tables.color_by_any(self.column.currentData())

    def _on_how(self, _: int) -> None:
        if self._tables is not None:
            self._tables.color_by_any(self.column.currentData(), self.how.currentText())

    def _on_log(self, checked: bool) -> None:
        if self._tables is not None:
            self._tables.scale_by_log(checked)

    def _on_load(self) -> None:
        path = ask_table_to_load(self)
        if path:
            self.load_file(path)

    def _on_save(self) -> None:
        table = self._tables.table if self._tables is not None else None
        path = ask_table_file(self, name=table.region if table is not None else "")
        if path and self._tables is not None:
            self._tables.save_table(path)

    def _on_cancel(self) -> None:
        if self._tables is not None:
            self._tables.cancel_task()

    def _on_menu(self) -> None:
        """List the labels, and the regions where each can be measured now."""
        self.menu.clear()
        tables = self._tables
        for name in tables.labels if tables is not None else ():
            for scope in MeasureScope:
                action = QAction(f"{name} {scope.value}", self.menu)
                action.setData((name, scope))
                if scope is MeasureScope.SELECTED:
                    action.setEnabled(bool(self._map.selected()))
                if scope is MeasureScope.FIELD and tables is not None:
                    action.setEnabled(tables.browser.position is not None)
                self.menu.addAction(action)

    def _on_measure(self, action: QAction) -> None:
        name, scope = action.data()
        if self._tables is not None:
            self._tables.measure_labels(name, MeasureScope(scope), self._map.selected())

    def _on_limits(self, low: float, high: float) -> None:
        if self._tables is not None:
            self._tables.limit_colors((low, high))

    def _on_widened(self) -> None:
        if self._tables is not None:
            self._tables.limit_colors(None)

    def _on_filter(self, text: str) -> None:
        self._message = ""
        if self._tables is not None:
            self._tables.filter_wells(text)

    def _on_filter_applied(self) -> None:
        if self._tables is not None:
            self._map.setSelected(self._tables.wells_shown or ())

    # --- signals of tables

    def _on_progress(self, done: int, total: int) -> None:
        if not isalive(self):  # type: ignore[no-untyped-call]
            return
        busy = done < total or not total
        self.progress.setVisible(busy)
        self.cancel.setVisible(busy)
        self.progress.setRange(0, total)
        self.progress.setValue(done)
        if not total:  # a task begins
            self._show_message("")

    def _show_message(self, text: str) -> None:
        """Show a message, or the problem of the filter; without any hide the line."""
        if isalive(self):  # type: ignore[no-untyped-call]
            self._message = text
            tables = self._tables
            notes = [text]
            if tables is not None:
                notes += [tables.filter_note, tables.outdated_note]
            wrong = tables.filter_problem if tables is not None else ""
            line = wrong or " ".join(filter(None, notes))
            self.note.setText(line)
            self.note.setVisible(bool(line))

    def _show_outdated(self) -> None:
        self._show_message(self._message)

    def _show_tables(self) -> None:
        """Show the tables and columns, with those that are chosen."""
        if not isalive(self):  # type: ignore[no-untyped-call]
            return
        tables = self._tables
        self.setVisible(tables is not None)
        self._show_message(self._message if tables is not None else "")
        if tables is None:
            self._map.setShown(None)
            self._map.setValues(None)
            self._map.setDetails(None)
            self.legend.setScale(None)
            return
        self._map.setDetails(tables.describe_well)
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

    def _show_columns(self, tables: PlateTables) -> None:
        """Offer the columns of all tables, below their titles if there are several."""
        self.column.clear()
        self.column.addItem("thumbnails", None)
        columns, chosen = tables.all_columns, tables.table_column
        many = len({column.offer for column in columns}) > 1
        heading = None
        for column, title in columns.items():
            if many and column.offer != heading:
                heading = column.offer
                self._add_heading(heading.title)
            self.column.addItem(title, column)
            if column == chosen:
                self.column.setCurrentIndex(self.column.count() - 1)
        has_table, has_map = tables.table is not None, bool(tables.wells)
        self.save_button.setVisible(has_table)
        for widget in (self.column_caption, self.column):
            widget.setVisible(has_table and has_map)
        self.how.clear()
        self.how.addItems(tables.ways)
        self.how.setCurrentText(tables.how)
        self.how.setVisible(has_map and chosen is not None)

    def _add_heading(self, title: str) -> None:
        """Add a line that cannot be chosen."""
        self.column.addItem(title, None)
        model = self.column.model()
        if isinstance(model, QStandardItemModel):
            item = model.item(self.column.count() - 1)
            if item is not None:
                item.setEnabled(False)

    def _show_values(self, tables: PlateTables) -> None:
        self._map.setShown(tables.wells_shown)
        coloring = tables.color_map()
        self.log.setVisible(coloring is not None and not coloring.categories)
        if coloring is None:
            self._map.setValues(None)
            self.legend.setScale(None)
        elif coloring.categories:
            names, colors = coloring.categories, coloring.category_colors
            scale = CategoryScale(names, coloring.title, colors)
            self._map.setValues(coloring.values, scale)
            self.legend.setScale(None)
        else:
            numbers = ColorScale(
                coloring.limits, map_colors(), coloring.title, coloring.is_log
            )
            self._map.setValues(coloring.values, numbers)
            self.legend.setScale(numbers)
            self.log.setChecked(coloring.is_log)
            # A logarithmic scale needs at least one positive number.
            known = (value for value in coloring.values.values() if value is not None)
            self.log.setEnabled(any(value > 0 for value in known))


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
        if event.type() != QEvent.Type.Drop:
            return False
        dropped: QDropEvent = event  # type: ignore[assignment]
        data = dropped.mimeData()
        urls = data.urls() if data is not None else []
        paths = [url.toLocalFile() for url in urls]
        if self._tables.tables() is None or not paths or not all(map(is_table, paths)):
            return False
        dropped.acceptProposedAction()
        for path in paths:
            self._tables.load_file(path)
        return True
