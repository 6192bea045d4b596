"""Works with other plugins: extracts a region, and merges the result back.

It also writes labels for other programs: outlines, and a table of boxes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSignalBlocker, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QFileDialog,
    QFormLayout,
    QGroupBox,
    QHBoxLayout,
    QProgressBar,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.viewer.annotations.drawings import shapes_to_labels
from napari_ngff.viewer.bridge.handover import (
    export_boxes,
    export_outlines,
    list_here,
    list_results,
    plan_handover,
)
from napari_ngff.viewer.bridge.merge_result import (
    HOW,
    PreparedMerge,
    prepare_merge,
    worked_on,
)
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.plans.layer_plan import layer_kind
from napari_ngff.viewer.services.notices import count_noun
from napari_ngff.viewer.streaming.regions import level_shapes
from napari_ngff.widgets.annotate.region_form import RegionForm
from napari_ngff.widgets.connections import (
    Connections,
    WidgetTasks,
    choice_box,
    connect_while_alive,
    enable_if,
    fill_layout,
    make_buttons,
    why_fixed,
    wrapping_label,
)
from napari_ngff.widgets.form_dialog import show_form
from napari_ngff.widgets.theme_look import ThemeFollower

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel
    from napari.layers import Layer
    from napari.viewer import Viewer


TITLE = "Work with other plugins"
ELSEWHERE = "The result is of another field. Show that field, and select its labels."
NO_RESULT = "No plugin has made labels here yet: extract a region, and run one on it."
GEOJSON, TABLE = "GeoJSON (*.geojson)", "Table (*.csv)"


OUTLINES = "Polygons of all objects as GeoJSON, for QuPath."
BOXES = (
    "Bounding boxes of all labels, as a table of regions (CSV): in micrometres,"
    " or in voxels where the labels have no unit of length."
)
TAKE = "Adds the region as new layers in memory, which every plugin can work on."
PUT = "Writes the result into the selected labels; undo works."
SHAPES = (
    "Paints the shapes of the selected shapes layer; after Select shapes, only the"
    " selected ones."
)


class ExportBox(QGroupBox):
    """Asks for a file, and writes it in a worker."""

    reported = Signal(str)
    """Emitted with the result of an export, for the user."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Other programs", parent)
        self._layer: OMEZarrLabels | None = None
        self._tasks = WidgetTasks(self)
        self._stop = threading.Event()
        tip = "A coarser one is faster, and less exact."
        self.level = choice_box(self, "Level to export", tip)
        self.outlines, self.boxes, self.cancel = make_buttons(
            self,
            ("&Outlines…", OUTLINES, self.exportOutlines),
            ("Bo&xes…", BOXES, self.exportBoxes),
            ("Cancel", "Write nothing.", self._on_cancel),
        )
        self.progress = QProgressBar(self)
        # The functions that write count nothing on the way: the bar only moves.
        self.progress.setRange(0, 0)
        form, row, busy = QFormLayout(self), QHBoxLayout(), QHBoxLayout()
        fill_layout(row, self.outlines, self.boxes)
        fill_layout(busy, self.progress, self.cancel, wide=self.progress)
        form.addRow("Level", self.level)
        form.addRow(row)
        form.addRow(busy)
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
            lack = (
                "Wait for the file." if busy else why_fixed(self._layer, changes=False)
            )
            enable_if(not lack, widget, lack)

    def exportOutlines(self) -> None:
        """Ask for a file, and write GeoJSON."""
        self._export_labels(export_outlines, "Export outlines", GEOJSON)

    def exportBoxes(self) -> None:
        """Ask for a file, and write a table."""
        self._export_labels(export_boxes, "Export boxes", TABLE)

    def _on_cancel(self) -> None:
        self._stop.set()

    def _export_labels(self, write: Callable[..., str], title: str, kind: str) -> None:
        layer, level = self._layer, self.level.currentData()
        ending = kind.split("*")[1].rstrip(")")
        name = f"{layer.name}{ending}" if layer is not None else ""
        path, _ = QFileDialog.getSaveFileName(self, title, name, kind)
        if layer is None or not path:
            return
        # Qt adds no ending to a typed name; a GeoJSON may also be called .json.
        path = path if path.endswith((ending, ".json")) else f"{path}{ending}"
        # One for each export: cancelling it must not stop the next.
        stop = self._stop = threading.Event()
        # Nobody would be shown how an export ended whose form is closed.
        self.destroyed.connect(stop.set)

        def write_in_worker() -> str:
            try:
                report = write(layer, path, level, stop.is_set)
            except (MemoryError, ValueError) as error:
                return f"Not exported: {error}"
            return "Nothing was written." if stop.is_set() else report

        self._show_busy(True)
        self.reported.emit(f"Writing {path}…")
        self._tasks.start_task("export", write_in_worker, self._show_result)

    def _show_result(self, message: Any) -> None:
        self._show_busy(False)
        self.reported.emit(str(message))


