"""Images that lie side by side: a list with thumbnails, sizes and channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QKeySequence, QShortcut  # type: ignore[attr-defined]
from qtpy.QtWidgets import QPushButton, QVBoxLayout, QWidget

from napari_ngff.widgets.browser.field_map import ImageStrip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qtpy.QtGui import QImage

__all__ = ["CollectionView"]


class CollectionView(QWidget):
    """Lists images; the selected ones are opened together."""

    opened = Signal(tuple)
    """Images shall be opened: their paths."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._titles: dict[str, str] = {}
        self.list = ImageStrip(self, flat=False)
        self.list.setAccessibleName("Images")
        self.button = QPushButton("&Open selected", self)
        self.button.setToolTip("Or double-click an image, or press Enter.")
        self.button.setEnabled(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.list, 1)
        layout.addWidget(self.button)
        keys = QShortcut(QKeySequence(Qt.Key.Key_Return), self.list)
        keys.setContext(Qt.ShortcutContext.WidgetShortcut)
        keys.activated.connect(self._open)
        self.button.clicked.connect(self._open)
        # Not `activated`, which is a single click on some desktops.
        self.list.itemDoubleClicked.connect(self._open)
        self.list.itemSelectionChanged.connect(self._on_selected)

    def setImages(self, images: Iterable[tuple[str, str, str]]) -> None:
        """Show other images: path, title, and what is wrong or ""."""
        images = tuple(images)
        self._titles = {path: title for path, title, _ in images}
        self.list.setImages(images)

    def describe(self, path: str, picture: QImage | None, text: str) -> None:
        """Tell more of an image: its thumbnail, and its size or what is wrong."""
        if picture is not None:
            self.list.setPictures({path: picture})
        title = self._titles.get(path, path)
        # What is wrong may be long: the first line has room here, all in the tip.
        self.list.setText(path, f"{title}\n{text[:80]}", f"{title}\n{text}")

    def _on_selected(self) -> None:
        self.button.setEnabled(bool(self.list.selected()))

    def _open(self) -> None:
        chosen = self.list.selected()
        if chosen:
            self.opened.emit(chosen)
