"""Labels are deleted and renamed in their file by the menu, and that is undone."""

from __future__ import annotations

import gc
import shutil
import weakref

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff.errors import UnsupportedError
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.annotations.object_class_annotation import (
    begin_classes,
    find_classes,
)
from napari_ngff.viewer.annotations.object_class_table import read_class_table
from napari_ngff.viewer.composing.chosen_layers import choose_layers
from napari_ngff.viewer.labels_in_file import delete_selected, rename_selected
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

    name = "kerne"

    def ask_name(self, viewer, text, name, check):
        self.texts.append(text)
        self.told += [problem] if (problem := check(self.name)) else []
        return "" if problem else self.name

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
    assert choose_layers(viewer.layers).lacking == ()
    ((text, undo),) = window.offers[0].actions
    assert text == "Undo"
    undo(None)
    assert names_in(folder) == ["cells", "nuclei"]
    assert layer in viewer.layers
    assert np.array_equal(np.asarray(layer.data[0]), pixels)
    viewer.layers.selection.active = layer
    rename_selected(viewer)
    assert choose_layers(viewer.layers).lacking == ()
    window.offers[-1].actions[0][1](None)
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
        "image": "select labels that are in a file",
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


def undo_last(window):
    offers = [x for x in window.offers if str(x.message).startswith("Renamed")]
    ((text, undo),) = offers[-1].actions
    assert text == "Undo"
    undo(None)


def test_a_layer_goes_on_under_the_new_name_and_back(window, folder):
    viewer = opened(folder)
    layer = viewer.layers["nuclei"]
    session = session_of(viewer)
    begin_classes(session.annotations, layer).classify(3, "round")
    layer.opacity, layer.locked = 0.3, True
    rename_selected(viewer)
    assert "not saved" in window.told.pop()
    for each in session.annotations.list_unsaved():
        each.save()
    rename_selected(viewer)
    assert "nuclei of cells.ome.zarr" in window.texts[-1]
    assert names_in(folder) == ["cells", "kerne"]
    assert (layer.name, layer.opacity) == ("kerne", 0.3)
    assert layer.locked
    layer.locked = False
    layer.paint((5, 5), 77)
    undo_last(window)
    assert "Save or undo them first" in window.told.pop()
    assert layer.saver.save_now()
    assert (zarr.open_array(folder / "labels/kerne/0", mode="r")[...] == 77).any()
    classes = find_classes(session.annotations, layer)
    classes.classify(4, "round")
    classes.save()
    table = read_class_table(open_node(str(folder)), "nuclei_classes")
    assert (table.labels, table.classes.class_of) == ("kerne", {3: "round", 4: "round"})
    undo_last(window)
    assert (names_in(folder), layer.name) == (["cells", "nuclei"], "nuclei")
    assert (np.asarray(layer.data[0]) == 77).any()
    layer.undo()  # none of its strokes is known any more
    assert not layer.unsaved
    assert find_classes(session.annotations, layer) is classes
    assert open_node(str(folder)).problems == ()


def test_labels_of_one_field_are_renamed_with_their_state(window, tmp_path):
    plate = write_plate(
        tmp_path / "p.ome.zarr", grid=(1, 2), fields=1, labelled=lambda _: ("nuclei",)
    )
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(str(plate)))
    browser.show_field("A/1", "0")
    browser.states.show_labels("nuclei")
    browser.states.set_state("A/1/0", "done")
    layer = viewer.layers["nuclei"]
    viewer.layers.selection.active = layer
    rename_selected(viewer)
    assert names_in(plate / "A/1/0") == ["kerne"]
    states = browser.states.read_states()
    assert states.state_of("A/1/0", "kerne") == "done"
    assert states.state_of("A/1/0", "nuclei") == "to do"
    for well, names in (("A/2", ["nuclei"]), ("A/1", ["kerne"])):
        browser.show_field(well, "0")
        shown = [x.name for x in viewer.layers if hasattr(x, "saver")]
        assert shown == names
    layer = viewer.layers["kerne"]
    layer.paint((5, 5), 77)
    assert layer.saver.save_now()
    saved = zarr.open_array(plate / "A/1/0/labels/kerne/0", mode="r")
    assert (saved[...] == 77).any()
    browser.show_field("A/2", "0")
    undo_last(window)
    assert "Show and select labels" in window.told.pop()
    browser.show_field("A/1", "0")
    undo_last(window)
    assert names_in(plate / "A/1/0") == ["nuclei"]
    assert names_in(plate / "A/2/0") == ["nuclei"]
    assert states.state_of("A/1/0", "nuclei") == "done"


@pytest.mark.parametrize(
    "kind", ["image", "unsaved", "twice", "archive", "taken", "alone", "kept"]
)
def test_what_cannot_be_renamed_stays_and_the_reason_is_told(
    window, folder, tmp_path, kind
):
    path = folder
    if kind == "archive":
        path = tmp_path / "cells.ozx"
        pack_hierarchy(str(folder), str(path))
    elif kind == "kept":
        gone = opened(path)
        gone.layers["nuclei"].paint((5, 5), 77)
        gone.layers["nuclei"].saver.keep_journal()
        gone.layers.clear()
    viewer = opened(path / "labels/nuclei" if kind == "alone" else path)
    if kind == "image":
        viewer.layers.selection.active = viewer.layers[0]
    elif kind == "unsaved":
        viewer.layers["nuclei"].paint((5, 5), 77)
    elif kind == "taken":
        window.name = "CELLS"
    other = opened(path) if kind == "twice" else None
    before = [(layer, layer.name) for layer in viewer.layers]
    rename_selected(viewer)
    reasons = {
        "image": "Show and select labels",
        "unsaved": "Save or undo them first",
        "twice": "Another layer shows the same labels",
        "archive": "is not in a folder",
        "taken": "already exists",
        "alone": "image of the labels is not on screen",
        "kept": "Restore or discard it first",
    }
    assert reasons[kind] in window.told[-1]
    assert [(layer, layer.name) for layer in viewer.layers] == before
    assert names_in(path) == ["cells", "nuclei"]
    layer = viewer.layers.selection.active
    if hasattr(layer, "saver"):
        layer.paint((9, 9), 78)  # as before
        assert layer.unsaved
    del other
