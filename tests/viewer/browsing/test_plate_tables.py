"""Tables of a plate that is walked: filter, colours, features, measuring."""

from __future__ import annotations

import shutil
import sqlite3
import warnings
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel
from napari.layers import Labels
from napari.utils.notifications import notification_manager

from napari_ngff import open_node
from napari_ngff.labels.field_states import FieldStates
from napari_ngff.plate.tables.measure_labels import measure
from napari_ngff.plate.tables.table import make_table
from napari_ngff.viewer.browsing.joined_tables import TableColumn, color_categories
from napari_ngff.viewer.browsing.plate_tables import PlateTables
from napari_ngff.viewer.browsing.table_offers import (
    MeasureScope,
    TableOffer,
    TableOrigin,
    find_offers,
)
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.layer_measuring import join_features, part_features
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from plates import write_group, write_image, write_plate

CSV = "well,dose,drug,n\nA1,0.1,dmso,4\na02,0.5,x,\nB1,0.1,x,9\nB1,0.1,y,5\nH12,1,x,1\n"


@pytest.fixture(scope="module")
def plate(tmp_path_factory):
    """2 x 3 wells, 2 fields; nuclei in row A."""
    where = tmp_path_factory.mktemp("tables") / "p.ome.zarr"
    return write_plate(
        where,
        grid=(2, 3),
        fields=2,
        shape=(2, 16, 16),
        labelled=lambda well: ("nuclei",) if well[0] == "A" else (),
    )


@pytest.fixture
def tables(plate):
    viewer = ViewerModel()
    made = PlateTables(session_of(viewer).browse(open_node(str(plate))))
    made.viewer = viewer
    made.said = []
    made.message_sent.connect(made.said.append)
    yield made
    made.close()


@pytest.fixture
def loaded(tables, tmp_path):
    path = tmp_path / "conditions.csv"
    path.write_text(CSV)
    tables.load_file(str(path))
    return tables


def filtered(tables, text):
    tables.filter_wells(text)
    return tables.view.wells


def color(tables, column, how):
    tables.color_by(TableColumn(tables.joined.chosen, column), how)


def labels_of(tables):
    return next(x for x in tables.viewer.layers if isinstance(x, Labels))


def test_a_file_colours_the_map(loaded):
    assert loaded.joined.chosen == TableOffer(TableOrigin.FILE, "conditions.csv")
    assert loaded.table.columns == ("dose", "drug", "n")
    assert loaded.said == ["Not on this plate, in conditions.csv: H12."]
    color(loaded, "n", "mean")
    shown = loaded.view.coloring
    assert shown.values == {
        "A/1": 4.0,
        "A/2": None,
        "A/3": None,
        "B/1": 7.0,
        "B/2": None,
        "B/3": None,
    }
    assert shown.limits == (4.0, 7.0)
    assert shown.title == "n, mean"
    loaded.color_by(None)
    assert loaded.view.coloring is None


def test_a_file_is_saved_with_the_rows_of_wells_elsewhere(loaded, tmp_path):
    loaded.save_table(str(tmp_path / "out.csv"))
    saved = pd.read_csv(tmp_path / "out.csv")
    assert saved["well"].tolist() == ["A1", "A2", "B1", "B1", "H/12"]
    assert saved["n"].tolist()[-2:] == [5, 1]
    assert "out.csv" in loaded.note
    loaded.color_by(None)
    assert "out.csv" not in loaded.note


def test_conditions_choose_wells_and_the_rows_that_count(loaded):
    color(loaded, "n", "max")
    assert filtered(loaded, "dose = 0.1") == {"A/1", "B/1"}
    assert filtered(loaded, "dose = 0.1 and drug = y") == {"B/1"}
    assert loaded.view.coloring.values["B/1"] == 5
    assert loaded.view.coloring.values["A/1"] is None
    assert filtered(loaded, "A and dose > 0.05") == {"A/1", "A/2"}
    assert filtered(loaded, "B1 A3") == {"B/1", "A/3"}
    assert filtered(loaded, "") is None
    assert loaded.view.coloring.values["B/1"] == 9


