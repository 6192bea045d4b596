"""Where labels of an image that is not written to go, and how they are found again."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from napari_ngff.cli import main
from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.labels.create_labels import create_labels
from napari_ngff.labels.places import copy_labels as copying
from napari_ngff.labels.places.copy_labels import copy_labels
from napari_ngff.labels.places.sidecar import (
    address_of,
    choose_location,
    image_path,
    open_sidecars,
    remember_sidecar,
    sidecar_folder,
    sidecar_location,
    why_elsewhere,
)
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.write.shared_document import SharedDocument
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.samples import write_image, write_plate

VERSIONS = ["0.1", "0.3", "0.4", "0.5", "0.6"]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("samples")
    for version in VERSIONS:
        shape = (2, 80, 96) if version >= "0.4" else (80, 96)
        write_image(folder / f"{version}.ome.zarr", version, shape=shape, chunk=32)
    write_plate(folder / "plate.ome.zarr", grid=(1, 2), shape=(64, 64))
    return folder


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def copy(samples, tmp_path):
    return lambda name: shutil.copytree(samples / name, tmp_path / name)


def make(image, name="mine", folder=None):
    home = sidecar_location(image, folder)
    create_labels(image, name, np.dtype("u2"), 0, home).register()
    remember_sidecar(image, home)
    return home


def attached_names(path):
    return list(open_sidecars(open_node(path)).labels)


@pytest.mark.parametrize("version", VERSIONS)
def test_it_is_next_to_the_image_valid_and_found(copy, version, capsys):
    path = copy(f"{version}.ome.zarr")
    before = sorted(path.rglob("*"))
    make(open_node(path), "mine")
    home = make(open_node(path), "other")
    place = path.parent / f"{version}.labels.ome.zarr"
    assert home.source.name == str(place)
    assert main(["check", str(place)]) == 0
    assert attached_names(path) == ["mine", "other"]
    assert sorted(path.rglob("*")) == before
    root = open_node(place)
    written = version if version >= "0.4" else "0.5"
    assert root.zarr_format == (2 if written == "0.4" else 3)
    label = root.child("mine")
    assert label.metadata.version == written
    assert label.metadata.image.label.source == f"../../{version}.ome.zarr"
    # The path leads to the image, as any reader follows it.
    source = Path(str(label.location), label.metadata.image.label.source).resolve()
    assert source == path.resolve()


def test_the_fields_of_a_plate_share_one(copy):
    path = copy("plate.ome.zarr")
    wells = [well.path for well in open_node(path).metadata.plate.wells]
    for number, well in enumerate(wells):
        make(open_node(path / well / "0"), f"mine-{number}")
    place = path.parent / "plate.labels.ome.zarr"
    flat = [w.replace("/", ".") for w in wells]
    listed = [f"{w}.0.mine-{n}" for n, w in enumerate(flat)]
    assert list(open_node(place).metadata.labels) == listed
    for number, well in enumerate(wells):
        assert attached_names(path / well / "0") == [f"mine-{number}"]
        label = open_node(place).child(listed[number])
        assert image_path(label) == f"{well}/0"
    assert main(["check", str(place)]) == 0


def test_an_archive_gets_one_beside_it(copy):
    path = copy("0.5.ome.zarr")
    archive = path.parent / "cells.ozx"
    pack_hierarchy(path, archive)
    image = open_node(archive)
    assert why_elsewhere(open_node(path)) == ""
    home = make(image)
    assert home.source.name == str(path.parent / "cells.ozx.labels.ome.zarr")
    assert attached_names(archive) == ["mine"]
    assert attached_names(path) == []


def test_a_folder_that_was_chosen_is_remembered(copy, tmp_path):
    path, chosen = copy("0.5.ome.zarr"), tmp_path / "mine" / "annotations"
    home = make(open_node(path), "mine", chosen)
    assert Path(home.source.name).parent == chosen
    make(open_node(path), "beside", path.parent)
    assert attached_names(path) == ["beside", "mine"]
    shutil.rmtree(home.source.name)
    assert attached_names(path) == ["beside"]
    shutil.rmtree(sidecar_folder())
    assert attached_names(path) == ["beside"]


def test_equal_names_in_one_folder_do_not_meet(copy, tmp_path):
    chosen = tmp_path / "annotations"
    first = copy("0.5.ome.zarr")
    second = shutil.copytree(first, tmp_path / "elsewhere" / "0.5.ome.zarr")
    one, other = (make(open_node(path), "mine", chosen) for path in (first, second))
    assert one.source.name != other.source.name


def test_it_moves_with_its_image(copy, tmp_path):
    path = copy("0.5.ome.zarr")
    make(open_node(path))
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("0.5.ome.zarr", "0.5.labels.ome.zarr"):
        shutil.move(tmp_path / name, moved / name)
    assert attached_names(moved / "0.5.ome.zarr") == ["mine"]
    for name in ("0.5.ome.zarr", "0.5.labels.ome.zarr"):
        os.rename(moved / name, moved / name.replace("0.5", "cells"))
    assert attached_names(moved / "cells.ome.zarr") == ["mine"]


def test_labels_of_another_image_are_not_attached(copy, tmp_path):
    path, other = copy("0.5.ome.zarr"), copy("0.6.ome.zarr")
    make(open_node(path))
    shutil.copytree(tmp_path / "0.5.labels.ome.zarr", tmp_path / "0.6.labels.ome.zarr")
    found = open_sidecars(open_node(other))
    assert not found.labels
    assert "of another image" in found.problems[0].text
    with pytest.raises(UnsupportedError, match="labels of another image"):
        sidecar_location(open_node(other))


def test_a_broken_sidecar_hinders_nothing(copy, tmp_path):
    path = copy("0.5.ome.zarr")
    make(open_node(path))
    document = tmp_path / "0.5.labels.ome.zarr" / "zarr.json"
    document.write_text("{")
    found = open_sidecars(open_node(path))
    assert not found.labels
    assert [p.code for p in found.problems] == ["sidecar-unreadable"]
    document.unlink()  # as if its first labels were never finished
    assert open_sidecars(open_node(path)).problems == ()


def test_finding_none_costs_two_looks_and_a_note(copy, monkeypatch):
    image = open_node(copy("plate.ome.zarr") / "A/1/0")
    address = address_of(image)
    looked = []
    is_dir, read = os.path.isdir, SharedDocument.read
    monkeypatch.setattr(os.path, "isdir", lambda s: looked.append(s) or is_dir(s))
    monkeypatch.setattr(SharedDocument, "read", lambda s: looked.append(s) or read(s))
    assert not open_sidecars(image).labels
    assert len(looked) == 3
    assert address.beside in looked


@pytest.mark.parametrize("text", ["", "{", "[" * 200_000, "\x00"])
def test_a_damaged_note_is_a_problem_and_stays(copy, tmp_path, text):
    image = open_node(copy("0.5.ome.zarr"))
    place = sidecar_location(image, tmp_path / "mine")
    create_labels(image, "mine", np.dtype("u2"), 0, place).register()
    remember_sidecar(image, place)
    assert list(open_sidecars(image).labels) == ["mine"]
    note = address_of(image).note
    kept = note.read_text()
    note.write_text(text)
    found = open_sidecars(image)
    assert not found.labels
    assert [str(note) in problem.text for problem in found.problems] == [True]
    with pytest.raises(CorruptDataError, match="Move it away"):
        remember_sidecar(image, sidecar_location(image, tmp_path / "other"))
    assert note.read_text() == text
    note.write_text(kept)
    assert list(open_sidecars(image).labels) == ["mine"]


def test_images_in_memory_have_none(samples):
    memory = zarr.storage.MemoryStore()
    source = samples / "0.5.ome.zarr"
    group = zarr.open_group(memory, mode="w")
    document = json.loads((source / "zarr.json").read_text())
    group.attrs.update(document["attributes"])
    image = open_node(group)
    assert not open_sidecars(image).labels
    with pytest.raises(UnsupportedError, match="in memory"):
        choose_location(image, True)


@pytest.mark.parametrize("version", ["0.3", "0.4", "0.5", "0.6"])
def test_a_copy_has_the_same_voxels_colours_and_properties(copy, version):
    path = copy(f"{version}.ome.zarr")
    image = open_node(path)
    label = image.labels().nodes[0]
    node = copy_labels(label, image)
    assert node.metadata.image.label.colors == label.metadata.image.label.colors
    assert node.metadata.image.label.properties == label.metadata.image.label.properties
    for level in label.metadata.image.multiscales[0].levels:
        arrays = [
            zarr.open_array(f"{n.location}/{level.path}", mode="r")[...]
            for n in (label, node)
        ]
        np.testing.assert_array_equal(*arrays)
    assert main(["check", node.location.source.name]) == 0
    assert attached_names(path) == [label.name]
    with pytest.raises(FileExistsError):
        copy_labels(label, image)


def test_a_copy_that_is_too_large_is_refused(copy, tmp_path):
    image = open_node(copy("0.5.ome.zarr"))
    label = image.labels().nodes[0]
    with pytest.raises(UnsupportedError, match="in new labels"):
        copy_labels(label, image, limit=1000)
    assert copy_labels(label, image, goes_on=lambda done, total: done < 3) is None
    assert not (tmp_path / "0.5.labels.ome.zarr").exists()
    assert copy_labels(label, image, limit=None) is not None


def test_a_place_without_permission_is_left_alone(samples, tmp_path, monkeypatch):
    import tempfile

    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        path = shutil.copytree(samples / "0.5.ome.zarr", f"{top}/in/cells.ome.zarr")
        data = Path(top, "data")
        data.mkdir()
        data.chmod(0o777)
        monkeypatch.setenv("XDG_DATA_HOME", str(data))
        image = open_node(path)
        stranger = hasattr(os, "setresuid") and os.getuid() == 0
        folders = [Path(top, "in"), *(p for p in Path(path).rglob("*") if p.is_dir())]
        for folder in (*folders, Path(path)):
            folder.chmod(0o555)
        if stranger:
            os.setresuid(65534, 65534, 0)
        try:
            if os.access(path, os.W_OK):
                pytest.skip("may write anywhere")
            assert "No permission" in why_elsewhere(image)
            create_labels(image, "m", np.dtype("u1"), 0, choose_location(image, None))
            home = make(image)
            assert Path(home.source.name).parent == sidecar_folder()
            assert attached_names(path) == ["mine"]
        finally:
            if stranger:
                os.setresuid(0, 0, 0)
            for folder in (*folders, Path(path)):
                folder.chmod(0o755)


def pixels(node):
    return zarr.open_array(f"{node}/0", mode="r")[:]


def test_a_copy_that_did_not_get_into_the_list_is_made_anew(copy, monkeypatch):
    image = open_node(copy("0.5.ome.zarr"))
    label = image.child("labels/nuclei")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(copying, "add_to_list", full)
    with pytest.raises(OSError, match="No space left"):
        copy_labels(label, image)
    monkeypatch.undo()
    assert attached_names(str(image)) == []
    made = copy_labels(label, image)
    np.testing.assert_array_equal(pixels(made), pixels(label))
    assert attached_names(str(image)) == ["nuclei"]
    assert not list(Path(str(made)).rglob("*.aside"))


def test_what_another_window_copies_is_left_alone(copy):
    image = open_node(copy("0.5.ome.zarr"))
    label = image.child("labels/nuclei")
    reported = []

    def other(done, total):
        if not reported:
            with pytest.raises(FileExistsError) as caught:
                copy_labels(label, image)
            reported.append(str(caught.value))
        return True

    made = copy_labels(label, image, goes_on=other)
    assert "is being copied" in reported[0]
    np.testing.assert_array_equal(pixels(made), pixels(label))


def test_new_labels_that_are_not_saved_yet_are_not_copied_over(copy):
    image = open_node(copy("0.5.ome.zarr"))
    home = sidecar_location(image)
    new = create_labels(image, "nuclei", np.dtype("u2"), 0, home)
    calls = []

    def count(*some):
        calls.append(some)
        return True

    with pytest.raises(FileExistsError, match="something named nuclei"):
        copy_labels(image.child("labels/nuclei"), image, goes_on=count)
    assert not calls  # reported before hours of copying
    new.register()
    assert attached_names(str(image)) == ["nuclei"]


@pytest.mark.parametrize(
    ("stated", "written"),
    [
        ("0.5-dev-spatialdata", "0.5"),
        ("0.4-dev-spatialdata", "0.4"),
        ("0.6.dev3", "0.6"),
    ],
)
def test_a_sidecar_states_a_version_of_the_specification(copy, stated, written):
    path = copy(f"{written}.ome.zarr")
    name = ".zattrs" if written == "0.4" else "zarr.json"
    document = path / name
    text = document.read_text().replace(
        f'"version": "{written}"', f'"version": "{stated}"'
    )
    document.write_text(text)
    image = open_node(str(path))
    assert image.metadata.version == stated
    make(image)
    home = sidecar_location(image)
    assert written == home.stated
    assert stated not in (Path(home.source.name) / "mine" / name).read_text()
