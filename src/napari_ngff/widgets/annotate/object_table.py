"""The list of all objects on the page *Objects*, and the colours of a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import (  # type: ignore[attr-defined]
    QItemSelectionModel,
    QModelIndex,
    Qt,
    Signal,
)
from qtpy.QtGui import QPainter
from qtpy.QtWidgets import (
    QCheckBox,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.plate.tables.labelled_image import CLASS
from napari_ngff.plate.tables.table import LABEL
from napari_ngff.viewer.annotations.object_list import (
    NO_CLASS_NAME,
    ObjectList,
    colors_of,
)
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.controls import make_caption
from napari_ngff.widgets.browser.map_painting import legend_height, paint_legend
from napari_ngff.widgets.browser.table_bar import fill_box
from napari_ngff.widgets.canvas_keys import CanvasKeys
from napari_ngff.widgets.connections import (
    Connections,
    alive_check,
    choice_box,
    connect_while_alive,
    fill_layout,
    filled_row,
    make_timer,
    wrapping_label,
)
from napari_ngff.widgets.frame_model import FrameModel, view_rows
from napari_ngff.widgets.theme_look import ThemeColors

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.painting.paint import OMEZarrLabels

PAUSE = 300
"""Milliseconds without an edit or a step in time after which the list follows."""

ORDERS = Qt.SortOrder.AscendingOrder, Qt.SortOrder.DescendingOrder


class ObjectModel(FrameModel):
    """The rows of an `ObjectList`, as Qt asks for them."""

    def __init__(self, objects: ObjectList, parent: QWidget) -> None:
        super().__init__(parent)
        self._objects = objects

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [LABEL, CLASS] if self.frame is None else super().columns

    def labelAt(self, index: QModelIndex) -> int:
        """Return the id of an object; 0 for none."""
        return int(self.frame.iat[index.row(), 0]) if index.isValid() else 0

    def placeOf(self, label: int) -> int:
        """Return the row of an object; -1 where it is not there."""
        if self.frame is None:
            return -1
        places = np.flatnonzero(self.frame[LABEL].to_numpy() == label)
        return int(places[0]) if len(places) else -1

    def data(self, index: QModelIndex, role: int = 0) -> Any:
        """Return the text of a cell."""
        # Classes as they are now, not as when rows were put in order.
        is_class = self.columns[index.column()] == CLASS
        if is_class and role == Qt.ItemDataRole.DisplayRole:
            known = self._objects.classes.class_of
            return known.get(self.labelAt(index), NO_CLASS_NAME)
        return super().data(index, role)


class ObjectLegend(QWidget):
    """What the colours of objects mean."""

    def __init__(self, viewer: ViewerModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self.coloring: Any = None

    def showColoring(self, coloring: Any) -> None:
        """Show other colours; None for none."""
        self.coloring = coloring
        self.setVisible(coloring is not None)
        if coloring is not None:
            height = legend_height(self.fontMetrics(), coloring, self.width())
            self.setFixedHeight(height)

    def resizeEvent(self, event: Any) -> None:
        """Arrange categories for another width."""
        self.showColoring(self.coloring)

    def paintEvent(self, event: Any) -> None:
        """Draw the colours and what they mean."""
        painter = QPainter(self)
        colors = ThemeColors.from_theme(self._viewer.theme)
        paint_legend(painter, self.coloring, self.rect(), colors)
        painter.end()


class ObjectTable(QWidget):
    """Lists all objects of labels; a click goes to one, and a column colours them."""

    chosen = Signal(object)
    """Emitted with the id of an object whose row a person chose."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        annotations = session_of(viewer).annotations
        self.objects = ObjectList(annotations, alive_check(self))
        self._following = Connections(self)
        self._label = 0
        self.filter = QLineEdit(self)
        self.filter.setPlaceholderText("Filter, such as area > 200")
        self.filter.setAccessibleName("Filter of objects")
        self.filter.setToolTip("Ids, or tests of columns that are joined by 'and'.")
        self.color = choice_box(self, "Colour by", "The column that colours objects")
        self.log = QCheckBox("log", self)
        self.log.setToolTip("Logarithmic colours.")
        self.legend = ObjectLegend(viewer, self)
        self.model = ObjectModel(self.objects, self)
        tip = "Click an object to choose it and go there."
        self.view: Any = view_rows(self, self.model, "Objects", tip)
        self.note = wrapping_label(self)
        self.read = QPushButton("List objects", self)
        self.read.setToolTip("Reads all objects of the labels, with their sizes.")
        self._build_layout()
        # A stroke, or a film, has many steps.
        self._pause = make_timer(self, PAUSE, self._on_pause)
        self._connect_signals()
        for signal, follow in (
            (self.objects.changed, self._show_rows),
            (annotations.changed, self._on_classes),
            (viewer.dims.events.point, self._on_place),
        ):
            connect_while_alive(signal, self, follow)
        self._show_rows()

    def _build_layout(self) -> None:
        view = self.view
        CanvasKeys(view)
        header = view.horizontalHeader()
        header.setSectionsClickable(True)
        header.setSortIndicatorShown(True)
        header.setSortIndicator(0, ORDERS[0])
        header.sortIndicatorChanged.connect(self._order)
        label = make_caption("Colour by", self.color, self)
        fill_layout(
            QVBoxLayout(self),
            filled_row(label, self.color, self.log, wide=self.color),
            self.legend,
            filled_row(self.filter, self.read, wide=self.filter),
            view,
            self.note,
            wide=view,
            margin=0,
        )

    def _connect_signals(self) -> None:
        self.filter.textChanged.connect(self._order)
        self.read.clicked.connect(self._on_read)
        self.color.activated.connect(self._on_color)
        self.log.clicked.connect(self._on_color)
        self.view.selectionModel().currentRowChanged.connect(self._on_row)
        self.view.clicked.connect(self._on_click)

    def setLayer(self, layer: OMEZarrLabels | None) -> None:
        """List the objects of another layer."""
        self._following.end()
        self.objects.set_layer(layer)
        if layer is not None:
            events = layer.events
            for signal in (events.data, events.features, layer.edited):
                self._following.connect(signal, self._on_place)
            self._following.connect(colors_of(layer).changed, self._show_rows)
        self._pause.start()

    # What a person does.

    def _on_read(self) -> None:
        if self.objects.progress is None:
            self.objects.refresh(again=True)
        else:
            self.objects.cancel()

    def _order(self, _: Any = None, __: Any = None) -> None:
        header, columns = self.view.horizontalHeader(), self.model.columns
        name = columns[min(header.sortIndicatorSection(), len(columns) - 1)]
        is_down = header.sortIndicatorOrder() == ORDERS[1]
        self.objects.order((self.filter.text(), name, is_down))

    def _on_color(self, _: Any = None) -> None:
        column = self.color.currentData() or ""
        self.objects.color_by(column, is_log=self.log.isChecked())

    def _on_row(self, index: QModelIndex, _: Any = None) -> None:
        label = self.model.labelAt(index)
        if label not in (0, self._label):
            self._on_click(index)

    def _on_click(self, index: QModelIndex) -> None:
        self._label = self.model.labelAt(index)
        self.chosen.emit(self._label)

    # What happens elsewhere.

    def showEvent(self, event: Any) -> None:
        """Read the objects as soon as somebody looks."""
        super().showEvent(event)
        self._pause.start()

    def _on_place(self, event: Any = None) -> None:
        self.objects.check()
        self._pause.start()

    def _on_pause(self) -> None:
        # While somebody sees rows, or colours.
        if self.isVisible() or self.objects.column:
            self.objects.refresh()

    def _on_classes(self, _: Any = None) -> None:
        self.view.viewport().update()

    def listSelected(self) -> list[int]:
        """List the ids in all selected rows."""
        parts = self.view.selectionModel().selection()
        rows = [row for x in parts for row in range(x.top(), x.bottom() + 1)]
        return self.model.frame[LABEL].iloc[rows].tolist() if rows else []

    def showObject(self, label: int) -> None:
        """Select the row of an object alone, and scroll there; no row for 0."""
        # Not of one that a person has just selected, perhaps beside others.
        if label != self._label:
            self._select(label)

    def _select(self, label: int) -> None:
        self._label = label
        selection, flags = self.view.selectionModel(), QItemSelectionModel.SelectionFlag
        index = self.model.index(self.model.placeOf(label), 0)
        selection.setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        self.view.scrollTo(index)

    def _show_rows(self) -> None:
        objects, listed, coloring = (
            self.objects,
            self.objects.listed,
            self.objects.colors.coloring if self.objects.colors else None,
        )
        if objects.frame is not self.model.frame or not self.color.count():
            self.model.showRows(objects.frame)
            names = {name: name for name in self.model.columns[1:]}
            chosen = objects.column if objects.column in names else None
            fill_box(self.color, names, chosen, "own colours")
            self.view.resizeColumnsToContents()
            self._select(self._label)
        notes = [objects.failure]
        if listed is not None:
            count = f"{self.model.rowCount():,} of {len(listed.frame):,} objects."
            notes = [count, *notes, *listed.notes]
        if objects.progress is not None:
            notes.insert(0, f"Reading: {objects.progress:.0%}.")
        self.note.setText(" ".join(filter(None, notes)))
        text = "List objects" if listed is None else "Read again"
        self.read.setText(text if objects.progress is None else "Cancel")
        if coloring is not None and coloring.title == CLASS:
            coloring = None  # the table of classes has their colours
        self.log.setVisible(coloring is not None and not coloring.categories)
        self.legend.showColoring(coloring)
