"""Two windows, or two layers of one, that want the same place."""

import errno

import numpy as np
import pytest
from napari.components import ViewerModel

from journals import discard_edits, journals_of
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.journal import Journal, find_journals, read_journal
from napari_ngff.labels.label_metadata import read_label_info
from napari_ngff.labels.saving import retype_array
from napari_ngff.labels.shapes import Everywhere
from napari_ngff.plugin import get_reader
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources import folder_store
from napari_ngff.viewer.browsing.recovery import discard_journal, open_journal
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.painting.object_edits import find_new_id
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image

POINTS = np.zeros(4, int), np.array([5, 5, 200, 200]), np.array([5, 200, 5, 200])


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(1, 256, 256))
    return path


def window(folder):
    model = ViewerModel()
    for layer in get_reader(str(folder))(str(folder)):
        model.add_layer(as_layer(layer) if isinstance(layer, tuple) else layer)
    return model


def painted(model, label):
    layer = new_labels(model.layers[0], "mine")
    model.add_layer(layer)
    layer.data_setitem(POINTS, label)
    return layer


def begin(layer):
    """Save, but not to the end."""
    saver = layer.saver
    plain = saver._report_progress

    def progress(level, done, total):
        plain(level, done, total)
        saver.cancel()

    saver._report_progress = progress
    assert not saver.save_now()
    saver._report_progress = plain


def opened(folder):
    return window(folder).layers["nuclei"]


def shown(folder, name):
    return set(np.unique(np.asarray(window(folder).layers[name].data[0])).tolist())


@pytest.mark.default_cases("one window-", "two windows-mine")
@pytest.mark.parametrize("replaces", ["", "mine"])
@pytest.mark.parametrize("same", [True, False], ids=["one window", "two windows"])
def test_new_labels_that_another_has_begun_to_save_stay(
    folder, reported, same, replaces
):
    one = window(folder)
    first = painted(one, 7)
    second = painted(one if same else window(folder), 8)
    begin(first)
    second.saver.replaces = replaces
    assert not second.saver.save_now()
    reason = "Try again when that has ended" if replaces else "something named mine"
    assert reason in reported[-1]
    assert first.saver.save_now()
    assert shown(folder, "mine") == {0, 7}
    second.name = "mine-2"
    assert second.saver.save_now()
    assert shown(folder, "mine-2") == {0, 8}
    assert not list(folder.rglob("*.aside"))


def test_the_place_is_free_when_the_layer_goes(folder, reported):
    one, two = window(folder), window(folder)
    first, second = painted(one, 7), painted(two, 8)
    begin(first)
    discard_edits(first.saver)
    assert second.saver.save_now(), reported
    assert shown(folder, "mine") == {0, 8}


def test_edits_that_another_window_recovers_are_not_deleted(folder):
    dead = window(folder).layers["nuclei"]
    dead.data_setitem(POINTS, 7)
    dead.saver.keep_journal()
    one, two = window(folder).layers["nuclei"], window(folder).layers["nuclei"]
    (offered,), (again,) = journals_of(one.saver), journals_of(two.saver)
    assert offered == again
    one.saver.take_over(open_journal(one.saver, offered))
    with pytest.raises(BlockingIOError):
        discard_journal(again, two.saver)
    one.data_setitem(POINTS, 9)
    one.saver.journal.sync()
    one.saver.keep_journal()
    store, path = one.saver.journal.place
    (left,) = find_journals(store, path)
    journal = Journal(store, path, one.canvas, left)
    assert len(journal.content.edits) == 2
    journal.remove()
    assert not journals_of(one.saver)


def test_strokes_after_a_restore_that_is_undone_at_once_are_kept(folder):
    first = opened(folder)
    first.data_setitem(POINTS, 7)
    first.saver.keep_journal()
    restored = opened(folder)
    (kept,) = journals_of(restored.saver)
    restored.saver.take_over(open_journal(restored.saver, kept))
    restored.undo()  # before the journal has looked at the layer
    restored.data_setitem(POINTS, 9)
    assert restored.saver.can_keep()
    restored.saver.keep_journal()
    again = opened(folder)
    (kept,) = journals_of(again.saver)
    assert [edit.label for edit in read_journal(kept).edits] == [9]


def row(number):
    """Voxels of a row, through several chunks."""
    columns = np.arange(256)
    return np.zeros(256, int), np.full(256, number), columns


def stored(folder):
    return np.asarray(window(folder).layers["nuclei"].data[0])


