"""The page *Classify*: learns classes of objects from those that have one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from qtpy.QtWidgets import QFileDialog, QTableWidget, QTableWidgetItem, QVBoxLayout
from typing_extensions import override

from napari_ngff.plate.results.object_classifier import NO_LEARNING
from napari_ngff.plate.tables.labelled_image import CLASS
from napari_ngff.viewer.results.classifying import Classifying
from napari_ngff.viewer.results.well_table import NO_OBJECTS
from napari_ngff.widgets.connections import (
    alive_check,
    enable_if,
    fill_layout,
    make_buttons,
    while_alive,
    wrapping_row,
)
from napari_ngff.widgets.results.results_page import ResultsPage

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.results.plate_objects import PlateObjects

RULES = "Rules (*.json)"
FEW = "Give objects two classes first: click them, and press the keys of classes."
NOW, TRAINED, FOUND = "classified", "used to train", "found as {}"


class ClassifyPage(ResultsPage):
    """Shows which objects have a class, what is learned of them, and how well."""

    def __init__(self, viewer: ViewerModel) -> None:
        super().__init__(viewer)
        self._older = ""
        state = Classifying(alive_check(self), while_alive(self._show_state))
        self.classifying = state
        buttons = make_buttons(
            self,
            ("Train", "Learn classes by the objects that have one", state.train),
            ("Predict all objects", "Find the class of each object", state.predict),
            ("Next unsure", "Go to the least sure object: U", state.go_unsure),
            ("Save rule…", "Write the rule as JSON", self._on_save),
            ("Load rule…", "Train a saved rule again", self._on_load),
        )
        self.train, self.predict, self.unsure, self.save, self.load = buttons
        self.unsure.setShortcut("U")
        self.grid = QTableWidget(self)
        self.grid.setAccessibleName("Objects by class, and by the class that was found")
        self.grid.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        row = wrapping_row(*buttons)
        fill_layout(QVBoxLayout(self), row, self.note, self.grid, wide=self.grid)

    @override
    def showEvent(self, event: Any) -> None:
        # What was told before is not about this page.
        self._older = "" if self.objects is None else self.objects.tables.message
        super().showEvent(event)

    @override
    def followTables(self, objects: PlateObjects) -> None:
        self.classifying.follow(objects)
        self._show_state()

    @override
    def followClasses(self) -> None:
        self.follow()

    @override
    def followLayers(self) -> None:
        self.follow()

    def _show_state(self) -> None:
        state = self.classifying
        clicks, lost = state.clicks or (None, "")
        counts = {} if clicks is None else dict(clicks[CLASS].value_counts())
        found = {} if state.rule is None else state.rule.check.get("confusion", {})
        names = sorted({*counts, *found})
        titles = [NOW, *[TRAINED] * bool(found), *map(FOUND.format, found)]
        self.grid.setRowCount(len(names))
        self.grid.setColumnCount(len(titles))
        self.grid.setVerticalHeaderLabels(names)
        self.grid.setHorizontalHeaderLabels(titles)
        for row, name in enumerate(names):
            trained = found.get(name, dict.fromkeys(found, 0)).values()
            cells = counts.get(name, 0), sum(trained), *trained
            for column, count in enumerate(cells[: len(titles)]):
                self.grid.setItem(row, column, QTableWidgetItem(f"{count:,}"))
        self.grid.resizeColumnsToContents()
        lack = NO_OBJECTS if state.table is None else "" if len(counts) > 1 else FEW
        lack = lack if find_spec("sklearn") else NO_LEARNING
        known = "" if state.rule is None else state.rule.description
        message = state.objects.tables.message
        message = message if message != self._older else ""
        # What was told last may be the same.
        told = dict.fromkeys((lost, known, message or lack, state.outdated_note))
        self.note.setText(" ".join(filter(None, told)))
        enable_if(not lack, self.train, lack)
        for button in (self.predict, self.save):
            enable_if(bool(state.rule and state.table), button, "Press Train first.")
        lack = "Press Predict all objects first."
        enable_if(state.margins is not None, self.unsure, lack)

    def _on_save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save rule", "rule.json", RULES)
        if path:
            self.classifying.save_rule(path)

    def _on_load(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Load rule", "", RULES)
        if path:
            self.classifying.load_rule(path)
