"""Every number on the map is that of pandas: aggregates, acquisitions and filters."""

from __future__ import annotations

import itertools
import json
import shutil

import numpy as np
import pandas as pd
import pytest
import zarr
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.plate.tables.table import AGGREGATIONS
from napari_ngff.viewer.browsing.joined_tables import NUMBERS, TableColumn
from napari_ngff.viewer.browsing.plate_tables import PlateTables
from napari_ngff.viewer.browsing.table_offers import (
    MeasureScope,
    TableOffer,
    TableOrigin,
)
from napari_ngff.viewer.session import session_of
from plates import write_image, write_plate

WELLS = [f"{row}/{column}" for row in "AB" for column in "123"]
RUNS = {"0": 0, "1": 0, "2": 1, "3": 1}
"""Acquisition of each field."""
CONDITIONS = pd.DataFrame(
    {
        "well": ["A/1", "A/2", "A/3", "B/1", "B/2"],
        "dose": [0.1, 0.5, 1.0, 2.0, np.nan],
        "drug": ["None", "NA", "taxol", "taxol", "None"],
    }
)
FILTERS = {
    "": None,
    "voxels > 9": lambda rows: rows["voxels"] > 9,
    "mean_0 <= 500 and voxels >= 2": lambda rows: (
        (rows["mean_0"] <= 500) & (rows["voxels"] >= 2)
    ),
    "field = 1": lambda rows: rows["field"] == "1",
    "label < 3": lambda rows: rows["label"] < 3,
    "voxels > 100000": lambda rows: rows["voxels"] > 100_000,
}
TERMS = {
    "": WELLS,
    "A": ["A/1", "A/2", "A/3"],
    "dose >= 0.5": ["A/2", "A/3", "B/1"],
    "drug = none and B": ["B/2"],
}
CHOICES = [(), (0,), (1,), (0, 1)]
PAIRS = [
    f"{terms}-{rows}-runs{(at + then) % len(CHOICES)}"
    for at, terms in enumerate(TERMS)
    for then, rows in enumerate(FILTERS)
]
"""Cases in which each choice meets each one of the others; every third is tried."""


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    """2 x 3 wells of two acquisitions with two fields each.

    A/2 was imaged once; two fields of B/1 and all of B/2 have no object; one field of
    B/3 has no labels.
    """
    where = tmp_path_factory.mktemp("numbers") / "p.ome.zarr"
    write_plate(where, grid=(2, 3), fields=2, acquisitions=2, shape=(1, 16, 16))
    random = np.random.default_rng(1)
    for number, (well, field) in enumerate(itertools.product(WELLS, RUNS)):
        folder = where / well / field
        if well == "A/2" and RUNS[field] == 1:
            shutil.rmtree(folder)
            continue
        zarr.open_array(folder / "0", mode="r+")[:] = random.integers(
            0, 1000, (1, 16, 16)
        )
        labels = random.integers(0, 3 + number % 4, (16, 16)).astype("u4")
        if (well, field) in (("B/1", "0"), ("B/1", "3")) or well == "B/2":
            labels[:] = 0
        if (well, field) != ("B/3", "1"):
            corner = 0, 16 * (int(field) % 2)
            write_image(
                folder / "labels/nuclei", labels, 3, "yx", corner=corner, label={}
            )
    document = json.loads((where / "A/2/zarr.json").read_text())
    del document["attributes"]["ome"]["well"]["images"][2:]
    (where / "A/2/zarr.json").write_text(json.dumps(document))
    return where


@pytest.fixture(scope="module")
def truth(plate):
    """A row per object, from the arrays alone."""
    rows = []
    for well, field in itertools.product(WELLS, RUNS):
        folder = plate / well / field
        if not (folder / "labels").exists():
            continue
        image = zarr.open_array(folder / "0", mode="r")[0]
        labels = zarr.open_array(folder / "labels/nuclei/0", mode="r")[:]
        for label in np.unique(labels[labels > 0]).tolist() or [None]:
            voxels = image[labels == label]
            rows.append((well, field, RUNS[field], label, voxels.size, voxels))
    frame = pd.DataFrame(rows, columns=["well", "field", "run", "label", "voxels", "v"])
    for how in ("mean", "min", "max"):
        frame[f"{how}_0"] = [
            getattr(v, how)() if v.size else np.nan for v in frame["v"]
        ]
    return frame.drop(columns="v")


def load(tables, frame, path):
    frame.to_csv(path, index=False)
    tables.load_file(str(path))
    return TableOffer(TableOrigin.FILE, path.name)