def test_what_another_corrects_in_saved_strokes_stays(folder, reported):
    mine, other = opened(folder), opened(folder)
    before = np.asarray(mine.data[0])
    mine.data_setitem(row(10), 71)
    assert mine.saver.save_now()
    other = opened(folder)
    # The other erases a half, and paints beside it.
    other.data_setitem(tuple(x[:40] for x in row(10)), 0)
    other.data_setitem(tuple(x[:40] for x in row(12)), 5)
    assert other.saver.save_now()

    mine.data_setitem(row(14), 72)
    wanted = np.asarray(mine.data[0]).copy()
    assert not mine.saver.save_now()
    wanted[0, 10, :40], wanted[0, 12, :40] = 0, 5
    assert (np.asarray(mine.data[0]) == wanted).all(), "seen before it is saved"
    assert mine.saver.save_now()
    assert (stored(folder) == wanted).all()
    for _ in range(4):
        mine.undo()
    wanted[0, 14] = before[0, 14]
    assert (np.asarray(mine.data[0]) == wanted).all(), "undo takes my stroke alone"
    assert mine.saver.save_now()
    assert (stored(folder) == wanted).all()
    mine.redo()
    wanted[0, 14] = 72
    assert (np.asarray(mine.data[0]) == wanted).all()


def test_what_another_erases_below_a_stroke_that_changed_nothing_stays(
    folder, reported
):
    first = opened(folder)
    first.data_setitem(row(10), 71)
    assert first.saver.save_now()
    mine, other = opened(folder), opened(folder)
    mine.data_setitem(row(10), 71)  # as it is in the file already
    assert mine.saver.save_now()
    other.data_setitem(row(10), 0)
    assert other.saver.save_now()
    mine.data_setitem(row(14), 72)
    mine.saver.save_now()
    assert mine.saver.save_now(), reported
    assert not stored(folder)[row(10)].any()
    assert (stored(folder)[row(14)] == 72).all()


LARGE = 1 << 40
"""A label that does not fit into the type of the file, of 32 bits."""


def test_a_type_that_is_widened_keeps_what_another_window_saved(folder, reported):
    mine = opened(folder)
    mine.data_setitem(row(10), 71)
    assert mine.saver.save_now()
    other = opened(folder)
    other.data_setitem(row(12), 5)
    assert other.saver.save_now()
    # In the same chunk, which this window saved before the other did.
    mine.data_setitem(row(14), LARGE)
    mine.saver.save_now()
    assert mine.saver.save_now(), reported
    assert stored(folder).dtype == np.int64
    for number, label in ((10, 71), (12, 5), (14, LARGE)):
        assert (stored(folder)[row(number)] == label).all()


def test_what_another_window_saves_while_a_type_is_widened_stays(
    folder, reported, monkeypatch
):
    mine, other = opened(folder), opened(folder)
    copy_objects, calls = retype_array._copy_objects, []

    def copy_then_save(old, *arguments):
        copied = copy_objects(old, *arguments)
        if old.path.endswith("/0") and not calls:
            calls.append(old.path)
            other.data_setitem(row(12), 5)
            # At first it is shown that the coarser levels have another type.
            assert any(other.saver.save_now() for _ in range(2)), reported
        return copied

    monkeypatch.setattr(retype_array, "_copy_objects", copy_then_save)
    mine.data_setitem(row(14), LARGE)
    assert mine.saver.save_now(), reported
    assert calls
    assert (stored(folder)[row(12)] == 5).all()
    assert (stored(folder)[row(14)] == LARGE).all()


def test_a_window_follows_the_type_that_another_has_widened(folder, reported):
    mine, other = opened(folder), opened(folder)
    other.data_setitem(row(12), LARGE)
    assert other.saver.save_now()
    # Over the other's stroke, too: that is shown before it is saved.
    mine.data_setitem(row(14), 71)
    mine.data_setitem(tuple(x[:20] for x in row(12)), 72)
    assert not mine.saver.save_now()
    assert "press Ctrl+S again" in reported[-1]
    assert (stored(folder)[row(12)] == LARGE).all()
    assert (np.asarray(mine.data[0])[row(12)][20:] == LARGE).all()
    assert mine.saver.save_now(), reported
    assert (stored(folder)[row(12)][:20] == 72).all()
    mine.undo()
    mine.saver.save_now()
    assert stored(folder).dtype == np.int64
    assert (stored(folder)[row(12)] == LARGE).all()
    assert (stored(folder)[row(14)] == 71).all()
    mine.undo()
    assert mine.saver.save_now()
    assert not (stored(folder)[row(14)] == 71).any()
    assert (stored(folder)[row(12)] == LARGE).all()


