"""Brings thumbnails to the maps and lists of the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.compat import isalive
from qtpy.QtCore import QObject, QTimer, Signal  # type: ignore[attr-defined]

from napari_ngff.plate.previews.preview import PreviewPlace
from napari_ngff.viewer.streaming.outage_watch import follow_logins
from napari_ngff.widgets.browser.thumbnails import ThumbnailLoader, image_of

if TYPE_CHECKING:
    from qtpy.QtGui import QImage

    from napari_ngff.plate.previews.preview import PreviewReader
    from napari_ngff.plate.previews.preview_queue import WellThumbnail
    from napari_ngff.widgets.browser.collection_view import CollectionView
    from napari_ngff.widgets.browser.plate_map import PlateMapView
    from napari_ngff.widgets.browser.well_view import WellView

__all__ = ["PictureFeed"]


class PictureFeed(QObject):
    """Requests the thumbnails in view, fields before wells, and hands them out."""

    errors_changed = Signal(object)
    """Emitted with path of a well -> why it has no thumbnail, "" if it has one."""

    def __init__(
        self, plate: PlateMapView, well: WellView, images: CollectionView
    ) -> None:
        super().__init__(plate.parent())
        self._map, self._fields, self._images = plate, well, images
        self._loader: ThumbnailLoader | None = None
        self._root = ""
        self._well: str | None = None
        self._acquisition: int | None = None
        self._done: set[PreviewPlace] = set()
        self._refused: set[PreviewPlace] = set()
        self._server = ""
        self._failed: dict[str, str] = {}
        follow_logins(self)
        # Laying the window out emits many signals at once; one request is enough.
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self._want_missing)
        plate.scrolled.connect(self.want_pictures)
        well.scrolled.connect(self.want_pictures)
        images.list.scrolled.connect(self.want_pictures)

    def setReader(self, reader: PreviewReader | None, root: str = "") -> None:
        """Read thumbnails of another hierarchy; paths are relative to `root`."""
        if self._loader is not None:
            self._loader.close()
        self._loader = None
        self._root, self._well, self._done, self._failed = root, None, set(), {}
        self._refused, self._server = set(), ""
        self._acquisition = None
        if reader is not None:
            self._server = reader.server
            self._loader = ThumbnailLoader(reader, self)
            self._loader.arrived.connect(self._on_arrived)

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
        self._map.clearPictures()
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
                PreviewPlace(self._join_path(None, path), True, self._acquisition)
                for path in paths
            ]
        self._loader.want_wells(place for place in places if place not in self._done)

    def _join_path(self, well: str | None, path: str) -> str:
        return "/".join(part for part in (self._root, well or "", path) if part)

    def _path_prefix(self, well: str | None) -> str:
        above = self._join_path(well, "")
        return f"{above}/" if above else ""

    def _on_arrived(self, thumbnails: dict[PreviewPlace, WellThumbnail]) -> None:
        # False while the dock is being deleted.
        if isalive(self._map):  # type: ignore[no-untyped-call]
            # A closed dock is a window that only Python owns: it must not go meanwhile.
            window = self._map.window()
            # Another acquisition may have been chosen meanwhile.
            self._hand_out(
                {
                    place: thumbnail
                    for place, thumbnail in thumbnails.items()
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
