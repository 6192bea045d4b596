"""The form *View a region in 3D*: chooses a region and a level, and shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from napari_ngff.viewer.bridge.view_volume import plan_volume, show_volume
from napari_ngff.widgets.annotate.region_form import RegionForm
from napari_ngff.widgets.connections import connect_while_alive
from napari_ngff.widgets.form_dialog import close_form, show_form
from napari_ngff.widgets.theme_look import ThemeFollower

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.viewer import Viewer

TITLE = "View a region in 3D"
HINT = "Shows visible images and selected labels as a volume. Return to 2D to go back."


class VolumeForm(QWidget):
    """Chooses a region and a level, and shows them as a volume."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self.form = RegionForm(viewer, plan_volume, self)
        self.form.region.setToolTip("Which part is shown in 3D.")
        self.button = QPushButton("View &in 3D", self)
        self.button.setToolTip("Reads the region at this level, and shows it in 3D.")
        self.status = QLabel(HINT, self)
        self.status.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.form)
        layout.addWidget(self.form.memory)
        layout.addWidget(self.button)
        layout.addWidget(self.status)
        self.form.possible.connect(self.button.setEnabled)
        self.form.reported.connect(self.status.setText)
        self.button.clicked.connect(self.viewVolume)
        layers, dims = viewer.layers.events, viewer.dims.events
        for event in (layers.inserted, layers.removed, dims.ndisplay):
            connect_while_alive(event, self, self.refreshForm)
        ThemeFollower(self, viewer)

    def refreshForm(self, event: Any = None) -> None:
        """Update the choices to the layers there are."""
        self.form.refreshLevels()
        self.form.measureRegion()

    def viewVolume(self) -> None:
        """Read the region in a worker, show it in 3D, and close the form."""
        self.form.readRegion(self._show_volume)

    def _show_volume(self, layers: Any) -> None:
        volume = show_volume(self._viewer, layers)
        number = "1 layer is" if len(volume) == 1 else f"{len(volume)} layers are"
        self._viewer.status = f"{number} shown in 3D. Return to 2D to go back."
        # It would cover the canvas.
        close_form(self)


def show_volume_form(viewer: Viewer) -> VolumeForm:
    """Show the form in a dialog; if it is open already, that one."""
    return show_form(viewer, TITLE, VolumeForm, lambda x: (x.form.region, x.button))
