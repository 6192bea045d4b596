"""The page *Wells*: a row for each well, with a value of each column of all tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import (
    QAbstractTableModel,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    Qt,
)
from qtpy.QtWidgets import QAbstractItemView, QLabel, QTableView, QVBoxLayout, QWidget

from napari_ngff.plate.results.well_results import name_share, order_rows
from napari_ngff.viewer.results.well_table import ResultTable
from napari_ngff.widgets.connections import alive_check, connect_while_alive
from napari_ngff.widgets.results.results_page import ResultsPage

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.plate_tables import PlateTables

NAME = "well"
TEXT, TIP = Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole
ALIGN = Qt.ItemDataRole.TextAlignmentRole
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
SELECT = QItemSelectionModel.SelectionFlag


class ResultModel(QAbstractTableModel):
    """The rows of a `ResultTable` in an order, as Qt asks for them."""

    def __init__(self, results: ResultTable, parent: QWidget) -> None:
        super().__init__(parent)
        self._results = results
        self._names: dict[str, str] = {}
        self._order: Any = np.arange(0)
        self._sorting = 0, False
        self._values: list[Any] = []

    def showRows(self, names: dict[str, str]) -> None:
        """Show the results as they are now; `names` of wells by their paths."""
        frame = self._results.frame
        self.beginResetModel()
        self._names = names
        self._values = [np.array([names[path] for path in frame.index], object)]
        self._values += [frame[x.title].to_numpy() for x in self._results.columns]
        self._put_in_order()
        self.endResetModel()

    def sort(self, column: int, order: Any = Qt.SortOrder.AscendingOrder) -> None:
        """Put rows in the order of a column; missing values are last."""
        self._sorting = column, order == Qt.SortOrder.DescendingOrder
        self.beginResetModel()
        self._put_in_order()
        self.endResetModel()

    def _put_in_order(self) -> None:
        column, is_down = self._sorting
        if not self._values:
            return
        # Wells are in the order of the map already.
        has_column = 0 < column < len(self._values)
        values = self._values[column] if has_column else np.arange(len(self._values[0]))
        self._order = order_rows(values, is_down=is_down)

    def wellAt(self, row: int) -> str:
        """Return the path of the well of a row."""
        return str(self._results.frame.index[self._order[row]])

    def rowsOf(self, wells: frozenset[str]) -> list[int]:
        """Return the rows of wells."""
        if self._results.frame is None:
            return []
        found = self._results.frame.index.isin(wells)[self._order]
        return [int(row) for row in np.flatnonzero(found)]

    # Overrides of Qt.

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Count the wells."""
        is_cell = parent is not None and parent.isValid()
        return 0 if is_cell else len(self._order)

    def columnCount(self, parent: QModelIndex | None = None) -> int:
        """Count the columns."""
        return len(self._values)

    def headerData(self, section: int, orientation: Any, role: int = 0) -> Any:
        """Name the columns; the tool tip says what their values are of."""
        if orientation != Qt.Orientation.Horizontal or role not in (TEXT, TIP):
            return None
        if section == 0:
            return NAME
        column = self._results.columns[section - 1]
        return column.title if role == TEXT else f"{column.title}\n{column.meaning}"

    def data(self, index: QModelIndex, role: int = 0) -> Any:
        """Return the text of a cell: a number, or a text with its share."""
        section = index.column()
        if role == ALIGN and self._values[section].dtype.kind != "O":
            return RIGHT
        if role != TEXT:
            return None
        place = self._order[index.row()]
        value = self._values[section][place]
        if value is None or value != value:
            return ""
        if section and not isinstance(value, str):
            return f"{value:.6g}"
        frame = self._results.frame
        share = name_share(self._results.columns[section - 1].title) if section else ""
        if share not in frame:
            return value
        return f"{value} {100 * frame[share].iat[place]:.0f} %"


class WellsPage(ResultsPage):
    """Lists wells with a value of each column; a double click goes to one."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(viewer, parent)
        self.results = ResultTable(alive_check(self))
        self.model = ResultModel(self.results, self)
        self.view: Any = QTableView(self)
        self.note = QLabel(self)
        self.note.setWordWrap(True)
        self._is_following = False
        self._build_layout()
        self._selection: Any = self.view.selectionModel()
        connect_while_alive(self.results.changed, self, self._show_rows)
        self._connect_view()

    def _connect_view(self) -> None:
        self.view.activated.connect(self._on_activated)
        self._selection.selectionChanged.connect(self._on_selected)

    def _build_layout(self) -> None:
        view, mode = self.view, QAbstractItemView
        view.setModel(self.model)
        view.setAccessibleName("Wells")
        view.setToolTip("Double-click a row to go to its well.")
        view.setSelectionBehavior(mode.SelectionBehavior.SelectRows)
        view.setSelectionMode(mode.SelectionMode.ExtendedSelection)
        view.setTabKeyNavigation(False)
        view.verticalHeader().hide()
        height = view.fontMetrics().height() * 3 // 2
        view.verticalHeader().setDefaultSectionSize(height)
        # Of the rows that are seen, not of all.
        view.horizontalHeader().setResizeContentsPrecision(0)
        view.setSortingEnabled(True)
        view.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        layout = QVBoxLayout(self)
        layout.addWidget(view, 1)
        layout.addWidget(self.note)

    def followTables(self, tables: PlateTables) -> None:
        """Show the results of the tables as they are now."""
        self.results.show(tables)

    def followWells(self) -> None:
        """Select the rows of the wells that are selected on the map."""
        if self.tables is None or self._is_following:
            return
        rows = self.model.rowsOf(self.tables.browser.selected_wells)
        chosen = QItemSelection()
        for row in rows:
            chosen.select(self.model.index(row, 0), self.model.index(row, 0))
        self._is_following = True
        self._selection.select(chosen, SELECT.ClearAndSelect | SELECT.Rows)
        if rows:
            self.view.scrollTo(self.model.index(rows[0], 0))
        self._is_following = False

    def _show_rows(self) -> None:
        if self.tables is None or self.results.frame is None:
            return
        wells = self.tables.browser.map.wells
        self.model.showRows({well.path: well.name for well in wells})
        self.view.resizeColumnsToContents()
        count, total = self.model.rowCount(), len(wells)
        shown = (
            f"{count:,} of {total:,} wells." if count < total else f"{total:,} wells."
        )
        self.note.setText(self.results.problem or shown)
        self.followWells()

    def _on_activated(self, index: QModelIndex) -> None:
        if self.tables is not None:
            self.tables.browser.show_well(self.model.wellAt(index.row()))

    def _on_selected(self, _: Any, __: Any) -> None:
        """Select the wells of the selected rows on the map."""
        if self.tables is None or self._is_following:
            return
        rows = self._selection.selectedRows()
        self._is_following = True
        self.tables.browser.select_wells(self.model.wellAt(x.row()) for x in rows)
        self._is_following = False