def test_conditions_of_fields_and_labels(tables, tmp_path):
    path = tmp_path / "objects.csv"
    path.write_text("well,site,label,n\nA1,0,3,4\nA1,1,3,6\nA2,0,5,8\n")
    tables.load_file(str(path))
    assert filtered(tables, "field = 0") == {"A/1", "A/2"}
    assert tables.view.coloring.values["A/1"] == 4
    assert filtered(tables, "field != 0 and label = 3") == {"A/1"}
    assert tables.view.coloring.values["A/1"] == 6


def test_a_wrong_line_says_why_and_hides_nothing(loaded, tables):
    assert filtered(loaded, "does = 1") is None
    assert loaded.view.problem == "There is no column 'does'. Did you mean dose?"
    assert loaded.view.coloring.values["B/1"] == 0.1
    assert filtered(loaded, "A") == {"A/1", "A/2", "A/3"}
    assert loaded.view.problem == ""
    loaded.choose_table(None)
    assert loaded.view.coloring is None
    assert filtered(loaded, "dose = 0.5") == {"A/2"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("dose = 0.1 or dose > 1", "'or' is not supported"),
        ("dose = 0.1 OR n > 1 and drug = x", "'OR' is not supported"),
        ("dose = 0.1 | n > 1", "'|' is not supported"),
        ("n > 1 || n < 9", "'||' is not supported"),
        ("B or dose > 0.1", "'or' is not supported"),
        ("drug = x or y", "'or' is not supported"),
        ("dose = 0.1 and not n > 1", "'not' is not supported"),
        ("not n > 1 and A", "'not' is not supported"),
        ("dose in 0.1", "This plate has no well 'dose'"),
        ("dose between 1 and 2", "This plate has no well 'dose'"),
        ("Z9", "This plate has no well 'Z9'"),
        ("A1 taxol", "This plate has no well 'taxol'"),
    ],
)
def test_what_a_filter_cannot_is_named(loaded, text, problem):
    assert filtered(loaded, text) is None
    assert loaded.view.problem.startswith(problem)
    assert loaded.view.note == ""


@pytest.mark.parametrize(
    ("text", "wells"),
    [
        ("dose = 0.1", "A1 B1"),
        ("A1 or B2", "A1 B2"),
        ("drug = 'x or y'", ""),
        ('drug != "no or not"', "A1 A2 B1"),
        ("dose > 9", ""),
        ("B", "B1 B2 B3"),
    ],
)
def test_how_many_wells_match_is_told(loaded, text, wells):
    found = filtered(loaded, text)
    assert {well.replace("/", "") for well in found} == set(wells.split())
    note = f"Wells that match the filter: {len(found)} of 6."
    assert loaded.view.note == note
    assert filtered(loaded, "") is None
    assert loaded.view.note == ""


