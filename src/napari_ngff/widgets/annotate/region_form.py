"""Chooses a region and a level, shows the memory they take, and views them in 3D."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSignalBlocker, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QFormLayout, QVBoxLayout, QWidget

from napari_ngff.store.limits import size_text
from napari_ngff.viewer.bridge.handover import REGIONS, RegionHandover, list_sources
from napari_ngff.viewer.bridge.view_volume import plan_volume, show_volume
from napari_ngff.viewer.layers.label_owners import image_address
from napari_ngff.viewer.streaming.regions import level_shapes
from napari_ngff.widgets.connections import (
    WidgetTasks,
    choice_box,
    connect_while_alive,
    fill_layout,
    make_buttons,
    make_timer,
    wrapping_label,
)
from napari_ngff.widgets.form_dialog import close_form, show_form
from napari_ngff.widgets.theme_look import ThemeFollower

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    Plan = Callable[[Any, Any, Any, int], RegionHandover]
    from napari.viewer import Viewer


SETTLED = 300
"""Milliseconds for which the view rests before the region is measured again."""

LARGE = 1 << 30
"""Bytes above which the size is written in bold."""


class RegionForm(QWidget):
    """Chooses a part of the visible images and the selected labels.

    Parameters
    ----------
    plan
        Called with viewer, layers, region and level, as `plan_handover`.
    """

    possible = Signal(bool)
    """Emitted with whether the chosen region can be read."""
    reported = Signal(str)
    """Emitted with messages about progress and errors, for the user."""

    def __init__(
        self, viewer: ViewerModel, plan: Plan, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._viewer, self._plan = viewer, plan
        self._tasks = WidgetTasks(self)
        self.region = choice_box(self, "Region", "Which part is read.")
        for kind, text in REGIONS.items():
            self.region.addItem(text, kind)
        self.level = choice_box(self, "Level", "A coarser one is smaller, less exact.")
        # Added by the page below this form: a form layout gives wrapped lines no room.
        self.memory = wrapping_label(parent)
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("&Region", self.region)
        form.addRow("Level", self.level)
        self.region.activated.connect(self.measureRegion)
        self.level.activated.connect(self.measureRegion)
        self._settling = make_timer(self, SETTLED, self.measureRegion)
        for event in (viewer.scene.camera.events, viewer.dims.events.current_step):
            connect_while_alive(event, self, self._on_view)

    def _on_view(self, event: Any = None) -> None:
        """Measure the visible area again once the view rests."""
        if self.isVisible() and self.region.currentData() == "view":
            self._settling.start()

    def showEvent(self, event: Any) -> None:
        """Update levels and size when the form is shown."""
        self.refreshLevels()
        super().showEvent(event)

    def refreshLevels(self, event: Any = None) -> None:
        """Offer the levels that there are, and measure the region."""
        layers = list_sources(self._viewer)
        shapes = level_shapes(layers[0]) if layers else []
        with QSignalBlocker(self.level):
            # -1 in a list that is still empty.
            chosen = max(0, self.level.currentIndex())
            self.level.clear()
            for number, shape in enumerate(shapes):
                self.level.addItem(f"{number}: {' x '.join(map(str, shape))}", number)
            self.level.setCurrentIndex(min(chosen, self.level.count() - 1))
        self.measureRegion()

    def measureRegion(self) -> None:
        """Show how large the region is, before anything is read."""
        self._plan_region("plan", self._show_size)

    def _plan_region(self, subject: str, done: Callable[[Any], None]) -> None:
        viewer, layers = self._viewer, list_sources(self._viewer)
        kind, level = self.region.currentData(), self.level.currentData() or 0

        def plan_or_explain() -> RegionHandover | str:
            try:
                return self._plan(viewer, layers, kind, level)
            except ValueError as error:
                return str(error)

        if kind == "label":  # reads pixels, to find where the label is
            self._tasks.start_task(subject, plan_or_explain, done)
        else:
            self._tasks.cancel_others("take", "read")  # what a worker still measures
            done(plan_or_explain())

    def _show_size(self, handover: RegionHandover | str) -> None:
        self.possible.emit(not isinstance(handover, str))
        if isinstance(handover, str):
            self.memory.setText(handover)
            return
        number = len(handover.layers)
        layers = "1 layer" if number == 1 else f"{number} layers"
        text = f"{layers}, {size_text(handover.nbytes)} of memory"
        self.memory.setText(f"<b>{text}</b>" if handover.nbytes > LARGE else text)

    def readRegion(self, done: Callable[[Any], None]) -> None:
        """Read what is chosen, in a worker; `done` gets the plain layers."""

        def read_planned(handover: RegionHandover | str) -> None:
            self._show_size(handover)
            if not isinstance(handover, str):
                self._read_handover(handover, done)

        self._plan_region("read", read_planned)

    def _read_handover(
        self, handover: RegionHandover, done: Callable[[Any], None]
    ) -> None:
        self.reported.emit(f"Reading {size_text(handover.nbytes)}…")
        images = list(map(image_address, handover.layers))

        def hand_over(layers: Any) -> None:
            if list(map(image_address, handover.layers)) != images:
                layers = "another field was shown meanwhile."
            if isinstance(layers, str):
                self.reported.emit(f"Not read: {layers}")
            else:
                done(layers)

        self._tasks.start_task("take", handover.read_region, hand_over)


TITLE = "View a region in 3D"
HINT = "Shows visible images and selected labels as a volume. Return to 2D to go back."


class VolumeForm(QWidget):
    """Chooses a region and a level, and shows them as a volume."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self.form = RegionForm(viewer, plan_volume, self)
        self.form.region.setToolTip("Which part is shown in 3D.")
        tip = "Reads the region at this level, and shows it in 3D."
        (self.button,) = make_buttons(self, ("View &in 3D", tip, self.viewVolume))
        self.status = wrapping_label(self, HINT)
        parts = self.form, self.form.memory, self.button, self.status
        fill_layout(QVBoxLayout(self), *parts, margin=0)
        self.form.possible.connect(self.button.setEnabled)
        self.form.reported.connect(self.status.setText)
        layers, dims = viewer.layers.events, viewer.dims.events
        for event in (layers.inserted, layers.removed, dims.ndisplay):
            connect_while_alive(event, self, self.form.refreshLevels)
        ThemeFollower(self, viewer)

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
