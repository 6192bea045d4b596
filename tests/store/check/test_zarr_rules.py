"""What the text of Zarr forbids is read where that is safe, and found by a check."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hostile.cases import group, image
from napari_ngff import open_node
from napari_ngff.cli import main
from napari_ngff.errors import NotOMEZarrError
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.check.visit_groups import check_hierarchy
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.zip_packing import pack_hierarchy
from plates import write_plate


def errors(path):
    return {
        (where, problem.code)
        for where, problem in check_hierarchy(open_node(str(path)))
        if str(problem.severity) == "error"
    }


def change(path: Path, **keys) -> None:
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | keys))


@pytest.fixture
def folder(tmp_path):
    image(tmp_path / "a.ome.zarr")
    return tmp_path / "a.ome.zarr"


def test_keys_that_zarr_does_not_know(folder):
    before = errors(folder)
    change(folder / "zarr.json", known={"must_understand": False})
    change(folder / "0/zarr.json", known={"must_understand": False})
    assert errors(folder) == before
    change(folder / "zarr.json", odd={"must_understand": True})
    change(folder / "0/zarr.json", odd=[])
    found = errors(folder) - before
    assert found == {("", "zarr-metadata"), ("0", "zarr-metadata")}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_has_not(folder, number):
    """Python writes them, and browsers cannot read a document with one."""
    before = errors(folder)
    change(folder / "0/zarr.json", attributes={"text": f"[{number}, 0]"})
    assert errors(folder) == before
    for path in ("", "0"):
        file = folder / path / "zarr.json"
        document = json.loads(file.read_text())
        document["attributes"]["mine"] = [float(number)]
        file.write_text(json.dumps(document))
        assert f"[{number}]" in file.read_text()
    found = errors(folder) - before
    assert found == {("", "zarr-metadata"), ("0", "zarr-metadata")}
    assert open_node(folder).metadata.image is not None


def test_bytes_of_no_order(folder):
    before = errors(folder)
    change(folder / "0/zarr.json", data_type="uint16", shape=[64, 32])
    assert errors(folder) - before == {("0", "zarr-metadata")}
    bytes_codec = {"name": "bytes", "configuration": {"endian": "little"}}
    change(folder / "0/zarr.json", codecs=[bytes_codec])
    assert errors(folder) == before


def test_names_that_zarr_reserves(folder):
    group(folder / "labels", {"labels": ["__mask"]})
    image(folder / "labels/__mask")
    assert ("labels/__mask", "zarr-name") in errors(folder)


@pytest.mark.parametrize(
    "name",
    ["https://codec.zarrs.dev/numcodecs/zlib", "https://zarr.dev/numcodecs/zlib"],
)
def test_retired_names_of_codecs(folder, name):
    import zlib

    codecs = [{"name": "endian"}, {"name": name, "configuration": {"level": 1}}]
    change(folder / "0/zarr.json", codecs=codecs)
    (folder / "0/c/0/0").write_bytes(zlib.compress(b"\7" * 4096))
    array = open_array(FolderStore(str(folder)), "0")
    assert array.direct
    np.testing.assert_array_equal(array[...], 7)


def test_what_is_beside_the_hierarchy_of_an_archive(folder, tmp_path):
    packed = tmp_path / "a.ozx"
    pack_hierarchy(folder, packed)
    before = {code for _, code in errors(packed)}
    assert not before & {"ozx-embedded", "ozx-second-hierarchy"}
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("b/c/zarr.json", (folder / "zarr.json").read_text())
        archive.writestr("d.ozx", b"")
    after = {code for _, code in errors(packed)} - before
    assert after == {"ozx-embedded", "ozx-second-hierarchy"}


def test_groups_of_zarr_2_in_an_archive_are_another_hierarchy(folder, tmp_path):
    packed = tmp_path / "a.ozx"
    pack_hierarchy(folder, packed)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("old/.zgroup", '{"zarr_format": 2}')
    assert ("", "ozx-second-hierarchy") in errors(packed)


def test_an_archive_in_a_folder_of_a_hierarchy(folder, tmp_path):
    group(folder / "labels", {"labels": ["n"]})
    image(folder / "labels/n")
    before = errors(folder)
    pack_hierarchy(folder, tmp_path / "a.ozx")
    (tmp_path / "a.ozx").rename(folder / "labels/a.ozx")
    assert errors(folder) - before == {("labels", "ozx-embedded")}


def nested_label(folder, between="original"):
    """Move a label image below folders without metadata."""
    group(folder / "labels", {"labels": [f"{between}/0"]})
    image(folder / "labels" / between / "0")


@pytest.mark.parametrize("between", ["original", "a/b"])
def test_a_folder_between_labels_and_a_label_is_no_problem(folder, tmp_path, between):
    nested_label(folder, between)
    found = {code for _, code in errors(folder)}
    assert not found & {"labels-between", "label-missing"}
    pack_hierarchy(folder, tmp_path / "a.ozx")
    assert "ozx-second-hierarchy" not in {
        code for _, code in errors(tmp_path / "a.ozx")
    }


@pytest.mark.parametrize("place", ["a", "a/b"])
@pytest.mark.parametrize(
    "attributes",
    [{"note": 1}, {"ome": {"version": "0.5"}}, {"ome": {"labels": []}}],
)
def test_metadata_of_a_group_between_labels_and_a_label(folder, place, attributes):
    nested_label(folder, "a/b")
    document = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    path = folder / "labels" / place / "zarr.json"
    path.write_text(json.dumps(document))
    assert ("labels", "labels-between") not in errors(folder)
    path.write_text(json.dumps({**document, "attributes": attributes}))
    assert ("labels", "labels-between") in errors(folder)


@pytest.mark.parametrize("archived", [False, True])
def test_an_implicit_group_that_is_opened_itself(folder, tmp_path, capsys, archived):
    nested_label(folder)
    if archived:
        pack_hierarchy(folder, tmp_path / "a.ozx")
        folder = tmp_path / "a.ozx"
    place = f"{folder}/labels/original"
    assert main(["check", place]) == 1
    assert f"{place} is not an image. Open one of those in it: 0" in (
        capsys.readouterr().err
    )
    with pytest.raises(NotOMEZarrError, match="Open one of those in it: 0"):
        open_node(place)
    assert open_node(f"{place}/0").metadata.image is not None


def test_a_group_of_0_4_below_one_of_0_5(folder):
    group(folder / "labels", {"labels": ["n"]})
    image(folder / "labels/n")
    document = json.loads((folder / "labels/n/zarr.json").read_text())
    document["attributes"]["ome"]["version"] = "0.4"
    (folder / "labels/n/zarr.json").write_text(json.dumps(document))
    assert ("labels/n", "version-differs") in errors(folder)


def test_images_of_0_4_in_a_plate_of_0_5(tmp_path):
    new = write_plate(tmp_path / "new", 3, grid=(1, 1), fields=1)
    old = write_plate(tmp_path / "old", 2, grid=(1, 1), fields=1)
    shutil.rmtree(new / "A/1/0")
    shutil.copytree(old / "A/1/0", new / "A/1/0")
    found = PlateContents(open_node(str(new))).open_image("A/1", "0")
    expected = open_array(FolderStore(str(old)), "A/1/0/0")[...]
    np.testing.assert_array_equal(found.open_level(0)[...], expected)
