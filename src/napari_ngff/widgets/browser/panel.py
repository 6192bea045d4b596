"""The parts of the browser dock, and their layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QSize, Qt, QTimer
from qtpy.QtWidgets import (
    QApplication,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.metadata.model import GroupKind
from napari_ngff.widgets.browser.collection_view import CollectionView
from napari_ngff.widgets.browser.controls import BrowserControls
from napari_ngff.widgets.browser.picture_feed import PictureFeed
from napari_ngff.widgets.browser.plate_map import PlateMapView
from napari_ngff.widgets.browser.table_bar import TableBar, is_table
from napari_ngff.widgets.browser.well_view import WellView
from napari_ngff.widgets.docking import starting_width
from napari_ngff.widgets.drop_target import DropTarget

if TYPE_CHECKING:
    from qtpy.QtGui import QHideEvent, QShowEvent

    from napari_ngff.widgets.colors import ThemeColors

__all__ = ["BrowserPanel"]

WIDTHS = {12: 400, 48: 560}
"""Width of a panel by its greatest number of columns of wells, in pixels."""

PATIENCE = 200
"""Milliseconds of reading before a progress bar is shown."""

HINT = "Drop a plate, a well, a collection or a folder of images here."


class BrowserPanel(DropTarget):
    """A map of wells above the fields of one, or a list of images."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = QLabel(HINT, self)
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
        self.status = QLabel(self)
        self._waited = QTimer(self)
        self._waited.timeout.connect(self._show_progress)
        for chosen in (
            self.controls.mode_chosen,
            self.controls.geometry_chosen,
            self.controls.labels_chosen,
            self.controls.acquisitions_chosen,
        ):
            chosen.connect(self._return_keys)
        for label in (self.title, self.status):
            label.setWordWrap(True)
        self.progress.setRange(0, 0)
        self.progress.setTextVisible(False)
        # A thin line, in pixels: it says that something happens, without a number.
        self.progress.setMaximumHeight(6)
        for widget, share in ((self.map, 3), (self.well, 2), (self.images, 3)):
            self.splitter.addWidget(widget)
            self.splitter.setStretchFactor(self.splitter.indexOf(widget), share)
        # The fields may be folded away, for a larger map.
        for number in range(self.splitter.count()):
            can_fold = self.splitter.widget(number) is self.well
            self.splitter.setCollapsible(number, can_fold)
        self._build_layout()
        self.clear()
        self.showBusy(False)

    def _build_layout(self) -> None:
        busy = QHBoxLayout()
        busy.addWidget(self.progress, 1)
        busy.addWidget(self.cancel)
        layout = QVBoxLayout(self)
        head = QHBoxLayout()
        head.addWidget(self.title, 1)
        head.addWidget(self.annotate)
        layout.addLayout(head)
        layout.addWidget(self.controls)
        layout.addWidget(self.tables)
        layout.addWidget(self.splitter, 1)
        layout.addLayout(busy)
        layout.addWidget(self.status)

    def sizeHint(self) -> QSize:
        """Return a width for all columns, or less if the canvas would be too small."""
        columns = len(self.map.plate().columns)
        width = next((w for most, w in WIDTHS.items() if columns <= most), WIDTHS[48])
        # A quarter for small plates, else a third: the canvas needs the rest.
        share = 1 / 4 if columns <= min(WIDTHS) else 1 / 3
        return QSize(starting_width(self, width, share), 640)

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
