"""An archive as a folder: every byte of it, or nothing."""

import os
import signal
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr

from napari_ngff.errors import CorruptDataError, NotOMEZarrError
from napari_ngff.store.write import new_hierarchy
from napari_ngff.store.write.new_hierarchy import unpack_hierarchy
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.samples import write_image


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_image(tmp_path_factory.mktemp("in") / "cells.ome.zarr", shape=(96, 80))


@pytest.fixture
def archive(cells: Path, tmp_path: Path) -> Path:
    return pack_hierarchy(cells, tmp_path / "cells.ozx")


def content_of(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_folder_is_the_same_to_the_byte(
    cells: Path, archive: Path, tmp_path: Path
) -> None:
    folder = unpack_hierarchy(archive, tmp_path / "new" / "cells.ome.zarr")
    assert content_of(cells) == content_of(folder)


def test_large_entries_are_copied_in_parts(
    cells: Path, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_hierarchy, "PART", 100)
    folder = unpack_hierarchy(archive, tmp_path / "cells.ome.zarr")
    assert content_of(cells) == content_of(folder)


def test_an_archive_of_another_program_is_unpacked(cells: Path, tmp_path: Path) -> None:
    file = tmp_path / "cells.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(cells.rglob("*")):
            packed.write(path, Path("cells.ome.zarr") / path.relative_to(cells))
    folder = unpack_hierarchy(file, tmp_path / "out.ome.zarr")
    assert content_of(cells) == content_of(folder)


@pytest.mark.parametrize("part", [100, 2**24])
def test_a_damaged_chunk_leaves_nothing(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(new_hierarchy, "PART", part)
    with zipfile.ZipFile(archive) as packed:
        largest = max(packed.infolist(), key=lambda entry: entry.file_size)
    content = bytearray(archive.read_bytes())
    # The local header has a length of its extra field of its own.
    name, extra = struct.unpack_from("<HH", content, largest.header_offset + 26)
    content[largest.header_offset + 30 + name + extra + 5] ^= 255
    archive.write_bytes(content)
    with pytest.raises(CorruptDataError, match="wrong checksum at"):
        unpack_hierarchy(archive, tmp_path / "out.ome.zarr")
    assert os.listdir(tmp_path) == ["cells.ozx"]


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/evil", "C:/evil"])
def test_no_entry_is_written_elsewhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "in" / "bad.ozx"
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("zarr.json", b"{}")
        packed.writestr(name, b"evil")
    with pytest.raises(CorruptDataError, match="leads out of"):
        unpack_hierarchy(file, tmp_path / "in" / "out.ome.zarr")
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "bad.ozx"]


def test_what_is_there_stays(archive: Path, tmp_path: Path) -> None:
    folder = unpack_hierarchy(archive, tmp_path / "out.ome.zarr")
    (folder / "note.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="already exists"):
        unpack_hierarchy(archive, folder)
    assert (folder / "note.txt").exists()
    unpack_hierarchy(archive, folder, overwrite=True)
    assert not (folder / "note.txt").exists()
    other = tmp_path / "photos"
    other.mkdir()
    with pytest.raises(FileExistsError, match="not a zarr"):
        unpack_hierarchy(archive, other, overwrite=True)


def test_an_archive_without_zarr_is_an_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr("a.txt", b"a")
    with pytest.raises(NotOMEZarrError):
        unpack_hierarchy(tmp_path / "a.zip", tmp_path / "out.ome.zarr")


def test_an_unfinished_save_is_not_packed(cells: Path, archive: Path) -> None:
    left = cells / ".0.1b2c3d4ep1fr1b2c3d4e-0.aside"
    left.mkdir()
    (left / "c").write_bytes(b"x")
    try:
        again = pack_hierarchy(cells, archive.with_name("again.ozx"))
        assert again.read_bytes() == archive.read_bytes()
    finally:
        (left / "c").unlink()
        left.rmdir()


SCRIPT = """
import sys
from napari_ngff.store.write.new_hierarchy import unpack_hierarchy
def progress(done, total):
    print(done, flush=True)
    sys.stdin.readline()
unpack_hierarchy(sys.argv[1], sys.argv[2], progress=progress)
"""


def test_a_killed_process_leaves_nothing_to_open(archive: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.ome.zarr"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, archive, target],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(3):
        process.stdout.readline()
        process.stdin.write(b"\n")
        process.stdin.flush()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(0.1)
    assert not target.exists()
    unpack_hierarchy(archive, target)
    assert sorted(os.listdir(tmp_path)) == ["cells.ozx", "out.ome.zarr"]
    assert np.asarray(zarr.open_group(target, mode="r")["0"][...]).any()
