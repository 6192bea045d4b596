"""The form that measures the labels of one layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from magicgui.widgets import ComboBox, Container, Label, ProgressBar, PushButton
from napari.layers import Labels
from qtpy.compat import isalive
from qtpy.QtCore import QTimer

from napari_ngff.errors import UnsupportedError
from napari_ngff.viewer.painting.layer_measuring import LayerMeasuring, nodes_of
from napari_ngff.widgets.dialogs import ask_table_file
from napari_ngff.widgets.form_dialog import FormDialog, shown_form
from napari_ngff.widgets.theme_look import ThemeFollower, wrap_label

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.viewer import Viewer

__all__ = ["MeasureForm", "show_measure_form"]

TITLE = "Measure labels"
INTERVAL = 100
"""Milliseconds between two updates of the progress bar."""


class MeasureForm(Container):  # type: ignore[type-arg]
    """Ask which labels, measure them, and offer to save the table."""

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = viewer
        self._measuring: LayerMeasuring | None = None
        self.layer = ComboBox(label="Labels", choices=self._list_layers)
        self.button = PushButton(text="Measure")
        self.progress = ProgressBar(visible=False)
        self.cancel = PushButton(text="Cancel", visible=False)
        self.save_button = PushButton(text="Save table…", enabled=False)
        self.status = Label(value="")
        wrap_label(self.status)
        super().__init__(
            widgets=[
                self.layer,
                self.button,
                self.progress,
                self.cancel,
                self.save_button,
                self.status,
            ]
        )
        ThemeFollower(self.native, viewer)
        self._timer = QTimer(self.native)
        self._timer.setInterval(INTERVAL)
        self._timer.timeout.connect(self._show_progress)
        self.button.changed.connect(self.measure_layer)
        self.cancel.changed.connect(self._on_cancel)
        self.save_button.changed.connect(self._on_save)
        layers = viewer.layers.events
        for event in (layers.inserted, layers.removed):
            event.connect(self._on_layers)
        # The viewer outlives the form, and would call it when its boxes are gone.
        self.native.destroyed.connect(self._disconnect_layers)
        active = viewer.layers.selection.active
        if active in self.layer.choices:
            self.layer.value = active

    def measure_layer(self) -> None:
        """Begin to measure the chosen layer."""
        layer = self.layer.value
        if layer is None:
            self.status.value = "There are no labels of an OME-Zarr."
            return
        self._measuring = LayerMeasuring(layer, self._on_ended)
        unsaved = getattr(layer, "unsaved", False)
        self.status.value = "Unsaved edits are not measured." if unsaved else ""
        self._show_busy(True)
        self._measuring.start()

    def measured_table(self) -> Any:
        """Return the table; None before there is one."""
        return None if self._measuring is None else self._measuring.frame

    def _on_ended(self) -> None:
        if not self._is_alive() or self._measuring is None:
            return
        self._show_busy(False)
        if self._measuring.error:
            self.status.value = self._measuring.error
        else:
            count = len(self._measuring.frame)
            self.status.value = f"Labels measured: {count:,}, as features of the layer."
            # Enter now saves the table instead of measuring again.
            self.save_button.native.setDefault(True)

    def _on_cancel(self) -> None:
        if self._measuring is not None:
            self._measuring.cancel()
        self._measuring = None
        self._show_busy(False)

    def _on_save(self) -> None:
        path = ask_table_file(self.native)
        if path:
            self.save_table(path)

    def save_table(self, path: str) -> None:
        """Write the table into a file."""
        if self._measuring is not None and self._measuring.frame is not None:
            self._measuring.save_table(path, self._on_saved)

    def _on_saved(self, text: str) -> None:
        if self._is_alive():
            self.status.value = text

    def _show_busy(self, busy: bool) -> None:
        """Show the progress bar, or enable the buttons that can be pressed next."""
        self.button.enabled = not busy
        self.progress.visible = self.cancel.visible = busy
        self.save_button.enabled = not busy and self.measured_table() is not None
        if busy:
            # No range: the bar moves until the number of tasks is known.
            self.progress.min, self.progress.max, self.progress.value = 0, 0, 0
            self._timer.start()
        else:
            self._timer.stop()

    def _show_progress(self) -> None:
        if self._measuring is not None and self._measuring.total:
            self.progress.max = self._measuring.total
            self.progress.value = self._measuring.done

    def _list_layers(self, _: Any = None) -> list[Labels]:
        return [layer for layer in self._viewer.layers if is_measurable(layer)]

    def _on_layers(self, _: Any = None) -> None:
        self.layer.reset_choices()

    def _disconnect_layers(self, _: Any = None) -> None:
        layers = self._viewer.layers.events
        for event in (layers.inserted, layers.removed):
            event.disconnect(self._on_layers)
        if self._measuring is not None:
            self._measuring.cancel()

    def _is_alive(self) -> bool:
        return bool(isalive(self.native))  # type: ignore[no-untyped-call]


def is_measurable(layer: Any) -> bool:
    """Tell whether a layer shows labels of one image."""
    if not isinstance(layer, Labels):
        return False
    try:
        nodes_of(layer)
    except UnsupportedError:
        return False
    return True


def show_measure_form(viewer: Viewer) -> MeasureForm:
    """Show the form in the viewer's window, a new one for the active labels."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    form = shown_form(viewer, TITLE)
    if not isinstance(form, MeasureForm):
        form = MeasureForm(viewer)
        first, button = form.layer.native, form.button.native
        FormDialog(viewer, TITLE, form, first, button).show()
    active = viewer.layers.selection.active
    if active in form.layer.choices:
        form.layer.value = active
    return form
