from __future__ import annotations

import json

import pytest

from napari_ngff import (
    CorruptDataError,
    NodeNotFoundError,
    NotOMEZarrError,
    open_node,
)
from napari_ngff.metadata.model import GroupKind
from napari_ngff.viewer.samples import write_image, write_plate


def group(folder, attributes=None, zarr_format=2):
    folder.mkdir(parents=True, exist_ok=True)
    if zarr_format == 2:
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        (folder / ".zattrs").write_text(json.dumps(attributes or {}))
    else:
        document = {"zarr_format": 3, "node_type": "group"}
        document["attributes"] = attributes or {}
        (folder / "zarr.json").write_text(json.dumps(document))
    return folder


IMAGE = {"multiscales": [{"version": "0.4", "datasets": [{"path": "0"}]}]}


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    where = tmp_path_factory.mktemp("plates") / "plate.ome.zarr"
    write_plate(where, "0.4", grid=(2, 2), fields=2, shape=(64, 64))
    return where


@pytest.mark.parametrize(
    ("inner", "kind"),
    [
        ("", GroupKind.PLATE),
        ("A", None),
        ("A/1", GroupKind.WELL),
        ("A/1/0", GroupKind.IMAGE),
        ("A/1/0/0", GroupKind.IMAGE),
        ("A/1/0/labels", GroupKind.LABELS),
        ("A/1/0/labels/nuclei", GroupKind.LABEL),
    ],
)
def test_every_part_of_a_plate_opens_and_knows_its_root(plate, inner, kind):
    node = open_node(plate / inner)
    assert node.kind is kind
    assert node.location.source.name == str(plate)
    path = "A/1/0" if inner == "A/1/0/0" else inner
    assert node.location.path == path


def test_a_row_without_any_metadata_file_opens(plate):
    for name in (".zgroup", ".zattrs"):
        (plate / "A" / name).unlink(missing_ok=True)
    node = open_node(plate / "A")
    parent = node.parent()
    assert parent is not None
    assert parent.kind is GroupKind.PLATE
    assert open_node(plate / "A" / "1").location.path == "A/1"


def test_a_folder_that_no_well_is_in_is_not_a_row(plate):
    (plate / "Z").mkdir()
    with pytest.raises(NotOMEZarrError):
        open_node(plate / "Z")


def test_relatives(plate):
    field = open_node(plate / "A/1/0")
    assert [label.name for label in field.labels().nodes] == ["nuclei", "cells"]
    label = field.labels().nodes[0]
    image = label.metadata.image
    assert image is not None
    assert image.label is not None
    assert label.child(image.label.source).location.path == "A/1/0"
    with pytest.raises(NodeNotFoundError, match="leaves the hierarchy"):
        field.child("../../../..")


def test_a_broken_label_is_named_and_the_rest_opens(tmp_path):
    where = tmp_path / "image.ome.zarr"
    write_image(where, "0.4", shape=(1, 64, 64))
    (where / "labels" / "nuclei" / ".zattrs").write_text('{"multiscales": [')
    found = open_node(where).labels()
    assert [label.name for label in found.nodes] == ["cells"]
    (problem,) = found.problems
    assert problem.code == "node-unreadable"
    assert "labels/nuclei" in problem.text
    assert "not valid JSON" in problem.text


def test_0_5_wins_beside_0_4(tmp_path):
    newer = {"ome": {"version": "0.5", "multiscales": [{"datasets": [{"path": "s0"}]}]}}
    group(tmp_path / "a", IMAGE)
    group(tmp_path / "a", newer, zarr_format=3)
    node = open_node(tmp_path / "a")
    assert (node.zarr_format, node.metadata.version) == (3, "0.5")


def test_a_zarr_json_that_says_nothing_does_not_hide_the_zattrs(tmp_path):
    group(tmp_path / "a", IMAGE)
    group(tmp_path / "a", {}, zarr_format=3)
    assert open_node(tmp_path / "a").zarr_format == 2


def test_unlisted_labels_of_old_versions_are_found(tmp_path):
    old = {"multiscales": [{"version": "0.1", "datasets": [{"path": "0"}]}]}
    group(tmp_path / "a", old)
    group(tmp_path / "a" / "labels")
    group(tmp_path / "a" / "labels" / "hidden", {**old, "image-label": {}})
    found = open_node(tmp_path / "a").labels()
    assert [label.name for label in found.nodes] == ["hidden"]
    assert [problem.code for problem in found.problems] == ["labels-list-missing"]


def test_series_of_a_collection(tmp_path):
    root = group(tmp_path / "a", {"bioformats2raw.layout": 3})
    for name in ("0", "1", "2"):
        group(root / name, IMAGE)
    node = open_node(root)
    assert node.kind is GroupKind.COLLECTION
    assert node.series() == ("0", "1", "2")
    group(root / "OME", {"series": ["2", "0"]})
    (root / "OME" / "METADATA.ome.xml").write_text(
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
        '<Image ID="Image:0" Name="left"/><Image ID="Image:1" Name="right"/></OME>'
    )
    assert node.series() == ("2", "0")
    assert node.series_names() == ("left", "right")
    images = node.children(*node.find_series())
    assert [image.name for image in images.nodes] == ["2", "0"]


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": ', "[" * 100_000, "[1, 2]", "3", '"x"', "\xff"]
)
def test_metadata_that_is_no_object_is_reported(tmp_path, text):
    group(tmp_path / "a", IMAGE)
    (tmp_path / "a" / ".zattrs").write_text(text, encoding="latin-1")
    with pytest.raises(CorruptDataError, match=r"a/\.zattrs"):
        open_node(tmp_path / "a")


@pytest.mark.parametrize("attributes", [{}, {"labels": "x"}, {"spatialdata": 1}])
def test_foreign_zarr_is_no_ome_zarr(tmp_path, attributes):
    for zarr_format in (2, 3):
        folder = group(tmp_path / str(zarr_format), attributes, zarr_format)
        with pytest.raises(NotOMEZarrError):
            open_node(folder)


def test_broken_ome_zarr_is_ours_to_explain(tmp_path):
    node = open_node(group(tmp_path / "a", {"multiscales": []}))
    assert node.kind is None
    assert node.problems
    assert all(problem.where.startswith(":") for problem in node.problems)


def test_nothing_there(tmp_path):
    with pytest.raises(NodeNotFoundError, match="nothing at"):
        open_node(tmp_path / "missing.zarr")
    with pytest.raises(NotOMEZarrError):
        open_node(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(
        NotOMEZarrError,
        match=r"^Not an OME-Zarr: .*a\.txt\. Give a folder, an \.ozx or a \.zip\.$",
    ):
        open_node(tmp_path / "a.txt")
