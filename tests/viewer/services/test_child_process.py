"""Work in another process: results, errors and steps come back, and it can be ended."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import child_works
from napari_ngff.errors import ChunkError, OMEZarrError
from napari_ngff.viewer.services.child_process import run_in_child

SUPPORT = Path(child_works.__file__).parent


@pytest.fixture(autouse=True)
def works_there(monkeypatch) -> None:
    """Let the other process import the work."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))


def test_result_and_steps_come_back() -> None:
    steps: list = []
    assert run_in_child(child_works.add, (1, 2), steps.append) == 3
    assert set(steps) - {None} == {"adding"}


def test_prints_are_no_messages() -> None:
    assert run_in_child(child_works.print_much, (), lambda _: None) == "done"


def test_errors_come_back_as_they_are() -> None:
    with pytest.raises(ChunkError, match="0/c/0 cannot be read: it is damaged") as info:
        run_in_child(child_works.refuse, (), lambda _: None)
    assert info.value.key == "0/c/0"
    with pytest.raises(OMEZarrError, match="own error"):
        run_in_child(child_works.refuse_strangely, (), lambda _: None)


def test_a_process_that_dies_is_noticed() -> None:
    with pytest.raises(OMEZarrError, match="ended unexpectedly"):
        run_in_child(child_works.die, (), lambda _: None)


def test_an_error_here_stops_it_there(tmp_path) -> None:
    note = tmp_path / "note"

    def stop(step: str | None) -> None:
        if step is not None:
            raise KeyError(step)

    with pytest.raises(KeyError, match="waiting"):
        run_in_child(child_works.wait_for_stop, (str(note),), stop)
    # It had time to clean up, and is gone when the error comes.
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_what_does_not_stop_is_killed() -> None:
    begin = time.monotonic()

    def stop(step: object) -> None:
        raise InterruptedError

    # It reports no step of its own.
    with pytest.raises(InterruptedError):
        run_in_child(child_works.never_stop, (), stop, grace=0.3)
    assert time.monotonic() - begin < 60


def test_no_module_of_the_current_folder_is_imported(tmp_path, monkeypatch) -> None:
    """A folder of downloads may hold a file of the name of a module."""
    (tmp_path / "pickle.py").write_text("raise SystemExit(5)\n")
    monkeypatch.chdir(tmp_path)
    assert run_in_child(child_works.add, (1, 2), lambda _: None) == 3
