"""The page *Gallery*: crops of the objects of a plate, in rows that stream in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import QAbstractTableModel, QModelIndex, Qt
from qtpy.QtGui import QColor, QImage, QPainter, QPen
from qtpy.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QSlider,
    QStyle,
    QStyledItemDelegate,
    QTableView,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from napari_ngff.viewer.results.gallery import Gallery
from napari_ngff.widgets.browser.table_bar import fill_box
from napari_ngff.widgets.connections import (
    Connections,
    alive_check,
    choice_box,
    connect_while_alive,
    fill_layout,
    make_timer,
    wrapping_row,
)
from napari_ngff.widgets.results.results_page import ResultsPage
from napari_ngff.widgets.theme_look import ThemeColors

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.results.plate_objects import PlateObjects

CROP, GAP = 96, 5
"""Pixels along a side of a crop, and around it, where its frame is."""

PAUSE = 100
"""Milliseconds after which crops follow what the canvas shows."""

LOOKS = ("contrast_limits", "colormap", "gamma", "opacity", "visible")
"""Events of layers that crops follow."""


class GalleryModel(QAbstractTableModel):
    """The places of a gallery in rows of some columns."""

    def __init__(self, gallery: Gallery, parent: QWidget) -> None:
        super().__init__(parent)
        self.gallery, self._columns, self._order = gallery, 1, gallery.order

    def arrange(self, columns: int) -> None:
        """Put objects in rows; while they are the same ones, they stay chosen."""
        is_same = np.array_equal(self._order, self.gallery.order)
        if not is_same or columns != self._columns:
            self.beginResetModel()
            self._columns, self._order = columns, self.gallery.order
            self.endResetModel()

    def placeOf(self, index: QModelIndex) -> int:
        """Return the place of a cell in the gallery; -1 behind the last object."""
        place = index.row() * self._columns + index.column()
        return place if place < len(self._order) else -1

    @override
    def rowCount(self, parent: QModelIndex | None = None) -> int:
        return -(-len(self._order) // self._columns)

    @override
    def columnCount(self, parent: QModelIndex | None = None) -> int:
        return self._columns

    @override
    def data(self, index: QModelIndex, role: int = 0) -> Any:
        place = self.placeOf(index)
        if place < 0 or role not in (0, Qt.ItemDataRole.ToolTipRole):
            return None
        return ": ".join(filter(None, self.gallery.describe(place)[:2]))


class CropDelegate(QStyledItemDelegate):
    """Draws a crop and the name of its class, in a frame of the colour of that."""

    def __init__(self, page: GalleryPage) -> None:
        super().__init__(page)
        self._page = page

    @override
    def paint(self, painter: QPainter | None, option: Any, index: QModelIndex) -> None:
        place, gallery = self._page.model.placeOf(index), self._page.gallery
        if painter is None or place < 0:
            return
        colors = ThemeColors.from_theme(self._page.viewer.theme)
        crop, (_, name, color) = gallery.find_crop(place), gallery.describe(place)
        below = option.rect.height() - CROP - GAP
        area = option.rect.adjusted(GAP, GAP, -GAP, -below)
        is_chosen = option.state & QStyle.StateFlag.State_Selected
        back = colors.current if is_chosen else colors.background
        painter.fillRect(option.rect, back)
        painter.fillRect(area, colors.well)
        painter.setPen(colors.text)
        if isinstance(crop, str):
            painter.drawText(area, Qt.TextFlag.TextWordWrap, crop)
        elif crop is not None:
            side, form = len(crop), QImage.Format.Format_RGB888
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            painter.drawImage(area, QImage(crop.data, side, side, 3 * side, form))
        cut = option.fontMetrics.elidedText(name, Qt.TextElideMode.ElideRight, CROP)
        painter.drawText(area.x(), option.rect.bottom() - GAP, cut)
        if color is not None:
            painter.setPen(QPen(QColor(*color[:3]), GAP - 2))
            painter.drawRect(area.adjusted(-2, -2, 1, 1))


class GalleryView(QTableView):
    """The crops; number keys give classes, and Enter goes to an object."""

    def __init__(self, page: GalleryPage) -> None:
        super().__init__(page)
        self._page = page
        self.setModel(page.model)
        self.setItemDelegate(CropDelegate(page))
        self.setAccessibleName("Crops of objects")
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        headers: tuple[Any, Any] = self.horizontalHeader(), self.verticalHeader()
        for header, text in zip(headers, (0, self.fontMetrics().height()), strict=True):
            header.hide()
            header.setDefaultSectionSize(CROP + 2 * GAP + text)

    def listChosen(self) -> list[int]:
        """List the places of the chosen crops."""
        places = map(self._page.model.placeOf, self.selectedIndexes())
        return [place for place in places if place >= 0]

    def listSeen(self) -> range:
        """List the places of the crops that are seen."""
        port: Any = self.viewport()
        first, last = self.rowAt(0), self.rowAt(port.height() - 1)
        columns, count = self._page.model.columnCount(), len(self._page.gallery.order)
        end = (last + 1) * columns if last >= 0 else count
        return range(max(first, 0) * columns, min(end, count))

    @override
    def keyPressEvent(self, event: Any) -> None:
        if event.text().isdecimal():
            self._page.giveClass(int(event.text()))
        else:
            super().keyPressEvent(event)

    @override
    def resizeEvent(self, event: Any) -> None:
        super().resizeEvent(event)
        self._page.arrange()


class GalleryPage(ResultsPage):
    """Shows crops of objects; number keys give those that are chosen a class."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self.gallery = Gallery(alive_check(self))
        self.model = GalleryModel(self.gallery, self)
        self.column = choice_box(self, "Sort by", "Sort crops by a column")
        self.name = choice_box(self, "Class", "Show the objects of one class")
        self.down = QCheckBox("Descending", self)
        self.outline = QCheckBox("Outline", self)
        self.outline.setChecked(True)
        self.zoom = QSlider(Qt.Orientation.Horizontal, self)
        self.zoom.setRange(5, 60)
        self.zoom.setValue(10)
        self.zoom.setAccessibleName("Size of crops")
        self.zoom.setToolTip("How much a crop shows around its object")
        self.view = GalleryView(self)
        self._looks = Connections(self)
        self._soon = make_timer(self, PAUSE, self._show_view)
        boxes = self.column, self.down, self.name, self.zoom, self.outline
        row = wrapping_row(*boxes)
        fill_layout(QVBoxLayout(self), row, self.view, self.note, wide=self.view)
        bar: Any = self.view.verticalScrollBar()
        for signal, method in (
            (self.column.activated, self.follow),
            (self.down.clicked, self.follow),
            (self.name.activated, self.follow),
            (self.zoom.valueChanged, self._show_soon),
            (self.outline.clicked, self._show_soon),
            (self.view.activated, self._on_activated),
            (bar.valueChanged, self._read_seen),
        ):
            signal.connect(method)
        connect_while_alive(self.gallery.changed, self, self._show_rows)
        connect_while_alive(self.gallery.arrived, self, self._show_crops)
        connect_while_alive(viewer.dims.events.point, self, self._show_soon)

    @override
    def followTables(self, objects: PlateObjects) -> None:
        column, name = (x.currentData() or "" for x in (self.column, self.name))
        self.gallery.show(objects, column, self.down.isChecked(), name)
        self.followLayers()

    @override
    def followLayers(self) -> None:
        """Follow how the layers that are shown now look."""
        self._looks.end()
        if self.objects is not None:
            for layer in self.objects.browser.layers.image_layers():
                for name in LOOKS:
                    self._looks.connect(getattr(layer.events, name), self._show_soon)
        self._show_view()

    @override
    def followClasses(self) -> None:
        self._show_crops()
        # Classes of a field that is left are read from its file again.
        self._show_soon()

    def _show_soon(self, _: Any = None) -> None:
        self._soon.start()

    def _show_view(self) -> None:
        if self.gallery.objects is not None:
            size = self.zoom.value() / 10
            self.gallery.set_view(size, has_outline=self.outline.isChecked())
            self._read_seen()

    def _show_rows(self) -> None:
        self.note.setText(self.gallery.note)
        self.arrange()
        self._show_crops()

    def arrange(self) -> None:
        """Put as many crops in a row as there is room for."""
        port: Any = self.view.viewport()
        self.model.arrange(max(1, port.width() // (CROP + 2 * GAP)))
        self._read_seen()

    def _read_seen(self, _: Any = None) -> None:
        """Read the crops that are seen."""
        if self.gallery.objects is not None:
            self.gallery.read(self.view.listSeen())

    def _show_crops(self) -> None:
        port: Any = self.view.viewport()
        port.update()
        for box, names, nothing in (
            (self.column, self.gallery.columns, "order of the table"),
            (self.name, self.gallery.list_names(), "all classes"),
        ):
            if [*map(box.itemData, range(box.count()))] != [None, *names]:
                chosen = box.currentData() if box.currentData() in names else None
                fill_box(box, {name: name for name in names}, chosen, nothing)

    def giveClass(self, number: int) -> None:
        """Give the chosen crops the class of a number key."""
        chosen = self.view.listChosen()
        if chosen:
            self.note.setText(self.gallery.classify(chosen, number))

    def _on_activated(self, index: QModelIndex) -> None:
        place = self.model.placeOf(index)
        if place >= 0 and self.objects is not None:
            self.objects.go(self.gallery.find_row(place))
