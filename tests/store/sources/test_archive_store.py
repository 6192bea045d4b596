import contextlib
import gc
import json
import os
import pickle
import random
import struct
import sys
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_ngff.errors import (
    CorruptDataError,
    NodeNotFoundError,
    NotOMEZarrError,
    UnsupportedError,
)
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.sources import zip_directory as zip_format
from napari_ngff.store.sources.archive_store import ArchiveStore, open_zip
from napari_ngff.store.store import Store

GROUP = b'{"zarr_format": 3, "node_type": "group", "attributes": {}}'
COMMENT = b'{"ome": {"version": "0.5"}}'
BYTES = bytes(random.Random(0).randbytes(5000))
ZEROS = bytes(5000)


def make_zip(path, entries, method=zipfile.ZIP_STORED, comment=COMMENT, zip64=False):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            with archive.open(name, "w", force_zip64=zip64) as file:
                file.write(data)
        archive.comment = comment
    return path


def usual(prefix=""):
    entries = {"zarr.json": GROUP, "0/zarr.json": GROUP, "0/c/0": BYTES, "0/c/1": ZEROS}
    return {prefix + name: data for name, data in entries.items()}


def codes(source):
    return {problem.code for problem in source.problems}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("zip64", [False, True])
@pytest.mark.parametrize("comment", [b"", COMMENT, b"x" * 65535])
def test_objects_and_parts_of_them(tmp_path, method, zip64, comment):
    source = open_zip(make_zip(tmp_path / "a.ozx", usual(), method, comment, zip64))
    assert isinstance(source, Store)
    assert source.name == str(tmp_path / "a.ozx")
    assert source.traits.at_once == os.cpu_count()
    for name, data in usual().items():
        assert source.get(name) == data
    assert source.get("nothing") is None
    assert source.get("0") is None
    for key, data in ("0/c/0", BYTES), ("0/c/1", ZEROS):
        assert source.get(key, 0, 10) == data[:10]
        assert source.get(key, 17, 100) == data[17:117]
        assert source.get(key, -20, 7) == data[-20:-13]
        assert source.get(key, -20) == data[-20:]
        assert source.get(key, 4990, 100) == data[4990:]
        assert source.get(key, 6000, 10) == b""
        assert source.get(key, -6000) == data
        assert source.get(key, 0, 0) == b""


def test_names(tmp_path):
    entries = dict.fromkeys(
        ("zarr.json", "a", "a-b/x", "a/x", "a/y/z", "a0/q", "b/c/", "é/0"), b""
    )
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    source = ArchiveStore(path)
    assert source.list_names("") == ("a", "a-b", "a0", "b", "zarr.json", "é")
    assert source.list_names("a") == source.list_names("a/") == ("x", "y")
    assert source.list_names("a/y") == ("z",)
    assert source.list_names("b") == ("c",)
    assert source.list_names("b/c") == ()
    assert source.list_names("nowhere") == ()
    assert source.get("b/c/") in (None, b"")


NAMES = st.lists(
    st.lists(
        st.sampled_from(["a", "b", "a.b", "a-", "0", "é"]), min_size=1, max_size=4
    ),
    max_size=12,
)


@given(NAMES)
@settings(max_examples=100, deadline=None)
def test_names_are_those_of_the_folders(tmp_path_factory, parts):
    keys = {"/".join(p) for p in parts}
    path = tmp_path_factory.mktemp("zip") / "a.zip"
    make_zip(path, dict.fromkeys(keys, b"x"))
    source = ArchiveStore(path)
    for prefix in ("", "a", "a/b", "a.b", "0"):
        base = f"{prefix}/" if prefix else ""
        below = {k[len(base) :].split("/")[0] for k in keys if k.startswith(base)}
        assert source.list_names(prefix) == tuple(sorted(below, key=str.encode))


