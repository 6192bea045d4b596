"""Results of several plates: every number is that of pandas on the rows of all."""

from __future__ import annotations

import shutil

import anndata
import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel

from napari_ngff import open_node
from napari_ngff.plate.results.dose_curves import fit_curve
from napari_ngff.plate.results.well_results import PERCENT, Z_SCORE
from napari_ngff.store.hierarchy.image_folder import image_folder
from napari_ngff.viewer.browsing.joined_tables import TableColumn
from napari_ngff.viewer.browsing.listed_tables import LACKS
from napari_ngff.viewer.browsing.table_offers import (
    MeasureScope,
    TableOffer,
    TableOrigin,
)
from napari_ngff.viewer.results.plot_data import DOSES, OBJECTS, list_rows, make_plot
from napari_ngff.viewer.results.well_table import ResultTable
from napari_ngff.viewer.session import session_of
from plates import write_group, write_plate

PLATES = ["one.zarr", "two.zarr", "three.zarr"]
ROWS, COLUMNS = "ABCD", range(1, 9)
WELLS = [f"{row}/{column}" for row in ROWS for column in COLUMNS]
LOW, HIGH = ("compound", "dmso"), ("compound", "kill")
CONTROLS = {"controls": (LOW, HIGH)}


def make_truth(number):
    """Wells of a plate with compounds of its own, and objects of two fields."""
    random = np.random.default_rng(number)
    wells = pd.DataFrame({"plate": PLATES[number], "well": WELLS})
    column = wells["well"].str[2:].astype(int)
    names = {1: "dmso", 2: "kill", 3: "common"}
    wells["compound"] = column.map(names).fillna(f"only {number}")
    wells["dose"] = np.where(column < 3, 0.0, 10.0 ** (column - 5))
    rows = wells.loc[wells.index.repeat(random.integers(1, 7, len(wells)))]
    rows = rows[["plate", "well"]].reset_index(drop=True)
    rows["field"] = random.integers(0, 2, len(rows))
    rows["label"] = np.arange(len(rows)) + 1
    level = {"dmso": 100, "kill": 20, "common": 60}
    means = wells.set_index("well")["compound"].map(level).fillna(50)
    rows["area"] = rows["well"].map(means) * (number + 1)
    rows["area"] += random.normal(0, 5, len(rows)).round(3)
    return wells, rows


@pytest.fixture
def truth():
    """Wells and objects of all plates."""
    pairs = [make_truth(number) for number in range(len(PLATES))]
    return [pd.concat(frames, ignore_index=True) for frames in zip(*pairs, strict=True)]


