"""Converting by the form in a real window, with pointer and keys."""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtWidgets import QApplication

import napari_ngff
from held_jobs import HeldJobs
from mouse import until
from napari_ngff.viewer.bridge.regions import view_region
from napari_ngff.viewer.browsing.camera import camera_of
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.converting.convert_form import TITLE, show_convert_form
from napari_ngff.widgets.form_dialog import shown_form
from person import Person, button_with, needs_pointer

pytestmark = needs_pointer

COMMAND = "File", "IO Utilities", "Convert OME-Zarr… (OME-Zarr)"


def show_form(person):
    """Open the form by the menu; its source is looked at."""
    person.choose(*COMMAND)
    form = person.sees(lambda: shown_form(person.viewer, TITLE))
    person.sees(lambda: form.task.can_start)
    return form


def type_into(person, field, text):
    """Replace the text of a field."""
    person.click(field)
    # Not by three clicks: on a busy machine they are not near enough in time.
    person.press("ctrl+a")
    person.types(text)


def zoom_in(viewer):
    camera_of(viewer).zoom *= 8


def options_of(person, form):
    person.click(form.fields.more)
    person.sees(form.lines["crop"].isVisible)


@pytest.mark.long
def test_a_part_of_an_image_becomes_one_file(viewer, tmp_path):
    source = write_image(tmp_path / "cells.ome.zarr", "0.4", shape=(2, 300, 400))
    made = tmp_path / "part.ozx"

    def journey(person):
        person.drop(source)
        person.layer("nuclei")
        form = show_form(person)
        assert form.source.currentText() == str(source)
        assert form.facts.text().startswith("Image, OME-Zarr 0.4, t 2")
        assert form.version.currentText() == "OME-Zarr 0.5"
        assert not form.lines["crop"].isVisible()
        assert "Reads about" in form.estimate.text()
        type_into(person, form.target, str(source))
        person.sees(lambda: "already exists" in text_below(form, "target"))
        assert not form.start.isEnabled()
        type_into(person, form.target, str(made))
        options_of(person, form)
        assert not form.lines["wells"].isVisible()  # an image has none
        person.click(form.lines["chunks"])
        person.press("Tab", "Tab", "Tab")
        person.sees(form.lines["crop"].hasFocus)
        before = place_of(form.lines["levels"])
        person.types("q=1")
        person.sees(lambda: "no axis 'q'" in text_below(form, "crop"))
        # The next field stays where the mouse is going.
        assert place_of(form.lines["levels"]) == before
        assert not form.start.isEnabled()
        type_into(person, form.lines["crop"], "x=100:300,t=1")
        person.sees(lambda: form.start.isEnabled() and not text_below(form, "crop"))
        person.press("Return")
        person.sees(form.open.isVisible)
        assert form.status.text() == "Done: part.ozx."
        person.sees(form.open.hasFocus)
        person.press("Return")
        person.sees(lambda: "nuclei [1]" in viewer.layers)
        # Else both would be drawn over each other.
        assert [layer.visible for layer in nuclei(viewer)] == [False, True]
        person.sees(lambda: shown_form(viewer, TITLE) is None)

    Person(viewer, "convert").take(journey)
    image = napari_ngff.open(made)
    assert image.levels[0].shape == (1, 3, 300, 200)
    before = napari_ngff.open(source).levels[0]
    assert (image.levels[0] == before[1:, ..., 100:300]).all().compute()


def place_of(field):
    return field.mapToGlobal(field.rect().topLeft())


def nuclei(viewer):
    return [layer for layer in viewer.layers if layer.name.startswith("nuclei")]


TITLES = {"target": "Save as"}


def text_below(form, name):
    label, title = form.fields.mistakes, TITLES.get(name, name.capitalize())
    lines = label.text().splitlines() if label.isVisible() else ()
    return next((line for line in lines if line.startswith(f"{title}: ")), "")


@pytest.mark.long
def test_wells_of_a_plate_are_forgotten_for_an_image(viewer, tmp_path):
    plate = write_plate(tmp_path / "plate.ome.zarr", grid=(1, 2), fields=1)
    image = write_image(tmp_path / "cells.ome.zarr", "0.4", shape=(60, 60))

    def journey(person):
        person.drop(plate)
        form = show_form(person)
        options_of(person, form)
        person.sees(form.lines["wells"].isVisible)
        type_into(person, form.lines["wells"], "A1")
        person.sees(form.start.isEnabled)
        type_into(person, form.source, str(image))
        person.sees(lambda: "Image" in form.facts.text())
        person.sees(lambda: form.start.isEnabled() and not form.fields.mistakes.text())
        assert not form.lines["wells"].isVisible()

    Person(viewer, "convert").take(journey)


@pytest.mark.long
def test_the_visible_part_becomes_the_crop(viewer, tmp_path):
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(2, 300, 400))
    made = tmp_path / "cells-converted.ome.zarr"

    def journey(person):
        person.drop(source)
        layer = person.layer("nuclei")
        person.look(lambda: setattr(viewer.scene.camera, "zoom", 8))
        person.rest()
        form = show_form(person)
        options_of(person, form)
        person.click_button("Visible part")
        region = person.look(lambda: view_region(viewer, layer))
        (top, bottom), (left, right) = region[1:]
        assert 0 < bottom - top < 300
        assert form.lines["crop"].text() == f"y={top}:{bottom},x={left}:{right}"
        person.sees(form.start.isEnabled)
        person.click(form.start)
        person.sees(form.open.isVisible)
        shapes.append((2, 3, bottom - top, right - left))

    shapes = []
    Person(viewer, "visible").take(journey)
    assert napari_ngff.open(made).levels[0].shape == shapes[0]


