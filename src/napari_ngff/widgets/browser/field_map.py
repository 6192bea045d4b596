"""The fields of a well: a map of their positions, and a strip of thumbnails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import (  # type: ignore[attr-defined]
    QEvent,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from qtpy.QtGui import (
    QHelpEvent,
    QIcon,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
)
from qtpy.QtWidgets import QListView, QListWidget, QListWidgetItem, QToolTip, QWidget

from napari_ngff.viewer.browsing.field_labels import WellStates
from napari_ngff.viewer.browsing.region_steps import STEP_KEYS
from napari_ngff.widgets.browser.map_painting import (
    cross_color,
    draw_cross,
    draw_outline,
    fit_picture,
    paint_states,
)
from napari_ngff.widgets.theme_look import ThemeColors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from napari_ngff.viewer.browsing.positions import FieldPlace, WellFields

MARGIN = 4
"""Pixels around the fields, so that the frame of an outer one is whole."""
ICON = 64
"""Side of a thumbnail in a strip, in pixels."""


class FieldMap(QWidget):
    """Draws fields at their positions in the well, each with its thumbnail."""

    chosen = Signal(str)
    """A field was clicked: its path."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fields: tuple[FieldPlace, ...] = ()
        self._pictures: dict[str, QImage] = {}
        self._states: Mapping[str, str] = {}
        self._current: str | None = None
        self._colors = ThemeColors.from_theme("dark")
        self.setAccessibleName("Field map")

    def setFields(self, fields: WellFields) -> None:
        """Show the fields of another well."""
        self._fields = fields.fields
        self._pictures = {}
        self.update()

    def setPictures(self, pictures: Mapping[str, QImage]) -> None:
        """Add thumbnails of fields, by path."""
        self._pictures.update(pictures)
        self.update()

    def setStates(self, states: Mapping[str, str]) -> None:
        """Show the state of annotation of fields, by path."""
        self._states = states
        self.update()

    def setCurrent(self, field: str | None) -> None:
        """Frame the field that is shown."""
        self._current = field
        self.update()

    def setColors(self, colors: ThemeColors) -> None:
        """Follow the theme."""
        self._colors = colors
        self.update()

    def sizeHint(self) -> QSize:
        """As large as two thumbnails."""
        return QSize(140, 140)

    def minimumSizeHint(self) -> QSize:
        """Large enough to hit a field."""
        return QSize(90, 90)

    def rectOf(self, field: str) -> QRect:
        """Return where a field is drawn, in pixels; empty if there is no such field."""
        rects = (r for f, r in self._field_rects() if f.position.field == field)
        return next(rects, QRect())

    def _field_rects(self) -> list[tuple[FieldPlace, QRect]]:
        fields = self._fields
        if not fields:
            return []
        bottom = max(f.corner[0] + f.size[0] for f in fields)
        right = max(f.corner[1] + f.size[1] for f in fields)
        top = min(f.corner[0] for f in fields)
        left_edge = min(f.corner[1] for f in fields)
        # So small, as positions may be in metres: it only avoids dividing by zero.
        height, width = max(bottom - top, 1e-12), max(right - left_edge, 1e-12)
        room = self.rect().adjusted(MARGIN, MARGIN, -MARGIN, -MARGIN)
        scale = min(room.width() / width, room.height() / height)
        x = room.left() + (room.width() - scale * width) / 2 - scale * left_edge
        y = room.top() + (room.height() - scale * height) / 2 - scale * top
        rects = []
        for field in fields:
            (up, aside), (high, wide) = field.corner, field.size
            first = round(x + scale * aside), round(y + scale * up)
            last = round(x + scale * (aside + wide)), round(y + scale * (up + high))
            # From rounded corners: rounded sizes would leave gaps between neighbours.
            size = max(2, last[0] - first[0]), max(2, last[1] - first[1])
            rects.append((field, QRect(*first, *size)))
        return rects

    def _field_at(self, point: QPoint) -> FieldPlace | None:
        hit = [field for field, rect in self._field_rects() if rect.contains(point)]
        # Fields may overlap; the last one is drawn on top.
        return hit[-1] if hit else None

    def paintEvent(self, event: QPaintEvent | None) -> None:
        """Draw all fields."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), self._colors.gap)
        current = None
        for field, rect in self._field_rects():
            picture = self._pictures.get(field.position.field)
            if picture is not None:
                painter.drawImage(fit_picture(picture, rect), picture)
            else:
                painter.fillRect(rect, self._colors.well)
                draw_outline(painter, rect.adjusted(1, 1, -1, -1), self._colors.line, 1)
            if field.problem:
                color = cross_color(field.problem, self._colors)
                draw_cross(painter, rect, color, self._colors)
            state = self._states.get(field.position.field)
            paint_states(painter, WellStates.of_field(state), rect, self._colors)
            paint_name(painter, rect, field.position.field, self._colors)
            painter.setPen(self._colors.background)
            painter.drawRect(rect.adjusted(0, 0, -1, -1))
            if field.position.field == self._current:
                current = rect
        if current is not None:
            # After all fields: a neighbour that overlaps would cover the frame.
            draw_outline(painter, current, self._colors.chosen, 2, self._colors.shade)
        painter.end()

    def mousePressEvent(self, event: QMouseEvent | None) -> None:
        """Choose a field."""
        if event is not None and event.button() == Qt.MouseButton.LeftButton:
            field = self._field_at(event.position().toPoint())
            if field is not None:
                self.chosen.emit(field.position.field)

    def event(self, event: QEvent | None) -> bool:
        """Show the tool tip of the field under the mouse."""
        if event is not None and event.type() == event.Type.ToolTip:
            hint: QHelpEvent = event  # type: ignore[assignment]
            field = self._field_at(hint.pos())
            text = ""
            if field is not None:
                state = self._states.get(field.position.field, "")
                text = f"{field.title}\n{field.problem or state}".strip()
            QToolTip.showText(hint.globalPos(), text, self)
            return True
        return bool(super().event(event))


def paint_name(painter: QPainter, rect: QRect, name: str, colors: ThemeColors) -> None:
    """Write the name of a field into its corner, where there is room."""
    metrics = painter.fontMetrics()
    wide, high = metrics.horizontalAdvance(name) + 6, metrics.height() + 2
    if rect.width() >= 2 * wide and rect.height() >= 2 * high:
        corner = QRect(rect.left() + 1, rect.top() + 1, wide, high)
        painter.fillRect(corner, colors.background)
        painter.setPen(colors.text)
        painter.drawText(corner, Qt.AlignmentFlag.AlignCenter, name)


class ImageStrip(QListWidget):
    """A list of images with thumbnails: side by side, or in rows with details."""

    chosen = Signal(str)
    """An image was clicked: its path."""
    scrolled = Signal()
    """Other images may be in view than before."""

    def __init__(self, parent: QWidget | None = None, *, flat: bool = True) -> None:
        super().__init__(parent)
        self._items: dict[str, QListWidgetItem] = {}
        self._pictures: dict[str, QImage] = {}
        self._states: Mapping[str, str] = {}
        self._flat = flat
        self.setIconSize(QSize(ICON, ICON))
        # Else Qt measures each of thousands of images.
        self.setUniformItemSizes(True)
        blank = QPixmap(ICON, ICON)
        blank.fill(Qt.GlobalColor.transparent)
        # Titles stay where they are when the thumbnail arrives.
        self._blank = QIcon(blank)
        if flat:
            self.setViewMode(QListView.ViewMode.IconMode)
            self.setFlow(QListView.Flow.LeftToRight)
            self.setWrapping(True)
            self.setResizeMode(QListView.ResizeMode.Adjust)
            self.setMovement(QListView.Movement.Static)
            # In a strip of fields, keys step through wells and fields.
            self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.itemClicked.connect(self._on_clicked)
        for bar in (self.horizontalScrollBar(), self.verticalScrollBar()):
            if bar is not None:
                bar.valueChanged.connect(self._on_scrolled)

    def setImages(self, images: Iterable[tuple[str, str, str]]) -> None:
        """Show other images: path, title, and what is wrong or ""."""
        self.clear()
        self._items, self._pictures, self._states = {}, {}, {}
        for path, title, problem in images:
            item = QListWidgetItem(self._blank, title)
            item.setData(Qt.ItemDataRole.UserRole, path)
            item.setToolTip(f"{title}\n{problem}".strip())
            self.addItem(item)
            self._items[path] = item

    def setPictures(self, pictures: Mapping[str, QImage]) -> None:
        """Add thumbnails, by path."""
        for path, picture in pictures.items():
            if path in self._items:
                self._pictures[path] = picture
                self._draw_icon(path)

    def setStates(self, states: Mapping[str, str]) -> None:
        """Show the state of annotation of images, by path."""
        before, self._states = self._states, states
        for path in self._pictures:
            if before.get(path) != states.get(path):
                self._draw_icon(path)

    def _draw_icon(self, path: str) -> None:
        pixmap = QPixmap(ICON, ICON)
        pixmap.fill(Qt.GlobalColor.black)
        painter = QPainter(pixmap)
        painter.drawImage(
            fit_picture(self._pictures[path], pixmap.rect()), self._pictures[path]
        )
        state = WellStates.of_field(self._states.get(path))
        paint_states(painter, state, pixmap.rect(), ThemeColors.from_theme("dark"))
        painter.end()
        icon = QIcon(pixmap)
        # Qt tints an icon that has no picture for this mode.
        icon.addPixmap(pixmap, QIcon.Mode.Selected)
        self._items[path].setIcon(icon)

    def setText(self, path: str, title: str, tip: str = "") -> None:
        """Show another title and tool tip of an image."""
        item = self._items.get(path)
        if item is not None:
            item.setText(title)
            item.setToolTip(tip or title)

    def setCurrent(self, path: str | None) -> None:
        """Mark the image that is shown, and bring it in view."""
        item = self._items.get(path) if path is not None else None
        self.setCurrentItem(item)
        if item is not None:
            self.scrollToItem(item)

    def selected(self) -> tuple[str, ...]:
        """Paths of the selected images, from the first to the last."""
        return tuple(path for path, item in self._items.items() if item.isSelected())

    def visibleImages(self) -> tuple[str, ...]:
        """Paths of the images in view, and then of the others."""
        port = self.viewport()
        area = port.rect() if port is not None else self.rect()
        seen = [
            path
            for path, item in self._items.items()
            if self.visualItemRect(item).intersects(area)
        ]
        return tuple(dict.fromkeys([*seen, *self._items]))

    def sizeHint(self) -> QSize:
        """As high as one row of thumbnails, or five."""
        high = ICON + 2 * self.fontMetrics().height() + 12
        return QSize(220, high if self._flat else 5 * high)

    def keyPressEvent(self, event: QKeyEvent | None) -> None:
        """Leave comma and period to the dock, which steps by them; others search."""
        if event is not None and event.text() in STEP_KEYS:
            event.ignore()
        else:
            super().keyPressEvent(event)

    def _on_scrolled(self) -> None:
        self.scrolled.emit()

    def _on_clicked(self, item: QListWidgetItem) -> None:
        self.chosen.emit(item.data(Qt.ItemDataRole.UserRole))
