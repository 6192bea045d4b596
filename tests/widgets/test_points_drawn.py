"""Points by pointer and keys: drawn in a field, saved, left, and seen again."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from napari.layers import Points

from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from napari_ngff.widgets.dialogs import SAVE
from person import Person, needs_pointer

pytestmark = needs_pointer


def find_points(viewer):
    return next((x for x in viewer.layers if isinstance(x, Points)), None)


def test_points_of_a_field_are_drawn_saved_asked_about_and_seen_again(
    viewer, tmp_path, monkeypatch
):
    plate = write_plate(tmp_path / "plate.ome.zarr", grid=(1, 2), fields=1)
    monkeypatch.setattr(settings, "saves_when_moving_on", lambda: False)
    canvas = viewer.window._qt_viewer.canvas.native
    buttons = viewer.window._qt_viewer.layerButtons

    def unsaved():
        return session_of(viewer).annotations.list_savable()

    def tutorial(person):
        person.drop(plate)
        dock = person.sees(lambda: browser_of(viewer))
        person.sees(lambda: len(dock.map.state.pictures) == 2)
        browser = session_of(viewer).browser

        def go_to(well):
            place = person.look(dock.map.rectOf(well).center)
            person.click(dock.map.viewport(), place)

        def arrived(well):
            return browser.position is not None and browser.position.well == well

        points = partial(find_points, viewer)
        go_to("A/1")
        person.sees(lambda: arrived("A/1"))
        person.click(buttons.newPointsButton)
        layer = person.sees(points)
        person.press("2")  # adds points
        person.sees(lambda: layer.mode == "add")
        middle = person.look(canvas.rect().center)
        for shift in (-40, 0, 40):
            person.click(canvas, middle + type(middle)(shift, shift))
        person.sees(lambda: len(layer.data) == 3 and len(unsaved()) == 1)
        person.press("ctrl+s")
        person.sees(lambda: not unsaved())
        person.click(canvas, middle + type(middle)(80, 0))
        person.sees(lambda: len(layer.data) == 4 and len(unsaved()) == 1)
        go_to("A/2")
        person.click_button(SAVE)  # asked before the field is left
        person.sees(lambda: arrived("A/2") and points() is None)
        go_to("A/1")
        person.sees(lambda: arrived("A/1"))
        again = person.sees(points)
        np.testing.assert_allclose(
            person.look(lambda: [again.data_to_world(x) for x in again.data]),
            person.look(lambda: [layer.data_to_world(x) for x in layer.data]),
        )
        assert not person.look(unsaved)

    Person(viewer, 99).take(tutorial)
    (file,) = (tmp_path / "plate.points/A/1/0").iterdir()
    assert len(pd.read_csv(file)) == 4
