"""Classes of objects in a table of their image, read by ngio and pandas as well."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pandas as pd
import pytest
import zarr

from buckets import bucket_server
from napari_ngff.errors import OMEZarrError
from napari_ngff.labels.object_classes import ClassChanges, ObjectClasses
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.hierarchy.summary import list_tables
from napari_ngff.store.store import Transaction
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.annotations import object_class_table
from napari_ngff.viewer.annotations.object_class_table import merge_rows, write_classes
from object_tables import read_classes as read
from plates import write_image
from unreliable import serving

ROWS = {2**40: "round", 7: "long, bent", 3: "round"}


@pytest.fixture(params=[2, 3])
def image(request, tmp_path):
    path = tmp_path / "cells.ome.zarr"
    pixels = np.arange(64, dtype="uint16").reshape(8, 8)
    write_image(path, pixels, request.param, "yx", labels=("nuclei",))
    return path


def classes_of(rows):
    return ObjectClasses().with_objects(rows).with_all_named()


def write(path, rows, *, labels="nuclei", changed=None):
    objects = {label: rows.get(label, "") for label in changed or rows}
    changes = ClassChanges(labels, classes_of(rows).classes, objects)
    return write_classes(open_node(path), changes)


def test_classes_are_read_as_they_were_written(image):
    assert read(image) == []
    written = write(image, ROWS)
    (table,) = read(image)
    assert (table.name, table.labels) == ("nuclei_classes", "nuclei")
    assert table == written
    assert dict(table.classes.class_of) == ROWS
    assert table.classes.classes == classes_of(ROWS).classes


@pytest.mark.parametrize(
    "names", [("01", "02", "1"), ("1.0", "1e3", "1"), ("NA", "null"), ("True", "0")]
)
def test_classes_that_look_like_numbers_stay_as_they_are(image, names):
    rows = {label: names[label % len(names)] for label in range(1, 7)}
    write(image, rows)
    (table,) = read(image)
    assert dict(table.classes.class_of) == rows
    assert table.classes.names == classes_of(rows).names


def test_a_server_gives_what_was_written(image):
    write(image, ROWS)
    with serving(image.parent) as server:
        (table,) = read(f"{server.address}/{image.name}")
    assert dict(table.classes.class_of) == ROWS


def test_classes_in_a_bucket_are_saved_again(image):
    place = f"classes/{image.parent.name}"
    with bucket_server() as files:
        if not files.exists("classes"):
            files.mkdir("classes")
        files.put(str(image), place, recursive=True)
        address = f"s3://{place}"
        write(address, {7: "long"})
        write(address, {3: "round"})
        (table,) = read(address)
        assert dict(table.classes.class_of) == {3: "round", 7: "long"}
        # A process that was killed has left the rows alone.
        for path in files.find(f"{place}/tables"):
            if not path.endswith(".csv"):
                files.rm(path)
        write(address, {1: "small"})
        (table,) = read(address)
        assert dict(table.classes.class_of) == {1: "small", 3: "round", 7: "long"}


def test_ngio_reads_them_as_features_of_the_labels(image):
    ngio = pytest.importorskip("ngio")
    write(image, {7: "long", 3: "round"})
    container = ngio.open_ome_zarr_container(str(image))
    assert container.list_tables() == ["nuclei_classes"]
    table = container.get_feature_table("nuclei_classes")
    assert table.reference_label == "nuclei"
    assert table.dataframe["class"].to_dict() == {3: "round", 7: "long"}


def test_a_table_of_ngio_stays_beside_them(image):
    ngio = pytest.importorskip("ngio")
    frame = pd.DataFrame({"label": [3, 7], "area": [1.5, 2.5]}).set_index("label")
    features = ngio.tables.FeatureTable(frame, reference_label="nuclei")
    container = ngio.open_ome_zarr_container(str(image))
    container.add_table("measured", features, backend="csv")
    before = {
        p: p.read_bytes() for p in (image / "tables/measured").rglob("*") if p.is_file()
    }
    write(image, ROWS)
    assert list_tables(open_node(image)) == ("measured", "nuclei_classes")
    assert all(path.read_bytes() == data for path, data in before.items())
    again = ngio.open_ome_zarr_container(str(image))
    assert again.get_feature_table("measured").dataframe["area"].tolist() == [1.5, 2.5]


def test_columns_and_attributes_of_another_program_stay(image):
    write(image, {3: "round", 7: "long"})
    file = image / "tables/nuclei_classes/table.csv"
    file.write_text('area,label,class,note\n1.50,3,round,\n0.10,9,,"far, out"\n')
    (name,) = {"zarr.json", ".zattrs"} & {p.name for p in file.parent.iterdir()}
    document = json.loads((file.parent / name).read_text())
    document.get("attributes", document)["owner"] = "somebody"
    (file.parent / name).write_text(json.dumps(document))
    write(image, {7: "long", 9: "far"}, changed=[3, 7, 9])
    lines = list(csv.reader(file.read_text().splitlines()))
    assert lines == [
        ["area", "label", "class", "note"],
        ["1.50", "3", "", ""],
        ["0.10", "9", "far", "far, out"],
        ["", "7", "long", ""],
    ]
    document = json.loads((file.parent / name).read_text())
    assert document.get("attributes", document)["owner"] == "somebody"


def test_objects_that_another_program_classified_since_keep_their_class(image):
    write(image, {3: "round", 7: "long"})
    write(image, {3: "flat", 7: "flat", 9: "flat"}, changed=[3, 9])
    write(image, {}, changed=[9])
    (table,) = read(image)
    assert dict(table.classes.class_of) == {3: "flat", 7: "long"}


def test_two_windows_save_at_the_same_moment(image, monkeypatch):
    write(image, {3: "round"})
    expect, others = Transaction.expect_revision, [{7: "flat"}, {9: "flat"}]

    def be_slower(transaction, key, revision):
        if others and key.endswith("table.csv"):
            write(image, others.pop())
        expect(transaction, key, revision)

    monkeypatch.setattr(Transaction, "expect_revision", be_slower)
    write(image, {11: "long"})
    (table,) = read(image)
    assert dict(table.classes.class_of) == {
        3: "round",
        7: "flat",
        9: "flat",
        11: "long",
    }


@pytest.mark.parametrize("what", ["a file", "a group", "a table"])
def test_what_is_there_is_no_place_for_a_new_table(image, what):
    folder = image / "tables/nuclei_classes"
    folder.mkdir(parents=True)
    if what != "a group":
        (folder / "table.csv").write_text("label,class\n3,x\n")
    if what != "a file":
        zarr.create_group(folder, attributes={"backend": "csv"}, overwrite=False)
    before = {p: p.read_bytes() for p in folder.iterdir()}
    write(image, ROWS)
    assert [table.name for table in read(image)] == ["nuclei2_classes"]
    assert {p: p.read_bytes() for p in folder.iterdir()} == before


@pytest.mark.parametrize("made", ["its folder", "its group", "its file"])
def test_a_table_that_another_window_makes_right_now_is_used(image, tmp_path, made):
    other = shutil.copytree(image, tmp_path / "other.ome.zarr")
    write(other, {9: "flat"})
    source, folder = other / "tables/nuclei_classes", image / "tables/nuclei_classes"
    folder.mkdir(parents=True)
    for file in source.iterdir() if made != "its folder" else ():
        if file.name != "table.csv" or made == "its file":
            shutil.copy(file, folder)
    write(image, {3: "round"})
    assert [table.name for table in read(image)] == ["nuclei_classes"]
    earlier = {9: "flat"} if made == "its file" else {}
    assert [dict(x.classes.class_of) for x in read(image)] == [{**earlier, 3: "round"}]


def test_each_label_image_has_its_own(image):
    write(image, {1: "a"})
    write(image, {1: "b"}, labels="cells")
    found = {table.labels: dict(table.classes.class_of) for table in read(image)}
    assert found == {"nuclei": {1: "a"}, "cells": {1: "b"}}


def test_without_objects_the_table_is_empty(image):
    write(image, ROWS)
    write(image, {}, changed=ROWS)
    assert [dict(table.classes.class_of) for table in read(image)] == [{}]


def test_archives_have_them_too(tmp_path):
    path, archive = tmp_path / "cells.ome.zarr", tmp_path / "cells.ozx"
    write_image(path, np.zeros((8, 8), "uint16"), 3, "yx", labels=("nuclei",))
    pack_hierarchy(path, archive)
    written = write(archive, ROWS)
    (table,) = read(archive)
    assert (dict(table.classes.class_of), table) == (ROWS, written)
    write(archive, {3: "long"}, changed=ROWS)
    assert [dict(table.classes.class_of) for table in read(archive)] == [{3: "long"}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n1,2\n",
        "label,class\nx,round\n",
        "label,class\n1.5,round\n",
        "label,class\n1,a\n1,b\n",
    ],
)
def test_a_damaged_table_is_named(image, text):
    write(image, ROWS)
    (image / "tables/nuclei_classes/table.csv").write_text(text)
    with pytest.raises(OMEZarrError, match="nuclei_classes"):
        read(image)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_table_that_is_read_and_written_in_parts_stays_as_it_was(monkeypatch, rows):
    monkeypatch.setattr(object_class_table, "AT_ONCE", rows)
    classes = classes_of({1: "x", 2**63 + 5: "y, z", 4: "x", 8: "y, z", 6: "x"})
    before = b'note,label,class\n007,4,x\n,2,x\n"a, b",9223372036854775813,\n,1,x\n'
    assert merge_rows(before, classes) == (
        'note,label,class\n007,4,x\n"a, b",9223372036854775813,"y, z"\n,1,x\n'
        ',6,x\n,8,"y, z"\n'
    )


def test_labels_of_all_64_bits_keep_their_classes(image):
    rows = {2**64 - 1: "round", 2**63 + 5: "long", 7: "round"}
    write(image, rows)
    assert [dict(table.classes.class_of) for table in read(image)] == [rows]
    write(image, {2**63 + 5: "flat"})
    rows[2**63 + 5] = "flat"
    assert [dict(table.classes.class_of) for table in read(image)] == [rows]


def test_rows_keep_their_order():
    classes = classes_of({1: "x", 5: "y", 2: "x"})
    assert merge_rows(b"label,class\n5.0,x\n1,x\n", classes) == (
        "label,class\n5.0,y\n1,x\n2,x\n"
    )