@pytest.mark.parametrize("place", [(5, 5), (5, 200)], ids=["same", "other"])
def test_two_windows_that_take_one_new_id_are_told(folder, reported, place):
    first, second = opened(folder), opened(folder)
    label = find_new_id(first, first.canvas)
    assert find_new_id(second, second.canvas) == label
    first.data_setitem(([0], [5], [5]), label)
    second.data_setitem(tuple([x] for x in (0, *place)), label)
    assert first.saver.save_now()
    assert not second.saver.save_now()
    assert f"ids were new here: {label}. Undo your strokes" in reported[-1]
    assert np.asarray(second.data[0])[0, 5, 5] == label
    second.undo()
    fresh = find_new_id(second, second.canvas)
    assert fresh > label
    second.data_setitem(tuple([x] for x in (0, 200, *place[1:])), fresh)
    assert second.saver.save_now(), reported
    stored = np.asarray(opened(folder).data[0])
    assert np.argwhere(stored == label).tolist() == [[0, 5, 5]]
    assert np.argwhere(stored == fresh).tolist() == [[0, 200, place[1]]]


def test_objects_that_get_one_id_knowingly_are_one(tmp_path, reported):
    path = tmp_path / "film.ome.zarr"
    write_image(path, shape=(4, 32, 32))
    first, second = opened(path), opened(path)
    label = find_new_id(second, second.canvas)
    first.data_setitem(([0], [5], [5]), label + 1)
    assert first.saver.save_now()
    second.data_setitem(([1], [5], [5]), label)
    assert second.saver.save_now(), "another id"
    first.data_setitem(([2], [5], [5]), label + 2)
    assert first.saver.save_now()
    second.data_setitem(([3], [5], [5]), label + 2)
    assert not second.saver.save_now()
    assert second.saver.save_now(), reported
    stored = np.asarray(opened(path).data[0])
    assert np.argwhere(stored == label + 2).tolist() == [[2, 5, 5], [3, 5, 5]]


