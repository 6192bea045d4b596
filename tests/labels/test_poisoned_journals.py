"""Whatever a journal holds: it is read, or named and kept, and hides no other."""

from __future__ import annotations

import multiprocessing
import os
import sys

import numpy as np
import pytest

from napari_ngff.labels.create_labels import create_labels
from napari_ngff.labels.journal import journal_home
from napari_ngff.labels.kept_edits import find_kept_edits
from napari_ngff.labels.places.label_location import location_inside
from napari_ngff.labels.saving.journal_cleanup import remove_orphans
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.notices import describe_edits
from poisoned_journals import leave_journal, meet_all

READ = {
    "nothing",
    "a head with a newer subject",
    "a record of a newer version",
    "half a line behind",
    "zeros behind",
    "points far apart",
    "a radius beyond all",
}
"""Of these all edits are restored."""


@pytest.mark.skipif(sys.platform != "linux", reason="has other limits of memory")
def test_poisoned_journals_are_named_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=meet_all, args=(tmp_path, answers))
    process.start()
    found = answers.get(timeout=120)
    process.join()
    assert len(found) >= 80
    expected = {"named", "refused", "restored"}
    assert {
        name: answer for name, answer in found.items() if answer not in expected
    } == {}
    assert {name: found[name] for name in READ} == dict.fromkeys(READ, "restored")
    assert found["an unknown kind"] == found["a line that is a list"] == "named"


@pytest.mark.parametrize("time", [-(10**10), 0, 10**15])
def test_edits_of_any_time_are_described(tmp_path, monkeypatch, time):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    root = write_image(tmp_path / "image.zarr", shape=(64, 64))
    create_labels(
        open_node(root), "good", np.dtype("u2"), 0, location_inside(open_node(root))
    ).register()
    folder = leave_journal(root, "good", begins_save=False)
    os.utime(folder / "edits.jsonl", (time, time))
    (kept,) = find_kept_edits([open_node(root)])
    assert describe_edits(kept).startswith("5 edits of 'good' (image.zarr, ")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_in_place_of_a_journal_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = journal_home() / "a" / "b"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "edits.jsonl")
    root = write_image(tmp_path / "image.zarr", shape=(64, 64))
    assert find_kept_edits([open_node(root)]) == []
    remove_orphans(journal_home(), 10**10)
