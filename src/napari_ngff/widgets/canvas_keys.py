"""Leaves keys to the canvas after a click in a dock."""

from __future__ import annotations

from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtGui import QKeyEvent
from qtpy.QtWidgets import QAbstractButton, QAbstractItemView, QWidget


def leave_space_key(dock: QWidget) -> None:
    """Keep the keyboard where it is when a button of a dock is clicked.

    Space moves the view while it is held on the canvas. A button that has the keyboard
    would be pressed by it: the next field would be shown, or a setting changed. Tab
    still goes to each button.
    """
    for button in dock.findChildren(QAbstractButton):
        if button.focusPolicy() & Qt.FocusPolicy.ClickFocus:
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)


class CanvasKeys(QObject):
    """Keeps a list or table from searching its rows for what is typed.

    Number keys choose the class to paint with, as a tool tip of the table says, and Qt
    would choose the row whose text begins with the number. napari's docks pass keys
    that nobody takes to the canvas.

    Parameters
    ----------
    view
        The list or table; its editors of cells get all keys as before.
    """

    def __init__(self, view: QAbstractItemView) -> None:
        super().__init__(view)
        view.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Pass a key with a character on to the dock; others stay with the list."""
        kinds = QEvent.Type.KeyPress, QEvent.Type.KeyRelease
        if not isinstance(event, QKeyEvent) or event.type() not in kinds:
            return False
        # Space ticks a cell; keys with Ctrl have no character that is printed.
        if not event.text().strip() or not event.text().isprintable():
            return False
        event.ignore()
        return True
