"""What was painted and not saved is offered wherever its image is opened again."""

from __future__ import annotations

import gc
import json

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from journals import discard_edits
from napari_ngff.labels.journal import find_journals, journal_home, read_journal
from napari_ngff.metadata.model import LabelKind
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.annotations import restored_layers
from napari_ngff.viewer.browsing import recovery
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image, write_stack
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.services.window import DISCARD, LATER, RESTORE, Window
from napari_ngff.viewer.session import session_of
from plates import write_plate
from recovering import be_asked, idle, image_of, opened


@pytest.fixture
def user(tmp_path, monkeypatch):
    return be_asked(tmp_path / "data", monkeypatch)


@pytest.fixture
def left():
    """What is shown after *Later*."""
    return []


@pytest.fixture
def reported(monkeypatch, left):
    messages = []

    def show_passing(text):
        (left if "Restore edits…" in text else messages).append(text)

    monkeypatch.setattr(recovery, "show_warning", messages.append)
    monkeypatch.setattr(Window, "show_passing", staticmethod(show_passing))
    return messages


@pytest.fixture
def cells(tmp_path):
    write_image(tmp_path / "cells.ome.zarr", shape=(64, 80))
    return tmp_path / "cells.ome.zarr"


@pytest.fixture
def plate(tmp_path):
    return write_plate(tmp_path / "plate.ome.zarr", grid=(1, 3), fields=2)


def paint(layer, label=7):
    layer.brush_size = 5
    layer.paint((0,) * (layer.ndim - 2) + (8, 9), label)
    layer.paint((0,) * (layer.ndim - 2) + (5, 9), label + 1)
    return np.asarray(layer.data[0])


def leave(viewer):
    """Leave the edits as a process that dies does."""
    idle()
    for layer in list(viewer.layers):
        if getattr(layer, "saver", None) is not None and layer.unsaved:
            layer.saver.keep_journal()
        viewer.layers.remove(layer)


def painted_new(viewer, name="mitosis", **options):
    layer = viewer.add_layer(new_labels(image_of(viewer), name, **options))
    pixels = paint(layer)
    leave(viewer)
    return pixels


@pytest.mark.parametrize("options", [{}, {"level": 1}, {"dtype": "uint8"}])
def test_labels_that_were_never_saved(
    cells, user, reported, left, monkeypatch, options
):
    pixels = painted_new(opened(cells, monkeypatch), **options)
    opened(cells, monkeypatch)
    ((text,),) = user.take_asked()
    assert text.startswith("2 edits of 'mitosis' (cells.ome.zarr, today ")
    assert left[0].startswith("Kept: mitosis.\n2 edits of 'mitosis'. ")
    # Later is later.
    user.answer = RESTORE
    viewer = opened(cells, monkeypatch)
    assert len(user.take_asked()) == 1
    layer = viewer.layers["mitosis"]
    assert viewer.layers.selection.active is layer
    assert layer.visible
    assert layer.unsaved
    assert (np.asarray(layer.data[0]) == pixels).all()
    assert layer.data[0].dtype == pixels.dtype
    assert reported == [
        "Restored: mitosis.\n2 edits of 'mitosis'. Press Ctrl+S to save."
    ]
    assert layer.saver.save_now()
    stored = zarr.open_array(cells / "labels" / "mitosis" / "0", mode="r")[:]
    assert (stored == pixels).all()
    leave(viewer)
    opened(cells, monkeypatch)
    assert user.asked == []


def test_classes_come_back_with_the_edits(cells, user, monkeypatch):
    viewer = opened(cells, monkeypatch)
    layer = viewer.add_layer(new_labels(image_of(viewer), "mitosis"))
    classes = classes_of_layer(layer)
    classes.add_class("dividing", 7)
    paint(layer)
    layer.saver.journal.sync()
    classes.add_class("dead", 8)  # after the last stroke
    before = classes.items
    leave(viewer)
    user.answer = RESTORE
    again = opened(cells, monkeypatch).layers["mitosis"]
    assert classes_of_layer(again).items == before
    assert again.saver.save_now()
    info = open_node(str(cells)).child("labels/mitosis").metadata.image.label
    names = {info.properties[v]["napari-ngff:class-name"] for v in (7, 8)}
    assert names == {"dividing", "dead"}


