"""The controls of painted labels: napari's, and what it lacks for large images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari._qt.layer_controls.qt_labels_controls import QtLabelsControls
from napari._qt.layer_controls.qt_layer_controls_container import layer_to_controls
from qtpy.QtWidgets import QComboBox

from napari_ngff.viewer.painting.paint import OMEZarrLabels, select_next_label
from napari_ngff.widgets.saving.label_overlays import install_overlays
from napari_ngff.widgets.saving.save_controls import SaveControls

if TYPE_CHECKING:
    from qtpy.QtWidgets import QFormLayout

__all__ = ["OMEZarrLabelsControls", "install_controls"]

UNITS = ("label voxels", "screen pixels")


class OMEZarrLabelsControls(QtLabelsControls):  # type: ignore[misc]
    """Adds the unit of the brush, and saving; "new" finds a free label at once."""

    layer: OMEZarrLabels

    def __init__(self, layer: OMEZarrLabels) -> None:
        super().__init__(layer)
        # napari 0.8 has no such button.
        button = getattr(self._label_control, "new_label_button", None)
        if button is not None:
            button.clicked.disconnect()
            button.clicked.connect(self._on_new_label)
        self.brush_unit = QComboBox(self)
        self.brush_unit.addItems(UNITS)
        self.brush_unit.setCurrentIndex(int(layer.brush_on_screen))
        self.brush_unit.setToolTip(
            "In label voxels the brush covers the same whatever the zoom;"
            " in screen pixels it looks the same."
        )
        self.brush_unit.currentIndexChanged.connect(self._on_unit)
        form: QFormLayout = self.layout()
        form.addRow("brush size in:", self.brush_unit)
        self.saving = SaveControls(layer, self)
        form.addRow(self.saving)

    def _on_new_label(self) -> None:
        select_next_label(self.layer)

    def _on_unit(self, index: int) -> None:
        self.layer.brush_on_screen = bool(index)


def install_controls() -> None:
    """Let napari use these controls and overlays for painted labels."""
    layer_to_controls[OMEZarrLabels] = OMEZarrLabelsControls
    install_overlays()
