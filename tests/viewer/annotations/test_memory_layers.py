"""Labels of napari's button and of plugins: saved into the image that they lie on."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.utils.notifications import notification_manager

from choices import set_preference
from napari_ngff import work_here
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.annotations.leaving import AutoSaver
from napari_ngff.viewer.annotations.memory_layers import SMALL
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from plates import write_plate

SHAPE = (3, 40, 48)


class LaterWork(Window):
    """Does work when it is told to, as a worker does it some time later."""

    def __init__(self):
        self.waiting = []

    def run(self, work, done):
        self.waiting.append((work, done))

    def finish(self):
        while self.waiting:
            for work, done in [self.waiting.pop(0)]:
                done(work())


@pytest.fixture(autouse=True)
def plain_window(monkeypatch):
    # Windows that other tests have opened save in workers, and so would we.
    monkeypatch.setattr(Window, "current", Window())


@pytest.fixture
def folder(tmp_path):
    return write_image(tmp_path / "cells.ome.zarr", shape=SHAPE)


@pytest.fixture
def viewer(folder):
    return opened(folder)


def opened(folder):
    viewer = ViewerModel()
    session_of(viewer).add(read_paths(str(folder)), str(folder))
    viewer.layers.selection.active = viewer.layers[0]
    return viewer


def made(viewer):
    """Press napari's button for new labels."""
    viewer._new_labels()
    return viewer.layers[-1]


def annotation(viewer, layer):
    return session_of(viewer).annotations.of_layer(layer)


def savable(viewer):
    return [x.layer for x in session_of(viewer).annotations.list_savable()]


def names_in(folder):
    return sorted(x.name for x in open_node(str(folder)).labels().nodes)


def stored(folder, name, level="0"):
    return zarr.open_group(folder, mode="r")[f"labels/{name}/{level}"][:]


def test_labels_of_the_button_become_a_label_image_with_all_levels(viewer, folder):
    layer, before = made(viewer), viewer.layers[1]
    viewer.layers.move(len(viewer.layers) - 1, 1)
    assert savable(viewer) == []  # all are 0
    layer.brush_size, layer.opacity, layer.selected_label = 5, 0.3, 4
    layer.name = "a: b/c"
    viewer.layers.selection.active = layer
    layer.mode = "erase"
    layer.paint((1, 20, 30), 4)
    layer.paint((2, 5, 6), 200)
    assert savable(viewer) == [layer]
    assert annotation(viewer, layer).image == "cells.ome.zarr"
    pixels, color = layer.data.copy(), layer.get_color(4)
    annotation(viewer, layer).save()
    assert savable(viewer) == []
    (label,) = [x for x in open_node(str(folder)).labels().nodes if x.name == "a b c"]
    assert len(label.metadata.image.multiscales[0].levels) == 3
    assert np.array_equal(stored(folder, "a b c"), pixels)
    assert stored(folder, "a b c", "2").any()
    new = viewer.layers[1]
    assert layer not in viewer.layers
    assert viewer.layers.selection == {new}
    assert viewer.layers[2] is before
    assert (new.name, str(new.mode), new.opacity) == ("a b c", "erase", 0.3)
    assert (new.brush_size, new.selected_label) == (5, 4)
    np.testing.assert_allclose(new.get_color(4), color)
    # It is like any other labels of ours: the next save asks for nothing.
    new.undo()
    assert not np.asarray(new.data[0]).any()
    new.redo()
    assert np.array_equal(np.asarray(new.data[0]), pixels)
    assert savable(viewer) == []
    new.paint((0, 3, 3), 9)
    assert savable(viewer) == [new]
    annotation(viewer, new).save()
    assert (stored(folder, "a b c")[0] == 9).any()
    again = opened(folder).layers["a b c"]
    np.testing.assert_allclose(again.get_color(4), color)


def test_a_taken_name_is_not_proposed(viewer, folder):
    for _ in range(2):
        layer = viewer.add_labels(np.eye(40, 48, dtype="i8") + np.zeros(SHAPE, "i8"))
        image = viewer.layers[0]
        layer.scale, layer.translate, layer.name = (
            image.scale,
            image.translate,
            "nuclei",
        )
        annotation(viewer, layer).save()
    assert (stored(folder, "nuclei-2") == stored(folder, "nuclei-3")).all()
    assert stored(folder, "nuclei-2").sum() == 3 * 40


