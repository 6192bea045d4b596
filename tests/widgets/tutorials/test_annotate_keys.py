"""Tutorial: all fields of a plate, by the keyboard and one brush, on a laptop."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication, QLineEdit

from napari_ngff.labels.field_states import FieldStates
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.browsing.positions import key_of
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from person import Person, needs_pointer

pytestmark = needs_pointer

FIELDS = "A/1/0", "A/1/1", "A/2/0"


@pytest.fixture(autouse=True)
def qt_dialogs():
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs)
    yield
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontUseNativeDialogs, False)


def test_all_fields_are_annotated_by_keys(viewer, tmp_path):
    plate = write_plate(tmp_path / "plate.ome.zarr", grid=(1, 2), fields=2)

    def tutorial(person):
        person.drop(plate)
        dock = person.sees(lambda: browser_of(viewer))
        browser = session_of(viewer).browser
        person.press("ctrl+shift+m")
        person.sees(dock.map.hasFocus)
        person.press("period", "Left")
        person.sees(lambda: here(browser) == FIELDS[0])
        person.rest(0.3)
        person.step("map")

        layer = person.make_labels("kinds")
        annotate = person.show_annotate()
        for name in ("round", "dividing"):
            add_class(person, annotate, name)
        person.step("classes")
        paint(person, browser, FIELDS[0])
        person.step("painted")
        for field in FIELDS[1:]:
            person.press("period")
            paint(person, browser, field)
        person.save(layer)
        person.step("third-field")
        person.press("alt+s")  # a key of napari, which no dock takes away
        assert "creenshot" in person.look(person.file_dialog().windowTitle)
        person.press("Escape")

    Person(viewer, "annotate-keys").take(tutorial)
    for field in FIELDS:
        stored = zarr.open_array(plate / field / "labels/kinds/0", mode="r")[...]
        assert set(np.unique(stored)) == {0, 1, 2}, field
        info = open_node(plate / field / "labels/kinds").metadata.image.label
        names = [info.properties[number]["napari-ngff:class-name"] for number in (1, 2)]
        assert names == ["round", "dividing"]
    states = FieldStates(open_node(plate))
    assert {states.state_of(field) for field in FIELDS} == {"in progress"}


def here(browser):
    return browser.position is not None and key_of(browser.position)


def add_class(person, annotate, name):
    def editor():
        found = annotate.classes.table.findChildren(QLineEdit)
        return next((one for one in found if one.isVisible()), None)

    person.click(annotate.classes.buttons["Add class"])
    person.sees(editor)
    person.press("ctrl+a")
    person.types(name)
    person.press("Return")
    person.sees(lambda: name in [one.name for one in annotate.classes.classes.items])


def paint(person, browser, field):
    """Paint a stroke of each class; the pointer has to be over the canvas."""
    person.sees(lambda: here(browser) == field)
    layer = person.layer("kinds")
    person.sees(lambda: person.viewer.layers.selection.active is layer)
    person.rest(0.5)
    assert person.look(lambda: layer.mode) == "paint"
    low, high = layer.extent.world[:, -2:]
    for key, y in ((1, 0.35), (2, 0.65)):
        way = [low + (high - low) * [y, part] for part in (0.3, 0.5, 0.7)]
        person.x("mousemove", *person.on_canvas(way[0]))
        person.press(key)
        person.sees(lambda k=key: layer.selected_label == k)
        person.draw(way)
    assert layer.unsaved
