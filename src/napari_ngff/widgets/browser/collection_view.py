"""The images of a collection or folder: a list with thumbnails and details."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QKeySequence, QShortcut  # type: ignore[attr-defined]
from qtpy.QtWidgets import QApplication, QVBoxLayout, QWidget

from napari_ngff.widgets.browser.field_map import ImageStrip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qtpy.QtGui import QImage

TIP = "Click an image to show it; Shift-click to show it beside the others."


class CollectionView(QWidget):
    """Lists images: a click shows one, Shift+click adds it beside the others."""

    chosen = Signal(str)
    """Emitted with the path of an image to show."""
    added = Signal(str)
    """Emitted with the path of an image to add to the others, or to remove again."""

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
        """Show the thumbnail of an image, and its size or its problem."""
        if picture is not None:
            self.list.setPictures({path: picture})
        title = self._titles.get(path, path)
        # A problem may be long: its beginning is shown here, all of it in the tool tip.
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