def test_the_last_of_one_name_counts(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("zarr.json", GROUP)
        archive.writestr("0", b"old")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("0", b"newer")
    source = open_zip(path)
    assert source.get("0") == b"newer"
    assert source.list_names("") == ("0", "zarr.json")


def test_names_of_other_systems(tmp_path):
    path = make_zip(
        tmp_path / "a.zip", {"zarr.json": GROUP, "A+b+x": b"1", "./y": b"2"}
    )
    data = path.read_bytes().replace(b"A+b+x", b"A\\b\x81x")
    path.write_bytes(data)
    source = open_zip(path)
    assert source.get("A/büx") == b"1"
    assert source.get("y") == b"2"
    assert source.list_names("") == ("A", "y", "zarr.json")


def test_bytes_before_the_archive(tmp_path):
    for zip64 in (False, True):
        path = make_zip(tmp_path / "a.zip", usual(), zip64=zip64)
        path.write_bytes(b"#!/bin/sh\n" * 10 + path.read_bytes())
        assert open_zip(path).get("0/c/0") == BYTES


def test_comment_that_looks_like_an_end(tmp_path):
    comment = b"PK\x05\x06" + b"\xff" * 30
    source = open_zip(make_zip(tmp_path / "a.zip", usual(), comment=comment))
    assert source.get("0/c/0") == BYTES
    assert source.comment == comment


def write_end64(path):
    """Replace the end record by a ZIP64 one, its own numbers all ones."""
    data = path.read_bytes()
    at = data.rfind(b"PK\x05\x06")
    end = zip_format.END.unpack_from(data, at)
    count, length, offset = end[4:7]
    end64 = zip_format.END64.pack(
        b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, offset
    )
    locator = zip_format.LOCATOR.pack(b"PK\x06\x07", 0, at, 1)
    ones = zip_format.END.pack(
        b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, end[7]
    )
    path.write_bytes(data[:at] + end64 + locator + ones + data[at + 22 :])


def test_zip64_end(tmp_path):
    path = make_zip(tmp_path / "a.zip", usual())
    write_end64(path)
    source = open_zip(path)
    assert source.get("0/c/0") == BYTES
    assert source.comment_version == "0.5"
    path.write_bytes(b"#" * 77 + path.read_bytes())
    assert open_zip(path).get("0/c/0") == BYTES


def test_zip64_sizes_and_offset_of_an_entry(tmp_path):
    path = make_zip(tmp_path / "a.zip", {"zarr.json": GROUP, "0": BYTES})
    data = path.read_bytes()
    at = data.rfind(b"PK\x01\x02")
    head = bytearray(data[at : at + 46])
    crc, stored, size = struct.unpack_from("<16xIII", head)
    (offset,) = struct.unpack_from("<42xI", head)
    struct.pack_into("<II", head, 20, 0xFFFFFFFF, 0xFFFFFFFF)
    struct.pack_into("<H", head, 30, 6 + 28)
    struct.pack_into("<I", head, 42, 0xFFFFFFFF)
    other = struct.pack("<HHH", 0x7777, 2, 5)
    extra = other + struct.pack("<HHQQQ", 1, 24, size, stored, offset)
    end = data.rfind(b"PK\x05\x06")
    start = zip_format.END.unpack_from(data, end)[6]
    directory = data[start:at] + bytes(head) + data[at + 46 : end] + extra
    tail = zip_format.END.pack(b"PK\x05\x06", 0, 0, 2, 2, len(directory), start, 0)
    path.write_bytes(data[:start] + directory + tail)
    assert open_zip(path).get("0") == BYTES
    assert crc


@pytest.mark.skipif(sys.platform == "win32", reason="sparse files")
def test_entry_beyond_four_gibibytes(tmp_path):
    """The hole before it takes no space on disk."""
    path = make_zip(tmp_path / "a.zip", usual())
    data = path.read_bytes()
    shift = 5 * 2**30
    with open(path, "wb") as file:
        file.truncate(shift)
        file.seek(shift)
        file.write(data)
    assert open_zip(path).get("0/c/0") == BYTES


def test_nested_root(tmp_path):
    path = make_zip(tmp_path / "a.zip", usual("img.zarr/") | {"__MACOSX/._x": b""})
    source = open_zip(path)
    assert source.root == "img.zarr"
    assert source.name == f"{path}/img.zarr"
    assert source.get("0/c/0") == BYTES
    assert source.list_names("") == ("0", "zarr.json")
    assert codes(source) == {"ozx-root-nested"}
    assert source.problems[0].severity == "error"
    assert pickle.loads(pickle.dumps(source)).get("0/c/0") == BYTES


def test_no_hierarchy_inside(tmp_path):
    with pytest.raises(NotOMEZarrError, match=r"a\.zip has no zarr\.json"):
        open_zip(make_zip(tmp_path / "a.zip", {"readme.txt": b""}))
    with pytest.raises(NotOMEZarrError, match=r"no zarr\.json"):
        open_zip(make_zip(tmp_path / "a.zip", {}))
    with pytest.raises(NotOMEZarrError, match=r"one\.zarr, two\.zarr"):
        open_zip(make_zip(tmp_path / "a.zip", usual("one.zarr/") | usual("two.zarr/")))
    with pytest.raises(NotOMEZarrError, match=r"deep/er/img\.zarr"):
        open_zip(make_zip(tmp_path / "a.zip", usual("deep/er/img.zarr/")))


def test_older_documents_make_a_root_too(tmp_path):
    entries = {".zgroup": b'{"zarr_format": 2}', ".zattrs": b"{}", "0/.zarray": b""}
    assert open_zip(make_zip(tmp_path / "a.zip", entries)).root == ""


def test_problems(tmp_path):
    good = open_zip(make_zip(tmp_path / "a.ozx", usual()))
    assert good.problems == ()
    assert good.comment_version == "0.5"
    bad = dict(reversed(usual().items()))
    path = make_zip(tmp_path / "b.ozx", bad, zipfile.ZIP_DEFLATED, b'{"ome": 5}')
    source = open_zip(path)
    assert source.comment_version is None
    assert codes(source) == {
        "ozx-comment-missing",
        "ozx-entry-compressed",
        "ozx-json-not-first",
    }
    assert all('"' in problem.text for problem in source.problems)
    late = usual() | {"1/zarr.json": GROUP}
    assert codes(open_zip(make_zip(tmp_path / "c.ozx", late))) == {"ozx-json-not-first"}


def test_null_terminated_comment(tmp_path):
    path = make_zip(tmp_path / "a.ozx", usual(), comment=COMMENT + b"\0")
    assert open_zip(path).comment_version == "0.5"


@pytest.mark.parametrize("cut", [1, 10, 21, 22, 50, 400, 5000, -1])
def test_truncated(tmp_path, cut):
    path = make_zip(tmp_path / "a.ozx", usual())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - cut] if cut > 0 else b"")
    with pytest.raises(CorruptDataError, match=r"a\.ozx.*again"):
        open_zip(path)


