"""Controls above the map: view, filter, layout, acquisitions and labels."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from qtpy.QtCore import Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QAction  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QApplication,
    QButtonGroup,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.metadata.model import Acquisition, GroupKind
from napari_ngff.plate.plate_layout import GEOMETRIES
from napari_ngff.widgets.connections import choice_box, enable_if

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.viewer.browsing.browser import Browser


class CanvasMode(StrEnum):
    """What the canvas shows."""

    PLATE = "Plate"
    SELECTED = "Selected"
    WELL = "Well"
    FIELD = "Field"


def make_caption(text: str, widget: QWidget, parent: QWidget) -> QLabel:
    """Make the caption of a box, which a screen reader reads with it."""
    label = QLabel(text, parent)
    label.setBuddy(widget)
    return label


LEAST_FILTER = 120
"""Least width of the line of a filter, in pixels."""

TIPS = {
    CanvasMode.PLATE: "Overview of all wells",
    CanvasMode.SELECTED: "Overview of the selected wells",
    CanvasMode.WELL: "Overview of all fields of the chosen well",
    CanvasMode.FIELD: "One field as ordinary layers",
}


def mode_of(browser: Browser) -> CanvasMode | None:
    """Return what the canvas shows of a browser; None for nothing."""
    if browser.position is not None:
        return CanvasMode.FIELD
    count = len(browser.shown_wells)
    if browser.kind is GroupKind.WELL or count == 1:
        return CanvasMode.WELL
    if count == len(browser.map.wells):
        return CanvasMode.PLATE
    return CanvasMode.SELECTED if count else None


class BrowserControls(QWidget):
    """Buttons and boxes that emit the user's choice and show what is on screen."""

    mode_chosen = Signal(object)
    """A `CanvasMode` was asked for."""
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
        self.buttons: dict[CanvasMode, QPushButton] = {}
        self._group = QButtonGroup(self)
        modes = self._build_modes()
        # Methods, here and below: Qt keeps a lambda, and the widget it holds, for ever.
        self._group.idClicked.connect(self._on_mode)
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText("Filter wells: B3, C, A1:C4, ?0*, area > 200")
        self.filter.setClearButtonEnabled(True)
        self.filter.setAccessibleName("Filter wells")
        self.filter.setToolTip("Others are dimmed; Enter selects those that are left.")
        # A line takes a dropped table as text: it would show the path of the file.
        self.filter.setAcceptDrops(False)
        self.filter.textChanged.connect(self.filter_changed)
        self.filter.returnPressed.connect(self.filter_applied)
        self.geometry_box = QComboBox(self)
        self.geometry_box.setAccessibleName("Layout")
        self.geometry_box.setToolTip("Number of wells of the plate")
        self.geometry_box.addItem("auto", None)
        for count in GEOMETRIES:
            self.geometry_box.addItem(f"{count} wells", count)
        self.geometry_box.activated.connect(self._on_geometry)
        self.acquisitions = QPushButton(self)
        self.acquisitions.setAccessibleName("Acquisition")
        self.acquisitions.setToolTip("Ctrl-click adds another, as layers of its own.")
        self.menu = QMenu(self.acquisitions)
        self.menu.triggered.connect(self._on_acquisition)
        self.acquisitions.setMenu(self.menu)
        self.labels = choice_box(self, "Labels", "Labels shown on overviews")
        self.labels.activated.connect(self._on_labels)
        # Not by a click: arrows shall keep stepping from well to well.
        for widget in (*self.buttons.values(), self.geometry_box, self.labels):
            widget.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._build_layout(modes)
        self.setLabels((), None)

    def _build_modes(self) -> QHBoxLayout:
        """Make the buttons for what the canvas shows, in a row."""
        modes = QHBoxLayout()
        modes.setSpacing(2)
        for mode in CanvasMode:
            button = QPushButton(mode.value, self)
            button.setCheckable(True)
            button.setToolTip(TIPS[mode])
            # In a group one button stays checked, also when it is clicked again.
            self._group.addButton(button, len(self.buttons))
            modes.addWidget(button)
            self.buttons[mode] = button
        return modes

    def _build_layout(self, modes: QHBoxLayout) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(modes)
        self.filter.setMinimumWidth(LEAST_FILTER)
        self.geometry_caption = make_caption("Layout:", self.geometry_box, self)
        self.run_caption = make_caption("Acquisition:", self.acquisitions, self)
        self.labels_caption = make_caption("Labels:", self.labels, self)
        for widgets in (
            (self.filter, self.geometry_caption, self.geometry_box),
            (self.run_caption, self.acquisitions, self.labels_caption, self.labels),
        ):
            line = QHBoxLayout()
            line.setSpacing(4)
            for widget in widgets:
                grows = widget in (self.filter, self.acquisitions, self.labels)
                line.addWidget(widget, int(grows))
            layout.addLayout(line)

    def setMode(
        self, mode: CanvasMode | None, can_select: bool, has_plate: bool
    ) -> None:
        """Check the button of what the canvas shows, and enable those it can show."""
        for each, button in self.buttons.items():
            button.setChecked(each is mode)
        self.buttons[CanvasMode.PLATE].setVisible(has_plate)
        self.buttons[CanvasMode.SELECTED].setVisible(has_plate)
        enable_if(
            can_select,
            self.buttons[CanvasMode.SELECTED],
            "Select wells on the map first.",
        )
        self.filter.setVisible(has_plate)
        self.geometry_caption.setVisible(has_plate)
        self.geometry_box.setVisible(has_plate)

    def setLabels(self, names: Sequence[str], chosen: str | None) -> None:
        """Offer labels by name."""
        self.labels.clear()
        self.labels.addItem("no labels", None)
        for name in names:
            self.labels.addItem(name, name)
        # It stays, as the map below must not move.
        enable_if(bool(names), self.labels, "There are no labels yet.")
        self.showLabels(chosen)

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
        self.menu.addAction(together)
        titles = []
        for each in acquisitions:
            action = QAction(each.title, self.menu)
            action.setCheckable(True)
            action.setChecked(each.id in chosen)
            action.setData(each.id)
            self.menu.addAction(action)
            if each.id in chosen:
                titles.append(each.title)
        self.acquisitions.setText(", ".join(titles) or "all")
        self.run_caption.setVisible(len(acquisitions) > 1)
        self.acquisitions.setVisible(len(acquisitions) > 1)

    def _on_mode(self, number: int) -> None:
        self.mode_chosen.emit(tuple(CanvasMode)[number])

    def _on_geometry(self, row: int) -> None:
        self.geometry_chosen.emit(self.geometry_box.itemData(row))

    def _on_labels(self, row: int) -> None:
        self.labels_chosen.emit(self.labels.itemData(row))

    def _on_acquisition(self, action: QAction) -> None:
        # The first action, for all fields together, has no id.
        ids = [action.data()]
        ctrl = Qt.KeyboardModifier.ControlModifier
        if ids != [None] and QApplication.keyboardModifiers() & ctrl:
            ids = [a.data() for a in self.menu.actions() if a.isChecked()]
        self.acquisitions_chosen.emit(tuple(i for i in ids if i is not None))
