"""A folder from somebody else holds links: what they lead to gets into no copy."""

from __future__ import annotations

import json
import os
import shutil
import zipfile

import pytest

from hostile.cases import image
from napari_ngff import convert, merge_sidecar, open_node, pack
from napari_ngff.cli import main
from napari_ngff.errors import OMEZarrError, UnsupportedError
from napari_ngff.labels.places.copy_labels import copy_labels
from plates import write_image

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs rights on Windows")

SECRET = json.dumps({"attributes": {}, "secret": "4711 " * 2000}).encode()


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "id_rsa").write_bytes(SECRET)
    return folder


@pytest.fixture
def cells(tmp_path):
    image(tmp_path / "x.ome.zarr", chunk=b"\1" * 4096)
    (tmp_path / "x.ome.zarr/readme.txt").write_text("mine")
    return tmp_path / "x.ome.zarr"


def replace(path, target):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def lead_out(path, target):
    """Let a link lead to what was there, with a secret in it if it is a document."""
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        document["attributes"]["secret"] = "4711"
        target.write_text(json.dumps(document))
    replace(path, target)


OUTSIDE = {
    "a file": "readme.txt",
    "a file below": "notes/deep/readme.txt",
    "a chunk": "0/c/0/0",
    "the document of an array": "0/zarr.json",
    "the document of the group": "zarr.json",
}
FOLDERS = {"a folder": "extra", "labels": "labels", "a level": "0", "chunks": "0/c"}
WAYS = {
    "pack": ("pack", "o.ozx"),
    "0.5": ("convert", "o.ome.zarr"),
    "0.4": ("convert", "o.ome.zarr", "--to-version", "0.4"),
    "ozx": ("convert", "o.ozx"),
    "skip": ("convert", "o.ome.zarr", "--unreadable", "skip", "--codec", "gzip:1"),
}


def run(way, source):
    command, target, *options = way
    return main([command, str(source), str(source.parent / target), *options])


def contents(folder):
    """Everything that was written beside the image, and in its archives."""
    found = {}
    for path in folder.iterdir():
        if path.name in ("home", "x.ome.zarr"):
            continue
        if path.is_file():
            with zipfile.ZipFile(path) as archive:
                found |= {name: archive.read(name) for name in archive.namelist()}
        for file in path.rglob("*") if path.is_dir() else ():
            if file.is_file():
                found[str(file.relative_to(folder))] = file.read_bytes()
    return found


@pytest.mark.parametrize("place", OUTSIDE)
@pytest.mark.parametrize("way", WAYS)
def test_what_a_link_leads_to_is_not_copied(tmp_path, home, cells, way, place, capsys):
    lead_out(cells / OUTSIDE[place], home / "id_rsa")
    code = run(WAYS[way], cells)
    assert not [name for name, data in contents(tmp_path).items() if b"4711" in data]
    said = capsys.readouterr().err
    assert code == 1
    assert "is a link that leads out of" in said or "left out" in said
    assert b"4711" in (home / "id_rsa").read_bytes()


@pytest.mark.parametrize("place", FOLDERS)
@pytest.mark.parametrize("way", WAYS)
def test_folders_outside_are_not_copied(tmp_path, home, cells, way, place, capsys):
    replace(cells / FOLDERS[place], home)
    code = run(WAYS[way], cells)
    assert not [name for name, data in contents(tmp_path).items() if b"4711" in data]
    assert (code, "link" in capsys.readouterr().err) == (1, True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "links",
    [
        {"extra": "."},
        {"extra": "/proc/self"},
        {"extra": "/"},
        {"a/up": "..", "a/also": ".."},
        {"a/b": "../c", "c/d": "../a"},
        {"0/c/0/0": "../../c/0/0"},
    ],
    ids=str,
)
def test_circles_end_in_a_message(tmp_path, cells, way, links, capsys):
    for place, target in links.items():
        replace(cells / place, target)
    assert run(WAYS[way], cells) == 1
    said = capsys.readouterr().err
    assert len(said) < 2000
    assert "Traceback" not in said


@pytest.mark.parametrize("way", [name for name in WAYS if name != "skip"])
def test_links_inside_are_copied_as_what_they_lead_to(tmp_path, cells, way):
    (cells / "notes").mkdir()
    (cells / "notes/all.txt").write_text("all")
    replace(cells / "again", "notes")
    replace(cells / "same.txt", "readme.txt")
    assert run(WAYS[way], cells) == 0
    found = contents(tmp_path)
    for ending, text in ("again/all.txt", b"all"), ("same.txt", b"mine"):
        assert [data for name, data in found.items() if name.endswith(ending)] == [text]


def test_links_are_followed_if_that_is_asked_for(tmp_path, home, cells):
    replace(cells / "extra", home)
    shutil.move(cells / "0", tmp_path / "level")
    replace(cells / "0", tmp_path / "level")
    with pytest.raises(UnsupportedError, match="--follow-links"):
        convert(cells, tmp_path / "o.ome.zarr")
    command = ["convert", str(cells), str(tmp_path / "o.ome.zarr"), "--follow-links"]
    assert main(command) == 0
    assert (tmp_path / "o.ome.zarr/extra/id_rsa").read_bytes() == SECRET
    convert(cells, tmp_path / "p.ome.zarr", follow_links=True)
    assert (tmp_path / "p.ome.zarr/0/c/0/0").read_bytes() == b"\1" * 4096


def test_a_folder_that_is_a_link_itself_is_copied(tmp_path, cells):
    (tmp_path / "link.ome.zarr").symlink_to(cells)
    pack(tmp_path / "link.ome.zarr", tmp_path / "o.ozx")
    convert(tmp_path / "link.ome.zarr", tmp_path / "o.ome.zarr")
    assert (tmp_path / "o.ome.zarr/readme.txt").read_text() == "mine"


@pytest.mark.parametrize("place", ["zarr.json", "0/zarr.json", "0/c/0/0", "0/c", "0"])
@pytest.mark.parametrize("command", ["copy", "merge"])
def test_labels_of_links_are_not_copied(tmp_path, home, place, command):
    import numpy as np

    pixels = np.ones((64, 64), "uint32")
    own = tmp_path / "own.ome.zarr"
    write_image(own, pixels, 3, "yx", labels=("cells",))
    sidecar = tmp_path / "own.labels.ome.zarr"
    write_image(tmp_path / "their.ome.zarr", pixels, 3, "yx", labels=("nuclei",))
    shutil.copytree(tmp_path / "their.ome.zarr/labels", sidecar)
    source = sidecar / "nuclei" / place
    real = home / "taken"
    shutil.move(source, real)
    source.symlink_to(real)
    before = set(own.rglob("*"))
    label = open_node(str(sidecar / "nuclei"))

    def copy():
        if command == "merge":
            merge_sidecar(sidecar, own)
        else:
            copy_labels(label, open_node(str(own)), tmp_path / "copies")

    with pytest.raises(OMEZarrError, match="link"):
        copy()
    assert set(own.rglob("*")) == before
