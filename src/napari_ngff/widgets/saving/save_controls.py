"""The controls of painted labels: saving, and what napari lacks for large images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QWidget,
)

from napari_ngff.viewer.annotations.save_state import SaveWatch, find_unsaved_classes
from napari_ngff.viewer.annotations.sidecars import edit_copy
from napari_ngff.viewer.painting.paint import (
    OMEZarrLabels,
    save_labels,
    select_next_label,
)
from napari_ngff.viewer.private.lost import relies_on
from napari_ngff.viewer.private.visuals import LabelsControls, control_by
from napari_ngff.viewer.session import session_of, viewer_of
from napari_ngff.widgets.canvas_keys import leave_space_key
from napari_ngff.widgets.connections import (
    Connections,
    call_soon,
    connect_while_alive,
    fill_layout,
    make_buttons,
    while_alive,
    wrapping_label,
)
from napari_ngff.widgets.painting_outlines import install_overlays

if TYPE_CHECKING:
    from napari_ngff.viewer.annotations.annotations import Annotations
    from napari_ngff.viewer.saving.layer_saver import LayerSaver


class SaveControls(QWidget):
    """Saves one layer, and shows whether it is saved: one row of controls."""

    def __init__(self, layer: OMEZarrLabels, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._layer = layer
        self._watch = SaveWatch(layer, while_alive(self.showState))
        self.save, self.cancel, self.copy_button = make_buttons(
            self,
            ("Save", "Save what changed into the file (Ctrl+S)", self._on_save),
            ("Cancel", "Stop saving; the next save writes the rest", self._on_cancel),
            (
                "Edit a copy",
                "Copy the labels into a sidecar, and paint there",
                self._on_copy,
            ),
        )
        self.padlock = QCheckBox("Locked", self)
        self.padlock.setToolTip(
            "No tool changes locked labels, also in all other fields of the plate"
        )
        self.padlock.clicked.connect(self._on_padlock)
        self.state = wrapping_label(self)
        buttons = self.save, self.cancel, self.copy_button, self.padlock
        fill_layout(QHBoxLayout(self), *buttons, self.state, wide=self.state, margin=0)
        leave_space_key(self)
        self._owner: Annotations | None = None
        self._followed: LayerSaver | None = None
        self._following = Connections(self)
        for event in (layer.events.data, layer.events.paint):
            connect_while_alive(event, self, self._show_state_soon)
        for event in (layer.events.editable, layer.events.locked):
            connect_while_alive(event, self, self.showState)
        self.showState()

    def showEvent(self, event: Any) -> None:
        """Show the state when the row is shown."""
        self.showState()
        super().showEvent(event)

    def enterEvent(self, event: Any) -> None:
        """Count the changed chunks for the tool tip."""
        self.showState()
        super().enterEvent(event)

    def showState(self, _: Any = None) -> None:
        """Show the state now, and again with each signal of the saver."""
        self._follow_saver(self._layer.saver)
        self._follow_annotations()
        state = self._watch.read_state(self._owner)
        self.state.setText(state.text)
        self.state.setToolTip(state.detail)
        self.save.setEnabled(state.saves)
        # Beside it, not in its place: a double click on "Save" cancels nothing.
        self.cancel.setVisible(state.cancels)
        self.save.setVisible(not state.copies)
        self.copy_button.setVisible(state.copies)
        self.padlock.setVisible(not self._layer.read_only)
        self.padlock.setChecked(bool(self._layer.locked))

    def _follow_saver(self, saver: LayerSaver | None) -> None:
        """Follow the signals of a saver, and no longer those of the one before."""
        if saver is self._followed:
            return
        self._following.end()
        self._followed = saver
        if saver is not None:
            for name in ("dirty_changed", "progressed", "saved", "failed"):
                self._following.connect(getattr(saver, name), self.showState)

    def _follow_annotations(self) -> None:
        """Follow the annotations of the viewer, once the layer is in it."""
        viewer = None if self._owner is not None else viewer_of(self._layer)
        if viewer is not None:
            self._owner = session_of(viewer).annotations
            connect_while_alive(self._owner.changed, self, self._show_state_soon)

    def _show_state_soon(self, event: Any = None) -> None:
        # A stroke is about to end; or the saver of another field's labels comes next.
        call_soon(self.showState)

    def _on_save(self) -> None:
        classes = find_unsaved_classes(self._owner, self._layer)
        if classes is not None:
            classes.save()
        if classes is None or self._layer.unsaved:
            save_labels(self._layer)
        self.showState()

    def _on_copy(self) -> None:
        viewer = viewer_of(self._layer)
        copy = None if viewer is None else edit_copy(viewer, self._layer)
        if copy is not None:
            copy.ended.connect(while_alive(self._show_state_soon))
        self.showState()

    def _on_padlock(self, locked: bool) -> None:
        self._layer.locked = locked

    def _on_cancel(self) -> None:
        if self._layer.saver is not None:
            self._layer.saver.cancel()


UNITS = ("image pixels", "screen pixels")


@relies_on("_label_control")
class OMEZarrLabelsControls(LabelsControls):  # type: ignore[misc]
    """Adds the unit of the brush, and saving; "new" finds a free label quickly."""

    layer: OMEZarrLabels

    def __init__(self, layer: OMEZarrLabels) -> None:
        super().__init__(layer)
        button = getattr(self._label_control, "new_label_button", None)
        if button is not None:
            # napari's own finds a free label only in NumPy arrays.
            button.clicked.disconnect()
            button.clicked.connect(self._on_new_label)
        self.brush_unit = QComboBox(self)
        self.brush_unit.addItems(UNITS)
        self.brush_unit.setCurrentIndex(int(layer.brush_on_screen))
        self.brush_unit.setToolTip(
            "In image pixels the brush covers the same whatever the zoom;"
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
    """Let napari use these controls and overlays for labels of OME-Zarr."""
    control_by(OMEZarrLabels, OMEZarrLabelsControls)
    install_overlays()
