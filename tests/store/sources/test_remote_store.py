"""Servers that are slow, or fail: what is asked again, and what is told."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from napari_ngff.errors import (
    AccessError,
    ChunkError,
    CorruptDataError,
    ServerError,
    may_pass,
)
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.sources import remote_store as remote
from napari_ngff.store.sources import server_access
from napari_ngff.store.sources.remote_store import RemoteStore
from patience import until
from plates import write_array
from unreliable import BUSY, DRIP, DROP, ENDLESS, ENDLESS_DRIP, FLOOD, HANG, OK, serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "PAUSES", (0.01, 0.01))
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "thing").write_bytes(b"content")
    write_array(tmp_path / "a.zarr" / "0", np.ones((4, 4), "u2"), 3)
    with serving(tmp_path) as server:
        yield server
    server_access.resume_reading()


@pytest.fixture
def source(server):
    return RemoteStore(f"{server.address}/a.zarr")


@pytest.mark.parametrize("failure", [BUSY, 429, DROP])
def test_what_fails_now_and_then_is_asked_for_again(server, source, failure):
    answers = iter((failure, failure, OK))
    server.answer = lambda path: next(answers)
    assert source.get("thing") == b"content"
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(BUSY, "it answered 503 Service Unavailable"), (DROP, "disconnected")],
)
def test_the_message_names_address_and_reason(server, source, failure, reason):
    server.answer = lambda path: failure
    with pytest.raises(ServerError, match=reason) as caught:
        source.get("thing")
    text = str(caught.value)
    assert text.startswith(f"{server.address}/a.zarr/thing did not come")
    assert "again" in text
    assert len(text) < 200
    assert may_pass(caught.value)


def test_what_a_server_has_not_is_asked_for_once(server, source):
    assert source.get("nothing") is None
    assert len(server.asked) == 1
    server.answer = lambda path: 400
    with pytest.raises(ServerError, match="400"):
        source.get("thing")
    assert len(server.asked) == 2


def test_no_answer_is_reported_after_a_while(server, monkeypatch):
    monkeypatch.setattr(remote, "TIMEOUT", 0.2)
    server.answer = lambda path: HANG
    with pytest.raises(ServerError, match=r"no answer within 0\.2 seconds"):
        RemoteStore(f"{server.address}/a.zarr").get("thing")
    assert len(server.asked) == 1


def test_what_comes_slowly_is_waited_for(server, monkeypatch):
    monkeypatch.setattr(remote, "TIMEOUT", 0.5)
    server.answer = lambda path: DRIP
    assert RemoteStore(f"{server.address}/a.zarr").get("thing") == b"." * 8


GIVEN_UP = r"complete after 0\.5 s|Got more than|[Cc]hunk"


@pytest.mark.parametrize("answer", sorted(set(ENDLESS) - {FLOOD}))
def test_an_answer_without_an_end_is_given_up(server, source, monkeypatch, answer):
    monkeypatch.setattr(server_access, "LONGEST_REQUEST", 0.5)
    server.answer = lambda path: answer
    with pytest.raises(
        ServerError, match=r"complete after 0\.5 s|Got more than"
    ) as reported:
        source.get("thing")
    assert may_pass(reported.value)


def test_documents_of_a_late_server_are_not_waited_for_one_by_one(
    server, source, monkeypatch
):
    monkeypatch.setattr(server_access, "LONGEST_REQUEST", 0.5)
    monkeypatch.setattr(remote, "LATE_DOCUMENT", 0.25)
    server.answer = lambda path: OK if path.endswith("thing") else ENDLESS_DRIP
    seconds = (0.5, 0.25, 0.25)
    for number, limit in enumerate(seconds):
        with pytest.raises(ServerError, match=f"complete after {limit} s"):
            source.get(f"{number}/zarr.json")
    # Chunks may be large, and get all the time.
    with pytest.raises(ServerError, match=r"complete after 0\.5 s"):
        source.get("0/c/0/0")
    assert source.get("thing") == b"content"
    with pytest.raises(ServerError, match=r"complete after 0\.5 s"):
        source.get("3/zarr.json")


def test_more_time_can_be_allowed(server, source, monkeypatch):
    monkeypatch.setattr(server_access, "LONGEST_REQUEST", 0.2)
    monkeypatch.setenv("NAPARI_NGFF_SERVER_SECONDS", "60")
    server.answer = lambda path: DRIP
    assert source.get("thing") == b"." * 8


def test_an_answer_that_is_too_long_is_not_kept(server, source, monkeypatch):
    monkeypatch.setattr(remote, "LARGEST_DOCUMENT", 1 << 24)
    server.answer = lambda path: FLOOD
    with pytest.raises(CorruptDataError, match=r"zarr\.json has more than 16 MB"):
        source.get("zarr.json")


def test_of_a_server_without_ranges_no_more_is_read_than_asked(server, source):
    server.answer = lambda path: FLOOD
    assert source.get("thing", 2, 3) == bytes(3)


def test_a_server_that_is_not_there(server):
    with pytest.raises(ServerError, match=r"127\.0\.0\.1:1"):
        RemoteStore("http://127.0.0.1:1/a.zarr").get("thing")


def test_stopping_ends_what_waits_for_a_server(server, source):
    server.answer = lambda path: HANG
    failed = []

    def read():
        try:
            source.get("thing")
        except ServerError as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: len(server.asked) == 3)
    server_access.stop_reading()
    for thread in threads:
        thread.join(60)
    assert len(failed) == 3
    with pytest.raises(ServerError, match="closed"):
        source.get("thing")
    server_access.resume_reading()
    server.answer = lambda path: OK
    assert source.get("thing") == b"content"


def test_a_chunk_advises_to_ask_again_and_not_for_a_copy(server, source):
    array = open_array(source, "0")
    server.answer = lambda path: BUSY
    with pytest.raises(ChunkError) as caught:
        array.read(((0, 4), (0, 4)))
    text = str(caught.value)
    assert text.count(server.address) == 1
    assert "again" in text
    assert "copy" not in text
    assert may_pass(caught.value)


def test_a_chunk_that_failed_is_asked_for_again_at_once(server, source, monkeypatch):
    now = itertools.count()
    monkeypatch.setattr("time.monotonic", lambda: next(now) / 100)
    array = open_array(source, "0")
    server.answer = lambda path: BUSY
    failures = []
    array.read(((0, 4), (0, 4)), failures.append)
    assert len(failures) == 1

    server.answer = lambda path: OK
    np.testing.assert_array_equal(array.read(((0, 4), (0, 4)), failures.append), 1)
    assert len(failures) == 1


def test_what_was_asked_for_is_read_once(server, source):
    with source.reading_ahead(["thing", "missing"]):
        until(lambda: len(server.asked) == 2)
        assert source.get("thing") == source.get("thing") == b"content"
        assert source.get("missing") is None
    assert len(server.asked) == 3
    assert source.get("missing") is None
    assert len(server.asked) == 4


def test_a_part_is_not_taken_from_what_was_asked_for(server, source):
    with source.reading_ahead(["thing"]):
        until(lambda: server.asked)
        assert source.get("thing", 0, 2) == b"co"
    assert len(server.asked) == 2


def test_what_was_asked_for_fails_where_it_is_read(server, source):
    server.answer = lambda path: 403
    with source.reading_ahead(["thing", "other"]), pytest.raises(AccessError):
        source.get("thing")
