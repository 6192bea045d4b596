"""Draws the values of wells on the map of a plate, and the legend below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QRect, Qt
from qtpy.QtGui import QBrush, QColor, QLinearGradient, QPainter

from napari_ngff.viewer.layers.coloring import CATEGORY_COLORS

if TYPE_CHECKING:
    from qtpy.QtGui import QFontMetrics

    from napari_ngff.viewer.layers.coloring import Coloring
    from napari_ngff.widgets.theme_look import ThemeColors

PAD = 3
"""Pixels around and between the parts of a legend."""
BAR = 14
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
        return BAR + metrics.height() + 2 * PAD
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
