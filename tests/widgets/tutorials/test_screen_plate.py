"""Tutorial: wells of a plate are found, measured, coloured and compared."""

from __future__ import annotations

import numpy as np
import pytest
from napari.layers import Image
from qtpy.QtCore import QPoint

from napari_ngff.viewer.browsing.canvas_controls import NAMES_KEY
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from person import Person, needs_pointer

pytestmark = needs_pointer

TABLE = "well,dose\n" + "\n".join(
    f"{row}{column},{10 ** (column - 4)}" for row in "AB" for column in range(1, 5)
)


WELLS = ("A/2", "A/3", "B/3")


def choose_from_box(person, box, text):
    person.click(box)
    view = person.look(box.view)
    person.sees(view.isVisible)
    person.rest(0.6)  # Qt takes no click before the time of a double click
    index = person.look(lambda: box.model().index(box.findText(text), 0))
    row = person.look(lambda: view.visualRect(index))
    person.click(view.viewport(), QPoint(20, row.center().y()))
    person.sees(lambda: box.currentText() == text)


def color_of(dock, well):
    rect = dock.map.rectOf(well)
    picture = dock.map.viewport().grab().toImage()
    return picture.pixelColor(rect.center().x(), rect.top() + rect.height() // 4).name()


@pytest.mark.long
def test_wells_are_found_measured_colored_and_compared(viewer, tmp_path):
    plate = write_plate(tmp_path / "plate.ome.zarr", grid=(2, 4), fields=2)
    (tmp_path / "conditions.csv").write_text(TABLE)

    def tutorial(person):
        person.drop(plate)
        dock = person.sees(lambda: browser_of(viewer))
        person.sees(lambda: dock.tables.tables().browser.known_labels)
        person.drop(tmp_path / "conditions.csv")
        person.sees(lambda: dock.tables.column.currentText() == "dose")
        person.rest(0.3)
        colors = person.look(lambda: [color_of(dock, f"A/{n}") for n in range(1, 5)])
        assert len(set(colors)) == 4
        person.step("conditions")

        person.click(dock.controls.filter)
        person.types("A1:B3 and dose > 0.005")
        person.sees(lambda: dock.map.state.shown == set(WELLS))
        person.press("Return")
        person.click(lambda: dock.controls.buttons["Selected"])
        person.sees(lambda: session_of(viewer).browser.shown_wells == WELLS)
        person.sees(lambda: not dock.cancel.isVisible())
        assert person.look(dock.tables.log.isChecked), "the scale stays"
        person.step("filtered")

        person.click(dock.tables.measure)
        person.choose_in_menu("nuclei in all fields")
        person.sees(lambda: dock.tables.table.currentText() == "nuclei, measured")
        person.sees(lambda: not dock.tables.progress.isVisible())
        choose_from_box(person, dock.tables.column, "area")
        person.sees(
            lambda: dock.tables.tables().view.coloring.title == "area, mean of objects"
        )
        person.step("measured")

        compare(person, dock)

    Person(viewer, "screen-plate").take(tutorial)
    shown = [layer.name for layer in viewer.layers if isinstance(layer, Image)]
    assert [name for name in shown if name.startswith("B3 - field 0: ")]
    images = [layer for layer in viewer.layers if isinstance(layer, Image)]
    places = {tuple(np.round(layer.extent.world[0, -2:])) for layer in images}
    assert len(places) == 2, "side by side"


def compare(person, dock):
    viewer = person.viewer
    person.click(lambda: dock.controls.buttons["Field"])
    browser = session_of(viewer).browser
    person.sees(lambda: browser.position is not None)
    for number, well in enumerate(("A/2", "B/3")):
        place = person.look(lambda w=well: dock.map.rectOf(w).center())
        hold = "shift" if number else None
        person.click(dock.map.viewport(), place, holding=hold)
        person.sees(lambda: browser.position and browser.position.well == "A/2")
    person.sees(lambda: len(viewer.scene.overlays[NAMES_KEY].names.images) == 2)
    person.sees(lambda: not dock.cancel.isVisible())
    person.step("compared")
