"""What the inspector tells of a hierarchy, without a window."""

import json
import shutil

import numpy as np
import pytest
import zarr
from napari.layers import Layer

from napari_ngff import open_node
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.viewer import reader
from napari_ngff.viewer.inspecting.inspection import (
    MOST_ITEMS,
    TreeEntry,
    check_group,
    describe_entry,
    describe_place,
    homes_of,
    list_children,
    node_of,
    repair_all,
    root_of,
    shorten_document,
    undo_repair,
)
from napari_ngff.viewer.samples import write_image, write_plate


@pytest.fixture(scope="module", params=["0.4", "0.5"])
def image(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspection")
    return write_image(folder / "cells.ome.zarr", request.param, shape=(1, 64, 96))


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspection")
    return write_plate(
        folder / "plate.ome.zarr", grid=(2, 2), shape=(64, 64), wells=["A1", "B2"]
    )


def tree(entry):
    return {f"{e.name} ({e.kind})": tree(e) for e in list_children(entry)}


def entry_of(path):
    node = open_node(path)
    return TreeEntry(node.location, node.zarr_format, node.name, "group")


def test_the_tree_is_what_metadata_names(image):
    entry = root_of(open_node(image / "labels" / "nuclei"))
    assert (entry.name, entry.kind) == ("cells", "image")
    arrays = {f"{level} (array)": {} for level in range(3)}
    found = tree(entry)
    labels = found.pop("labels (labels)")
    assert found == arrays
    assert labels == {"nuclei (label)": arrays, "cells (label)": arrays}


@pytest.mark.parametrize(
    ("path", "where", "place"),
    [
        ("", "", "In the top group."),
        ("", "multiscales/0/axes/2", "In the top group, at multiscales/0/axes/2."),
        ("labels/cells", "image-label", "In labels/cells, at image-label."),
    ],
)
def test_the_place_of_a_problem_is_a_sentence(path, where, place):
    problem = Problem("axes-order", Severity.ERROR, where, "Wrong order.")
    assert describe_place(path, problem) == place


def test_the_root_of_a_field_is_its_plate(plate):
    entry = root_of(open_node(plate / "A" / "1" / "0"))
    assert (entry.name, entry.kind) == ("plate", "plate")
    assert list(tree(entry)) == ["A/1 (well)", "B/2 (well)"]


def test_an_array_in_a_folder_of_its_own_belongs_to_its_image(tmp_path):
    axes = [{"name": n, "type": "space"} for n in "yx"]
    steps = [{"type": "scale", "scale": [1, 1]}]
    dataset = {"path": "levels/0", "coordinateTransformations": steps}
    ome = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": [dataset]}]}
    zarr.create_group(tmp_path / "a.zarr", attributes={"ome": ome})
    zarr.create_array(tmp_path / "a.zarr" / "levels" / "0", shape=(8, 8), dtype="u2")
    (array,) = list_children(entry_of(tmp_path / "a.zarr"))
    assert array.read_node().metadata.image is not None
    assert "128 bytes" in dict(describe_entry(array).facts)["Size"]


def test_what_cannot_be_read_is_reported(image):
    whole = entry_of(image)
    gone = TreeEntry(
        whole.location.join_path("gone"), whole.zarr_format, "gone", "label"
    )
    details = describe_entry(gone)
    assert "gone" in details.error


def test_an_image_is_judged_with_its_labels_and_a_plate_alone(
    image, plate, tmp_path, monkeypatch
):
    where = shutil.copytree(image, tmp_path / "i")
    shutil.rmtree(where / "labels" / "cells")
    assert [p.code for _, p in check_group(open_node(where))] == ["label-missing"]
    where = shutil.copytree(plate, tmp_path / "p")
    shutil.rmtree(where / "A" / "1" / "0" / "labels" / "cells")
    assert check_group(open_node(where)) == ()
    found = check_group(open_node(where), lambda: False)
    assert [(path, p.code) for path, p in found] == [
        ("A/1/0/labels/cells", "label-missing")
    ]
    assert check_group(open_node(where), lambda: True) == ()


def test_what_a_repair_replaced_is_kept_while_there_are_errors(image, tmp_path):
    where = shutil.copytree(image, tmp_path / "i")
    file = (
        where
        / "labels"
        / (
            "zarr.json"
            if "0.5" in dict(describe_entry(entry_of(where)).facts)["Kind"]
            else ".zattrs"
        )
    )
    before = file.read_text()
    file.write_text(before.replace('"cells"', '"ghost"'))
    details = repair_all(entry_of(where), "label-unlisted")
    assert [p.code for _, p in details.findings] == ["label-missing"]
    assert details.kept == (f"{file}.before-repair",)
    undo_repair(entry_of(where), details.kept)
    assert file.read_text() == before.replace('"cells"', '"ghost"')
    assert not list(where.rglob("*.before-repair"))
    undo_repair(entry_of(where), details.kept)
    repair_all(entry_of(where), "label-unlisted")
    details = repair_all(entry_of(where), "label-missing")
    assert details.findings == details.kept == ()


def test_undoing_a_repair_brings_consolidated_metadata_along(tmp_path):
    where = write_image(tmp_path / "i", "0.4", shape=(1, 64, 64))
    file = where / "labels" / ".zattrs"
    file.write_text(json.dumps({"labels": ["nuclei", "ghost"]}))
    zarr.consolidate_metadata(where, zarr_format=2)

    def copy():
        return json.loads((where / ".zmetadata").read_text())["metadata"][
            "labels/.zattrs"
        ]

    details = repair_all(entry_of(where), "label-unlisted")
    assert copy() == {"labels": ["nuclei", "ghost", "cells"]}
    undo_repair(entry_of(where), details.kept)
    assert copy() == json.loads(file.read_text()) == {"labels": ["nuclei", "ghost"]}


def test_layers_know_their_place(image, plate):
    for data in reader.read_paths(str(plate)):
        assert str(node_of(Layer.create(*data))) == str(plate)
    labels = Layer.create(*reader.read_paths(str(image))[-1])
    assert str(node_of(labels)) == str(image / "labels" / "cells")
    assert homes_of(labels) == {'image "cells"': None}
    assert node_of(None) is None
    assert node_of(Layer.create(np.zeros((2, 2)), {}, "image")) is None


def test_long_lists_are_cut():
    value = {"a": list(range(MOST_ITEMS + 5)), "b": [1, {"c": 2}]}
    found = shorten_document(value)
    assert len(found["a"]) == MOST_ITEMS + 1
    assert found["a"][-1] == "… 5 more"
    assert found["b"] == value["b"]
    assert json.dumps(found)
    assert shorten_document(dict.fromkeys(map(str, value["a"])))["…"] == "5 more"


def test_the_time_of_an_acquisition_is_among_the_facts(tmp_path):
    root = write_plate(tmp_path / "p.ome.zarr", grid=(1, 1), fields=1)
    file = root / "zarr.json"
    document = json.loads(file.read_text())
    plate = document["attributes"]["ome"]["plate"]
    times = {"starttime": 1_343_749_391, "endtime": 1_343_749_392_000}
    plate["acquisitions"] = [{"id": 0, **times}, {"id": 1, "starttime": 10**30}]
    file.write_text(json.dumps(document))
    facts = dict(describe_entry(root_of(open_node(root))).facts)
    assert facts["Acquired"] == "0: 2012-07-31 15:43 UTC to 2012-07-31 15:43 UTC"


def test_extents_have_symbols_and_time_points_a_distance(tmp_path):
    root = write_image(tmp_path / "a.ome.zarr", shape=(4, 64, 64))
    facts = dict(describe_entry(root_of(open_node(root))).facts)
    assert (
        facts["Physical size"]
        == "t 4 \N{MULTIPLICATION SIGN} 300 s, y 20.8 µm, x 20.8 µm"
    )
