"""The map of a plate: shows wells, and lets them be chosen by mouse and keys."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import (  # type: ignore[attr-defined]
    QEvent,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from qtpy.QtGui import (
    QContextMenuEvent,
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from qtpy.QtWidgets import (
    QAbstractScrollArea,
    QApplication,
    QFrame,
    QRubberBand,
    QSizePolicy,
    QToolTip,
    QWidget,
)

from napari_ngff.widgets.browser.map_painting import (
    CellGrid,
    MapState,
    draw_outline,
    legend_height,
    paint_legend,
    paint_plate,
)
from napari_ngff.widgets.connections import call_soon
from napari_ngff.widgets.theme_look import ThemeColors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from napari_ngff.plate.plate_layout import MapWell, PlateMap
    from napari_ngff.viewer.browsing.joined_tables import WellDetails

LEAST_SIDE, MOST_SIDE = 3, 200
"""Limits of the side of a cell, in pixels."""
ZOOM_STEP = 1.25
"""Factor by which one step of the wheel enlarges cells."""
FEW = 64
"""Up to so many cells are drawn again one by one, else the whole map."""

CONTROL = Qt.KeyboardModifier.ControlModifier


class MapSurface(QAbstractScrollArea):
    """Draws a map of wells from the metadata of a plate.

    Ctrl and the wheel make cells larger, until the map scrolls.

    Attributes
    ----------
    state
        What is drawn.
    """

    picked = Signal()
    """Emitted when other wells are selected."""
    scrolled = Signal()
    """Emitted when other wells may be in view."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.state = MapState()
        self._colors = ThemeColors.from_theme("dark")
        self._zoom = 1.0
        port = self.viewport()
        across, down = self.horizontalScrollBar(), self.verticalScrollBar()
        assert port is not None
        assert across is not None
        assert down is not None
        self._port, self._across, self._down = port, across, down
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        across.valueChanged.connect(self._on_scrolled)
        down.valueChanged.connect(self._on_scrolled)

    # --- what it shows

    def setMap(self, plate: PlateMap) -> None:
        """Show another plate, or the same in another geometry."""
        known = {well.path for well in plate.wells}
        self.state.map = plate
        self.state.wells = {(w.row, w.column): w for w in plate.wells}
        self.state.selected &= known
        self._set_scroll_bars()

    def clear(self) -> None:
        """Show nothing."""
        self.state = MapState()
        self._zoom = 1.0
        self._set_scroll_bars()

    def setColors(self, colors: ThemeColors) -> None:
        """Follow the theme."""
        self._colors = colors
        self._port.update()

    def setPictures(self, pictures: Mapping[str, QImage]) -> None:
        """Add thumbnails of wells, by path."""
        self.state.pictures.update(pictures)
        self._redraw_wells(pictures)

    def setCurrent(self, path: str | None) -> None:
        """Frame the well that is shown, and bring it in view."""
        before, self.state.current = self.state.current, path
        self._redraw_wells(p for p in (before, path) if p is not None)
        well = self.wellOf(path)
        if well is not None:
            self._scroll_to(well)

    def setSelected(self, paths: Iterable[str]) -> None:
        """Select wells."""
        selected = frozenset(paths)
        if selected != self.state.selected:
            self._redraw_wells(selected ^ self.state.selected)
            self.state.selected = selected
            self.picked.emit()

    def change_state(self, **changes: Any) -> None:
        """Show other pictures, marks or colours; see `MapState`."""
        self.state = replace(self.state, **changes)
        self._port.update()
        if "coloring" in changes:  # the legend needs room
            self._set_scroll_bars()

    # --- what it returns

    def selected(self) -> tuple[str, ...]:
        """Paths of the selected wells, in reading order."""
        chosen = self.state.selected
        return tuple(w.path for w in self.state.map.wells if w.path in chosen)

    def visibleWells(self) -> tuple[str, ...]:
        """Paths of the wells in view, row by row."""
        return tuple(well.path for well in self._wells_in(self._cells_area()))

    def wellOf(self, path: str | None) -> MapWell | None:
        """Find a well by its path."""
        wells = self.state.map.wells
        return next((well for well in wells if well.path == path), None)

    def rectOf(self, path: str) -> QRect:
        """Return where a well is drawn, in pixels of the viewport; empty if unknown."""
        well = self.wellOf(path)
        return (
            QRect()
            if well is None
            else self._cell_grid().cell_rect(well.row, well.column)
        )

    def sizeHint(self) -> QSize:
        """Wide enough for 24 columns of small pictures, beside a canvas."""
        return QSize(320, 300)

    def minimumSizeHint(self) -> QSize:
        """Leave room for the widgets above and below."""
        return QSize(160, 220)

    # --- geometry

    def _header_sizes(self) -> tuple[int, int]:
        metrics = self.fontMetrics()
        names = self.state.map.rows or ("A",)
        header_width = max(metrics.horizontalAdvance(name) for name in names) + 8
        return header_width, metrics.height() + 4

    def _legend_height(self) -> int:
        shown, width = self.state.coloring, self._port.width()
        return 0 if shown is None else legend_height(self.fontMetrics(), shown, width)

    def _cell_side(self) -> int:
        rows, columns = self.state.map.shape
        header_width, header_height = self._header_sizes()
        size = self._port.size()
        fit = min(
            (size.width() - header_width) // max(1, columns),
            (size.height() - header_height - self._legend_height()) // max(1, rows),
        )
        return min(max(int(max(fit, LEAST_SIDE) * self._zoom), LEAST_SIDE), MOST_SIDE)

    def _cell_grid(self) -> CellGrid:
        rows, columns = self.state.map.shape
        header_width, header_height = self._header_sizes()
        x, y = self._across.value(), self._down.value()
        return CellGrid(
            rows, columns, self._cell_side(), header_width, header_height, x, y
        )

    def _cells_area(self) -> QRect:
        header_width, header_height = self._header_sizes()
        return self._port.rect().adjusted(
            header_width, header_height, 0, -self._legend_height()
        )

    def _wells_in(self, area: QRect) -> list[MapWell]:
        rows, columns = self._cell_grid().cells_within(area)
        wells = self.state.wells
        return [wells[r, c] for r in rows for c in columns if (r, c) in wells]

    def _well_at(self, point: QPoint) -> MapWell | None:
        if not self._cells_area().contains(point):
            return None
        return self.state.wells.get(self._cell_grid().cell_at(point.x(), point.y()))

    def _limit_height(self) -> None:
        """Leave the height that cells do not need to the fields of a well."""
        grid = self._cell_grid()
        fit = (self._port.width() - grid.left) // max(1, grid.columns)
        most = grid.top + grid.rows * min(fit, MOST_SIDE) + self._legend_height()
        most += 2 * self._port.y()  # the frame of the style
        self.setMaximumHeight(max(most, self.minimumSizeHint().height()))

    def _set_scroll_bars(self) -> None:
        """Adapt the scroll bars and the greatest height to the cells."""
        grid, area = self._cell_grid(), self._cells_area()
        # Not while the viewport gets its size, which would stay as it is then.
        call_soon(self._limit_height)
        for bar, count, room in (
            (self._across, grid.columns, area.width()),
            (self._down, grid.rows, area.height()),
        ):
            bar.setRange(0, max(0, count * grid.side - room))
            bar.setPageStep(room)
            bar.setSingleStep(grid.side)
        self._port.update()
        self.scrolled.emit()

    def _scroll_to(self, well: MapWell) -> None:
        rect, area = (
            self._cell_grid().cell_rect(well.row, well.column),
            self._cells_area(),
        )
        for bar, low, high in (
            (
                self._across,
                rect.left() - area.left(),
                rect.right() - area.right(),
            ),
            (
                self._down,
                rect.top() - area.top(),
                rect.bottom() - area.bottom(),
            ),
        ):
            # By as little as needed; not at all for a cell that is in view.
            bar.setValue(bar.value() + (min(low, 0) or max(high, 0)))

    def _redraw_wells(self, paths: Iterable[str]) -> None:
        changed = set(paths)
        grid = self._cell_grid()
        if len(changed) > FEW:
            self._port.update()
            return
        for well in self.state.map.wells:
            if well.path in changed:
                self._port.update(grid.cell_rect(well.row, well.column))

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw the part that needs it."""
        painter = QPainter(self._port)
        area = event.rect() if event is not None else self._port.rect()
        # Without smooth scaling: it takes three times as long, and hardly shows here.
        paint_plate(painter, self.state, self._cell_grid(), self._colors, area)
        coloring = self.state.coloring
        if coloring is not None:
            room = self._port.rect()
            room.setTop(room.bottom() - self._legend_height() + 1)
            paint_legend(painter, coloring, room, self._colors)
        if self.hasFocus():
            draw_outline(painter, self._port.rect(), self._colors.chosen, 2)
        painter.end()

    def resizeEvent(self, event: QResizeEvent | None) -> None:
        """Fit the map into the room there is."""
        self._set_scroll_bars()

    def changeEvent(self, event: QEvent | None) -> None:
        """Follow the size of letters, by which headers and the legend are laid out."""
        super().changeEvent(event)
        if event is not None and event.type() == event.Type.FontChange:
            self._set_scroll_bars()

    def wheelEvent(self, event: QWheelEvent | None) -> None:
        """Make cells larger or smaller with Ctrl, else scroll."""
        if event is None or not event.modifiers() & CONTROL:
            super().wheelEvent(event)
            return
        factor = ZOOM_STEP if event.angleDelta().y() > 0 else 1 / ZOOM_STEP
        self._zoom = min(max(1.0, self._zoom * factor), MOST_SIDE)
        self._set_scroll_bars()
        event.accept()

    def _on_scrolled(self) -> None:
        self._port.update()
        self.scrolled.emit()


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
                    for w in self.state.map.wells
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
            self.setSelected(self.state.selected ^ {well.path})
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
            well = self.wellOf(self.state.current)
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
        lines, coloring = [well.name], self.state.coloring
        if well.path in self.state.problems:
            lines.append(self.state.problems[well.path])
        if well.path in self.state.states:
            lines.append(self.state.states[well.path].text)
        value_text = ""
        if coloring is not None:
            value_text = f"{coloring.title}: {coloring.describe_value(well.path)}"
            lines.append(value_text)
        details = self._details(well.path) if self._details is not None else ()
        most = MOST_COLUMNS // max(1, len(details))  # so that the screen has room
        for title, columns in details:
            if len(details) > 1:
                lines += ["", title]
            values = [f"{name}: {text}" for name, text in columns[:most]]
            # The column that colours the map is in the text already.
            lines += [line for line in values if line != value_text]
            if len(columns) > most:
                lines.append(f"and {len(columns) - most:,} more columns")
        return "\n".join(lines)

    def _add_selected(self, paths: list[str], modifiers: Qt.KeyboardModifier) -> None:
        before = self.state.selected if modifiers & CONTROL else frozenset()
        self.setSelected(before | set(paths))

    def _hover_well(self, well: MapWell | None) -> None:
        path = None if well is None else well.path
        if path != self.state.hovered:
            before, self.state.hovered = self.state.hovered, path
            self._redraw_wells(p for p in (before, path) if p is not None)
            self.hovered.emit(path or "")