@pytest.fixture(scope="module")
def walk(plate, truth, tmp_path_factory):
    """A plate that is browsed; its labels measured, counted, and read from files."""
    folder = tmp_path_factory.mktemp("files")
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(str(plate)))
    tables = PlateTables(browser)
    said = []
    tables.message_sent.connect(said.append)
    load(tables, CONDITIONS, folder / "conditions.csv")
    objects = truth.dropna(subset="label").drop(columns="run").astype({"label": int})
    load(tables, objects, folder / "objects.csv")
    sites = objects.rename(columns={"well": "Metadata_Well", "field": "Metadata_Site"})
    load(tables, sites, folder / "sites.csv")
    tables.choose_table(TableOffer(TableOrigin.COUNT, "nuclei"))
    tables.measure_labels("nuclei", MeasureScope.ALL)
    assert "Measured" in said[-1]
    yield tables
    tables.close()


def well_values(values):
    """Values of wells as the map has them."""
    found = dict.fromkeys(WELLS)
    found |= {well: float(value) for well, value in values.dropna().items()}
    return found


def combine(series, how):
    return series.sum(min_count=1) if how == "sum" else series.agg(how)


def of_runs(frame, runs):
    return frame[frame["run"].isin(runs)] if runs else frame


@pytest.mark.default_cases(*PAIRS[::3])
@pytest.mark.parametrize("runs", CHOICES)
@pytest.mark.parametrize("rows_filter", FILTERS)
@pytest.mark.parametrize("terms", TERMS)
def test_measured_numbers(walk, truth, runs, rows_filter, terms):
    walk.browser.choose_acquisitions(runs)
    offer = TableOffer(TableOrigin.MEASURED, "nuclei")
    walk.choose_table(offer)
    walk.filter_wells(" and ".join(filter(None, (terms, rows_filter))))
    assert walk.view.problem == ""
    shown = of_runs(truth, runs)
    # Tests of another table choose rows by their wells, terms for wells do not.
    met = {"dose >= 0.5": TERMS["dose >= 0.5"], "drug = none and B": ["A/1", "B/2"]}
    shown = shown[shown["well"].isin(met.get(terms, WELLS))]
    rows = shown.dropna(subset="label")
    test = FILTERS[rows_filter]
    rows = rows if test is None else rows[test(rows)]
    for column, how in itertools.product(("voxels", "mean_0", "max_0"), AGGREGATIONS):
        walk.color_by(TableColumn(offer, column), how)
        expected = well_values(combine(rows.groupby("well")[column], how))
        assert walk.view.coloring.values == pytest.approx(expected), (column, how)
    # A field without an object counts, unless only some objects do.
    counted = shown if test is None else rows
    numbers = counted.groupby(["well", "field"])["label"].count().groupby("well")
    for how in NUMBERS:
        walk.color_by(TableColumn(offer, "label"), how)
        expected = well_values(combine(numbers, how))
        assert walk.view.coloring.values == pytest.approx(expected), how
    wells = set(TERMS[terms])
    wells &= wells if test is None else set(rows["well"])
    assert walk.view.wells == (wells if terms or rows_filter else None)


@pytest.mark.parametrize("runs", CHOICES)
@pytest.mark.parametrize("name", ["objects.csv", "sites.csv"])
def test_numbers_of_a_file_follow_the_acquisition_of_their_field(
    walk, truth, runs, name
):
    walk.filter_wells("")
    walk.browser.choose_acquisitions(runs)
    walk.choose_table(TableOffer(TableOrigin.FILE, name))
    rows = of_runs(truth, runs).dropna(subset="label")
    for how in AGGREGATIONS:
        walk.color_by(TableColumn(walk.joined.chosen, "mean_0"), how)
        expected = well_values(combine(rows.groupby("well")["mean_0"], how))
        assert walk.view.coloring.values == pytest.approx(expected), how


@pytest.mark.parametrize("runs", CHOICES)
def test_numbers_of_labels(walk, truth, runs):
    walk.filter_wells("")
    walk.browser.choose_acquisitions(runs)
    walk.choose_table(TableOffer(TableOrigin.COUNT, "nuclei"))
    shown = of_runs(truth, runs)
    numbers = shown.groupby(["well", "field"])["label"].count().groupby("well")
    for how in AGGREGATIONS:
        walk.color_by(TableColumn(walk.joined.chosen, "labels"), how)
        expected = well_values(combine(numbers, how))
        assert walk.view.coloring.values == pytest.approx(expected), how


@pytest.mark.parametrize("runs", CHOICES)
def test_tool_tips_have_the_numbers_of_the_map(walk, truth, runs):
    walk.browser.choose_acquisitions(runs)
    rows = of_runs(truth, runs).dropna(subset="label")
    for well in WELLS:
        found = dict(walk.joined.describe_well(well)).get("nuclei, measured")
        values = rows.loc[rows["well"] == well, "voxels"]
        if not len(values):
            assert found is None
            continue
        text = f"{values.mean():.4g} (mean of {len(values)})"
        assert dict(found)["voxels"] == text