def test_a_wrong_file_is_reported(tables, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("plate,dose\n1,2\n")
    tables.load_file(str(path))
    assert "no column names wells; there are 'plate', 'dose'" in tables.said[0]
    tables.load_file(str(tmp_path / "none.csv"))
    assert "none.csv" in tables.said[1]
    assert tables.joined.chosen is None


def test_labels_are_counted_in_the_background(tables):
    tables.find_tables()
    offer = TableOffer(TableOrigin.COUNT, "nuclei")
    assert offer in tables.joined.offers
    seen = []
    tables.progressed.connect(lambda *both: seen.append(both))
    tables.choose_table(offer)
    assert tables.view.coloring.values["A/1"] == 16 * 16
    assert tables.view.coloring.values["B/1"] is None
    assert (12, 12) in seen
    assert seen[-1] == (1, 1)
    assert tables.said == ["Labels counted: 1,536 in 6 of 12 images."]


def test_a_later_job_counts(tables, monkeypatch, tmp_path):
    waiting = []
    monkeypatch.setattr(
        Window.current, "run", lambda work, done: waiting.append((work, done))
    )
    tables.choose_table(TableOffer(TableOrigin.COUNT, "nuclei"))
    tables.measure_labels("nuclei", MeasureScope.ALL)
    for work, done in waiting:
        done(work())
    assert tables.joined.chosen == TableOffer(TableOrigin.MEASURED, "nuclei")
    tables.measure_labels("nuclei", MeasureScope.ALL)
    tables.cancel_task()
    assert tables.said[-1] == "Cancelled: nothing was kept."
    work, done = waiting[-1]
    found = work()
    done(found)
    assert len(tables.joined.offers) == 1
    path = tmp_path / "late.csv"
    path.write_text(CSV)
    tables.load_file(str(path))
    tables.cancel_task()
    assert tables.said[-1] == "Cancelled."
    work, done = waiting[-1]
    done(work())
    assert tables.joined.chosen == TableOffer(TableOrigin.MEASURED, "nuclei")


def test_wells_are_found_in_the_background_and_the_last_filter_counts(
    loaded, monkeypatch
):
    waiting = []
    monkeypatch.setattr(
        Window.current, "run", lambda work, done: waiting.append((work, done))
    )
    for text in ("A and dose > 0.2", "B", "dose < 0.2"):
        loaded.filter_wells(text)
    color(loaded, "n", "max")
    assert loaded.view.wells is None
    for work, done in waiting:
        done(work())
        assert loaded.view.wells in (None, {"A/1", "B/1"})
    assert loaded.view.coloring.values["B/1"] == 9


def test_measuring_is_that_of_the_command_and_joins_features(tables, plate, tmp_path):
    tables.browser.show_field("A/2", "1")
    tables.measure_labels("nuclei", MeasureScope.ALL)
    wanted = measure(open_node(str(plate)), "nuclei").frame
    out = tmp_path / "out.csv"
    tables.save_table(str(out))
    found = pd.read_csv(out, dtype={"field": str})
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False, rtol=1e-12)
    layer = labels_of(tables)
    part = wanted[(wanted["well"] == "A2") & (wanted["field"] == "1")]
    features = layer.features.set_index("index")
    assert features["area"].to_dict() == dict(
        zip(part["label"], part["area"], strict=True)
    )
    assert layer.get_status((0, 0), world=True)["value"] is not None
    tables.browser.show_field("A/3", "0")
    layer = labels_of(tables)
    part = wanted[(wanted["well"] == "A3") & (wanted["field"] == "0")]
    assert sorted(layer.features["index"]) == sorted(part["label"])
    tables.choose_table(None)
    assert "area" not in layer.features


@pytest.mark.parametrize(
    ("scope", "wells", "said"),
    [
        (MeasureScope.FIELD, {"A/2"}, "256 labels in 1 of 1"),
        (MeasureScope.SELECTED, {"A/1", "A/3"}, "1,024 labels in 4 of 6"),
    ],
)
def test_what_is_measured_can_be_chosen(tables, scope, wells, said):
    tables.browser.show_field("A/2", "1")
    tables.measure_labels("nuclei", scope, ["A/1", "A/3", "B/1"])
    assert set(tables.table.frame["well"]) == wells
    assert len(set(tables.table.frame["field"])) == (
        1 if scope is MeasureScope.FIELD else 2
    )
    assert tables.said == [f"Measured {said} images."]


def test_a_mosaic_has_no_field_to_measure(tables):
    tables.browser.show_mosaic()
    tables.measure_labels("nuclei", MeasureScope.FIELD)
    assert tables.said == ["Show a field first."]


def test_joined_features_are_not_saved(tables):
    tables.browser.show_field("A/1", "0")
    layer = labels_of(tables)
    layer.features = pd.DataFrame({"index": [3, 7], "kind": ["a", "b"]})
    before = layer.saver.description.take_snapshot().join_with(
        layer.saver.description.info
    )
    layer.saver.description.is_changed = False
    frame = pd.DataFrame({"well": ["A1"] * 3, "label": [7, 9, 9], "area": [1.5, 2, 3]})
    frame["kind"] = "z"
    join_features(layer, make_table(frame, "mine"))
    joined = layer.features.set_index("index")
    assert joined.loc[7].to_dict() == {"kind": "b", "area": 1.5, "kind (mine)": "z"}
    assert joined.loc[9, "area"] == 2
    assert np.isnan(joined.loc[3, "area"])
    assert not layer.saver.description.is_changed
    assert (
        layer.saver.description.take_snapshot().join_with(layer.saver.description.info)
        == before
    )
    part_features(layer)
    assert list(layer.features.columns) == ["index", "kind"]