def test_labels_that_another_window_replaced_are_not_written_into(folder, reported):
    mine, model = opened(folder), window(folder)
    model.layers.remove("nuclei")
    other = new_labels(model.layers[0], "nuclei", level=1, overwrite=True)
    model.add_layer(other)
    other.data_setitem(tuple(x // 2 for x in POINTS), 3)
    assert other.saver.save_now()
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    mine.data_setitem(row(200), 7)
    assert not mine.saver.save_now()
    assert mine.unsaved
    assert "replaced by another program" in mine.saver.detail
    after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert after == before


def test_data_of_other_labels_are_refused_since_they_would_not_be_saved(folder):
    mine, other = opened(folder), opened(folder)
    with pytest.raises(TypeError, match="cannot be replaced"):
        mine.data = other.data
    mine.data_setitem(row(14), 71)
    mine.data = mine.data.astype("int64")
    assert mine.saver.save_now()
    assert stored(folder).dtype == np.int64
    assert (stored(folder)[row(14)] == 71).all()


def test_after_a_full_disk_what_another_window_saved_is_a_conflict(
    folder, reported, monkeypatch
):
    # From far away, so that the finest level is not read before the save.
    mine = opened(folder)
    mine.canvas.add_edit(Edit(Everywhere((1, 10, 256)), (0, 1, 2), (), 71, 0, True))

    def write_nothing(*arguments, **keywords):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folder_store, "write_aside", write_nothing)
        assert not mine.saver.save_now()
    other = opened(folder)
    other.data_setitem(row(12), 5)
    assert other.saver.save_now()
    mine.saver.save_now()
    assert mine.saver.save_now(), reported
    assert (stored(folder)[row(12)] == 5).all()
    assert (stored(folder)[0, :10] > 0).all()


def test_a_saved_stroke_that_is_undone_stays_so_if_kept_edits_are_restored(folder):
    ended = opened(folder)
    before = stored(folder)
    ended.data_setitem(row(12), 5)
    ended.saver.keep_journal()
    mine = opened(folder)
    mine.data_setitem(row(14), 71)
    assert mine.saver.save_now()
    mine.undo()
    (place,) = journals_of(mine.saver)
    mine.saver.take_over(open_journal(mine.saver, place))
    wanted = before.copy()
    wanted[row(12)] = 5
    assert (np.asarray(mine.data[0]) == wanted).all()
    assert mine.saver.save_now()
    assert (stored(folder) == wanted).all()


def test_a_saved_stroke_that_is_undone_goes_where_another_saved_meanwhile(
    folder, reported
):
    mine = opened(folder)
    before = np.asarray(mine.data[0])
    mine.data_setitem(row(10), 71)
    mine.data_setitem(row(20), 72)
    assert mine.saver.save_now()
    other = opened(folder)
    other.data_setitem(tuple(x[:40] for x in row(12)), 5)
    assert other.saver.save_now()
    mine.undo()
    assert not mine.saver.save_now()
    assert mine.unsaved
    wanted = before.copy()
    wanted[0, 10], wanted[0, 12, :40] = 71, 5
    assert (np.asarray(mine.data[0]) == wanted).all()
    mine.undo()  # the other's work lies between: no stroke is taken back in pieces
    assert (np.asarray(mine.data[0]) == wanted).all()
    assert mine.saver.save_now()
    assert (stored(folder) == wanted).all()
    mine.redo()
    wanted[0, 20] = 72
    assert (np.asarray(mine.data[0]) == wanted).all()


@pytest.mark.default_cases("painted-once", "undone-twice")
@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("undone", [False, True], ids=["painted", "undone"])
def test_edits_of_a_conflict_are_restored_as_they_were_seen(folder, undone, again):
    mine = opened(folder)
    for number in (10, 20):
        mine.data_setitem(row(number), 60 + number)
    assert mine.saver.save_now()
    other = opened(folder)
    other.data_setitem(tuple(x[:40] for x in row(10)), 0)
    assert other.saver.save_now()
    if undone:
        mine.undo()
    mine.data_setitem(row(14), 72)
    assert not mine.saver.save_now()
    wanted = np.asarray(mine.data[0]).copy()
    if again:
        # Before the second save the other saves once more.
        other.data_setitem(tuple(x[:40] for x in row(10)), 6)
        assert other.saver.save_now()
        assert not mine.saver.save_now()
        wanted[0, 10, :40] = 6
        assert (np.asarray(mine.data[0]) == wanted).all()
    mine.saver.keep_journal()
    restored = opened(folder)
    (kept,) = journals_of(restored.saver)
    assert read_journal(kept).unsaved_count == 1 + undone
    restored.saver.take_over(open_journal(restored.saver, kept))
    assert (np.asarray(restored.data[0]) == wanted).all()
    assert restored.saver.save_now()
    assert (stored(folder) == wanted).all()
    for _ in range(4):
        restored.undo()
    assert set(np.unique(np.asarray(restored.data[0])[0, 14])) != {72}
    assert (np.asarray(restored.data[0])[0, 10] == wanted[0, 10]).all()
    assert not restored.canvas.log.can_undo
    discard_edits(restored.saver)


def test_a_label_that_another_made_a_class_keeps_that_class(folder, monkeypatch):
    reported, place = [], "napari_ngff.viewer.painting.layer_classes.show_warning"
    monkeypatch.setattr(place, reported.append)
    first, second = opened(folder), opened(folder)
    classes_of_layer(first).add_class("from A")
    value = classes_of_layer(second).add_class("from B").value
    assert value == classes_of_layer(first).selected.value
    second.paint((0, 3, 3), value)
    first.paint((0, 40, 40), value)
    assert second.saver.save_now()
    other = classes_of_layer(first).add_class("of A alone").value
    assert not first.saver.save_now()  # the chunk is one that the other has changed
    # Not even for a moment has the file the other class.
    stored = read_label_info(open_node(str(folder / "labels" / "nuclei")))
    assert stored.properties[value]["napari-ngff:class-name"] == "from B"
    assert first.saver.save_now()
    (text,) = reported
    assert f"Label {value} is 'from B' in the file" in text
    # What is seen is what the file has.
    for layer in (first, opened(folder)):
        names = {x.value: x.name for x in classes_of_layer(layer).items}
        assert (names[value], names[other]) == ("from B", "of A alone")
    first.paint((0, 50, 50), other)
    assert first.saver.save_now()
    # A class that both changed to the same name is no conflict.
    for layer in (first, second):
        classes_of_layer(layer).change_class(value, name="both")
        layer.saver.save_now()
    assert len(reported) == 1
