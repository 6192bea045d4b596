"""Sees to it that the maps and lists of the browser get their thumbnails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.compat import isalive
from qtpy.QtCore import QObject, QTimer, Signal  # type: ignore[attr-defined]

from napari_ngff.plate.previews.preview import PreviewPlace
from napari_ngff.widgets.browser.thumbnails import ThumbnailLoader, image_of

if TYPE_CHECKING:
    from qtpy.QtGui import QImage

    from napari_ngff.plate.previews.preview import PreviewReader
    from napari_ngff.plate.previews.queue import WellThumbnail
    from napari_ngff.widgets.browser.collection_view import CollectionView
    from napari_ngff.widgets.browser.plate_map import PlateMapView
    from napari_ngff.widgets.browser.well_view import WellView

__all__ = ["PictureFeed"]


class PictureFeed(QObject):
    """Asks for what is in view, fields before wells, and hands out what arrives."""

    errors_changed = Signal(object)
    """Path of a well -> why it has no thumbnail, "" where it has one."""

    def __init__(
        self, plate: PlateMapView, well: WellView, images: CollectionView
    ) -> None:
        super().__init__(plate.parent())
        self._map, self._fields, self._images = plate, well, images
        self._loader: ThumbnailLoader | None = None
        self._root = ""
        self._well: str | None = None
        self._done: set[PreviewPlace] = set()
        self._failed: dict[str, str] = {}
        # Laying the window out tells of many changes at once.
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self._want_missing)
        plate.scrolled.connect(self.want_pictures)
        well.scrolled.connect(self.want_pictures)
        images.list.scrolled.connect(self.want_pictures)

    def setReader(self, reader: PreviewReader | None, root: str = "") -> None:
        """Take thumbnails from another hierarchy; paths are relative to `root`."""
        if self._loader is not None:
            self._loader.close()
        self._loader = None
        self._root, self._well, self._done, self._failed = root, None, set(), {}
        if reader is not None:
            self._loader = ThumbnailLoader(reader, self)
            self._loader.arrived.connect(self._on_arrived)

    def setWell(self, well: str | None) -> None:
        """Take the fields that are shown, without thumbnails, as those of a well."""
        self._well = well
        self._done = {p for p in self._done if p.well}
        self.want_pictures()

    def want_pictures(self) -> None:
        """Ask for what is in view and not there yet; nothing while all is hidden."""
        self._soon.start()

    def _want_missing(self) -> None:
        if self._loader is None:
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
                PreviewPlace(self._join_path(None, path), well=True) for path in paths
            ]
        self._loader.want_wells(place for place in places if place not in self._done)

    def _join_path(self, well: str | None, path: str) -> str:
        return "/".join(part for part in (self._root, well or "", path) if part)

    def _path_prefix(self, well: str | None) -> str:
        above = self._join_path(well, "")
        return f"{above}/" if above else ""

    def _on_arrived(self, found: dict[PreviewPlace, WellThumbnail]) -> None:
        # Else the dock is being taken apart.
        if isalive(self._map):  # type: ignore[no-untyped-call]
            held = self._map.window()  # of a dock that is closed Python is the owner
            self._hand_out(found)
            del held

    def _hand_out(self, found: dict[PreviewPlace, WellThumbnail]) -> None:
        wells: dict[str, QImage] = {}
        fields: dict[str, QImage] = {}
        told: dict[str, str] = {}
        here, root = self._path_prefix(self._well), self._path_prefix(None)
        for place, thumbnail in found.items():
            if not thumbnail.passing:
                self._done.add(place)  # others are asked for again with the next ones
            image = image_of(thumbnail)
            path = place.path[len(root) :]
            if place.well:
                if image is not None:
                    wells[path] = image
                told[path] = thumbnail.error
                continue
            if not self._images.isHidden():  # else a tab in the back would miss it
                text = thumbnail.error or thumbnail.summary
                self._images.describeImage(path, image, text)
            elif image is not None and place.path.startswith(here):
                fields[place.path[len(here) :]] = image
        if wells:
            self._map.setPictures(wells)
        if fields:
            self._fields.setPictures(fields)
        self._report_failed(told)

    def _report_failed(self, told: dict[str, str]) -> None:
        """Tell of wells that failed, and of those that failed and are there now."""
        new = {p: why for p, why in told.items() if why != self._failed.get(p, "")}
        if new:
            self._failed.update(new)
            self.errors_changed.emit(new)
