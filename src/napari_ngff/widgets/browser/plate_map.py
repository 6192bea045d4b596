"""The map of a plate: shows wells, and lets them be chosen by mouse and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QPoint, QRect, Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QApplication, QRubberBand, QToolTip, QWidget

from napari_ngff.widgets.browser.map_surface import MapSurface

if TYPE_CHECKING:
    from collections.abc import Callable

    from qtpy.QtCore import QEvent
    from qtpy.QtGui import QContextMenuEvent, QHelpEvent, QKeyEvent, QMouseEvent

    from napari_ngff.plate.plate_layout import MapWell
    from napari_ngff.viewer.browsing.joined_tables import WellDetails

__all__ = ["STEPS", "PlateMapView"]

CONTROL = Qt.KeyboardModifier.ControlModifier
SHIFT = Qt.KeyboardModifier.ShiftModifier
LEFT = Qt.MouseButton.LeftButton

MOST_COLUMNS = 24
"""So many columns of a table are shown in a tool tip."""

STEPS = {
    Qt.Key.Key_Up: (-1, 0),
    Qt.Key.Key_Down: (1, 0),
    Qt.Key.Key_Left: (0, -1),
    Qt.Key.Key_Right: (0, 1),
}
"""Rows and columns to go for each arrow."""


class PlateMapView(MapSurface):
    """Handles mouse and keys on the map of a plate.

    A click chooses a well, Ctrl+click adds it to the selection, Shift+click pins it;
    a double-click zooms there. Dragging, and a click on a header, select many.
    """

    chosen = Signal(str)
    """A well was clicked: its path."""
    approached = Signal(str)
    """A well was double-clicked."""
    pinned = Signal(str)
    """A well was clicked with Shift."""
    stepped = Signal(int, int)
    """An arrow was pressed: rows and columns to go."""
    menu_wanted = Signal(str)
    """A well was clicked with the right button."""
    hovered = Signal(str)
    """The mouse came to a well, or left it: its path or ""."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._details: Callable[[str], WellDetails] | None = None
        self._pressed: QPoint | None = None
        self._band: QRubberBand | None = None
        # Moves without a button: for the well under the mouse.
        self._port.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Plate map")

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        """Begin a click or a selection; select by a header."""
        if event is None or event.button() != LEFT:
            return
        point = event.position().toPoint()
        row, column = self._cell_grid().cell_at(point.x(), point.y())
        if row < 0 or column < 0:
            self._add_selected(
                [
                    w.path
                    for w in self._state.map.wells
                    if row in (-1, w.row) and column in (-1, w.column)
                ],
                event.modifiers(),
            )
            return
        self._pressed = point

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:
        """Draw the rubber band, or note the well under the mouse."""
        if event is None:
            return
        point = event.position().toPoint()
        if self._pressed is None:
            self._hover_well(self._well_at(point))
            return
        if self._band is None:
            distance = (point - self._pressed).manhattanLength()
            # A hand that trembles in a click draws no band.
            if distance < QApplication.startDragDistance():
                return
            shape = QRubberBand.Shape.Rectangle
            self._band = QRubberBand(shape, self._port)
            self._band.show()
        self._band.setGeometry(QRect(self._pressed, point).normalized())

    def mouseReleaseEvent(self, event: QMouseEvent | None) -> None:
        """End a click or a selection."""
        if event is None or self._pressed is None:
            return
        # The well of the press: the mouse may have moved a little since.
        point, self._pressed = self._pressed, None
        if self._band is not None:
            area = self._band.geometry()
            self._band.hide()
            self._band.deleteLater()
            self._band = None
            wells = self._wells_in(area & self._cells_area())
            self._add_selected([well.path for well in wells], event.modifiers())
            return
        well = self._well_at(point)
        if well is None:
            self.setSelected(())
        elif event.modifiers() & SHIFT:
            self.pinned.emit(well.path)
        elif event.modifiers() & CONTROL:
            self.setSelected(self._state.selected ^ {well.path})
        else:
            self.setSelected([well.path])
            self.chosen.emit(well.path)

    def mouseDoubleClickEvent(self, event: QMouseEvent | None) -> None:
        """Emit that a well shall be zoomed to."""
        well = self._well_at(event.position().toPoint()) if event is not None else None
        if well is not None:
            self.approached.emit(well.path)

    def contextMenuEvent(self, event: QContextMenuEvent | None) -> None:
        """Open the menu of the clicked well, or by the menu key of the framed one."""
        if event is None:
            return
        well = self._well_at(event.pos())
        if event.reason() == event.Reason.Keyboard:
            well = self.wellOf(self._state.current)
        if well is not None:
            self.menu_wanted.emit(well.path)

    def leaveEvent(self, event: QEvent | None) -> None:
        """Note that no well is under the mouse."""
        self._hover_well(None)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """Step by the arrows; other keys are left to the dock."""
        if event is None:
            return
        step = STEPS.get(Qt.Key(event.key()))
        if step is not None and not event.modifiers() & (CONTROL | SHIFT):
            self.stepped.emit(*step)
            event.accept()
        else:
            event.ignore()

    def viewportEvent(self, event: QEvent | None) -> bool:
        """Show the tool tip of the well under the mouse."""
        if event is not None and event.type() == event.Type.ToolTip:
            hint: QHelpEvent = event  # type: ignore[assignment]
            QToolTip.showText(hint.globalPos(), self.tipAt(hint.pos()), self)
            return True
        return bool(super().viewportEvent(event))

    def setDetails(self, details: Callable[[str], WellDetails] | None) -> None:
        """Set the function that returns the columns of a well, for its tool tip."""
        self._details = details

    def tipAt(self, point: QPoint) -> str:
        """Return the name, problem, state and values of the well at a point."""
        well = self._well_at(point)
        if well is None:
            return ""
        lines, scale = [well.name], self._state.scale
        if well.path in self._state.problems:
            lines.append(self._state.problems[well.path])
        if well.path in self._state.states:
            lines.append(self._state.states[well.path].text)
        value_text = ""
        if scale is not None:
            value = self._state.value_of(well.path)
            format_value = "no value" if value is None else scale.format_value(value)
            value_text = f"{scale.title}: {format_value}"
            lines.append(value_text)
        details = self._details(well.path) if self._details is not None else ()
        for title, columns in details:
            if len(details) > 1:
                lines += ["", title]
            values = [f"{name}: {text}" for name, text in columns[:MOST_COLUMNS]]
            # The column that colours the map is in the text already.
            lines += [line for line in values if line != value_text]
            if len(columns) > MOST_COLUMNS:
                lines.append(f"and {len(columns) - MOST_COLUMNS:,} more columns")
        return "\n".join(lines)

    def _add_selected(self, paths: list[str], modifiers: Qt.KeyboardModifier) -> None:
        before = self._state.selected if modifiers & CONTROL else frozenset()
        self.setSelected(before | set(paths))

    def _hover_well(self, well: MapWell | None) -> None:
        path = None if well is None else well.path
        if path != self._state.hovered:
            before, self._state.hovered = self._state.hovered, path
            self._redraw_wells(p for p in (before, path) if p is not None)
            self.hovered.emit(path or "")
