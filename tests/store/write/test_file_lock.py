"""Asking whether a file is held takes nothing from who wants to hold it."""

from __future__ import annotations

import multiprocessing
import time

import pytest

from napari_ngff.store.write.file_lock import hold_file, is_held

CONTEXT = multiprocessing.get_context("spawn")
SECONDS = 0.7


def ask_all_the_time(path, started, ended, answers):
    found = set()
    started.release()
    while not ended.is_set():
        found.add(is_held(path))
    answers.put(found)


@pytest.fixture
def asked(tmp_path):
    """A file of which two processes ask; in the end, call for what they were told."""
    path = tmp_path / "lock"
    path.touch()
    started, ended = CONTEXT.Semaphore(0), CONTEXT.Event()
    answers = CONTEXT.Queue()
    arguments = (path, started, ended, answers)
    asking = [CONTEXT.Process(target=ask_all_the_time, args=arguments) for _ in "ab"]
    for process in asking:
        process.start()
    for _ in asking:
        assert started.acquire(timeout=60)

    def end():
        ended.set()
        return [answers.get(timeout=60) for _ in asking]

    yield path, end
    ended.set()
    for process in asking:
        process.join()


def test_who_asks_refuses_nobody(asked):
    path, end = asked
    last = time.monotonic() + SECONDS
    while time.monotonic() < last:
        hold_file(path).close()
        time.sleep(0.0005)
    end()


def test_those_who_only_ask_do_not_see_each_other(asked):
    _, end = asked
    time.sleep(SECONDS)
    assert end() == [{False}, {False}]


def test_who_holds_it_is_seen_by_all(asked):
    path, end = asked
    with hold_file(path):
        assert is_held(path)
        with pytest.raises(BlockingIOError):
            hold_file(path)
        time.sleep(SECONDS / 2)
        assert all(True in found for found in end())
    assert not is_held(path)


def test_what_is_not_there_is_not_held(tmp_path):
    assert not is_held(tmp_path / "none")
    assert not (tmp_path / "none").exists()
