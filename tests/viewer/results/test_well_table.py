"""Every number of results is that of pandas: ways, acquisitions and filters."""

from __future__ import annotations

import itertools
import re

import anndata
import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.plate.results.well_results import PERCENT, Z_SCORE
from napari_ngff.viewer.browsing.joined_tables import TableColumn
from napari_ngff.viewer.browsing.table_offers import (
    TableOffer,
    TableOrigin,
    note_of,
)
from napari_ngff.viewer.results import well_table
from napari_ngff.viewer.results.plot_data import list_rows
from napari_ngff.viewer.results.well_table import (
    CONTROLS,
    ResultChoice,
    ResultTable,
    note_controls,
    recall_controls,
)
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.session import session_of
from plates import write_group, write_plate

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
    "A1:C4": lambda frame: frame["well"].str.fullmatch("[ABC]/[1-4]"),
    "compound = dmso": lambda frame: frame["compound"] == "dmso",
    "compound != dmso and dose >= 1": lambda frame: (
        (frame["compound"] != "dmso") & (frame["dose"] >= 1)
    ),
}
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


def values_of(objects, wells, ways):
    """A value of each column and well, by pandas alone."""
    groups = objects.groupby("well")
    found = {"compound": wells["compound"], "dose": wells["dose"]}
    sizes = objects.groupby(["well", "field"]).size().groupby("well")
    how = ways["label"]
    of = "" if how == "sum" else " of images"
    found[f"number of objects, {how}{of}"] = sizes.agg(how)
    for name in ("area", "size"):
        how = ways[name]
        grouped = (
            groups[name].sum(min_count=1) if how == "sum" else groups[name].agg(how)
        )
        found[f"{name}, {how}" + (" of objects" if how == "count" else "")] = grouped
    shares = objects.groupby("well")["kind"].value_counts(normalize=True)
    shares = shares.reset_index().sort_values(
        ["proportion", "kind"], ascending=[False, True]
    )
    best = shares.drop_duplicates("well").set_index("well")
    found["kind"] = best["kind"]
    found["number of images"] = groups["field"].nunique()
    found["kind, %"] = 100 * best["proportion"]
    return pd.DataFrame(found, index=wells.index)


def name_wells(frame):
    return [path.replace("/", "") for path in frame.index]


CASES = [*itertools.product(FILTERS, WHERE)]
WAYS = {
    name: dict(zip(("area", "size", "label"), ways, strict=True))
    for name, *ways in (
        ("usual", "mean", "mean", "sum"),
        ("middle", "median", "sum", "mean"),
        ("spread", "std", "count", "max"),
        ("ends", "min", "max", "median"),
        ("others", "count", "std", "std"),
        ("sums", "sum", "median", "min"),
    )
}