def test_there_is_no_part_of_what_is_not_shown(viewer, tmp_path):
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(64, 64))
    form = show_convert_form(viewer)
    form.source.setEditText(str(source))
    form.askTask()
    until(lambda: form.task.can_start)
    form.cropToView()
    assert form.lines["crop"].text() == ""
    assert "does not show this image" in form.fields.mistakes.text()


def test_a_folder_is_packed_by_its_targets_name(viewer, tmp_path):
    source = write_plate(tmp_path / "plate.ome.zarr", grid=(1, 2), shape=(64, 64))
    states = tmp_path / "plate.ome.zarr.annotation.json"
    states.write_text('{"format": "napari-ngff-annotation", "fields": {}}')

    def journey(person):
        person.drop(source)
        person.sees(lambda: len(viewer.layers) > 2)
        form = show_form(person)
        # Of a plate that is browsed, all of it.
        assert form.source.currentText() == str(source)
        assert form.start.text() == "Convert"
        type_into(person, form.target, str(tmp_path / "plate.ozx"))
        person.sees(lambda: form.start.text() == "Pack")
        person.click(form.start)
        person.sees(form.open.isVisible)
        note = "Not copied, since it is beside the source"
        assert f"{note}: {states.name}." in form.status.text()
        # One field of the source, enlarged, is on screen: it must not cover the copy.
        person.look(lambda: session_of(viewer).browser.show_field("A/1"))
        (dock,) = viewer.window.dock_widgets.values()
        person.sees(dock.controls.buttons["Field"].isChecked)
        field = list(viewer.layers)
        person.look(lambda: zoom_in(viewer))
        person.click(form.open)
        person.sees(lambda: len(viewer.layers) > len(field))
        person.sees(dock.controls.buttons["Plate"].isChecked)
        assert not any(layer.visible for layer in field)
        overview = viewer.layers[len(field)]
        assert overview.visible
        person.rest()
        corners = overview.corner_pixels[:, -2:]
        assert (corners[1] - corners[0] + 1 >= overview.data.shape[-2:]).all()

    Person(viewer, "pack").take(journey)
    assert list(napari_ngff.open(tmp_path / "plate.ozx").wells) == ["A/1", "A/2"]


def test_unsaved_changes_are_never_left_out_in_silence(viewer, tmp_path):
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(200, 300))
    made = tmp_path / "cells-converted.ome.zarr"

    def journey(person):
        person.drop(source)
        layer = person.layer("nuclei")
        person.look(lambda: layer.paint((50, 50), 77))
        form = show_form(person)
        assert "changes of nuclei" in form.note.text()
        person.click(form.start)
        person.sees(lambda: button_with("Convert without them"))
        person.press("Escape")
        person.sees(lambda: QApplication.activeModalWidget() is None)
        assert not form.task.is_running
        assert not made.exists()
        person.click(form.start)
        person.click_button("Save and convert")
        person.sees(form.open.isVisible)
        assert not layer.unsaved
        assert form.note.text() == ""

    Person(viewer, "unsaved").take(journey)
    labels = napari_ngff.open(made).labels["nuclei"]
    assert np.asarray(labels.levels[0])[50, 50] == 77


@pytest.mark.long
def test_it_is_cancelled_and_resumed_from_another_form(viewer, tmp_path, monkeypatch):
    jobs = HeldJobs(monkeypatch, "convert")
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(2, 300, 300))
    made = tmp_path / "cells-converted.ome.zarr"

    def journey(person):
        person.drop(source)
        person.layer("nuclei")
        form = show_form(person)
        options_of(person, form)
        type_into(person, form.lines["chunks"], "y=64,x=64")
        person.sees(
            lambda: form.start.isEnabled() and "encoded" in form.estimate.text()
        )
        task = form.task
        person.click(form.start)
        person.sees(lambda: task.is_running)
        # Closing the form does not stop it; opened again, the form shows it.
        person.press("Escape")
        person.sees(lambda: shown_form(viewer, TITLE) is None)
        assert task.is_running
        person.choose(*COMMAND)
        form = person.sees(lambda: shown_form(viewer, TITLE))
        assert form.task is task
        assert not form.fields.isEnabled()
        assert form.source.currentText() == str(source)
        jobs.wait()
        person.sees(lambda: form.status.text().startswith("Piece 1 of"))
        person.click(form.bar.cancel)
        jobs.release()
        person.sees(lambda: form.start.isVisible() and form.start.text() == "Resume")
        assert "Finished parts are kept" in form.status.text()
        assert not made.exists()
        person.click(form.start)
        person.sees(form.open.isVisible)

    Person(viewer, "cancel").take(journey)
    before, after = napari_ngff.open(source), napari_ngff.open(made)
    assert (before.levels[0] == after.levels[0]).all().compute()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "cells-converted.ome.zarr",
        "cells.ome.zarr",
    ]


@pytest.mark.long
def test_closing_the_window_stops_it(viewer, tmp_path, monkeypatch):
    held = HeldJobs(monkeypatch, "convert")
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(2, 300, 300))
    jobs = []

    def journey(person):
        person.drop(source)
        person.layer("nuclei")
        form = show_form(person)
        options_of(person, form)
        type_into(person, form.lines["chunks"], "y=64,x=64")
        person.sees(
            lambda: form.start.isEnabled() and "encoded" in form.estimate.text()
        )
        person.click(form.start)
        jobs.append(person.sees(lambda: form.task.job))

    Person(viewer, "closing").take(journey)
    viewer.window._qt_window.destroyed.emit()
    assert jobs[0].is_cancelled
    held.release()
    until(lambda: not jobs[0].is_running)
    assert not (tmp_path / "cells-converted.ome.zarr").exists()
