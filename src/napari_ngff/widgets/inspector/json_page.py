"""The metadata of a place as it is written, to be searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from superqt import QSearchableTreeWidget

from napari_ngff.viewer.inspection import shortened

if TYPE_CHECKING:
    from qtpy.QtGui import QShowEvent
    from qtpy.QtWidgets import QWidget

    from napari_ngff.metadata.model import JSON

__all__ = ["JsonPage"]


class JsonPage(QSearchableTreeWidget):
    """A tree of keys and values; it is made once somebody looks at it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)  # type: ignore[no-untyped-call]
        self._waiting: JSON | None = None
        self.filter.setPlaceholderText("Search keys and values")
        self.filter.setAccessibleName("Search")
        self.filter.textChanged.connect(self._on_text)

    def setDocument(self, document: JSON) -> None:
        """Show another document, cut where its lists are very long."""
        self._waiting = document
        if self.isVisible():
            self._fill()

    def showEvent(self, event: QShowEvent | None) -> None:
        """Make the tree that is waited for."""
        super().showEvent(event)
        self._fill()

    def _fill(self) -> None:
        if self._waiting is not None:
            self.setData(shortened(self._waiting))
            self._waiting = None
            self.tree.expandToDepth(1)
            self.tree.resizeColumnToContents(0)

    def _on_text(self, text: str) -> None:
        if text:
            self.tree.expandAll()
            self.tree.resizeColumnToContents(0)
