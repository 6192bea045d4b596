"""The parts of the browser dock, and their layout; brings thumbnails to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.compat import isalive
from qtpy.QtCore import QObject, Qt, QTimer, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QHideEvent, QImage, QShowEvent
from qtpy.QtWidgets import (
    QApplication,
    QProgressBar,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.metadata.model import GroupKind
from napari_ngff.plate.previews.preview import PreviewPlace, PreviewReader
from napari_ngff.plate.previews.preview_queue import PreviewQueue, WellThumbnail
from napari_ngff.viewer.services.notices import title_addresses
from napari_ngff.viewer.streaming.outage_watch import logged_in
from napari_ngff.widgets.browser.controls import BrowserControls, make_caption
from napari_ngff.widgets.browser.plate_map import PlateMapView
from napari_ngff.widgets.browser.table_bar import TableBar, fill_box, is_table
from napari_ngff.widgets.browser.well_view import CollectionView, WellView
from napari_ngff.widgets.connections import (
    choice_box,
    connect_while_alive,
    fill_layout,
    filled_row,
    make_timer,
    while_alive,
    wrapping_label,
)
from napari_ngff.widgets.opening import DropTarget
from napari_ngff.widgets.workers import main_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.widgets.theme_look import ThemeColors


class PictureFeed(QObject):
    """Requests the thumbnails in view, fields before wells, and hands them out."""

    errors_changed = Signal(object)
    """Emitted with path of a well -> why it has no thumbnail, "" if it has one."""

    def __init__(
        self, plate: PlateMapView, well: WellView, images: CollectionView
    ) -> None:
        super().__init__(plate.parent())
        self._map, self._fields, self._images = plate, well, images
        self._queue: PreviewQueue | None = None
        self._root = ""
        self._well: str | None = None
        self._acquisition: int | None = None
        self._done: set[PreviewPlace] = set()
        self._refused: set[PreviewPlace] = set()
        self._server = ""
        self._failed: dict[str, str] = {}
        connect_while_alive(logged_in, self, self.follow_login)
        # Laying the window out emits many signals at once; one request is enough.
        self._soon = make_timer(self, 0, self._want_missing)
        plate.scrolled.connect(self.want_pictures)
        well.scrolled.connect(self.want_pictures)
        images.list.scrolled.connect(self.want_pictures)

    def setReader(self, reader: PreviewReader | None, root: str = "") -> None:
        """Read thumbnails of another hierarchy; paths are relative to `root`."""
        if self._queue is not None:
            self._queue.close()
            self.destroyed.disconnect(self._queue.close)
        self._queue = None
        self._root, self._well, self._done, self._failed = root, None, set(), {}
        self._refused, self._server = set(), ""
        self._acquisition = None
        if reader is not None:
            self._server = reader.server
            calls, key, deliver = (
                main_calls(),
                object(),
                while_alive(self.deliver_ready),
            )
            self._queue = PreviewQueue(reader, lambda: calls.call_newest(key, deliver))
            self.destroyed.connect(self._queue.close)

    def setWell(self, well: str | None) -> None:
        """Note whose fields are shown now, and request their thumbnails."""
        self._well = well
        self._done = {p for p in self._done if p.well}
        self.want_pictures()

    def setAcquisition(self, acquisition: int | None) -> None:
        """Show wells by fields of an acquisition, by its id; None for any."""
        if acquisition == self._acquisition:
            return
        self._acquisition = acquisition
        self._done = {place for place in self._done if not place.well}
        self._map.change_state(pictures={})
        self._report_errors(dict.fromkeys(self._failed, ""))
        self.want_pictures()

    def want_pictures(self) -> None:
        """Request soon what is in view and missing; nothing while all is hidden."""
        self._soon.start()

    def follow_login(self, server: str) -> None:
        """Request what this server refused before it was given a login."""
        if isalive(self) and server == self._server and self._refused:  # type: ignore[no-untyped-call]
            self._done -= self._refused
            self._refused = set()
            self.want_pictures()

    def _want_missing(self) -> None:
        if self._queue is None:
            return
        places: list[PreviewPlace] = []
        if self._fields.isVisible():
            paths = self._fields.strip.visibleImages()
            places += [
                PreviewPlace(self._join_path(self._well, path)) for path in paths
            ]
        if self._images.isVisible():
            paths = self._images.list.visibleImages()
            places += [PreviewPlace(self._join_path(None, path)) for path in paths]
        if self._map.isVisible():
            paths = self._map.visibleWells()
            places += [
                PreviewPlace(self._join_path(None, path), True, self._acquisition)
                for path in paths
            ]
        missing = (place for place in places if place not in self._done)
        self._queue.request_places(missing)

    def _join_path(self, well: str | None, path: str) -> str:
        return "/".join(part for part in (self._root, well or "", path) if part)

    def _path_prefix(self, well: str | None) -> str:
        above = self._join_path(well, "")
        return f"{above}/" if above else ""

    def deliver_ready(self) -> None:
        """Hand out the thumbnails made since."""
        # False while the dock is being deleted.
        if self._queue is not None and isalive(self._map):  # type: ignore[no-untyped-call]
            # A closed dock is a window that only Python owns: it must not go meanwhile.
            window = self._map.window()
            # Another acquisition may have been chosen meanwhile.
            self._hand_out(
                {
                    place: thumbnail
                    for place, thumbnail in self._queue.take_ready().items()
                    if not place.well or place.acquisition == self._acquisition
                }
            )
            del window

    def _hand_out(self, thumbnails: dict[PreviewPlace, WellThumbnail]) -> None:
        wells: dict[str, QImage] = {}
        fields: dict[str, QImage] = {}
        errors: dict[str, str] = {}
        well, root = self._path_prefix(self._well), self._path_prefix(None)
        for place, thumbnail in thumbnails.items():
            if not thumbnail.passing:
                self._done.add(place)  # passing ones are requested again
            if thumbnail.refused:
                self._refused.add(place)  # not again before a login
            image = image_of(thumbnail)
            path = place.path[len(root) :]
            if place.well:
                if image is not None:
                    wells[path] = image
                errors[path] = thumbnail.error
                continue
            if not self._images.isHidden():  # unlike isVisible, true behind another tab
                text = thumbnail.error or thumbnail.summary
                self._images.describeImage(path, image, text)
            elif image is not None and place.path.startswith(well):
                fields[place.path[len(well) :]] = image
        if wells:
            self._map.setPictures(wells)
        if fields:
            self._fields.setPictures(fields)
        self._report_errors(errors)

    def _report_errors(self, errors: dict[str, str]) -> None:
        """Emit wells that failed, and those that failed before and have a thumbnail."""
        new = {p: why for p, why in errors.items() if why != self._failed.get(p, "")}
        if new:
            self._failed.update(new)
            self.errors_changed.emit(new)


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


PATIENCE = 200
"""Milliseconds of reading before a progress bar is shown."""

HINT = "Drop a plate, a well, a collection or a folder of images here."


class BrowserPanel(DropTarget):
    """A map of wells above the fields of one, or a list of images."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = wrapping_label(self, HINT)
        self.plates = choice_box(self, "Plates", "Shows another plate instead.")
        self.plates_caption = make_caption("Plates:", self.plates, self)
        self.annotate = QPushButton("A&nnotate", self)
        self.annotate.setToolTip("Shows classes, tools and saving.")
        self.controls = BrowserControls(self)
        self.map = PlateMapView(self)
        self.tables = TableBar(self.map, self.controls, self)
        self.well = WellView(self)
        self.images = CollectionView(self)
        self.feed = PictureFeed(self.map, self.well, self.images)
        self.splitter = QSplitter(Qt.Orientation.Vertical, self)
        self.progress = QProgressBar(self)
        self.cancel = QPushButton("Cancel", self)
        self.status = wrapping_label(self)
        self._waited = QTimer(self)
        self._waited.timeout.connect(self._show_progress)
        for chosen in (
            self.controls.mode_chosen,
            self.controls.geometry_chosen,
            self.controls.labels_chosen,
            self.controls.acquisitions_chosen,
            self.plates.activated,
        ):
            chosen.connect(self._return_keys)
        self.progress.setRange(0, 0)
        self.progress.setTextVisible(False)
        # A thin line, in pixels: it says that something happens, without a number.
        self.progress.setMaximumHeight(6)
        # What the user is told is below the map, which must not move by it. The fields
        # may be folded away, for a larger map.
        below = QWidget(self.splitter)
        self.well.setMinimumHeight(1)
        layout = QVBoxLayout(below)
        fill_layout(
            layout,
            self.well,
            self.images,
            filled_row(self.tables.progress, self.tables.cancel, wide=None),
            self.tables.note,
            filled_row(self.progress, self.cancel, wide=self.progress),
            self.status,
            margin=0,
        )
        for number in range(2):  # one of them is there
            layout.setStretch(number, 1)
        self.splitter.setChildrenCollapsible(False)
        for number, (widget, share) in enumerate(((self.map, 3), (below, 2))):
            self.splitter.addWidget(widget)
            self.splitter.setStretchFactor(number, share)
        fill_layout(
            QVBoxLayout(self),
            filled_row(self.title, self.annotate, wide=self.title),
            filled_row(self.plates_caption, self.plates, wide=self.plates),
            self.controls,
            self.tables,
            self.splitter,
            wide=self.splitter,
        )
        self.clear()
        self.setPlates([""], "")
        self.showBusy(False)

    def clear(self) -> None:
        """Show nothing."""
        self.feed.setReader(None)
        self.map.clear()
        self.well.clear()
        self.images.setImages(())
        self.controls.setLabels((), None)
        self.controls.setAcquisitions((), ())
        self.controls.filter.clear()
        self.status.clear()
        self.title.setText(HINT)
        self.showPages(None)

    def showPages(self, kind: GroupKind | None) -> None:
        """Show the parts for a kind of group; None is a plain folder, or nothing."""
        self.annotate.setVisible(kind is not None)
        self.map.setVisible(kind is GroupKind.PLATE)
        self.well.setVisible(kind in (GroupKind.PLATE, GroupKind.WELL))
        self.controls.setVisible(kind in (GroupKind.PLATE, GroupKind.WELL))
        self.images.setVisible(kind not in (GroupKind.PLATE, GroupKind.WELL))

    def setPlates(self, addresses: Iterable[str], shown: str) -> None:
        """Offer what is open or listed, if it is more than one."""
        titles = title_addresses(addresses)
        fill_box(self.plates, titles, shown)
        for widget in (self.plates_caption, self.plates):
            widget.setVisible(len(titles) > 1)

    def _return_keys(self) -> None:
        """Give the keys back to the map after a click, but not after Tab."""
        focused = QApplication.focusWidget()
        if focused is None or not self.controls.isAncestorOf(focused):
            (self.map if self.map.isVisible() else self).setFocus()

    def showBusy(self, busy: bool) -> None:
        """Show a progress bar and a Cancel button, if reading takes long."""
        if not busy:
            self._waited.stop()
            self.progress.hide()
            self.cancel.hide()
        elif not self._waited.isActive():
            self._waited.start(PATIENCE)

    def isBusy(self) -> bool:
        """Return whether something is being read, shown or not yet."""
        return self._waited.isActive() or self.progress.isVisible()

    def _show_progress(self) -> None:
        self._waited.stop()
        self.progress.show()
        self.cancel.show()

    def setColors(self, colors: ThemeColors) -> None:
        """Follow the theme."""
        self.map.setColors(colors)
        self.well.setColors(colors)

    def showEvent(self, event: QShowEvent | None) -> None:
        """Request missing thumbnails."""
        super().showEvent(event)
        self.feed.want_pictures()

    def hideEvent(self, event: QHideEvent | None) -> None:
        """Request no thumbnails while the dock is hidden."""
        super().hideEvent(event)
        self.feed.want_pictures()

    def takeDrop(self, path: str) -> None:
        """Load a table; emit other paths."""
        if is_table(path) and self.tables.tables() is not None:
            self.tables.load_file(path)
        else:
            super().takeDrop(path)
