"""What the user is asked about labels and tables that are saved, or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtWidgets import QFileDialog, QMessageBox

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CANCEL",
    "DISCARD",
    "KEEP",
    "LATER",
    "OVERWRITE",
    "RESTORE",
    "SAVE",
    "ask_name",
    "ask_question",
    "ask_table_file",
]

SAVE, KEEP, DISCARD, CANCEL = "Save", "Keep for later", "Discard", "Cancel"
RESTORE, LATER, OVERWRITE = "Restore", "Later", "Overwrite"

TABLES = {"CSV (*.csv)": "csv", "Parquet (*.parquet)": "parquet"}
"""Kinds of files that tables are saved as, with their endings."""

ROLES = {
    DISCARD: QMessageBox.ButtonRole.DestructiveRole,
    CANCEL: QMessageBox.ButtonRole.RejectRole,
    LATER: QMessageBox.ButtonRole.RejectRole,
}


def ask_question(
    parent: Any, title: str, text: str, answers: Sequence[str], cancel: str = CANCEL
) -> str:
    """Ask, and return one of the answers, or the last button's for Escape.

    The first is chosen by Enter.

    Parameters
    ----------
    cancel
        Text of the last button.
    """
    box = QMessageBox(QMessageBox.Icon.Question, title, text, parent=parent)
    usual = QMessageBox.ButtonRole.AcceptRole
    buttons: dict[Any, str] = {}
    for answer in (*answers, cancel):
        buttons[box.addButton(answer, ROLES.get(answer, usual))] = answer
    first, *_, last = buttons
    box.setDefaultButton(first)
    box.setEscapeButton(last)
    box.exec()
    chosen = buttons.get(box.clickedButton(), cancel)
    # Else it lives for as long as the window.
    box.deleteLater()
    return chosen


def ask_name(parent: Any, name: str, free: str, *, shown: bool) -> str:
    """Ask how new labels shall be called whose name is taken.

    Parameters
    ----------
    shown
        Whether what has the name is a layer, so that it cannot be replaced.

    Returns
    -------
    str
        The same name to replace what has it, the free one, or "" for neither.
    """
    text = f"This image has labels named {name} already."
    other = f"Name it {free}"
    hint = "Overwriting deletes them once the new ones are saved."
    if shown:
        hint = "To overwrite them, remove their layer first."
    more = "For another name, rename the layer."
    answers = [other] if shown else [other, OVERWRITE]
    answer = ask_question(parent, "Name is taken", f"{text} {hint} {more}", answers)
    return {other: free, OVERWRITE: name}.get(answer, "")


def ask_table_file(parent: Any) -> str:
    """Ask where a table shall be saved; "" for nowhere.

    A name without an ending gets that of the kind of file that is chosen, so that the
    question whether to replace a file is about the right one.
    """
    dialog = QFileDialog(parent, "Save table")
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilters(list(TABLES))

    def choose_ending(kind: str) -> None:
        dialog.setDefaultSuffix(TABLES[kind])

    dialog.filterSelected.connect(choose_ending)
    choose_ending(dialog.selectedNameFilter())
    files = dialog.selectedFiles() if dialog.exec() else []
    dialog.deleteLater()
    return str(files[0]) if files else ""
