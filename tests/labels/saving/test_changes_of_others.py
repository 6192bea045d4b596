"""What another program changed in saved blocks comes as an edit."""

import numpy as np
import pytest

from napari_ngff.errors import UnsupportedError
from napari_ngff.labels.edits import Edit, EditLog, dump_edit, load_edit
from napari_ngff.labels.saving.changes_of_others import find_changes
from napari_ngff.labels.saving.snapshot import Snapshot
from napari_ngff.labels.shapes import Everywhere

BOX = ((4, 8), (10, 16))
ORIGINAL = np.arange(24, dtype="u2").reshape(4, 6)


def make_edit(label):
    return Edit(Everywhere((20, 30)), (0, 1), (), label)


def applied(edits, order, start):
    shape = tuple((20, 30)[axis] for axis in order)
    snapshot = Snapshot(edits, shape, np.dtype("u2"))
    return snapshot.with_edits(BOX, start, order)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_changes_lead_from_the_most_similar_state_to_the_block(order):
    saved, now = ORIGINAL.copy(), ORIGINAL.copy()
    saved[:2] = 7
    now[:2] = 7
    now[0, 1], now[3, 5] = 0, 65535
    (change,) = find_changes(BOX, now, [ORIGINAL, saved], order)
    assert (applied([change], order, saved) == now).all()
    # It leaves the rest of the original, which may get other edits.
    wanted = ORIGINAL.copy()
    wanted[0, 1], wanted[3, 5] = 0, 65535
    assert (applied([change], order, ORIGINAL) == wanted).all()
    assert load_edit(dump_edit(change)) == change


def test_a_block_as_a_save_left_it_has_no_changes():
    assert find_changes(BOX, ORIGINAL, [ORIGINAL + 1, ORIGINAL], (0, 1)) == []


def test_changes_that_the_layer_does_not_show_are_refused():
    now = np.stack([ORIGINAL, ORIGINAL + 1])
    with pytest.raises(UnsupportedError, match="axis"):
        find_changes(((0, 2), *BOX), now, [np.stack([ORIGINAL] * 2)], (1, 2))


def test_undo_and_redo_end_at_the_inserted_edits():
    log = EditLog(2)
    for label in (1, 2, 3):
        log.begin_step()
        log.add_edit(make_edit(label))
        log.close_step()
    log.undo()
    log.insert_lasting(1, [make_edit(9)])
    assert [edit.label for edit in log.edits[: log.end]] == [1, 9, 2]
    assert [edit.label for edit in log.undo()] == [2]
    assert not log.can_undo
    assert log.undo() == []
    assert [log.redo()[0].label, log.redo()[0].label] == [2, 3]
    assert [edit.label for edit in log.edits[: log.end]] == [1, 9, 2, 3]
    assert log.edits_touching(((0, 20), (0, 30))) == [0, 1, 2, 3]


@pytest.mark.parametrize("index", [0, 1])
def test_a_stroke_goes_on_after_edits_are_inserted(index):
    log = EditLog(2)
    log.add_edit(make_edit(1))
    log.begin_step()
    log.add_edit(make_edit(2))
    log.insert_lasting(index, [make_edit(9)])
    log.add_edit(make_edit(2))
    log.close_step()
    wanted = [1, 2, 2]
    wanted.insert(index, 9)
    assert [edit.label for edit in log.edits] == wanted
    assert [edit.label for edit in log.undo()] == [2, 2]
