"""One well: its fields at their places, or side by side; and a list of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import (  # type: ignore[attr-defined]
    QImage,
    QKeySequence,
    QShortcut,
)
from qtpy.QtWidgets import QApplication, QHBoxLayout, QVBoxLayout, QWidget

from napari_ngff.plate.plate_layout import overlap_of
from napari_ngff.viewer.browsing.positions import (
    FieldPlace,
    WellFields,
)
from napari_ngff.widgets.browser.field_map import FieldMap, ImageStrip
from napari_ngff.widgets.connections import fill_layout, wrapping_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from napari_ngff.widgets.theme_look import ThemeColors


HINT = "Click a well to see its fields."

MOST_MAPPED = 64
"""More fields than these are too small on a map."""

OVERLAP = 0.5
"""Largest part of a field that another may cover on a map."""


def can_be_mapped(fields: Sequence[FieldPlace]) -> bool:
    """Return whether all fields can be seen, and clicked, at their positions."""
    if len(fields) > MOST_MAPPED or any(field.problem for field in fields):
        return False
    return not any(
        overlap_of((field.corner, field.size), (other.corner, other.size)) > OVERLAP
        for i, field in enumerate(fields)
        for other in fields[:i]
    )


class WellView(QWidget):
    """Shows the fields of a well, and emits the one that is clicked.

    Fields are shown at their positions; side by side if some overlap too much or cannot
    be shown. Before the first well there is a hint.
    """

    chosen = Signal(str)
    """A field was clicked: its path."""
    scrolled = Signal()
    """Emitted when other fields may be in view."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.map = FieldMap(self)
        self.strip = ImageStrip(self)
        self._all = WellFields(())
        self._runs: tuple[int, ...] = ()
        self._pictures: dict[str, QImage] = {}
        self._states: Mapping[str, str] = {}
        self.hint = wrapping_label(self, HINT)
        self.hint.setAlignment(Qt.AlignmentFlag.AlignCenter)
        # One of them is there at a time.
        fill_layout(QHBoxLayout(self), self.map, self.strip, self.hint, margin=0)
        self.clear()
        self.map.chosen.connect(self.chosen)
        self.strip.chosen.connect(self.chosen)
        self.strip.scrolled.connect(self.scrolled)

    def clear(self) -> None:
        """Show no well."""
        self.setFields(WellFields(()))
        self.setHint(True)

    def setHint(self, visible: bool) -> None:
        """Show the hint, or the fields."""
        mapped = can_be_mapped(self.fields().fields)
        self.map.setVisible(not visible and mapped)
        self.strip.setVisible(not visible and not mapped)
        self.hint.setVisible(visible)

    def fields(self) -> WellFields:
        """Return the fields of the chosen acquisitions."""
        fields = self._all.fields
        if self._runs:
            fields = tuple(f for f in fields if f.position.acquisition in self._runs)
        # A well without fields of the chosen acquisitions shows all, not nothing.
        return WellFields(fields or self._all.fields, self._all.unit)

    def setFields(self, fields: WellFields) -> None:
        """Show the fields of another well."""
        self._all, self._pictures = fields, {}
        self._show_fields()

    def _show_fields(self) -> None:
        fields = self.fields()
        self.map.setFields(fields)
        self.strip.setImages(
            (field.position.field, field.title, field.problem)
            for field in fields.fields
        )
        self.map.setPictures(self._pictures)
        self.strip.setPictures(self._pictures)
        self.setStates(self._states)
        self.setHint(False)

    def setRuns(self, runs: Sequence[int]) -> None:
        """Show the fields of some acquisitions, by their ids; () for all."""
        if tuple(runs) != self._runs:
            self._runs = tuple(runs)
            if not self.hint.isVisible():
                self._show_fields()
                self.scrolled.emit()

    def setPictures(self, pictures: Mapping[str, QImage]) -> None:
        """Draw thumbnails, by the field's path."""
        self._pictures.update(pictures)
        self.map.setPictures(pictures)
        self.strip.setPictures(pictures)

    def setStates(self, states: Mapping[str, str]) -> None:
        """Show the state of annotation of fields, by path."""
        self._states = states
        self.map.setStates(states)
        self.strip.setStates(states)

    def setCurrent(self, field: str | None) -> None:
        """Mark the field that is shown."""
        self.map.setCurrent(field)
        self.strip.setCurrent(field)

    def setColors(self, colors: ThemeColors) -> None:
        """Follow the theme."""
        self.map.setColors(colors)


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
        fill_layout(QVBoxLayout(self), self.list, margin=0)
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
