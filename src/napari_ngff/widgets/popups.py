"""Lists that combo boxes drop down, when the dock around them is closed."""

from __future__ import annotations

from qtpy.QtCore import QEvent, QObject
from qtpy.QtWidgets import QComboBox, QWidget

__all__ = ["Popups"]


class Popups(QObject):
    """Keeps the popups of a widget's combo boxes from being styled for their end.

    To close a dock, napari first takes the widget out of its window, so that all in it
    gets another style. What the popup of a combo box looks up then, Qt never forgets: a
    kilobyte for each box, in a memory page of its own (Qt 6.11).

    Parameters
    ----------
    widget
        What a dock holds.
    """

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._widget = widget
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Hold back what tells popups of a new style outside of a window."""
        kind = event.type() if event is not None else None
        if watched is not self._widget:
            return kind == QEvent.Type.StyleChange and self._widget.parent() is None
        if kind == QEvent.Type.ParentAboutToChange and self._widget.parent():
            for box in self._widget.findChildren(QComboBox):
                view = box.view()
                popup = view.parentWidget() if view is not None else None
                if popup is not None:
                    popup.installEventFilter(self)
        return False
