from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.label_objects import known_ids
from napari_ngff.viewer.painting.object_edits import (
    cut_object,
    join_objects,
    label_at,
    label_region,
    neighbour_id,
    show_region,
)
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.streaming.regions import view_region
from painting import pyramid


def two_discs(**keywords):
    y, x = np.ogrid[:60, :90]
    discs = ((y - 30) ** 2 + (x - 30) ** 2 < 300) | (
        (y - 30) ** 2 + (x - 58) ** 2 < 300
    )
    pixels = np.where(discs, 5, 0).astype("u2")
    pixels[2:6, 2:6] = 9
    canvas = Canvas(pyramid(pixels, [(30, 45)]))
    return OMEZarrLabels(canvas, **keywords), pixels


def shown(layer):
    return np.asarray(layer.canvas.levels[0])


def test_touching_objects_are_cut_at_their_neck_and_joined_again():
    layer, pixels = two_discs()
    assert cut_object(layer, [(30, 20), (30, 70)]).apply_edits() == (5, 10)
    found = shown(layer)
    np.testing.assert_array_equal(found > 0, pixels > 0)
    left, right = (np.argwhere(found == value)[:, 1] for value in (5, 10))
    assert left.max() <= 45
    assert right.min() >= 43
    assert abs(len(left) - len(right)) < 60
    assert join_objects(layer, (30, 70), 5).apply_edits() == (10,)
    np.testing.assert_array_equal(shown(layer), pixels)
    layer.undo()
    layer.undo()
    np.testing.assert_array_equal(shown(layer), pixels)


def test_three_parts_in_a_stack():
    pixels = np.zeros((5, 20, 60), "u1")
    pixels[1:4, 5:15, 5:55] = 3
    layer = OMEZarrLabels(Canvas(pyramid(pixels, [])))
    layer.n_edit_dimensions = 3
    found = cut_object(layer, [(2, 10, 8), (2, 10, 30), (2, 10, 52)])
    assert found.apply_edits() == (3, 4, 5)
    assert set(np.unique(shown(layer))) == {0, 3, 4, 5}
    np.testing.assert_array_equal(shown(layer) > 0, pixels > 0)


def test_clicks_that_mean_nothing_are_refused_and_change_nothing():
    layer, pixels = two_discs()
    for seeds in ([(0, 0), (30, 30)], [(30, 30)], [(30, 30), (3, 3)], [(30, 30)] * 2):
        with pytest.raises(ValueError, match="Click"):
            cut_object(layer, seeds)
    for at in ((0, 0), (30, 30), (-1, 4), (60, 0)):
        with pytest.raises(ValueError, match="Click"):
            join_objects(layer, at, 5)
    layer.spared = (9,)
    with pytest.raises(ValueError, match="locked"):
        join_objects(layer, (3, 3), 5)
    np.testing.assert_array_equal(shown(layer), pixels)
    assert label_at(layer, (3, 3)) == 9


def test_one_goes_from_object_to_object():
    layer, _ = two_discs()
    ids = known_ids(layer.canvas)
    assert ids.tolist() == [5, 9]
    assert [neighbour_id(ids, value, 1) for value in (0, 5, 7, 9)] == [5, 9, 9, 5]
    assert [neighbour_id(ids, value, -1) for value in (0, 5, 7, 9)] == [9, 9, 5, 5]
    assert neighbour_id(ids[:0], 5, 1) is None


def test_an_object_is_brought_into_view():
    viewer = ViewerModel()
    layer = viewer.add_layer(two_discs(scale=(2.0, 0.5), translate=(7, 8))[0])
    show_region(viewer, layer, label_region(layer, 9))
    (top, bottom), (left, right) = view_region(viewer, layer)
    assert top <= 2
    assert 9 <= bottom <= 12, "three objects high, so that neighbours are seen"
    assert left <= 2
    assert right >= 6


def test_objects_of_the_field_before_are_neither_joined_nor_cut_in_the_next():
    layer, pixels = two_discs()
    joined = join_objects(layer, (30, 70), 9)
    cut = cut_object(layer, [(30, 20), (30, 70)])
    layer.exchange_canvas(Canvas(pyramid(pixels, [(30, 45)])))
    for regrouping in (joined, cut):
        with pytest.raises(ValueError, match="shows another image by now"):
            regrouping.apply_edits()
    np.testing.assert_array_equal(shown(layer), pixels)
    canvas = Canvas(pyramid(np.zeros_like(pixels), [(30, 45)]))
    # A worker that begins after the step still looks at what was clicked.
    with pytest.raises(ValueError, match="Click an object"):
        join_objects(layer, (30, 70), 9, canvas)
