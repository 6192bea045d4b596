"""Brings thumbnails from worker threads to the main thread, as Qt images."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from qtpy.compat import isalive
from qtpy.QtCore import QObject, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QImage

from napari_ngff.plate.previews.preview_queue import PreviewQueue
from napari_ngff.widgets.workers import main_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari_ngff.plate.previews.preview import PreviewPlace, PreviewReader
    from napari_ngff.plate.previews.preview_queue import WellThumbnail

__all__ = ["ThumbnailLoader", "image_of"]


class ThumbnailLoader(QObject):
    """Requests thumbnails of one hierarchy, until its parent is deleted or `close`."""

    arrived = Signal(object)
    """Emitted with `PreviewPlace` -> `WellThumbnail` of those made since."""

    def __init__(self, reader: PreviewReader, parent: QObject) -> None:
        super().__init__(parent)
        calls, key, deliver = main_calls(), object(), _make_deliverer(self)
        self._queue = PreviewQueue(reader, lambda: calls.call_newest(key, deliver))
        self.destroyed.connect(self._queue.close)

    def want_wells(self, places: Iterable[PreviewPlace]) -> None:
        """Request thumbnails, the most urgent first, instead of those before."""
        self._queue.request_places(places)

    def close(self) -> None:
        """Stop delivering thumbnails."""
        self._queue.close()
        self.deleteLater()

    def deliver_ready(self) -> None:
        """Emit the thumbnails made since."""
        thumbnails: dict[PreviewPlace, WellThumbnail] = self._queue.take_ready()
        if thumbnails:
            self.arrived.emit(thumbnails)


def _make_deliverer(loader: ThumbnailLoader) -> Callable[[], None]:
    """Make a function that lets a loader deliver, if it still exists."""
    # Weak: threads of the queue may still run when the dock is closed.
    reference = weakref.ref(loader)

    def deliver_if_alive() -> None:
        loader = reference()
        if loader is not None and isalive(loader):  # type: ignore[no-untyped-call]
            loader.deliver_ready()

    return deliver_if_alive


def image_of(thumbnail: WellThumbnail) -> QImage | None:
    """Return a thumbnail as an image that Qt draws; None if it has no pixels."""
    pixels = thumbnail.pixels
    if pixels is None:
        return None
    height, width, _ = pixels.shape
    image = QImage(
        pixels.tobytes(), width, height, 3 * width, QImage.Format.Format_RGB888
    )
    # A copy that owns its bytes, of the kind that is drawn fastest.
    return image.convertToFormat(QImage.Format.Format_RGB32)