@pytest.mark.default_cases("objects-objects", "classes-classes")
@pytest.mark.parametrize("made", LabelKind)
@pytest.mark.parametrize("kept", LabelKind)
def test_the_kind_comes_back_with_the_edits(cells, user, monkeypatch, made, kept):
    viewer = opened(cells, monkeypatch)
    layer = viewer.add_layer(new_labels(image_of(viewer), "mitosis", kind=made))
    paint(layer)
    if made is not kept:
        classes_of_layer(layer).change_kind(kept)
    leave(viewer)
    user.answer = RESTORE
    again = opened(cells, monkeypatch).layers["mitosis"]
    assert classes_of_layer(again).kind is kept
    assert again.saver.save_now()
    info = open_node(str(cells)).child("labels/mitosis").metadata.image.label
    assert info.kind is kept


def test_classes_of_new_labels_without_a_stroke_come_back(
    cells, user, reported, monkeypatch
):
    viewer = opened(cells, monkeypatch)
    layer = viewer.add_layer(new_labels(image_of(viewer), "mitosis"))
    assert not layer.unsaved
    dirty = []
    layer.saver.dirty_changed.connect(dirty.append)
    classes = classes_of_layer(layer)
    classes.add_class("dividing", 7)
    before = classes.items
    assert layer.unsaved
    assert dirty == [True], "the dock and the button hear of it"
    leave(viewer)
    user.answer = RESTORE
    layer = opened(cells, monkeypatch).layers["mitosis"]
    assert classes_of_layer(layer).items == before
    ((text,),) = user.take_asked()
    assert text.startswith("Changed classes of 'mitosis' (cells.ome.zarr, today ")
    assert layer.unsaved
    assert layer.saver.save_now()
    info = open_node(str(cells)).child("labels/mitosis").metadata.image.label
    assert info.properties[7]["napari-ngff:class-name"] == "dividing"
    assert not layer.unsaved
    leave(viewer)
    opened(cells, monkeypatch)
    assert user.take_asked() == []


def test_a_change_of_classes_alone_is_offered_and_comes_back(
    cells, user, reported, monkeypatch
):
    viewer = opened(cells, monkeypatch)
    layer = viewer.add_layer(new_labels(image_of(viewer), "mitosis"))
    classes = classes_of_layer(layer)
    classes.add_class("dividing", 7)
    classes.add_class("gone", 9)
    paint(layer)
    assert layer.saver.save_now()
    layer.saver.keep_journal()
    assert not list(journal_home().rglob("edits.jsonl")), "all is saved"

    layer = opened(cells, monkeypatch).layers["mitosis"]
    assert user.take_asked() == []
    classes = classes_of_layer(layer)
    classes.add_class("odd", 11)
    classes.change_class(7, locked=True)
    classes.remove_class(9)
    before = classes.items
    # What a kill leaves: the thread of the journals has written it, nobody closed it.
    layer.saver.journal.sync_if_changed()
    (found,) = journal_home().rglob("edits.jsonl")
    assert '"classes"' in found.read_text()
    layer.saver.keep_journal()

    opened(cells, monkeypatch)
    ((text,),) = user.take_asked()
    assert text.startswith("Changed classes of 'mitosis' (cells.ome.zarr, today ")
    user.answer = RESTORE
    layer = opened(cells, monkeypatch).layers["mitosis"]
    assert reported == [
        "Restored: mitosis.\nChanged classes of 'mitosis'. Press Ctrl+S to save."
    ]
    assert classes_of_layer(layer).items == before
    assert layer.unsaved
    paint(layer)
    layer.saver.keep_journal()
    user.take_asked()
    user.answer = LATER
    opened(cells, monkeypatch)
    assert user.take_asked()[0][0].startswith(
        "2 edits and changed classes of 'mitosis'"
    )


def test_saved_classes_are_not_offered(cells, user, monkeypatch):
    painted = opened(cells, monkeypatch)
    layer = painted.add_layer(new_labels(image_of(painted), "mitosis"))
    paint(layer)
    assert layer.saver.save_now()
    layer.saver.keep_journal()
    layer = opened(cells, monkeypatch).layers["mitosis"]
    classes_of_layer(layer).add_class("odd", 11)
    journal = layer.saver.journal
    journal.sync()
    assert read_journal(journal.folder).is_unsaved
    assert layer.saver.save_now()
    # Noted at once, for a process that is killed from here on.
    journal.sync()
    assert not read_journal(journal.folder).is_unsaved
    layer.saver.keep_journal()
    assert not journal.folder.exists()
    opened(cells, monkeypatch)
    assert user.take_asked() == []


