"""Metadata that claims more than there can be costs no more than what is used."""

from __future__ import annotations

import json

import pytest

from hostile.cases import group, image
from napari_ngff import open_node, open_pyramid
from napari_ngff.store.check.visit_groups import check_hierarchy
from napari_ngff.store.hierarchy.summary import summarize_node
from napari_ngff.store.limits import MOST


def change(folder, edit):
    """Change the OME-Zarr metadata of a group in place."""
    path = folder / "zarr.json"
    document = json.loads(path.read_text())
    edit(document["attributes"]["ome"])
    path.write_text(json.dumps(document))


def findings(node, code):
    return [problem for _, problem in check_hierarchy(node) if problem.code == code]


def repeat_steps(ome):
    dataset = ome["multiscales"][0]["datasets"][0]
    dataset["coordinateTransformations"] *= 5000


def repeat_axes(ome):
    axes = ome["multiscales"][0]["axes"]
    axes += [{"name": f"a{i}", "type": "space"} for i in range(500)]


def repeat_channels(ome):
    ome["omero"] = {"channels": [{"color": "zz"}] * 20_000}


@pytest.mark.parametrize("edit", [repeat_steps, repeat_axes, repeat_channels])
def test_long_lists_are_cut_and_named(tmp_path, edit):
    image(tmp_path / "a")
    change(tmp_path / "a", edit)
    node = open_node(str(tmp_path / "a"))
    (problem,) = (p for p in node.problems if p.code == "list-too-long")
    assert "are read at most" in problem.text
    assert [one.text for one in findings(node, "list-too-long")] == [problem.text]


def test_an_image_with_a_long_list_is_shown_still(tmp_path):
    image(tmp_path / "a")
    change(tmp_path / "a", repeat_channels)
    assert open_pyramid(open_node(str(tmp_path / "a"))).levels[0].shape == (64, 64)


def test_wells_beyond_any_plate_are_left_out(tmp_path):
    names = [str(i) for i in range(MOST["wells"] + 5)]
    wells = [
        {"path": f"A/{name}", "rowIndex": 0, "columnIndex": i}
        for i, name in enumerate(names)
    ]
    columns = [{"name": name} for name in names]
    plate = {"rows": [{"name": "A"}], "columns": columns, "wells": wells}
    group(tmp_path / "a", {"plate": plate})
    node = open_node(str(tmp_path / "a"))
    assert len(node.metadata.plate.wells) == MOST["wells"]
    assert len(summarize_node(node)["problems"]) < 300
    long = [p.where for p in node.problems if p.code == "list-too-long"]
    assert len(long) == 2


def test_a_check_names_each_kind_no_more_than_anybody_reads(tmp_path):
    image(tmp_path / "a")
    change(tmp_path / "a", repeat_channels)
    node = open_node(str(tmp_path / "a"))
    codes = [problem.code for _, problem in check_hierarchy(node)]
    most = max(codes, key=codes.count)
    assert codes.count(most) == 101
    assert findings(node, most)[-1].text.startswith("More than 100 problems")
