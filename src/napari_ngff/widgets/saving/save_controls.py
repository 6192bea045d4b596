"""Save, Cancel, and beside them what is not saved yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from napari_ngff.viewer.painting.paint import save_labels
from napari_ngff.viewer.saving.state import SaveWatch

if TYPE_CHECKING:
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

__all__ = ["SaveControls"]

INTERVAL = 200
"""Milliseconds between two looks at the layer, while this is on the screen."""


class SaveControls(QWidget):
    """A row of the controls of one layer."""

    def __init__(self, layer: OMEZarrLabels, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._layer = layer
        self._watch = SaveWatch(layer)
        self.save = QPushButton("Save", self)
        self.save.setToolTip("Save what changed into the file (Ctrl+S)")
        self.save.clicked.connect(self._on_save)
        self.cancel = QPushButton("Cancel", self)
        self.cancel.setToolTip("Stop saving; the next save goes on from there")
        self.cancel.clicked.connect(self._on_cancel)
        self.state = QLabel(self)
        self.state.setWordWrap(True)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.save)
        row.addWidget(self.cancel)
        row.addWidget(self.state, 1)
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL)
        self._timer.timeout.connect(self.look)
        self.look()

    def showEvent(self, event: Any) -> None:
        """Look at the layer for as long as this is on the screen."""
        self.look()
        self._timer.start()
        super().showEvent(event)

    def hideEvent(self, event: Any) -> None:
        """Look no more."""
        self._timer.stop()
        super().hideEvent(event)

    def look(self) -> None:
        """Show how things are now."""
        state = self._watch.look()
        self.state.setText(state.text)
        self.state.setToolTip(state.detail)
        self.save.setEnabled(state.saves)
        self.save.setVisible(not state.cancels)
        self.cancel.setVisible(state.cancels)

    def _on_save(self) -> None:
        save_labels(self._layer)
        self.look()

    def _on_cancel(self) -> None:
        if self._layer.saver is not None:
            self._layer.saver.cancel()
