"""Colours and properties of a layer, and those of its file."""

import json

import numpy as np
import pandas as pd
import pytest
from napari.utils import DirectLabelColormap

from napari_ngff.labels.label_metadata import read_label_info, write_label_info
from napari_ngff.metadata.dump import usual_color
from napari_ngff.metadata.model import LabelInfo
from napari_ngff.plugin import get_reader
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.composing.composition import read_layer_data
from napari_ngff.viewer.layers.label_colors import recolor_labels
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.saving.layer_description import DescriptionSnapshot

RED, BLUE = (255, 0, 0, 255), (0, 0, 255, 128)
INFO = LabelInfo(
    {0: (1, 2, 3, 4), 3: RED, 900: BLUE, 70_000: RED},
    {
        3: {"class": "a", "count": 2, "area": 3, "tags": [1, "x"], "none": None},
        4: {"class": "b", "area": 2.5, "ok": True},
    },
)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(1, 64, 64))
    write_label_info(open_node(str(path / "labels" / "nuclei")), INFO)
    return path


def opened(folder):
    layers = get_reader(str(folder))(str(folder))
    return next(x for x in layers if getattr(x, "name", "") == "nuclei")


def stored(folder):
    return read_label_info(open_node(str(folder / "labels" / "nuclei")))


def test_opened_edited_and_saved_they_are_equal(folder):
    file = folder / "labels" / "nuclei" / "zarr.json"
    before = file.read_text()
    layer = opened(folder)
    layer.paint((0, 20, 20), 5)
    assert layer.saver.save_now()
    assert file.read_text() == before
    assert json.loads(before)["attributes"]["ome"]["image-label"]["colors"]


def test_labels_that_only_have_a_colour_have_no_row(folder):
    assert {0, 900, 70_000} < set(stored(folder).properties)
    layer = opened(folder)
    assert layer.features["index"].tolist() == [3, 4]
    layer.features = layer.features.assign(score=[1.0, 2.0])
    assert layer.saver.save_now()
    assert {0, 900, 70_000} < set(stored(folder).properties)


def test_a_colour_that_is_chosen_is_saved_and_no_other(folder):
    before = stored(folder)
    layer = opened(folder)
    assert not layer.unsaved
    layer.colormap = recolor_labels(layer.colormap, {5: np.array([0, 1, 0, 1])})
    assert layer.unsaved
    layer.paint((0, 20, 20), 6)
    assert layer.saver.save_now()
    after = stored(folder)
    assert after.colors == {**before.colors, 5: (0, 255, 0, 255)}
    assert after.properties.items() >= {3: before.properties[3]}.items()
    assert (np.asarray(layer.data[0]) == 6).any()
    assert layer.metadata[KEY].picture.label.colors == after.colors
    again = opened(folder)
    assert again.colormap.color_dict[5].tolist() == [0, 1, 0, 1]


def test_changed_features_are_saved_and_the_others_stay(folder):
    layer = opened(folder)
    table = layer.features.copy()
    table["score"] = [float(i) for i in range(len(table))]
    table.loc[table["index"] == 4, "class"] = "c"
    table.loc[table["index"] == 4, "ok"] = None
    layer.features = table
    assert layer.unsaved
    assert layer.saver.save_now()
    found = stored(folder).properties
    assert found[3] == {**INFO.properties[3], "score": 0.0}
    assert found[4] == {"class": "c", "area": 2.5, "score": 1.0}
    assert type(found[3]["area"]) is int
    assert not layer.unsaved


def test_other_tables_and_colormaps_take_nothing_away(folder):
    before = stored(folder)
    layer = opened(folder)
    layer.features = {"index": [4, 9], "size": [10, 20]}
    layer.colormap = DirectLabelColormap(color_dict={None: "gray", 9: "red"})
    assert layer.saver.save_now()
    after = stored(folder)
    assert after.colors == {**before.colors, 9: RED}
    assert after.properties[3] == before.properties[3]
    assert after.properties[4] == {**before.properties[4], "size": 10}
    assert after.properties[9] == {"size": 20}


def test_rows_are_labels_where_nothing_says_otherwise():
    import pandas as pd

    table = pd.DataFrame({"size": [np.nan, 5.0, 6.0]})
    assert DescriptionSnapshot(None, table).join_with(LabelInfo()).properties == {
        1: {"size": 5.0},
        2: {"size": 6.0},
    }


@pytest.mark.parametrize("name", ["label", "Label"])
@pytest.mark.parametrize("kind", ["i4", "u8", "f8"])
@pytest.mark.parametrize("order", [(3, 7, 40), (40, 3, 7)])
def test_a_column_of_labels_states_the_label(folder, name, kind, order):
    """As skimage's `regionprops_table` gives it."""
    layer = opened(folder)
    before = stored(folder).properties
    values = pd.Series(order).astype(kind)
    layer.features = pd.DataFrame({"size": [10 * v for v in order], name: values})
    assert layer.saver.save_now()
    after = stored(folder).properties
    for value in order:
        assert after[value] == {**before.get(value, {}), "size": 10 * value}
    others = set(before) - set(order)
    assert {v: after[v] for v in others} == {v: before[v] for v in others}


def test_labels_that_are_words_are_no_label_values():
    table = pd.DataFrame({"label": ["a", "b"], "size": [1, 2]})
    found = DescriptionSnapshot(None, table).join_with(LabelInfo()).properties
    assert found == {0: {"label": "a", "size": 1}, 1: {"label": "b", "size": 2}}