def plugin_layer(viewer, kind, tmp_path):
    """Add labels as a plugin returns them; gives them, and a part of the reason."""
    image = viewer.layers[0]
    place = {"scale": image.scale, "translate": image.translate}
    if kind == "shape":
        return viewer.add_labels(np.ones((3, 40, 47), "u1"), **place), "3 x 40 x 47"
    if kind == "moved":
        place["translate"] = place["translate"] + image.scale
    elif kind == "unscaled":
        place = {}
    elif kind == "coarse":
        place["scale"] = image.scale * 2
    elif kind == "rotated":
        place["rotate"] = np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]])
    elif kind == "region":
        layer = viewer.add_layer(work_here(viewer.layers["nuclei"]))
        layer.paint((1, 3, 3), 5)
        return layer, ""
    return viewer.add_labels(
        np.ones(SHAPE, "u1"), **place
    ), "not at the place of cells.ome.zarr"


@pytest.mark.parametrize(
    "kind", ["shape", "moved", "unscaled", "coarse", "rotated", "region"]
)
def test_labels_that_lie_on_no_image_need_a_file_of_their_own(viewer, kind, tmp_path):
    layer, reason = plugin_layer(viewer, kind, tmp_path)
    found = annotation(viewer, layer)
    assert found.unsaved
    assert found.asks_for_file
    assert reason in found.description
    assert savable(viewer) == []


def test_values_that_no_label_image_can_have_are_refused(viewer, folder):
    layer = made(viewer)
    layer.data = np.full(SHAPE, -3)
    found = annotation(viewer, layer)
    found.save()
    assert "negative" in notification_manager.records[-1].message
    assert savable(viewer) == [layer]
    assert names_in(folder) == ["cells", "nuclei"]
    layer.data = np.full(SHAPE, 3)
    found.save()
    assert savable(viewer) == []


def test_strokes_during_the_copy_are_saved_too(viewer, folder, monkeypatch):
    layer, window = made(viewer), LaterWork()
    layer.paint((0, 5, 5), 1)
    monkeypatch.setattr(Window, "current", window)
    found = annotation(viewer, layer)
    found.save()
    assert found.running
    layer.paint((1, 30, 30), 2)
    layer.data[2, 8, 8] = 3  # as plugins do it
    layer.refresh()
    ended = []
    found.ended[0].connect(lambda: ended.append(found.running))
    window.finish()
    assert ended == [False]
    assert set(np.unique(stored(folder, found.name))) == {0, 1, 2, 3}


def test_large_labels_are_looked_at_in_a_worker(viewer, monkeypatch):
    layer, window = made(viewer), LaterWork()
    monkeypatch.setattr(Window, "current", window)
    layer.data = np.zeros((1, SMALL // 64, 65), "u1")
    assert annotation(viewer, layer).unsaved, "until it is known"
    window.finish()
    assert not annotation(viewer, layer).unsaved
    layer.data[0, -1, -1] = 1
    layer.refresh()
    assert not annotation(viewer, layer).unsaved
    window.finish()
    assert annotation(viewer, layer).unsaved
    layer.data_setitem(
        (np.array([0]), np.array([layer.data.shape[1] - 1]), np.array([64])), 0
    )
    assert annotation(viewer, layer).unsaved
    window.finish()
    assert not annotation(viewer, layer).unsaved


def test_autosave_asks_for_no_name(viewer, folder):
    layer = made(viewer)
    layer.paint((0, 5, 5), 1)
    set_preference("autosave", 1)
    autosave = AutoSaver(session_of(viewer).annotations)
    for seconds in (0, 100, 200):
        autosave.save_due(seconds)
    set_preference("autosave", 0)
    assert savable(viewer) == [layer]
    assert names_in(folder) == ["cells", "nuclei"]


def test_labels_of_an_image_that_cannot_have_them_go_into_a_sidecar(tmp_path):
    folder = write_image(tmp_path / "old.ome.zarr", "0.3", shape=SHAPE)
    viewer = opened(folder)
    layer = made(viewer)
    layer.paint((0,) * (layer.ndim - 2) + (5, 5), 1)
    found = annotation(viewer, layer)
    found.save()
    assert savable(viewer) == []
    assert found.name in [x.name for x in opened(folder).layers]


def test_labels_belong_to_the_field_that_they_were_made_in(tmp_path):
    root = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), shape=(1, 32, 32))
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.show_field("A/1", "1")
    viewer.layers.selection.active = viewer.layers[0]
    layer = made(viewer)
    layer.paint((0,) * (layer.ndim - 2) + (5, 5), 7)
    found = annotation(viewer, layer)
    browser.show_field("A/2", "0")
    assert browser.position.well == "A/2"
    assert found.unsaved
    assert found.asks_for_file, "another field of that size is on screen"
    browser.show_field("A/1", "1")
    assert not found.asks_for_file
    found.save()
    name = found.name
    assert (stored(root / "A/1/1", name) == 7).any()
    assert isinstance(found.layer, OMEZarrLabels)
    browser.show_field("A/2", "0")
    browser.show_field("A/1", "1")
    assert (np.asarray(viewer.layers[name].data[0]) == 7).any()
    assert not (root / "A/2/0/labels").exists()
