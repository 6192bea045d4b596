"""The page *Plot*: dose-response curves, boxes, scatter plots and histograms.

pyqtgraph takes long to import, so that this module is imported when the page is shown.
"""

from __future__ import annotations

from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pyqtgraph as pg
from qtpy.QtCore import QPoint, QRectF, Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QPainter
from qtpy.QtSvg import QSvgGenerator
from qtpy.QtWidgets import QFileDialog, QSplitter, QTextBrowser, QVBoxLayout
from typing_extensions import override

from napari_ngff.plate.tables.table import FIELD, WELL
from napari_ngff.viewer.results.plot_data import DOSES, list_rows, make_plot
from napari_ngff.viewer.services.latest_task import LatestTask
from napari_ngff.widgets.browser.table_bar import fill_box
from napari_ngff.widgets.connections import (
    alive_check,
    choice_box,
    fill_layout,
    filled_row,
    make_buttons,
    wrapping_row,
)
from napari_ngff.widgets.results.results_page import ResultsPage
from napari_ngff.widgets.theme_look import ThemeColors, ThemeFollower

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari.components import ViewerModel

    from napari_ngff.viewer.results.plate_objects import PlateObjects
    from napari_ngff.viewer.results.plot_data import Plot

BOXES = {"kind": "Kind", "x": "Across", "y": "Upwards", "group": "Groups"}
LONG = 24  # letters of a title of the upward axis that are in one line
NAME_DOT = "{data}: {y:.4g}".format


class FramingBox(pg.ViewBox):  # type: ignore[misc]
    """Moves the plot, and frames dots while Shift is held."""

    framed: Any = Signal(object)
    """Emitted with a rectangle in coordinates of the plot."""

    @override
    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        if axis is not None or event.modifiers() != Qt.KeyboardModifier.ShiftModifier:
            super().mouseDragEvent(event, axis)
            return
        event.accept()
        frame = QRectF(event.buttonDownPos(), event.pos())
        self.updateScaleBox(event.buttonDownPos(), event.pos())
        if event.isFinish():
            self.rbScaleBox.hide()
            self.framed.emit(self.childGroup.mapRectFromParent(frame).normalized())


