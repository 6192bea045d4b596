"""The page *Wells*: a row for each well or condition, with values of all tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import (
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QSignalBlocker,
    Qt,
)
from qtpy.QtWidgets import QMenu, QVBoxLayout
from typing_extensions import override

from napari_ngff.plate.results.well_results import PERCENT, Z_SCORE
from napari_ngff.plate.tables.table import WELL
from napari_ngff.viewer.results.well_table import ResultTable
from napari_ngff.widgets.browser.controls import make_caption
from napari_ngff.widgets.browser.table_bar import fill_box
from napari_ngff.widgets.connections import (
    alive_check,
    choice_box,
    connect_while_alive,
    enable_if,
    fill_layout,
    filled_row,
    make_buttons,
)
from napari_ngff.widgets.dialogs import ask_table_file
from napari_ngff.widgets.frame_model import FrameModel, view_rows
from napari_ngff.widgets.results.results_page import ResultsPage

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from qtpy.QtGui import QAction  # type: ignore[attr-defined]

    from napari_ngff.viewer.results.plate_objects import PlateObjects

SELECT = QItemSelectionModel.SelectionFlag
SHOWN_AS = {how: f"show {how}" for how in (PERCENT, Z_SCORE)}
CONTROLS = "negative controls", "positive controls"
WIDEST = 220
"""Pixels of a column; its tool tip has the whole title."""

THESE, OBJECTS = "These rows…", "Objects with conditions…"


class WellsPage(ResultsPage):
    """Lists wells or conditions; a double click goes to them."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self.results = ResultTable(alive_check(self))
        self._seen = self.results.shown
        self.model = FrameModel(self)
        tip = "Double-click a row, or press Enter on it, to go there."
        self.view: Any = view_rows(self, self.model, "Wells", tip)
        self.keys, self.save = make_buttons(
            self,
            ("", "Rows are wells, or conditions by the columns that you choose.", None),
            ("Save…", "As CSV, Parquet or AnnData", None),
        )
        self.key_menu, self.save_menu = QMenu(self.keys), QMenu(self.save)
        self.shown_as = choice_box(self, "Show values as", "Needs negative controls")
        tip = "wells with this text in this column"
        self.controls = [choice_box(self, name, f"{name}: {tip}") for name in CONTROLS]
        for title in (THESE, OBJECTS):
            self.save_menu.addAction(title)
        for button, menu, choose in (
            (self.keys, self.key_menu, self._on_key),
            (self.save, self.save_menu, self._on_save),
        ):
            button.setMenu(menu)
            menu.triggered.connect(choose)
        for box in (self.shown_as, *self.controls):
            box.activated.connect(self._on_choice)
        self.view.horizontalHeader().setMaximumSectionSize(WIDEST)
        self.view.setSortingEnabled(True)
        self.view.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        self.view.activated.connect(self._on_activated)
        self.view.selectionModel().selectionChanged.connect(self._on_selected)
        self.model.modelReset.connect(self.followWells)
        caption = make_caption("Controls:", self.controls[0], self)
        row = filled_row(self.keys, self.shown_as, self.save, wide=self.shown_as)
        boxes = filled_row(caption, *self.controls, wide=self.controls[0])
        boxes.setStretch(2, 1)  # both are equally wide
        parts = row, boxes, self.view, self.note
        fill_layout(QVBoxLayout(self), *parts, wide=self.view, margin=4)
        connect_while_alive(self.results.changed, self, self._show_results)

    # What a person does.

    def _on_key(self, action: QAction) -> None:
        keys = [x.text() for x in self.key_menu.actions() if x.isChecked()]
        self.results.choose(keys=tuple(keys))

    def _on_choice(self, _: int) -> None:
        chosen = (box.currentData() for box in self.controls)
        controls = tuple(each and tuple(each) for each in chosen)  # a list in PySide6
        shown_as = self.shown_as.currentData() or ""
        self.results.choose(shown_as=shown_as, controls=controls)

    def _on_save(self, action: QAction) -> None:
        path = ask_table_file(self)
        if path:
            of_objects = action.text() == OBJECTS
            self.results.save(path, None if of_objects else self.model.frame)

    def _on_activated(self, index: QModelIndex) -> None:
        wells, objects = self._wells_of([index]), self.objects
        if objects is None:
            return
        own = {objects.own_path(well) for well in wells} & {
            *objects.tables.joined.paths
        }
        if len(own) > 1:
            objects.browser.show_mosaic(own)
        elif wells:
            objects.go({WELL: [*own, *wells][0]})

    def _on_selected(self, _: Any, __: Any) -> None:
        if self.objects is not None:
            chosen = self.view.selectionModel().selectedRows()
            self.objects.select_wells(self._wells_of(chosen))

    def _wells_of(self, indices: list[QModelIndex]) -> list[str]:
        rows, places = self.results.shown.rows, [x.row() for x in indices]
        return list(rows.index[rows.isin(self.model.frame.index[places])])

    # What happens elsewhere.

    @override
    def followTables(self, objects: PlateObjects) -> None:
        self.results.show(objects.tables, objects.listed)

    @override
    def followWells(self) -> None:
        if self.objects is None or self.model.frame is None:
            return
        rows = self.results.shown.rows
        meant = rows[rows.index.isin(self.objects.selected_wells)]
        places = np.flatnonzero(self.model.frame.index.isin(meant)).tolist()
        selection, selected = self.view.selectionModel(), QItemSelection()
        for index in (self.model.index(place, 0) for place in places):
            selected.select(index, index)
        # Else the other wells of a condition would be selected on the map.
        blocker = QSignalBlocker(selection)
        selection.select(selected, SELECT.ClearAndSelect | SELECT.Rows)
        blocker.unblock()
        self.view.viewport().update()
        if len(places) == 1:
            bar = self.view.horizontalScrollBar()
            column = bar.value()
            self.view.scrollTo(self.model.index(places[0], 0))
            bar.setValue(column)

    def _show_results(self) -> None:
        shown, choice = self.results.shown, self.results.choice
        self.note.setText(self.results.note)
        if shown is self._seen:
            return
        self._seen = shown
        keys = [key for key in choice.keys if key in shown.keys]
        self.keys.setText(f"Rows: {' + '.join(keys) or 'wells'}")
        self.key_menu.clear()
        for key in shown.keys:
            action: QAction = self.key_menu.addAction(key)
            action.setCheckable(True)
            action.setChecked(key in keys)
        titles = {control: " = ".join(control) for control in shown.controls}
        for at, (box, chosen) in enumerate(
            zip(self.controls, choice.controls, strict=True)
        ):
            known = chosen if chosen in titles else None
            fill_box(box, titles, known, f"no {CONTROLS[at]}")
        fill_box(self.shown_as, SHOWN_AS, choice.shown_as or None, "show values")
        lack = "Choose negative controls first."
        enable_if(choice.controls[0] in titles, self.shown_as, lack)
        self.model.meanings = shown.meanings
        self.model.showRows(shown.frame)
        self.view.resizeColumnsToContents()
