"""A source that changes while it is converted: the error names it, nothing is made."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

import napari_ngff
from buckets import bucket_server
from napari_ngff import convert
from napari_ngff.errors import ConflictError, FileChangedError
from napari_ngff.store.convert import array_task
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.write import new_hierarchy
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.testing import write_image
from range_server import serving_ranges

KEY = "0/0/1/1/1"
"""A chunk of the finest level that is not the first of its unit."""


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(array_task, "KEPT", 1_000_000)
    monkeypatch.setattr(array_task, "CODED", 1_000_000)
    folder = tmp_path / "from"
    folder.mkdir()
    return write_image(folder / "cells.ome.zarr", "0.4", shape=(1, 300, 300))


def pixels_of(path, name: str) -> np.ndarray:
    return np.asarray(zarr.open_group(str(path), mode="r")[name][...])


def at_the_end(change):
    """Make a progress that calls a function once, when all pixels are done."""
    waiting = [change]

    def progress(done: int, total: int) -> None:
        if done == total and waiting:
            waiting.pop()()

    return progress


def replace_chunk(source: Path) -> None:
    """Put another chunk there, with the time of the old one."""
    status = (source / KEY).stat()
    copy = source.parent / "copy"
    shutil.copy(source / "0/0/0/0/0", copy)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(copy, source / KEY)


@pytest.mark.parametrize("asked", [{}, {"codec": "gzip"}], ids=["kept", "coded"])
def test_a_file_is_replaced(source, tmp_path, asked) -> None:
    made = tmp_path / "made.ome.zarr"
    change = at_the_end(lambda: replace_chunk(source))
    with pytest.raises(ConflictError, match=f"cells.ome.zarr/{KEY} was changed"):
        convert(source, made, progress=change, **asked)
    assert not made.exists()
    convert(source, made, resume=True, **asked)
    assert np.array_equal(pixels_of(source, "0"), pixels_of(made, "0"))


def test_files_are_removed_and_new(source, tmp_path) -> None:
    made = tmp_path / "made.ome.zarr"
    data = (source / KEY).read_bytes()
    (source / KEY).unlink()
    change = at_the_end(lambda: (source / KEY).write_bytes(data))
    with pytest.raises(ConflictError, match=f"{KEY} was changed"):
        convert(source, made, progress=change)
    change = at_the_end((source / KEY).unlink)
    with pytest.raises(ConflictError, match=f"{KEY} was changed"):
        convert(source, made, progress=change, resume=True)
    assert not made.exists()


@pytest.mark.parametrize("name", [".zattrs", "1/.zarray", "labels/.zattrs"])
def test_metadata_change(source, tmp_path, name) -> None:
    made = tmp_path / "made.ome.zarr"

    def change() -> None:
        text = (source / name).read_text()
        (source / name).write_text(text.replace("{", '{"mine": 1, ', 1))

    with pytest.raises(ConflictError, match=f"cells.ome.zarr/{name} was changed"):
        convert(source, made, progress=at_the_end(change))
    assert not made.exists()
    # What was planned from the old ones is made again.
    convert(source, made, resume=True)
    if name == ".zattrs":
        assert napari_ngff.open_node(made).attributes["mine"] == 1


@pytest.mark.parametrize("damage", [False, True], ids=["replaced", "removed"])
def test_an_archive_is_replaced(source, tmp_path, damage) -> None:
    plain, file, made = tmp_path / "a.zarr", tmp_path / "a.ozx", tmp_path / "b.zarr"
    convert(source, plain)
    pack_hierarchy(plain, file)
    shutil.copy(file, tmp_path / "other")

    def change() -> None:
        if damage:
            file.unlink()
        else:
            os.replace(tmp_path / "other", file)

    with pytest.raises(ConflictError, match=r"a\.ozx was changed"):
        convert(file, made, progress=at_the_end(change))
    assert not made.exists()


# --- servers


@pytest.fixture
def server(source):
    pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    with serving_ranges(source.parent) as server:
        yield server


def change_bytes(file: Path) -> None:
    """Write other bytes of the same number, a second later."""
    status = file.stat()
    file.write_bytes(file.read_bytes()[::-1])
    later = status.st_mtime_ns + 1_000_000_000
    os.utime(file, ns=(later, later))


@pytest.mark.default_cases("True-tag, date")
@pytest.mark.parametrize("version", ["tag, date", "weak tag", "date"])
@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_of_a_web_server(source, server, tmp_path, version, ranges) -> None:
    server.version, server.ranges = version, ranges
    made = tmp_path / "made.ome.zarr"
    address = f"{server.address}/cells.ome.zarr"
    change = at_the_end(lambda: change_bytes(source / KEY))
    with pytest.raises(ConflictError, match=f"{address}/{KEY} was changed"):
        convert(address, made, progress=change)
    assert not made.exists()
    convert(address, made, resume=True)
    assert (made / f"0/c/{KEY[2:]}").read_bytes() == (source / KEY).read_bytes()
    change = at_the_end(lambda: (source / ".zattrs").write_text("{}"))
    with pytest.raises(ConflictError, match=r"cells\.ome\.zarr/\.zattrs was changed"):
        convert(address, tmp_path / "other.ome.zarr", progress=change)


def test_a_server_that_reports_nothing(source, server, tmp_path) -> None:
    server.version = ""
    made = tmp_path / "made.ome.zarr"
    convert(f"{server.address}/cells.ome.zarr", made)
    assert np.array_equal(pixels_of(source, "0"), pixels_of(made, "0"))


def test_an_archive_on_a_server(source, server, tmp_path) -> None:
    plain, made = tmp_path / "a.ome.zarr", tmp_path / "made.ome.zarr"
    convert(source, plain)
    file = source.parent / "a.ozx"
    pack_hierarchy(plain, file)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    change = at_the_end(lambda: change_bytes(file))
    with pytest.raises(FileChangedError, match=r"a\.ozx was changed"):
        convert(f"{server.address}/a.ozx", made, progress=change, unreadable="skip")
    assert not made.exists()


@pytest.mark.long
def test_an_object_of_a_bucket(source, tmp_path) -> None:
    with bucket_server() as files:
        files.mkdir("changing")
        address = "s3://changing/cells.ome.zarr"
        files.put(str(source), address, recursive=True)
        made = tmp_path / "made.ome.zarr"
        data = (source / KEY).read_bytes()[::-1]
        change = at_the_end(lambda: files.pipe(f"{address[5:]}/{KEY}", data))
        with pytest.raises(ConflictError, match=f"{address}/{KEY} was changed"):
            convert(address, made, progress=change)
        assert not made.exists()
        convert(address, made, resume=True)
        assert (made / f"0/c/{KEY[2:]}").read_bytes() == data


@pytest.mark.long
def test_parts_in_a_bucket_that_cannot_be_continued(
    source, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(new_hierarchy, "data_folder", lambda: tmp_path)
    with bucket_server() as files:
        files.mkdir("left")
        made = "s3://left/made.ome.zarr"
        change = at_the_end(lambda: (source / "1/.zattrs").write_text('{"mine": 1}'))
        (source / "1/.zattrs").write_text("{}")
        with pytest.raises(ConflictError, match=r"1/\.zattrs was changed"):
            convert(source, made, progress=change)
        there = files.find("left")
        with pytest.raises(FileExistsError, match="cannot be continued"):
            convert(source, made, resume=True)
        assert files.find("left") == there


def test_revisions_are_asked_for(source, server) -> None:
    place = RemoteStore(f"{server.address}/cells.ome.zarr")
    first = place.ask_revision(KEY)
    assert first is not None
    assert first.size == (source / KEY).stat().st_size
    assert server.nbytes == 1
    assert place.ask_revision("none") is None
    change_bytes(source / KEY)
    assert place.ask_revision(KEY) != first
    (source / "empty").write_bytes(b"")
    empty = place.ask_revision("empty")
    assert empty is not None
    assert empty.size == 0
