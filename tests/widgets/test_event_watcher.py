"""Events that come while an object is taken apart; PySide6 sends some."""

from __future__ import annotations

from qtpy.QtCore import QEvent
from qtpy.QtWidgets import QApplication, QWidget

from napari_ngff.widgets.connections import EventWatcher


class KeptEvents(EventWatcher):
    def __init__(self, widget):
        super().__init__(widget)
        self.kinds = []
        widget.installEventFilter(self)

    def watchEvent(self, watched, event):
        self.kinds.append(event.type())
        return True


def test_events_are_passed_on_until_the_attributes_are_gone(qtbot):
    widget = QWidget()
    qtbot.addWidget(widget)
    watcher = KeptEvents(widget)
    kinds = watcher.kinds
    QApplication.sendEvent(widget, QEvent(QEvent.Type.User))
    assert kinds == [QEvent.Type.User]
    vars(watcher).clear()
    QApplication.sendEvent(widget, QEvent(QEvent.Type.User))
    assert kinds == [QEvent.Type.User]
