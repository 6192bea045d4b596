"""Two processes that change one file of ours: all is there, and no reader sees half."""

from __future__ import annotations

import multiprocessing

import pytest

from shared_files import KINDS, ROUNDS, change_all

CONTEXT = multiprocessing.get_context("spawn")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_two_processes_note_is_lost(kind, tmp_path):
    shared = KINDS[kind](tmp_path)
    names = [[f"{who}/{number}" for number in range(ROUNDS)] for who in "AB"]
    start = CONTEXT.Barrier(3)
    writers = [
        CONTEXT.Process(target=change_all, args=(kind, tmp_path, own, start))
        for own in names
    ]
    for writer in writers:
        writer.start()
    start.wait(60)
    seen = 0
    while any(writer.is_alive() for writer in writers):
        found = len(list(shared.read()))
        assert found >= seen
        seen = found
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert set(shared.read()) == {name for own in names for name in own}
