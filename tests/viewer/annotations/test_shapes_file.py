"""Shapes as GeoJSON, as QuPath writes and reads it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_ngff.viewer.annotations.shapes_file import (
    STYLES,
    dump_shapes,
    parse_shapes,
)

NUMBERS = st.floats(0, 4000, width=32)
CORNERS = {"rectangle": 4, "ellipse": 4, "line": 2}


def style(kind):
    return dict(
        zip(STYLES, (kind, 2.5, [0.2, 0.4, 0.6, 1.0], [1.0, 0, 0, 0.5]), strict=True)
    )


def read_back(text, axes):
    content, kept, rest = parse_shapes(text, axes)
    rows = content["features"].astype(object)
    rows = rows.where(rows.notna(), None).to_dict("records") or [{}] * len(kept)
    styles = [{key: content[key][i] for key in STYLES} for i in range(len(kept))]
    shapes = zip(content["data"], styles, rows, kept, strict=True)
    return content, dump_shapes(shapes, rest, axes)


@st.composite
def drawn(draw):
    """Give a shape as napari has it: of any type, in a plane or across some."""
    kind = draw(st.sampled_from(["rectangle", "ellipse", "polygon", "path", "line"]))
    count = CORNERS.get(kind) or draw(st.integers(3, 9))
    flat = draw(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=count, max_size=count))
    corners = np.array(flat, float)
    if kind in ("rectangle", "ellipse"):  # turned or not, of any size
        middle, first, second = corners[:3]
        ends = [-first - second, first - second, first + second, second - first]
        corners = middle + np.array(ends)
    others = [
        draw(st.one_of(NUMBERS, st.integers(0, 30)))
        if draw(st.booleans())
        else np.array(draw(st.lists(NUMBERS, min_size=count, max_size=count)))
        for _ in range(2)
    ]
    if kind in ("rectangle", "ellipse"):
        others = [np.broadcast_to(each, count)[0] for each in others]
    columns = [np.broadcast_to(each, count) for each in others]
    return kind, np.column_stack([*columns, corners])


@given(shapes=st.lists(drawn(), min_size=1, max_size=4))
def test_each_shape_comes_back_as_it_was(shapes):
    axes = ("angle", "z", "y", "x")
    rows = [
        (corners, style(kind), {"class": "a b", "n": i, "text": "ü"}, {})
        for i, (kind, corners) in enumerate(shapes)
    ]
    text = dump_shapes(rows, {"features": []}, axes)
    content, again = read_back(text, axes)
    for (kind, corners), found_kind, found in zip(
        shapes, content["shape_type"], content["data"], strict=True
    ):
        # One that has no size is of any type.
        if np.ptp(corners[:, -2:], axis=0).min() > 1:
            assert found_kind == kind
        np.testing.assert_allclose(found, corners, atol=1e-5)
    assert content["edge_width"] == [2.5] * len(shapes)
    assert content["edge_color"] == [[0.2, 0.4, 0.6, 1.0]] * len(shapes)
    assert content["face_color"] == [[1.0, 0, 0, 0.5]] * len(shapes)
    assert content["features"]["n"].tolist() == list(range(len(shapes)))
    assert set(content["features"]["class"]) == {"a b"}
    for feature in json.loads(again)["features"]:
        assert feature["properties"]["classification"]["name"] == "a b"


QUPATH = """{"type": "FeatureCollection", "generator": "QuPath", "features": [
{"type": "Feature", "id": "0b6f", "geometry": {"type": "Polygon", "coordinates":
 [[[10, 20], [30, 20], [30, 60], [10, 60], [10, 20]]]}, "properties": {"objectType":
 "annotation", "name": "box", "classification": {"name": "Tumor", "color": [200, 0, 0]},
 "isLocked": true, "measurements": {"area": 800.0}, "metadata": {"by": "me"}}},
{"type": "Feature", "id": "1", "geometry": {"type": "Polygon", "coordinates":
 [[[30, 25], [25, 30], [20, 25], [25, 10], [30, 25]]], "isEllipse": true, "plane":
 {"c": 2, "z": 3, "t": 0}}, "properties": {"objectType": "detection",
 "classification": {"names": ["A", "B"], "color": [0, 255, 0]}}},
{"type": "Feature", "id": "2", "geometry": {"type": "Polygon", "coordinates":
 [[[0, 0], [9, 0], [9, 9], [0, 0]], [[1, 1], [2, 1], [2, 2], [1, 1]]]},
 "properties": {"objectType": "annotation", "name": "with a hole"}},
{"type": "Feature", "id": "3", "geometry": {"type": "MultiPolygon", "coordinates":
 [[[[0, 0], [9, 0], [9, 9], [0, 0]]]]}, "properties": null},
{"type": "Feature", "id": "4", "geometry": {"type": "MultiPoint", "coordinates":
 [[1, 2]]}, "properties": {"objectType": "annotation"}},
{"type": "Feature", "id": "5", "geometry": {"type": "LineString", "coordinates":
 [[1, 2], [5, 6]]}, "properties": {"objectType": "annotation", "color": [1, 2, 3]}},
{"type": "Feature", "id": "6", "geometry": null, "properties": {}}]}"""


def by_id(text):
    return {feature["id"]: feature for feature in json.loads(text)["features"]}


def test_what_qupath_has_of_a_feature_stays_and_nothing_is_lost():
    axes = ["t", "z", "y", "x"]
    content, again = read_back(QUPATH, axes)
    assert content["shape_type"] == ["rectangle", "ellipse", "line"]
    # The pixel in the corner reaches from 0 to 1 there, from -0.5 to 0.5 in napari.
    box, ellipse, _ = content["data"]
    assert box[:, -2:].tolist() == [
        [19.5, 9.5],
        [19.5, 29.5],
        [59.5, 29.5],
        [59.5, 9.5],
    ]
    assert ellipse[:, -2:].min(axis=0).tolist() == [9.5, 19.5]
    assert ellipse[:, -2:].max(axis=0).tolist() == [29.5, 29.5]
    assert ellipse[:, :2].tolist() == [[0, 3]] * 4
    assert content["edge_color"][0] == [200 / 255, 0, 0, 1]
    assert content["features"]["class"].tolist()[:2] == ["Tumor", "A: B"]
    assert content["features"]["name"].tolist()[0] == "box"
    before, after = by_id(QUPATH), by_id(again)
    assert json.loads(again)["generator"] == "QuPath"
    assert before.keys() == after.keys()
    for number in "2346":
        assert after[number] == before[number]
    for number in ("0b6f", "1", "5"):
        known = before[number]["properties"]
        assert {key: after[number]["properties"][key] for key in known} == known
    assert after["1"]["geometry"]["plane"] == {"c": 2, "z": 3, "t": 0}
    assert after["1"]["geometry"]["isEllipse"] is True
    np.testing.assert_allclose(
        after["0b6f"]["geometry"]["coordinates"],
        before["0b6f"]["geometry"]["coordinates"],
    )
    assert by_id(read_back(again, axes)[1]) == after


def test_a_class_that_changes_or_goes_is_another_classification():
    content, kept, rest = parse_shapes(QUPATH, ["y", "x"])
    corners = content["data"][0]
    for name in ("Stroma", None):
        row = corners, style("rectangle"), {"class": name, "name": None}, kept[0]
        properties = by_id(dump_shapes([row], rest, ["y", "x"]))["0b6f"]["properties"]
        assert properties.get("classification") == (
            name and {"name": name, "color": [51, 102, 153]}
        )
        assert "name" not in properties
        assert properties["measurements"] == {"area": 800.0}


def test_an_outline_that_another_program_changed_is_a_polygon():
    corners = np.array([(0, 0), (0, 20), (10, 20), (10, 0)], float)
    text = dump_shapes(
        [(corners, style("ellipse"), {}, {})], {"features": []}, ["y", "x"]
    )
    document = json.loads(text)
    geometry = document["features"][0]["geometry"]
    assert geometry.pop("isEllipse") is True
    geometry["coordinates"][0][5] = [100, 100]
    content, _, _ = parse_shapes(json.dumps(document), ["y", "x"])
    assert content["shape_type"] == ["polygon"]
    assert [99.5, 99.5] in content["data"][0].tolist()


@pytest.mark.parametrize(
    "text",
    ["", "{}", "3", '{"features": 3}', '{"features": {}}', "[" * 100_000, '{"a": [}'],
)
def test_what_is_no_collection_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parse_shapes(text, ["y", "x"])


@pytest.mark.parametrize(
    "feature",
    [
        None,
        3,
        {},
        {"geometry": 3},
        {"geometry": {"type": "Polygon"}},
        {"geometry": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [0, 0]]]}},
        {"geometry": {"type": "Polygon", "coordinates": [[[0, 0], [1, 1, 4], "a"]]}},
        {"geometry": {"type": "LineString", "coordinates": [[0, 0, 1], [1, 1, 1]]}},
        {"geometry": {"type": "LineString", "coordinates": [[0, 0]]}},
        {
            "geometry": {"type": "LineString", "coordinates": [[0, 0], [1, 1]]},
            "properties": 3,
        },
        {"geometry": {"type": "Polygon", "coordinates": []}, "properties": {"a": [1]}},
    ],
)
def test_a_feature_that_is_no_shape_stays_as_it_is(feature):
    text = json.dumps({"features": [feature]})
    content, again = read_back(text, ["y", "x"])
    assert content["data"] == []
    assert json.loads(again)["features"] == [feature]
