"""What is counted of reading, compared with what a server counted."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
import zarr

from napari_ngff.store.arrays.chunked_array import cache, open_array
from napari_ngff.store.sources.folder_source import FolderSource
from napari_ngff.store.sources.read_counts import (
    MOST_AHEAD,
    ReadCounts,
    ReadFigures,
    counts_of,
)
from napari_ngff.store.sources.remote_file import RemoteFile
from napari_ngff.store.sources.remote_source import RemoteSource
from napari_ngff.store.sources.source import ReadLog
from napari_ngff.store.sources.zip_source import ZipSource
from napari_ngff.store.write.zip_packing import pack_hierarchy
from patience import until
from range_server import serving_ranges

SIZE, CHUNK = 256, 64
DATA = np.random.default_rng(7).integers(0, 200, (SIZE, SIZE), "uint8")
ALL = ((0, SIZE), (0, SIZE))
COUNT = (SIZE // CHUNK) ** 2


@pytest.fixture
def folder(tmp_path):
    """An array with one missing chunk."""
    attributes = {"ome": {"version": "0.5"}}
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", attributes=attributes)
    root.create_array("0", data=DATA, chunks=(CHUNK, CHUNK))
    (tmp_path / "a.zarr" / "0" / "c" / "3" / "3").unlink()
    return tmp_path


@pytest.fixture
def server(folder):
    pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    with serving_ranges(folder) as server:
        yield server


def stored_bytes(folder):
    chunks = (folder / "a.zarr" / "0" / "c").rglob("*")
    return sum(file.stat().st_size for file in chunks if file.is_file())


def test_chunks_are_counted_as_read_once_and_then_from_memory(folder):
    source = FolderSource(str(folder / "a.zarr"))
    array = open_array(source, "0")
    array.read(ALL)
    figures = counts_of(source).figures
    assert figures == ReadFigures(chunks=COUNT - 1, chunk_bytes=stored_bytes(folder))
    array.read(ALL)
    array.read(((0, 1), (0, 1)))
    assert counts_of(source).figures.from_memory == COUNT - 1 + 1
    assert counts_of(source).figures.chunks == COUNT - 1
    array.forget_chunks()
    array.read(ALL)
    assert counts_of(source).figures.chunks == 2 * (COUNT - 1)


def test_requests_and_bytes_are_those_that_the_server_counted(server):
    source = RemoteSource(f"{server.address}/a.zarr")
    array = open_array(source, "0")
    array.read(ALL)
    figures = source.counts.figures
    # Its document, each chunk, and a byte to see that the array is there.
    assert figures.requests == len(server.asked) == COUNT + 2
    assert figures.received == server.nbytes
    assert figures.chunks == COUNT - 1
    assert figures.waiting == 0


def test_a_request_waits_until_it_is_answered_or_fails(server):
    source = RemoteSource(f"{server.address}/a.zarr")
    server.latency = 0.5
    reader = threading.Thread(target=source.get, args=("0/zarr.json",))
    reader.start()
    until(lambda: len(server.asked) == 1)
    assert source.counts.figures.waiting == 1
    reader.join()
    server.latency = 0
    assert source.get("nothing") is None
    assert source.counts.figures.waiting == 0
    assert source.counts.figures.requests == len(server.asked) == 2


def test_requests_for_an_archive_are_counted(folder, server):
    pack_hierarchy(folder / "a.zarr", folder / "a.ozx")
    source = ZipSource(RemoteFile(RemoteSource(server.address), "a.ozx"))
    open_array(source, "0").read(ALL)
    figures = counts_of(source).figures
    assert figures.requests == len(server.asked) > 0
    assert figures.received == server.nbytes
    assert figures.chunks == COUNT - 1


def test_a_local_archive_is_counted_without_requests(folder):
    pack_hierarchy(folder / "a.zarr", folder / "a.ozx")
    source = ZipSource(folder / "a.ozx")
    open_array(ReadLog(source), "0").read(ALL)
    figures = counts_of(source).figures
    assert (figures.chunks, figures.requests) == (COUNT - 1, 0)
    source.close()


def test_a_chunk_that_was_read_ahead_is_used_once(server):
    source = RemoteSource(f"{server.address}/a.zarr")
    array = open_array(source, "0")
    failed = []
    for cell in [(0, 0), (0, 1), (0, 1), (3, 3)]:
        array.read_ahead(cell, failed.append)
    # The last one is not stored.
    assert not failed
    assert not array.has_cached((3, 3))
    figures = source.counts.figures
    assert (figures.chunks, figures.ahead, figures.ahead_used) == (2, 2, 0)
    # A question whether it is there does not use it.
    assert figures.from_memory == 0
    assert array.cached_chunk((0, 0)) is not None
    array.read(((0, CHUNK), (0, CHUNK)))
    figures = source.counts.figures
    assert (figures.ahead, figures.ahead_used, figures.from_memory) == (2, 1, 2)
    # Dropped from memory before it was used.
    cache.clear()
    array.read(ALL)
    array.read(ALL)
    assert source.counts.figures.ahead_used == 1


def test_many_threads_lose_no_count():
    counts = ReadCounts()

    def count():
        for number in range(2000):
            counts.add_chunk(1, (number,), 3)
            counts.add_found(1, [(number,)])

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = counts.figures
    assert (figures.chunks, figures.from_memory) == (16_000, 16_000)
    assert figures.chunk_bytes == 48_000


def test_few_chunks_that_nobody_uses_are_remembered():
    counts = ReadCounts()
    for number in range(MOST_AHEAD + 1):
        counts.add_ahead(1, (number,))
    counts.add_found(1, [(0,)])
    counts.add_found(1, [(1,)])
    assert (counts.figures.ahead, counts.figures.ahead_used) == (MOST_AHEAD + 1, 1)


def test_another_process_counts_for_itself(folder):
    source = FolderSource(str(folder / "a.zarr"))
    array = open_array(source, "0")
    array.read(ALL)
    again = pickle.loads(pickle.dumps(array))
    assert counts_of(again.source).figures == ReadFigures()
    again.read(ALL)
    assert counts_of(again.source).figures.chunks == COUNT - 1
