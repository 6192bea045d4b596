"""Labels that are written into images are in all lists of the browser at once."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from napari.layers import Image

import napari_ngff
from mouse import press_save, pump, until
from napari_ngff.labels.create_labels import create_labels
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.services.window import RESTORE, Window
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.browser.host import browser_of
from plates import write_plate

pytestmark = pytest.mark.slow


def show_field(viewer, path):
    """Open a plate, and show a field of it; return the dock."""
    viewer.open(str(path), plugin="napari-ngff")
    until(lambda: browser_of(viewer) is not None)
    browser = session_of(viewer).browser
    browser.show_field("A/2", "0")
    until(lambda: browser.position is not None)
    pump(200)
    return browser_of(viewer)


@pytest.fixture
def plate(tmp_path):
    """A plate without labels."""
    return write_plate(
        tmp_path / "plate.ome.zarr", grid=(1, 2), fields=1, shape=(1, 64, 64)
    )


def image_of(viewer):
    return next(layer for layer in viewer.layers if isinstance(layer, Image))


def paint_new(viewer, name):
    layer = viewer.add_layer(new_labels(image_of(viewer), name))
    viewer.layers.selection.active = layer
    layer.paint((30, 30), 5)
    return layer


def listed_by(dock):
    """Names in the Measure menu, in the box of labels, and of tables with numbers."""
    dock.tables._on_menu()
    choices = [action.data() for action in dock.tables.menu.actions()]
    measured = {choice[0] for choice in choices if choice is not None}
    boxes = dock.controls.labels, dock.tables.table
    texts = [{box.itemText(row) for row in range(1, box.count())} for box in boxes]
    return measured, texts[0], {text.removeprefix("number of ") for text in texts[1]}


def everywhere(dock, name):
    return all(name in names for names in listed_by(dock))


def test_labels_that_are_saved_are_listed(viewer, plate):
    dock = show_field(viewer, plate)
    assert listed_by(dock) == (set(), set(), set())
    assert not dock.tables.measure.isEnabled()
    layer = paint_new(viewer, "mitosis")
    press_save(viewer, layer)
    until(lambda: not layer.unsaved)
    until(lambda: everywhere(dock, "mitosis"))
    assert dock.tables.measure.isEnabled()
    assert dock.controls.labels.isVisible()


@pytest.mark.long
def test_labels_that_are_restored_and_saved_are_listed(viewer, plate, monkeypatch):
    show_field(viewer, plate)
    paint_new(viewer, "mitosis").saver.keep_journal()
    viewer.layers.clear()
    session_of(viewer).browser.close()
    session_of(viewer).plates.shown = None
    answer = RESTORE
    monkeypatch.setattr(
        Window.current, "offer_edits", lambda viewer, kept: (answer, kept)
    )
    viewer.open(str(plate), plugin="napari-ngff")
    until(lambda: "mitosis" in viewer.layers and viewer.layers["mitosis"].unsaved)
    dock = browser_of(viewer)
    assert listed_by(dock) == (set(), set(), set())
    press_save(viewer, viewer.layers["mitosis"])
    until(lambda: everywhere(dock, "mitosis"))


@pytest.mark.long
def test_labels_that_a_script_writes_are_listed(viewer, plate, tmp_path):
    """Also those of a layer that is in no viewer, and those merged from a sidecar."""
    dock = show_field(viewer, plate)
    made = new_labels(image_of(viewer), "alone")
    made.paint((30, 30), 5)
    assert made.saver.save_now()
    until(lambda: everywhere(dock, "alone"))
    beside = new_labels(image_of(viewer), "beside", sidecar=str(tmp_path / "aside"))
    beside.paint((30, 30), 5)
    assert beside.saver.save_now()
    pump(300)
    assert not everywhere(dock, "beside"), "measured by images, which have none"
    browser = session_of(viewer).browser
    (sidecar,) = (tmp_path / "aside").iterdir()
    napari_ngff.merge_sidecar(sidecar)
    until(lambda: everywhere(dock, "beside"))
    # The field is read anew when it is shown next, also as a part of an overview.
    browser.choose_labels("beside")
    browser.show_mosaic()
    until(lambda: "beside" in viewer.layers)
    browser.show_field("A/2", "0")
    until(lambda: browser.position is not None and "alone" in viewer.layers)
    assert "beside" in viewer.layers


@pytest.mark.long
def test_labels_in_an_archive_are_listed(viewer, plate, tmp_path):
    path = tmp_path / "plate.ozx"
    napari_ngff.pack(plate, path)
    shutil.rmtree(plate)
    dock = show_field(viewer, path)
    layer = paint_new(viewer, "mitosis")
    press_save(viewer, layer)
    until(lambda: not layer.unsaved)
    until(lambda: everywhere(dock, "mitosis"))


@pytest.mark.long
def test_labels_of_other_files_are_not_listed(viewer, plate, tmp_path):
    dock = show_field(viewer, plate)
    other = write_plate(
        tmp_path / "plate.ome.zarr2", grid=(1, 1), fields=1, shape=(1, 64, 64)
    )
    node = napari_ngff.open_node(other / "A/1/0")
    create_labels(node, "elsewhere", np.dtype("u2")).register()
    pump(500)
    assert not everywhere(dock, "elsewhere")
    create_labels(
        napari_ngff.open_node(plate / "A/1/0"), "here", np.dtype("u2")
    ).register()
    until(lambda: everywhere(dock, "here"))
