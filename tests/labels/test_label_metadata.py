"""Colours and properties of a label image on the disk."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_ngff.cli import main
from napari_ngff.errors import CorruptDataError
from napari_ngff.labels.label_classes import classes_of, kind_of
from napari_ngff.labels.label_metadata import (
    read_label_info,
    rebase_label_info,
    write_label_info,
)
from napari_ngff.metadata.model import LabelInfo, LabelKind
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.samples import write_image

VERSIONS = ["0.4", "0.5", "0.6"]
RED, CLEAR = (255, 0, 0, 255), (0, 0, 0, 0)


def document(folder):
    file = folder / "zarr.json"
    return file if file.exists() else folder / ".zattrs"


def block(folder):
    content = json.loads(document(folder).read_text())
    home = content.get("attributes", content)
    return home.get("ome", home)["image-label"]


def rewrite(folder, change):
    file = document(folder)
    content = json.loads(file.read_text())
    home = content.get("attributes", content)
    change(home.get("ome", home))
    file.write_text(json.dumps(content))


@pytest.fixture(params=VERSIONS)
def folder(request, tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, request.param, shape=(1, 32, 32))
    return path / "labels" / "nuclei"


def test_written_colours_and_properties_are_read_again(folder):
    info = LabelInfo({0: CLEAR, 7: RED}, {7: {"class": "a", "area": 3.5, "tags": [1]}})
    assert write_label_info(open_node(str(folder)), info)
    found = read_label_info(open_node(str(folder)))
    assert found.colors == info.colors
    assert found.properties[7] == info.properties[7]
    assert not open_node(str(folder)).problems
    # What ome-zarr-models asks of two lists.
    listed = [
        {e["label-value"] for e in block(folder)[k]} for k in ("colors", "properties")
    ]
    assert listed[0] == listed[1]


def test_what_is_not_known_stays(folder):
    def change(home):
        label = home["image-label"]
        label["mine"] = {"a": 1}
        label["colors"] = [
            {"label-value": 2, "rgba": list(RED), "note": "first"},
            {"label-value": 9, "note": "no colour"},
        ]

    rewrite(folder, change)
    before = block(folder)
    assert write_label_info(open_node(str(folder)), LabelInfo({2: CLEAR, 1: RED}))
    after = block(folder)
    assert after["mine"] == {"a": 1}
    assert after.get("source") == before.get("source")
    assert after["colors"] == [
        {"label-value": 2, "rgba": list(CLEAR), "note": "first"},
        {"label-value": 9, "note": "no colour"},
        {"label-value": 1, "rgba": list(RED)},
    ]
    assert "properties" not in after


def test_nothing_is_written_where_nothing_changed(folder):
    node = open_node(str(folder))
    before = document(folder).stat().st_mtime_ns, document(folder).read_bytes()
    assert not write_label_info(node, node.metadata.image.label)
    assert (
        document(folder).stat().st_mtime_ns,
        document(folder).read_bytes(),
    ) == before


def test_empty_lists_are_left_out(folder):
    node = open_node(str(folder))
    write_label_info(node, LabelInfo({1: RED}, {1: {"a": 1}}))
    write_label_info(node, LabelInfo())
    assert not {"colors", "properties"} & block(folder).keys()


def test_what_json_cannot_state_is_refused(folder):
    before = document(folder).read_bytes()
    with pytest.raises(ValueError, match="not JSON"):
        write_label_info(open_node(str(folder)), LabelInfo({}, {1: {"a": object()}}))
    assert document(folder).read_bytes() == before


def test_a_broken_document_stays_as_it_is(folder):
    node = open_node(str(folder))
    rewrite(folder, lambda home: home.update({"image-label": "none"}))
    before = document(folder).read_bytes()
    with pytest.raises(CorruptDataError, match="image-label"):
        write_label_info(node, LabelInfo({1: RED}))
    assert document(folder).read_bytes() == before


def test_archives_are_written_too(tmp_path):
    write_image(tmp_path / "cells.ome.zarr", shape=(1, 32, 32))
    pack_hierarchy(tmp_path / "cells.ome.zarr", tmp_path / "cells.ozx")
    place = str(tmp_path / "cells.ozx" / "labels" / "nuclei")
    assert write_label_info(open_node(place), LabelInfo({1: RED}))
    assert read_label_info(open_node(place)).colors == {1: RED}
    assert main(["check", str(tmp_path / "cells.ozx")]) == 0


OLDER = st.fixed_dictionaries(
    {"class-name": st.text(min_size=1, max_size=5)},
    optional={
        "class-locked": st.booleans(),
        "class-hidden": st.booleans(),
        "class-order": st.integers(0, 9),
    },
)
OTHERS = st.dictionaries(
    st.sampled_from(["area", "class", "class-state", "other:class-name"]),
    st.integers() | st.text(max_size=3),
)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("prefix") / "cells.ome.zarr"
    write_image(path, "0.5", shape=(1, 32, 32))
    return path / "labels" / "nuclei"


@given(
    entries=st.dictionaries(
        st.integers(1, 40), st.tuples(OLDER | st.just({}), OTHERS), min_size=1
    )
)
@settings(max_examples=40)
def test_a_save_gives_keys_of_earlier_releases_their_prefix(written, entries):
    rows = [{"label-value": v, **ours, **rest} for v, (ours, rest) in entries.items()]

    def state(home):
        home["image-label"] = {"properties": rows}

    rewrite(written, state)
    node = open_node(str(written))
    info = read_label_info(node)
    # As read: the same classes, and nothing is written for that.
    named = {v: ours["class-name"] for v, (ours, _) in entries.items() if ours}
    assert {item.value: item.name for item in classes_of(info)} == named
    assert kind_of(info) == ("classes" if named else "objects")
    assert not write_label_info(node, info)
    assert block(written)["properties"] == rows
    # With the next change of anything.
    assert write_label_info(node, replace(info, colors={50: RED}))
    stored = {e.pop("label-value"): e for e in block(written)["properties"]}
    for value, (ours, rest) in entries.items():
        assert stored[value] == rest | {f"napari-ngff:{k}": x for k, x in ours.items()}
    assert read_label_info(node).properties.items() >= info.properties.items()


def test_names_of_very_many_objects_keep_their_keys(written):
    rows = [{"label-value": v, "class-name": "cell"} for v in range(1, 400)]
    rewrite(written, lambda home: home.update({"image-label": {"properties": rows}}))
    info = read_label_info(open_node(str(written)))
    assert write_label_info(open_node(str(written)), replace(info, colors={1: RED}))
    assert block(written)["properties"] == rows
    assert kind_of(info) == "objects"


@pytest.mark.parametrize("kind", [None, "objects", "classes", "cells", 5, ["objects"]])
def test_a_stated_kind_is_read_and_replaced(folder, kind):
    def state(home):
        home["image-label"]["napari-ngff:kind"] = kind

    rewrite(folder, state)
    node = open_node(str(folder))
    info = read_label_info(node)
    known = kind if kind in ("objects", "classes") else None
    assert info.kind == known
    # What other programs or later versions state stays until a person chooses.
    write_label_info(node, replace(info, colors={1: RED}))
    assert block(folder)["napari-ngff:kind"] == kind
    for chosen in LabelKind:
        before = block(folder)
        write_label_info(node, replace(read_label_info(node), kind=chosen))
        assert block(folder) == before | {"napari-ngff:kind": chosen.value}
        assert not open_node(str(folder)).problems
        assert main(["check", str(folder)]) == 0


def test_two_windows_that_choose_a_kind_keep_the_last(folder):
    before = read_label_info(open_node(str(folder)))
    there = replace(before, kind=LabelKind.CLASSES)
    assert rebase_label_info(before, before, there).kind is LabelKind.CLASSES
    chosen = replace(before, kind=LabelKind.OBJECTS)
    assert rebase_label_info(chosen, before, there).kind is LabelKind.OBJECTS
