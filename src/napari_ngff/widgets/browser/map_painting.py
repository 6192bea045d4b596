"""Draws the map of a plate: cells, headers and marks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qtpy.QtCore import QPoint, QRect, Qt
from qtpy.QtGui import (
    QBrush,
    QColor,
    QFontMetrics,
    QImage,
    QLinearGradient,
    QPainter,
    QPen,
    QPolygon,
)

from napari_ngff.plate.arrangement import Remark
from napari_ngff.plate.plate_layout import MapWell, PlateMap
from napari_ngff.viewer.layers.coloring import CATEGORY_COLORS, Coloring

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from napari_ngff.viewer.browsing.field_labels import WellStates
    from napari_ngff.widgets.theme_look import ThemeColors


EMPTY = PlateMap((), (), ())
BAR = 10
"""Most pixels that the bar of states is high: it covers the picture."""
ROOMY = 10
"""Least side of a cell, in pixels, in which signs get a shade behind them."""


@dataclass(frozen=True, slots=True)
class CellGrid:
    """Converts between cells and pixels of the viewport.

    Attributes
    ----------
    side
        Of a cell.
    left, top
        Width and height of the headers.
    x, y
        How far the cells are scrolled.
    """

    rows: int
    columns: int
    side: int
    left: int
    top: int
    x: int = 0
    y: int = 0

    def cell_rect(self, row: int, column: int) -> QRect:
        """Return the square of a cell, without the gap to the next one."""
        # In smaller cells, a gap would take a quarter of the picture or more.
        gap = 1 if self.side > 4 else 0
        return QRect(
            self.left + column * self.side - self.x,
            self.top + row * self.side - self.y,
            self.side - gap,
            self.side - gap,
        )

    def cell_at(self, x: float, y: float) -> tuple[int, int]:
        """Return row and column at a point: -1 in a header, too large beyond cells."""
        row = -1 if y < self.top else int(y - self.top + self.y) // self.side
        column = -1 if x < self.left else int(x - self.left + self.x) // self.side
        return row, column

    def cells_within(self, rect: QRect) -> tuple[range, range]:
        """Return rows and columns of the cells that a rectangle touches."""
        top, left = self.cell_at(max(rect.left(), self.left), max(rect.top(), self.top))
        bottom, right = self.cell_at(
            max(rect.right(), self.left), max(rect.bottom(), self.top)
        )
        return (
            range(max(top, 0), min(bottom + 1, self.rows)),
            range(max(left, 0), min(right + 1, self.columns)),
        )


@dataclass(slots=True)
class MapState:
    """Everything that the map of a plate shows, by the paths of wells.

    Attributes
    ----------
    problems
        Why wells are crossed; the tool tip has the reason.
    current
        The well that is framed.
    pinned
        Wells that are shown for comparison.
    shown
        Wells that a filter lets through, the others are dimmed; None for all.
    coloring
        Values of a column, which take the place of the pictures; None for these.
    states
        Of the annotation of a well's fields; wells that are not in it have no bar.
    """

    map: PlateMap = EMPTY
    wells: dict[tuple[int, int], MapWell] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    pictures: dict[str, QImage] = field(default_factory=dict)
    selected: frozenset[str] = frozenset()
    current: str | None = None
    hovered: str | None = None
    pinned: Collection[str] = ()
    shown: Collection[str] | None = None
    coloring: Coloring | None = None
    states: Mapping[str, WellStates] = field(default_factory=dict)


def paint_plate(
    painter: QPainter, state: MapState, grid: CellGrid, colors: ThemeColors, area: QRect
) -> None:
    """Draw the cells in an area, and all headers."""
    painter.fillRect(area, colors.background)
    if not state.map.rows:
        return
    rows, columns = grid.cells_within(area)
    for row in rows:
        for column in columns:
            well = state.wells.get((row, column))
            rect = grid.cell_rect(row, column)
            if well is None:
                painter.fillRect(rect, colors.gap)
            else:
                paint_well(painter, state, well.path, rect, colors)
    paint_headers(painter, state.map, grid, colors, area)


def paint_well(
    painter: QPainter, state: MapState, path: str, rect: QRect, colors: ThemeColors
) -> None:
    """Draw one well: its value or thumbnail, then the marks on it."""
    dimmed = state.shown is not None and path not in state.shown
    if dimmed:
        painter.setOpacity(0.25)
    picture = state.pictures.get(path)
    if state.coloring is not None:
        value = state.coloring.value_of(path)
        if value is None:
            paint_missing(painter, rect, colors)
        else:
            paint_value(painter, rect, state.coloring, value)
    elif picture is not None and picture.width() == picture.height():
        painter.drawImage(rect, picture)  # nearly all are square, and there may be 1536
    elif picture is not None:
        painter.fillRect(rect, Qt.GlobalColor.black)
        painter.drawImage(fit_picture(picture, rect), picture)
    else:
        painter.fillRect(rect, colors.well)
        if rect.width() >= ROOMY:
            draw_outline(painter, rect, colors.line, 1)
    if path in state.problems:
        draw_cross(painter, rect, cross_color(state.problems[path], colors), colors)
    # Marks of a dimmed well stay as clear as those of others.
    painter.setOpacity(1)
    paint_marks(painter, state, path, rect, colors)
    paint_states(painter, state.states.get(path), rect, colors)


def cross_color(reason: str, colors: ThemeColors) -> QColor:
    """Return the colour of a cross: red means broken."""
    return colors.line if isinstance(reason, Remark) else colors.broken


def paint_missing(painter: QPainter, rect: QRect, colors: ThemeColors) -> None:
    """Draw a well without a value: a dash, as in a table."""
    painter.fillRect(rect, colors.gap)
    size = max(2, rect.height() // 8), max(3, rect.width() // 2)
    dash = QRect(0, 0, size[1], size[0])
    dash.moveCenter(rect.center())
    painter.fillRect(dash, colors.line)


def paint_states(
    painter: QPainter, states: WellStates | None, rect: QRect, colors: ThemeColors
) -> None:
    """Draw the states of annotation in a well: a bar at its bottom, and a flag.

    Fields that are done fill the bar, those in progress its lower half.
    """
    if states is None:
        return
    if states.share_of("done") + states.share_of("in progress"):
        paint_bar(painter, states, rect, colors)
    if states.share_of("flagged"):
        side = max(5, min(rect.width(), rect.height()) // 3)
        corner = rect.topLeft()
        flag = [corner, corner + QPoint(side, 0), corner + QPoint(0, side)]
        painter.save()  # what is drawn next would be filled, too
        painter.setPen(QPen(colors.shade, 1))
        painter.setBrush(colors.broken)
        painter.drawPolygon(QPolygon(flag))
        painter.restore()


def paint_bar(
    painter: QPainter, states: WellStates, rect: QRect, colors: ThemeColors
) -> None:
    """Draw the shares of fields that are done and in progress, at the bottom."""
    height = min(BAR, max(4, rect.height() // 6))
    bar = QRect(rect.left() + 1, rect.bottom() - height, rect.width() - 2, height)
    painter.fillRect(bar.adjusted(-1, -1, 1, 1), colors.shade)
    done = round(bar.width() * states.share_of("done"))
    begun = round(
        bar.width() * (states.share_of("done") + states.share_of("in progress"))
    )
    half = bar.bottom() + 1 - height // 2
    painter.fillRect(bar.left(), half, begun, height // 2, colors.mark)
    painter.fillRect(bar.left(), bar.top(), done, height, colors.mark)


def paint_marks(
    painter: QPainter, state: MapState, path: str, rect: QRect, colors: ThemeColors
) -> None:
    """Draw which wells are chosen, under the mouse, or pinned."""
    if path in state.selected or path == state.current:
        width = min(3, max(1, rect.width() // 8)) if path == state.current else 1
        draw_outline(painter, rect, colors.chosen, width, colors.shade)
    elif path == state.hovered:
        draw_outline(painter, rect, colors.text, 1, colors.shade)
    if path in state.pinned:
        dot = max(3, rect.width() // 4)
        roomy = rect.width() >= ROOMY
        painter.setPen(QPen(colors.shade, 1) if roomy else Qt.PenStyle.NoPen)
        painter.setBrush(colors.mark)
        painter.drawEllipse(rect.right() - dot, rect.top() + 1, dot, dot)


def fit_picture(picture: QImage, rect: QRect) -> QRect:
    """Return the largest rectangle with the proportions of a picture inside another."""
    size = picture.size().scaled(rect.size(), Qt.AspectRatioMode.KeepAspectRatio)
    fitting = QRect(0, 0, max(1, size.width()), max(1, size.height()))
    fitting.moveCenter(rect.center())
    return fitting


def draw_outline(
    painter: QPainter,
    rect: QRect,
    color: QColor,
    width: int,
    shade: QColor | None = None,
) -> None:
    """Draw a frame inside a rectangle; a large one with a line of a shade inside."""
    painter.setBrush(Qt.BrushStyle.NoBrush)
    lines = [color] * width
    if shade is not None and rect.width() >= ROOMY:
        lines.append(shade)
    for i, line in enumerate(lines):
        painter.setPen(line)
        painter.drawRect(rect.adjusted(i, i, -1 - i, -1 - i))


def draw_cross(
    painter: QPainter, rect: QRect, color: QColor, colors: ThemeColors
) -> None:
    """Cross a rectangle out, so that it is visible on a picture of any colour."""
    width = max(1, rect.width() // 14)
    pens = [QPen(color, width)]
    if rect.width() >= ROOMY:
        pens.insert(0, QPen(colors.shade, width + 2))
    painter.save()
    # A thick pen would draw over the neighbours at the corners.
    painter.setClipRect(rect)
    for pen in pens:
        painter.setPen(pen)
        painter.drawLine(rect.topLeft(), rect.bottomRight())
        painter.drawLine(rect.topRight(), rect.bottomLeft())
    painter.restore()


def paint_headers(
    painter: QPainter, plate: PlateMap, grid: CellGrid, colors: ThemeColors, area: QRect
) -> None:
    """Draw as many names of rows and columns as there is room for."""
    metrics = painter.fontMetrics()
    center = Qt.AlignmentFlag.AlignCenter
    painter.setPen(colors.text)
    if area.top() < grid.top:
        # Headers are drawn over cells that are scrolled below them.
        painter.fillRect(area.left(), 0, area.width(), grid.top, colors.background)
        wide = max(metrics.horizontalAdvance(name) for name in plate.columns) + 4
        # Rounded up: every so many columns, a name has room.
        step = -(-wide // grid.side)
        for i in range(0, grid.columns, step):
            x = grid.cell_rect(0, i).x()
            if x + grid.side > grid.left:
                rect = QRect(x, 0, grid.side * step, grid.top)
                rect.setWidth(grid.side if step == 1 else wide)
                painter.drawText(rect, center, plate.columns[i])
    if area.left() < grid.left:
        painter.fillRect(0, area.top(), grid.left, area.height(), colors.background)
        step = -(-metrics.height() // grid.side)
        for i in range(0, grid.rows, step):
            y = grid.cell_rect(i, 0).y()
            if y + grid.side > grid.top:
                high = max(grid.side, metrics.height())
                y -= (high - grid.side) // 2
                painter.drawText(QRect(0, y, grid.left, high), center, plate.rows[i])
    # The corner is drawn last, over names that are scrolled out.
    painter.fillRect(0, 0, grid.left, grid.top, colors.background)


PAD = 3
"""Pixels around and between the parts of a legend."""
LEGEND_BAR = 14
"""Height of the colours of a legend, in pixels."""
MOST_LINES = 5
"""Lines of categories in a legend; further categories are only counted."""

PATTERNS = (
    Qt.BrushStyle.NoBrush,
    Qt.BrushStyle.BDiagPattern,
    Qt.BrushStyle.Dense5Pattern,
)
"""Drawn over the colours, once all colours are used by categories."""


def paint_value(
    painter: QPainter, rect: QRect, coloring: Coloring, value: float
) -> None:
    """Fill a rectangle with the colour of a value, and the pattern of a category."""
    painter.fillRect(rect, QColor(*coloring.color_of(value)))
    repeat = round(value) // len(CATEGORY_COLORS) if coloring.categories else 0
    if repeat:
        style = PATTERNS[min(repeat, len(PATTERNS) - 1)]
        painter.fillRect(rect, QBrush(Qt.GlobalColor.black, style))


def legend_height(metrics: QFontMetrics, coloring: Coloring, width: int) -> int:
    """Return the height of a legend of some width, in pixels."""
    if not coloring.categories:
        return LEGEND_BAR + metrics.height() + 2 * PAD
    lines = len(category_lines(metrics, coloring.categories, width)[0]) + 1
    return lines * (metrics.height() + PAD) + PAD


def category_lines(
    metrics: QFontMetrics, names: tuple[str, ...], width: int
) -> tuple[list[list[int]], int]:
    """Arrange the categories of a legend in columns of one width, in lines.

    Returns
    -------
    lines
        Numbers of the categories in each.
    column
        Width of a column, in pixels.
    """
    widest = max(map(metrics.horizontalAdvance, names))
    room = max(1, width - 2 * PAD)
    column = min(room, widest + metrics.height() + 3 * PAD)
    across = max(1, room // column)
    numbers = list(range(len(names)))
    lines = [numbers[i : i + across] for i in range(0, len(numbers), across)]
    return lines[:MOST_LINES], column


def paint_legend(
    painter: QPainter, coloring: Coloring, rect: QRect, colors: ThemeColors
) -> None:
    """Draw the colours of values and what they mean."""
    painter.fillRect(rect, colors.background)
    painter.setPen(colors.text)
    if coloring.categories:
        paint_category_legend(painter, coloring, rect)
    else:
        paint_number_legend(painter, coloring, rect)


def paint_category_legend(painter: QPainter, coloring: Coloring, rect: QRect) -> None:
    """Draw a box and the name of each category below the title."""
    metrics, names = painter.fontMetrics(), coloring.categories
    lines, column = category_lines(metrics, names, rect.width())
    hidden = len(names) - sum(map(len, lines))
    title = f"{coloring.title} ({hidden} more)" if hidden else coloring.title
    high, top = metrics.height(), rect.top() + PAD
    left, width = rect.left() + PAD, rect.width() - 2 * PAD
    draw_text(painter, QRect(left, top, width, high), title)
    for row, line in enumerate(lines, 1):
        y = top + row * (high + PAD)
        for place_in_line, number in enumerate(line):
            x = left + place_in_line * column
            box = QRect(x, y + 1, high - 2, high - 2)
            paint_value(painter, box, coloring, number)
            beside = QRect(x + high + PAD, y, column - high - 3 * PAD, high)
            draw_text(painter, beside, names[number])


def paint_number_legend(painter: QPainter, coloring: Coloring, rect: QRect) -> None:
    """Draw the colours of numbers with their limits and the title."""
    metrics, align = painter.fontMetrics(), Qt.AlignmentFlag
    bar = rect.adjusted(PAD, PAD, -PAD, -metrics.height() - PAD)
    colors = [QColor(*color) for color in coloring.colors]
    gradient = QLinearGradient(bar.left(), 0, bar.right(), 0)
    for number, color in enumerate(colors):
        gradient.setColorAt(number / (len(colors) - 1), color)
    painter.fillRect(bar, gradient)
    below = bar.adjusted(0, bar.height(), 0, metrics.height() + PAD)
    low, high = (f"{limit:.4g}" for limit in coloring.limits)
    draw_text(painter, below, low)
    draw_text(painter, below, high, align.AlignRight)
    # Between the limits, in the middle of all.
    aside = max(map(metrics.horizontalAdvance, (low, high))) + 2 * PAD
    title = f"{coloring.title} (log)" if coloring.is_log else coloring.title
    middle = below.adjusted(aside, 0, -aside, 0)
    draw_text(painter, middle, title, align.AlignHCenter)


def draw_text(
    painter: QPainter,
    rect: QRect,
    text: str,
    side: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft,
) -> None:
    """Draw a line of text, with an ellipsis where it is cut."""
    end, width = Qt.TextElideMode.ElideRight, max(0, rect.width())
    text = painter.fontMetrics().elidedText(text, end, width)
    painter.drawText(rect, side | Qt.AlignmentFlag.AlignVCenter, text)
