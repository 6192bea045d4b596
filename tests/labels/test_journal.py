"""What a process that ended had painted is there again, once; see test_kills, too."""

import shutil
import threading
import time
import weakref

import numpy as np
import pytest
import zarr
from zarr.codecs import ZstdCodec

from napari_ngff.labels import journal as module
from napari_ngff.labels.journal import Journal, find_journals, read_journal
from patience import until
from saving import (
    edit,
    journaled,
    levels_of,
    open_canvas,
    open_writer,
    read_levels,
    recovered,
    write_levels,
)

SHAPES = ((120, 150), (60, 75), (30, 38), (15, 19))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    rng = np.random.default_rng(5)
    blocks = rng.integers(0, 4, (15, 19))
    pixels = np.kron(blocks, np.ones((8, 8), int))[:120, :150].astype("u2")
    folder = tmp_path_factory.mktemp("original") / "label"
    levels = levels_of(pixels, SHAPES[1:], "mode")
    return write_levels(folder, levels, (16, 24), compressors=ZstdCodec(level=1))


@pytest.fixture
def label(original, tmp_path):
    return shutil.copytree(original, tmp_path / "label")


def start(label):
    writer = journaled(label, open_canvas(label, 4), "mode")
    return writer, writer.journal


def recover(label):
    """Take the journal of a dead process over."""
    writer = recovered(label, open_canvas(label, 4), "mode")
    return writer, writer.journal


def wanted(original, count, seed):
    """All levels after some edits, made at once on a copy that was never killed."""
    writer = open_writer(original, 4, "mode")
    for number in range(count):
        writer.canvas.add_edit(edit(number, seed, SHAPES[0]))
    whole = writer.canvas.read(0, tuple((0, n) for n in SHAPES[0]))
    return levels_of(whole, SHAPES[1:], "mode")


def paint(canvas, journal, numbers, seed):
    for number in numbers:
        canvas.begin_step()
        canvas.add_edit(edit(number, seed, canvas.shape))
        canvas.close_step()
        journal.sync()


def test_nothing_is_written_before_there_is_an_edit(label):
    journal = Journal(str(label), "", open_canvas(label, 4))
    journal.sync_if_changed()
    journal.close()
    assert not module.journal_home().exists()


def test_an_edit_comes_to_the_disk_by_itself(label):
    writer, journal = start(label)
    writer.canvas.add_edit(edit(1, 0, SHAPES[0]))
    until(lambda: len(read_journal(journal.folder).edits) == 1)
    writer.canvas.undo()
    until(lambda: read_journal(journal.folder).edits == ())
    journal.remove()


def test_labels_that_are_opened_while_journals_are_listed_are_written_too(
    label, tmp_path, monkeypatch
):
    listing = threading.Event()

    class SlowSet(weakref.WeakSet):
        def __iter__(self):
            for journal in super().__iter__():
                listing.set()
                time.sleep(0.2)
                yield journal

    monkeypatch.setattr(module, "_journals", SlowSet())
    first, _ = start(label)
    assert listing.wait(10)
    second, journal = start(shutil.copytree(label, tmp_path / "other"))
    for writer in (first, second):
        writer.canvas.add_edit(edit(1, 0, SHAPES[0]))
    until(lambda: journal.folder.exists())
    assert module._ticker[0].is_alive()
    first.journal.remove()
    journal.remove()


def test_the_journal_of_an_open_window_is_not_offered(label):
    writer, journal = start(label)
    paint(writer.canvas, journal, range(2), 0)
    assert find_journals(str(label), "") == []
    journal.close()
    assert find_journals(str(label), "") == [journal.folder]


def test_a_journal_of_which_nothing_lacks_is_gone(label):
    writer, journal = start(label)
    paint(writer.canvas, journal, range(4), 0)
    writer.save()
    journal.close()
    assert find_journals(str(label), "") == []
    assert not journal.folder.exists()


