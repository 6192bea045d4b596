"""Chooses a region and a level, and says how large that is before it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSignalBlocker, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QComboBox, QFormLayout, QLabel, QWidget

from napari_ngff.viewer.bridge.handover import REGIONS, RegionHandover, list_sources
from napari_ngff.viewer.bridge.regions import level_shapes
from napari_ngff.widgets.widget_tasks import WidgetTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    Plan = Callable[[Any, Any, Any, int], RegionHandover]

__all__ = ["RegionForm", "choice_box"]

LARGE = 1 << 30
"""Bytes above which the size is written in bold."""


class RegionForm(QWidget):
    """What is taken out of the visible images and the selected labels.

    Parameters
    ----------
    plan
        As `napari_ngff.viewer.bridge.handover.plan`.
    """

    possible = Signal(bool)
    """Emitted with whether what is chosen can be read."""
    reported = Signal(str)
    """Emitted with what goes on, and what went wrong."""

    def __init__(
        self, viewer: ViewerModel, plan: Plan, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._viewer, self._plan = viewer, plan
        self._tasks = WidgetTasks(self)
        self.region = choice_box(self, "Region", "Which part the plain layers get.")
        for kind, text in REGIONS.items():
            self.region.addItem(text, kind)
        self.level = choice_box(self, "Level", "A coarser one is smaller, less exact.")
        # Stands below this: its lines wrap, and Qt has no room for that within.
        self.memory = QLabel(parent)
        self.memory.setWordWrap(True)
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("&Region", self.region)
        form.addRow("Level", self.level)
        self.region.activated.connect(self.measureRegion)
        self.level.activated.connect(self.measureRegion)

    def showEvent(self, event: Any) -> None:
        """Offer what there is when this comes on the screen."""
        self.refreshLevels()
        self.measureRegion()
        super().showEvent(event)

    def refreshLevels(self) -> None:
        """Offer the levels that there are."""
        layers = list_sources(self._viewer)
        shapes = level_shapes(layers[0]) if layers else []
        with QSignalBlocker(self.level):
            chosen = max(0, self.level.currentIndex())
            self.level.clear()
            for number, shape in enumerate(shapes):
                self.level.addItem(f"{number}: {' x '.join(map(str, shape))}", number)
            self.level.setCurrentIndex(min(chosen, self.level.count() - 1))
        self.possible.emit(bool(layers))

    def measureRegion(self) -> None:
        """Say how large the region is, before anything is read."""
        self._plan_region(self._show_size)

    def _plan_region(self, done: Callable[[Any], None]) -> None:
        viewer, layers = self._viewer, list_sources(self._viewer)
        kind, level = self.region.currentData(), self.level.currentData() or 0

        def plan_or_explain() -> RegionHandover | str:
            try:
                return self._plan(viewer, layers, kind, level)
            except ValueError as error:
                return str(error)

        if kind == "label":  # it has to be found
            self._tasks.start_task("plan", plan_or_explain, done)
        else:
            done(plan_or_explain())

    def _show_size(self, found: RegionHandover | str) -> None:
        self.possible.emit(not isinstance(found, str))
        if isinstance(found, str):
            self.memory.setText(found)
            return
        layers = "1 layer" if len(found.layers) == 1 else f"{len(found.layers)} layers"
        text = f"{layers}, {size_text(found.nbytes)} of memory"
        self.memory.setText(f"<b>{text}</b>" if found.nbytes > LARGE else text)

    def readRegion(self, done: Callable[[Any], None]) -> None:
        """Read what is chosen, in a worker; `done` gets the plain layers."""

        def read_planned(found: RegionHandover | str) -> None:
            self._show_size(found)
            if not isinstance(found, str):
                self._read_handover(found, done)

        self._plan_region(read_planned)

    def _read_handover(
        self, found: RegionHandover, done: Callable[[Any], None]
    ) -> None:
        self.reported.emit(f"Reading {size_text(found.nbytes)}…")

        def read_or_explain() -> Any:
            try:
                return found.read_region()
            except (MemoryError, ValueError) as error:
                return f"Not read: {error}"

        def hand_over(layers: Any) -> None:
            if isinstance(layers, str):
                self.reported.emit(layers)
            else:
                done(layers)

        self._tasks.start_task("take", read_or_explain, hand_over)


def choice_box(parent: QWidget, name: str, tip: str) -> QComboBox:
    """Make a box to choose from, which leaves its width to the dock."""
    box = QComboBox(parent)
    box.setAccessibleName(name)
    box.setToolTip(tip)
    box.setSizeAdjustPolicy(
        QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
    )
    box.setMinimumContentsLength(10)
    return box


def size_text(nbytes: int) -> str:
    """Write a number of bytes as people do."""
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
