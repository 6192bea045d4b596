"""What workers find in one field is not used in the next."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from mouse import pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.bridge.handover import RegionHandover, list_results
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.annotate import object_page
from napari_ngff.widgets.annotate.bridge_form import ELSEWHERE, show_bridge_form
from patience import PATIENCE
from plates import write_plate


@pytest.fixture
def labels(viewer, tmp_path):
    """Labels of the first of two fields, selected."""
    use_workers()
    path = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(1, 2),
        fields=1,
        shape=(1, 32, 32),
        labelled=lambda _: ("nuclei",),
    )
    viewer.open(str(path), plugin="napari-ngff")
    show_field(viewer, "A/1")
    viewer.layers.selection.active = viewer.layers["nuclei"]
    pump()
    return viewer.layers["nuclei"]


def show_field(viewer, well):
    browser = session_of(viewer).browser
    browser.show_field(well, "0")
    until(lambda: browser.position is not None and browser.position.well == well)


@pytest.fixture
def gate(monkeypatch):
    """Lets workers go on that look at labels."""
    opened = threading.Event()

    def hold(owner, name):
        work = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *asked: opened.wait(PATIENCE) and work(*asked)
        )

    hold(RegionHandover, "read_region")
    hold(object_page, "find_new_id")
    return opened


def test_a_region_is_of_one_field(viewer, labels, gate):
    form, count = show_bridge_form(viewer), len(viewer.layers)
    form.extractRegion()
    show_field(viewer, "A/2")
    gate.set()
    until(lambda: form.status.text().startswith("Not read"))
    assert len(viewer.layers) == count
    form.extractRegion()
    until(lambda: len(viewer.layers) > count)
    form.form.region.setCurrentIndex(form.form.region.findData("label"))
    viewer.layers.selection.active = viewer.layers[0]
    form.form.measureRegion()
    until(lambda: form.form.memory.text() == "Select the labels.")
    assert not form.take.isEnabled()
    viewer.layers.remove(viewer.layers[-1])
    pump(100)
    assert not form.take.isEnabled()
    form.window().close()


def test_an_id_that_is_unused_in_one_field_is_not_chosen_in_the_next(
    viewer, labels, gate
):
    _, dock = viewer.window.add_plugin_dock_widget("napari-ngff", "Annotate")
    pump()
    dock.objects.useUnusedId()
    show_field(viewer, "A/2")
    labels.selected_label = 2
    gate.set()
    pump(300)
    assert labels.selected_label == 2
    dock.objects.useUnusedId()
    until(lambda: labels.selected_label > 2)


def test_what_was_made_in_one_field_is_not_merged_into_the_next(viewer, labels):
    form = show_bridge_form(viewer)
    form.extractRegion()
    until(lambda: form.result.count() == 1)
    viewer.add_shapes([[[2, 2], [2, 20], [20, 20], [20, 2]]], name="outline")
    viewer.layers.selection.active = labels
    show_field(viewer, "A/2")
    before = np.asarray(labels.data[0])
    assert "outline" not in viewer.layers
    viewer.layers.selection.active = labels
    for act in (form.mergeResult, form.paintShapes):
        act()
        pump(50)
        assert form.status.text() in (ELSEWHERE, "Add a shapes layer, and draw.")
    assert list_results(viewer) == []
    np.testing.assert_array_equal(np.asarray(labels.data[0]), before)
    show_field(viewer, "A/1")
    viewer.layers.selection.active = labels
    until(lambda: "outline" in viewer.layers)
    form.paintShapes()
    assert form.status.text().startswith("Painted 1 shape")
    assert len(list_results(viewer)) == 1
    form.window().close()
