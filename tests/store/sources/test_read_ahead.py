"""Reads at once from what waits for a server, in turn from all else; never for ever."""

from __future__ import annotations

import threading

import pytest

from napari_ngff.errors import ServerError
from napari_ngff.store.sources import read_ahead
from napari_ngff.store.sources.blob import Traits
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.sources.read_ahead import (
    ReadAhead,
    call_at_once,
)
from napari_ngff.store.threads import MOST, share_work
from patience import until


class Objects:
    """A source whose objects are their keys; `together` reads have to meet."""

    def __init__(self, concurrency=32, together=1):
        self.traits = Traits(concurrency)
        self.asked, self.together = [], together

    def get(self, key):
        self.asked.append(key)
        until(lambda: len(self.asked) >= self.together)
        if key == "bad":
            raise ServerError("bad", "it fails")
        return None if key == "missing" else key.encode()


def test_a_source_with_many_reads_at_once_is_remote():
    assert Objects(32).traits.is_remote
    assert not Objects(8).traits.is_remote


def test_calls_wait_for_a_server_together():
    source = Objects(together=5)
    keys = ["a", "b", "c", "d", "e"]
    found = call_at_once(source, [lambda key=key: source.get(key) for key in keys])
    assert found == [key.encode() for key in keys]


def test_local_calls_are_made_in_turn_in_this_thread():
    source, threads = Objects(1), []
    calls = [lambda: threads.append(threading.current_thread())] * 3
    call_at_once(source, calls)
    assert set(threads) == {threading.current_thread()}


def test_an_error_of_a_call_is_raised():
    source = Objects()
    with pytest.raises(ServerError):
        call_at_once(source, [lambda: source.get("a"), lambda: source.get("bad")])


def test_objects_are_asked_for_before_they_are_read():
    ahead = ReadAhead(Objects(together=3))
    ahead.ask(["a", "missing", "c"])
    assert [ahead.get(key) for key in ("a", "missing", "c")] == [b"a", None, b"c"]
    assert sorted(ahead.source.asked) == ["a", "c", "missing"]


def test_an_object_that_nobody_reads_raises_nothing():
    ahead = ReadAhead(Objects(together=2))
    ahead.ask(["a", "bad"])
    assert ahead.get("a") == b"a"
    with pytest.raises(ServerError):
        ahead.get("bad")
    assert len(ahead.source.asked) == 2


def test_a_local_source_is_asked_when_an_object_is_read():
    ahead = ReadAhead(Objects(1))
    ahead.ask(["a", "b"])
    assert ahead.source.asked == []
    assert ahead.get("b") == b"b"
    assert ahead.source.asked == ["b"]


def test_threads_that_read_ahead_do_not_wait_for_each_other_for_ever():
    source = Objects(MOST)

    def read_both(number):
        ahead = ReadAhead(source)
        ahead.ask([f"a{number}", f"b{number}"])
        assert ahead.get(f"a{number}")
        assert ahead.get(f"b{number}")

    done = threading.Thread(
        target=lambda: share_work(iter(range(4 * MOST)), read_both, 4 * MOST, MOST),
        daemon=True,
    )
    done.start()
    done.join(60)
    assert not done.is_alive()
    assert len(source.asked) == 8 * MOST


def test_what_only_saves_time_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(read_ahead, "PATIENCE", 0.01)
    source = Objects(together=3)
    ahead = ReadAhead(source)
    ahead.ask(["a", "b"])
    assert ahead.get_soon("b") is None
    source.together = 0


def test_what_only_saves_time_may_fail():
    ahead = ReadAhead(Objects())
    ahead.ask(["a", "bad", "c"])
    assert ahead.get_soon("bad") is None
    assert ahead.get_soon("c") == b"c"
    assert ahead.get_soon("unasked") is None


def test_a_local_source_is_not_read_ahead(tmp_path, monkeypatch):
    read, source = [], FolderStore(str(tmp_path))
    monkeypatch.setattr(source, "read", read.append)
    with source.reading_ahead(["a"]):
        assert read == []
