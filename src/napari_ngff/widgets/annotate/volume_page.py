"""Shows a region in 3D, at a chosen level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from napari_ngff.viewer.bridge.view_volume import plan_volume, show_volume
from napari_ngff.widgets.annotate.region_form import RegionForm

if TYPE_CHECKING:
    from napari.components import ViewerModel

__all__ = ["VolumePage"]

HINT = "Shows visible images and selected labels as a volume. Return to 2D to go back."


class VolumePage(QWidget):
    """Chooses a region and a level, and shows them as a volume."""

    reported = Signal(str)
    """Emitted with the result, for the user."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._is_shown = False
        self.form = RegionForm(viewer, plan_volume, self)
        self.form.region.setToolTip("Which part is shown in 3D.")
        self.button = QPushButton("View &in 3D", self)
        self.button.setToolTip("Reads the region at this level, and shows it in 3D.")
        hint = QLabel(HINT, self)
        hint.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.addWidget(self.form)
        layout.addWidget(self.form.memory)
        layout.addWidget(self.button)
        layout.addWidget(hint)
        layout.addStretch(1)
        self.form.possible.connect(self.button.setEnabled)
        self.form.reported.connect(self.reported)
        self.button.clicked.connect(self.viewVolume)
        layers, dims = viewer.layers.events, viewer.dims.events
        # napari holds methods weakly, so a dock that is closed needs no disconnecting.
        for event in (layers.inserted, layers.removed, dims.ndisplay):
            event.connect(self.refreshForm)
        dims.ndisplay.connect(self._on_display)

    def refreshForm(self, event: Any = None) -> None:
        """Update the choices to the layers there are."""
        # A page behind another tab is refreshed by `showEvent` of its form.
        if self.isVisible():
            self.form.refreshLevels()
            self.form.measureRegion()

    def viewVolume(self) -> None:
        """Read the region in a worker, and show it in 3D."""
        self.form.readRegion(self._show_volume)

    def _show_volume(self, layers: Any) -> None:
        volume = show_volume(self._viewer, layers)
        number = "1 layer is" if len(volume) == 1 else f"{len(volume)} layers are"
        self._is_shown = True
        self.reported.emit(f"{number} shown in 3D.")

    def _on_display(self, event: Any = None) -> None:
        if self._is_shown and self._viewer.dims.ndisplay == 2:
            self._is_shown = False
            self.reported.emit("Back in 2D: the earlier layers are shown again.")
