"""Writes labels for other programs: outlines, and a table of boxes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QComboBox,
    QFileDialog,
    QFormLayout,
    QGroupBox,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QWidget,
)

from napari_ngff.viewer.bridge.export_labels import export_boxes, export_outlines
from napari_ngff.viewer.bridge.regions import level_shapes
from napari_ngff.widgets.widget_tasks import WidgetTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.viewer.painting.paint import OMEZarrLabels

__all__ = ["ExportBox"]

GEOJSON, TABLE = "GeoJSON (*.geojson)", "Table (*.csv)"


class ExportBox(QGroupBox):
    """Asks for a file, and writes it in a worker."""

    reported = Signal(str)
    """Emitted with the result of an export, for the user."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Other programs", parent)
        self._layer: OMEZarrLabels | None = None
        self._tasks = WidgetTasks(self)
        self._stop = threading.Event()
        self.level = QComboBox(self)
        self.level.setAccessibleName("Level to export")
        self.level.setToolTip("A coarser one is faster, and less exact.")
        self.outlines = QPushButton("&Outlines…", self)
        self.outlines.setToolTip("Polygons of all objects as GeoJSON, for QuPath.")
        self.boxes = QPushButton("Bo&xes…", self)
        self.boxes.setToolTip(
            "Bounding boxes of all labels in micrometres, as a table of regions (CSV)."
        )
        self.progress = QProgressBar(self)
        # The functions that write count nothing on the way: the bar only moves.
        self.progress.setRange(0, 0)
        self.cancel = QPushButton("Cancel", self)
        self.cancel.setToolTip("Write nothing.")
        form, row, busy = QFormLayout(self), QHBoxLayout(), QHBoxLayout()
        row.addWidget(self.outlines)
        row.addWidget(self.boxes)
        busy.addWidget(self.progress, 1)
        busy.addWidget(self.cancel)
        form.addRow("Level", self.level)
        form.addRow(row)
        form.addRow(busy)
        self.outlines.clicked.connect(self.exportOutlines)
        self.boxes.clicked.connect(self.exportBoxes)
        self.cancel.clicked.connect(self._on_cancel)
        self.setLayer(None)

    def setLayer(self, layer: OMEZarrLabels | None) -> None:
        """Export other labels; an export that runs is cancelled."""
        self._stop.set()
        self._tasks.cancel_others()
        self._layer = layer
        self.level.clear()
        for number, shape in enumerate(level_shapes(layer) if layer else ()):
            self.level.addItem(f"{number}: {' x '.join(map(str, shape))}", number)
        self._show_busy(False)

    def _show_busy(self, busy: bool) -> None:
        self.progress.setVisible(busy)
        self.cancel.setVisible(busy)
        for widget in (self.level, self.outlines, self.boxes):
            widget.setEnabled(self._layer is not None and not busy)

    def exportOutlines(self) -> None:
        """Ask for a file, and write GeoJSON."""
        self._export_labels(export_outlines, "Export outlines", GEOJSON)

    def exportBoxes(self) -> None:
        """Ask for a file, and write a table."""
        self._export_labels(export_boxes, "Export boxes", TABLE)

    def _on_cancel(self) -> None:
        self._stop.set()

    def _export_labels(self, write: Callable[..., int], title: str, kind: str) -> None:
        layer, level = self._layer, self.level.currentData()
        path, _ = QFileDialog.getSaveFileName(self, title, "", kind)
        if layer is None or not path:
            return
        ending = kind.split("*")[1].rstrip(")")
        # Qt adds no ending to a typed name; a GeoJSON may also be called .json.
        path = path if path.endswith((ending, ".json")) else f"{path}{ending}"
        # One for each export: cancelling it must not stop the next.
        stop = self._stop = threading.Event()

        def write_in_worker() -> str:
            try:
                count = write(layer, path, level, stop.is_set)
            except (MemoryError, ValueError) as error:
                return f"Not exported: {error}"
            if stop.is_set():
                return "Nothing was written."
            return f"Objects written to {path}: {count}."

        self._show_busy(True)
        self.reported.emit(f"Writing {path}…")
        self._tasks.start_task("export", write_in_worker, self._show_result)

    def _show_result(self, message: Any) -> None:
        self._show_busy(False)
        self.reported.emit(str(message))
