"""Brings thumbnails from the threads that make them to the widgets that draw them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QObject, Qt, QTimer, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QImage

from napari_ngff.plate.previews.queue import PreviewQueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.plate.previews.preview import PreviewPlace, PreviewReader
    from napari_ngff.plate.previews.queue import WellThumbnail

__all__ = ["ThumbnailLoader", "image_of"]

PAUSE = 40
"""Milliseconds between two deliveries: each has the widgets drawn anew."""


class ThumbnailLoader(QObject):
    """Asks for thumbnails of one hierarchy; ends with its parent, or `close`."""

    arrived = Signal(object)
    """`PreviewPlace` -> `WellThumbnail` of what was made since."""

    _ready = Signal()

    def __init__(self, reader: PreviewReader, parent: QObject) -> None:
        super().__init__(parent)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(PAUSE)
        self._timer.timeout.connect(self._deliver)
        self._ready.connect(self._timer.start, Qt.ConnectionType.QueuedConnection)
        self._queue = queue = PreviewQueue(reader, self._tell)
        self.destroyed.connect(lambda: queue.close())

    def want(self, places: Iterable[PreviewPlace]) -> None:
        """Ask for thumbnails, the most urgent first, instead of those asked before."""
        self._queue.want(places)

    def close(self) -> None:
        """Deliver nothing any more."""
        self._queue.close()
        self.deleteLater()

    def _tell(self) -> None:
        try:
            self._ready.emit()
        except RuntimeError:
            self._queue.close()  # the widget went away while the thread was at work

    def _deliver(self) -> None:
        found: dict[PreviewPlace, WellThumbnail] = self._queue.take()
        if found:
            self.arrived.emit(found)


def image_of(thumbnail: WellThumbnail) -> QImage | None:
    """Make an image that can be drawn of a thumbnail; None where there is none."""
    pixels = thumbnail.pixels
    if pixels is None:
        return None
    height, width, _ = pixels.shape
    image = QImage(
        pixels.tobytes(), width, height, 3 * width, QImage.Format.Format_RGB888
    )
    # A copy that owns its bytes, of the kind that is drawn fastest.
    return image.convertToFormat(QImage.Format.Format_RGB32)
