"""Works with other plugins: extracts a region, and merges the result back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSignalBlocker, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QFormLayout,
    QGroupBox,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.viewer.bridge.handover import list_results, plan_handover
from napari_ngff.viewer.bridge.merge_result import (
    HOW,
    PreparedMerge,
    prepare_merge,
    worked_on,
)
from napari_ngff.viewer.notices import count_noun
from napari_ngff.viewer.painting.drawings import shapes_to_labels
from napari_ngff.widgets.annotate.export_box import ExportBox
from napari_ngff.widgets.annotate.region_form import RegionForm, choice_box
from napari_ngff.widgets.widget_tasks import WidgetTasks

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.painting.paint import OMEZarrLabels

__all__ = ["BridgePage"]


class BridgePage(QWidget):
    """Hands regions to other plugins, and merges their results into labels."""

    reported = Signal(str)
    """Emitted with the result of an action, for the user."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._layer: OMEZarrLabels | None = None
        self._tasks = WidgetTasks(self)
        self.form = RegionForm(viewer, plan_handover, self)
        self.take = QPushButton("Extract", self)
        self.take.setToolTip(
            "Adds plain layers of the region, which every plugin can work on."
        )
        self.result = choice_box(self, "Result", "Labels that a plugin has made.")
        self.how = choice_box(self, "Merge", "What becomes of the labels there.")
        for how, text in HOW.items():
            self.how.addItem(text, how)
        self.put = QPushButton("&Merge result", self)
        self.put.setToolTip("Writes the result into the selected labels; undo works.")
        self.shapes = QPushButton("Shapes &to labels", self)
        self.shapes.setToolTip(
            "Paints the shapes of the selected shapes layer; after Select shapes, only"
            " the selected ones."
        )
        self.export = ExportBox(self)
        self.export.reported.connect(self.reported)
        self._build_layout()
        self._connect_signals()
        self.setLayer(None)

    def _build_layout(self) -> None:
        out, back = (
            QGroupBox("1. Extract region", self),
            QGroupBox("2. Merge back", self),
        )
        taking = QVBoxLayout(out)
        taking.addWidget(self.form)
        taking.addWidget(self.form.memory)
        taking.addWidget(self.take)
        form = QFormLayout(back)
        form.addRow("R&esult", self.result)
        form.addRow("Mode", self.how)
        form.addRow(self.put)
        form.addRow(self.shapes)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.addWidget(out)
        layout.addWidget(back)
        layout.addWidget(self.export)
        layout.addStretch(1)

    def _connect_signals(self) -> None:
        self.form.possible.connect(self.take.setEnabled)
        self.form.reported.connect(self.reported)
        self.take.clicked.connect(self.extractRegion)
        self.put.clicked.connect(self.mergeResult)
        self.shapes.clicked.connect(self.paintShapes)
        layers = self._viewer.layers.events
        layers.inserted.connect(self.refreshChoices)
        layers.removed.connect(self.refreshChoices)

    def setLayer(self, layer: OMEZarrLabels | None) -> None:
        """Merge into other labels, and export them."""
        self._layer = layer
        self.export.setLayer(layer)
        self.refreshChoices()

    def refreshChoices(self, event: Any = None) -> None:
        """Update the levels, and the results that can be merged."""
        self.form.refreshLevels()
        with QSignalBlocker(self.result):
            name = self.result.currentData()
            newest = self.result.itemData(0)
            self.result.clear()
            for layer in list_results(self._viewer):
                self.result.addItem(layer.name, layer.name)
            # The choice stays until a plugin adds a newer result, the first one.
            if self.result.itemData(0) == newest:
                self.result.setCurrentIndex(max(0, self.result.findData(name)))
        editable = self._layer is not None and self._layer.editable
        self.put.setEnabled(editable and self.result.count() > 0)
        self.shapes.setEnabled(editable)

    # --- extract a region

    def extractRegion(self) -> None:
        """Read the region in a worker, and add it as plain layers."""
        self.form.readRegion(self._add_plain_layers)

    def _add_plain_layers(self, layers: Any) -> None:
        active = self._viewer.layers.selection.active
        for layer in layers:
            self._viewer.add_layer(layer)
        # `add_layer` selects what it adds; the result goes into the labels of before.
        self._viewer.layers.selection.active = active
        self.reported.emit(f"{len(layers)} plain layers were added; work on them.")

    # --- merge a result

    def mergeResult(self) -> None:
        """Write the chosen result into the labels."""
        name, into = self.result.currentData(), self._layer
        if into is None or name not in self._viewer.layers:
            return
        result = self._viewer.layers[name]
        how = self.how.currentData()
        # Read now: the user may select another label while the worker prepares.
        value = int(into.selected_label)

        def prepare_in_worker() -> PreparedMerge | str:
            try:
                like = worked_on(result, list(self._viewer.layers))
                return prepare_merge(result, into, how, value=value, like=like)
            except (MemoryError, OverflowError, ValueError) as error:
                return f"Not merged: {error}"

        # A second click would merge twice; `refreshChoices` enables it again.
        self.put.setEnabled(False)
        self.reported.emit(f"Merging {name}…")
        self._tasks.start_task(
            "merge", prepare_in_worker, lambda merge: self._apply_merge(name, merge)
        )

    def _apply_merge(self, name: str, merge: PreparedMerge | str) -> None:
        self.refreshChoices()
        if isinstance(merge, str):
            self.reported.emit(merge)
            return
        try:
            # In the main thread, as every change of a layer.
            shift = merge.apply_merge()
        except (OverflowError, ValueError) as error:
            self.reported.emit(f"Not merged: {error}")
            return
        place = f" at {merge.place}" if merge.place else ""
        message = f"{name} is merged into {merge.into.name}{place}. Ctrl+Z undoes it."
        self.reported.emit(f"{message} Ids from {shift + 1} on." if shift else message)

    def paintShapes(self) -> None:
        """Paint the shapes of the selected layer, or of the last one."""
        shapes_layers = [x for x in self._viewer.layers if x._type_string == "shapes"]
        chosen = [x for x in self._viewer.layers.selection if x in shapes_layers]
        into = self._layer
        if into is None or not shapes_layers:
            self.reported.emit("Add a shapes layer, and draw.")
            return
        try:
            number = shapes_to_labels(self._viewer, (chosen or shapes_layers)[-1], into)
        except (ValueError, OverflowError) as error:
            self.reported.emit(str(error))
            return
        self.reported.emit(f"Painted {count_noun(number, 'shape')}. Ctrl+Z undoes it.")
