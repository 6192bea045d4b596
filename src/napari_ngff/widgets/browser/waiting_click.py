"""A click that may be the first of two."""

from __future__ import annotations

from qtpy.QtCore import QObject, QTimer, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QApplication

__all__ = ["WaitingClick"]


class WaitingClick(QTimer):
    """Tells what was clicked once no second click can follow."""

    over = Signal(str)
    """No other click came: the path of what was clicked."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._path = ""
        self.setSingleShot(True)
        self.setInterval(QApplication.doubleClickInterval())
        self.timeout.connect(self._on_timeout)

    def begin(self, path: str) -> None:
        """Wait for the second click on something."""
        self._path = path
        self.start()

    def _on_timeout(self) -> None:
        self.over.emit(self._path)
