"""Measuring again replaces the rows of what is measured, and no others."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.plate.tables.measure_labels import (
    join_measured,
    measure,
    places_of,
)
from napari_ngff.plate.tables.table import make_table
from napari_ngff.viewer.annotations.table_annotation import ONLY_FILE, list_tables
from napari_ngff.viewer.browsing.plate_tables import PlateTables
from napari_ngff.viewer.browsing.table_offers import MeasureScope
from napari_ngff.viewer.session import session_of
from plates import write_plate


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Wells of two acquisitions, one of them without labels."""
    return write_plate(
        tmp_path_factory.mktemp("again") / "p.ome.zarr",
        grid=(2, 2),
        fields=2,
        shape=(1, 4, 4),
        levels=1,
        acquisitions=2,
        labelled=lambda well: () if well == "B/2" else ("nuclei",),
    )


@pytest.fixture
def plate(original, tmp_path):
    return shutil.copytree(original, tmp_path / "p.ome.zarr")


def browse(plate):
    viewer = ViewerModel()
    tables = PlateTables(session_of(viewer).browse(open_node(str(plate))))
    tables.viewer = viewer
    return tables


def paint(plate, place, chosen):
    """Change the objects of a field in its file; sometimes none is left."""
    array = zarr.open_array(plate / place.well / place.field / "labels/nuclei/0")
    array[:] = chosen.choice([np.zeros((4, 4)), array[:] * chosen.randint(1, 3)])


def truth(plate, places):
    """Measure some fields now, each on its own; give frames by field."""
    node, found = open_node(str(plate)), {}
    for place in places:
        try:
            found[place] = measure(node, "nuclei", [place]).frame
        except FileNotFoundError:
            found.pop(place, None)
    return found


def sorted_rows(frame):
    frame = frame.astype({"well": str, "field": str})
    frame["well"] = frame["well"].str.replace(r"^([A-Z])0?(\d)$", r"\1/\2", regex=True)
    frame = frame[sorted(frame.columns)].sort_values(["well", "field", "label"])
    return frame.reset_index(drop=True)


@pytest.mark.default_cases("0", "3")
@pytest.mark.parametrize("seed", range(4))
def test_each_image_has_the_rows_of_its_last_measurement(plate, seed):
    chosen, tables = random.Random(seed), browse(plate)
    fields = places_of(open_node(str(plate)))
    labelled = [place for place in fields if place.well != "B/2"]
    expected = {}
    for _ in range(6):
        paint(plate, chosen.choice(labelled), chosen)
        scope = chosen.choice(list(MeasureScope))
        wells = chosen.sample(["A/1", "A/2", "B/1", "B/2"], 2)
        field = chosen.choice(labelled)
        tables.browser.show_field(field.well, field.field)
        measured = {
            MeasureScope.ALL: fields,
            MeasureScope.SELECTED: [p for p in fields if p.well in wells],
            MeasureScope.FIELD: [field],
        }[scope]
        tables.measure_labels("nuclei", scope, wells)
        expected |= truth(plate, measured)
        whole = pd.concat(expected.values(), ignore_index=True)
        pd.testing.assert_frame_equal(
            sorted_rows(tables.table.to_frame()), sorted_rows(whole), check_dtype=False
        )
        # The same is in what the window asks about, and in no second table.
        (kept,) = list_tables(session_of(tables.viewer).annotations)
        assert kept.table is tables.table
        objects = whole.groupby(["well", "field"])["label"].nunique()
        empty = sum(not len(frame) for frame in expected.values())
        assert len(tables.table.without) == empty
        assert len(objects) + empty == len(expected)


def test_a_saved_table_keeps_its_rows_as_well(plate, tmp_path):
    tables = browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    rows = len(tables.table)
    path = str(tmp_path / "all.csv")
    tables.save_table(path)
    assert tables.message == f"{rows:,} rows are in {path}. {ONLY_FILE}"
    annotations = session_of(tables.viewer).annotations
    assert list_tables(annotations) == []
    tables.browser.show_field("A/1", "0")
    said = []
    tables.message_sent.connect(said.append)
    tables.measure_labels("nuclei", MeasureScope.FIELD)
    assert len(tables.table) == rows
    assert len(list_tables(annotations)) == 1
    assert f"{rows - 16:,} rows of other images stay." in said[-1]


def test_predicted_classes_that_are_gone_are_counted(plate):
    tables, said = browse(plate), []
    tables.measure_labels("nuclei", MeasureScope.ALL)
    table = tables.table
    predicted = replace(table, frame=table.frame.assign(predicted="round"))
    tables.replace_table(table, predicted, "predicted")
    tables.message_sent.connect(said.append)
    fields = [("A/1", "0"), ("A/2", "1"), ("A/2", "1")]
    for count, field in zip((16, 32, 32), fields, strict=True):
        tables.browser.show_field(*field)
        tables.measure_labels("nuclei", MeasureScope.FIELD)
        assert tables.table.frame["predicted"].isna().sum() == count
        told = f"{count} objects have no predicted class now: predict again."
        assert told in said[-1]
    tables.measure_labels("nuclei", MeasureScope.ALL)
    assert f"{len(table):,} objects have no predicted class now" in said[-1]
    tables.measure_labels("nuclei", MeasureScope.ALL)
    assert "predict" not in said[-1]


def test_a_table_is_older_only_where_it_was_not_measured_again(plate):
    tables = browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    for field in ("0", "1"):
        tables.browser.show_field("A/1", field)
        labels = next(x for x in tables.viewer.layers if x._type_string == "labels")
        labels.paint((1, 1), 99)
        assert labels.saver.save_now()
        annotations = session_of(tables.viewer).annotations
        annotations.strokes_saved.emit(labels.saver.journal.subject)
        annotations.note_change()
        assert tables.outdated_note
    tables.measure_labels("nuclei", MeasureScope.FIELD)
    assert tables.outdated_note, "the other field was painted, too"
    tables.browser.show_field("A/1", "0")
    tables.measure_labels("nuclei", MeasureScope.FIELD)
    assert not tables.outdated_note


@pytest.mark.parametrize("large", ["first", "second", "both"])
def test_ids_stay_exact(large):
    top = 2**64 - 3
    ids = {"first": (top, 7), "second": (7, top), "both": (top, top - 1)}[large]
    tables = [
        make_table(pd.DataFrame({"well": ["A1"], "field": [f], "label": [i]}), "t")
        for f, i in zip("01", ids, strict=True)
    ]
    frame = join_measured(*tables).frame
    assert frame["label"].tolist() == list(ids)


@pytest.mark.parametrize(
    ("painted", "where"),
    [
        (["A/1/0"], "A1, field 0"),
        (["B/1/3", "A/2/1"], "A2, field 1 and B1, field 3"),
        (["A/1/0", "A/1/1", "A/2/2", "B/1/0"], "A1, field 0 and 3 others"),
    ],
)
def test_a_note_names_the_fields_that_were_painted_since(plate, painted, where):
    tables = browse(plate)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    annotations = session_of(tables.viewer).annotations
    for place in painted:
        well, _, field = place.rpartition("/")
        tables.browser.show_field(well, field)
        labels = tables.viewer.layers["nuclei"]
        labels.paint((1, 1), 5)
        assert labels.saver.save_now()
        annotations.strokes_saved.emit(labels.saver.journal.subject)  # as a window does
        annotations.note_change()
    assert f"before the latest strokes in {where}: save" in tables.note
    table = list_tables(annotations)[-1]
    assert f"before the latest strokes in {where}; to" in table.description
