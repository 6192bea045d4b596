"""Every number of results is that of pandas: ways, acquisitions and filters."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.plate.tables.table import AGGREGATIONS
from napari_ngff.viewer.browsing.joined_tables import NUMBERS, TableColumn
from napari_ngff.viewer.browsing.table_offers import TableOffer, TableOrigin
from napari_ngff.viewer.results.well_table import ResultTable
from napari_ngff.viewer.session import session_of
from plates import write_group

ROWS, COLUMNS = "ABCDEFGHIJKLMNOP", range(1, 25)
WELLS = [f"{row}/{column}" for row in ROWS for column in COLUMNS]
RUNS = {"0": "day 1", "1": "day 1", "2": "day 2", "3": "day 2"}
OBJECTS = TableOffer(TableOrigin.FILE, "objects.csv")
CONDITIONS = TableOffer(TableOrigin.FILE, "conditions.csv")
FILTERS = {
    "": lambda frame: frame,
    "area > 50": lambda frame: frame[frame["area"] > 50],
    "kind = long and size <= 700": lambda frame: frame[
        (frame["kind"] == "long") & (frame["size"] <= 700)
    ],
    "field = 1": lambda frame: frame[frame["field"] == 1],
}
WHERE = {
    "": lambda frame: frame["well"] != "",
    "C:F": lambda frame: frame["well"] == "",  # no such word, see below
    "A1:C4": lambda frame: frame["well"].str.fullmatch("[ABC]/[1-4]"),
    "compound = dmso": lambda frame: frame["compound"] == "dmso",
    "compound != dmso and dose >= 1": lambda frame: (
        (frame["compound"] != "dmso") & (frame["dose"] >= 1)
    ),
}
del WHERE["C:F"]
CHOICES = [(), (0,), (1,), (0, 1)]


def make_truth():
    """Objects of 384 wells with 4 fields of two acquisitions, and the wells."""
    random = np.random.default_rng(7)
    wells = pd.DataFrame({"well": WELLS})
    column = wells["well"].str.split("/").str[1].astype(int)
    wells["compound"] = np.where(column <= 2, "dmso", np.where(column % 2, "x", "y"))
    wells["dose"] = 10.0 ** (column % 5 - 2)
    wells.loc[column <= 2, "dose"] = np.nan
    counts = random.integers(0, 4, len(WELLS) * len(RUNS))
    counts[40:60] = 0
    places = pd.DataFrame(itertools.product(WELLS, RUNS), columns=["well", "field"])
    rows = places.loc[places.index.repeat(counts)].reset_index(drop=True)
    rows["acquisition"] = rows["field"].map(RUNS)
    rows["field"] = rows["field"].astype(int)
    rows["label"] = np.arange(len(rows)) + 1
    rows["area"] = random.normal(60, 20, len(rows)).round(3)
    rows.loc[::17, "area"] = np.nan
    rows["size"] = random.integers(1, 1000, len(rows))
    rows["kind"] = random.choice(["round", "long", "mitotic"], len(rows))
    rows.loc[::13, "kind"] = None
    return wells, rows


@pytest.fixture(scope="module")
def truth():
    return make_truth()


@pytest.fixture(scope="module")
def tables(truth, tmp_path_factory):
    """The tables of a plate of which nothing but the plan exists."""
    folder = tmp_path_factory.mktemp("results")
    plate = {
        "rows": [{"name": row} for row in ROWS],
        "columns": [{"name": str(column)} for column in COLUMNS],
        "wells": [
            {"path": path, "rowIndex": at // 24, "columnIndex": at % 24}
            for at, path in enumerate(WELLS)
        ],
        "acquisitions": [{"id": i, "name": f"day {i + 1}"} for i in (0, 1)],
    }
    write_group(folder / "p.ome.zarr", {"plate": plate}, 3)
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(str(folder / "p.ome.zarr")))
    found = session_of(viewer).open_tables()
    assert session_of(viewer).open_tables() is found
    for frame, offer in zip(truth, (CONDITIONS, OBJECTS), strict=True):
        frame.to_csv(folder / offer.name, index=False)
        found.load_file(str(folder / offer.name))
    yield found
    browser.close()


def choose(tables, runs, text):
    tables.browser.choose_acquisitions(runs)
    tables.filter_wells(text)
    assert tables.view.problem == ""


def rows_left(truth, runs, rows, where):
    """The objects that count, and the wells that are meant."""
    wells, objects = truth
    objects = FILTERS[rows](objects)
    names = {f"day {run + 1}" for run in runs} or {*RUNS.values()}
    objects = objects[objects["acquisition"].isin(names)]
    meant = wells["well"][WHERE[where](wells)]
    if rows:
        meant = meant[meant.isin(objects["well"])]
    return objects[objects["well"].isin(meant)], [*meant]


CASES = [*itertools.product(FILTERS, WHERE)]


@pytest.mark.parametrize(("rows", "where"), CASES)
def test_values_are_those_of_pandas(tables, truth, rows, where):
    at = CASES.index((rows, where))
    runs = CHOICES[(at + at // len(WHERE)) % len(CHOICES)]
    choose(tables, runs, " and ".join(filter(None, (rows, where))))
    objects, meant = rows_left(truth, runs, rows, where)
    counted = tables.joined.rows_that_count(OBJECTS).frame
    assert counted["label"].tolist() == objects["label"].tolist()
    results = ResultTable(lambda: True)
    for how in AGGREGATIONS:
        for name in ("area", "size"):
            column = TableColumn(OBJECTS, name)
            tables.joined.ways[column] = how
        if how in NUMBERS:
            tables.joined.ways[TableColumn(OBJECTS, "label")] = how
        results.show(tables)
        assert results.problem == ""
        frame = results.frame
        assert [*frame.index] == meant
        for name in ("area", "size"):
            grouped = objects.groupby("well")[name]
            wanted = grouped.sum(min_count=1) if how == "sum" else grouped.agg(how)
            title = f"{name}, {how}" + (" of objects" if how == "count" else "")
            check(frame[title], wanted.reindex(meant))
        if how in NUMBERS:
            numbers = objects.groupby(["well", "field"]).size().groupby("well")
            title = "number of objects, " + (
                how if how == "sum" else f"{how} of images"
            )
            check(frame[title], numbers.agg(how).reindex(meant))
    fields = objects.groupby("well")["field"].nunique().reindex(meant)
    check(frame["number of fields (objects.csv)"], fields)
    shares = objects.groupby("well")["kind"].value_counts(normalize=True)
    for well in meant:
        found = shares.get(well)
        kind, share = frame.loc[well, ["kind", "kind, share"]]
        if found is None or not len(found):
            assert pd.isna(kind)
        else:
            assert kind == min(found.index[found == found.max()])
            assert share == pytest.approx(found.max())
    wells = truth[0].set_index("well").loc[meant]
    check(frame["dose"], wells["dose"])
    assert frame["compound"].tolist() == wells["compound"].tolist()


def check(found, wanted):
    np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=1e-9)