def test_rows_of_the_largest_ids_are_joined(tables):
    tables.browser.show_field("A/1", "0")
    layer = labels_of(tables)
    layer.features = pd.DataFrame({"index": [3, 7], "kind": ["a", "b"]})
    ids = np.array([7, 2**63 + 5], "u8")
    frame = pd.DataFrame({"well": ["A1"] * 2, "label": ids, "area": [1.5, 2]})
    join_features(layer, make_table(frame, "mine"))
    assert layer.features["index"].tolist() == [3, 7, 2**63 + 5]
    assert layer.features["kind"].tolist()[:2] == ["a", "b"]
    assert layer.features["area"].tolist()[1:] == [1.5, 2]


def test_tables_that_ngio_left_in_images(plate, tmp_path):
    ngio = pytest.importorskip("ngio")
    where = tmp_path / "p.ome.zarr"
    shutil.copytree(plate, where)
    rows = {"A/1/0": [1.0, 3.0], "A/1/1": [5.0], "A/2/0": [7.0, 9.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path, areas in rows.items():
            objects = pd.DataFrame({"label": range(1, len(areas) + 1), "area": areas})
            table = ngio.tables.FeatureTable(objects, reference_label="nuclei")
            image = ngio.open_ome_zarr_container(str(where / path))
            image.add_table("regionprops", table, backend="csv")
    viewer = ViewerModel()
    tables = PlateTables(session_of(viewer).browse(open_node(str(where))))
    tables.viewer = viewer
    said = []
    tables.message_sent.connect(said.append)
    tables.find_tables()
    tables.browser.show_field("A/2", "0")
    tables.choose_table(TableOffer(TableOrigin.IMAGES, "regionprops"))
    assert said == ["Rows read: 5 in 3 of 12 images."]
    assert tables.joined.offers[0].title == "regionprops (of images)"
    assert tables.view.coloring.values["A/1"] == 3
    assert tables.view.coloring.values["A/2"] == 8
    assert tables.view.coloring.values["A/3"] is None
    assert tables.table.region == "nuclei"
    assert labels_of(tables).features["area"].tolist() == [7, 9]
    tables.close()


def test_a_collection_has_no_map_but_objects(tmp_path):
    where = tmp_path / "c.ome.zarr"
    write_group(where, {"bioformats2raw.layout": 3}, 3)
    data = (np.arange(256).reshape(1, 16, 16) // 20).astype("u2")
    for name in "012":
        write_image(where / name, data, 3, labels=["cells"])
    viewer = ViewerModel()
    tables = PlateTables(session_of(viewer).browse(open_node(str(where))))
    tables.viewer = viewer
    tables.find_tables()
    assert tables.browser.known_labels == ("cells",)
    tables.browser.show_field(None, "1")
    tables.measure_labels("cells", MeasureScope.ALL)
    assert tables.view.coloring is None
    assert len(tables.table) == 36
    assert labels_of(tables).features["voxels"].tolist() == [20] * 11 + [16]
    tables.save_table(str(tmp_path / "out.csv"))
    assert pd.read_csv(tmp_path / "out.csv").columns[0] == "field"
    tables.choose_table(None)
    assert "voxels" not in labels_of(tables).features
    tables.load_file(str(tmp_path / "out.csv"))
    assert labels_of(tables).features["voxels"].tolist() == [20] * 11 + [16]
    tables.close()


def test_the_next_field_keeps_properties_of_its_own(plate, tmp_path):
    where = tmp_path / "p.ome.zarr"
    shutil.copytree(plate, where)
    label = {"properties": [{"label-value": 3, "voxels": "mine"}]}
    folder = where / "A/1/1/labels/nuclei"
    shutil.rmtree(folder)
    cells = np.full((16, 16), 3, "u4")
    write_image(folder, cells, 3, "yx", corner=(0, 16), label=label)
    viewer = ViewerModel()
    tables = PlateTables(session_of(viewer).browse(open_node(str(where))))
    tables.viewer = viewer
    tables.browser.show_field("A/1", "0")
    tables.measure_labels("nuclei", MeasureScope.ALL)
    layer = labels_of(tables)
    assert "voxels" in layer.features
    tables.browser.show_field("A/1", "1")
    assert labels_of(tables) is layer
    row = layer.features.set_index("index").loc[3].to_dict()
    assert row["voxels"] == "mine"
    assert row["voxels (nuclei, measured)"] == 256
    tables.close()


def test_the_states_of_annotation_are_a_table(plate, tmp_path):
    where = shutil.copytree(plate, tmp_path / "p.ome.zarr")
    node = open_node(str(where))
    offer = TableOffer(TableOrigin.STATES, "")
    assert offer not in find_offers(session_of(ViewerModel()).browse(node))
    states = FieldStates(node)
    for field in ("A/1/0", "A/1/1", "A/2/0"):
        states.set_state(field, "done")
    states.set_state("B/3/1", "flagged")
    viewer = ViewerModel()
    tables = PlateTables(session_of(viewer).browse(node))
    tables.find_tables()
    assert offer in tables.joined.offers
    tables.choose_table(offer)
    shown = tables.view.coloring
    assert shown.title == "done, mean of images"
    assert shown.values["A/1"] == 1
    assert shown.values["A/2"] == 0.5
    assert shown.values["B/3"] == 0
    assert filtered(tables, "state = flagged") == {"B/3"}
    assert filtered(tables, "done > 0 and A") == {"A/1", "A/2"}
    # What was done since.
    FieldStates(node).set_state("A/2/1", "done")
    tables.choose_table(offer)
    assert tables.view.coloring.values["A/2"] == 1
    tables.close()


def test_each_acquisition_gets_the_features_of_its_own_field(tmp_path):
    where = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(1, 2),
        fields=2,
        acquisitions=2,
        shape=(1, 16, 16),
        labelled=lambda _: ("nuclei",),
    )
    for number, path in enumerate(("A/2/0", "A/2/2")):
        folder = where / path / "labels" / "nuclei"
        shutil.rmtree(folder)
        data = np.zeros((16, 16), "u4")
        data[: 2 + number] = 5
        write_image(folder, data, 3, "yx", label={})
    viewer = ViewerModel()
    browser = session_of(viewer).browse(open_node(str(where)))
    tables = PlateTables(browser)
    browser.choose_acquisitions((0, 1))
    browser.show_field("A/2", "0")
    tables.measure_labels("nuclei", MeasureScope.ALL)
    (layer,) = [x for x in viewer.layers if isinstance(x, Labels)]
    assert layer.features["voxels"].tolist() == [32]
    browser.show_field("A/2", "2")
    assert layer.features["voxels"].tolist() == [48]
    rows = len(tables.table)
    tables.measure_labels("nuclei", MeasureScope.FIELD)
    assert tables.table.frame["field"].tolist()[-1] == "2"
    assert len(tables.table) == rows
    assert layer.features["voxels"].tolist() == [48]
    tables.close()


def test_infinite_values_have_the_colours_of_the_ends(tables, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("well,x\nA1,inf\nA2,-inf\nB1,2\nB2,3\n")
    tables.load_file(str(path))
    shown = tables.view.coloring
    assert shown.limits == (2, 3)
    assert shown.values["A/1"] == np.inf
    path.write_text("well,x\nA1,inf\n")
    tables.load_file(str(path))
    assert tables.view.coloring.limits == (0, 1)


def test_text_colours_wells_by_category(loaded):
    color(loaded, "drug", "mean")
    shown = loaded.view.coloring
    assert loaded.view.problem == ""
    assert shown.categories == ("dmso", "x", "y")
    assert shown.title == "drug"
    assert shown.values["A/1"] == 0
    assert shown.values["A/2"] == 1
    assert shown.values["B/1"] == 1  # one row of x, one of y: the first of them
    assert shown.values["B/3"] is None
    assert loaded.joined.list_ways() == ("most frequent", "count")
    # A filter takes rows away, and leaves each category its colour.
    loaded.filter_wells("dose = 0.1 and drug = y")
    assert loaded.view.coloring.categories == ("dmso", "x", "y")
    assert loaded.view.coloring.values["B/1"] == 2
    loaded.filter_wells("")
    color(loaded, "drug", "count")
    assert loaded.view.coloring.values["B/1"] == 2
    assert loaded.view.coloring.categories == ()


def test_classes_have_the_same_colours_on_canvas_and_map(tables, tmp_path):
    tables.browser.show_field("A/1", "0")
    layer = labels_of(tables)
    classes = classes_of_layer(layer)
    classes.add_class("round", 1)
    classes.add_class("dead", 2)
    path = tmp_path / "measured.csv"
    path.write_text("well,class,drug\nA1,round,round\nA2,dead,x\nA3,other,y\n")
    tables.load_file(str(path))
    color(tables, "class", "mean")
    shown = tables.view.coloring
    colors = dict(zip(shown.categories, shown.colors, strict=True))
    for known in classes.items:
        on_canvas = 255 * layer.colormap.map(known.value)[:3]
        assert np.allclose(colors[known.name], on_canvas, atol=1)
    assert len(set(colors.values())) == 3
    # Also where no labels are shown, until a field with other colours is.
    tables.browser.show_mosaic()
    assert tables.view.coloring.colors == shown.colors
    reported = []
    tables.changed.connect(lambda: reported.append(tables.view.coloring))
    classes.change_class(1, color=(1, 2, 3, 255))
    assert layer.saver.save_now()
    tables.browser.show_field("A/1", "0")
    assert (1, 2, 3) in reported[-1].colors
    # A word in another column is no class.
    color(tables, "drug", "mean")
    assert (1, 2, 3) not in tables.view.coloring.colors


def test_more_categories_than_can_be_distinguished_are_one(tables, tmp_path):
    path = tmp_path / "names.csv"
    wells = [f"{row}{column}" for row in "AB" for column in (1, 2, 3)]
    lines = [f"{wells[i % 6]},c{i}" for i in range(6)]
    path.write_text("well,name\n" + "\n".join(lines))
    tables.load_file(str(path))
    assert tables.view.coloring.categories == tuple(f"c{i}" for i in range(6))
    many = color_categories(
        {"A/1": "c40", "A/2": "c2"}, [f"c{i}" for i in range(41)], "", {}
    )
    assert len(many.categories) == 24
    assert many.categories[-1] == "other (18)"
    assert many.values == {"A/1": 23, "A/2": 2}


@pytest.mark.parametrize(
    ("values", "is_log"),
    [
        ((0.01, 0.1, 1, 10, 100, 1000), True),  # doses
        ((0, 0.01, 0.1, 1, 10, 1000), True),  # with controls
        ((1, 2, 3, 4, 5, 90), False),  # less than two powers of ten
        ((1, 200, 300, 400, 500, 600), False),  # most are not small
        ((-1, 0.01, 0.1, 1, 10, 1000), False),
        ((0, 0, 0, 0, 0, 0), False),
    ],
)
def test_doses_are_coloured_on_a_logarithmic_scale(tables, tmp_path, values, is_log):
    path = tmp_path / "doses.csv"
    wells = [f"{row}{column}" for row in "AB" for column in (1, 2, 3)]
    rows = [f"{well},{value}" for well, value in zip(wells, values, strict=True)]
    path.write_text("\n".join(("well,dose", *rows)))
    tables.load_file(str(path))
    shown = tables.view.coloring
    assert shown.title == "dose"
    assert shown.is_log is is_log
    positive = [value for value in values if value > 0 or not is_log]
    assert shown.limits == (min(positive), max(positive))
    tables.scale_by_log(not is_log)
    assert tables.view.coloring.is_log is (not is_log and max(values) > 0)
    tables.scale_by_log(None)
    assert tables.view.coloring.is_log is is_log


def test_tables_are_joined_by_their_wells(loaded, tmp_path):
    loaded.measure_labels("nuclei", MeasureScope.ALL)
    measured = TableOffer(TableOrigin.MEASURED, "nuclei")
    assert loaded.joined.chosen == measured
    titles = list(loaded.joined.list_columns().values())
    assert titles[:3] == ["dose", "drug", "n"]
    assert "area" in titles
    # Conditions of one table, values of another.
    assert filtered(loaded, "drug = dmso") == {"A/1"}
    color(loaded, "area", "count")
    assert loaded.view.coloring.values == {
        "A/1": 512,
        **dict.fromkeys(("A/2", "A/3", "B/1", "B/2", "B/3")),
    }
    assert filtered(loaded, "dose > 0.2 and area > 0") == {"A/2"}
    loaded.color_by(
        TableColumn(TableOffer(TableOrigin.FILE, "conditions.csv"), "dose"), "mean"
    )
    assert loaded.joined.chosen.name == "conditions.csv"
    assert loaded.view.coloring.values["A/2"] == 0.5
    assert loaded.view.coloring.values["A/1"] is None
    loaded.filter_wells("")
    reported = dict(loaded.joined.describe_well("A/1"))
    assert dict(reported["conditions.csv"]) == {"dose": "0.1", "drug": "dmso", "n": "4"}
    assert dict(reported["nuclei, measured"])["area"] == "0.25 (mean of 512)"
    (described,) = loaded.joined.describe_well("B/1")
    assert described[0] == "conditions.csv"
    assert loaded.joined.describe_well("B/2") == ()


def test_columns_of_one_name_are_distinguished_by_their_tables(loaded, tmp_path):
    path = tmp_path / "more.csv"
    path.write_text("well,dose\nA1,7\n")
    loaded.load_file(str(path))
    titles = list(loaded.joined.list_columns().values())
    assert "dose (conditions.csv)" in titles
    assert "dose (more.csv)" in titles
    assert filtered(loaded, "dose = 7") == {"A/1"}  # of the chosen table
    assert filtered(loaded, '"dose (conditions.csv)" = 0.5') == {"A/2"}


def test_a_column_of_two_other_tables_is_not_taken_from_either(loaded, tmp_path):
    # Also while one table alone has the column.
    assert filtered(loaded, '"dose (conditions.csv)" = 0.5') == {"A/2"}
    for name, column in (("more.csv", "dose"), ("last.csv", "size")):
        path = tmp_path / name
        path.write_text(f"well,{column}\nA1,7\n")
        loaded.load_file(str(path))
    loaded.filter_wells("dose = 7 and size = 7")
    assert loaded.view.problem == (
        "Several tables have 'dose'. Write \"dose (conditions.csv)\""
        ' or "dose (more.csv)".'
    )
    assert filtered(loaded, '"dose (more.csv)" = 7 and size = 7') == {"A/1"}


def test_labels_are_counted_anew_when_chosen_again(plate, tmp_path):
    where = shutil.copytree(plate, tmp_path / "p.ome.zarr")
    viewer = ViewerModel()
    tables = PlateTables(session_of(viewer).browse(open_node(str(where))))
    offer = TableOffer(TableOrigin.COUNT, "nuclei")
    tables.choose_table(offer)
    for field in "01":
        folder = where / "A/1" / field / "labels/nuclei"
        shutil.rmtree(folder)
        write_image(folder, np.full((16, 16), 3, "u4"), 3, "yx", label={})
    tables.choose_table(None)
    tables.choose_table(offer)
    assert tables.view.coloring.values["A/1"] == 16 * 16
    tables.choose_table(offer)
    assert tables.view.coloring.values["A/1"] == 1
    tables.close()


def test_labels_of_few_wells_are_offered_when_they_are_seen(tmp_path):
    where = write_plate(
        tmp_path / "p.ome.zarr",
        grid=(3, 6),
        fields=1,
        labelled=lambda well: ("cells",) if well == "B/3" else (),
    )
    viewer = ViewerModel()
    tables = PlateTables(session_of(viewer).browse(open_node(str(where))))
    tables.find_tables()
    assert tables.browser.known_labels == ()
    tables.browser.show_field("B/3", "0")
    assert tables.browser.known_labels == ("cells",)
    tables.close()


def test_what_is_left_out_is_named_with_its_reason(plate, tmp_path):
    where = tmp_path / "p.ome.zarr"
    shutil.copytree(plate, where)
    shutil.rmtree(where / "A/2/1/labels/nuclei/0")
    (where / "B/1/zarr.json").write_text("{")
    viewer = ViewerModel()
    tables = PlateTables(session_of(viewer).browse(open_node(str(where))))
    said = []
    tables.message_sent.connect(said.append)
    tables.measure_labels("nuclei", MeasureScope.ALL)
    (text,) = said
    assert text.startswith("Measured 1,280 labels in 5 of 10 images.")
    assert text.endswith(" Left out: B/1, A/2/1.")
    lines = notification_manager.records[-1].message.splitlines()
    assert lines[0] == "Left out: B/1, A/2/1"
    assert lines[1].startswith("B/1: B/1/zarr.json is not valid JSON: ")
    assert lines[2].startswith("A/2/1: A/2/1/labels/nuclei: the finest level cannot")
    tables.close()


@pytest.mark.parametrize("lost", [1, 3, 4, 5])
def test_the_first_that_are_left_out_are_named_and_the_others_counted(
    plate, tmp_path, lost
):
    where = shutil.copytree(plate, tmp_path / "p.ome.zarr")
    fields = sorted(path.parents[1] for path in where.glob("*/*/*/labels/nuclei"))
    places = [path.relative_to(where).as_posix() for path in fields][:lost]
    for place in places:
        shutil.rmtree(where / place / "labels/nuclei/0")
    viewer = ViewerModel()
    tables = PlateTables(session_of(viewer).browse(open_node(str(where))))
    tables.measure_labels("nuclei", MeasureScope.ALL)
    names = ", ".join(places[:3])
    more = f" and {lost - 3} more" if lost > 3 else ""
    assert f" Left out: {names}{more}." in tables.message
    tables.close()


def test_a_database_of_cellprofiler_has_a_table_for_each_kind(tables, tmp_path):
    path = tmp_path / "screen.db"
    with closing(sqlite3.connect(path)) as file:
        images = {"ImageNumber": [1, 2], "Image_Metadata_Well": ["A01", "B01"]}
        sites = {"Image_Metadata_Site": [0, 1]}
        pd.DataFrame({**images, **sites}).to_sql("T_Per_Image", file, index=False)
        for kind in ("Nuclei", "Cells"):
            rows = {"ImageNumber": [1, 1, 2], f"{kind}_Number_Object_Number": [1, 5, 1]}
            rows[f"{kind}_Area"] = [3.5, 4.5, len(kind)]
            pd.DataFrame(rows).to_sql(f"T_Per_{kind}", file, index=False)
    tables.browser.show_field("A/1", "0")
    tables.load_file(str(path))
    titles = tables.joined.list_columns().values()
    assert {"number of Nuclei", "number of Cells", "Nuclei_Area", "Cells_Area"} <= {
        *titles
    }
    color(tables, "Nuclei_Area", "mean")
    assert tables.view.coloring.values["A/1"] == 4
    assert tables.view.coloring.title == "Nuclei_Area, mean of objects"
    # Labels of the plate begin with a small letter.
    features = labels_of(tables).features.set_index("index")
    assert features["Nuclei_Area"].dropna().to_dict() == {1: 3.5, 5: 4.5}


@pytest.mark.parametrize(
    ("head", "first"),
    [
        ("ImageNumber,ObjectNumber,Metadata_Well,AreaShape_Area", "AreaShape_Area"),
        ("index,Metadata_Well,Image_Metadata_Plate,Count_Nuclei", "Count_Nuclei"),
        ("Well,ID,ImageNumber,number of cells", "number of cells"),
        ("Metadata_Well,ImageNumber", "ImageNumber"),
    ],
)
def test_the_map_begins_with_numbers_that_measure_something(
    tables, tmp_path, head, first
):
    row = ["A01" if "well" in x.lower() else "1" for x in head.split(",")]
    (tmp_path / "Nuclei.csv").write_text(f"{head}\n{','.join(row)}\n")
    tables.load_file(str(tmp_path / "Nuclei.csv"))
    assert tables.joined.column == first
