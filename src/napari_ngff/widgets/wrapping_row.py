"""A row of controls that goes on in the next line where its dock is narrow."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from qtpy.QtCore import QRect, QSize, Qt
from qtpy.QtWidgets import QLayout, QWidgetItem

if TYPE_CHECKING:
    from qtpy.QtWidgets import QLayoutItem, QWidget

__all__ = ["WrappingRow"]


@dataclass(frozen=True, slots=True, eq=False)
class RowPart:
    """One widget of a row; those of the same `group` stay side by side."""

    item: QLayoutItem
    group: int
    grows: bool


class WrappingRow(QLayout):
    """Puts widgets side by side as `QHBoxLayout`, in several lines if they do not fit.

    So the widest group of widgets sets the least width, not all of them together.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[RowPart] = []
        self._groups = 0
        self.setContentsMargins(0, 0, 0, 0)

    def addGroup(self, *widgets: QWidget, grows: QWidget | None = None) -> None:
        """Add widgets that stay side by side; `grows` gets the room that is left."""
        for widget in widgets:
            self.addChildWidget(widget)
            part = RowPart(QWidgetItem(widget), self._groups, widget is grows)
            self._parts.append(part)
        self._groups += 1
        self.invalidate()

    # --- overrides of Qt

    def addItem(self, item: QLayoutItem | None) -> None:
        """Add an item that is a group of its own."""
        if item is not None:
            self._parts.append(RowPart(item, self._groups, grows=False))
            self._groups += 1

    def count(self) -> int:
        """Count the widgets."""
        return len(self._parts)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """Return the item of a widget."""
        return self._parts[index].item if 0 <= index < len(self._parts) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Remove the item of a widget."""
        return self._parts.pop(index).item if 0 <= index < len(self._parts) else None

    def expandingDirections(self) -> Qt.Orientation:
        """Take no more room than is needed."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """Need more lines in less width."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Return the height of all lines in a width."""
        heights = [
            max(height_of(part, wide) for part, wide in line)
            for line in self._break_lines(width)
        ]
        return sum(heights) + self._gap() * max(0, len(heights) - 1)

    def minimumSize(self) -> QSize:
        """Return the width of the widest group."""
        groups = self._visible_groups()
        wide = max((self._least_width(group) for group in groups), default=0)
        return QSize(wide, self._line_height())

    def sizeHint(self) -> QSize:
        """Return the size of a single line."""
        parts = [part for group in self._visible_groups() for part in group]
        wide = sum(part.item.sizeHint().width() for part in parts)
        return QSize(wide + self._gap() * max(0, len(parts) - 1), self._line_height())

    def setGeometry(self, rect: QRect) -> None:
        """Put the widgets into lines."""
        super().setGeometry(rect)
        top = rect.top()
        for line in self._break_lines(rect.width()):
            high = max(height_of(part, wide) for part, wide in line)
            left = rect.left()
            for part, wide in line:
                part.item.setGeometry(QRect(left, top, wide, high))
                left += wide + self._gap()
            top += high + self._gap()

    # --- lines

    def _gap(self) -> int:
        return max(0, self.spacing())

    def _line_height(self) -> int:
        heights = (part.item.sizeHint().height() for part in self._visible_parts())
        return max(heights, default=0)

    def _visible_parts(self) -> list[RowPart]:
        return [part for part in self._parts if not part.item.isEmpty()]

    def _visible_groups(self) -> list[list[RowPart]]:
        groups = groupby(self._visible_parts(), lambda part: part.group)
        return [list(parts) for _, parts in groups]

    def _least_width(self, parts: list[RowPart]) -> int:
        wide = sum(part.item.minimumSize().width() for part in parts)
        return wide + self._gap() * (len(parts) - 1)

    def _break_lines(self, width: int) -> list[list[tuple[RowPart, int]]]:
        """Return the widgets of each line, with their widths."""
        lines: list[list[RowPart]] = []
        for group in self._visible_groups():
            if lines and self._least_width(lines[-1] + group) <= width:
                lines[-1] += group
            else:
                lines.append(group)
        return [
            share_width(line, width - self._gap() * (len(line) - 1)) for line in lines
        ]


def share_width(parts: list[RowPart], width: int) -> list[tuple[RowPart, int]]:
    """Give each widget what it needs, and the rest to those that grow, or to all."""
    widths = [part.item.minimumSize().width() for part in parts]
    rest = width - sum(widths)
    for number, part in enumerate(parts):
        more = max(0, min(rest, part.item.sizeHint().width() - widths[number]))
        widths[number] += more
        rest -= more
    growing = [n for n, part in enumerate(parts) if part.grows] or [
        n for n, part in enumerate(parts) if part.item.maximumSize().width() > widths[n]
    ]
    for place, number in enumerate(growing):
        more = max(0, rest // (len(growing) - place))
        widths[number] += more
        rest -= more
    return list(zip(parts, widths, strict=True))


def height_of(part: RowPart, width: int) -> int:
    """Return the height that a widget wants in a width."""
    item = part.item
    if item.hasHeightForWidth():
        return item.heightForWidth(width)
    return item.sizeHint().height()
