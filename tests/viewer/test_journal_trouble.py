"""A journal that cannot be written is reported, and keeps nothing else from working."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from contextlib import suppress

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff.labels.journal import find_journals, journal_home, read_journal
from napari_ngff.plugin import get_reader
from napari_ngff.store.write.append_log import AppendLog
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.saving import save_report
from napari_ngff.viewer.services.window import Window
from patience import until


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Folder of user data."""
    folder = tmp_path / "data"
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    monkeypatch.setattr(Window, "current", Window())
    save_report.journal_reports.clear()
    return folder


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(1, 64, 64))
    return path


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own that is soon full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(command).returncode:
        pytest.skip("no permission to mount a disk")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk):
    """Fill a disk to the last byte; return what takes the room."""
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return ballast


def opened(path):
    model = ViewerModel()
    for one in get_reader(str(path))(str(path)):
        model.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    return model.layers["nuclei"]


def journaled(layer):
    return len(read_journal(layer.saver.journal.folder).edits)


def test_labels_as_numpy_integers_come_to_the_journal_and_the_file(
    data, path, reported
):
    layer = opened(path)
    layer.paint((0, 20, 20), np.uint16(77))
    layer.replace_label(np.uint16(77), np.int64(78))
    layer.spared = (np.int32(3),)
    layer.only_over = np.uint8(0)
    layer.paint((0, 40, 40), np.uint32(79))
    layer.fill((0, 0, 0), np.uint64(80))
    until(lambda: journaled(layer) == 4)
    pixels = np.asarray(layer.data[0])
    assert layer.saver.save_now(), reported
    stored = zarr.open_array(path / "labels" / "nuclei" / "0", mode="r")[:]
    assert (stored == pixels).all()
    assert layer.next_label() == int(pixels.max()) + 1


def test_no_error_of_one_journal_ends_the_others(data, path, reported, monkeypatch):
    bad, good = opened(path), opened(path)

    def broken():
        raise RuntimeError("anything")

    monkeypatch.setattr(bad.saver.journal, "sync", broken)
    bad.paint((0, 20, 20), 77)
    good.paint((0, 40, 40), 78)
    until(lambda: journaled(good) == 1)
    until(lambda: reported)
    good.paint((0, 50, 50), 79)
    until(lambda: journaled(good) == 2)
    (message,) = reported
    assert message.startswith("Edits are not protected from a crash.\n")
    assert "anything" in message


def test_a_report_that_fails_does_not_end_the_others(data, path, reported, monkeypatch):
    """The window that would show it may be gone."""
    bad, good = opened(path), opened(path)
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)

    def broken(*_):
        raise RuntimeError("window is gone")

    monkeypatch.setattr(bad.saver.journal, "sync", broken)
    monkeypatch.setattr(bad.saver.journal, "_report", broken)
    bad.paint((0, 20, 20), 77)
    until(lambda: raised)
    good.paint((0, 40, 40), 78)
    until(lambda: journaled(good) == 1)
    assert {str(one.exc_value) for one in raised} == {"window is gone"}
    monkeypatch.setattr(bad.saver.journal, "_report", None)


def test_without_a_place_for_journals_that_is_reported_and_labels_are_saved(
    data, path, reported
):
    data.write_text("no folder can be made here")
    layer = opened(path)
    layer.paint((0, 20, 20), 77)
    until(lambda: reported)
    layer.paint((0, 40, 40), 78)
    for _ in range(3):
        layer.saver.journal.sync_if_changed()
    (message,) = reported
    assert message.startswith("Edits are not protected from a crash.\n")
    assert str(journal_home()) in message
    pixels = np.asarray(layer.data[0])
    assert layer.saver.save_now(), reported
    stored = zarr.open_array(path / "labels" / "nuclei" / "0", mode="r")[:]
    assert (stored == pixels).all()
    # Undo still reaches over the save.
    layer.undo()
    layer.undo()
    assert layer.saver.save_now(), reported
    stored = zarr.open_array(path / "labels" / "nuclei" / "0", mode="r")[:]
    assert not np.isin(stored, (77, 78)).any()


def test_edits_that_cannot_be_kept_for_later_stay_on_the_screen(data, path, reported):
    data.write_text("no folder can be made here")
    layer = opened(path)
    layer.paint((0, 20, 20), 77)
    until(lambda: reported)
    reported.clear()
    assert not layer.saver.can_keep()
    (message,) = reported
    assert message.startswith("Not kept: nuclei.\n")
    data.unlink()
    assert layer.saver.can_keep()
    layer.saver.keep_journal()
    (folder,) = find_journals(*layer.saver.journal.place)
    assert read_journal(folder).unsaved_count == 1


def test_after_a_save_on_a_full_disk_nothing_is_offered(
    data, path, reported, monkeypatch
):
    layer = opened(path)
    layer.paint((0, 20, 20), 77)
    journal = layer.saver.journal
    journal.sync()

    append = AppendLog.append

    def full(self, record):
        if os.readlink(f"/proc/self/fd/{self._file.fileno()}").startswith(str(data)):
            raise OSError(28, "No space left on device")
        return append(self, record)

    monkeypatch.setattr(AppendLog, "append", full)
    layer.paint((0, 40, 40), 78)
    assert layer.saver.save_now(), reported
    assert len([one for one in reported if "No space left" in one]) == 1
    monkeypatch.undo()
    layer.paint((0, 50, 50), 79)
    journal.sync()
    assert len(journal.canvas.edits) == 3
    found = read_journal(journal.folder)
    assert found.unsaved_count == 1
    assert found.edits[2].label == 79
    layer.saver.keep_journal()


def test_a_full_disk_of_journals_is_shown_once_and_labels_are_saved(
    small_disk, path, reported, monkeypatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(small_disk))
    save_report.journal_reports.clear()
    layer = opened(path)
    layer.paint((0, 20, 20), 77)
    layer.saver.journal.sync()
    ballast = fill(small_disk)
    for row in range(20, 40):
        layer.paint((0, row, 30), row)
    until(lambda: reported)
    for _ in range(3):
        layer.saver.journal.sync_if_changed()
    (message,) = reported
    assert "No space left on device" in message
    pixels = np.asarray(layer.data[0])
    assert layer.saver.save_now(), reported
    stored = zarr.open_array(path / "labels" / "nuclei" / "0", mode="r")[:]
    assert (stored == pixels).all()
    ballast.unlink()
    layer.paint((0, 50, 50), 99)
    until(lambda: layer.saver.journal.trouble is None)
    assert read_journal(layer.saver.journal.folder).unsaved_count == 1
    while layer.canvas.log.end:
        layer.undo()
    assert layer.saver.save_now(), reported
    stored = zarr.open_array(path / "labels" / "nuclei" / "0", mode="r")[:]
    assert not np.isin(stored, (77, 99)).any()