def test_undoing_what_was_saved_is_lacking_too(label, original):
    writer, journal = start(label)
    paint(writer.canvas, journal, range(4), 0)
    writer.save()
    writer.canvas.undo()
    journal.close()
    writer, journal = recover(label)
    assert journal.content.unsaved_count == 1
    writer.save()
    for got, want in zip(read_levels(label, 4), wanted(original, 3, 0), strict=True):
        np.testing.assert_array_equal(got, want)
    writer.canvas.undo()
    writer.save()
    for got, want in zip(read_levels(label, 4), wanted(original, 2, 0), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_stroke_is_one_edit_however_many_moves_it_has(label):
    """Also where the process ends before the mouse button is released."""
    writer, journal = start(label)
    canvas = writer.canvas
    paint(canvas, journal, range(1), 0)
    canvas.begin_step()
    for number in range(1, 7):
        canvas.add_edit(edit(number, 0, canvas.shape))
        journal.sync()
    assert len(canvas.edits) == 7
    journal.close()
    found = read_journal(journal.folder)
    assert len(found.edits) == 7
    assert found.unsaved_count == 2
    _, journal = recover(label)
    journal.close()
    assert read_journal(journal.folder).unsaved_count == 2


def test_a_line_that_was_cut_off_is_left_out(label):
    writer, journal = start(label)
    paint(writer.canvas, journal, range(3), 0)
    journal.close()
    path = journal.folder / "edits.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    assert len(read_journal(journal.folder).edits) == 2
    writer, journal = recover(label)
    paint(writer.canvas, journal, [7], 0)
    journal.close()
    assert len(read_journal(journal.folder).edits) == 3


def test_what_another_program_wrote_meanwhile_is_not_lost(label):
    writer, journal = start(label)
    paint(writer.canvas, journal, range(8), 0)
    calls = iter(range(100))
    writer.save(cancel=lambda: next(calls) >= 20)
    journal.close()
    other = open_writer(label, 4, "mode")
    whole = tuple((0, n) for n in SHAPES[0])
    mask = other.canvas.read(0, whole)
    array = zarr.open_array(label / "0", mode="r+")
    array[0, :150] = 999  # in blocks that were saved, and in others
    writer, journal = recover(label)
    writer.save()
    got = read_levels(label, 1)[0]
    untouched = got[0] == 999
    assert untouched.sum() > 50
    assert mask.shape == got.shape


def test_what_another_program_writes_after_a_recovery_is_not_lost(label, original):
    writer, journal = start(label)
    paint(writer.canvas, journal, range(4), 0)
    writer.save()
    saved = read_levels(label, 1)[0]
    rows, columns = np.nonzero(saved != read_levels(original, 1)[0])
    paint(writer.canvas, journal, range(4, 8), 0)
    journal.close()
    # Nobody has looked at these blocks when another program changes them.
    writer, journal = recover(label)
    row = int(rows[0]) // 16 * 16
    column = int(columns[0]) // 24 * 24
    array = zarr.open_array(label / "0", mode="r+")
    array[row : row + 16, column : column + 24] = 999
    assert "changed by another program" in writer.save().refused[0]
    assert writer.save().refused == ()
    whole = tuple((0, n) for n in SHAPES[0])
    block = read_levels(label, 1)[0][row : row + 16, column : column + 24]
    assert (block == 999).any()
    shown = writer.canvas.read(0, whole)[row : row + 16, column : column + 24]
    assert np.array_equal(shown, block)


def test_a_save_and_the_ticker_can_begin_a_journal_at_once(label, monkeypatch):
    canvas = open_canvas(label, 4)
    journal = Journal(str(label), "", canvas)
    hold, failed = module.hold_file, []

    def slowly(folder):
        time.sleep(0.1)
        return hold(folder)

    monkeypatch.setattr(module, "hold_file", slowly)
    canvas.begin_step()
    canvas.add_edit(edit(0, 1, SHAPES[0]))
    canvas.close_step()

    def keep():
        try:
            journal.before_images.put_block(0, (0, 0), np.ones((16, 24), "u2"))
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=keep)
    thread.start()
    journal.sync()
    thread.join()
    assert not failed
    assert len(read_journal(journal.folder).edits) == 1
    journal.remove()


def test_edits_that_are_being_restored_outlive_another_look(label):
    writer, journal = start(label)
    paint(writer.canvas, journal, range(3), 0)
    journal.close()
    canvas = open_canvas(label, 4)
    canvas.change_dtype(
        np.dtype("u4")
    )  # the canvas has changed before it has the edits
    (folder,) = find_journals(str(label), "")
    journal = Journal(str(label), "", canvas, folder)
    journal.sync_if_changed()
    assert len(read_journal(folder).edits) == 3
    canvas.add_edits(journal.content.edits)
    paint(canvas, journal, [5], 0)
    assert len(read_journal(folder).edits) == 4
    journal.remove()
