"""Events of other objects, seen before these get them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QObject

if TYPE_CHECKING:
    from qtpy.QtCore import QEvent


class EventWatcher(QObject):
    """Sees the events of other objects first; installed with `installEventFilter`."""

    def watchEvent(self, watched: QObject, event: QEvent) -> bool:
        """Handle an event; return whether the watched object does not get it."""
        raise NotImplementedError

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Pass an event on to `watchEvent`, as long as this object is whole."""
        # While a dock is closed, PySide6 (6.12) asks objects that have lost all of
        # their attributes; napari would show each error.
        if watched is None or event is None or not vars(self):
            return False
        return self.watchEvent(watched, event)