def test_the_section_of_the_last_edit_is_shown(tmp_path, user, monkeypatch):
    path = tmp_path / "stack.ome.zarr"
    write_stack(path, shape=(8, 64, 64))
    viewer = opened(path, monkeypatch)
    layer = viewer.add_layer(new_labels(image_of(viewer), "mitosis"))
    step = layer.data_to_world((3, 0, 0))[0]
    layer.paint((3, 8, 9), 7)
    leave(viewer)
    user.answer = RESTORE
    viewer = opened(path, monkeypatch)
    assert viewer.layers.selection.active is viewer.layers["mitosis"]
    assert viewer.dims.point[0] == pytest.approx(step)
    leave(viewer)


def remove(layer, viewer):
    """Remove labels and keep their edits for later."""
    layer.saver.keep_journal()
    viewer.layers.remove(layer)


@pytest.mark.parametrize("place", ["image", "sidecar"])
def test_labels_that_were_removed_are_read_again(cells, user, monkeypatch, place):
    """Their edits never go into new labels, which would hold nothing but them."""
    name = "nuclei"
    viewer = opened(cells, monkeypatch)
    if place == "sidecar":
        name = "aside"
        made = viewer.add_layer(new_labels(image_of(viewer), name, sidecar=True))
        paint(made, 30)
        assert made.saver.save_now()
        viewer = opened(cells, monkeypatch)
    layer = viewer.layers[name]
    wanted = paint(layer)
    corner = layer.data_to_world((0, 0))
    remove(layer, viewer)
    del layer
    # A layer of the same name is of no use.
    viewer.add_image(np.zeros((4, 4)), name=name)
    user.answer = RESTORE
    session_of(viewer).recovery.offer_again()
    idle()
    again = viewer.layers.selection.active
    assert again.unsaved
    assert (np.asarray(again.data[0]) == wanted).all()
    assert again.data_to_world((0, 0)) == corner
    assert again.saver.save_now()
    leave(viewer)
    assert (np.asarray(opened(cells, monkeypatch).layers[name].data[0]) == wanted).all()
    in_image = [node.name for node in open_node(str(cells)).labels().nodes]
    assert sorted(in_image) == ["cells", "nuclei"]


def test_labels_that_are_read_again_lie_on_an_image_that_was_moved(
    cells, user, monkeypatch
):
    viewer = opened(cells, monkeypatch)
    image, layer = image_of(viewer), viewer.layers["nuclei"]
    shift = np.eye(3)
    shift[:2, 2] = 30, 40
    wanted = paint(layer)
    remove(layer, viewer)
    del layer
    image.affine = shift
    user.answer = RESTORE
    session_of(viewer).recovery.offer_again()
    idle()
    again = viewer.layers["nuclei"]
    assert (np.asarray(again.data[0]) == wanted).all()
    np.testing.assert_allclose(again.data_to_world((0, 0)), image.data_to_world((0, 0)))


def test_removed_labels_that_cannot_be_read_keep_their_edits(
    cells, user, reported, monkeypatch
):
    viewer = opened(cells, monkeypatch)
    paint(viewer.layers["nuclei"])
    remove(viewer.layers["nuclei"], viewer)

    def fail(node):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(restored_layers, "open_pyramid", fail)
    user.answer = RESTORE
    session_of(viewer).recovery.offer_again()
    idle()
    assert "nuclei" not in viewer.layers
    assert "Not restored: nuclei." in reported[-1]
    assert "Input/output error" in reported[-1]
    monkeypatch.undo()


def test_removed_labels_that_are_damaged_keep_their_edits(
    cells, user, reported, monkeypatch
):
    viewer = opened(cells, monkeypatch)
    paint(viewer.layers["nuclei"])
    remove(viewer.layers["nuclei"], viewer)
    document = cells / "labels" / "nuclei" / "zarr.json"
    text = document.read_text()
    document.write_text("{")
    user.answer = RESTORE
    session_of(viewer).recovery.offer_again()
    idle()
    assert not [layer for layer in viewer.layers if layer.name.startswith("nuclei")]
    assert "Not restored: nuclei." in reported[-1]
    document.write_text(text)


