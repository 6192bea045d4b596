"""Tutorial: problems of a file are noticed, found and repaired."""

from __future__ import annotations

import json

from qtpy.QtWidgets import QApplication, QMessageBox

from napari_ngff.cli import main
from napari_ngff.viewer.samples import write_image
from napari_ngff.widgets.docking import full_name
from napari_ngff.widgets.inspector.pages import REPAIR
from napari_ngff.widgets.status_signs import ProblemSign, sign_of
from person import Person, button_with, needs_pointer

pytestmark = needs_pointer


def write_broken(folder):
    """Write an image whose list of labels names one that is not there."""
    path = write_image(folder / "broken.ome.zarr", shape=(256, 384))
    file = path / "labels/zarr.json"
    document = json.loads(file.read_text())
    document["attributes"]["ome"]["labels"].append("gone")
    file.write_text(json.dumps(document))
    return path


def test_problems_are_noticed_found_and_repaired(viewer, tmp_path):
    path = write_broken(tmp_path)
    assert main(["check", str(path)]) == 1

    def tutorial(person):
        person.drop(path)
        person.layer("nuclei")
        notices = person.sees(person.notices_now)
        assert notices[0].startswith("Opened with 1 note.")
        sign = person.sees(lambda: sign_of(viewer, ProblemSign))
        person.sees(sign.isVisible)  # once a worker has counted
        assert person.look(sign.text) == "1 error"
        person.step("noticed")

        person.click(sign)
        inspector = person.sees(lambda: inspector_of(viewer))
        person.sees(lambda: button_with("Fix…"))
        assert person.look(inspector.problems.rowCount) == 1
        person.rest(0.3)
        person.step("found")

        person.click_button("Fix…")
        person.sees(lambda: isinstance(QApplication.activeModalWidget(), QMessageBox))
        person.step("asked")
        person.click_button("Repair")
        first = inspector.problems
        person.sees(lambda: first.item(0, 0).text() == "No problems found.")
        assert person.look(lambda: first.isColumnHidden(REPAIR))
        person.sees(lambda: not sign.isVisible())
        person.step("repaired")

    def inspector_of(viewer):
        return viewer.window.dock_widgets.get(full_name("Inspector"))

    Person(viewer, "repair-file").take(tutorial)
    assert main(["check", str(path)]) == 0
    document = json.loads((path / "labels/zarr.json").read_text())
    assert document["attributes"]["ome"]["labels"] == ["nuclei", "cells"]
