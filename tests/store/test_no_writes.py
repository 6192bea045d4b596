"""Reading any place leaves everything around it as it was, to the byte."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import zarr

from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.hierarchy.summary import summarize_node
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.reader import get_reader, read_paths
from napari_ngff.viewer.samples import write_image, write_plate

FORMATS = {"0.4": 2, "0.5": 3}


def listing(folder):
    """Each file and folder: kind, mode, size, time of change, content."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in [".", *folders, *files]:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            content = None
            if os.path.islink(path):
                content = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            found[path] = (status.st_mode, status.st_size, status.st_mtime_ns, content)
    return found


@pytest.fixture(scope="module", params=list(FORMATS))
def tree(request):
    """A folder with one of each kind of place, two levels below the one watched.

    Not in pytest's own folder, which is closed to other users.
    """
    with tempfile.TemporaryDirectory() as watched:
        os.chmod(watched, 0o755)
        yield make_tree(Path(watched), request.param)


def make_tree(top, version):
    base = top / "project" / "data"
    base.mkdir(parents=True)
    (top / "notes.txt").write_text("mine")
    write_plate(base / "plate.zarr", version, grid=(2, 2), shape=(32, 32))
    write_image(base / "image.zarr", version, shape=(2, 48, 64), chunk=32)
    collection = {"bioformats2raw.layout": 3}
    zarr_format = FORMATS[version]
    if zarr_format == 3:
        collection = {"ome": {"version": "0.5", **collection}}
    group = zarr.create_group(str(base / "collection.zarr"), zarr_format=zarr_format)
    group.attrs.update(collection)
    shutil.copytree(base / "image.zarr", base / "collection.zarr" / "0")
    # A label image alone, several folders deep, with no metadata around.
    label = base / "a" / "b" / "c" / "labels" / "cells"
    shutil.copytree(base / "image.zarr/labels/cells", label)
    (base / "link.zarr").symlink_to(base / "image.zarr")
    if zarr_format == 3:
        pack_hierarchy(base / "image.zarr", base / "image.ozx")
    else:
        shutil.make_archive(str(base / "image.ome.zarr"), "zip", base / "image.zarr")
    return top, base, version


PLACES = [
    "plate.zarr",
    "plate.zarr/A",
    "plate.zarr/A/1",
    "plate.zarr/A/1/1",
    "plate.zarr/A/1/0/labels",
    "plate.zarr/A/1/0/labels/cells",
    "plate.zarr/A/1/0/0",
    "image.zarr",
    "image.zarr/labels",
    "image.zarr/labels/nuclei",
    "image.zarr/1",
    "image.zarr/METADATA",
    "collection.zarr",
    "collection.zarr/0",
    "a/b/c/labels/cells",
    "link.zarr",
    "link.zarr/labels/cells",
    "ARCHIVE",
    "ARCHIVE/labels/cells",
]


def place_in(base, version, place):
    archive = "image.ozx" if version == "0.5" else "image.ome.zarr.zip"
    document = "zarr.json" if version == "0.5" else ".zattrs"
    return str(base / place.replace("ARCHIVE", archive).replace("METADATA", document))


def read_everything(path):
    """Open as napari does, read every pixel of every level, describe."""
    reader = get_reader(path)
    layers = reader(path)
    assert layers
    for data, keywords, _ in layers:
        for level in data if keywords["multiscale"] else [data]:
            assert np.asarray(level).size
            assert np.asarray(level[..., ::2]).size  # by dask's graph
    node = open_node(path)
    json.dumps(summarize_node(node))
    node.parent()
    node.labels()
    node.series()


@contextlib.contextmanager
def read_only(folder):
    """Take the right to write from everything below, and as root root's own."""
    modes = {}
    for parent, folders, files in os.walk(folder):
        for path in [parent, *(os.path.join(parent, n) for n in [*folders, *files])]:
            if not os.path.islink(path):
                modes[path] = os.stat(path).st_mode
    stranger = hasattr(os, "setresuid") and os.getuid() == 0
    for path, mode in modes.items():
        os.chmod(path, mode & ~0o222 | (0o555 if os.path.isdir(path) else 0o444))
    if stranger:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        if stranger:
            os.setresuid(0, 0, 0)
        for path, mode in modes.items():
            os.chmod(path, mode)


@pytest.mark.default_cases(
    "0.4-plate.zarr",
    "0.4-plate.zarr/A/1/0/labels/cells",
    "0.4-image.zarr",
    "0.4-link.zarr/labels/cells",
    "0.4-ARCHIVE",
    "0.5-plate.zarr",
    "0.5-plate.zarr/A/1",
    "0.5-image.zarr/labels",
    "0.5-image.zarr/METADATA",
    "0.5-collection.zarr",
    "0.5-a/b/c/labels/cells",
    "0.5-ARCHIVE/labels/cells",
)
@pytest.mark.parametrize("place", PLACES)
def test_reading_changes_nothing(tree, place):
    top, base, version = tree
    before = listing(top)
    read_everything(place_in(base, version, place))
    assert listing(top) == before


@pytest.mark.default_cases(
    "0.5-plate.zarr",
    "0.5-image.zarr/labels/nuclei",
    "0.5-collection.zarr",
    "0.5-link.zarr",
    "0.5-ARCHIVE/labels/cells",
)
@pytest.mark.parametrize("place", PLACES)
def test_reading_needs_no_right_to_write(tree, place):
    top, base, version = tree
    read_paths(place_in(base, version, place))  # imports what it needs
    with read_only(top):
        with pytest.raises(PermissionError):
            (base / "plate.zarr/new").touch()
        before = listing(top)
        read_everything(place_in(base, version, place))
        assert listing(top) == before


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_refusing_changes_nothing(tmp_path, zarr_format):
    zarr.create_group(str(tmp_path / "empty.zarr"), zarr_format=zarr_format)
    zarr.create_array(
        str(tmp_path / "array.zarr"),
        shape=(3, 3),
        dtype="u1",
        zarr_format=zarr_format,
    )
    (tmp_path / "folder.zarr").mkdir()
    (tmp_path / "broken.zarr").mkdir()
    (tmp_path / "broken.zarr/zarr.json").write_text("{")
    (tmp_path / "a.ozx").write_bytes(b"PK no archive")
    before = listing(tmp_path)
    for name in [*os.listdir(tmp_path), "gone.zarr", "gone/there.ozx", "a.ozx/x"]:
        get_reader(str(tmp_path / name))
        with pytest.raises((OSError, ValueError)):
            read_paths(str(tmp_path / name))
    assert listing(tmp_path) == before
