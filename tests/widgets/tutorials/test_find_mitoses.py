"""Tutorial: a few clicked nuclei teach which cells of a plate are mitotic."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from qtpy.QtCore import QPoint
from qtpy.QtWidgets import QLineEdit
from scipy.ndimage import center_of_mass

from napari_ngff.viewer.samples.drawing import Population
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.docking import ANNOTATE, RESULTS, find_dock
from person import Person, needs_pointer, row_place
from screens import write_screen

pytestmark = needs_pointer

SHARES = {
    "A1": 0.06,
    "A2": 0.06,
    "A3": 0.06,
    "A4": 0.06,
    "B1": 0.15,
    "B2": 0.35,
    "B3": 0.55,
    "B4": 0.75,
}
"""Of mitotic cells in each well: row B has more of a drug from left to right."""
CLICKED = "B/2", "B/3"
"""Wells in which nuclei are clicked."""
CLASSES = "mitotic", "other"
EACH = 5


@pytest.mark.long
def test_mitotic_cells_are_found_by_a_few_clicks(viewer, tmp_path):
    cells = {well: Population(19.0, 0.9, x, 0.0) for well, x in SHARES.items()}
    truth = write_screen(tmp_path / "plate.ome.zarr", cells, (2, 4), (256, 256))

    def tutorial(person):
        person.drop(tmp_path / "plate.ome.zarr")
        dock = person.sees(lambda: browser_of(viewer))
        person.sees(lambda: dock.tables.tables().browser.known_labels)
        measure(person, dock)
        for well in CLICKED:
            show_field(person, dock, well)
            classify(person, truth[well])
        person.step("classes")
        person.press("ctrl+shift+m")
        person.click(dock.tables.results)
        learn(person)
        person.sees(lambda: dock.tables.column.currentText() == "predicted")
        person.step("predicted")
        person.press("ctrl+s")
        person.sees(lambda: not session_of(viewer).annotations.list_savable())

    Person(viewer, "find-mitoses").take(tutorial)
    for well, (_, kinds) in truth.items():
        tables = tmp_path / "plate.ome.zarr" / well / "0/tables"
        saved = pd.read_csv(tables / "nuclei_measured/table.csv")
        is_mitotic = saved["label"].map(kinds) == "mitotic"
        assert ((saved["predicted"] == "mitotic") == is_mitotic).mean() > 0.9, well
        if well in CLICKED:
            given = pd.read_csv(tables / "nuclei_classes/table.csv")
            assert [*given["class"].value_counts()] == [EACH, EACH]


def measure(person, dock):
    """Measure all nuclei, with shape and texture."""
    person.click(dock.tables.measure)
    for box in dock.tables.groups.values():
        person.sees(box.isVisible)
        person.click(box, QPoint(12, person.look(box.height) // 2))
        person.sees(box.isChecked)
    person.choose_in_menu("nuclei in all fields")
    person.sees(lambda: dock.tables.table.currentText() == "nuclei, measured")
    person.sees(lambda: not dock.tables.progress.isVisible())


def show_field(person, dock, well):
    """Click a well in the map, and the labels in the list of layers."""
    browser = session_of(person.viewer).browser
    person.press("ctrl+shift+m")
    person.sees(dock.map.hasFocus)
    if browser.position is None:
        person.click(lambda: dock.controls.buttons["Field"])
    place = person.look(lambda: dock.map.rectOf(well).center())
    person.click(dock.map.viewport(), place)
    person.sees(lambda: browser.position and browser.position.well == well)
    person.sees(lambda: not dock.cancel.isVisible())
    layer, parts = person.layer("nuclei"), person.viewer.window._qt_viewer
    row = person.look(lambda: len(person.viewer.layers) - 1 - layers_of(person)[layer])
    person.click(
        parts.layers.viewport(), person.look(lambda: row_place(parts.layers, row))
    )
    person.sees(lambda: person.viewer.layers.selection.active is layer)


def layers_of(person):
    return {layer: number for number, layer in enumerate(person.viewer.layers)}


def classify(person, drawn):
    """Give some nuclei of the field a class by a click and a key."""
    person.click_button("Annotate")
    dock = person.sees(lambda: find_dock(person.viewer, ANNOTATE))
    page, layer = dock.objects, person.layer("nuclei")
    person.sees(lambda: page.isVisible() and page.classes.isEnabled())
    for name in CLASSES:
        if name not in [one.name for one in page.classes.items]:
            add_class(person, page, name)
    if not person.look(page.choose.isChecked):
        person.click(page.choose)
    nuclei, kinds = drawn
    for number, name in enumerate(CLASSES, 1):
        for label, place in list_whole(nuclei, kinds, name)[:EACH]:
            person.click_canvas(person.look(lambda p=place: layer.data_to_world(p)))
            person.sees(lambda n=label: layer.selected_label == n)
            person.press(str(number))
            person.sees(lambda n=label, c=name: class_of(page, n) == c)


def class_of(page, label):
    return page.classes._shown.class_of.get(label)


def list_whole(nuclei, kinds, name):
    """List nuclei of a class with their middle, those at an edge last."""
    labels = [
        n for n, kind in kinds.items() if (kind == "mitotic") == (name == "mitotic")
    ]
    labels = np.intersect1d(labels, nuclei)
    places = center_of_mass(nuclei > 0, nuclei, labels)
    height, width = nuclei.shape

    def distance(item):
        y, x = item[1]
        return max(abs(y / height - 0.5), abs(x / width - 0.5))

    return sorted(zip(map(int, labels), places, strict=True), key=distance)


def add_class(person, page, name):
    def editor():
        found = page.classes.table.findChildren(QLineEdit)
        return next((one for one in found if one.isVisible()), None)

    person.click(lambda: page.classes.buttons["Add class"])
    person.sees(editor)
    person.press("ctrl+a")
    person.types(name)
    person.press("Return")
    person.sees(lambda: name in [one.name for one in page.classes.items])


def learn(person):
    """Train by the clicked nuclei, and find the class of all."""
    dock = person.sees(lambda: find_dock(person.viewer, RESULTS))
    show_page(person, dock, "Classify")
    page = person.sees(lambda: dock.pages.get("Classify"))
    person.sees(page.train.isEnabled)
    person.click(page.train)
    person.sees(page.predict.isEnabled)
    person.step("trained")
    person.click(page.predict)
    person.sees(page.unsure.isEnabled)


def show_page(person, dock, title):
    """Click the tab of a page of the results."""
    person.sees(dock.tabs.isVisible)
    bar = dock.tabs.tabBar()
    titles = person.look(lambda: [bar.tabText(i) for i in range(bar.count())])
    place = person.look(lambda: bar.tabRect(titles.index(title)).center())
    person.click(bar, place)