def test_the_legend_names_what_the_numbers_are_of(walk):
    measured = TableOffer(TableOrigin.MEASURED, "nuclei")
    counted = TableOffer(TableOrigin.COUNT, "nuclei")
    conditions = TableOffer(TableOrigin.FILE, "conditions.csv")
    walk.filter_wells("")
    for column, how, title in (
        (TableColumn(measured, "voxels"), "mean", "voxels, mean of objects"),
        (TableColumn(measured, "voxels"), "count", "voxels, count of objects"),
        (TableColumn(measured, "label"), "sum", "number of nuclei, sum of {}"),
        (
            TableColumn(measured, "label"),
            "max",
            "number of nuclei per field, max of {}",
        ),
        (TableColumn(counted, "labels"), "count", "number of nuclei, count of images"),
        (TableColumn(counted, "labels"), "sum", "number of nuclei, sum of {}"),
    ):
        for runs, names in {
            (): "",
            (0,): ", round 0",
            (0, 1): "",
            (1,): ", round 1",
        }.items():
            walk.browser.choose_acquisitions(runs)
            walk.color_by(column, how)
            # B/3 has a field without labels, and A/2 one acquisition.
            fields = {(0,): "1 to 2 fields", (1,): "2 fields"}.get(
                runs, "2 to 4 fields"
            )
            assert walk.view.coloring.title == f"{title.format(fields)}{names}"
            # Conditions are of the wells, whatever is shown of these.
            walk.color_by(TableColumn(conditions, "dose"), "mean")
            assert walk.view.coloring.title == "dose"
            walk.color_by(TableColumn(conditions, "drug"), "count")
            assert walk.view.coloring.title == "drug, count of rows"


def test_each_column_keeps_its_aggregate(walk):
    measured = TableOffer(TableOrigin.MEASURED, "nuclei")
    chosen = {"voxels": "max", "mean_0": "median", "label": "std"}
    for name, how in chosen.items():
        walk.color_by(TableColumn(measured, name), how)
    walk.color_by(TableColumn(TableOffer(TableOrigin.COUNT, "nuclei"), "labels"))
    for name, how in reversed(chosen.items()):
        walk.color_by(TableColumn(measured, name))
        assert walk.joined.find_way() == how
    titles = walk.joined.list_columns()
    assert titles[TableColumn(measured, "label")].startswith("number of nuclei")


def test_the_map_follows_the_acquisition(walk):
    changes = []
    walk.changed.connect(lambda: changes.append(1))
    walk.browser.choose_acquisitions((0,))
    changes.clear()
    walk.browser.choose_acquisitions((1,))
    assert changes


@pytest.fixture
def classes(walk, truth, tmp_path):
    """A file of objects with classes, some of which are missing or blank."""
    objects = truth.dropna(subset="label").drop(columns="run").astype({"label": int})
    names = np.random.default_rng(3).choice(
        ["mitotic", "interphase", "dead cell", "", None], len(objects)
    )
    objects = objects.assign(class_by_hand=names)
    offer = load(walk, objects, tmp_path / "classes.csv")
    return TableColumn(offer, "class_by_hand"), objects.replace("", None)


@pytest.mark.parametrize("rows_filter", ["", "voxels > 9"])
@pytest.mark.parametrize("text", ["mitotic", "dead cell"])
def test_the_share_of_a_text_is_of_the_objects_that_have_one(
    walk, classes, text, rows_filter
):
    column, objects = classes
    walk.browser.choose_acquisitions(())
    walk.filter_wells(rows_filter)
    walk.color_by(column)
    names = "dead cell", "interphase", "mitotic"
    assert walk.view.shares == tuple(f"share of {name}" for name in names)
    walk.color_by(column, f"share of {text}")
    rows = objects.dropna(subset="class_by_hand")
    rows = rows[rows["voxels"] > 9] if rows_filter else rows
    is_text = rows["class_by_hand"] == text
    expected = well_values(100.0 * is_text.groupby(rows["well"]).mean())
    assert walk.view.coloring.values == pytest.approx(expected)
    title = f"class_by_hand, share of {text} among objects, %"
    assert walk.view.coloring.title == title
    assert walk.joined.find_way() == f"share of {text}"


def test_texts_of_wells_with_one_row_have_no_share(walk):
    walk.color_by(TableColumn(TableOffer(TableOrigin.FILE, "conditions.csv"), "drug"))
    assert walk.view.shares == ()
