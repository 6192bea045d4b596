from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from skimage.draw import polygon2mask

from napari_ngff.labels import object_export
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.label_classes import LabelClass
from napari_ngff.labels.object_export import find_boxes, outline_features, write_boxes
from painting import pyramid


def level(pixels, chunks=(16, 16)):
    chunks = (1,) * (pixels.ndim - 2) + chunks
    return Canvas(pyramid(pixels, [], chunks)).levels[0]


def drawn(features, shape, plane):
    """Rasterise features as another program would: by even and odd."""
    out = np.zeros(shape, int)
    for feature in features:
        geometry = feature["geometry"]
        if geometry["plane"] != plane:
            continue
        pieces = geometry["coordinates"]
        if geometry["type"] == "Polygon":
            pieces = [pieces]
        inside = np.zeros(shape, int)
        for piece in pieces:
            for ring in piece:
                assert ring[0] == ring[-1]
                inside += polygon2mask(shape, np.array(ring[:-1])[:, ::-1] - 0.5)
        out[inside % 2 == 1] = feature["properties"]["measurements"]["label"]
    return out


def test_outlines_are_the_labels():
    pixels = np.random.default_rng(0).integers(0, 4, (2, 3, 20, 25)).astype("u2")
    found = json.loads(json.dumps(outline_features(level(pixels), "tzyx")))
    assert found["type"] == "FeatureCollection"
    for t, z in np.ndindex(2, 3):
        plane = {"c": -1, "z": z, "t": t}
        picture = drawn(found["features"], (20, 25), plane)
        np.testing.assert_array_equal(picture, pixels[t, z])
    assert len({feature["id"] for feature in found["features"]}) == 18


def test_they_lie_on_the_pixels_of_the_image():
    pixels = np.zeros((10, 12), "u1")
    pixels[4:6, 7:10] = 3
    classes = [LabelClass(3, "tumour", (255, 0, 9, 128))]
    found = outline_features(level(pixels), "yx", classes=classes, pixel=(2, 4))
    (feature,) = found["features"]
    (ring,) = feature["geometry"]["coordinates"]
    assert sorted(set(map(tuple, ring))) == [
        (28, 8),
        (28, 12),
        (40, 8),
        (40, 12),
    ]
    assert feature["properties"]["classification"] == {
        "name": "tumour",
        "color": [255, 0, 9],
    }


def test_a_plane_that_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr(object_export, "PLANE", 99)
    with pytest.raises(ValueError, match="10 x 10 voxels is too large"):
        outline_features(level(np.zeros((10, 10), "u1")), "yx")


def test_boxes_reach_over_chunks():
    pixels = np.zeros((4, 40, 50), "u2")
    pixels[1:3, 10:35, 14:18] = 7
    pixels[0, 3, 2] = 70
    found = find_boxes(level(pixels))
    assert found == {7: ((1, 3), (10, 35), (14, 18)), 70: ((0, 1), (3, 4), (2, 3))}


def test_a_table_of_boxes_is_read_by_ngio():
    tables = pytest.importorskip("ngio.tables")
    file = io.StringIO(newline="")
    found = {7: ((1, 3), (10, 35), (14, 18)), 70: ((0, 1), (3, 4), (2, 3))}
    write_boxes(file, found, "zyx", (2.0, 0.5, 0.25))
    file.seek(0)
    table = pd.read_csv(file)
    rois = tables.RoiTable.from_table_data(table, tables.RoiTable().meta).rois()
    first = next(roi for roi in rois if roi.label == 7)
    assert (first["x"].start, first["x"].length) == (3.5, 1.0)
    assert (first["y"].start, first["y"].length) == (5.0, 12.5)
    assert (first["z"].start, first["z"].length) == (2.0, 4.0)
