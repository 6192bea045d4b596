"""Archives on servers: few requests, one version, and no more memory than allowed."""

from __future__ import annotations

import io
import os
import pickle
import random
import struct
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zarr

from napari_ngff.errors import (
    CHECK_ADDRESS,
    AccessError,
    ChunkError,
    CorruptDataError,
    FileChangedError,
    NodeNotFoundError,
    OMEZarrError,
    ServerError,
    UnsupportedError,
)
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.hierarchy.location import find_location
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.store.sources import (
    http_server,
    remote_file,
    remote_store,
    server_access,
)
from napari_ngff.store.sources import zip_directory as zip_format
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.samples import write_image
from range_server import serving_ranges

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

GROUP = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'
BYTES = random.Random(0).randbytes(5000)
FILLING = random.Random(1).randbytes(400_000)
OLD = 1_700_000_000


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_store, "PAUSES", ())
    with serving_ranges(tmp_path) as server:
        yield server
    server_access.resume_reading()


def put_zip(folder, entries, name="a.ozx", seconds=OLD):
    """Write an archive of stored entries; the size depends on the entries alone."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for key, data in entries.items():
            archive.writestr(zipfile.ZipInfo(key), data)
    put(folder, content.getvalue(), name, seconds)
    return content.getvalue()


def put(folder, content, name="a.ozx", seconds=OLD):
    aside = folder / f"{name}.aside"
    aside.write_bytes(content)
    os.utime(aside, (seconds, seconds))
    os.replace(aside, folder / name)


def usual():
    return {
        "zarr.json": GROUP,
        "0/zarr.json": GROUP,
        "0/c/0": BYTES,
        "0/c/1": FILLING,
        "0/c/2": bytes(5000),
    }


def archive_of(server, name="a.ozx"):
    return find_location(f"{server.address}/{name}").source


# -------- requests --------


def test_objects_and_parts_of_them(server, tmp_path):
    put_zip(tmp_path, usual())
    source = archive_of(server)
    assert source.name == f"{server.address}/a.ozx"
    assert source.traits.at_once == 64
    assert source.find_root() == ""
    for key, data in usual().items():
        assert source.get(key) == data
        assert source.get(key, 0, 10) == data[:10]
        assert source.get(key, 17, 100) == data[17:117]
        assert source.get(key, -20, 7) == data[-20:-13]
        assert source.get(key, -20) == data[-20:]
        assert source.get(key, 20, 10**7) == data[20:]
        assert source.get(key, 0, 0) == b""
    assert source.get("nothing") is None
    assert source.list_names("0/c") == ("0", "1", "2")
    assert {path for path, _ in server.asked} == {"/a.ozx"}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """An archive of 100,000 chunks in the order of RFC-9."""
    folder = tmp_path_factory.mktemp("many")
    chunks = {f"0/c/{n // 1000}/{n % 1000}": b"%06d" % n for n in range(100_000)}
    document = array_document((100 * 6, 1000), (6, 1))
    put_zip(folder, {"zarr.json": GROUP, "0/zarr.json": document, **chunks})
    return folder


def array_document(shape, chunks):
    import json

    content = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint8",
        "fill_value": 0,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": chunks},
        },
        "chunk_key_encoding": {"name": "default"},
        "codecs": [{"name": "bytes"}],
    }
    return json.dumps(content).encode()


def test_a_large_directory_takes_three_requests_at_most(server, many):
    server.folder = many
    source = archive_of(server)
    assert 1 < len(server.asked) <= 3
    assert all(server.ranges_asked)
    size = (many / "a.ozx").stat().st_size
    assert server.nbytes < len(source.archive.directory) + 200_000 < size
    server.asked.clear()
    assert source.get("zarr.json") == GROUP
    assert b"array" in source.get("0/zarr.json")
    assert len(server.asked) == 1, "metadata that comes first is read in one go"
    server.asked.clear()
    assert source.get("0/c/7/7") == b"007007"
    assert len(server.asked) == 1


def test_a_small_directory_takes_one(server, tmp_path):
    put_zip(tmp_path, usual())
    archive_of(server)
    assert server.ranges_asked == [f"bytes=-{128 << 10}"]


def test_zip64(server, tmp_path):
    content = put_zip(tmp_path, usual())
    end = content.rindex(b"PK\x05\x06")
    _, _, _, _, count, length, start, _ = zip_format.END.unpack_from(content, end)
    # The record is far before its locator.
    end64 = zip_format.END64.pack(
        b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, end - length
    )
    locator = zip_format.LOCATOR.pack(b"PK\x06\x07", 0, end, 1)
    ones = zip_format.END.pack(
        b"PK\x05\x06", 0, 0, 65535, 65535, 2**32 - 1, 2**32 - 1, 0
    )
    assert start == end - length
    put(tmp_path, content[:end] + end64 + locator + ones)
    source = archive_of(server)
    assert len(server.asked) == 1
    for key, data in usual().items():
        assert source.get(key) == data
    assert zipfile.ZipFile(tmp_path / "a.ozx").read("0/c/0") == BYTES


def read_plane(array):
    return array.read(tuple((0, n) for n in array.shape))


def test_neighbours_are_read_together(server, many, monkeypatch):
    # However busy the machine is.
    monkeypatch.setattr(remote_file, "GATHER", 0.1)
    server.folder = many
    array = open_array(archive_of(server), "0")
    server.asked.clear()
    server.latency = 0.05
    part = array.read(((60, 66), (100, 500)))
    wanted = [[b"%06d" % (10_000 + n) for n in range(100, 500)]]
    np.testing.assert_array_equal(part.T.copy().view("S6").T, wanted)
    assert len(server.asked) <= 400 // 10


def test_chunks_are_read_by_many_requests_at_once(server, tmp_path):
    chunks = {f"0/c/{n}/0": FILLING for n in range(24)}
    document = array_document((24 * 1000, 400), (1000, 400))
    put_zip(tmp_path, {"zarr.json": GROUP, "0/zarr.json": document, **chunks})
    array = open_array(archive_of(server), "0")
    server.latency = 0.1
    image = read_plane(array)
    assert image[:1000].tobytes() == image[-1000:].tobytes() == FILLING
    assert server.most_in_flight > 6


@pytest.fixture
def sharded(tmp_path):
    data = np.arange(512 * 512, dtype="u4").reshape(512, 512)
    attributes = {"ome": {"version": "0.5"}}
    root = zarr.open_group(tmp_path / "s.zarr", mode="w", attributes=attributes)
    root.create_array("0", data=data, chunks=(64, 64), shards=(256, 256))
    pack_hierarchy(tmp_path / "s.zarr", tmp_path / "s.ozx")
    os.utime(tmp_path / "s.ozx", (OLD, OLD))
    return data


def test_of_a_shard_only_parts_are_read(server, sharded):
    array = open_array(archive_of(server, "s.ozx"), "0")
    server.asked.clear()
    before = server.nbytes
    np.testing.assert_array_equal(array.read(((0, 64), (0, 64))), sharded[:64, :64])
    # The header of the entry with the chunk or the index of the shard, and the other.
    assert len(server.asked) <= 3
    assert server.nbytes - before < 70_000
    server.asked.clear()
    np.testing.assert_array_equal(
        array.read(((64, 128), (64, 128))), sharded[64:128, 64:128]
    )
    assert len(server.asked) == 1
    np.testing.assert_array_equal(read_plane(array), sharded)
    server.asked.clear()
    kept = array.cached_chunk((1, 1))
    np.testing.assert_array_equal(kept, sharded[64:128, 64:128])
    assert array.cached_chunk((9, 9)) is None
    assert not server.asked


def test_metadata_in_any_other_order_is_read(server, tmp_path):
    put_zip(tmp_path, dict(reversed(usual().items())))
    source = archive_of(server)
    assert {key: source.get(key) for key in usual()} == usual()


def test_a_document_is_asked_for_once_by_many_threads(server, many):
    server.folder = many
    source = archive_of(server)
    server.asked.clear()
    server.latency = 0.05
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(source.get, ["zarr.json"] * 8)) == {GROUP}
    assert len(server.asked) == 1


def test_extra_fields_of_any_length(server, tmp_path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for number, (key, data) in enumerate(usual().items()):
            info = zipfile.ZipInfo(key)
            info.extra = struct.pack("<HH", 0x7777, 4 * number) + bytes(4 * number)
            archive.writestr(info, data)
    put(tmp_path, content.getvalue())
    source = archive_of(server)
    for key in reversed(usual()):
        assert source.get(key, 1, 50) == usual()[key][1:51]
        assert source.get(key) == usual()[key]


# -------- one version --------


@pytest.mark.parametrize("version", ["tag", "date", "tag, date", "weak tag, date"])
@pytest.mark.parametrize("heeds", [True, False], ids=["heeds", "ignores"])
def test_two_versions_are_never_mixed(server, tmp_path, version, heeds):
    server.version, server.heeds_conditions = version, heeds
    put_zip(tmp_path, usual())
    source = archive_of(server)
    assert source.get("0/c/1", 7, 100) == FILLING[7:107]
    assert server.conditions[0] == ""
    assert server.conditions[-1].startswith('"' if version[0] == "t" else "Tue, 14 Nov")
    other = {**usual(), "0/c/1": FILLING[::-1], "0/c/0": BYTES[::-1]}
    put_zip(tmp_path, other, seconds=OLD + 60)
    for start in (None, 20):
        with pytest.raises(FileChangedError) as reported:
            source.get("0/c/1", start, start and 10)
    assert str(reported.value) == (
        f"{server.address}/a.ozx was changed on the server while it was open. Pixels"
        " of two versions are never mixed, so nothing more of it is read. Close it, and"
        " open it again."
    )
    before = len(server.asked)
    with pytest.raises(FileChangedError):
        source.get("0/c/1")
    assert len(server.asked) == before
    assert archive_of(server).get("0/c/1") == FILLING[::-1]


@pytest.mark.parametrize("version", ["", "weak tag", "recent date"])
def test_without_a_version_checksums_tell(server, tmp_path, version):
    server.version = version
    seconds = OLD * 2 if "recent" in version else OLD
    put_zip(tmp_path, usual(), seconds=seconds)
    source = archive_of(server)
    # A part is cut out of the whole, whose checksum is compared.
    assert source.get("0/c/1", 7, 100) == FILLING[7:107]
    other = {**usual(), "0/c/1": FILLING[::-1], "0/c/0": BYTES[::-1]}
    put_zip(tmp_path, other, seconds=seconds)
    fresh = archive_of(server)
    assert source.get("0/c/1", 7, 100) == FILLING[7:107]
    put_zip(tmp_path, usual(), seconds=seconds)
    with pytest.raises(CorruptDataError, match=r"wrong checksum at 0/c/1"):
        fresh.get("0/c/1", 7, 100)


@pytest.mark.parametrize("change", ["shorter", "longer", "gone"])
def test_a_file_of_another_length_is_another_one(server, tmp_path, change):
    server.version, server.heeds_conditions = "", False
    put_zip(tmp_path, usual())
    source = archive_of(server)
    if change == "gone":
        (tmp_path / "a.ozx").unlink()
    else:
        length = 40 if change == "shorter" else 600_000
        put_zip(tmp_path, {"zarr.json": GROUP, "0/c/1": bytes(length)})
    with pytest.raises(FileChangedError):
        source.get("0/c/1")


def test_a_chunk_of_a_changed_file_advises_to_open_it_again(server, tmp_path):
    document = array_document((1000, 800), (1000, 400))
    entries = {"zarr.json": GROUP, "0/zarr.json": document, "0/c/0/0": FILLING}
    put_zip(tmp_path, {**entries, "0/c/0/1": FILLING, "x": FILLING})
    array = open_array(archive_of(server), "0")
    put_zip(
        tmp_path, {**entries, "0/c/0/1": FILLING[::-1], "x": FILLING}, seconds=OLD + 9
    )
    with pytest.raises(ChunkError) as reported:
        read_plane(array)
    text = str(reported.value)
    assert "was changed on the server while it was open" in text
    assert text.endswith("Close it, and open it again.")
    assert text.count(server.address) == 1


def test_another_process_does_not_read_another_version(server, tmp_path):
    put_zip(tmp_path, usual())
    source = archive_of(server)
    copy = pickle.loads(pickle.dumps(source))
    assert copy.get("0/c/1") == FILLING
    kept = pickle.dumps(source)
    put_zip(tmp_path, usual(), seconds=OLD + 9)
    os.utime(tmp_path / "a.ozx", (OLD + 9, OLD + 9))
    server.version = "date"
    with pytest.raises(FileChangedError):
        pickle.loads(kept)


# -------- servers that are not made for it --------


def test_a_small_file_comes_as_a_whole_where_there_are_no_parts(server, tmp_path):
    server.ranges = False
    put_zip(tmp_path, usual())
    source = archive_of(server)
    assert {key: source.get(key) for key in usual()} == usual()
    assert source.get("0/c/1", 7, 100) == FILLING[7:107]
    assert len(server.asked) == 1


@pytest.mark.parametrize("length", ["stated", "not stated"])
def test_a_large_file_needs_parts(server, tmp_path, monkeypatch, length):
    monkeypatch.setattr(http_server, "LARGEST_WHOLE", 300_000)
    server.ranges = False
    put_zip(tmp_path, {**usual(), "x": bytes(3 << 20)})
    server.lies = {"Content-Length": None} if length == "not stated" else {}
    with pytest.raises(UnsupportedError) as reported:
        archive_of(server)
    size = "3 MB" if length == "stated" else "more than 64 MB"
    assert str(reported.value) == (
        f"{server.address}/a.ozx has {size}, and the server sends no parts of files, by"
        " which a zipped OME-Zarr is read. Download the file and open it, or have it"
        " unpacked on the server."
    )
    assert len(server.asked) <= 2


def test_a_server_that_counts_only_from_the_beginning(server, tmp_path, monkeypatch):
    monkeypatch.setattr(http_server, "LARGEST_WHOLE", 300_000)
    server.suffixes = False
    put_zip(tmp_path, usual())
    source = archive_of(server)
    assert len(server.asked) == 2
    assert source.get("0/c/1") == FILLING


@pytest.mark.parametrize("ranges", [True, False])
def test_a_web_page(server, tmp_path, ranges):
    server.ranges = ranges
    server.content_type = "text/html; charset=utf-8"
    put(tmp_path, b"<!doctype html><title>Log in</title>" * 100)
    with pytest.raises(CorruptDataError) as reported:
        archive_of(server)
    assert str(reported.value) == (
        f"The server sent a web page for {server.address}/a.ozx. {CHECK_ADDRESS}"
    )


def peak_of(call):
    tracemalloc.start()
    try:
        with pytest.raises(OMEZarrError) as reported:
            call()
        return tracemalloc.get_traced_memory()[1], reported.value
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "lies",
    [
        {"Content-Range": "bytes 0-9/99999999999999"},
        {"Content-Range": "bytes 99999999868927-99999999999998/99999999999999"},
        {"Content-Range": "nonsense"},
        {"Content-Range": f"bytes {'9' * 5000}-{'9' * 5000}/{'9' * 5000}"},
        {"Content-Encoding": "gzip"},
        {"Content-Length": "12"},
    ],
    ids=["elsewhere", "huge", "nonsense", "digits", "gzip", "short"],
)
def test_lying_headers(server, tmp_path, lies):
    put_zip(tmp_path, usual())
    server.lies = lies
    peak, _ = peak_of(lambda: archive_of(server).get("0/c/1"))
    assert peak < 8 << 20


@pytest.mark.parametrize("ranges", [True, False])
def test_a_body_without_an_end(server, tmp_path, monkeypatch, ranges):
    monkeypatch.setattr(http_server, "LARGEST_WHOLE", 4 << 20)
    put(tmp_path, bytes(200_000))
    server.ranges, server.endless = ranges, True
    server.lies = {"Content-Length": None}
    peak, _ = peak_of(lambda: archive_of(server))
    assert peak < 16 << 20


def test_an_entry_that_claims_terabytes(server, tmp_path):
    content = bytearray(put_zip(tmp_path, usual()))
    entry = content.rindex(b"0/c/1") - 46
    content[entry + 20 : entry + 28] = b"\xf0\xff\xff\xff" * 2
    put(tmp_path, bytes(content))
    source = archive_of(server)
    peak, error = peak_of(lambda: source.get("0/c/1"))
    assert "cut off inside 0/c/1" in str(error)
    assert "uploaded" in str(error)
    assert peak < 1 << 20


def test_what_is_not_there_or_not_allowed(server, tmp_path):
    with pytest.raises(NodeNotFoundError, match=r"404 Not Found for .*/b\.ozx"):
        archive_of(server, "b.ozx")
    (tmp_path / "empty.ozx").touch()
    with pytest.raises(CorruptDataError, match="is empty"):
        archive_of(server, "empty.ozx")
    put_zip(tmp_path, usual())
    server.query = "token=s3cret%2B1"
    with pytest.raises(AccessError):
        archive_of(server)
    source = archive_of(server, "a.ozx?token=s3cret%2B1")
    assert source.get("0/c/1") == FILLING
    assert "s3cret" not in source.name + repr(source)
    server.query = "token=other"
    with pytest.raises(AccessError) as reported:
        source.get("0/c/1")
    assert "s3cret" not in str(reported.value)


def test_a_server_that_fails_is_reported_and_asked_again(server, tmp_path):
    put_zip(tmp_path, usual())
    source = archive_of(server)
    folder, server.folder = server.folder, None
    with pytest.raises(ServerError, match=r"a\.ozx did not come"):
        source.get("0/c/1")
    server.folder = folder
    assert source.get("0/c/1") == FILLING


# -------- addresses --------


@pytest.fixture
def image(tmp_path):
    write_image(tmp_path / "i.zarr", "0.5", shape=(300, 400), chunk=64)
    pack_hierarchy(tmp_path / "i.zarr", tmp_path / "i.ozx")


def same_pixels(node, local):
    pairs = zip(open_pyramid(node).levels, open_pyramid(local).levels, strict=True)
    for level, true in pairs:
        whole = tuple((0, n) for n in true.shape)
        np.testing.assert_array_equal(level.read(whole), true.read(whole))


def test_images_and_groups_of_an_archive(server, tmp_path, image):
    local = open_node(tmp_path / "i.ozx")
    for end in ("", "/", "/zarr.json"):
        same_pixels(open_node(f"{server.address}/i.ozx{end}"), local)
    assert open_node(f"{server.address}/i.ozx").location.name == "i"
    inner = open_node(f"{server.address}/i.ozx/labels")
    assert str(inner) == f"{server.address}/i.ozx/labels"


def test_a_nested_root_and_a_folder_like_an_archive(server, tmp_path, image):
    files = (tmp_path / "i.zarr").rglob("*")
    with zipfile.ZipFile(tmp_path / "n.zip", "w") as archive:
        for file in files:
            archive.write(file, file.relative_to(tmp_path))
    local = open_node(tmp_path / "i.ozx")
    node = open_node(f"{server.address}/n.zip")
    same_pixels(node, local)
    assert str(node) == f"{server.address}/n.zip/i.zarr"
    same_pixels(open_node(str(node)), local)
    (tmp_path / "folder.zip").mkdir()
    (tmp_path / "i.zarr").rename(tmp_path / "folder.zip" / "i.zarr")
    same_pixels(open_node(f"{server.address}/folder.zip/i.zarr"), local)