class PlotPage(ResultsPage):
    """Draws wells or objects, and selects the wells of dots."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._task, self._asked = LatestTask(alive_check(self)), {"kind": DOSES}
        # Of the last tables, filter and kind of rows.
        self._list_rows = lru_cache(maxsize=1)(list_rows)
        self.plot: Plot | None = None
        self._shown: Mapping[str, str] = {}
        self.boxes = {name: choice_box(self, BOXES[name], "") for name in BOXES}
        (self.save,) = make_buttons(
            self, ("Save plot…", "As PNG or SVG", self._ask_file)
        )
        box = FramingBox(enableMenu=False)
        self.axes = pg.PlotWidget(self, viewBox=box, enableMenu=False)
        # It has no parent, and would stay.
        self.axes.plotItem.ctrlMenu.setParent(self, Qt.WindowType.Popup)
        self.dots = pg.ScatterPlotItem(size=8, hoverable=True, tip=NAME_DOT)
        self.chosen = pg.ScatterPlotItem(size=12, brush=None)
        self.legend = QTextBrowser(self)
        self.picture = QSplitter(self)
        self.picture.addWidget(self.axes)
        self.picture.addWidget(self.legend)
        self.picture.setSizes([600, 400])
        boxes = self.boxes.values()
        row = wrapping_row(*boxes)
        end = filled_row(self.note, self.save, wide=self.note)
        layout = QVBoxLayout(self)
        fill_layout(layout, row, self.picture, end, wide=self.picture, margin=4)
        for each in boxes:
            each.activated.connect(self._on_choice)
        self.axes.scene().sigMouseClicked.connect(self._on_click)
        box.framed.connect(self._on_frame)
        ThemeFollower(self, viewer, self._follow_theme)

    # What is drawn.

    @override
    def followTables(self, objects: PlateObjects) -> None:
        asked, list_rows = dict(self._asked), self._list_rows
        tables, join = objects.tables, objects.listed.joiner(objects.tables)
        choice = tables.result_choice

        def make(_: Any) -> Plot:
            of_objects = "objects" in asked["kind"]
            rows = list_rows(join(), choice, of_objects=of_objects)
            return make_plot(rows, asked)

        self._task.start(make, self._draw, self._fail)

    def _fail(self, reason: str) -> None:
        self.axes.clear()
        self.plot = None
        self.note.setText(reason)

    def _draw(self, plot: Plot) -> None:
        self.plot, dots, self._shown = plot, plot.dots, plot.choice
        for name, box in self.boxes.items():
            titles = {title: title or "no groups" for title in plot.offered[name]}
            fill_box(box, titles, plot.choice[name])
            box.setToolTip(f"{BOXES[name]}: {titles[plot.choice[name]]}")
        self.axes.clear()
        for x, y, color in plot.lines:
            pen = pg.mkPen(color, width=2)
            line = pg.PlotCurveItem(x, y, pen=pen, connect="finite", antialias=True)
            self.axes.addItem(line)
        brushes = np.array([pg.mkBrush(color) for _, color in plot.legend], object)
        places = dots["x"].to_numpy(), dots["y"].to_numpy()
        self.dots.setData(
            *places, brush=brushes[dots["group"]], data=dots[WELL].to_numpy(object)
        )
        for item in (self.dots, self.chosen):
            self.axes.addItem(item)
        self.axes.setLabel("bottom", escape(plot.title))
        title, is_long = escape(plot.choice["y"]), len(plot.choice["y"]) > LONG
        title = title.replace(", ", ",<br>", 1) if is_long else title
        self.axes.setLabel("left", title)
        self.axes.getAxis("bottom").setTicks([plot.ticks] if plot.ticks else None)
        self.axes.enableAutoRange()
        lines = (
            f'<span style="color: rgb{color}">\u25cf</span> {escape(text)}'
            for text, color in plot.legend
        )
        self.legend.setHtml("<br>".join(lines))
        self.note.setText(plot.note)
        self.followWells()

    @override
    def followWells(self) -> None:
        if self.plot is not None and self.objects is not None:
            dots, wells = self.plot.dots, self.objects.selected_wells
            dots = dots[dots[WELL].isin(wells)]
            self.chosen.setData(dots["x"].to_numpy(), dots["y"].to_numpy())

    def _follow_theme(self, colors: ThemeColors) -> None:
        self.axes.setBackground(colors.background)
        for side in ("bottom", "left"):
            axis = self.axes.getAxis(side)
            axis.setPen(colors.line)
            axis.setTextPen(colors.text)
            axis.enableAutoSIPrefix(False)
            axis.setStyle(hideOverlappingLabels=False)
        self.dots.setPen(pg.mkPen(colors.background))
        self.chosen.setPen(pg.mkPen(colors.chosen, width=2))

    # What a person does.

    def _on_choice(self, _: int) -> None:
        chosen = {name: box.currentData() for name, box in self.boxes.items()}
        # What it does not offer, such as y of a histogram, is asked for again later.
        self._asked |= dict(chosen.items() - self._shown.items())
        self.follow()

    def _on_click(self, event: Any) -> None:
        place = self.dots.mapFromScene(event.scenePos())
        # The one on top is seen.
        found = [dot.index() for dot in self.dots.pointsAt(place)[:1]]
        if not event.double():
            self._select(found)
        elif found and self.plot is not None and self.objects is not None:
            self.objects.go(self.plot.dots.iloc[found[0]])

    def _on_frame(self, frame: QRectF) -> None:
        x, y = self.dots.getData()
        across = (x >= frame.left()) & (x <= frame.right())
        upwards = (y >= frame.top()) & (y <= frame.bottom())
        self._select(np.flatnonzero(across & upwards))

    def _select(self, found: Any) -> None:
        if self.plot is not None and self.objects is not None:
            wells = {*self.plot.dots[WELL].iloc[found]}
            self.objects.select_wells(wells)
            if FIELD in self.plot.dots and wells:
                text = (
                    f"The {len(wells):,} wells of {len(found):,} objects are selected."
                )
                self.note.setText(f"{self.plot.note} {text}")

    def _ask_file(self) -> None:
        kinds = "PNG (*.png);;SVG (*.svg)"
        path, kind = QFileDialog.getSaveFileName(self, "Save plot", "", kinds)
        if path:
            self.save_plot(path if "." in path else f"{path}.{kind[:3].lower()}")

    def save_plot(self, path: str) -> None:
        """Draw what is seen into a file: SVG by its ending, else PNG."""
        generator = QSvgGenerator()
        if path.lower().endswith(".svg"):
            generator.setFileName(path)
            generator.setResolution(self.logicalDpiX())
            generator.setSize(self.picture.size())
            self.dots.setExportMode(True, {})  # as paths, not as pixels
            painter = QPainter(generator)
            is_saved = painter.isActive()
            self.picture.render(painter, QPoint())  # PySide6 has no default for it
            painter.end()
            self.dots.setExportMode(False)
        else:
            is_saved = self.picture.grab().save(path)
        text = "The plot is in" if is_saved else "The plot cannot be written:"
        known = "" if self.plot is None else self.plot.note
        self.note.setText(f"{known} {text} {path}".strip())
