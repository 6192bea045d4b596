"""Converting by the form in a real window, with pointer and keys."""

from __future__ import annotations

import numpy as np
import pytest
from qtpy.QtWidgets import QApplication

import napari_ngff
from held_jobs import HeldJobs
from mouse import until
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streaming.regions import view_region
from napari_ngff.widgets.converting.convert_form import TITLE
from napari_ngff.widgets.form_dialog import shown_form
from person import Person, button_with, needs_pointer

pytestmark = needs_pointer

COMMAND = "File", "IO Utilities", "Convert OME-Zarr… (OME-Zarr)"


def show_form(person):
    person.choose(*COMMAND)
    return person.sees(lambda: shown_form(person.viewer, TITLE))


def type_into(person, field, text):
    """Replace the text of a field."""
    person.click(field)
    # Not by three clicks: on a busy machine they are not near enough in time.
    person.press("ctrl+a")
    person.types(text)


def show_options(person, form):
    person.click(form.more.toggleButton())
    person.sees(form.lines["codec"].isVisible)
    person.rest()


def nuclei(viewer):
    return [layer for layer in viewer.layers if layer.name.startswith("nuclei")]


def test_levels_of_an_image_become_one_file(viewer, tmp_path):
    source = write_image(tmp_path / "cells.ome.zarr", "0.4", shape=(2, 300, 400))
    made = tmp_path / "part.ozx"

    def tutorial(person):
        person.drop(source)
        person.layer("nuclei")
        form = show_form(person)
        assert form.source.currentText() == str(source)
        assert form.target.text() == str(tmp_path / "cells-converted.ome.zarr")
        type_into(person, form.target, str(made))
        show_options(person, form)
        type_into(person, form.lines["levels"], "9")
        person.click(form.start)
        person.sees(lambda: form.status.text().startswith("Levels: "))
        type_into(person, form.lines["levels"], "1:")
        person.press("Return")
        person.sees(form.open.isVisible)
        assert form.status.text() == "Done: part.ozx."
        person.sees(form.open.hasFocus)
        person.press("Return")
        person.sees(lambda: "nuclei [1]" in viewer.layers)
        # Else both would be drawn over each other.
        assert [layer.visible for layer in nuclei(viewer)] == [False, True]
        person.sees(lambda: shown_form(viewer, TITLE) is None)

    Person(viewer, "convert").take(tutorial)
    image, before = napari_ngff.open(made), napari_ngff.open(source)
    assert (image.levels[0] == before.levels[1]).all().compute()


def test_only_the_visible_part_is_kept(viewer, tmp_path):
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(2, 300, 400))
    made = tmp_path / "cells-converted.ome.zarr"

    def tutorial(person):
        person.drop(source)
        layer = person.layer("nuclei")
        person.look(lambda: setattr(viewer.scene.camera, "zoom", 8))
        person.rest()
        form = show_form(person)
        show_options(person, form)
        person.click(form.visible)
        top, bottom, left, right = (
            place
            for axis in person.look(lambda: view_region(viewer, layer))[1:]
            for place in axis
        )
        assert 0 < bottom - top < 300
        # There is no part of what is not shown.
        type_into(person, form.source.lineEdit(), str(tmp_path / "other"))
        person.click(form.start)
        person.sees(lambda: "does not show this image" in form.status.text())
        type_into(person, form.source.lineEdit(), str(source))
        person.click(form.start)
        person.sees(form.open.isVisible)
        parts.append(np.s_[:, :, top:bottom, left:right])

    parts = []
    Person(viewer, "visible").take(tutorial)
    whole = np.asarray(napari_ngff.open(source).levels[0])
    assert (whole[parts[0]] == np.asarray(napari_ngff.open(made).levels[0])).all()


