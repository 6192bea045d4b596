"""Reads of neighbouring bytes by several threads become few requests."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from napari_ngff.store.sources import remote_file
from napari_ngff.store.sources.remote_file import GAP, MOST_JOINED, JoinedReads
from patience import until

CONTENT = random.Random(0).randbytes(4 << 20)


class Server:
    """Bytes that take a while; `asked` lists the parts."""

    def __init__(self):
        self.asked, self.over = [], threading.Event()
        self.over.set()

    def fetch(self, start, stop):
        self.asked.append((start, stop))
        assert self.over.wait(60)
        return CONTENT[start:stop]


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def reads(server):
    return JoinedReads(server.fetch, 8)


def read_at_once(server, reads, spans, monkeypatch):
    """Read parts by a thread each, while another read holds the server up."""

    def wait_for_all(seconds):
        assert seconds == remote_file.GATHER
        until(lambda: len(reads._waiting) == len(spans))

    monkeypatch.setattr(remote_file, "time", SimpleNamespace(sleep=wait_for_all))
    server.over.clear()
    with ThreadPoolExecutor(len(spans) + 1) as pool:
        first = pool.submit(reads.read, [(3 << 20, 5)])
        until(lambda: server.asked)
        parts = [pool.submit(reads.read, [span]) for span in spans]
        until(lambda: len(server.asked) > 1)
        server.over.set()
        assert first.result() == [CONTENT[3 << 20 :][:5]]
        for (start, length), part in zip(spans, parts, strict=True):
            assert part.result() == [CONTENT[start : start + length]]
    return sorted(server.asked[1:])


def test_neighbours_of_many_threads_are_one_request(server, reads, monkeypatch):
    spans = [(n * 1000, 900) for n in range(20)]
    random.Random(1).shuffle(spans)
    assert read_at_once(server, reads, spans, monkeypatch) == [(0, 19_900)]


def test_what_is_far_away_is_another_request(server, reads, monkeypatch):
    spans = [(0, 100), (100 + GAP, 100), (300 + 2 * GAP + 1, 100), (50, 10)]
    found = read_at_once(server, reads, spans, monkeypatch)
    assert found == [(0, 200 + GAP), (spans[2][0], spans[2][0] + 100)]


def test_large_parts_come_by_requests_of_their_own(server, reads, monkeypatch):
    half = MOST_JOINED // 2 + 1
    spans = [(0, half), (half, half), (2 * half, 100)]
    found = read_at_once(server, reads, spans, monkeypatch)
    assert found == [(0, half), (half, 2 * half + 100)]


def test_a_header_comes_with_its_bytes_and_far_parts_at_once(server, reads):
    large = (40, MOST_JOINED * 2)
    assert reads.read([(0, 30), large]) == [CONTENT[:30], CONTENT[40 : sum(large)]]
    assert server.asked == [(0, sum(large))]
    server.asked.clear()
    server.over.clear()
    with ThreadPoolExecutor(1) as pool:
        both = pool.submit(reads.read, [(3 << 20, 10), (0, 10)])
        until(lambda: len(server.asked) == 2)
        server.over.set()
        assert both.result() == [CONTENT[3 << 20 :][:10], CONTENT[:10]]


def test_an_error_reaches_all_who_wait_for_it(server, reads, monkeypatch):
    def fail(start, stop):
        if start < 1000:
            raise OSError("gone")
        return CONTENT[start:stop]

    monkeypatch.setattr(reads, "_fetch", fail)
    with ThreadPoolExecutor(8) as pool:
        parts = [pool.submit(reads.read, [(n * 10, 10)]) for n in range(8)]
        for part in parts:
            with pytest.raises(OSError, match="gone"):
                part.result(60)
    with pytest.raises(OSError, match="gone"):
        reads.read([(2 << 20, 10), (0, 10)])
    assert reads.read([(2 << 20, 10)]) == [CONTENT[2 << 20 :][:10]]
