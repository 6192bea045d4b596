"""The pointer and the keys of the X server itself, by xdotool."""

from __future__ import annotations

import subprocess

from qtpy.QtCore import QEvent, QObject, QPoint
from qtpy.QtGui import QCursor
from qtpy.QtWidgets import QApplication

from mouse import pump, until
from patience import PATIENCE

KINDS = {
    "mousemove": QEvent.Type.MouseMove,
    "mousedown": QEvent.Type.MouseButtonPress,
    "mouseup": QEvent.Type.MouseButtonRelease,
    "click": QEvent.Type.MouseButtonRelease,
}
"""What Qt is told of a command."""


class Listener(QObject):
    """Notes whether Qt has been told of an event, at a place where one is given."""

    def __init__(self, kind, place=None):
        super().__init__()
        self.kind, self.place, self.reported = kind, place, False

    def eventFilter(self, watched, event):
        if event.type() == self.kind and (
            self.place is None or event.globalPosition().toPoint() == self.place
        ):
            self.reported = True
        return False


def x(*command):
    """Run xdotool, and let Qt work until the window has what its pointer did.

    Else Qt drops moves: of those that wait for it, it takes the last.
    """
    name, *rest = command
    place = QPoint(*rest) if name == "mousemove" else None
    listener = Listener(KINDS.get(name), place)
    listener.reported = name not in KINDS or QCursor.pos() == place
    QApplication.instance().installEventFilter(listener)
    try:
        subprocess.run(["xdotool", *map(str, command)], check=True, timeout=PATIENCE)
        until(lambda: listener.reported)
    finally:
        QApplication.instance().removeEventFilter(listener)
    pump(30)  # napari's canvas holds moves back for 5 ms
