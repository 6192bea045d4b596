"""The page *Classify*: learns classes of objects from those that have one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from qtpy.QtWidgets import (
    QFileDialog,
    QLabel,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.plate.results.object_classifier import NO_LEARNING
from napari_ngff.plate.tables.labelled_image import CLASS
from napari_ngff.viewer.results.classifying import Classifying
from napari_ngff.widgets.canvas_keys import leave_space_key
from napari_ngff.widgets.connections import (
    alive_check,
    enable_if,
    make_buttons,
    while_alive,
    wrapping_row,
)
from napari_ngff.widgets.results.results_page import ResultsPage

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.browsing.plate_tables import PlateTables

RULES = "Rules (*.json)"
NO_OBJECTS = "Measure objects first, or load a table of objects with their fields."
FEW = "Give objects two classes first: click them, and press the keys of classes."


class ClassifyPage(ResultsPage):
    """Shows which objects have a class, what is learned of them, and how well."""

    def __init__(self, viewer: ViewerModel, parent: QWidget | None = None) -> None:
        super().__init__(viewer, parent)
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
        self.note, self.grid = QLabel(self), QTableWidget(self)
        self.note.setWordWrap(True)
        self.grid.setAccessibleName("Objects by class, and by the class that was found")
        self.grid.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        layout = QVBoxLayout(self)
        layout.addLayout(wrapping_row(*buttons))
        layout.addWidget(self.note)
        layout.addWidget(self.grid, 1)
        leave_space_key(self)

    def followTables(self, tables: PlateTables) -> None:
        """Count the objects that have a class by now."""
        if self.classifying.tables is not tables:
            layers = tables.browser.layers
            for signal in (layers.annotations.changed, tables.browser.layers_changed):
                self._following.connect(signal, self._follow_tables)
        self.classifying.follow(tables)
        self._show_state()

    def _show_state(self) -> None:
        state = self.classifying
        has_clicks = state.clicks is not None
        counts = dict(state.clicks[CLASS].value_counts()) if has_clicks else {}
        found = {} if state.rule is None else state.rule.check.get("confusion", {})
        names = sorted({*counts, *found})
        self.grid.setRowCount(len(names))
        self.grid.setColumnCount(1 + len(found))
        self.grid.setVerticalHeaderLabels(names)
        self.grid.setHorizontalHeaderLabels(["objects", *(f"found {x}" for x in found)])
        for row, name in enumerate(names):
            cells = [counts.get(name, 0), *found.get(name, {}).values()]
            for column, count in enumerate(cells):
                self.grid.setItem(row, column, QTableWidgetItem(f"{count:,}"))
        lack = NO_OBJECTS if state.table is None else "" if len(counts) > 1 else FEW
        lack = lack if find_spec("sklearn") else NO_LEARNING
        self.note.setText(state.tables.note or lack)
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
