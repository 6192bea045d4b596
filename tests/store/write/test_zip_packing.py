"""One file per hierarchy, as RFC-9 wants it."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr

from napari_ngff.store.write.zip_packing import pack_hierarchy


def make_hierarchy(folder: Path, zarr_format: int = 3) -> Path:
    attributes = {"ome": {"version": "0.5", "labels": []}}
    root = zarr.create_group(
        str(folder), zarr_format=zarr_format, attributes=attributes
    )
    for path in ("B/b", "A/a"):
        root.create_array(path, data=np.arange(12).reshape(3, 4), chunks=(2, 2))
    return folder


def test_metadata_first_and_breadth_first(tmp_path: Path):
    file = pack_hierarchy(make_hierarchy(tmp_path / "in"), tmp_path / "out.ozx")
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        comment = json.loads(archive.comment)
        assert {entry.compress_type for entry in archive.infolist()} == {
            zipfile.ZIP_STORED
        }
    depths = [name.count("/") for name in names if name.endswith("zarr.json")]
    assert names[0] == "zarr.json"
    assert depths == sorted(depths)
    assert all(name.endswith("zarr.json") for name in names[: len(depths)])
    assert comment["ome"]["version"] == "0.5"
    assert comment["ome"]["zipFile"] == {"centralDirectory": {"jsonFirst": True}}


def test_the_archive_holds_the_same_pixels(tmp_path: Path):
    file = pack_hierarchy(make_hierarchy(tmp_path / "in"), tmp_path / "out.ozx")
    with zarr.storage.ZipStore(file, mode="r") as store:
        pixels = zarr.open_group(store, mode="r")["A/a"][:]
    np.testing.assert_array_equal(pixels, np.arange(12).reshape(3, 4))


def test_equal_folders_give_equal_archives(tmp_path: Path):
    first = pack_hierarchy(make_hierarchy(tmp_path / "in"), tmp_path / "1.ozx")
    os.utime(tmp_path / "in" / "zarr.json", (1e9, 1e9))
    assert (
        first.read_bytes()
        == pack_hierarchy(tmp_path / "in", tmp_path / "2.ozx").read_bytes()
    )


def test_refuses_zarr_v2_and_leaves_nothing(tmp_path: Path):
    folder = make_hierarchy(tmp_path / "in", zarr_format=2)
    with pytest.raises(ValueError, match="It is an older one"):
        pack_hierarchy(folder, tmp_path / "out.ozx")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_keeps_a_file_that_is_there_unless_asked_to(tmp_path: Path):
    folder, file = make_hierarchy(tmp_path / "in"), tmp_path / "out.ozx"
    file.write_text("mine")
    with pytest.raises(FileExistsError, match=r"out\.ozx"):
        pack_hierarchy(folder, file)
    assert file.read_text() == "mine"
    pack_hierarchy(folder, file, overwrite=True)
    assert zipfile.is_zipfile(file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.ozx"]


def test_a_failure_leaves_nothing(tmp_path: Path):
    folder = make_hierarchy(tmp_path / "in")
    (tmp_path / "out.ozx" / "mine").mkdir(parents=True)  # a file cannot replace it
    with pytest.raises(OSError, match=r"out\.ozx"):
        pack_hierarchy(folder, tmp_path / "out.ozx", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out.ozx"]


def test_never_packs_itself(tmp_path: Path):
    folder = make_hierarchy(tmp_path / "in")
    with pytest.raises(ValueError, match="inside of what it packs"):
        pack_hierarchy(folder, folder / "out.ozx")
    assert not list(folder.rglob("*.ozx"))
