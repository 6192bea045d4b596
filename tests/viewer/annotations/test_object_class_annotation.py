"""Classes of objects: saved in their image, restored, and gone with their field."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from napari_ngff.labels.object_classes import ObjectClass, ObjectClasses
from napari_ngff.labels.places.listed_labels import delete_labels
from napari_ngff.labels.saving.journal_records import EDITS, read_journal
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.annotations.object_class_annotation import (
    ObjectClassAnnotation,
    begin_aside,
    begin_classes,
    find_classes,
    known_classes,
)
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.object_edits import find_new_id
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.reader import read_paths
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.services.window import RESTORE
from napari_ngff.viewer.session import session_of
from object_tables import read_classes, stored
from recovering import User, be_asked, idle, opened


@pytest.fixture
def path(tmp_path):
    where = tmp_path / "in" / "cells.ome.zarr"
    write_image(where, shape=(32, 32))
    return where


def labels_in(viewer):
    return next(x for x in viewer.layers if isinstance(x, OMEZarrLabels))


def owner_of(viewer):
    return session_of(viewer).annotations


def classify(viewer, label, name, *, layer=None):
    made = begin_classes(owner_of(viewer), layer or labels_in(viewer))
    if name not in made.classes.names:
        made.add_class(name)
    made.classify(label, name)
    return made


def files_below(path):
    return {p: p.read_bytes() for p in Path(path).rglob("*") if p.is_file()}


def test_a_class_alone_is_not_worth_a_question(path, monkeypatch, user):
    viewer = opened(path, monkeypatch)
    begin_classes(owner_of(viewer), labels_in(viewer)).add_class("round")
    assert owner_of(viewer).list_savable() == []


def test_who_is_told_of_the_first_object_finds_it_unsaved(path, monkeypatch, user):
    viewer, told = opened(path, monkeypatch), []
    owner = owner_of(viewer)
    begin_classes(owner, labels_in(viewer)).add_class("round")
    owner.changed.connect(lambda: told.append(len(owner.list_savable())))
    classify(viewer, 3, "round")
    assert told[-1] == 1


def test_classes_are_saved_in_the_image_and_shown_when_it_is_opened(
    path, monkeypatch, user
):
    viewer, before = opened(path, monkeypatch), files_below(path)
    layer = labels_in(viewer)
    name = layer.name
    made = classify(viewer, 3, "round")
    classify(viewer, 5, "long")
    assert owner_of(viewer).list_savable() == [made]
    assert not layer.unsaved
    made.save()
    assert owner_of(viewer).list_savable() == []
    assert stored(path) == {name: {3: "round", 5: "long"}}
    after = files_below(path)
    assert {p: after[p] for p in before} == before
    viewer = opened(path, monkeypatch)
    found = find_classes(owner_of(viewer), labels_in(viewer))
    assert found is not None
    assert found.classes.names == ["round", "long"]
    assert dict(found.classes.class_of) == {3: "round", 5: "long"}
    found.classify(3, "")
    found.save()
    assert stored(path) == {name: {5: "long"}}


@pytest.mark.default_cases("given0-overwrite", "given1-delete", "given2-other name")
@pytest.mark.parametrize("way", ["overwrite", "delete", "other name"])
@pytest.mark.parametrize("given", [{}, {1: "flat"}, {2: "round", 7: "flat"}])
def test_new_labels_have_no_classes_of_older_ones_of_their_name(
    path, monkeypatch, user, way, given
):
    viewer = opened(path, monkeypatch)
    layer = labels_in(viewer)
    name, rows = layer.name, {1: "round", 2: "long", 5: "long"}
    for label, text in rows.items():
        made = classify(viewer, label, text)
    made.save()
    viewer.layers.remove(layer)
    if way == "delete":
        _, finish = delete_labels(layer.metadata[KEY].node)
        finish()
    replaces = way == "overwrite"
    new = new_labels(viewer.layers[0], None, overwrite=replaces)
    if way != "other name":
        new = new_labels(viewer.layers[0], name, overwrite=replaces)
    viewer.add_layer(new)
    owner = owner_of(viewer)
    assert not known_classes(owner, new).class_of
    for label, text in given.items():
        classify(viewer, label, text, layer=new)
        new.paint((label, label), label)
    new.paint((30, 30), 1)
    assert dict(known_classes(owner, new).class_of) == given
    assert stored(path) == {name: rows}
    for annotation in owner.list_savable():
        if isinstance(annotation, ObjectClassAnnotation):
            annotation.save()
    assert dict(known_classes(owner, new).class_of) == given
    assert new.saver.save_now()
    assert dict(known_classes(owner, new).class_of) == given
    new.paint((31, 31), 1)
    assert new.saver.save_now()
    assert owner.list_savable() == []
    saved = stored(path)
    if way == "other name":
        assert saved.pop(name) == rows
    assert saved.get(new.name, {}) == given
    shown = opened(path, monkeypatch)
    again = known_classes(owner_of(shown), shown.layers[new.name]).class_of
    assert dict(again) == given


def test_new_labels_that_are_not_saved_leave_the_classes_of_older_ones(
    path, monkeypatch, user
):
    viewer = opened(path, monkeypatch)
    layer = labels_in(viewer)
    name = layer.name
    classify(viewer, 3, "round").save()
    viewer.layers.remove(layer)
    new = new_labels(viewer.layers[0], name, overwrite=True)
    viewer.add_layer(new)
    assert not known_classes(owner_of(viewer), new).class_of
    viewer.layers.remove(new)
    viewer.layers.append(layer)
    assert dict(known_classes(owner_of(viewer), layer).class_of) == {3: "round"}
    assert stored(path) == {name: {3: "round"}}


def test_no_new_object_gets_the_class_of_one_that_was_deleted(path, monkeypatch, user):
    viewer = opened(path, monkeypatch)
    layer = labels_in(viewer)
    last = int(np.asarray(layer.data[0]).max())
    classify(viewer, last, "round").save()
    layer.replace_label(last, 0)
    assert layer.saver.save_now()
    layer = labels_in(opened(path, monkeypatch))
    assert np.asarray(layer.data[0]).max() < last
    assert layer.next_label() > last
    assert find_new_id(layer, layer.canvas) > last


def test_each_class_of_an_object_can_be_undone(path, monkeypatch, user):
    viewer = opened(path, monkeypatch)
    made = classify(viewer, 3, "round")
    classify(viewer, 3, "long")
    assert made.undo() == "Object 3 is round."
    assert dict(made.classes.class_of) == {3: "round"}
    assert made.undo() == "Object 3 is without a class."
    assert dict(made.classes.class_of) == {}
    assert not made.can_undo


def test_classes_of_a_process_that_was_killed_are_restored(path, monkeypatch, user):
    viewer = opened(path, monkeypatch)
    made = classify(viewer, 3, "round")
    made.save()
    classify(viewer, 5, "long")
    assert made.may_keep()
    made._journal.close()
    user.answer = RESTORE
    viewer = opened(path, monkeypatch)
    assert f"classes of 1 object of '{made.labels}'" in user.take_asked()[0][0]
    (restored,) = owner_of(viewer).list_savable()
    assert dict(restored.classes.class_of) == {3: "round", 5: "long"}
    restored.save()
    assert stored(path) == {made.labels: {3: "round", 5: "long"}}


def test_a_renamed_class_is_saved_restored_and_undone_by_its_new_name(
    path, monkeypatch, user
):
    viewer = opened(path, monkeypatch)
    made = classify(viewer, 3, "round")
    classify(viewer, 5, "long")
    made.save()
    made.change_class("round", name="ball", color=(1, 2, 3, 255), hidden=True)
    made.classify(3, "long")
    assert made.undo() == "Object 3 is ball."
    assert made.may_keep()
    made._journal.close()
    user.answer = RESTORE
    viewer = opened(path, monkeypatch)
    (restored,) = owner_of(viewer).list_savable()
    assert restored.classes.names == ["ball", "long"]
    restored.save()
    assert stored(path) == {made.labels: {3: "ball", 5: "long"}}
    again = opened(path, monkeypatch)
    found = find_classes(owner_of(again), labels_in(again))
    ball, long = found.classes.classes
    assert ball == ObjectClass("ball", (1, 2, 3, 255), hidden=True)
    assert long.name == "long"


def test_windows_that_classify_the_same_labels_keep_the_work_of_both(
    path, monkeypatch, user
):
    first, second = opened(path, monkeypatch), opened(path, monkeypatch)
    begun, other = classify(first, 3, "round"), classify(second, 9, "flat")
    begun.save()
    other.save()
    classify(first, 5, "long").save()
    name = begun.labels
    assert stored(path) == {name: {3: "round", 5: "long", 9: "flat"}}
    begun.undo()
    begun.save()
    assert stored(path) == {name: {3: "round", 9: "flat"}}
    assert dict(begun.classes.class_of) == {3: "round", 9: "flat"}
    begun.undo()
    begun.save()
    assert stored(path) == {name: {9: "flat"}}


def test_a_class_that_another_window_has_changed_keeps_its_look(
    path, monkeypatch, user
):
    viewer = opened(path, monkeypatch)
    classify(viewer, 3, "round")
    classify(viewer, 5, "long").save()
    first, second = opened(path, monkeypatch), opened(path, monkeypatch)
    here = begin_classes(owner_of(first), labels_in(first))
    here.change_class("round", color=(1, 2, 3, 255), locked=True)
    here.save()
    there = begin_classes(owner_of(second), labels_in(second))
    there.remove_class("long")
    there.classify(9, "round")
    there.save()
    assert stored(path) == {here.labels: {3: "round", 9: "round"}}
    (table,) = read_classes(path)
    assert table.classes.classes == (ObjectClass("round", (1, 2, 3, 255), locked=True),)
    assert there.classes.classes == table.classes.classes
    with pytest.raises(
        ValueError, match=r"Object 9 is 'round', a class that is locked"
    ):
        there.undo()


def test_a_locked_class_stays_locked_whatever_it_was_in_the_field_before(
    tmp_path, monkeypatch, user
):
    path = write_plate(tmp_path / "a.ome.zarr", grid=(1, 2), fields=1)
    viewer = opened(path, monkeypatch)
    browser = session_of(viewer).browser
    for well in ("A/1", "A/2"):
        browser.show_field(well, "0")
        made = classify(viewer, 3, "round")
        made.change_class("round", locked=well == "A/1", hidden=well == "A/2")
    browser.show_field("A/1", "0")
    (item,) = find_classes(owner_of(viewer), labels_in(viewer)).classes.classes
    assert (item.locked, item.hidden) == (True, True), "hidden as it is worked with"


def test_strokes_beside_a_million_locked_objects_are_kept(path, monkeypatch, user):
    viewer = opened(path, monkeypatch)
    layer = labels_in(viewer)
    made = classify(viewer, 3, "round")
    labels = np.random.default_rng(1).choice(2_000_000, 1_000_000, replace=False)
    made.classes = made.classes.with_objects(dict.fromkeys(labels.tolist(), "round"))
    made.change_class("round", locked=True)
    layer.paint((5, 5), int(labels[0]))
    before, spared = np.array(layer.data[0]), np.isin(layer.data[0], labels)
    layer.brush_size = 9
    for row in range(40):
        with layer.block_history():
            layer.paint((row % 32, row // 10), 0)
            layer.paint((row % 32, row // 10 + 1), 0)
        if row % 19 == 9:
            layer.undo()
            assert layer.saver.journal.sync_if_changed()
            layer.redo()
    np.testing.assert_array_equal(layer.data[0], np.where(spared, before, 0))
    journal = layer.saver.journal
    assert journal.sync_if_changed()
    assert (journal.folder / EDITS).stat().st_size < 5_000_000
    kept = read_journal(journal.folder).edits
    assert kept == layer.canvas.edits
    made.change_class("round", locked=False)
    layer.brush_size = 99
    layer.paint((9, 9), 0)
    assert not np.array(layer.data[0]).any()


@pytest.mark.parametrize("seed", range(3))
def test_two_windows_have_what_plain_dicts_would_have(path, monkeypatch, user, seed):
    """Whatever is classified, undone, renamed and saved in them in turn."""
    chance = random.Random(seed)
    viewers = [opened(path, monkeypatch) for _ in range(2)]
    windows = [classify(viewer, 1, "a") for viewer in viewers]
    file, seen, changed = {}, [{1: "a"}, {1: "a"}], [{1: "a"}, {1: "a"}]
    undo = [[(1, "")], [(1, "")]]
    for _ in range(40):
        number = chance.randrange(2)
        window, now = windows[number], seen[number]
        step = chance.choice(["classify"] * 4 + ["undo", "undo", "rename", "save"])
        rows = {}
        if step == "classify":
            label, name = chance.randrange(1, 6), chance.choice(["", "a", "b", "c"])
            undo[number].append((label, now.get(label, "")))
            window.classify(label, name)
            rows = {label: name}
        elif step == "undo" and undo[number]:
            window.undo()
            rows = dict([undo[number].pop()])
        elif step == "rename" and "a" in window.classes.names:
            new = f"new {chance.random()}"
            window.change_class("a", name=new)
            rows = {label: new for label, x in now.items() if x == "a"}
            undo[number] = [(n, new if x == "a" else x) for n, x in undo[number]]
        now |= rows
        changed[number] |= rows
        if step == "save" and changed[number]:
            window.save()
            file = {n: x for n, x in (file | changed[number]).items() if x}
            seen[number], changed[number] = dict(file), {}
            assert stored(path) == {window.labels: file}
        expected = {label: x for label, x in seen[number].items() if x}
        assert window.classes.class_of == expected
        found = [window.classes.class_of.get(label, "") for label in range(6)]
        assert found == [expected.get(label, "") for label in range(6)]
        counts = window.classes.class_of.count_names()
        assert counts == Counter(expected.values())
        assert window.count() == len(changed[number])


def test_no_change_of_very_many_classes_holds_up_the_window(
    path, monkeypatch, tmp_path
):
    """Whatever of it is not done in a worker; the time of the processor counts."""
    be_asked(tmp_path / "data", monkeypatch)
    made = classify(opened(path, monkeypatch), 1, "a")
    made.save()
    idle()
    made.classes = made.classes.with_objects(dict.fromkeys(range(1, 300_001), "a"))
    steps = {
        "one classified": lambda: made.classify(3, ""),
        "undone": made.undo,
        "renamed": lambda: made.change_class("a", name="b"),
        "removed": lambda: made.remove_class("b"),
        "that undone": made.undo,
        "saved": made.save,
    }
    seconds = {}
    for step, do in steps.items():
        start = time.thread_time()
        do()
        seconds[step] = time.thread_time() - start
    assert max(seconds.values()) < 0.06, seconds
    assert made.classes.class_of[300_000] == "b"


def test_number_keys_mean_the_same_in_the_next_field(tmp_path, monkeypatch, user):
    path = write_plate(tmp_path / "a.ome.zarr", grid=(1, 2), fields=1)
    viewer = opened(path, monkeypatch)
    browser = session_of(viewer).browser
    browser.show_field("A/1", "0")
    classify(viewer, 3, "round")
    classify(viewer, 4, "long")
    browser.show_field("A/2", "0")
    assert [x for x in owner_of(viewer) if isinstance(x, ObjectClassAnnotation)] == []
    known = known_classes(owner_of(viewer), labels_in(viewer))
    assert (known.names, dict(known.class_of)) == (["round", "long"], {})
    assert classify(viewer, 9, "long").classes.names == ["round", "long"]
    browser.show_field("A/1", "0")
    found = find_classes(owner_of(viewer), labels_in(viewer))
    assert dict(found.classes.class_of) == {3: "round", 4: "long"}
    name = found.labels
    assert stored(path / "A/1/0") == {name: {3: "round", 4: "long"}}
    assert stored(path / "A/2/0") == {name: {9: "long"}}


def test_number_keys_mean_nothing_in_another_file(path, tmp_path, monkeypatch, user):
    plate = write_plate(tmp_path / "a.ome.zarr", grid=(1, 2), fields=1)
    viewer = opened(plate, monkeypatch)
    session_of(viewer).browser.show_field("A/1", "0")
    classify(viewer, 3, "round").save()
    viewer.layers.clear()
    for place in (path, write_image(tmp_path / "other.ome.zarr", shape=(32, 32))):
        session_of(viewer).add(read_paths(str(place)), str(place))
        layer = labels_in(viewer)
        assert known_classes(owner_of(viewer), layer).names == []
        assert classify(viewer, 3, "flat").classes.names == ["flat"]
        viewer.layers.clear()


def test_an_image_that_cannot_be_written_has_them_beside_it(
    path, monkeypatch, user, tmp_path
):
    # The table that the image has already is no place for the file.
    classify(opened(path, monkeypatch), 7, "flat").save()
    before = files_below(path)
    monkeypatch.setattr(FolderStore, "why_not_written", lambda *_: "read-only")
    viewer = opened(path, monkeypatch)
    made, layer = classify(viewer, 3, "round"), labels_in(viewer)
    # Labels without a stroke are not said to be read-only when their classes are saved.
    layer.saver, layer.read_only = None, "the folder is read-only"
    assert owner_of(viewer).choose_to_save(layer) == [made]
    made.save()
    assert owner_of(viewer).choose_to_save(layer) == [owner_of(viewer).of_layer(layer)]
    assert files_below(path) == before
    assert os.listdir(path.parent / "cells.classes") == [f"{made.labels}.json"]
    viewer = opened(path, monkeypatch)
    found = find_classes(owner_of(viewer), labels_in(viewer))
    assert found.classes.class_of[3] == "round"


def test_a_damaged_table_is_named_and_leaves_the_others(path, monkeypatch, user):
    viewer = opened(path, monkeypatch)
    first, second = (x for x in viewer.layers if isinstance(x, OMEZarrLabels))
    classify(viewer, 3, "round", layer=first).save()
    classify(viewer, 5, "long", layer=second).save()
    file = path / f"tables/{first.name}_classes/table.csv"
    file.write_text("a,b\n1,2\n")
    messages = []
    monkeypatch.setattr(User, "show_messages", lambda _, x, short: messages.append(x))
    viewer = opened(path, monkeypatch)
    owner = owner_of(viewer)
    layers = {x.name: x for x in viewer.layers}
    assert find_classes(owner, layers[first.name]) is None
    found = find_classes(owner, layers[second.name])
    assert dict(found.classes.class_of) == {5: "long"}
    (text,) = (text for texts in messages for text in texts)
    assert f"{first.name}_classes has no columns" in text
    late = classify(viewer, 7, "round", layer=layers[first.name])
    late.save()
    assert late.unsaved
    assert file.read_text() == "a,b\n1,2\n"


def test_an_object_that_gets_a_class_before_the_file_is_read_keeps_it(
    path, monkeypatch, tmp_path
):
    user = be_asked(tmp_path / "data", monkeypatch)
    viewer = opened(path, monkeypatch)
    idle()
    made = classify(viewer, 3, "round")
    made.classify(5, "round")
    made.save()
    idle()
    assert user.take_asked() == []
    viewer = opened(path, monkeypatch)
    late = classify(viewer, 5, "long")
    idle()
    assert find_classes(owner_of(viewer), labels_in(viewer)) is late
    assert dict(late.classes.class_of) == {3: "round", 5: "long"}
    late.save()
    idle()
    assert stored(path) == {late.labels: {3: "round", 5: "long"}}


def test_classes_of_all_fields_are_restored_at_once(path, monkeypatch, user):
    """Those of fields that are not on screen too: a newer class is not undone later."""
    plate = write_plate(path.parent / "p.zarr", grid=(1, 3), fields=1, shape=(48, 48))
    fields = [f"A/{column}/0" for column in (1, 2, 3)]
    viewer = opened(plate, monkeypatch)
    top, owner = session_of(viewer).browser.node, owner_of(viewer)
    known = ObjectClasses().with_class("mitotic").with_class("dead")

    def give(owner, field, label, name):
        made = begin_aside(owner, top.child(field), "nuclei", known)
        made.classify(label, name)
        return made

    give(owner, fields[2], 2, "dead").save()
    idle()
    for field in fields:
        made = give(owner, field, 1, "mitotic")
        idle()
        made._journal.close()  # as when the process is killed
        owner.remove(made)
    user.answer = RESTORE
    viewer = opened(plate, monkeypatch)
    owner = owner_of(viewer)
    found = {
        str(each.node).removeprefix(f"{top}/"): dict(each.classes.class_of)
        for each in owner.list_savable()
    }
    assert found == {
        fields[0]: {1: "mitotic"},
        fields[1]: {1: "mitotic"},
        fields[2]: {1: "mitotic", 2: "dead"},
    }
    give(owner, fields[2], 1, "dead")
    for each in owner.list_savable():
        each.save()
        idle()
    session_of(viewer).browser.show_field("A/3", "0")
    idle()
    classes = find_classes(owner_of(viewer), labels_in(viewer)).classes
    assert dict(classes.class_of) == {1: "dead", 2: "dead"}
    assert owner.list_savable() == []
    assert stored(plate / fields[2]) == {"nuclei": {1: "dead", 2: "dead"}}