def test_directory_without_all_its_entries(tmp_path):
    path = make_zip(tmp_path / "a.zip", usual(), comment=b"")
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, len(data) - 12, 9)
    path.write_bytes(data)
    with pytest.raises(CorruptDataError, match="lists 4 of 9 entries"):
        open_zip(path)


def test_not_a_zip_and_not_there(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(random.Random(1).randbytes(100_000))
    with pytest.raises(CorruptDataError, match="not a zip archive"):
        open_zip(path)
    with pytest.raises(NodeNotFoundError, match=r"nothing\.zip"):
        open_zip(tmp_path / "nothing.zip")


def test_split_archive(tmp_path):
    path = make_zip(tmp_path / "a.zip", usual(), comment=b"")
    data = bytearray(path.read_bytes())
    struct.pack_into("<HH", data, len(data) - 18, 2, 1)
    path.write_bytes(data)
    with pytest.raises(UnsupportedError, match="SHALL NOT be split"):
        open_zip(path)


def patch_entry(path, name, at, layout, *values):
    """Overwrite fields of an entry of the directory."""
    data = bytearray(path.read_bytes())
    found = data.rfind(name)
    struct.pack_into(layout, data, found - 46 + at, *values)
    path.write_bytes(data)


def test_encrypted_and_unknown_methods_name_the_entry(tmp_path):
    path = make_zip(tmp_path / "a.zip", usual())
    patch_entry(path, b"0/c/0", 8, "<H", 1)
    with pytest.raises(UnsupportedError, match=r"0/c/0 in .* encrypted"):
        open_zip(path).get("0/c/0")
    path = make_zip(tmp_path / "b.zip", usual(), zipfile.ZIP_BZIP2)
    with pytest.raises(UnsupportedError, match=r"0/c/0 in .* method 12"):
        open_zip(path).get("0/c/0")


def test_damage_is_noticed_where_it_is_checked(tmp_path):
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = make_zip(tmp_path / "a.zip", usual(), method)
        for name in (b"0/zarr.json", b"0/c/0"):
            patch_entry(path, name, 16, "<I", 12345)
        source = open_zip(path)
        with pytest.raises(CorruptDataError, match=r"checksum at 0/zarr\.json"):
            source.get("0/zarr.json")
        if method == zipfile.ZIP_DEFLATED:
            with pytest.raises(CorruptDataError, match="checksum at 0/c/0"):
                source.get("0/c/0")
        assert source.get("0/c/1") == ZEROS


def test_directory_that_points_elsewhere(tmp_path):
    path = make_zip(tmp_path / "a.zip", usual())
    patch_entry(path, b"0/c/0", 42, "<I", 3)
    with pytest.raises(CorruptDataError, match="does not hold 0/c/0"):
        open_zip(path).get("0/c/0")
    patch_entry(path, b"0/c/1", 20, "<I", 10**6)
    with pytest.raises(CorruptDataError, match="cut off inside 0/c/1"):
        open_zip(path).get("0/c/1")


def test_directory_with_a_damaged_entry(tmp_path):
    path = make_zip(tmp_path / "a.zip", usual())
    patch_entry(path, b"0/c/0", 0, "<I", 0)
    with pytest.raises(CorruptDataError, match="damaged directory"):
        open_zip(path).get("0/c/0")


def test_deflated_entry_larger_than_it_says(tmp_path):
    path = make_zip(
        tmp_path / "a.zip",
        {"zarr.json": GROUP, "0": bytes(50 * 2**20)},
        zipfile.ZIP_DEFLATED,
    )
    patch_entry(path, b"0PK", 24, "<I", 1000)
    source = open_zip(path)
    gc.collect()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptDataError, match="at 0: holds more than the 1000"):
            source.get("0")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_deflated_entry_that_claims_the_machine(tmp_path):
    path = make_zip(tmp_path / "a.zip", usual(), zipfile.ZIP_DEFLATED)
    patch_entry(path, b"0/c/1", 24, "<I", 2**31)
    with pytest.raises(CorruptDataError, match="claims 2147483648 bytes in 0/c/1"):
        open_zip(path).get("0/c/1")