@pytest.mark.parametrize("key", ["index", "label"])
@pytest.mark.parametrize("rows", [(3, 3, 7), (7, 3, 3), (3, 7, 3), (3, 3, 3)])
def test_labels_with_several_rows_stay_as_they_are_and_are_named(
    folder, reported, key, rows
):
    before = stored(folder).properties
    layer = opened(folder)
    columns = {key: rows, "frame": range(3), "size": [16.0, 99.0, 32.0]}
    layer.features = pd.DataFrame(columns)
    layer.colormap = recolor_labels(layer.colormap, {5: np.array([0, 1, 0, 1])})
    layer.saver.save_now()
    after = stored(folder)
    assert after.properties[3] == before[3]
    if 7 in rows:
        place = rows.index(7)
        assert after.properties[7] == {"frame": place, "size": columns["size"][place]}
    assert after.colors[5] == (0, 255, 0, 255)
    assert "several rows for one label (label 3)" in str(reported[-1])
    assert not layer.unsaved


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.inf, "infinity"),
        (np.float32("-inf"), "infinity"),
        (1 + 2j, "complex"),
        (pd.Timedelta("1s"), "Timedelta"),
        (object(), "object"),
        ([1, np.inf], "list"),
    ],
)
def test_a_value_that_no_file_has_keeps_no_other_unsaved(
    folder, reported, value, reason
):
    layer = opened(folder)
    ratio = pd.Series([1.5, value, 2.5], dtype=object)
    columns = {"index": [3, 7, 9], "ratio": ratio, "size": [1, 2, 3]}
    layer.features = pd.DataFrame(columns)
    layer.saver.save_now()
    after = stored(folder).properties
    assert [after[v].get("ratio") for v in (3, 7, 9)] == [1.5, None, 2.5]
    assert [after[v]["size"] for v in (3, 7, 9)] == [1, 2, 3]
    assert f"{reason}, which JSON does not have, in column 'ratio'" in str(reported[-1])
    assert not layer.unsaved
    # Said once: a save of other strokes does not repeat it.
    reported.clear()
    layer.paint((0, 20, 20), 6)
    assert layer.saver.save_now()
    assert not reported


def test_dates_are_text(folder):
    layer = opened(folder)
    days = pd.to_datetime(["2026-11-22T00:00:00", "2026-11-23T10:00:30"])
    layer.features = pd.DataFrame({"index": [3, 7], "day": days})
    assert layer.saver.save_now()
    after = stored(folder).properties
    assert after[3]["day"] == "2026-11-22T00:00:00"
    assert after[7]["day"] == "2026-11-23T10:00:30"
    layer.features = layer.features.copy()
    assert not layer.unsaved


def test_colours_go_into_archives_too(folder, tmp_path):
    archive = tmp_path / "cells.ozx"
    pack_hierarchy(folder, archive)
    layer = opened(archive)
    layer.paint((0, 20, 20), 77)
    layer.colormap = DirectLabelColormap(color_dict={None: "gray", 9: "red"})
    assert layer.saver.save_now()
    assert stored(archive).colors == {4: usual_color(4), **INFO.colors, 9: RED}
    layer.paint((0, 40, 40), 78)
    assert layer.saver.save_now()
    again = opened(archive)
    assert {77, 78} <= set(np.unique(np.asarray(again.data[0])).tolist())
    assert stored(archive).colors == {4: usual_color(4), **INFO.colors, 9: RED}


def test_what_others_wrote_meanwhile_stays(folder):
    layer, other = opened(folder), opened(folder)
    other.colormap = DirectLabelColormap(color_dict={None: "gray", 8: "blue"})
    other.features = {"index": [4, 6], "by": ["you", "you"], "class": ["b", "z"]}
    assert other.saver.save_now()
    table = dict(layer.colormap.color_dict)
    table[9] = np.array([1, 0, 0, 1])
    table.pop(70000)  # for napari's own it is too large without numba
    layer.colormap = DirectLabelColormap(color_dict=table)
    features = layer.features.copy()
    features.loc[features["index"] == 4, "class"] = "mine"
    layer.features = features
    assert layer.saver.save_now()
    found = stored(folder)
    usual = {value: usual_color(value) for value in (4, 6)}
    assert found.colors == {**usual, **INFO.colors, 8: (0, 0, 255, 255), 9: RED}
    assert found.properties[4] == {**INFO.properties[4], "class": "mine", "by": "you"}
    assert found.properties[6] == {"by": "you", "class": "z"}
    # Saved again, nothing of theirs is taken back.
    layer.paint((0, 20, 20), 77)
    assert layer.saver.save_now()
    assert stored(folder) == found


def test_a_copy_that_is_made_during_a_save_leaves_later_changes_unsaved(folder):
    layer = opened(folder)
    description = layer.saver.description
    layer.features = layer.features.assign(score=[1.0, 2.0])
    saving = description.take_snapshot()
    layer.features = layer.features.assign(score=[3.0, 4.0])
    read_layer_data(layer)
    description.note_saved(saving.join_with(description.info), saving)
    assert description.is_changed
    description.note_saved(
        description.take_snapshot().join_with(description.info),
        description.take_snapshot(),
    )
    assert not description.is_changed
