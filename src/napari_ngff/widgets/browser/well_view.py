"""One well: the map of its fields, and a strip with a thumbnail of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QHBoxLayout, QLabel, QWidget

from napari_ngff.viewer.browsing.browser import WellFields
from napari_ngff.widgets.browser.field_map import FieldMap, ImageStrip

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qtpy.QtGui import QImage, QResizeEvent

    from napari_ngff.widgets.colors import Colors

__all__ = ["WellView"]

HINT = "Click a well to see its fields."


class WellView(QWidget):
    """Shows the fields of a well side by side, and tells which is clicked.

    Before the first well is shown it says how to come to see one.
    """

    chosen = Signal(str)
    """A field was clicked: its path."""
    scrolled = Signal()
    """Other fields may be in view than before."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.map = FieldMap(self)
        self.strip = ImageStrip(self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.map)
        layout.addWidget(self.strip, 1)
        self.hint = QLabel(HINT, self)
        self.hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.hint.setWordWrap(True)
        layout.addWidget(self.hint, 1)
        self.clear()
        self.map.chosen.connect(self.chosen)
        self.strip.chosen.connect(self.chosen)
        self.strip.scrolled.connect(self.scrolled)

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """Keep the map square."""
        super().resizeEvent(event)
        self.map.setFixedWidth(min(self.height(), self.width() // 2))

    def clear(self) -> None:
        """Show no well."""
        self.setFields(WellFields(()))
        self.setHint(True)

    def setHint(self, shown: bool) -> None:
        """Say what to do, or leave the room to fields."""
        for widget in (self.map, self.strip):
            widget.setVisible(not shown)
        self.hint.setVisible(shown)

    def setFields(self, fields: WellFields) -> None:
        """Show the fields of another well."""
        self.setHint(False)
        self.map.setFields(fields)
        self.strip.setImages(
            (place.position.field, place.title, place.problem)
            for place in fields.fields
        )

    def setPictures(self, pictures: Mapping[str, QImage]) -> None:
        """Draw thumbnails, by the field's path."""
        self.map.setPictures(pictures)
        self.strip.setPictures(pictures)

    def setCurrent(self, field: str | None) -> None:
        """Mark the field that is shown."""
        self.map.setCurrent(field)
        self.strip.setCurrent(field)

    def setColors(self, colors: Colors) -> None:
        """Follow the theme."""
        self.map.setColors(colors)
