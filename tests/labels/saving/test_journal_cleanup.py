"""Journals go with their stores, but not with a disk that is unplugged."""

import os
import shutil
import subprocess
import time

import numpy as np
import pytest

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.journal import Journal, find_journals, journal_home
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.journal_cleanup import (
    AGE,
    folder_identity,
    remove_orphans,
)
from napari_ngff.labels.shapes import Mask
from napari_ngff.store.arrays.lazy_array import BlankArray

LATER = AGE * 86400 + 60


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def left(store):
    """Leave a journal behind, as a process that was killed."""
    canvas = Canvas([BlankArray((8, 8), (8, 8), np.dtype("u2"))])
    journal = Journal(str(store), "labels/cells", canvas)
    canvas.add_edit(Edit(Mask(mask_runs(np.ones((2, 2), bool), (1, 1))), (0, 1), (), 5))
    journal.close()
    return journal.folder


@pytest.fixture
def store(tmp_path):
    folder = tmp_path / "images" / "a.zarr"
    folder.mkdir(parents=True)
    if folder_identity(str(folder)) is None:
        pytest.skip("this system does not tell one disk from another")
    return folder


def test_the_journal_of_a_store_that_was_deleted_long_ago_goes(store):
    folder = left(store)
    store.rmdir()
    remove_orphans(journal_home())
    assert folder.exists()
    remove_orphans(journal_home(), time.time() + LATER)
    assert not folder.exists()
    assert list(journal_home().iterdir()) == []


def test_the_journal_of_a_store_that_is_there_stays(store):
    folder = left(store)
    remove_orphans(journal_home(), time.time() + LATER)
    assert find_journals(str(store), "labels/cells") == [folder]


def test_the_journal_of_a_folder_that_was_moved_stays(store):
    folder = left(store)
    store.parent.rename(store.parent.with_name("elsewhere"))
    store.parent.mkdir()
    remove_orphans(journal_home(), time.time() + LATER)
    assert folder.exists()


def test_the_journal_of_a_disk_that_is_unplugged_stays(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(command).returncode:
        pytest.skip("no permission to mount a disk")
    try:
        (disk / "a.zarr").mkdir()
        folder = left(disk / "a.zarr")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert os.listdir(disk) == []
    remove_orphans(journal_home(), time.time() + LATER)
    assert folder.exists()