@pytest.mark.default_cases(
    "-",
    "area > 50-A1:C4",
    "kind = long and size <= 700-compound = dmso",
    "field = 1-compound != dmso and dose >= 1",
)
@pytest.mark.parametrize(("rows", "where"), CASES)
def test_values_are_those_of_pandas(tables, truth, rows, where):
    at = CASES.index((rows, where))
    runs = CHOICES[(at + at // len(WHERE)) % len(CHOICES)]
    choose(tables, runs, " and ".join(filter(None, (rows, where))))
    objects, meant = rows_left(truth, runs, rows, where)
    counted = tables.joined.rows_that_count(OBJECTS).frame
    assert counted["label"].tolist() == objects["label"].tolist()
    wells = truth[0].set_index("well").loc[meant]
    results = ResultTable(lambda: True)
    for ways in WAYS.values():
        for name, how in ways.items():
            tables.color_by(TableColumn(OBJECTS, name), how)
        results.show(tables)
        check(results, values_of(objects, wells, ways))
    # The map has the same numbers.
    wanted = values_of(objects, wells, ways)["number of objects, min of images"]
    shown = pd.Series(tables.view.coloring.values)[meant].astype(float)
    np.testing.assert_allclose(shown, wanted)


def check(results, wanted):
    """Compare what is shown with a frame whose index are wells."""
    frame = results.shown.frame
    assert results.note.startswith(f"{len(wanted):,} of {len(WELLS):,} wells.")
    assert [*frame["well"]] == name_wells(wanted)
    pd.testing.assert_frame_equal(
        frame.filter(regex="^(?!well|acquisition)").set_index(wanted.index),
        wanted,
        check_dtype=False,
        check_names=False,
    )
    assert {*wanted} <= {*results.shown.meanings}


KEYS = ("compound", "dose")


@pytest.mark.parametrize("keys", [KEYS, KEYS[:1], KEYS[1:], ("kind",)])
def test_conditions_are_the_means_of_their_wells(tables, truth, keys):
    choose(tables, (0,), "size > 200")
    objects = truth[1][(truth[1]["size"] > 200) & (truth[1]["acquisition"] == "day 1")]
    wells = truth[0].set_index("well")
    wells = wells.loc[[path for path in WELLS if path in {*objects["well"]}]]
    for name, how in WAYS["usual"].items():
        tables.color_by(TableColumn(OBJECTS, name), how)
    values = values_of(objects, wells, WAYS["usual"])
    results = ResultTable(lambda: True)
    results.show(tables)
    results.choose(keys=keys)
    groups = values.groupby([*keys], dropna=False)
    frame = results.shown.frame
    assert frame["number of wells"].tolist() == groups.size().tolist()
    wanted = groups.mean(numeric_only=True).reset_index()
    for title in wanted:
        shown = title if title in keys else f"{title}, mean of wells"
        pd.testing.assert_series_equal(frame[shown], wanted[title], check_names=False)
        assert shown in results.shown.meanings
    if "kind" not in keys:
        # Texts are counted in all rows of the wells.
        rows = objects.assign(group=objects["well"].map(groups.ngroup()))
        for number, of_group in rows.groupby("group"):
            counts = of_group["kind"].value_counts(normalize=True)
            assert frame["kind"][number] == min(counts.index[counts == counts.max()])
            assert frame["kind, %"][number] == pytest.approx(100 * counts.max())
    row = results.shown.rows
    assert {path: row[path] for path in wells.index} == groups.ngroup().to_dict()


def test_wells_without_data_of_the_acquisition_are_not_counted(tables, truth):
    choose(tables, (0,), "")
    wells, objects = truth
    measured = {*objects["well"][objects["acquisition"] == "day 1"]}
    assert len(measured) < len(WELLS)
    results = ResultTable(lambda: True)
    results.show(tables)
    results.choose(keys=("compound",))
    wanted = wells["well"].isin(measured).groupby(wells["compound"]).sum()
    assert results.shown.frame["number of wells"].tolist() == wanted.tolist()


def test_z_primes_of_doses_are_not_praised(tables):
    choose(tables, (), "")
    results = ResultTable(lambda: True)
    results.show(tables)
    results.choose(controls=(("compound", "x"), ("compound", "y")))
    assert "Z'" in results.shown.meanings["dose"]
    assert "Z' of the controls: " in results.note
    assert not {"dose", "number of images"} & {
        *re.findall(r"[a-z ]+[a-z]", results.note)
    }
    results.choose(controls=(None, None))


@pytest.mark.parametrize("text", ["", "A", "compound = x and dose > 1", "area > 50"])
def test_values_are_compared_to_controls_of_all_wells(tables, truth, text):
    choose(tables, (), text)
    for name, how in WAYS["usual"].items():
        tables.color_by(TableColumn(OBJECTS, name), how)
    objects, wells = truth[1], truth[0].set_index("well")
    if text == "area > 50":
        objects = objects[objects["area"] > 50]
    values = values_of(objects, wells, WAYS["usual"])
    low, high = (wells["compound"] == name for name in ("dmso", "x"))
    results = ResultTable(lambda: True)
    results.show(tables)
    results.choose(controls=(("compound", "dmso"), ("compound", "x")))
    meant = [
        path for path in WELLS if tables.view.wells is None or path in tables.view.wells
    ]
    names = "area, mean", "size, mean", "number of objects, sum"
    for how in (PERCENT, Z_SCORE):
        results.choose(shown_as=how)
        for name in names:
            middle = values[name][low].median()
            mad = (values[name][low] - middle).abs().median()
            wanted = 100 * values[name] / middle
            if how == Z_SCORE:
                wanted = (values[name] - middle) / (1.4826 * mad)
            title = f"{name}, {how}"
            found = results.shown.frame[title].to_numpy()
            np.testing.assert_allclose(found, wanted[meant].to_numpy(), rtol=1e-9)
            prime = 1 - 3 * (values[name][low].std() + values[name][high].std()) / abs(
                values[name][high].mean() - values[name][low].mean()
            )
            assert f"Z': {prime:.2f}." in results.shown.meanings[title]
        # No control has a dose.
        assert "dose" in results.shown.frame
        assert " As " not in results.shown.meanings["dose"]
    assert "Z' of the controls: " in results.note
    again = ResultTable(lambda: True)
    again.show(tables)
    assert again.choice.controls == results.choice.controls
    again.choose(controls=(None, None))


@pytest.mark.parametrize("noted", [None, 7, {"a": 1}, "of the plate"])
def test_controls_of_the_plates_that_were_used_last_are_remembered(
    noted, tmp_path, monkeypatch
):
    monkeypatch.setattr(well_table, "MOST_NOTED", 2)
    places = [write_plate(tmp_path / name, grid=(1, 1)) for name in "abcd"]
    nodes = [open_node(str(place)) for place in places]
    damaged = {note_of(nodes[0]): 7} if noted == "of the plate" else noted
    settings.change_note(CONTROLS, lambda _: damaged)
    assert recall_controls(nodes[0]) == ResultChoice()
    for number, node in enumerate(nodes):
        note_controls(node, (("drug", str(number)), None))
    found = [recall_controls(node).controls for node in nodes]
    assert found == [(None, None), *(((("drug", x)), None) for x in "123")]


def read_anndata(path):
    found = anndata.read_h5ad(path)
    return pd.concat([found.to_df(), found.obs], axis=1)


ENDINGS = {"csv": pd.read_csv, "parquet": pd.read_parquet, "h5ad": read_anndata}


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_have_what_is_shown(tables, truth, tmp_path, ending):
    choose(tables, (1,), "dose >= 1")
    tables.color_by(TableColumn(OBJECTS, "area"), "median")
    results = ResultTable(lambda: True)
    results.show(tables)
    for keys in ((), KEYS):
        results.choose(keys=keys)
        path = tmp_path / f"wells.{ending}"
        results.save(str(path), results.shown.frame)
        saved = f"{len(results.shown.frame):,} rows are in {path}."
        assert results.note == f"{results.shown.note} {saved}"
        compare_files(ENDINGS[ending](path), results.shown.frame)
        if ending == "h5ad" and not keys:
            names = anndata.read_h5ad(path).obs_names
            assert [*names] == [*results.shown.frame["well"]]
    results.save(str(tmp_path / f"objects.{ending}"), None)
    objects = truth[1].merge(truth[0], on="well", how="left")
    objects = objects[(objects["acquisition"] == "day 2") & (objects["dose"] >= 1)]
    objects["well"] = objects["well"].str.replace("/", "")
    found = ENDINGS[ending](tmp_path / f"objects.{ending}")
    compare_files(found, objects.reset_index(drop=True))


def compare_files(found, wanted):
    assert {*found} == {*wanted}
    for title in wanted:
        values = wanted[title]
        if values.dtype.kind in "iuf":
            np.testing.assert_allclose(found[title].astype(float), values.astype(float))
        else:
            texts = [
                [*map(str, x.astype(object).where(x.notna(), ""))]
                for x in (found[title], values)
            ]
            assert texts[0] == texts[1]


def test_a_saved_table_that_is_loaded_again_has_columns_of_its_own(tables, tmp_path):
    choose(tables, (), "")
    for name, how in WAYS["usual"].items():
        tables.color_by(TableColumn(OBJECTS, name), how)
    results = ResultTable(lambda: True)
    results.show(tables)
    before, path = results.shown.frame, tmp_path / "again.csv"
    results.save(str(path), results.shown.frame)
    kept = tables.joined
    tables.load_file(str(path))
    results.show(tables)
    tables.joined = kept
    found = results.shown.frame
    for title in ("area, mean", "size, mean", "number of images"):
        for name in (title, f"{title} (again)"):
            np.testing.assert_allclose(found[name], before[title])


def test_what_cannot_be_written_is_reported(tables, tmp_path):
    results = ResultTable(lambda: True)
    choose(tables, (), "")
    results.show(tables)
    results.save(str(tmp_path / "no folder" / "wells.csv"), results.shown.frame)
    assert "cannot be written" in results.note


def test_a_plot_begins_with_the_count_or_the_column_that_was_chosen(tables):
    choose(tables, (), "")
    columns = {
        "area": ["number of objects, sum", "area"],
        "size": ["size, mean", "size"],
    }
    assert tables.joined.find_first_column(OBJECTS) == "area"
    for name, wanted in columns.items():
        tables.color_by(TableColumn(OBJECTS, name), WAYS["usual"][name])
        rows = [
            list_rows(tables.joined, None, of_objects=of_objects)
            for of_objects in (False, True)
        ]
        assert [numbers[0] for _, numbers, _ in rows] == wanted