def test_removed_labels_of_a_field_are_read_again(plate, user, monkeypatch):
    painted_new(opened(plate / "A/1/0", monkeypatch))
    user.answer = RESTORE
    viewer = opened(plate / "A/1/0", monkeypatch)
    assert viewer.layers["mitosis"].saver.save_now()
    leave(viewer)
    viewer = opened(plate, monkeypatch)
    browser = session_of(viewer).browser
    browser.show_field("A/1", "0")
    idle()
    layer = viewer.layers["mitosis"]
    wanted = paint(layer, 5)
    remove(layer, viewer)
    del layer
    gc.collect()
    session_of(viewer).recovery.offer_again()
    idle()
    layer = viewer.layers["mitosis"]
    assert (np.asarray(layer.data[0]) == wanted).all()
    # It is the layer of the browser again: labels of the next field take its place.
    browser.show_field("A/2", "0")
    idle()
    names = [layer.name for layer in viewer.layers]
    assert "mitosis-2" not in names
    for layer in viewer.layers:
        assert "A/1/0" not in str(layer.metadata)


@pytest.mark.parametrize(("label", "mode"), [(7, "paint"), (0, "erase")])
def test_no_eraser_of_a_later_session_is_in_hand(cells, user, monkeypatch, label, mode):
    viewer = opened(cells, monkeypatch)
    viewer.layers["nuclei"].paint((20, 9), label)
    leave(viewer)
    settings.note_tool({"mode": "erase", "on_screen": False, "size": 9})
    user.answer = RESTORE
    layer = opened(cells, monkeypatch).layers["nuclei"]
    assert layer.unsaved
    assert (layer.mode, layer.brush_size) == (mode, 9)


def test_the_next_stroke_continues_the_label_of_the_last(cells, user, monkeypatch):
    viewer = opened(cells, monkeypatch)
    layer = viewer.layers["nuclei"]
    paint(layer, 70)
    leave(viewer)
    user.answer = RESTORE
    again = opened(cells, monkeypatch).layers["nuclei"]
    assert again.unsaved
    assert again.selected_label == 71


def test_undo_after_a_restore_ends_before_what_was_saved(
    cells, user, reported, monkeypatch
):
    def reopened():
        return opened(cells, monkeypatch)

    def stored():
        return zarr.open_array(cells / "labels" / "nuclei" / "0", mode="r")[:]

    first = reopened()
    layer = first.layers["nuclei"]
    for row in (4, 12, 20):
        layer.paint((row, 9), 70 + row)
    assert layer.saver.save_now()
    for row in (28, 36):
        layer.paint((row, 9), 70 + row)
    leave(first)
    # Another session, which leaves these for later, corrects what was saved.
    second = reopened()
    layer = second.layers["nuclei"]
    layer.paint((12, 9), 5)
    assert layer.saver.save_now()
    saved = stored()
    leave(second)

    user.answer = RESTORE
    third = reopened()
    layer = third.layers["nuclei"]
    assert [text.split(" of ")[0] for text in user.take_asked()[-1]] == ["2 edits"]
    assert (layer.data[0][28, 9], layer.data[0][36, 9]) == (98, 106)
    assert int(layer.data[0][12, 9]) == 5
    assert layer.saver.save_now()
    assert stored()[12, 9] == 5
    assert stored()[36, 9] == 106
    for _ in range(6):
        layer.undo()
    assert (np.asarray(layer.data[0]) == saved).all()
    layer.saver.save_now()
    assert (stored() == saved).all()
    leave(third)
    reopened()
    assert user.take_asked() == []


@pytest.mark.parametrize("is_saved", [True, False], ids=["saved", "unsaved"])
def test_what_was_left_for_later_is_restored_on_request(
    cells, user, reported, left, monkeypatch, is_saved
):
    viewer = opened(cells, monkeypatch)
    layer = viewer.layers["nuclei"]
    layer.paint((4, 9), 74)
    assert layer.saver.save_now()
    layer.paint((20, 9), 75)
    leave(viewer)
    viewer = opened(cells, monkeypatch)
    layer = viewer.layers["nuclei"]
    (text,) = left
    assert text == (
        "Kept: nuclei.\n1 edit of 'nuclei'. To restore, choose Layers ▸ Annotate ▸"
        " Restore edits…, or open the image again."
    )
    layer.paint((36, 9), 76)
    if is_saved:
        assert layer.saver.save_now()
    user.answer = RESTORE
    user.take_asked()
    recovery_of_viewer = session_of(viewer).recovery
    recovery_of_viewer.offer_again()
    idle()
    assert len(user.take_asked()) == 1
    shown = [int(layer.data[0][row, 9]) for row in (4, 20, 36)]
    assert shown == [74, 75, 76]
    assert layer.saver.save_now()
    layer.undo()
    assert [int(layer.data[0][row, 9]) for row in (4, 36)] == [74, 76]
    assert layer.saver.save_now()
    recovery_of_viewer.offer_again()
    idle()
    assert user.take_asked() == []
    assert reported[-1].startswith("No edits to restore.\n")
    leave(viewer)
    opened(cells, monkeypatch)
    assert user.take_asked() == []


