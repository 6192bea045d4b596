"""Widgets on which files, folders and addresses are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QWidget

if TYPE_CHECKING:
    from qtpy.QtGui import QDragEnterEvent, QDropEvent


class DropTarget(QWidget):
    """Accepts a dropped path or address; of several the first."""

    dropped = Signal(str)
    """Emitted with the dropped path or address."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAcceptDrops(True)

    def dragEnterEvent(self, event: QDragEnterEvent | None) -> None:
        """Accept a drag that has a path or an address."""
        data = event.mimeData() if event is not None else None
        if event is not None and data is not None and data.hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent | None) -> None:
        """Pass the first path or address on."""
        data = event.mimeData() if event is not None else None
        if event is not None and data is not None and data.hasUrls():
            event.acceptProposedAction()
            url = data.urls()[0]
            # Of an address as it is: `toLocalFile` would return an empty text.
            path = url.toLocalFile() if url.isLocalFile() else url.toString()
            self.takeDrop(path)

    def takeDrop(self, path: str) -> None:
        """Emit `dropped`; subclasses may handle some paths themselves."""
        self.dropped.emit(path)