@given(st.integers(0, 10**6), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_flipped_bytes_raise_our_errors_or_nothing(tmp_path_factory, at, value):
    folder = tmp_path_factory.mktemp("zip")
    path = make_zip(folder / "a.zip", usual(), zipfile.ZIP_DEFLATED)
    data = bytearray(path.read_bytes())
    # Where it matters: the directory and the end, not the 5000 random bytes.
    start = zip_format.END.unpack_from(data, len(data) - 22 - len(COMMENT))[6]
    data[start + at % (len(data) - start)] ^= value
    path.write_bytes(data)
    try:
        source = open_zip(path)
        source.list_names("")
        assert source.problems is not None
        for name in usual():
            source.get(name)
            source.get(name, -5, 5)
    except (CorruptDataError, UnsupportedError, NotOMEZarrError):
        pass


def test_closing(tmp_path):
    path = make_zip(tmp_path / "a.ozx", usual())
    with_handle = ArchiveStore(path)
    handle = with_handle.archive.file._handle
    with_handle.close()
    with_handle.close()
    assert handle.closed
    with pytest.raises(ValueError, match="closed"):
        with_handle.get("0/c/0")
    dropped = ArchiveStore(path)
    handle = dropped.archive.file._handle
    del dropped
    gc.collect()
    assert handle.closed
    if Path("/proc/self/fd").exists():
        path.write_bytes(b"no zip")
        with pytest.raises(CorruptDataError) as failure:
            ArchiveStore(path)
        # The error holds the half-made archive: nothing else closes its file.
        assert failure.value.__traceback__ is not None
        assert str(path) not in list_open_files()


def list_open_files():
    """List the files of this process; threads of other tests may close theirs."""
    paths = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            paths.append(os.readlink(f"/proc/self/fd/{name}"))
    return paths


def test_an_open_archive_survives_its_replacement(tmp_path):
    path = make_zip(tmp_path / "a.ozx", usual())
    source = open_zip(path)
    try:
        os.replace(make_zip(tmp_path / "b.ozx", {"zarr.json": GROUP}), path)
    except PermissionError:
        pytest.skip("this system keeps open files from being replaced")
    assert source.get("0/c/0") == BYTES
    assert pickle.loads(pickle.dumps(source)).get("0/c/0") is None


def test_reading_without_pread(tmp_path, monkeypatch):
    """As on Windows."""
    for name in ("pread", "preadv"):
        monkeypatch.delattr(os, name, raising=False)
    source = open_zip(make_zip(tmp_path / "a.ozx", usual()))
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: source.get("0/c/0"), range(50))) == {BYTES}


