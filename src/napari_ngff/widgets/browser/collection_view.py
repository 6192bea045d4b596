"""Images that lie side by side: a list with thumbnails, sizes and channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QKeySequence, QShortcut  # type: ignore[attr-defined]
from qtpy.QtWidgets import QApplication, QVBoxLayout, QWidget

from napari_ngff.widgets.browser.field_map import ImageStrip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qtpy.QtGui import QImage

__all__ = ["CollectionView"]

TIP = "Click an image to show it; Shift-click to show it beside the others."


class CollectionView(QWidget):
    """Lists images; one is shown at a click, and beside the others with Shift."""

    chosen = Signal(str)
    """An image shall be shown: its path."""
    added = Signal(str)
    """An image shall be shown beside the others, or taken away: its path."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._titles: dict[str, str] = {}
        self.list = ImageStrip(self, flat=False)
        self.list.setAccessibleName("Images")
        self.list.setToolTip(TIP)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.list, 1)
        keys = QShortcut(QKeySequence(Qt.Key.Key_Return), self.list)
        keys.setContext(Qt.ShortcutContext.WidgetShortcut)
        keys.activated.connect(self._show_current)
        more = QShortcut(QKeySequence("Shift+Return"), self.list)
        more.setContext(Qt.ShortcutContext.WidgetShortcut)
        more.activated.connect(self._add_current)
        self.list.chosen.connect(self._on_clicked)

    def setImages(self, images: Iterable[tuple[str, str, str]]) -> None:
        """Show other images: path, title, and what is wrong or ""."""
        images = tuple(images)
        self._titles = {path: title for path, title, _ in images}
        self.list.setImages(images)

    def describeImage(self, path: str, picture: QImage | None, text: str) -> None:
        """Show more of an image: its thumbnail, and its size or what is wrong."""
        if picture is not None:
            self.list.setPictures({path: picture})
        title = self._titles.get(path, path)
        # What is wrong may be long: the first line has room here, all in the tip.
        self.list.setText(path, f"{title}\n{text[:80]}", f"{title}\n{text}")

    def _on_clicked(self, path: str) -> None:
        shift = Qt.KeyboardModifier.ShiftModifier
        is_added = bool(QApplication.keyboardModifiers() & shift)
        (self.added if is_added else self.chosen).emit(path)

    def _show_current(self) -> None:
        for path in self.list.selected():
            self.chosen.emit(path)

    def _add_current(self) -> None:
        for path in self.list.selected():
            self.added.emit(path)
