"""The legend of a map under the mouse: dragging its ends changes the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QEvent, QObject, QPoint, Qt, Signal  # type: ignore[attr-defined]

from napari_ngff.widgets.browser.legend_painting import ColorScale, legend_height
from napari_ngff.widgets.event_watcher import EventWatcher

if TYPE_CHECKING:
    from qtpy.QtGui import QMouseEvent

    from napari_ngff.widgets.browser.plate_map import PlateMapView

__all__ = ["LegendWatcher"]

Limits = tuple[float, float]


class LegendWatcher(EventWatcher):
    """Follows the mouse at the bottom of a map, where the legend is drawn.

    Dragging in the left half moves the lower limit, in the right half the upper one;
    the width of the legend is the range that it shows. A double-click resets both.

    Parameters
    ----------
    plate_map
        Draws the legend.
    """

    limited = Signal(float, float)
    """Emitted with other limits."""
    widened = Signal()
    """Emitted when the limits shall be those of all values."""

    def __init__(self, plate_map: PlateMapView) -> None:
        super().__init__(plate_map)
        self._scale: ColorScale | None = None
        self._pulled: tuple[int, Limits, bool] | None = None
        port = plate_map.viewport()
        assert port is not None
        self._port = port
        port.installEventFilter(self)

    def setScale(self, scale: ColorScale | None) -> None:
        """Set the scale that is drawn; None if it has no limits to drag."""
        self._scale = scale
        if scale is None:
            self._pulled = None
            self._port.unsetCursor()

    def watchEvent(self, watched: QObject, event: QEvent) -> bool:
        """Handle the mouse on the legend; all other events go to the map."""
        if self._scale is None:
            return False
        kinds = QEvent.Type
        if event.type() == kinds.MouseButtonRelease and self._pulled is not None:
            self._pulled = None
            return True
        if event.type() not in (
            kinds.MouseButtonPress,
            kinds.MouseButtonDblClick,
            kinds.MouseMove,
        ):
            return False
        mouse: QMouseEvent = event  # type: ignore[assignment]
        point = mouse.position().toPoint()
        if event.type() == kinds.MouseMove:
            return self._move_limit(point)
        if not self._holds_point(point) or mouse.button() != Qt.MouseButton.LeftButton:
            return False
        if event.type() == kinds.MouseButtonDblClick:
            self._pulled = None
            self.widened.emit()
        else:
            lower = point.x() < self._port.width() / 2
            # The limits at the press: those of now change while they are dragged.
            self._pulled = point.x(), self._scale.limits, lower
        return True

    def _holds_point(self, point: QPoint) -> bool:
        if self._scale is None:
            return False
        metrics, width = self._port.fontMetrics(), self._port.width()
        high = legend_height(metrics, self._scale, width)
        return point.y() >= self._port.height() - high

    def _move_limit(self, point: QPoint) -> bool:
        if self._pulled is None or self._scale is None:
            if self._holds_point(point):
                self._port.setCursor(Qt.CursorShape.SizeHorCursor)
            else:
                self._port.unsetCursor()
            return False
        start, (low, high), lower = self._pulled
        part = (point.x() - start) / max(1, self._port.width())
        if self._scale.is_log:
            factor = (high / low if high > low else 10.0) ** part
            pulled = low * factor, high * factor
        else:
            # Equal limits have no range to scale by.
            moved = part * (high - low or abs(high) or 1.0)
            pulled = low + moved, high + moved
        if lower:
            # The limits may meet, but not pass each other.
            self.limited.emit(min(pulled[0], high), high)
        else:
            self.limited.emit(low, max(pulled[1], low))
        return True