def test_classes_that_were_renamed_since_keep_their_names(cells, user, monkeypatch):
    viewer = opened(cells, monkeypatch)
    layer = viewer.layers["nuclei"]
    added = classes_of_layer(layer).add_class("dividing")
    assert layer.saver.save_now()
    layer.paint((20, 9), added.value)
    leave(viewer)
    viewer = opened(cells, monkeypatch)
    layer = viewer.layers["nuclei"]
    classes = classes_of_layer(layer)
    classes.change_class(added.value, name="mitosis")
    assert layer.saver.save_now()
    leave(viewer)
    user.answer = RESTORE
    layer = opened(cells, monkeypatch).layers["nuclei"]
    assert int(layer.data[0][20, 9]) == added.value
    names = {item.value: item.name for item in classes_of_layer(layer).items}
    assert names[added.value] == "mitosis"


def test_undone_edits_of_the_file_are_restored_and_the_others_stay(
    cells, user, monkeypatch
):
    viewer = opened(cells, monkeypatch)
    layer = viewer.layers["nuclei"]
    pixels = []
    for row in (4, 20, 36):
        layer.paint((row, 9), 70 + row)
        pixels.append(np.asarray(layer.data[0]))
    assert layer.saver.save_now()
    layer.undo()
    layer.paint((52, 9), 7)
    leave(viewer)
    user.answer = RESTORE
    layer = opened(cells, monkeypatch).layers["nuclei"]
    assert int(layer.data[0][36, 9]) == int(pixels[1][36, 9])
    assert int(layer.data[0][52, 9]) == 7
    for _ in range(5):
        layer.undo()
    assert (np.asarray(layer.data[0]) == pixels[1]).all()


def test_discarded_they_are_gone(cells, user, monkeypatch):
    painted_new(opened(cells, monkeypatch))
    user.answer = DISCARD
    opened(cells, monkeypatch)
    assert len(user.take_asked()) == 1
    assert not list(journal_home().glob("*/*/edits.jsonl"))
    opened(cells, monkeypatch)
    assert user.asked == []


def test_each_of_several_labels_is_restored_until_it_is_saved(cells, user, monkeypatch):
    viewer = opened(cells, monkeypatch)
    paint(viewer.layers["nuclei"])
    paint(viewer.add_layer(new_labels(image_of(viewer), "mitosis")))
    leave(viewer)
    user.answer = RESTORE
    viewer = opened(cells, monkeypatch)
    old, new = viewer.layers["nuclei"].saver, viewer.layers["mitosis"].saver
    assert old.is_restored
    assert new.is_restored
    assert new.save_now()
    assert old.is_restored
    assert not new.is_restored
    leave(viewer)


def test_several_labels_are_one_question(cells, user, monkeypatch):
    viewer = opened(cells, monkeypatch)
    old = viewer.layers["nuclei"]
    saved = paint(old)
    new = viewer.add_layer(new_labels(image_of(viewer), "mitosis"))
    pixels = paint(new, 3)
    leave(viewer)
    user.answer = RESTORE
    viewer = opened(cells, monkeypatch)
    asked = user.take_asked()
    assert sorted(
        text.split(" (")[0] for (text, *_) in [*zip(*asked, strict=True)]
    ) == [
        "2 edits of 'mitosis'",
        "2 edits of 'nuclei'",
    ]
    assert (np.asarray(viewer.layers["nuclei"].data[0]) == saved).all()
    assert (np.asarray(viewer.layers["mitosis"].data[0]) == pixels).all()
    leave(viewer)


