"""The problems of a group as rows, with a button where there is a repair."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.metadata.model import Severity
from napari_ngff.viewer.inspecting.inspection import describe_place, list_repairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.check.visit_groups import Finding

__all__ = ["ProblemTable"]

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
            for column, text in enumerate((title, problem.text, problem.consequence)):
                self._set_text(number, column, text)
            # Only in the first row of a code: a repair fixes all its problems.
            what = offered.pop(problem.code, None)
            if what is not None:
                self._add_repair_button(number, problem.code, what)
        if not findings:
            self.setRowCount(1)
            self._set_text(0, 0, "No problems found.")
        if len(findings) > MOST:
            self._set_text(MOST, 0, f"{len(findings) - MOST} more")

    def _set_text(self, row: int, column: int, text: str) -> None:
        item = QTableWidgetItem(text)
        item.setToolTip(text)
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
