"""Questions about saving labels and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from qtpy.QtCore import QTimer
from qtpy.QtGui import QGuiApplication
from qtpy.QtWidgets import QFileDialog, QInputDialog, QLineEdit, QMessageBox

from napari_ngff.plate.tables.files import SUFFIXES

SAVE, KEEP, DISCARD, CANCEL = "Save", "Keep for later", "Discard", "Cancel"
RESTORE, LATER, OVERWRITE = "Restore", "Later", "Overwrite"

TABLES = {
    "CSV (*.csv)": "csv",
    "Parquet (*.parquet)": "parquet",
    "AnnData (*.h5ad)": "h5ad",
}
"""File types of tables, with their endings."""

ROLES = {
    DISCARD: QMessageBox.ButtonRole.DestructiveRole,
    CANCEL: QMessageBox.ButtonRole.RejectRole,
    LATER: QMessageBox.ButtonRole.RejectRole,
}


class OpenQuestions:
    """The questions that are open in any window, with what they have begun."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: list[Callable[[], None]] = []

    @contextmanager
    def asking(self, milliseconds: int = 0) -> Iterator[None]:
        """Let others wait while something is asked and done, and for some time after.

        Else another question would come in this one, or a save of what it may discard.
        """
        self._count += 1
        try:
            yield
        finally:
            if milliseconds:
                QTimer.singleShot(milliseconds, self._end_question)
            else:
                self._end_question()

    def wait_for_answer(self, call: Callable[[], None] | None = None) -> bool:
        """Return whether a question is open; then a call is made after the last one."""
        if self._count and call is not None:
            self._waiting.append(call)
        return self._count > 0

    def _end_question(self) -> None:
        self._count -= 1
        # Later: after the window was closed, if it closes.
        QTimer.singleShot(0, self._call_waiting)

    def _call_waiting(self) -> None:
        calls, self._waiting = self._waiting, []
        for call in calls:
            call()


questions = OpenQuestions()


def ask_question(
    parent: Any, title: str, text: str, answers: Sequence[str], cancel: str = CANCEL
) -> str:
    """Ask, and return the chosen answer: Enter is the first, Escape is `cancel`.

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
    with questions.asking():
        box.exec()
    chosen = buttons.get(box.clickedButton(), cancel)
    # Else it lives as long as its parent, the window.
    box.deleteLater()
    return chosen


def copy_text(text: str) -> None:
    """Put a text on the clipboard."""
    clipboard = QGuiApplication.clipboard()
    if clipboard is not None:
        clipboard.setText(text)


def ask_name(parent: Any, name: str, free: str, *, shown: bool) -> str:
    """Ask for another name of new labels, as their name is taken.

    Parameters
    ----------
    shown
        Whether the labels with the name are open, so that they cannot be replaced.

    Returns
    -------
    str
        The same name to replace the older labels, the free one, or "" for neither.
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


def ask_free_name(
    parent: Any, title: str, text: str, name: str, check: Callable[[str], str]
) -> str:
    """Ask how something shall be called in a file, until `check` finds no fault.

    Returns
    -------
    str
        The name; "" to save nothing.
    """
    question = text
    while True:
        with questions.asking():
            name, is_chosen = QInputDialog.getText(
                parent, title, question, QLineEdit.EchoMode.Normal, name
            )
        problem = check(name)
        if not (is_chosen and problem):
            return name if is_chosen else ""
        question = f"{problem}\n{text}"


def ask_table_to_load(parent: Any) -> str:
    """Ask for a file with a table; "" if cancelled."""
    kinds = f"Tables ({' '.join('*' + suffix for suffix in SUFFIXES)})"
    path, _ = QFileDialog.getOpenFileName(parent, "Load table", "", kinds)
    return str(path)


def ask_table_file(parent: Any, title: str = "Save table", name: str = "") -> str:
    """Ask for the file to save a table as; "" if cancelled.

    A name without an ending gets that of the kind of file that is chosen, so that the
    question whether to replace a file is about the right one.

    Parameters
    ----------
    name
        Is proposed.
    """
    dialog = QFileDialog(parent, title)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilters(list(TABLES))

    def choose_ending(kind: str) -> None:
        dialog.setDefaultSuffix(TABLES[kind])

    # Not emitted for the filter that is selected at first.
    dialog.filterSelected.connect(choose_ending)
    choose_ending(dialog.selectedNameFilter())
    if name:
        dialog.selectFile(name)
    with questions.asking():
        files = dialog.selectedFiles() if dialog.exec() else []
    dialog.deleteLater()
    return str(files[0]) if files else ""
