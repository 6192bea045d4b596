"""Chunks of servers on this disk: fewer bytes, and never those of another version."""

from __future__ import annotations

import os

import numpy as np
import pytest

from buckets import bucket_server
from napari_ngff.store.disk_cache import DiskCache
from napari_ngff.store.hierarchy.location import find_location
from napari_ngff.store.sources.blob import Blob, Revision
from napari_ngff.store.sources.kept_chunks import (
    KeptChunks,
    keep_chunks,
)
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.write.zip_packing import pack_hierarchy
from plates import pixels, write_image
from range_server import serving_ranges

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

PIXELS = pixels(1, (2, 64, 64))


@pytest.fixture
def server(tmp_path):
    (tmp_path / "www").mkdir()
    with serving_ranges(tmp_path / "www") as server:
        yield server


@pytest.fixture
def files(tmp_path):
    return DiskCache(tmp_path / "chunks", ".chunk", 2**24)


@pytest.fixture
def kept(files, no_logins):
    chunks = KeptChunks(files, keeps_private=False)
    keep_chunks(chunks)
    yield chunks
    keep_chunks(None)


def names_of(files):
    return sorted(os.path.basename(path) for path, _, _ in files.list_entries())


def read_again(server, key):
    """Bytes of an object, and how many the server sent."""
    before = server.nbytes
    data = RemoteStore(server.address).get(key)
    return data, server.nbytes - before


def test_an_object_is_sent_once(server, kept, tmp_path):
    (tmp_path / "www/a").write_bytes(b"pixels")
    assert read_again(server, "a") == (b"pixels", 6)
    assert read_again(server, "a") == (b"pixels", 0)


def test_another_version_is_read_and_kept(server, kept, tmp_path):
    (tmp_path / "www/a").write_bytes(b"pixels")
    read_again(server, "a")
    (tmp_path / "www/a").write_bytes(b"others")
    os.utime(tmp_path / "www/a", (1, 1))
    assert read_again(server, "a") == (b"others", 6)
    assert read_again(server, "a") == (b"others", 0)


@pytest.mark.parametrize("part", [(2, 3), (-3, 3), (2, None), (-3, None)])
def test_parts_are_kept_each_for_itself(server, kept, tmp_path, part):
    (tmp_path / "www/a").write_bytes(b"0123456789")
    source = RemoteStore(server.address)
    whole, found = source.get("a"), source.get("a", *part)
    sent = server.nbytes
    assert (source.get("a"), source.get("a", *part)) == (whole, found)
    assert server.nbytes == sent
    assert len(server.asked) == 4
    stop = None if part[1] is None or part[0] + part[1] == 0 else sum(part)
    assert found == b"0123456789"[part[0] : stop]


@pytest.mark.parametrize("version", ["", "date", "weak tag, date"])
def test_nothing_is_kept_without_a_strong_tag(server, kept, files, tmp_path, version):
    server.version = version
    (tmp_path / "www/a").write_bytes(b"pixels")
    read_again(server, "a")
    assert read_again(server, "a") == (b"pixels", 6)
    assert names_of(files) == []


def test_documents_are_not_kept(server, kept, files, tmp_path):
    (tmp_path / "www/zarr.json").write_bytes(b"{}")
    assert read_again(server, "zarr.json") == (b"{}", 2)
    assert names_of(files) == []


@pytest.mark.parametrize("damage", [b"", b"x", b'"tag" 00000000\nother'])
def test_a_damaged_entry_is_read_again(server, kept, files, tmp_path, damage):
    (tmp_path / "www/a").write_bytes(b"pixels")
    read_again(server, "a")
    for path, _, _ in files.list_entries():
        with open(path, "r+b") as file:
            content = file.read()
            file.seek(0)
            file.truncate()
            file.write(damage or content[:-1])
    assert read_again(server, "a") == (b"pixels", 6)
    assert read_again(server, "a") == (b"pixels", 0)


def test_what_needs_a_login_is_kept_where_the_user_wants_that(
    server, files, tmp_path, no_logins
):
    (tmp_path / "www/a").write_bytes(b"pixels")
    server.query = "token=secret"
    source = RemoteStore(f"{server.address}?token=secret")
    try:
        keep_chunks(KeptChunks(files, keeps_private=False))
        assert source.get("a") == b"pixels"
        assert names_of(files) == []
        keep_chunks(KeptChunks(files, keeps_private=True))
        assert source.get("a") == b"pixels"
    finally:
        keep_chunks(None)
    assert len(names_of(files)) == 1
    for path, _, _ in files.list_entries():
        with open(path, "rb") as file:
            assert b"secret" not in file.read()


def test_what_is_too_large_is_not_kept(files):
    chunks = KeptChunks(files, keeps_private=True)
    chunks.keep("a", Blob(bytes(files.limit // 16 + 1), Revision.of_tag('"1"')))
    assert names_of(files) == []


def test_chunks_of_an_archive_need_no_request(server, kept, tmp_path):
    folder = tmp_path / "a.zarr"
    write_image(folder, PIXELS, 3)
    # More than what comes with the end of the file.
    (folder / "0/c/0/0/1").write_bytes(np.random.default_rng(0).bytes(300_000))
    pack_hierarchy(str(folder), str(tmp_path / "www/a.ozx"))
    keys = ["0/c/0/0/0", "0/c/0/0/1"]
    wanted = [(folder / key).read_bytes() for key in keys]
    counts = []
    for _ in range(2):
        source = find_location(f"{server.address}/a.ozx").source
        source.get("zarr.json")  # all documents come with it
        opened = len(server.asked)
        assert [source.get(key) for key in keys] == wanted
        counts.append(len(server.asked) - opened)
    assert counts[0] > 0
    assert counts[1] == 0


def test_another_archive_in_its_place_is_read(server, kept, tmp_path):
    for content in (b"a" * 300_000, b"b" * 300_000):
        folder = tmp_path / "a.zarr"
        write_image(folder, PIXELS, 3)
        (folder / "0/c/0/0/1").write_bytes(content)
        pack_hierarchy(str(folder), str(tmp_path / "www/a.ozx"), overwrite=True)
        source = find_location(f"{server.address}/a.ozx").source
        assert source.get("0/c/0/0/1") == content


def test_an_object_of_a_bucket_is_read_by_one_request(kept, files):
    with bucket_server() as bucket:
        bucket.makedirs("kept")
        bucket.pipe("kept/a.zarr/0/0", b"pixels", ACL="public-read")
        for _ in range(2):
            assert RemoteStore("s3://kept/a.zarr").get("0/0") == b"pixels"
        part = RemoteStore("s3://kept/a.zarr").get("0/0", 2, 3)
        assert part == b"xel"
        bucket.pipe("kept/a.zarr/0/0", b"others", ACL="public-read")
        assert RemoteStore("s3://kept/a.zarr").get("0/0") == b"others"
    assert [one.name for one in bucket.asked] == ["get"] * 4
    knows = ["IF_NONE_MATCH" in one.headers for one in bucket.asked]
    assert knows == [False, True, False, True]


def test_what_a_bucket_gives_with_a_login_alone_is_not_kept(kept, files):
    with bucket_server() as bucket:
        bucket.makedirs("locked")
        bucket.pipe("locked/a.zarr/0/0", b"pixels")
        assert RemoteStore("s3://locked/a.zarr").get("0/0") == b"pixels"
    assert names_of(files) == []
