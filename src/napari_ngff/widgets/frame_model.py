"""A list of the rows of a table, as of objects or wells."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from qtpy.QtCore import QAbstractTableModel, QModelIndex, Qt
from qtpy.QtWidgets import QAbstractItemView, QTableView, QWidget

ROLE = Qt.ItemDataRole
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class FrameModel(QAbstractTableModel):
    """The rows of a pandas.DataFrame, as Qt asks for them.

    Attributes
    ----------
    frame
        The rows as they are shown; None before there are some.
    meanings
        More about columns, for their tool tips.
    """

    frame: Any = None
    meanings: Mapping[str, str] = MappingProxyType({})
    _order: tuple[str, bool] = "", True

    def showRows(self, frame: Any) -> None:
        """Show other rows, in the order of the column that `sort` got last."""
        title, is_up = self._order
        if frame is not None and title in frame:
            frame = frame.sort_values(title, ascending=is_up, kind="stable")
        self.beginResetModel()
        self.frame = frame
        self.endResetModel()

    def sort(self, column: int, order: Any = Qt.SortOrder.AscendingOrder) -> None:
        """Put rows in the order of a column; those without a value are last."""
        if 0 <= column < len(self.columns):
            self._order = self.columns[column], order == Qt.SortOrder.AscendingOrder
            self.showRows(self.frame)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [] if self.frame is None else list(self.frame.columns)

    # Overrides of Qt.

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Count the rows."""
        is_cell = self.frame is None or (parent is not None and parent.isValid())
        return 0 if is_cell else len(self.frame)

    def columnCount(self, parent: QModelIndex | None = None) -> int:
        """Count the columns."""
        return len(self.columns)

    def headerData(self, section: int, orientation: Any, role: int = 0) -> Any:
        """Name the columns; a tool tip has more about them."""
        is_text = role in (ROLE.DisplayRole, ROLE.ToolTipRole)
        if orientation != Qt.Orientation.Horizontal or not is_text:
            return None
        title = self.columns[section]
        meaning = self.meanings.get(title, "") if role == ROLE.ToolTipRole else ""
        return f"{title}\n{meaning}".rstrip()

    def data(self, index: QModelIndex, role: int = 0) -> Any:
        """Return the text of a cell, and where it is in there."""
        if role not in (ROLE.DisplayRole, ROLE.TextAlignmentRole):
            return None
        value = self.frame.iat[index.row(), index.column()]
        if role == ROLE.TextAlignmentRole:
            return RIGHT if isinstance(value, (int, float, np.number)) else None
        if isinstance(value, float):
            return "" if np.isnan(value) else f"{value:.6g}"
        return "" if value is None else str(value)


def view_rows(parent: QWidget, model: FrameModel, name: str, tip: str) -> Any:
    """Make a list in which whole rows are selected, quick also for a million."""
    view: Any = QTableView(parent)
    view.setModel(model)
    view.setAccessibleName(name)
    view.setToolTip(tip)
    view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    view.setTabKeyNavigation(False)
    view.verticalHeader().hide()
    view.verticalHeader().setDefaultSectionSize(view.fontMetrics().height() * 3 // 2)
    view.horizontalHeader().setTextElideMode(Qt.TextElideMode.ElideMiddle)
    view.horizontalHeader().setHighlightSections(False)
    # Of the rows that are seen, not of all.
    view.horizontalHeader().setResizeContentsPrecision(0)
    return view
