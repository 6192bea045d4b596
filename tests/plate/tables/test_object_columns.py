"""Feature tables of other programs join the objects of their image, good or bad."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from napari_ngff.plate.tables.object_columns import join_columns, read_feature_tables
from napari_ngff.store.hierarchy.node import open_node
from plates import write_group, write_image


def write_feature_table(image, name, frame, **attributes):
    """Write a table as ngio does, beside those that are listed already."""
    listed = image / "tables/.zattrs"
    names = json.loads(listed.read_text())["tables"] if listed.exists() else []
    write_group(image / "tables", {"tables": [*names, name]}, 2)
    stated = {"type": "feature_table", "backend": "csv", "instance_key": "label"}
    stated |= {"region": {"path": "../labels/nuclei"}} | attributes
    write_group(image / "tables" / name, stated, 2)
    if frame is not None:
        text = frame if isinstance(frame, str) else frame.to_csv(index=False)
        (image / "tables" / name / "table.csv").write_text(text)


@pytest.fixture
def image(tmp_path):
    where = tmp_path / "cells.ome.zarr"
    write_image(where, np.ones((8, 8), "u2"), 2, "yx", labels=("nuclei", "cells"))
    return where


def joined(image, ids=(1, 2, 5), outer=None):
    """Return the objects with the columns of all tables, and the notes."""
    objects = pd.DataFrame({"label": np.array(ids)})
    tables, notes = read_feature_tables(open_node(image), "nuclei")
    for name, table in tables.items():
        objects, more = join_columns(objects, name, table, outer or {})
        notes += more
    return objects, notes


GOOD = pd.DataFrame(
    {"label": [5, 1, 2], "area": [50.5, 10.0, 20.0], "kind": list("cab")}
)

BAD = {
    "no ids": (pd.DataFrame({"area": [1, 2]}), {}, "has no column label"),
    "ids that are words": (
        pd.DataFrame({"label": ["one", "two"], "a": [1, 2]}),
        {},
        "has no column label",
    ),
    "an id with a fraction": (
        pd.DataFrame({"label": [1, 2.5], "a": [1, 2]}),
        {},
        "has to hold the ids of labels: integers",
    ),
    "ids of no object": (
        pd.DataFrame({"label": [1, 77, 78], "a": [1, 2, 3]}),
        {},
        "2 ids have a row but no object in the list",
    ),
    "several rows for an object": (
        pd.DataFrame({"label": [1, 2, 2], "a": [1, 2, 3]}),
        {},
        "1 ids have several rows",
    ),
    "words among numbers": (
        pd.DataFrame({"label": [1, 2, 5], "a": ["3.5", "n/d", "4"]}),
        {},
        "a is text, as not all are numbers",
    ),
    "a backend that nobody knows": (None, {"backend": "hdf5"}, "'hdf5'"),
    "a file that is lost": (None, {}, "has no file table.csv"),
    "no table at all": ("\0\1\2", {}, "has no column label"),
}


def test_nothing_is_told_of_a_table_that_has_classes_alone(image):
    rows = {"label": [1, 77, 78], "class": ["round", "long", "long"]}
    write_feature_table(image, "nuclei_classes", pd.DataFrame(rows))
    assert joined(image)[1] == []


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_with_a_table_is_told_and_the_others_are_shown(image, case):
    frame, attributes, message = BAD[case]
    write_feature_table(image, "bad", frame, **attributes)
    write_feature_table(image, "good", GOOD)
    objects, notes = joined(image)
    assert len(notes) == 1
    assert notes[0].startswith("Table bad")
    assert message in notes[0]
    assert objects["label"].tolist() == [1, 2, 5]
    assert objects["area"].tolist() == [10.0, 20.0, 50.5]
    assert objects["kind"].tolist() == ["a", "b", "c"]


def test_rows_that_are_not_left_out_keep_their_values(image):
    for case, value in (
        ("ids of no object", 1),
        ("several rows for an object", 7),
        ("words among numbers", "3.5"),
    ):
        write_feature_table(image, case, BAD[case][0].replace({"a": {1: value}}))
    objects, _ = joined(image)
    first, second, third = (objects[x] for x in objects.columns[1:])
    assert first.isna().tolist() == [False, True, True]
    assert (first[0], second[0]) == (1, 7)
    assert second.isna().tolist() == [False, True, True]
    assert third.tolist() == ["3.5", "n/d", "4"]


def test_only_tables_about_these_labels_are_read(image):
    write_feature_table(image, "other", GOOD, region={"path": "../labels/cells"})
    write_feature_table(image, "boxes", GOOD, type="masking_roi_table")
    write_feature_table(image, "wells", GOOD, region=None)
    write_feature_table(image, "lost", None, region={"path": "../labels/cells"})
    objects, notes = joined(image)
    assert (list(objects), notes) == (["label"], [])


def test_rows_are_those_of_the_time_point(image):
    frame = pd.DataFrame({"label": [1, 2, 1, 2], "t": [0, 0, 1, 1], "a": [1, 2, 3, 4]})
    write_feature_table(image, "tracks", frame)
    for t, values in enumerate(([1, 2], [3, 4])):
        objects, notes = joined(image, (1, 2), {"t": t})
        assert objects["a"].tolist() == values
        assert (list(objects), notes) == (["label", "a"], [])


def test_names_that_are_used_twice_name_their_table(image):
    write_feature_table(image, "one", GOOD)
    other = {"area": GOOD["area"] + 1, "kind": GOOD["kind"] + "x"}
    write_feature_table(image, "two", GOOD.assign(**other))
    assert list(joined(image)[0]) == [
        "label", "area", "kind", "area (two)", "kind (two)",
    ]  # fmt: skip


def test_truth_and_dates_are_text(image):
    frame = pd.DataFrame(
        {"label": [1, 2], "ok": [True, False], "day": ["2026-01-02"] * 2}
    )
    write_feature_table(image, "odd", frame)
    objects, _ = joined(image)
    assert objects["ok"][:2].tolist() == ["True", "False"]
    assert objects["day"][:2].tolist() == ["2026-01-02"] * 2
    assert objects.loc[2, ["ok", "day"]].isna().all()


@pytest.mark.parametrize("change", [0, 1e-12, 1.0, np.nan])
@pytest.mark.parametrize("title", ["area", "kind", "centroid_x"])
def test_a_column_with_the_same_values_is_shown_once(title, change):
    table = GOOD.assign(centroid_x=[0.1 + 0.2, np.nan, 3.0])
    objects = table.sort_values("label").reset_index(drop=True)
    other = table.copy()
    if title == "kind":
        other.loc[0, "kind"] = "c" if abs(change) < 0.1 else None
    else:
        other.loc[0, title] += change
    found, notes = join_columns(objects, "saved", other, {})
    found, more = join_columns(found, "properties", other, {})
    is_same = abs(change) < 0.1
    assert {*found} == {*objects, *[f"{title} (saved)"] * (not is_same)}
    assert notes == more == []
    if not is_same:
        values = found.set_index("label")[f"{title} (saved)"]
        pd.testing.assert_series_equal(
            values, other.set_index("label")[title].sort_index(), check_names=False
        )