class Screen:
    """Plates that are listed in a viewer, without images; tables are files."""

    def __init__(self, folder, truth, lacking=()):
        self.folder, self.viewer = folder, ViewerModel()
        self.session = session_of(self.viewer)
        plan = {
            "rows": [{"name": row} for row in ROWS],
            "columns": [{"name": str(column)} for column in COLUMNS],
            "wells": [
                {"path": path, "rowIndex": at // 8, "columnIndex": at % 8}
                for at, path in enumerate(WELLS)
            ],
        }
        for name in PLATES:
            write_group(folder / name, {"plate": plan}, 3)
            tables = self.show(name)
            for kind, frame in zip(("conditions", "objects"), truth, strict=True):
                rows = frame[frame["plate"] == name].drop(columns="plate")
                # Files of plates have names of their own.
                path = folder / f"{kind} of {name[:-5]}.csv"
                rows.drop(columns=lacking, errors="ignore").to_csv(path, index=False)
                if (name, kind) not in lacking:
                    tables.load_file(str(path))
        self.listed = self.session.plates.listed

    def show(self, name):
        self.session.browse(open_node(str(self.folder / name)))
        return self.session.open_tables()

    def results(self, **choice):
        found = ResultTable(lambda: True)
        tables = self.session.open_tables()
        self.listed.choose(tables, is_on=True)
        found.show(tables, self.listed)
        found.choose(**choice)
        return found


@pytest.fixture
def screen(tmp_path, truth):
    found = Screen(tmp_path, truth)
    yield found
    found.session.browser.close()


def well_values(truth):
    """The value of each well, in the order of the table."""
    wells, rows = truth
    keys = ["plate", "well"]
    found = wells.set_index(keys)
    found["area, mean"] = rows.groupby(keys)["area"].mean()
    sizes = rows.groupby([*keys, "field"]).size().groupby(keys)
    found["number of images"] = sizes.size()
    return found.reset_index()


@pytest.mark.parametrize("shown", PLATES)
def test_wells_are_those_of_all_plates(screen, truth, shown):
    screen.show(shown)
    frame, wanted = screen.results().shown.frame, well_values(truth)
    assert frame["plate"].tolist() == wanted["plate"].tolist()
    assert [*frame["well"]] == [*wanted["well"].str.replace("/", "")]
    for title in ("compound", "dose", "area, mean", "number of images"):
        assert frame[title].tolist() == pytest.approx(wanted[title].tolist())
    assert screen.listed.notes == ("", "")


@pytest.mark.parametrize("how", [PERCENT, Z_SCORE])
@pytest.mark.parametrize("text", ["", "A", "compound = common"])
def test_wells_are_compared_to_controls_of_their_own_plate(screen, truth, how, text):
    tables = screen.show(PLATES[1])
    tables.filter_wells(text)
    results, values = screen.results(**CONTROLS, shown_as=how), well_values(truth)
    wanted, primes = values["area, mean"].copy(), []
    for plate in PLATES:
        is_here = values["plate"] == plate
        low, high = (
            wanted[is_here & (values["compound"] == name)] for _, name in (LOW, HIGH)
        )
        middle = low.median()
        mad = (low - middle).abs().median()
        prime = 1 - 3 * (low.std() + high.std()) / abs(high.mean() - low.mean())
        primes.append(f"{prime:.2f} ({plate})")
        here = wanted[is_here]
        by_mad = (here - middle) / (1.4826 * mad)
        wanted[is_here] = 100 * here / middle if how == PERCENT else by_mad
    meant = {
        "": values["well"] != "",
        "A": values["well"].str.startswith("A"),
        "compound = common": values["compound"] == "common",
    }[text]
    found = results.shown.frame[f"area, mean, {how}"]
    np.testing.assert_allclose(found, wanted[meant], rtol=1e-9)
    assert ", ".join(primes) in results.shown.meanings[f"area, mean, {how}"]
    assert results.note.startswith(f"{meant.sum()} of 96 wells of 3 plates.")
    assert "dose" in results.shown.frame


def test_conditions_are_of_the_wells_of_all_plates(screen, truth):
    frame = screen.results(keys=("compound",)).shown.frame.set_index("compound")
    groups = well_values(truth).groupby("compound")
    assert frame["number of wells"].to_dict() == groups.size().to_dict()
    found = frame["area, mean, mean of wells"]
    np.testing.assert_allclose(found, groups["area, mean"].mean()[found.index])
    frame = screen.results(keys=("plate",)).shown.frame
    assert dict(zip(frame["plate"], frame["number of wells"], strict=True)) == (
        dict.fromkeys(PLATES, len(WELLS))
    )


def test_a_curve_is_of_the_wells_of_all_plates(screen, truth):
    tables = screen.session.open_tables()
    screen.results(**CONTROLS, shown_as=PERCENT)
    rows = list_rows(
        screen.listed.joiner(tables)(), tables.result_choice, of_objects=False
    )
    asked = {"x": "dose", "y": f"area, mean, {PERCENT}", "group": "compound"}
    plot = make_plot(rows, {"kind": DOSES, **asked})
    values = well_values(truth)
    middles = values[values["compound"] == "dmso"].groupby("plate")["area, mean"]
    values["y"] = 100 * values["area, mean"] / values["plate"].map(middles.median())
    texts = {text.partition(":")[0]: text for text, _ in plot.legend}
    for compound, wells in values.groupby("compound"):
        wanted = fit_curve(wells["dose"], wells["y"]).text
        assert texts[compound] == f"{compound}: {wanted}"
    assert sorted(plot.dots["y"]) == pytest.approx(sorted(values["y"]))
    assert plot.note.startswith("96 of 96 wells of 3 plates have these values.")
    rows = list_rows(screen.listed.joiner(tables)(), None, of_objects=True)
    asked = {"x": "area", "y": "label", "group": "plate"}
    plot = make_plot(rows, {"kind": OBJECTS, **asked})
    assert [name for name, _ in plot.legend] == sorted(PLATES)
    assert sorted(plot.dots["x"]) == sorted(truth[1]["area"])


def read_anndata(path):
    found = anndata.read_h5ad(path)
    return pd.concat([found.to_df(), found.obs], axis=1)


@pytest.mark.parametrize(
    ("ending", "read"),
    [("csv", pd.read_csv), ("parquet", pd.read_parquet), ("h5ad", read_anndata)],
)
def test_files_name_the_plate_of_each_row(screen, truth, tmp_path, ending, read):
    results, values = screen.results(), well_values(truth)
    objects = truth[1].merge(truth[0], on=["plate", "well"])
    for of_objects, wanted in ((False, values), (True, objects)):
        path = tmp_path / f"saved.{ending}"
        results.save(str(path), None if of_objects else results.shown.frame)
        found = read(path)
        assert f"{len(wanted)} rows are in" in results.note
        for title in {*wanted} - {"well", "field"}:
            assert [*found[title]] == pytest.approx([*wanted[title]])
        assert [*found["well"]] == [*wanted["well"].str.replace("/", "")]


def test_a_plate_without_controls_is_named(tmp_path, truth):
    is_on_two = truth[0]["plate"] == PLATES[1]
    is_control = truth[0]["compound"] == "dmso"
    truth[0].loc[is_on_two & is_control, "compound"] = "water"
    screen = Screen(tmp_path, truth)
    results = screen.results(**CONTROLS, shown_as=PERCENT)
    assert " No negative controls: two.zarr." in results.note
    counts = results.shown.frame.groupby("plate")[f"area, mean, {PERCENT}"].count()
    assert counts.to_dict() == {"one.zarr": 32, "three.zarr": 32, "two.zarr": 0}
    screen.session.browser.close()


@pytest.mark.parametrize(("how", "area"), [(PERCENT, 0.0), (Z_SCORE, 7.0)])
def test_columns_that_cannot_be_compared_on_a_plate_are_named(
    tmp_path, truth, how, area
):
    wells, rows = truth
    controls = wells[(wells["plate"] == PLATES[2]) & (wells["compound"] == "dmso")]
    is_control = (rows["plate"] == PLATES[2]) & rows["well"].isin(controls["well"])
    rows.loc[is_control, "area"] = area
    screen = Screen(tmp_path, truth)
    results = screen.results(**CONTROLS, shown_as=how)
    assert "Controls do not vary, or are 0: " in results.note
    assert "area, mean (three.zarr)" in results.note
    counts = results.shown.frame.groupby("plate")[f"area, mean, {how}"].count()
    assert counts.to_dict() == {"one.zarr": 32, "three.zarr": 0, "two.zarr": 32}
    screen.session.browser.close()


def test_what_a_plate_lacks_is_named(tmp_path, truth):
    screen = Screen(tmp_path, truth, lacking=[(PLATES[1], "objects")])
    rows = truth[1][truth[1]["plate"] == PLATES[2]].drop(columns=["plate", "area"])
    rows.assign(area="large").to_csv(tmp_path / "objects of one.csv", index=False)
    tables = screen.show(PLATES[2])
    tables.forget_file("objects of three.csv")
    tables.load_file(str(tmp_path / "objects of one.csv"))
    results = screen.results(**CONTROLS, shown_as=PERCENT)
    frame = results.shown.frame
    assert screen.listed.notes[1] == (
        "two.zarr lacks the table objects of one.csv."
        " three.zarr lacks numbers in area of objects of one.csv."
    )
    has_values = frame.groupby("plate")[f"area, mean, {PERCENT}"].count()
    assert has_values.to_dict() == {"one.zarr": 32, "three.zarr": 0, "two.zarr": 0}
    screen.session.browser.close()


@pytest.mark.parametrize("target", [0, 2])
def test_another_plate_on_the_canvas_changes_no_result(screen, truth, target):
    tables = screen.show(PLATES[1])
    offer = TableOffer(TableOrigin.FILE, "objects of two.csv")
    tables.color_by(TableColumn(offer, "area"), "median")
    tables.filter_wells("dose >= 1")
    results = screen.results(**CONTROLS, shown_as=Z_SCORE, keys=("compound",))
    before = results.shown.frame
    other = screen.show(PLATES[target])
    results.show(other, screen.listed)
    pd.testing.assert_frame_equal(results.shown.frame, before)
    assert other.joined.text == "dose >= 1"
    assert results.choice == other.result_choice
    results.choose(keys=())
    wells = truth[0]["dose"] >= 1
    assert len(results.shown.rows) == wells.sum()
    # Each row leads to the well of its plate.
    addresses = {x: x.rpartition("/")[2] for x in screen.session.plates.browsers}
    places = [screen.listed.find_place(key) for key in results.shown.rows.index]
    found = [(addresses[address], well) for address, well in places]
    assert found == [*truth[0][wells][["plate", "well"]].itertuples(False, None)]


def test_tables_of_plates_that_were_never_shown_are_read(screen, truth):
    again = Screen.__new__(Screen)
    again.folder, again.viewer = screen.folder, ViewerModel()
    again.session = session_of(again.viewer)
    (screen.folder / "folder").mkdir()
    shutil.copytree(screen.folder / PLATES[0], screen.folder / "folder" / "p.zarr")
    again.session.browse(image_folder(str(screen.folder / "folder")))
    tables = again.show(PLATES[0])
    again.listed = again.session.plates.listed
    again.session.plates.add_plates(str(screen.folder / name) for name in PLATES[1:])
    again.session.plates.add_plates([str(screen.folder / "gone.zarr")])
    results, wanted = again.results(), well_values(truth)
    assert results.shown.frame["area, mean"].tolist() == pytest.approx(
        wanted["area, mean"].tolist()
    )
    short, full = again.listed.notes
    assert short == LACKS.format(1, 4)
    assert full.startswith("gone.zarr: ")
    assert "folder" not in full
    # They are there once such a plate is shown.
    before = results.shown.frame
    results.show(again.show(PLATES[2]), again.listed)
    pd.testing.assert_frame_equal(results.shown.frame, before)
    again.listed.choose(tables, is_on=False)
    results.show(again.session.open_tables(), again.listed)
    assert len(results.shown.frame) == len(WELLS)
    assert "plate" not in results.shown.frame
    again.session.browser.close()


def test_measured_tables_of_plates_are_joined_with_those_in_images(tmp_path):
    folders = [
        write_plate(
            tmp_path / name, grid=(1, 2), fields=2, labelled=lambda _: ("cells",)
        )
        for name in PLATES
    ]
    means = []
    for folder in folders[::-1]:
        viewer = ViewerModel()
        session_of(viewer).browse(open_node(str(folder)))
        tables = session_of(viewer).open_tables()
        tables.measure_labels("cells", MeasureScope.ALL)
        rows = tables.table.frame.groupby("well", observed=True)
        column = tables.table.numeric_columns[-1]
        means.append(rows[column].mean().tolist())
        if folder != folders[0]:
            tables.save_in_plate()
    # That of the first is not saved.
    plates = session_of(viewer).plates
    plates.add_plates(map(str, folders))
    shutil.rmtree(folders[2] / "A" / "2" / "0" / "tables")
    (folders[2] / "A/2/0").mkdir(exist_ok=True)
    plates.listed.choose(tables, is_on=True)
    results = ResultTable(lambda: True)
    results.show(tables, plates.listed)
    found = results.shown.frame
    assert [*found["plate"]] == [name for name in PLATES for _ in range(2)]
    assert found[f"{column}, mean"].tolist()[:4] == pytest.approx(means[2] + means[1])
    assert plates.listed.notes == ("", "")
