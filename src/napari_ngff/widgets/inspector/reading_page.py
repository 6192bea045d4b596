"""A page of the inspector: how much was read for the active layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.compat import isalive
from qtpy.QtCore import Qt, QTimer
from qtpy.QtWidgets import QFormLayout, QLabel, QVBoxLayout, QWidget

from napari_ngff.viewer.inspecting.reading_figures import describe_reading, reading_of
from napari_ngff.viewer.notices import last_part

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from qtpy.QtGui import QHideEvent, QShowEvent

__all__ = ["ReadingPage"]

INTERVAL = 1000
"""Milliseconds between two looks at the counts."""

HINT = "Select a layer that was opened from OME-Zarr."


class ReadingPage(QWidget):
    """Shows the counts of the file of the active layer, renewed while it is visible.

    Attributes
    ----------
    lines
        Value of each line by its name.
    """

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self.title = QLabel(HINT, self)
        self.title.setWordWrap(True)
        self.lines: dict[str, QLabel] = {}
        self._form = QFormLayout()
        self._form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        layout = QVBoxLayout(self)
        layout.addWidget(self.title)
        layout.addLayout(self._form)
        layout.addStretch(1)
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL)
        self._timer.timeout.connect(self.showCounts)
        # napari holds the method weakly.
        viewer.layers.selection.events.active.connect(self._follow_selection)

    def showEvent(self, event: QShowEvent | None) -> None:
        """Show the counts, and go on with it."""
        super().showEvent(event)
        self.showCounts()
        self._timer.start()

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Stop."""
        super().hideEvent(event)
        self._timer.stop()

    def showCounts(self) -> None:
        """Show the counts as they are now."""
        reading = reading_of(self._viewer.layers.selection.active)
        lines = {} if reading is None else dict(describe_reading(reading))
        title = HINT
        if reading is not None:
            title = f"Since {last_part(reading.name)} was opened, for all its layers:"
        self.title.setText(title)
        if list(lines) != list(self.lines):
            self._make_lines(lines)
        for name, value in lines.items():
            self.lines[name].setText(value)

    def _follow_selection(self, _: object = None) -> None:
        if isalive(self) and self.isVisible():  # type: ignore[no-untyped-call]
            self.showCounts()

    def _make_lines(self, lines: dict[str, str]) -> None:
        while self._form.rowCount():
            self._form.removeRow(0)
        self.lines = {}
        for name in lines:
            value = QLabel(self)
            value.setAccessibleName(name)
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self._form.addRow(f"{name}:", value)
            self.lines[name] = value
