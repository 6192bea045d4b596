"""The tree of a hierarchy, whose rows are read only when they are opened."""

from __future__ import annotations

from functools import partial

from qtpy.QtCore import QSignalBlocker, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QTreeWidget, QTreeWidgetItem, QWidget

from napari_ngff.viewer.inspecting.inspection import TreeEntry, list_children
from napari_ngff.viewer.services.window import Window, attempt_work
from napari_ngff.widgets.connections import while_alive

TITLES = ("Name", "Kind")


class TreeRow(QTreeWidgetItem):
    """One row; `asked` once the rows below it are being read, `known` once they are."""

    def __init__(self, entry: TreeEntry) -> None:
        super().__init__([entry.name, entry.kind])
        self.entry = entry
        self.rows: list[TreeRow] = []
        self.asked = self.known = False
        self.describe(str(entry.location))
        if not entry.is_array:
            self.setChildIndicatorPolicy(self.ChildIndicatorPolicy.ShowIndicator)

    def describe(self, text: str) -> None:
        """Give both cells a tool tip."""
        for column in range(len(TITLES)):
            self.setToolTip(column, text)


class HierarchyTree(QTreeWidget):
    """Groups and arrays of a hierarchy; the rows below a row are read in a worker."""

    loaded = Signal()
    """Emitted when the rows below another row were read."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._top: TreeRow | None = None
        self.setHeaderLabels(TITLES)
        self.itemExpanded.connect(self.readBelow)

    def setRoot(self, entry: TreeEntry | None) -> None:
        """Show another hierarchy, or read the same one again."""
        # What was chosen stays so, until a row is chosen again.
        with QSignalBlocker(self.selectionModel()):
            self.clear()
        self._top = None if entry is None else TreeRow(entry)
        if self._top is not None:
            self.addTopLevelItem(self._top)

    def rootEntry(self) -> TreeEntry | None:
        """Return the entry of the first row."""
        return None if self._top is None else self._top.entry

    def refreshRow(self, row: TreeRow | None) -> None:
        """Forget what is below a row, and read it again."""
        if row is not None and row.asked:
            row.rows = []
            row.takeChildren()
            row.asked = row.known = False
            self.readBelow(row)

    def findRow(self, path: str) -> TreeRow | None:
        """Find the row of a group by its path; None if it is not read yet."""
        row = self._top
        while row is not None and row.entry.location.path != path:
            row = next((r for r in row.rows if is_towards(r.entry, path)), None)
        return row

    def readTowards(self, path: str) -> TreeRow | None:
        """Find the row of a group by its path in the hierarchy.

        None if rows above it are not read yet; they are then being read, and `loaded`
        is emitted. If the group does not exist, the nearest row above it.
        """
        row = self._top
        while row is not None and row.entry.location.path != path:
            if not row.known and not row.entry.is_array:
                self.readBelow(row)
                if not row.known:
                    return None
            below = next((r for r in row.rows if is_towards(r.entry, path)), None)
            if below is None:
                break
            row = below
        return row

    def readBelow(self, row: TreeRow) -> None:
        """Read the rows below a group in a worker, once."""
        if not row.asked and not row.entry.is_array:
            row.asked = True
            done = partial(while_alive(self._add_rows), self._top, row)
            read = partial(attempt_work, partial(list_children, row.entry))
            Window.current.run_work(read, done)

    def _add_rows(
        self, top: TreeRow | None, row: TreeRow, entries: tuple[TreeEntry, ...] | str
    ) -> None:
        """Add the rows that a worker read, unless another hierarchy is shown by now."""
        # `known` as well: after `refreshRow` two workers may read the same rows.
        if top is not self._top or row.known:
            return
        row.known = True
        if isinstance(entries, str):
            row.describe(entries)
            row.setText(1, "cannot be read")
        else:
            row.rows = [TreeRow(entry) for entry in entries]
            row.addChildren(row.rows)
        childless = row.ChildIndicatorPolicy.DontShowIndicatorWhenChildless
        row.setChildIndicatorPolicy(childless)
        self.loaded.emit()


def is_towards(entry: TreeEntry, path: str) -> bool:
    """Return whether a path is an entry, or below it."""
    entry_path = entry.location.path
    return path == entry_path or path.startswith(f"{entry_path}/")
