"""Shards on servers that another program replaces while they are read."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import zarr

from buckets import bucket_server
from napari_ngff.errors import ChunkError
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.sources.remote_store import RemoteStore
from range_server import serving_ranges

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

OLD = np.random.default_rng(0).integers(0, 200, (64, 64)).astype("u2")
NEW = np.arange(64 * 64, dtype="u2").reshape(64, 64) % 977
SHORT = np.full((64, 64), 7, "u2")


def write_shard(folder, values):
    shutil.rmtree(folder, ignore_errors=True)
    zarr.create_array(folder, data=values, chunks=(16, 16), shards=(64, 64))


@pytest.fixture
def places(tmp_path):
    write_shard(tmp_path / "www/a", OLD)
    with serving_ranges(tmp_path / "www") as server:
        yield server, tmp_path / "www/a"


@pytest.mark.parametrize("values", [NEW, SHORT], ids=["other offsets", "shorter"])
def test_a_shard_that_was_replaced_is_read_by_its_new_index(places, values):
    server, folder = places
    array = open_array(RemoteStore(server.address), "a")
    np.testing.assert_array_equal(array.read(((0, 16), (0, 16))), OLD[:16, :16])
    write_shard(folder, values)
    part = array.read(((48, 64), (48, 64)))
    np.testing.assert_array_equal(part, values[48:, 48:])
    before = len(server.asked)
    np.testing.assert_array_equal(array.read(((16, 32), (0, 16))), values[16:32, :16])
    asked = [path for path, _ in server.asked[before:] if "/c/" in path]
    assert len(asked) == 1, "the new index is known"


def test_a_server_without_versions_is_believed(places):
    server, _ = places
    server.version = ""
    array = open_array(RemoteStore(server.address), "a")
    np.testing.assert_array_equal(array.read(((0, 64), (0, 64))), OLD)


def test_a_shard_that_is_cut_off_is_damaged_and_read_again_once_it_is_whole(places):
    server, folder = places
    whole = (folder / "c/0/0").read_bytes()
    array = open_array(RemoteStore(server.address), "a")
    array.read(((0, 16), (0, 16)))
    (folder / "c/0/0").write_bytes(whole[:100])
    with pytest.raises(ChunkError):
        array.read(((48, 64), (48, 64)))
    (folder / "c/0/0").write_bytes(whole)
    np.testing.assert_array_equal(array.read(((48, 64), (48, 64))), OLD[48:, 48:])


@pytest.mark.parametrize("values", [NEW, SHORT], ids=["other offsets", "shorter"])
def test_a_shard_of_a_bucket_that_was_replaced(tmp_path, values):
    write_shard(tmp_path / "a", OLD)
    with bucket_server() as files:
        files.makedirs("shards")
        files.put(str(tmp_path / "a"), "shards/a", recursive=True)
        array = open_array(RemoteStore("s3://shards"), "a")
        array.read(((0, 16), (0, 16)))
        write_shard(tmp_path / "a", values)
        files.pipe("shards/a/c/0/0", (tmp_path / "a/c/0/0").read_bytes())
        box = ((48, 64), (48, 64))
        np.testing.assert_array_equal(array.read(box), values[48:, 48:])
        files.rm("shards", recursive=True)
