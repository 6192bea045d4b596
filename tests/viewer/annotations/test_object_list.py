"""All objects of the labels on screen: listed, ordered, filtered, coloured."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from napari.components import ViewerModel
from scipy import ndimage

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.object_classes import ObjectClasses
from napari_ngff.viewer.annotations import object_list
from napari_ngff.viewer.annotations.object_class_annotation import (
    NO_CLASS,
    begin_classes,
)
from napari_ngff.viewer.annotations.object_list import ObjectList
from napari_ngff.viewer.painting import object_edits
from napari_ngff.viewer.painting.object_edits import delete_object, join_objects
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.samples import write_plate
from napari_ngff.viewer.session import session_of
from painting import Memory
from plates import write_image
from recovering import opened

DISCS = np.zeros((60, 90), "u2")
DISCS[10:25, 10:25], DISCS[10:20, 60:80], DISCS[40:55, 30:50] = 3, 500, 8


def shown(layer, *others):
    """Show layers; return the list of the objects of the first one."""
    viewer = ViewerModel()
    for each in (layer, *others):
        viewer.add_layer(each)
    made = ObjectList(session_of(viewer).annotations, lambda: True)
    made.viewer = viewer
    made.set_layer(layer)
    made.refresh()
    return made


def layer_of(pixels, chunks=(16, 16), levels=1, **keywords):
    sources = [
        Memory(pixels[(..., *[slice(None, None, 2**n)] * 2)], chunks)
        for n in range(levels)
    ]
    keywords.setdefault("axis_labels", "tyx"[-pixels.ndim :])
    return OMEZarrLabels(Canvas(sources), **keywords)


def listed_ids(objects):
    return objects.frame["label"].tolist()


def expected(pixels):
    """Return size and centre of each object, by scipy."""
    ids = np.unique(pixels[pixels > 0])
    places = [np.argwhere(pixels == label) for label in ids]
    return ids, np.array([*map(len, places)]), np.array([x.mean(0) for x in places])


def check_numbers(objects, pixels, scale=(1, 1)):
    ids, sizes, centres = expected(pixels)
    frame = objects.listed.frame
    np.testing.assert_array_equal(frame["label"], ids)
    size = "volume" if pixels.ndim == 3 and len(pixels) > 1 else "area"
    np.testing.assert_allclose(frame[size], sizes * np.prod(scale))
    columns = [x for x in frame if x.startswith("centroid_")]
    np.testing.assert_allclose(frame[columns], centres * scale)
    for label in ids:
        places = np.argwhere(pixels == label)
        ends = zip(places.min(0), places.max(0) + 1, strict=True)
        assert objects.box_of(label) == tuple(ends)


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i4", "u8"])
def test_sizes_centres_and_boxes_are_those_of_scipy(dtype):
    rng = np.random.default_rng(len(dtype))
    pixels = ndimage.zoom(rng.integers(0, 9, (6, 9)), 7, order=0).astype(dtype)
    if dtype not in ("u1", "u2"):
        pixels[pixels == 3] = 1_000_003
    if dtype == "u8":
        pixels[pixels == 2] = 2**63 + 5
    objects = shown(layer_of(pixels, scale=(0.5, 0.25), units="um"))
    check_numbers(objects, pixels, (0.5, 0.25))
    assert objects.failure == ""


def test_an_object_of_a_stack_has_a_volume():
    pixels = np.zeros((5, 40, 40), "u4")
    pixels[1:4, 3:20, 5:9], pixels[2, 30:, 30:] = 7, 10**6
    layer = layer_of(
        pixels, (2, 16, 16), scale=(2, 0.5, 0.5), units="um", axis_labels="zyx"
    )
    check_numbers(shown(layer), pixels, (2, 0.5, 0.5))


def test_objects_are_those_of_the_time_point_on_screen():
    pixels = np.zeros((3, 40, 40), "u2")
    pixels[0, :5, :5], pixels[1, :9, :9], pixels[2, 20:, 20:] = 1, 1, 2
    layer = layer_of(pixels, (1, 16, 16), axis_labels="tyx")
    objects = shown(layer)
    for t in (0, 2, 1):
        objects.viewer.dims.set_point(0, t)
        objects.check()
        # Those of another time point are gone at once.
        assert objects.listed is None
        objects.refresh()
        check_numbers_at = objects.listed.frame
        ids, sizes, _ = expected(pixels[t])
        assert check_numbers_at["label"].tolist() == ids.tolist()
        assert check_numbers_at["area"].tolist() == sizes.tolist()
        assert objects.box_of(ids[0])[0] == (t, t + 1)


def test_after_edits_only_the_blocks_that_they_reach_are_read(monkeypatch):
    monkeypatch.setattr("napari_ngff.plate.tables.labelled_image.BLOCK", 256)
    layer = layer_of(DISCS.copy())
    layer.brush_size = 1
    objects = shown(layer)
    read, read_box = [], Canvas.read
    monkeypatch.setattr(
        Canvas, "read", lambda *args: read.append(args[2]) or read_box(*args)
    )
    now = np.asarray(layer.data[0])
    for edit, reaches in (
        (lambda: delete_object(layer, (12, 12)).apply_edits(), (10, 12, 24, 24)),
        (lambda: join_objects(layer, (45, 40), 500).apply_edits(), (40, 30, 54, 49)),
        (lambda: layer.paint((50, 80), 9), (50, 80, 50, 80)),
    ):
        edit()
        now = np.asarray(layer.data[0])
        read.clear()
        objects.refresh()
        assert 0 < len(read) <= 6
        for (top, _), (left, _) in read:
            assert reaches[0] // 16 * 16 <= top <= reaches[2]
            assert reaches[1] // 16 * 16 <= left <= reaches[3]
        check_numbers(objects, now)
    for _ in range(3):
        layer.undo()
        objects.refresh()
        check_numbers(objects, np.asarray(layer.data[0]))
    layer.redo()
    objects.refresh()
    check_numbers(objects, np.asarray(layer.data[0]))


def test_a_box_is_not_that_of_before_an_edit():
    layer = layer_of(DISCS.copy())
    objects = shown(layer)
    layer.paint((40, 28), 8)
    assert objects.box_of(8) is None  # to be looked for


def test_large_labels_are_listed_when_asked_and_coarse_ones_say_so(monkeypatch):
    monkeypatch.setattr(object_list, "AT_ONCE", 100)
    monkeypatch.setattr(object_edits, "SEARCHED", 60 * 90 // 4)
    objects = shown(layer_of(DISCS, levels=2, scale=(0.5, 0.5), units="um"))
    assert (objects.listed, objects.progress) == (None, None)
    objects.refresh(again=True)
    assert "By level 1" in " ".join(objects.listed.notes)
    ids, sizes, centres = expected(DISCS)
    frame = objects.listed.frame
    np.testing.assert_array_equal(frame["label"], ids)
    np.testing.assert_allclose(frame["area"], sizes / 4, rtol=0.2)
    found = frame[["centroid_y", "centroid_x"]]
    np.testing.assert_allclose(found, centres / 2, atol=0.5)
    for label, box in ((3, ((10, 25), (10, 25))), (8, ((40, 55), (30, 50)))):
        wide = objects.box_of(label)
        assert all(a <= c and d <= b for (a, b), (c, d) in zip(wide, box, strict=True))
    # From now on it follows edits, and another one that is shown.
    objects._layer.paint((50, 80), 9)
    objects.refresh()
    assert 9 in objects.listed.found.labels


QUERIES = {
    "": ("label", False, [3, 8, 500]),
    "area > 210": ("label", False, [3, 8]),
    "AREA >= 200 and label != 3": ("area", False, [500, 8]),
    "8 and area > 1": ("label", True, [8]),
    "77": ("label", False, []),
    "kind = a": ("label", False, [8]),
    "kind != a": ("label", False, [3]),
    "class = 'no class'": ("label", True, [500, 8]),
    "class = round": ("class", False, [3]),
}


def test_rows_are_filtered_as_wells_are_and_ordered(monkeypatch):
    layer = layer_of(DISCS)
    rows = {"index": [3, 8, 9], "kind": ["b10", "a", "a"], "score": [1.5, np.nan, 9]}
    layer.features = pd.DataFrame(rows)
    objects = shown(layer)
    monkeypatch.setattr(
        ObjectList, "classes", ObjectClasses().with_objects({3: "round"})
    )
    for text, (column, down, ids) in QUERIES.items():
        objects.order((text, column, down))
        assert listed_ids(objects) == ids, text
        assert objects.failure == ""
    for column in ("score", "kind"):
        for down in (False, True):
            objects.order(("", column, down))
            assert listed_ids(objects)[-1] == 500, "what is missing is last"
    objects.order(("", "kind", True))
    assert listed_ids(objects) == [3, 8, 500]
    for text, reason in (
        ("round things", "neither an id nor a test"),
        ("score >", "has no value"),
        ("scor > 1", "Did you mean score"),
        ("kind > 2", "holds text"),
        ("area > small", "holds numbers"),
    ):
        objects.order((text, "label", False))
        assert reason in objects.failure
        assert len(objects.frame) == 3


def seen(layer, *ids):
    return layer.colormap.map(np.array(ids, layer.dtype))


def test_a_column_colours_objects_and_the_file_keeps_their_own():
    layer = layer_of(np.where(DISCS == 8, 0, DISCS).astype("u4"))
    layer.paint((50, 80), 9)
    rows = {
        "index": [3, 500, 9],
        "score": [1.5, np.nan, 100.0],
        "kind": ["x", "y", None],
    }
    layer.features = pd.DataFrame(rows)
    own, own_dict = seen(layer, 3, 500, 9, 77), layer.colormap
    objects = shown(layer)
    objects.color_by("score")
    low, none, high, other = seen(layer, 3, 500, 9, 77)
    (first, *_, last) = objects.colors.coloring.colors
    np.testing.assert_allclose([low[:3], high[:3]], np.array([first, last]) / 255)
    assert not np.array_equal(low, high)
    for grey in (none, other):
        np.testing.assert_allclose(grey, NO_CLASS, atol=1e-6)
    assert objects.colors.coloring.limits == (1.5, 100)
    assert set(layer.colormap.color_dict) <= {0, None}
    objects.color_by("score", is_log=True)
    assert objects.colors.coloring.is_log
    objects.color_by("kind")
    assert objects.colors.coloring.categories == ("x", "y")
    assert len({tuple(color) for color in seen(layer, 3, 500, 77)}) == 3
    objects.color_by("")
    np.testing.assert_array_equal(seen(layer, 3, 500, 9, 77), own)
    assert layer.colormap is own_dict


def test_few_whole_numbers_are_kinds_and_many_kinds_share_a_colour():
    pixels = np.arange(1, 41, dtype="u2").reshape(5, 8).repeat(4, 0).repeat(4, 1)
    layer = layer_of(pixels)
    ids = np.arange(1, 41)
    layer.features = pd.DataFrame(
        {"index": ids, "cluster": ids % 3, "size": ids, "name": [f"n{i}" for i in ids]}
    )
    objects = shown(layer)
    objects.color_by("cluster")
    assert objects.colors.coloring.categories == ("0", "1", "2")
    objects.color_by("size")
    assert objects.colors.coloring.categories == ()
    objects.color_by("name")
    assert objects.colors.coloring.categories[-1] == "other (33)"
    assert len(np.unique(seen(layer, *ids), axis=0)) == 8


def test_colours_of_classes_follow_the_classes(tmp_path, monkeypatch):
    write_image(tmp_path / "a.ome.zarr", DISCS, 3, "yx", labels=("nuclei",))
    viewer = opened(tmp_path / "a.ome.zarr", monkeypatch)
    layer = viewer.layers["nuclei"]
    objects = ObjectList(session_of(viewer).annotations, lambda: True)
    objects.set_layer(layer)
    own = seen(layer, 3, 8)
    objects.color_by("class")
    classes = begin_classes(session_of(viewer).annotations, layer)
    classes.add_class("round")
    classes.classify(3, "round")
    color = np.array(classes.classes.classes[0].color) / 255
    np.testing.assert_allclose(seen(layer, 3, 8), [color, NO_CLASS], atol=1e-6)
    assert not layer.unsaved
    objects.color_by("")
    np.testing.assert_array_equal(seen(layer, 3, 8), own)


def test_an_overview_lists_no_objects(tmp_path, monkeypatch):
    root = write_plate(tmp_path / "p.ome.zarr", grid=(1, 2), fields=1, shape=(32, 32))
    viewer = opened(root, monkeypatch)
    layer = next(x for x in viewer.layers if isinstance(x, OMEZarrLabels))
    objects = ObjectList(session_of(viewer).annotations, lambda: True)
    objects.set_layer(layer)
    objects.refresh()
    assert objects.listed is None
    assert "overview" in objects.failure


def test_what_several_tables_lack_is_told_once(tmp_path, monkeypatch):
    table = pd.DataFrame({"label": [3, 8, 77, 78], "size": [1, 2, 3, 4]})
    tables = dict.fromkeys(("a", "b", "c"), table)
    tables["d"] = table.drop(index=3)
    monkeypatch.setattr(object_list, "_read_tables", lambda *_: (tables, []))
    notes = [x for x in shown(layer_of(DISCS)).listed.notes if "ids have" in x]
    assert [x.partition(" ids have")[0] for x in notes] == [
        "Tables a, b and c: 2",
        "Table d: 1",
    ]