@pytest.mark.parametrize("where", ["labels/nuclei", "labels", ""])
def test_labels_that_are_opened_alone_or_with_their_image(
    cells, user, monkeypatch, where
):
    viewer = opened(cells, monkeypatch)
    pixels = paint(viewer.layers["nuclei"])
    leave(viewer)
    user.answer = RESTORE
    viewer = opened(cells / where, monkeypatch)
    assert len(user.take_asked()) == 1
    assert (np.asarray(viewer.layers["nuclei"].data[0]) == pixels).all()
    leave(viewer)


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_new_labels_in_a_sidecar(cells, user, monkeypatch, tmp_path, folder):
    sidecar = str(tmp_path / folder) if folder else True
    pixels = painted_new(opened(cells, monkeypatch), sidecar=sidecar)
    user.answer = RESTORE
    viewer = opened(cells, monkeypatch)
    assert len(user.take_asked()) == 1
    layer = viewer.layers["mitosis"]
    assert (np.asarray(layer.data[0]) == pixels).all()
    assert layer.saver.save_now()
    assert layer.saver.journal.place[0].startswith(str(tmp_path / folder))
    assert not (cells / "labels" / "mitosis").exists()
    # Saved once, they are found there again.
    layer.undo()
    before = np.asarray(layer.data[0])
    leave(viewer)
    viewer = opened(cells, monkeypatch)
    assert len(user.take_asked()) == 1
    assert (np.asarray(viewer.layers["mitosis"].data[0]) == before).all()
    leave(viewer)


def test_labels_in_an_archive(cells, user, monkeypatch, tmp_path):
    file = tmp_path / "cells.ozx"
    pack_hierarchy(str(cells), str(file))
    pixels = painted_new(opened(file, monkeypatch))
    user.answer = RESTORE
    viewer = opened(file, monkeypatch)
    ((text,),) = user.take_asked()
    assert text.startswith("2 edits of 'mitosis' (cells.ozx, today ")
    assert (np.asarray(viewer.layers["mitosis"].data[0]) == pixels).all()
    leave(viewer)


@pytest.mark.parametrize("where", ["", "A/1", "A/1/0"])
def test_a_field_of_a_plate(plate, user, reported, monkeypatch, where):
    pixels = painted_new(opened(plate / "A/1/0", monkeypatch))
    user.answer = RESTORE
    viewer = opened(plate / where, monkeypatch)
    ((text,),) = user.take_asked()
    assert text.startswith("2 edits of 'mitosis' (plate.ome.zarr A/1/0, today ")
    layer = viewer.layers["mitosis"]
    assert viewer.layers.selection.active is layer
    assert (np.asarray(layer.data[0]) == pixels).all()
    if where != "A/1/0":
        browser = session_of(viewer).browser
        assert (browser.position.well, browser.position.field) == ("A/1", "0")
        assert browser.layers.owns_layer(layer)
    leave(viewer)


