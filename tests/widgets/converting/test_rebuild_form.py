"""Rebuilding by the form in a real window, with pointer and keys."""

from __future__ import annotations

import pytest
from qtpy.QtWidgets import QApplication

import napari_ngff
from napari_ngff.viewer.samples import write_image
from napari_ngff.widgets.converting.rebuild_form import TITLE
from napari_ngff.widgets.form_dialog import shown_form
from person import Person, button_with, needs_pointer

pytestmark = needs_pointer


@pytest.mark.long
def test_an_image_gets_more_levels_and_is_opened_again(viewer, tmp_path):
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(300, 400))

    def journey(person):
        person.drop(source)
        layer = person.layer("nuclei")
        person.look(lambda: layer.paint((50, 50), 77))
        image = viewer.layers[0]
        person.look(lambda: setattr(viewer.layers.selection, "active", image))
        person.choose("File", "IO Utilities", "Rebuild pyramid… (OME-Zarr)")
        form = person.sees(lambda: shown_form(viewer, TITLE))
        person.sees(lambda: form.task.can_start)
        assert form.source.currentText() == str(source)
        assert form.estimate.text().startswith("Makes level 1 (3 x 150 x 200)")
        assert "changes of nuclei" in form.note.text()
        # By keys: the method has the focus, Tab leads to the levels.
        person.press("Tab")
        person.press("4")
        person.sees(lambda: form.levels.currentData() == 4)
        person.sees(lambda: "level 3 (" in form.estimate.text())
        assert not form.fields.more.isVisible()  # nothing is folded away
        person.click(form.start)
        person.sees(lambda: button_with("Save and rebuild"))
        assert button_with("Rebuild without them") is None
        person.press("Escape")
        person.sees(lambda: QApplication.activeModalWidget() is None)
        assert not form.task.is_running
        person.click(form.start)
        person.click_button("Save and rebuild")
        person.sees(form.open.isVisible)
        assert not layer.unsaved
        person.press("Return")
        person.sees(lambda: shown_form(viewer, TITLE) is None)
        person.sees(lambda: "nuclei" in viewer.layers)
        again = viewer.layers["nuclei"]
        assert again is not layer
        assert layer not in viewer.layers
        assert int(again.data[0][50, 50]) == 77

    Person(viewer, "rebuild").take(journey)
    made = napari_ngff.open(source)
    assert len(made.levels) == len(made.labels["nuclei"].levels) == 4
