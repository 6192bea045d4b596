"""The classes of labels, or of their objects, as a table that can be edited."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from napari.resources import get_colorized_svg, get_icon_path
from qtpy.QtCore import (  # type: ignore[attr-defined]
    QAbstractTableModel,
    QModelIndex,
    QSize,
    Qt,
    Signal,
)
from qtpy.QtGui import QColor, QIcon, QPixmap
from qtpy.QtWidgets import (
    QAbstractItemView,
    QColorDialog,
    QHeaderView,
    QTableView,
    QWidget,
)

from napari_ngff.viewer.painting.layer_classes import KEYS
from napari_ngff.widgets.canvas_keys import CanvasKeys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ngff.labels.label_classes import LabelClass
    from napari_ngff.labels.object_classes import ObjectClass

    AnyClass = LabelClass | ObjectClass

COLUMNS = ("Key", "Colour", "Name", "Label", "Shown", "Locked", "Pixels")
TITLES = ("", "", "Name", "Label", "", "", "Pixels")
"""Titles that are drawn: a key and a colour are recognised without one."""
KEY, COLOR, NAME, VALUE, VISIBLE, LOCKED, COUNT = range(len(COLUMNS))
SIGNS = {VISIBLE: "visibility", LOCKED: "lock"}
"""Icons of napari in place of titles, so that a narrow dock has room for the name."""
TOOLTIPS = (
    "Press this number on the canvas or here to use the class.",
    "Double-click to choose another colour.",
    "Double-click to rename.",
    "The number in the pixels.",
    "Shown: untick to hide a class on the screen, not in the file.",
    "Locked: no tool changes what has the class.",
    "How much has the class; an estimate of large images.",
)
SWATCH = 14

OBJECTS = "objects"
"""Unit of classes that are no labels themselves."""


def key_of(item: AnyClass) -> int | str:
    """Return what identifies a class in its list: the label, or else the name."""
    return getattr(item, "value", item.name)


class ClassModel(QAbstractTableModel):
    """Rows of the classes of one layer; without a layer there are none."""

    renamed = Signal(object, str)
    """Emitted with a class as it was before the user renamed it, and its new name."""

    def __init__(self, table: QWidget) -> None:
        super().__init__(table)
        # `LayerClasses`, or for objects the panel, which has the same verbs.
        self.classes: Any = None
        self.counts: Mapping[Any, int] = {}
        self.are_estimated = False
        self.unit = COLUMNS[COUNT]
        self._rows: tuple[AnyClass, ...] = ()

    def setClasses(self, classes: Any) -> None:
        """Show the classes of another layer, or of its objects; None for none."""
        self.unit = COLUMNS[COUNT]
        if classes is not None:
            self.unit = classes.unit.capitalize()
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, COUNT, COUNT)
        self.classes = classes
        self.counts = {}
        self.refreshRows()

    def refreshRows(self) -> None:
        """Show the classes as they are now."""
        rows: tuple[AnyClass, ...] = () if self.classes is None else self.classes.items
        if [*map(key_of, rows)] != [*map(key_of, self._rows)]:
            # A reset ends the editing of a cell, so only other rows make one.
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()
        self._rows = rows
        if rows:
            last = self.index(len(rows) - 1, len(COLUMNS) - 1)
            # All cells: a table of classes is short, and what changed is not known.
            self.dataChanged.emit(self.index(0, 0), last)

    def setCounts(self, counts: Mapping[Any, int], *, estimated: bool = False) -> None:
        """Show how many pixels or objects each class has, or about how many."""
        self.counts, self.are_estimated = counts, estimated
        self.refreshRows()

    def classAt(self, row: int) -> Any:
        """Return the class of a row."""
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def rowOf(self, key: int | str) -> int:
        """Return the row of a class; -1 for none."""
        keys = [*map(key_of, self._rows)]
        return keys.index(key) if key in keys else -1

    # Overrides of Qt.

    def rowCount(self, parent: QModelIndex | None = None) -> int:
        """Count the classes."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: QModelIndex | None = None) -> int:
        """Count the columns."""
        return len(COLUMNS)

    def headerData(self, section: int, orientation: Any, role: int = 0) -> Any:
        """Name the columns."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        texts = Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole
        if section == COUNT and role in texts:
            return self.unit
        if role == Qt.ItemDataRole.DisplayRole:
            return TITLES[section]
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return COLUMNS[section]
        if role == Qt.ItemDataRole.DecorationRole and section in SIGNS:
            table = self.parent()
            assert isinstance(table, QWidget)
            return make_sign(SIGNS[section], table.palette().text().color().name())
        return TOOLTIPS[section] if role == Qt.ItemDataRole.ToolTipRole else None

    def flags(self, index: QModelIndex) -> Any:
        """Let names be edited, and two columns be ticked.

        Labels that are read-only could save none of it: they are only hidden and shown.
        """
        flags, column = super().flags(index), index.column()
        can_save = self.classes is not None and self.classes.can_change
        if column == VISIBLE or (column == LOCKED and can_save):
            flags |= Qt.ItemFlag.ItemIsUserCheckable
        if column == NAME and can_save:
            flags |= Qt.ItemFlag.ItemIsEditable
        return flags

    def data(self, index: QModelIndex, role: int = 0) -> Any:
        """Return what Qt draws in a cell, or a screen reader reads."""
        label_class = self.classAt(index.row())
        if label_class is None:
            return None
        column = index.column()
        if role == Qt.ItemDataRole.ToolTipRole:
            return TOOLTIPS[column]
        if role == Qt.ItemDataRole.CheckStateRole and column in (LOCKED, VISIBLE):
            ticked = label_class.locked if column == LOCKED else not label_class.hidden
            return Qt.CheckState.Checked if ticked else Qt.CheckState.Unchecked
        if role == Qt.ItemDataRole.DecorationRole and column == COLOR:
            return make_swatch(label_class.color)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return self._cell_text(label_class, index.row(), column)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            title = self.headerData(column, Qt.Orientation.Horizontal, role)
            return f"{title}: {self._cell_text(label_class, index.row(), column)}"
        return None

    def _cell_text(self, label_class: AnyClass, row: int, column: int) -> str:
        count = self.counts.get(key_of(label_class), 0)
        # Of an estimate two digits are true at most.
        about = f"about {int(float(f'{count:.2g}')):,}"
        number = about if self.are_estimated else f"{count:,}"
        texts = {
            KEY: str(row + 1) if row < KEYS else "",
            NAME: label_class.name,
            VALUE: str(key_of(label_class)),
            COUNT: number if self.counts else "",
        }
        return texts.get(column, "")

    def setData(self, index: QModelIndex, value: Any, role: int = 0) -> bool:
        """Take over what was typed, chosen or ticked."""
        label_class = self.classAt(index.row())
        if label_class is None or self.classes is None:
            return False
        column = index.column()
        parts: dict[str, Any] = {}
        if column == NAME:
            parts = {"name": str(value).strip()}
        elif column in (LOCKED, VISIBLE):
            # PyQt passes the number of a state, PySide the state.
            ticked = Qt.CheckState(value) == Qt.CheckState.Checked
            parts = {"locked": ticked} if column == LOCKED else {"hidden": not ticked}
        # An empty name is refused; Qt then shows the one before.
        if not parts or parts.get("name") == "":
            return False
        self.classes.change_class(key_of(label_class), **parts)
        if parts.get("name", label_class.name) != label_class.name:
            self.renamed.emit(label_class, parts["name"])
        return True


class ClassTable(QTableView):
    """The table of classes; a click selects one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows = ClassModel(self)
        self.setModel(self.rows)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setAccessibleName("Classes")
        self.setToolTip("A click selects the class to paint with.")
        CanvasKeys(self)
        # Tab leads on to the next control; arrows go from cell to cell.
        self.setTabKeyNavigation(False)
        self.setIconSize(QSize(SWATCH, SWATCH))
        header: Any = self.horizontalHeader()
        side: Any = self.verticalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        # Qt gives the columns of keys and colours more than they need.
        header.setMinimumSectionSize(20)
        header.setSectionResizeMode(NAME, QHeaderView.ResizeMode.Stretch)
        side.setVisible(False)
        selection = self.selectionModel()
        assert selection is not None
        selection.currentRowChanged.connect(self._on_row)
        self.doubleClicked.connect(self._on_double_click)
        self.rows.dataChanged.connect(self.selectPaintedClass)
        self.rows.modelReset.connect(self.selectPaintedClass)
        self.selectPaintedClass()

    def currentClass(self) -> Any:
        """Return the class of the selected row; None for none."""
        return self.rows.classAt(self.currentIndex().row())

    def selectPaintedClass(self) -> None:
        """Select the row of the class that is painted with."""
        # Until something is counted, names get the room of that column.
        self.setColumnHidden(COUNT, not self.rows.counts)
        classes = self.rows.classes
        self.setColumnHidden(VALUE, classes is not None and classes.unit == OBJECTS)
        selected = classes.selected if classes is not None else None
        row = self.rows.rowOf(key_of(selected)) if selected is not None else -1
        # Selecting a row again would end the editing of its name.
        if row != self.currentIndex().row():
            if row < 0:
                self.setCurrentIndex(QModelIndex())
            else:
                self.selectRow(row)

    def _on_row(self, index: QModelIndex) -> None:
        label_class, classes = self.rows.classAt(index.row()), self.rows.classes
        if label_class is None or classes is None:
            return
        # The row also changes because a class was selected elsewhere.
        if classes.selected != label_class:
            classes.select_class(key_of(label_class))

    def _on_double_click(self, index: QModelIndex) -> None:
        label_class, classes = self.rows.classAt(index.row()), self.rows.classes
        if index.column() != COLOR or label_class is None or classes is None:
            return
        if not classes.can_change:
            return
        alpha = QColorDialog.ColorDialogOption.ShowAlphaChannel
        chosen = QColorDialog.getColor(
            QColor(*label_class.color), self, f"Colour of {label_class.name}", alpha
        )
        if chosen.isValid():
            color = chosen.red(), chosen.green(), chosen.blue(), chosen.alpha()
            classes.change_class(key_of(label_class), color=color)

    def editName(self, key: int | str) -> None:
        """Let the name of a class be typed."""
        self.edit(self.rows.index(self.rows.rowOf(key), NAME))

    def showFirst(self, most: int) -> None:
        """Be as high as all rows, or as so many if there are more."""
        header: Any = self.horizontalHeader()
        side: Any = self.verticalHeader()
        rows = min(max(self.rows.rowCount(), 1), most) * side.defaultSectionSize()
        self.setFixedHeight(header.sizeHint().height() + rows + 2 * self.frameWidth())


@functools.cache
def make_sign(name: str, color: str) -> QIcon:
    """Draw an icon of napari in a colour, such as "#ffffff"."""
    picture = QPixmap()
    picture.loadFromData(get_colorized_svg(get_icon_path(name), color).encode(), "SVG")
    return QIcon(picture)


def make_swatch(color: tuple[int, int, int, int]) -> QIcon:
    """Paint a small square of a colour, opaque: people choose by it."""
    picture = QPixmap(SWATCH, SWATCH)
    picture.fill(QColor(*color[:3]))
    icon = QIcon(picture)
    # Qt tints an icon that has no picture for this mode.
    icon.addPixmap(picture, QIcon.Mode.Selected)
    return icon
