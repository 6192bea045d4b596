"""The tree of a hierarchy as a Qt model; rows are read only when they are opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from qtpy.QtCore import QAbstractItemModel, QModelIndex, QObject, Qt, Signal  # type: ignore[attr-defined]

from napari_ngff.viewer.inspecting.inspection import TreeEntry, list_children
from napari_ngff.viewer.services.window import Window, attempt_work
from napari_ngff.widgets.connections import while_alive

TITLES = ("Name", "Kind")
NOWHERE = QModelIndex()


@dataclass(slots=True, eq=False)
class TreeRow:
    """One row; `asked` once the rows below it are being read, `known` once they are."""

    entry: TreeEntry
    above: TreeRow | None = None
    number: int = 0
    rows: list[TreeRow] = field(default_factory=list)
    asked: bool = False
    known: bool = False
    error: str = ""


class HierarchyModel(QAbstractItemModel):
    """Groups and arrays of a hierarchy; the rows below a row are read in a worker."""

    loaded = Signal()
    """Emitted when the rows below another row were read."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._top: TreeRow | None = None

    def setRoot(self, entry: TreeEntry | None) -> None:
        """Show another hierarchy, or read the same one again."""
        self.beginResetModel()
        self._top = None if entry is None else TreeRow(entry)
        self.endResetModel()

    def rootEntry(self) -> TreeEntry | None:
        """Return the entry of the first row."""
        return None if self._top is None else self._top.entry

    def entryAt(self, index: QModelIndex) -> TreeEntry | None:
        """Return the entry of a row."""
        row = self._row_at(index)
        return None if row is None else row.entry

    def refreshRow(self, index: QModelIndex) -> None:
        """Forget what is below a row; it is read again when it is opened."""
        row = self._row_at(index)
        if row is None or not row.asked:
            return
        if row.rows:
            first = index.siblingAtColumn(0)
            self.beginRemoveRows(first, 0, len(row.rows) - 1)
            row.rows = []
            self.endRemoveRows()
        row.asked = row.known = False
        self.fetchMore(index)

    def indexOf(self, path: str) -> QModelIndex | None:
        """Find the row of a group by its path; None if it is not read yet."""
        row = self._top
        while row is not None and row.entry.location.path != path:
            row = next((r for r in row.rows if is_towards(r.entry, path)), None)
        return None if row is None else self._index_of(row)

    def indexTowards(self, path: str) -> QModelIndex | None:
        """Find the row of a group by its path in the hierarchy.

        None if rows above it are not read yet; they are then being read, and `loaded`
        is emitted. If the group does not exist, the nearest row above it.
        """
        row = self._top
        while row is not None and row.entry.location.path != path:
            if not row.known and not row.entry.is_array:
                self.fetchMore(self._index_of(row))
                if not row.known:
                    return None
            below = next((r for r in row.rows if is_towards(r.entry, path)), None)
            if below is None:
                break
            row = below
        return None if row is None else self._index_of(row)

    # --- overrides of Qt

    def index(
        self, number: int, column: int, parent: QModelIndex = NOWHERE
    ) -> QModelIndex:
        """Find the cell of a row."""
        if not self.hasIndex(number, column, parent):
            return QModelIndex()
        above = self._row_at(parent)
        row = self._top if above is None else above.rows[number]
        # Qt keeps only a pointer to the row, which `_top` and `rows` keep alive.
        return self.createIndex(number, column, row)

    def parent(self, index: QModelIndex = NOWHERE) -> Any:
        """Find the row above."""
        row = self._row_at(index)
        if row is None:
            # `QObject.parent` has the same name, and is called without an index.
            return super().parent()
        return QModelIndex() if row.above is None else self._index_of(row.above)

    def rowCount(self, parent: QModelIndex = NOWHERE) -> int:
        """Count the rows that were read."""
        # By the rules of Qt only cells of the first column have rows below them.
        if parent.column() > 0:
            return 0
        row = self._row_at(parent)
        return int(self._top is not None) if row is None else len(row.rows)

    def columnCount(self, parent: QModelIndex = NOWHERE) -> int:
        """Count the columns: name and kind."""
        return len(TITLES)

    def hasChildren(self, parent: QModelIndex = NOWHERE) -> bool:
        """Return whether rows are below; true for a group that was not read yet."""
        row = self._row_at(parent)
        if row is None or row.known:
            return self.rowCount(parent) > 0
        return not row.entry.is_array

    def canFetchMore(self, parent: QModelIndex) -> bool:
        """Return whether the rows below a group are still to be read."""
        row = self._row_at(parent)
        return row is not None and not row.asked and not row.entry.is_array

    def fetchMore(self, parent: QModelIndex) -> None:
        """Read the rows below a group in a worker."""
        row = self._row_at(parent)
        if row is not None and self.canFetchMore(parent):
            row.asked = True
            done = partial(while_alive(self._add_rows), self._top, row)
            read = partial(attempt_work, partial(list_children, row.entry))
            Window.current.run_work(read, done)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return name and kind; the full path, or the error, as a tool tip."""
        row = self._row_at(index)
        if row is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            kind = "cannot be read" if row.error else row.entry.kind
            return row.entry.name if index.column() == 0 else kind
        if role == Qt.ItemDataRole.ToolTipRole:
            return row.error or str(row.entry.location)
        return None

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> Any:
        """Show the titles."""
        if role == Qt.ItemDataRole.DisplayRole and section < len(TITLES):
            return TITLES[section]
        return None

    def _row_at(self, index: QModelIndex) -> TreeRow | None:
        row: TreeRow | None = index.internalPointer() if index.isValid() else None
        return row

    def _index_of(self, row: TreeRow) -> QModelIndex:
        return self.createIndex(row.number, 0, row)

    def _add_rows(
        self, top: TreeRow | None, row: TreeRow, entries: tuple[TreeEntry, ...] | str
    ) -> None:
        """Add the rows that a worker read, unless another hierarchy is shown by now."""
        # `known` as well: after `refreshRow` two workers may read the same rows.
        if top is not self._top or row.known:
            return
        if isinstance(entries, str):
            row.error, entries = entries, ()
        index = self._index_of(row)
        if entries:
            self.beginInsertRows(index, 0, len(entries) - 1)
            row.rows = [TreeRow(entry, row, i) for i, entry in enumerate(entries)]
            row.known = True
            self.endInsertRows()
        row.known = True
        self.dataChanged.emit(index, index.siblingAtColumn(1))
        self.loaded.emit()


def is_towards(entry: TreeEntry, path: str) -> bool:
    """Return whether a path is an entry, or below it."""
    entry_path = entry.location.path
    return path == entry_path or path.startswith(f"{entry_path}/")