class BridgeForm(QWidget):
    """Hands regions to other plugins, and merges their results into labels."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._layer: OMEZarrLabels | None = None
        self.status = wrapping_label(self)
        self._tasks = WidgetTasks(self)
        self._following = Connections(self)
        self.form = RegionForm(viewer, plan_handover, self)
        (self.take,) = make_buttons(self, ("Extract", TAKE, self.extractRegion))
        self.result = choice_box(self, "Result", "Labels that a plugin has made.")
        self.how = choice_box(self, "Merge", "What becomes of the labels there.")
        for how, text in HOW.items():
            self.how.addItem(text, how)
        self.put, self.shapes = make_buttons(
            self,
            ("&Merge result", PUT, self.mergeResult),
            ("Shapes &to labels", SHAPES, self.paintShapes),
        )
        self.export = ExportBox(self)
        self.export.reported.connect(self.status.setText)
        self._build_layout()
        self._connect_signals()
        self.setLayer(None)
        self._follow_selection()
        ThemeFollower(self, viewer)

    def _build_layout(self) -> None:
        out, back = (
            QGroupBox("1. Extract region", self),
            QGroupBox("2. Merge back", self),
        )
        fill_layout(QVBoxLayout(out), self.form, self.form.memory, self.take)
        form = QFormLayout(back)
        form.addRow("R&esult", self.result)
        form.addRow("Mode", self.how)
        form.addRow(self.put)
        form.addRow(self.shapes)
        fill_layout(QVBoxLayout(self), out, back, self.export, self.status, margin=0)

    def _connect_signals(self) -> None:
        self.form.possible.connect(self.take.setEnabled)
        self.form.reported.connect(self.status.setText)
        layers = self._viewer.layers
        connect_while_alive(layers.events.inserted, self, self.refreshChoices)
        for event in (layers.selection.events.active, layers.events.removed):
            connect_while_alive(event, self, self._follow_selection)

    def _follow_selection(self, event: Any = None) -> None:
        """Merge into the selected labels; they stay while another layer is selected."""
        layers = self._viewer.layers
        kept = self._layer if self._layer in layers else None
        active = layers.selection.active
        self.setLayer(active if isinstance(active, OMEZarrLabels) else kept)

    def setLayer(self, layer: OMEZarrLabels | None) -> None:
        """Merge into other labels, and export them."""
        if layer is not self._layer:
            self._following.end()
            self._layer = layer
            if layer is not None:
                self._following.connect(layer.events.editable, self.refreshChoices)
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
        lack = why_fixed(self._layer)
        enable_if(not lack, self.shapes, lack)
        enable_if(self.result.count() > 0 and not lack, self.put, lack or NO_RESULT)

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
        self.status.setText(f"The region is in {count_noun(len(layers), 'new layer')}.")

    # --- merge a result

    def mergeResult(self) -> None:
        """Write the chosen result into the labels."""
        name, into = self.result.currentData(), self._layer
        results = {layer.name: layer for layer in list_results(self._viewer)}
        if into is None or name not in results:
            self.refreshChoices()
            self.status.setText(ELSEWHERE)
            return
        result = results[name]
        how = self.how.currentData()
        # Read now: the user may select another label while the worker prepares.
        value, canvas = int(into.selected_label), into.canvas

        def prepare_in_worker() -> PreparedMerge:
            like = worked_on(result, list(self._viewer.layers))
            return prepare_merge(
                result, into, how, value=value, like=like, canvas=canvas
            )

        # A second click would merge twice; `refreshChoices` enables it again.
        self.put.setEnabled(False)
        self.status.setText(f"Merging {name}…")
        self._tasks.start_task(
            "merge", prepare_in_worker, lambda merge: self._apply_merge(name, merge)
        )

    def _apply_merge(self, name: str, merge: PreparedMerge | str) -> None:
        self.refreshChoices()
        if isinstance(merge, str):
            self.status.setText(f"Not merged: {merge}")
            return
        try:
            # In the main thread, as every change of a layer.
            shift = merge.apply_merge()
        except (OverflowError, ValueError) as error:
            self.status.setText(f"Not merged: {error}")
            return
        place = f" at {merge.place}" if merge.place else ""
        message = f"{name} is merged into {merge.into.name}{place}. Ctrl+Z undoes it."
        message += f" Ids from {shift + 1} on." if shift else ""
        left = count_noun(merge.left_out, "object") if merge.left_out else ""
        message += f" {left} left out, on labels." if left else ""
        self._select_labels(merge.into)
        self.status.setText(message)

    def _select_labels(self, layer: Layer) -> None:
        """Select changed labels: napari undoes in the selected layer."""
        if layer in self._viewer.layers:
            self._viewer.layers.selection.active = layer

    def paintShapes(self) -> None:
        """Paint the shapes of the selected layer, or of the last one."""
        shapes_layers = [
            layer for layer in list_here(self._viewer) if layer_kind(layer) == "shapes"
        ]
        chosen = [x for x in self._viewer.layers.selection if x in shapes_layers]
        into = self._layer
        if into is None or not shapes_layers:
            self.status.setText("Add a shapes layer, and draw.")
            return
        try:
            number = shapes_to_labels(self._viewer, (chosen or shapes_layers)[-1], into)
        except (ValueError, OverflowError) as error:
            self.status.setText(str(error))
            return
        self._select_labels(into)
        self.status.setText(f"Painted {count_noun(number, 'shape')}. Ctrl+Z undoes it.")


def show_bridge_form(viewer: Viewer) -> BridgeForm:
    """Show the form in a dialog; if it is open already, that one."""
    return show_form(viewer, TITLE, BridgeForm, lambda x: (x.form.region, x.take))
