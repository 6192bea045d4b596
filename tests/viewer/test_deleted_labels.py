"""Labels are deleted from their file by the menu of their layer, and come back."""

from __future__ import annotations

import gc
import shutil
import weakref

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_ngff.errors import UnsupportedError
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.deleted_labels import delete_selected
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from plates import write_plate


class Asked(Window):
    """A window in which every question is answered with yes, and offers are kept."""

    def __init__(self):
        self.texts, self.offers, self.told = [], [], []

    def confirm(self, viewer, text, action):
        self.texts.append(text)
        return True

    def show_offer(self, viewer, offer):
        self.offers.append(offer)

    def notify(self, text, *, is_warning=True):
        self.told.append(text)


@pytest.fixture
def window(monkeypatch):
    window = Asked()
    monkeypatch.setattr(Window, "current", window)
    return window


@pytest.fixture
def folder(tmp_path):
    return write_image(tmp_path / "cells.ome.zarr", shape=(48, 48))


def opened(path, name="nuclei"):
    viewer = ViewerModel()
    session_of(viewer).add(read_paths(str(path)), str(path))
    viewer.layers.selection.active = viewer.layers[name]
    return viewer


def names_in(path):
    return sorted(node.name for node in open_node(str(path)).labels().nodes)


def test_labels_go_from_file_and_window_and_come_back_to_both(window, folder):
    viewer = opened(folder)
    layer = viewer.layers["nuclei"]
    pixels = np.asarray(layer.data[0])
    delete_selected(viewer)
    assert "nuclei of cells.ome.zarr" in window.texts[0]
    assert str(folder) in window.texts[0]
    assert names_in(folder) == ["cells"]
    assert layer not in viewer.layers
    ((text, undo),) = window.offers[0].actions
    assert text == "Undo"
    undo(None)
    assert names_in(folder) == ["cells", "nuclei"]
    assert layer in viewer.layers
    assert np.array_equal(np.asarray(layer.data[0]), pixels)
    layer.paint((5, 5), 77)
    assert layer.saver.save_now()
    assert (np.asarray(opened(folder).layers["nuclei"].data[0]) == 77).any()


@pytest.mark.parametrize("shown", [True, False])
def test_they_come_back_to_a_field_that_is_on_screen(window, tmp_path, shown):
    plate = write_plate(
        tmp_path / "p.ome.zarr", grid=(1, 2), fields=1, labelled=lambda _: ("nuclei",)
    )
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(str(plate)))
    browser.show_field("A/1", "0")
    layer = viewer.layers["nuclei"]
    viewer.layers.selection.active = layer
    delete_selected(viewer)
    assert layer not in viewer.layers
    if not shown:
        browser.show_field("A/2", "0")
    window.offers[0].actions[0][1](None)
    assert (layer in viewer.layers) == shown
    # In either case they belong to their field, which has them once.
    for well, field in (("A/2", "0"), ("A/1", "0")):
        browser.show_field(well, field)
        assert [x.name for x in viewer.layers].count("nuclei") == 1


def test_new_labels_of_their_name_are_saved_at_once(window, folder):
    viewer = opened(folder)
    delete_selected(viewer)
    assert "new labels are saved under their name" in window.texts[0]
    made = viewer.add_layer(new_labels(viewer.layers[0], "nuclei"))
    made.paint((5, 5), 7)
    assert made.saver.save_now()
    assert names_in(folder) == ["cells", "nuclei"]
    with pytest.raises(UnsupportedError, match="the deleted ones are gone"):
        window.offers[0].actions[0][1](None)
    assert made in viewer.layers
    saved = np.asarray(opened(folder).layers["nuclei"].data[0])
    assert set(np.unique(saved)) == {0, 7}


def test_they_are_gone_for_good_with_their_window(window, folder):
    viewer = opened(folder)
    delete_selected(viewer)
    left = list((folder / "labels").glob(".nuclei.*"))
    assert left
    gone = weakref.ref(viewer)
    del viewer
    gc.collect()
    assert gone() is None
    assert not left[0].exists()


@pytest.mark.parametrize("kind", ["image", "unsaved", "twice", "archive"])
def test_what_cannot_be_deleted_stays_and_the_reason_is_told(
    window, folder, tmp_path, kind
):
    path = folder
    if kind == "archive":
        path = tmp_path / "cells.ozx"
        pack_hierarchy(str(folder), str(path))
    viewer = opened(path)
    if kind == "image":
        viewer.layers.selection.active = viewer.layers[0]
    elif kind == "unsaved":
        viewer.layers["nuclei"].paint((5, 5), 77)
    other = opened(path) if kind == "twice" else None
    before = list(viewer.layers)
    try:
        delete_selected(viewer)
    except UnsupportedError as error:
        window.told.append(str(error))
    reasons = {
        "image": "Select labels",
        "unsaved": "Save or undo them first",
        "twice": "Another layer shows the same labels",
        "archive": "is not in a folder",
    }
    assert reasons[kind] in window.told[-1]
    assert list(viewer.layers) == before
    assert names_in(path) == ["cells", "nuclei"]
    del other


def test_they_come_back_under_another_name_where_theirs_is_taken(window, folder):
    viewer = opened(folder)
    pixels = np.asarray(viewer.layers["nuclei"].data[0])
    home = folder / "labels"
    shutil.copytree(home / "nuclei", folder.parent / "nuclei")
    listed = (home / "zarr.json").read_bytes()
    delete_selected(viewer)
    # Another program writes labels of the same name.
    shutil.copytree(folder.parent / "nuclei", home / "nuclei")
    (home / "zarr.json").write_bytes(listed)
    theirs = {x: x.read_bytes() for x in (home / "nuclei").rglob("*") if x.is_file()}
    ((_, undo),) = window.offers[0].actions
    undo(None)
    assert names_in(folder) == ["cells", "nuclei", "nuclei 2"]
    assert window.told[-1].startswith("Put back as nuclei 2: nuclei of cells.ome.zarr.")
    assert "labels of this name again" in window.told[-1]
    assert {x: x.read_bytes() for x in theirs} == theirs
    del viewer
    gc.collect()
    found = opened(folder, "nuclei 2").layers["nuclei 2"]
    assert np.array_equal(np.asarray(found.data[0]), pixels)
    assert not list(home.glob(".*"))
