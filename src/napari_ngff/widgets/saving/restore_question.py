"""Asks what to do with edits that an earlier napari left unsaved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.viewer.annotations.kept_edit_texts import describe_edits
from napari_ngff.viewer.services import window
from napari_ngff.widgets import dialogs
from napari_ngff.widgets.dialogs import DISCARD, LATER, RESTORE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.labels.kept_edits import KeptEdits

TITLE = "Unsaved changes"

ONE = "{} {} not saved. Restore {}?"

SEVERAL = "Changes of {} annotations were not saved. Restore them?"

LOST = {
    RESTORE: window.RESTORE,
    DISCARD: window.DISCARD,
    LATER: window.LATER,
}


class RestoreDialog(QDialog):
    """Lists several label images with unsaved edits; at first all are ticked.

    Attributes
    ----------
    answer
        `RESTORE`, `DISCARD` or `LATER`, when it is closed.
    """

    def __init__(self, parent: QWidget | None, rows: Sequence[str]) -> None:
        super().__init__(parent)
        self.setWindowTitle(TITLE)
        # The dialog may also be closed by its frame or by Escape: nothing is lost then.
        self.answer = LATER
        text = QLabel(SEVERAL.format(len(rows)), self)
        self.list = QListWidget(self)
        self.list.setAccessibleName("Label images with unsaved edits")
        for row in rows:
            item = QListWidgetItem(row, self.list)
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
            item.setToolTip(row)
            item.setCheckState(Qt.CheckState.Checked)
        hint = QLabel("Edits that are not ticked are offered again later.", self)
        for label in (text, hint):
            label.setWordWrap(True)
        self.box = QDialogButtonBox(self)
        roles = QDialogButtonBox.ButtonRole
        self._buttons = {
            self.box.addButton(RESTORE, roles.AcceptRole): RESTORE,
            self.box.addButton(DISCARD, roles.DestructiveRole): DISCARD,
            self.box.addButton(LATER, roles.RejectRole): LATER,
        }
        first = next(iter(self._buttons))
        if first is not None:
            first.setDefault(True)
            first.setFocus()
        self.box.clicked.connect(self._on_click)
        column = QVBoxLayout(self)
        for widget in (text, self.list, hint, self.box):
            column.addWidget(widget)
        # Rows end with the time of the edits, by which they are told apart.
        width = max(520, min(900, self.list.sizeHintForColumn(0) + 60))
        # Some 20 pixels a row; from 16 rows on the list scrolls.
        self.resize(width, min(480, 160 + 20 * len(rows)))

    def _on_click(self, button: Any) -> None:
        self.answer = self._buttons[button]
        self.accept()

    @property
    def chosen_rows(self) -> list[int]:
        """Numbers of the rows that are ticked."""
        items = [self.list.item(row) for row in range(self.list.count())]
        ticked = Qt.CheckState.Checked
        return [
            row
            for row, item in enumerate(items)
            if item and item.checkState() == ticked
        ]


def ask_to_restore(
    parent: Any, edits: Sequence[KeptEdits], name_of: Callable[[KeptEdits], str]
) -> tuple[str, Sequence[KeptEdits]]:
    """Ask in one dialog what to do with edits; see `Window.offer_edits`.

    `name_of` returns the name of the field of edits, or "".
    """
    # One label image fits a question; only several need a list.
    rows = [describe_edits(kept, name=name_of(kept)) for kept in edits]
    if len(edits) == 1:
        is_one = edits[0].count == 1 and not edits[0].has_classes
        was, them = ("was", "it") if is_one else ("were", "them")
        text = ONE.format(rows[0], was, them)
        answer = dialogs.ask_question(parent, TITLE, text, [RESTORE, DISCARD], LATER)
        return LOST[answer], edits
    dialog = RestoreDialog(parent, rows)
    dialog.exec()
    answer, chosen = dialog.answer, [edits[row] for row in dialog.chosen_rows]
    dialog.deleteLater()
    return LOST[answer], chosen