def pack_folder(folder, path, method=zipfile.ZIP_STORED):
    files = sorted(p for p in Path(folder).rglob("*") if p.is_file())
    entries = {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}
    return make_zip(path, entries, method)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("shards", [None, (64, 64)])
@pytest.mark.parametrize("codec", ["auto", None])
def test_arrays_inside_from_many_threads(tmp_path, method, shards, codec):
    values = np.random.default_rng(0).integers(0, 200, (200, 150)).astype("u2")
    zarr.open_group(tmp_path / "z", mode="w")
    array = zarr.create_array(
        tmp_path / "z" / "0",
        shape=values.shape,
        chunks=(16, 16),
        shards=shards,
        dtype="u2",
        compressors=codec,
    )
    array[...] = values
    source = open_zip(pack_folder(tmp_path / "z", tmp_path / "a.ozx", method))
    ours = open_array(source, "0")
    np.testing.assert_array_equal(ours[...], values)
    ours.forget_chunks()
    boxes = np.random.default_rng(1).integers(0, 100, (60, 2)).tolist()

    def check(start):
        y, x = start
        part = ours.read(((y, y + 50), (x, x + 50)))
        return (part == values[y : y + 50, x : x + 50]).all()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(check, boxes))


def test_shard_larger_than_two_mebibytes(tmp_path):
    values = np.random.default_rng(0).integers(0, 2**16, (2048, 1024)).astype("u2")
    zarr.open_group(tmp_path / "z", mode="w")
    array = zarr.create_array(
        tmp_path / "z" / "0",
        shape=values.shape,
        chunks=(256, 256),
        shards=values.shape,
        dtype="u2",
    )
    array[...] = values
    ours = open_array(open_zip(pack_folder(tmp_path / "z", tmp_path / "a.ozx")), "0")
    np.testing.assert_array_equal(ours[1500:1700, 300:900], values[1500:1700, 300:900])


def test_deflated_entries_are_inflated_once(tmp_path):
    shard = bytes(40 * 2**20)
    entries = {"zarr.json": GROUP, "0": shard}
    source = open_zip(make_zip(tmp_path / "a.zip", entries, zipfile.ZIP_DEFLATED))
    source.get("0", 0, 10)
    source.archive.close()
    assert source.get("0", -10, 10) == bytes(10)


def test_comment_is_not_metadata(tmp_path):
    comment = json.dumps({"ome": {"version": 5}}).encode()
    path = make_zip(tmp_path / "a.ozx", usual(), comment=comment)
    assert open_zip(path).comment_version is None
