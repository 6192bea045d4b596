"""The menu of a well or a field, on the map and on the canvas."""

from __future__ import annotations

from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QAction, QCursor  # type: ignore[attr-defined]
from qtpy.QtWidgets import QMenu, QWidget

__all__ = ["WellMenu"]


class WellMenu(QMenu):
    """Offers actions for a well or a field, and emits the chosen one."""

    open_chosen = Signal()
    compare_chosen = Signal()
    inspect_chosen = Signal()
    copy_chosen = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.triggered.connect(self._on_triggered)

    def show_actions(self, name: str, *, is_compared: bool) -> None:
        """Open the menu at the mouse.

        Parameters
        ----------
        name
            Of the place.
        is_compared
            Whether it is shown for comparison already.
        """
        self.clear()
        self._add_action(f"Open {name}", "open")
        self._add_action("Stop comparing" if is_compared else "Compare", "compare")
        self._add_action("Inspect", "inspect")
        self._add_action("Copy name", "copy")
        self.popup(QCursor.pos())

    def _add_action(self, text: str, what: str) -> None:
        action = QAction(text, self)
        action.setData(what)
        self.addAction(action)

    def _on_triggered(self, action: QAction) -> None:
        chosen = {
            "open": self.open_chosen,
            "compare": self.compare_chosen,
            "inspect": self.inspect_chosen,
            "copy": self.copy_chosen,
        }
        chosen[action.data()].emit()