def test_a_plate_that_is_browsed_is_converted_whole(viewer, tmp_path):
    source = write_plate(tmp_path / "plate.ome.zarr", grid=(1, 2), shape=(64, 64))
    states = tmp_path / "plate.ome.zarr.annotation.json"
    states.write_text('{"format": "napari-ngff-annotation", "fields": {}}')

    def tutorial(person):
        person.drop(source)
        person.sees(lambda: len(viewer.layers) > 2)
        form = show_form(person)
        assert form.source.currentText() == str(source)
        type_into(person, form.target, str(tmp_path / "plate.ozx"))
        person.click(form.start)
        person.sees(form.open.isVisible)
        note = "Not copied, since it is beside the source"
        assert f"{note}: {states.name}." in form.status.text()
        # One field of the source, enlarged, is on screen: it must not cover the copy.
        person.look(lambda: session_of(viewer).browser.show_field("A/1"))
        (dock,) = viewer.window.dock_widgets.values()
        person.sees(dock.controls.buttons["Field"].isChecked)
        field = list(viewer.layers)
        camera = viewer.scene.camera
        person.look(lambda: setattr(camera, "zoom", 8 * camera.zoom))
        person.click(form.open)
        person.sees(lambda: len(viewer.layers) > len(field))
        person.sees(dock.controls.buttons["Plate"].isChecked)
        assert not any(layer.visible for layer in field)
        overview = viewer.layers[len(field)]
        assert overview.visible
        person.rest()
        corners = overview.corner_pixels[:, -2:]
        assert (corners[1] - corners[0] + 1 >= overview.data.shape[-2:]).all()

    Person(viewer, "plate").take(tutorial)
    assert list(napari_ngff.open(tmp_path / "plate.ozx").wells) == ["A/1", "A/2"]


def test_unsaved_changes_are_never_left_out_in_silence(viewer, tmp_path):
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(200, 300))
    made = tmp_path / "cells-converted.ome.zarr"

    def tutorial(person):
        person.drop(source)
        layer = person.layer("nuclei")
        person.look(lambda: layer.paint((50, 50), 77))
        form = show_form(person)
        person.click(form.start)
        person.sees(lambda: button_with("Convert without them"))
        person.press("Escape")
        person.sees(lambda: QApplication.activeModalWidget() is None)
        assert form.task.job is None
        assert not made.exists()
        person.click(form.start)
        person.click_button("Save and convert")
        person.sees(form.open.isVisible)
        assert not layer.unsaved

    Person(viewer, "unsaved").take(tutorial)
    labels = napari_ngff.open(made).labels["nuclei"]
    assert np.asarray(labels.levels[0])[50, 50] == 77


@pytest.mark.long
def test_it_is_cancelled_and_continued_from_another_form(viewer, tmp_path, monkeypatch):
    jobs = HeldJobs(monkeypatch, "convert")
    source = write_image(tmp_path / "cells.ome.zarr", "0.5", shape=(2, 300, 300))
    made = tmp_path / "cells-converted.ome.zarr"

    def tutorial(person):
        person.drop(source)
        person.layer("nuclei")
        form = show_form(person)
        show_options(person, form)
        type_into(person, form.lines["chunks"], "y=64,x=64")
        task = form.task
        person.click(form.start)
        person.sees(lambda: task.job is not None)
        # Closing the form does not stop it; opened again, the form shows it.
        person.press("Escape")
        person.sees(lambda: shown_form(viewer, TITLE) is None)
        assert task.job is not None
        form = show_form(person)
        assert form.task is task
        assert not form.start.isEnabled()
        assert form.source.currentText() == str(source)
        jobs.wait()
        person.sees(lambda: form.status.text().startswith("Piece 1 of"))
        person.click(form.bar.cancel)
        jobs.release()
        person.sees(form.discard.isVisible)
        assert "Finished parts are kept" in form.status.text()
        assert not made.exists()
        show_options(person, form)
        type_into(person, form.lines["chunks"], "y=64,x=64")
        person.click(form.start)
        person.sees(form.open.isVisible)

    Person(viewer, "cancel").take(tutorial)
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

    def tutorial(person):
        person.drop(source)
        person.layer("nuclei")
        form = show_form(person)
        person.click(form.start)
        jobs.append(person.sees(lambda: form.task.job))

    Person(viewer, "closing").take(tutorial)
    viewer.window._qt_window.destroyed.emit()
    assert jobs[0].is_cancelled
    held.release()
    until(lambda: not jobs[0].running)
    assert not (tmp_path / "cells-converted.ome.zarr").exists()
