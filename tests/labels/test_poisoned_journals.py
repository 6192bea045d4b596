"""Whatever a journal holds: it is read, or named and kept, and hides no other."""

from __future__ import annotations

import multiprocessing
import sys

import pytest

from poisoned_journals import meet_all

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
