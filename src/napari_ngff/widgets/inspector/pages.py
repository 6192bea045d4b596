"""Pages of the inspector: facts, JSON, problems and repairs."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)
from superqt import QSearchableTreeWidget

from napari_ngff.metadata.model import JSON, Severity
from napari_ngff.viewer.inspecting.inspection import (
    PlaceDetails,
    TreeEntry,
    describe_place,
    list_repairs,
    shorten_document,
    undo_repair,
)
from napari_ngff.viewer.services.window import Window, attempt_work
from napari_ngff.widgets.connections import while_alive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qtpy.QtGui import QShowEvent

    from napari_ngff.store.check.visit_groups import Finding

TITLES = ("Problem", "Rule", "Consequence", "Repair")
REPAIR = 3
MOST = 500
"""So many problems are listed."""


def is_warning(finding: Finding) -> bool:
    """Return whether a finding is a warning; these are listed last."""
    return finding[1].severity is not Severity.ERROR


class ProblemTable(QTableWidget):
    """Lists problems with rule and consequence; one button for each repair."""

    wanted = Signal(str)
    """Emitted with the code whose button was pressed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(0, len(TITLES), parent)
        self.setHorizontalHeaderLabels(TITLES)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setWordWrap(True)
        self.setTabKeyNavigation(False)
        self.setAccessibleName("Problems")
        header, side = self.horizontalHeader(), self.verticalHeader()
        assert header is not None
        assert side is not None
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(REPAIR, QHeaderView.ResizeMode.ResizeToContents)
        side.setVisible(False)
        side.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)

    def setFindings(self, findings: Sequence[Finding]) -> None:
        """Show other problems; those beyond `MOST` are counted."""
        # Also deletes the buttons of the rows before.
        self.setRowCount(0)
        offered = list_repairs(findings)
        self.setColumnHidden(REPAIR, not offered)
        listed = sorted(findings, key=is_warning)[:MOST]
        self.setRowCount(len(listed) + (len(findings) > MOST))
        for number, (path, problem) in enumerate(listed):
            place = describe_place(path, problem)
            title = f"{problem.severity}: {problem.code}\n{place}"
            for column, text in enumerate((problem.text, problem.consequence), 1):
                self._set_text(number, column, text)
            self._set_text(number, 0, title, f"{title}\nSee {problem.page}")
            # Only in the first row of a code: a repair fixes all its problems.
            what = offered.pop(problem.code, None)
            if what is not None:
                self._add_repair_button(number, problem.code, what)
        if not findings:
            self.setRowCount(1)
            self._set_text(0, 0, "No problems found.")
        if len(findings) > MOST:
            self._set_text(MOST, 0, f"{len(findings) - MOST} more")

    def _set_text(self, row: int, column: int, text: str, tip: str = "") -> None:
        item = QTableWidgetItem(text)
        item.setToolTip(tip or text)
        item.setTextAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.setItem(row, column, item)

    def _add_repair_button(self, row: int, code: str, what: str) -> None:
        button = QPushButton("Fix…", self)
        button.setToolTip(f"Repair all problems {code}: {what}.")
        button.setAccessibleName(f"Fix {code}")
        button.clicked.connect(partial(self.wanted.emit, code))
        # A button put into the cell itself would be stretched to the height of the row.
        cell = QWidget(self)
        layout = QVBoxLayout(cell)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        self.setCellWidget(row, REPAIR, cell)


class FactPage(QTextBrowser):
    """Facts about a group or an array, as text that can be copied."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Facts")

    def setDetails(self, details: PlaceDetails) -> None:
        """Show the facts of another group or array."""
        rows = "".join(
            f"<tr><td><b>{escape(name)}</b>&nbsp;&nbsp;</td>"
            f"<td>{escape(value)}</td></tr>"
            for name, value in details.facts
        )
        text = f"<p>{escape(details.path)}</p><table>{rows}</table>"
        if details.transformations:
            steps = "".join(f"<li>{escape(s)}</li>" for s in details.transformations)
            text += f"<p><b>Transformations</b></p><ul>{steps}</ul>"
        self.setHtml(text)


class JsonPage(QSearchableTreeWidget):
    """A tree of the keys and values of a document, built when it is first shown."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)  # type: ignore[no-untyped-call]
        self._waiting: JSON | None = None
        self.filter.setPlaceholderText("Search keys and values")
        self.filter.setAccessibleName("Search")
        self.filter.textChanged.connect(self._on_text)

    def setDocument(self, document: JSON) -> None:
        """Show another document, with very long lists cut."""
        self._waiting = document
        # Filling the tree takes long for large documents, and most are never looked at.
        if self.isVisible():
            self._fill_tree()

    def showEvent(self, event: QShowEvent | None) -> None:
        """Build the tree of the newest document."""
        super().showEvent(event)
        self._fill_tree()

    def _fill_tree(self) -> None:
        if self._waiting is not None:
            self.setData(shorten_document(self._waiting))
            self._waiting = None
            self.tree.expandToDepth(1)
            self.tree.resizeColumnToContents(0)

    def _on_text(self, text: str) -> None:
        if text:
            # The filter hides rows, but opens none: a hit deep below would not be seen.
            self.tree.expandAll()
            self.tree.resizeColumnToContents(0)


class UndoRepair(QPushButton):
    """Undoes the last repair; visible only while there is one to undo."""

    undone = Signal(str)
    """Emitted when the repair is undone, with a sentence about what was restored."""

    failed = Signal(str)
    """Emitted with the reason."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("&Undo repair", parent)
        self._entry: TreeEntry | None = None
        self._kept: tuple[str, ...] = ()
        self.clicked.connect(self._on_clicked)
        self.hide()

    def offerUndo(self, entry: TreeEntry, kept: tuple[str, ...]) -> None:
        """Offer to put back the objects that a repair replaced; () for none."""
        self._entry, self._kept = entry, kept
        self.setToolTip("\n".join(("Puts these back:", *kept)))
        self.setVisible(bool(kept))

    def _on_clicked(self) -> None:
        entry, kept = self._entry, self._kept
        if entry is None:
            return
        self.hide()

        Window.current.run_work(
            partial(attempt_work, partial(undo_repair, entry, kept)),
            while_alive(self._on_done),
        )

    def _on_done(self, result: tuple[str, ...] | str) -> None:
        if isinstance(result, str):
            self.failed.emit(f"Not undone. {result}")
            return
        first, more = result[0], len(result) - 1
        others = f" and {more} more" if more else ""
        self.undone.emit(
            f"Repair undone. Restored: {first}{others}. Reopen the image to see the"
            " change."
        )
