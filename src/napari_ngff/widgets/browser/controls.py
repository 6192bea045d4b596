"""What is chosen beside the map: what is shown, acquisitions, labels, geometry."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QAction  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QButtonGroup,
    QComboBox,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.metadata.model import Kind
from napari_ngff.plate.layout import GEOMETRIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.metadata.model import Acquisition
    from napari_ngff.viewer.browsing.browser import Browser

__all__ = ["BrowserControls", "Mode", "mode_of"]


class Mode(StrEnum):
    """What the canvas shows."""

    PLATE = "Plate"
    SELECTED = "Selected"
    WELL = "Well"
    FIELD = "Field"


TIPS = {
    Mode.PLATE: "All wells as one picture",
    Mode.SELECTED: "The selected wells as one picture",
    Mode.WELL: "All fields of the chosen well as one picture",
    Mode.FIELD: "One field as ordinary layers",
}


def mode_of(browser: Browser) -> Mode | None:
    """Tell what the canvas shows of what is walked; None for nothing."""
    if browser.position is not None:
        return Mode.FIELD
    count = len(browser.shown_wells)
    if browser.kind is Kind.WELL or count == 1:
        return Mode.WELL
    if count == len(browser.map.wells):
        return Mode.PLATE
    return Mode.SELECTED if count else None


class BrowserControls(QWidget):
    """Buttons and boxes; tells what the user wants, and shows what is."""

    mode_chosen = Signal(object)
    """A `Mode` was asked for."""
    acquisitions_chosen = Signal(tuple)
    """Other acquisitions were chosen: their ids, () for all fields together."""
    labels_chosen = Signal(object)
    """Other labels were chosen: their name, or None."""
    geometry_chosen = Signal(object)
    """Another geometry was chosen: number of wells, or None for what fits."""
    filter_changed = Signal(str)
    """The text of the filter has changed."""
    filter_applied = Signal()
    """Enter was pressed in the filter."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.buttons: dict[Mode, QPushButton] = {}
        self._group = QButtonGroup(self)
        modes = QHBoxLayout()
        modes.setSpacing(2)
        for mode in Mode:
            button = QPushButton(mode.value, self)
            button.setCheckable(True)
            button.setToolTip(TIPS[mode])
            self._group.addButton(button, len(self.buttons))
            modes.addWidget(button)
            self.buttons[mode] = button
        # Methods, here and below: lambdas that hold a widget keep it for ever.
        self._group.idClicked.connect(self._on_mode)
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText("Filter wells: B3, C, A1:C4, ?0*, area > 200")
        self.filter.setClearButtonEnabled(True)
        self.filter.setAccessibleName("Filter wells")
        self.filter.setToolTip("Others are dimmed; Enter selects those that are left.")
        # A table that is dropped on it would be typed into it, by its path.
        self.filter.setAcceptDrops(False)
        self.filter.textChanged.connect(self.filter_changed)
        self.filter.returnPressed.connect(self.filter_applied)
        self.geometry_box = QComboBox(self)
        self.geometry_box.setAccessibleName("Geometry")
        self.geometry_box.setToolTip("Number of wells of the plate")
        self.geometry_box.addItem("auto", None)
        for count in GEOMETRIES:
            self.geometry_box.addItem(f"{count} wells", count)
        self.geometry_box.activated.connect(self._on_geometry)
        self.acquisitions = QToolButton(self)
        self.acquisitions.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.acquisitions.setAccessibleName("Acquisitions")
        self.acquisitions.setToolTip("Several are shown as layers of their own.")
        self.menu = QMenu(self.acquisitions)
        self.acquisitions.setMenu(self.menu)
        self.labels = QComboBox(self)
        self.labels.setAccessibleName("Labels")
        self.labels.setToolTip("Labels shown on the pictures of many fields")
        self.labels.activated.connect(self._on_labels)
        # A click does not take the keys that walk.
        for widget in (*self.buttons.values(), self.geometry_box, self.labels):
            widget.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._arrange(modes)
        self.setLabels((), None)

    def _arrange(self, modes: QHBoxLayout) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(modes)
        for row in (
            (self.filter, self.geometry_box),
            (self.acquisitions, self.labels),
        ):
            line = QHBoxLayout()
            for widget in row:
                line.addWidget(widget)
            line.setStretchFactor(row[0], 1)
            layout.addLayout(line)

    def setMode(self, mode: Mode | None, can_select: bool, has_plate: bool) -> None:
        """Show what the canvas shows, and what it can show."""
        for each, button in self.buttons.items():
            button.setChecked(each is mode)
        self.buttons[Mode.PLATE].setVisible(has_plate)
        self.buttons[Mode.SELECTED].setVisible(has_plate)
        self.buttons[Mode.SELECTED].setEnabled(can_select)
        self.filter.setVisible(has_plate)
        self.geometry_box.setVisible(has_plate)

    def setLabels(self, names: Sequence[str], chosen: str | None) -> None:
        """Offer labels by name."""
        self.labels.clear()
        self.labels.addItem("no labels", None)
        for name in names:
            self.labels.addItem(name, name)
        self.labels.setVisible(bool(names))
        self.showLabels(chosen)

    def addLabels(self, names: Sequence[str], chosen: str | None) -> None:
        """Offer further labels beside those that are offered already."""
        offered = [self.labels.itemData(i) for i in range(1, self.labels.count())]
        self.setLabels(tuple(dict.fromkeys([*offered, *names])), chosen)

    def showLabels(self, chosen: str | None) -> None:
        """Show which labels are chosen."""
        self.labels.setCurrentIndex(max(0, self.labels.findData(chosen)))

    def setAcquisitions(
        self, acquisitions: Sequence[Acquisition], chosen: Sequence[int]
    ) -> None:
        """Offer acquisitions; with one or none there is nothing to choose."""
        self.menu.clear()
        together = QAction("All fields together", self.menu)
        together.setCheckable(True)
        together.setChecked(not chosen)
        together.triggered.connect(self._on_together)
        self.menu.addAction(together)
        titles = []
        for each in acquisitions:
            title = each.name or f"acquisition {each.id}"
            action = QAction(title, self.menu)
            action.setCheckable(True)
            action.setChecked(each.id in chosen)
            action.setData(each.id)
            action.triggered.connect(self._on_acquisition)
            self.menu.addAction(action)
            if each.id in chosen:
                titles.append(title)
        self.acquisitions.setText(", ".join(titles) or "all acquisitions")
        self.acquisitions.setVisible(len(acquisitions) > 1)

    def _on_mode(self, number: int) -> None:
        self.mode_chosen.emit(tuple(Mode)[number])

    def _on_geometry(self, row: int) -> None:
        self.geometry_chosen.emit(self.geometry_box.itemData(row))

    def _on_labels(self, row: int) -> None:
        self.labels_chosen.emit(self.labels.itemData(row))

    def _on_together(self) -> None:
        self.acquisitions_chosen.emit(())

    def _on_acquisition(self) -> None:
        ids = [a.data() for a in self.menu.actions() if a.isChecked()]
        self.acquisitions_chosen.emit(tuple(i for i in ids if i is not None))