def test_of_several_fields_one_is_restored_and_the_rest_when_one_comes_there(
    plate, user, reported, monkeypatch
):
    pixels = {
        field: painted_new(opened(plate / field, monkeypatch))
        for field in ("A/1/0", "A/3/1")
    }
    viewer = opened(plate, monkeypatch)
    ((one, other),) = user.take_asked()
    assert "A/1/0" in one
    assert "A/3/1" in other
    browser = session_of(viewer).browser
    # Later: offered again as one comes there.
    browser.show_field("A/2", "0")
    idle()
    assert user.take_asked() == []
    browser.show_field("A/1", "0")
    idle()
    ((text,),) = user.take_asked()
    assert "A/1/0" in text
    user.answer = RESTORE
    settings.note_tool({"mode": "paint", "on_screen": False, "size": 9})
    viewer = opened(plate, monkeypatch)
    assert len(user.take_asked()) == 1
    assert (np.asarray(viewer.layers["mitosis"].data[0]) == pixels["A/1/0"]).all()
    assert viewer.layers["mitosis"].mode == "paint"
    assert "A/1/0" in reported[0]
    assert "Edits of A3, field 1 are restored when you go there" in reported[0]
    assert session_of(viewer).recovery.waiting_places == ("A3, field 1",)
    browser = session_of(viewer).browser
    browser.show_field("A/3", "1")
    idle()
    assert user.take_asked() == [], "the user has decided already"
    assert session_of(viewer).recovery.waiting_places == ()
    assert (np.asarray(viewer.layers["mitosis"].data[0]) == pixels["A/3/1"]).all()
    assert viewer.layers["mitosis"].mode == "paint", "in each field"
    leave(viewer)


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("step", ["open_saved", "_try_to_open"])
def test_edits_whose_field_is_left_while_they_are_read_go_into_no_other(
    plate, user, reported, monkeypatch, step, saved
):
    pixels = painted_new(opened(plate / "A/1/0", monkeypatch))
    if saved:
        user.answer = RESTORE
        viewer = opened(plate / "A/1/0", monkeypatch)
        assert viewer.layers["mitosis"].saver.save_now()
        pixels = paint(viewer.layers["mitosis"], 5)
        leave(viewer)
        user.answer = LATER
    viewer = opened(plate, monkeypatch)
    browser = session_of(viewer).browser
    browser.show_field("A/1", "0")
    idle()
    if saved and step == "open_saved":
        viewer.layers.remove(viewer.layers["mitosis"])
    reported.clear()
    read = getattr(recovery, step)

    def read_and_leave(*asked):
        monkeypatch.setattr(recovery, step, read)
        found = read(*asked)
        browser.show_field("A/2", "0")
        idle()
        return found

    monkeypatch.setattr(recovery, step, read_and_leave)
    user.answer = RESTORE
    session_of(viewer).recovery.offer_again()
    idle()
    assert browser.position.well == "A/2"
    for layer in viewer.layers:
        assert "A/1/0" not in str(layer.metadata)
        assert not getattr(layer, "unsaved", False)
    (text,) = reported
    assert text.startswith("Not restored: mitosis.\nKept: 2 edits of 'mitosis'.")
    assert text.endswith(recovery.GONE)
    browser.show_field("A/1", "0")
    idle()
    assert (np.asarray(viewer.layers["mitosis"].data[0]) == pixels).all()
    leave(viewer)


def older(folder, shape=None):
    """Make a journal as older versions wrote them."""
    path = folder / "edits.jsonl"
    first, rest = path.read_text().split("\n", 1)
    head = json.loads(first)
    del head["subject"]
    head["shape"] = shape or head["shape"]
    path.write_text(f"{json.dumps(head)}\n{rest}")


@pytest.mark.parametrize("sidecar", [False, True])
def test_journals_of_older_versions_are_found_by_their_place(
    cells, user, monkeypatch, sidecar
):
    pixels = painted_new(opened(cells, monkeypatch), level=1, sidecar=sidecar)
    (folder,) = journal_home().glob("*/*")
    older(folder)
    user.answer = RESTORE
    viewer = opened(cells, monkeypatch)
    assert len(user.take_asked()) == 1
    assert (np.asarray(viewer.layers["mitosis"].data[0]) == pixels).all()
    leave(viewer)


def test_what_was_painted_on_an_overview_is_never_silent(
    plate, user, reported, monkeypatch
):
    painted_new(opened(plate / "A/1/0", monkeypatch), "labels")
    (folder,) = journal_home().glob("*/*")
    older(folder, [1024, 3072])
    user.answer = RESTORE
    viewer = opened(plate, monkeypatch)
    ((text,),) = user.take_asked()
    assert text.startswith("2 edits of 'labels' (plate.ome.zarr A/1/0, today ")
    (message,) = reported
    assert message.startswith("Not restored: labels.\nKept: 2 edits of 'labels'. ")
    assert "1024 x 3072 pixels" in message
    assert "to restore them" in message
    assert "labels" not in viewer.layers
    assert len(find_journals(str(plate), "A/1/0/labels/labels")) == 1
    opened(plate, monkeypatch)
    assert len(user.take_asked()) == 1


NEWER = '"kind":"stroke"', '"kind":"spiral"'
ODD = '{"edit"', '[1, 2]\n{"edit"'
HEADLESS = '{"place"', '{"plate"'


