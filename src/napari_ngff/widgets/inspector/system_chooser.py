"""Chooses the coordinate system of layers, and saves the position of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QSignalBlocker, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.errors import OMEZarrError
from napari_ngff.viewer.inspecting.inspection import homes_of, is_named
from napari_ngff.viewer.layers.user_alignment import is_movable
from napari_ngff.viewer.plans.system_views import system_name
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.connections import (
    choice_box,
    connect_while_alive,
    enable_if,
    fill_layout,
    make_buttons,
    make_timer,
    wrapping_label,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.metadata.model import Reference


class SystemChooser(QWidget):
    """Lists the coordinate systems in which layers of the viewer can be shown."""

    reported = Signal(str)
    """Emitted with the result of a choice, for the user."""

    saved = Signal(str)
    """Emitted with a text when a position was saved."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._session = session_of(viewer)
        self._systems: list[Reference] = []
        tip = "Shows all layers that can be in a coordinate system."
        self.systems = choice_box(self, "Coordinate system", tip)
        tip = "Writes where the active layer was moved to into its file."
        (self.save,) = make_buttons(self, ("Save transform…", tip, self.saveTransform))
        label = QLabel("S&ystem", self)
        label.setBuddy(self.systems)
        parts = label, self.systems, self.save
        fill_layout(QHBoxLayout(self), *parts, wide=self.systems, margin=0)
        self.systems.activated.connect(self._on_chosen)
        # Layers come and go one by one: list the systems once for all of them.
        self._later = make_timer(self, 0, self.listSystems)
        layers = viewer.layers
        for event in (layers.events.inserted, layers.events.removed):
            connect_while_alive(event, self, self._on_layers)
        # Systems that a field leads to take time to find, so not for each click.
        for event in (layers.selection.events.active, self._session.system_shown):
            connect_while_alive(event, self, self._mark_system)
        self.listSystems()

    def listSystems(self) -> None:
        """List the coordinate systems of the layers there are."""
        systems = self._session.systems()
        self._systems = list(systems)
        with QSignalBlocker(self.systems):
            self.systems.clear()
            for system, missing in systems.items():
                without = f", without {', '.join(missing)}" if missing else ""
                self.systems.addItem(system_name(system) + without)
        enable_if(len(systems) > 1, self.systems, "There is no other system to show.")
        self._mark_system()

    def _mark_system(self, _: object = None) -> None:
        """Show the coordinate system of the active layer in the box."""
        active = self._viewer.layers.selection.active
        current = self._session.system_of(active)
        # A layer that was just added is listed only by the timer.
        known = current in self._systems
        index = self._systems.index(current) if known and current else -1
        with QSignalBlocker(self.systems):
            self.systems.setCurrentIndex(index)
        enable_if(is_movable(active), self.save, "Select an image; labels follow it.")

    def saveTransform(self) -> None:
        """Ask for a name, and save the position of the active layer."""
        layer = self._viewer.layers.selection.active
        if layer is None:
            return
        dialog = TransformDialog(layer, self)
        accepted = dialog.exec() == QDialog.DialogCode.Accepted
        name, home = dialog.name.text().strip(), dialog.home.currentText()
        scene = dialog.homes.get(home)  # None for the image
        dialog.deleteLater()
        if not accepted:
            return
        try:
            path, left = self._session.save_transform(layer, name, scene)
        except (OMEZarrError, OSError) as error:
            self.reported.emit(f"Not saved. {error}")
        else:
            self.listSystems()
            shown = f" The layers of the image are shown in {name}." if name else ""
            self.saved.emit(f"Saved in {path}.{shown} {name_unmoved(left)}".rstrip())

    def _on_layers(self, _: object = None) -> None:
        self._later.start()

    def _on_chosen(self, index: int) -> None:
        left = self._session.show_system(self._systems[index])
        self.reported.emit(name_unmoved(left))


class TransformDialog(QDialog):
    """Asks for the name of a coordinate system, and for the group that stores it."""

    def __init__(self, layer: Layer, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Save transform")
        self.homes = homes_of(layer)
        self.name = QLineEdit(self)
        self.home = QComboBox(self)
        self.home.addItems(list(self.homes))
        form = QFormLayout()
        form.addRow("&In", self.home)
        text = (
            f"The position of {layer.name} is written into the metadata; pixels stay."
        )
        if is_named(layer):
            form.insertRow(0, "&Name", self.name)
            self.name.setPlaceholderText("of the new system, such as aligned")
        else:
            text += (
                " This version has a scale and a translation for it, no name. Labels of"
                " the image are moved with it."
            )
            self.name.hide()
        standard = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(standard.Save | standard.Cancel, self)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        fill_layout(QVBoxLayout(self), wrapping_label(self, text), form, buttons)


def name_unmoved(left: Sequence[str]) -> str:
    """Return a sentence that names the layers that stay; "" where there are none."""
    return f"These stay where they are: {', '.join(left)}." if left else ""
