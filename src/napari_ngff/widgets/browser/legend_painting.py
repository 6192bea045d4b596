"""Scales of the map of a plate, of numbers and of categories, and their legends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QRect, Qt
from qtpy.QtGui import QBrush, QColor, QPainter

from napari_ngff.viewer.browsing.joined_tables import CATEGORY_COLORS

if TYPE_CHECKING:
    import numpy as np
    from qtpy.QtGui import QFontMetrics

    from napari_ngff.widgets.colors import ThemeColors

__all__ = ["CategoryScale", "ColorScale", "legend_height", "paint_legend"]

PAD = 3
"""Pixels around and between the parts of a legend."""
BAR = 14
"""Height of the colours of a legend, in pixels."""
MOST_LINES = 5
"""Lines of categories in a legend; further categories are only counted."""
MOST_TICKS = 8
"""Powers of ten that are marked; of more, every second or third one."""

PATTERNS = (
    Qt.BrushStyle.NoBrush,
    Qt.BrushStyle.BDiagPattern,
    Qt.BrushStyle.Dense5Pattern,
)
"""Drawn over the colours, once all colours are used by categories."""


@dataclass(frozen=True, slots=True)
class ColorScale:
    """Colours for numbers.

    Attributes
    ----------
    limits
        Values of the first and the last colour.
    colors
        uint8, one row of red, green, blue per step.
    title
        What the values are, with their unit.
    is_log
        Whether equal factors have colours equally far apart.
    """

    limits: tuple[float, float]
    colors: np.ndarray[Any, Any]
    title: str = ""
    is_log: bool = False

    def color_of(self, value: float) -> QColor:
        """Return the colour of a value; beyond the limits that of the nearer limit."""
        step = round(self.position_of(value) * (len(self.colors) - 1))
        return QColor(*(int(c) for c in self.colors[step][:3]))

    def position_of(self, value: float) -> float:
        """Return the position of a value on the scale, 0-1."""
        low, high = self.limits
        if self.is_log:
            if value <= 0:
                return 0.0
            low, high, value = (math.log10(v) for v in (low, high, value))
        # All values are equal: the middle of the colours.
        if not high > low:
            return 0.5
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def paint_value(self, painter: QPainter, rect: QRect, value: float) -> None:
        """Fill a rectangle with the colour of a value."""
        painter.fillRect(rect, self.color_of(value))

    def format_value(self, value: float) -> str:
        """Return a value as text, with six digits."""
        return f"{value:.6g}"

    def tick_values(self) -> tuple[float, ...]:
        """Return the powers of ten inside the limits of a logarithmic scale."""
        if not self.is_log:
            return ()
        first, last = (math.log10(limit) for limit in self.limits)
        # The limits themselves are written below; rounding must not mark them as well.
        powers = range(math.ceil(first + 1e-9), math.floor(last - 1e-9) + 1)
        step = -(-len(powers) // MOST_TICKS) or 1
        return tuple(10.0**power for power in powers[::step])


@dataclass(frozen=True, slots=True)
class CategoryScale:
    """Colours, and patterns over them, for categories.

    Attributes
    ----------
    names
        Of the categories; their values are 0, 1, 2...
    title
        What they are.
    colors
        Red, green and blue of each.
    """

    names: tuple[str, ...]
    title: str
    colors: tuple[tuple[int, ...], ...]

    def paint_value(self, painter: QPainter, rect: QRect, value: float) -> None:
        """Fill a rectangle with the colour and the pattern of a category."""
        repeat = round(value) // len(CATEGORY_COLORS)
        painter.fillRect(rect, QColor(*self.colors[round(value)]))
        if repeat:
            style = PATTERNS[min(repeat, len(PATTERNS) - 1)]
            painter.fillRect(rect, QBrush(Qt.GlobalColor.black, style))

    def format_value(self, value: float) -> str:
        """Return the name of a category."""
        return self.names[round(value)]


def legend_height(
    metrics: QFontMetrics, scale: ColorScale | CategoryScale, width: int
) -> int:
    """Return the height of a legend of some width, in pixels."""
    if isinstance(scale, ColorScale):
        return BAR + metrics.height() + 2 * PAD
    lines = len(category_lines(metrics, scale, width)[0]) + 1
    return lines * (metrics.height() + PAD) + PAD


def category_lines(
    metrics: QFontMetrics, scale: CategoryScale, width: int
) -> tuple[list[list[int]], int]:
    """Arrange the categories of a legend in columns of one width, in lines.

    Returns
    -------
    lines
        Numbers of the categories in each.
    column
        Width of a column, in pixels.
    """
    widest = max((metrics.horizontalAdvance(name) for name in scale.names), default=0)
    room = max(1, width - 2 * PAD)
    column = min(room, widest + metrics.height() + 3 * PAD)
    across = max(1, room // column)
    numbers = list(range(len(scale.names)))
    lines = [numbers[i : i + across] for i in range(0, len(numbers), across)]
    return lines[:MOST_LINES], column


def paint_legend(
    painter: QPainter,
    scale: ColorScale | CategoryScale,
    rect: QRect,
    colors: ThemeColors,
) -> None:
    """Draw the colours of a scale and what they mean."""
    painter.fillRect(rect, colors.background)
    if isinstance(scale, ColorScale):
        paint_number_legend(painter, scale, rect, colors)
    else:
        paint_category_legend(painter, scale, rect, colors)


def paint_category_legend(
    painter: QPainter, scale: CategoryScale, rect: QRect, colors: ThemeColors
) -> None:
    """Draw a box and the name of each category below the title."""
    metrics = painter.fontMetrics()
    lines, column = category_lines(metrics, scale, rect.width())
    count = sum(len(line) for line in lines)
    hidden = len(scale.names) - count
    title = f"{scale.title} ({hidden} more)" if hidden else scale.title
    high, elide = metrics.height(), Qt.TextElideMode.ElideRight
    side = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
    painter.setPen(colors.text)
    top = rect.top() + PAD
    head = QRect(rect.left() + PAD, top, rect.width() - 2 * PAD, high)
    painter.drawText(head, side, metrics.elidedText(title, elide, head.width()))
    for row, line in enumerate(lines, 1):
        for place_in_line, number in enumerate(line):
            x = rect.left() + PAD + place_in_line * column
            y = top + row * (high + PAD)
            scale.paint_value(painter, QRect(x, y + 1, high - 2, high - 2), number)
            painter.setPen(colors.text)
            beside = QRect(x + high + PAD, y, column - high - 3 * PAD, high)
            name = metrics.elidedText(scale.names[number], elide, beside.width())
            painter.drawText(beside, side, name)


def paint_number_legend(
    painter: QPainter, scale: ColorScale, rect: QRect, colors: ThemeColors
) -> None:
    """Draw the colours of a scale with its limits, powers of ten and its title."""
    metrics = painter.fontMetrics()
    bar = rect.adjusted(PAD, PAD, -PAD, -metrics.height() - PAD)
    count = len(scale.colors)
    for i in range(bar.width()):
        step = i * (count - 1) // max(1, bar.width() - 1)
        color = QColor(*(int(c) for c in scale.colors[step][:3]))
        painter.fillRect(bar.left() + i, bar.top(), 1, bar.height(), color)
    for tick in scale.tick_values():
        x = bar.left() + round(scale.position_of(tick) * (bar.width() - 1))
        painter.fillRect(x, bar.top(), 1, bar.height() // 2, colors.background)
    below = QRect(
        bar.left(), bar.bottom() + 1, bar.width(), rect.bottom() - bar.bottom()
    )
    painter.setPen(colors.text)
    low, high = (f"{limit:.4g}" for limit in scale.limits)
    sides = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
    for text, side in zip((low, high), sides, strict=True):
        painter.drawText(below, side | Qt.AlignmentFlag.AlignVCenter, text)
    # Between the limits, in the middle of all.
    aside = max(metrics.horizontalAdvance(text) for text in (low, high)) + 2 * PAD
    middle = below.adjusted(aside, 0, -aside, 0)
    title = f"{scale.title} (log)" if scale.is_log else scale.title
    elided = metrics.elidedText(
        title, Qt.TextElideMode.ElideRight, max(0, middle.width())
    )
    painter.drawText(middle, Qt.AlignmentFlag.AlignCenter, elided)