@pytest.mark.default_cases("change0", "change2")
@pytest.mark.parametrize("change", [NEWER, ODD, HEADLESS])
def test_a_journal_that_cannot_be_read_is_named_and_hides_no_other(
    cells, user, reported, monkeypatch, change
):
    pixels = painted_new(opened(cells, monkeypatch), "good")
    painted_new(opened(cells, monkeypatch), "odd")
    (path,) = [
        path
        for path in journal_home().glob("*/*/edits.jsonl")
        if '"odd"' in path.read_text()
    ]
    odd = path.read_text().replace(*change)
    path.write_text(odd)
    user.take_asked()
    reported.clear()
    user.answer = RESTORE
    viewer = opened(cells, monkeypatch)
    ((text,),) = user.take_asked()
    assert text.startswith("2 edits of 'good'")
    assert (np.asarray(viewer.layers["good"].data[0]) == pixels).all()
    named, restored = reported
    assert named.startswith("Some kept edits cannot be restored.\n")
    assert str(path) in named
    assert ".." not in named
    assert ("Edits of 'odd': " in named) == (change is not HEADLESS)
    assert restored.startswith("Restored: good.")
    # Once, unless somebody asks for them.
    session_of(viewer).recovery.find_edits([open_node(cells)])
    idle()
    assert len(reported) == 2
    session_of(viewer).recovery.offer_again()
    idle()
    assert reported[2:] == [named]
    assert path.read_text() == odd
    leave(viewer)


def test_other_images_of_a_folder_are_not_asked_about(
    cells, user, monkeypatch, tmp_path
):
    painted_new(opened(cells, monkeypatch))
    write_image(tmp_path / "cells2.ome.zarr", shape=(64, 80))
    opened(tmp_path / "cells2.ome.zarr", monkeypatch)
    assert user.asked == []


def test_a_window_that_is_open_keeps_its_edits(cells, user, monkeypatch):
    viewer = opened(cells, monkeypatch)
    layer = viewer.add_layer(new_labels(image_of(viewer), "mitosis"))
    paint(layer)
    layer.saver.journal.sync()
    opened(cells, monkeypatch)
    assert user.asked == []
    discard_edits(layer.saver)


def test_the_head_says_which_image_it_is(plate, user, monkeypatch):
    painted_new(opened(plate / "A/1/0", monkeypatch), level=0)
    (folder,) = journal_home().glob("*/*")
    head = json.loads((folder / "edits.jsonl").read_text().split("\n")[0])
    assert head["subject"] == {
        "image": str(plate / "A/1/0"),
        "name": "mitosis",
        "level": 0,
        "dtype": "uint16",
    }
    assert open_node(plate / "A/1/0").metadata.image is not None


def test_edits_of_another_acquisition_are_restored_where_it_is_asked_for(
    tmp_path, user
):
    """Not beside the field of another one: labels on screen belong to what is named."""
    root = write_plate(
        tmp_path / "p", grid=(1, 1), fields=2, acquisitions=2, shape=(1, 16, 16)
    )
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.choose_acquisitions([1])
    idle()
    browser.show_field("A/1", "3")
    idle()
    layer = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    saved = paint(layer)
    layer.saver.save_now()
    browser.show_field("A/1", "2")
    idle()
    kept = paint(next(x for x in viewer.layers if x.name == "mine"))
    leave(viewer)
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.choose_acquisitions([0, 1])
    idle()
    browser.show_field("A/1", "0")
    idle()
    idle()  # left for later
    user.answer = RESTORE
    session_of(viewer).recovery.offer_again()
    idle()
    assert (browser.position.field, browser.position.acquisition) == ("2", 1)
    np.testing.assert_array_equal(np.asarray(viewer.layers["mine"].data[0]), kept)
    browser.show_field("A/1", "1")
    idle()
    browser.show_field("A/1", "3")
    idle()
    assert viewer.layers["mine"].saver.journal.place[1] == "A/1/3/labels/mine"
    np.testing.assert_array_equal(np.asarray(viewer.layers["mine"].data[0]), saved)


def test_no_empty_labels_stand_for_those_of_a_field_seen_beside(tmp_path, user):
    root = write_plate(
        tmp_path / "p", grid=(1, 1), fields=2, acquisitions=2, shape=(1, 16, 16)
    )
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(root))
    browser.choose_acquisitions([1])
    idle()
    browser.show_field("A/1", "3")
    idle()
    paint(viewer.add_layer(new_labels(viewer.layers[0], "mine")))
    browser.show_field("A/1", "2")
    idle()
    browser.choose_acquisitions([0, 1])
    idle()
    browser.show_field("A/1", "0")
    idle()
    beside = next(x for x in viewer.layers if "round 1" in x.name)
    viewer.add_layer(new_labels(beside, "yours"))
    browser.show_field("A/1", "1")
    idle()
    places = [x.saver.journal.place[1] for x in viewer.layers if hasattr(x, "saver")]
    assert all(place.startswith("A/1/1/") for place in places)
