from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Labels, Shapes

from napari_ngff.labels.canvas import Canvas
from napari_ngff.viewer.annotations.drawings import shapes_to_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from painting import pyramid

SHAPE = 4, 60, 80
SCALE = 2.0, 0.5, 0.5


def scene():
    viewer = ViewerModel()
    canvas = Canvas(pyramid(np.zeros(SHAPE, "u2"), [(4, 30, 40)]))
    layer = viewer.add_layer(OMEZarrLabels(canvas, scale=SCALE, translate=(1, 2, 3)))
    viewer.dims.set_current_step(0, 2)
    return viewer, layer


def world(*points):
    return np.array(points) * 0.5 + (2, 3)


def shown(layer):
    return np.asarray(layer.canvas.levels[0])


def test_polygons_and_rectangles_are_those_of_the_polygon_tool():
    viewer, layer = scene()
    shapes = Shapes()
    shapes.add_polygons(world((5, 5), (30, 12), (22, 41), (9, 30)))
    shapes.add_rectangles(world((40, 10), (40, 50), (55, 50), (55, 10)))
    assert shapes_to_labels(viewer, shapes, layer) == 2
    stock = Labels(np.zeros(SHAPE[1:], int))
    stock.paint_polygon([(5, 5), (30, 12), (22, 41), (9, 30)], 1)
    stock.paint_polygon([(40, 10), (40, 50), (55, 50), (55, 10)], 2)
    np.testing.assert_array_equal(shown(layer)[2], stock.data)
    assert not shown(layer)[[0, 1, 3]].any()
    layer.undo()
    assert not shown(layer).any()


def test_an_ellipse_is_round_and_a_line_as_wide_as_its_edge():
    viewer, layer = scene()
    shapes = Shapes()
    shapes.add_ellipses(world((10, 10), (10, 50), (30, 50), (30, 10)))
    shapes.add_lines(world((45, 10), (45, 70)), edge_width=3)
    shapes_to_labels(viewer, shapes, layer, 7)
    found = shown(layer)[2]
    assert set(np.unique(found)) == {0, 7}
    y, x = np.ogrid[:60, :80]
    ellipse = ((y - 20) / 10) ** 2 + ((x - 30) / 20) ** 2
    assert (found[:40] == 7)[ellipse[:40] < 0.9].all()
    assert not found[:40][ellipse[:40] > 1.2].any()
    assert np.flatnonzero(found[40:, 40]).tolist() == [2, 3, 4, 5, 6, 7, 8]


def test_all_that_was_drawn_with_a_tool_still_in_hand():
    viewer, layer = scene()
    shapes = Shapes()
    shapes.add_rectangles(world((10, 10), (10, 50), (30, 50), (30, 10)))
    shapes.add_rectangles(world((40, 10), (40, 50), (55, 50), (55, 10)))
    shapes.mode = "add_rectangle"
    shapes.selected_data = {1}  # by napari, after it was drawn
    assert shapes_to_labels(viewer, shapes, layer) == 2
    assert {1, 2} < set(np.unique(shown(layer)))


def test_only_the_selected_ones_and_what_is_locked_stays():
    viewer, layer = scene()
    layer.paint((2, 20, 20), 4)
    before = shown(layer).copy()
    layer.spared = (4,)
    shapes = Shapes()
    shapes.add_rectangles(world((10, 10), (10, 50), (30, 50), (30, 10)))
    shapes.add_rectangles(world((40, 10), (40, 50), (55, 50), (55, 10)))
    shapes.selected_data = {0}
    assert shapes_to_labels(viewer, shapes, layer, 9) == 1
    found = shown(layer)
    np.testing.assert_array_equal(found == 4, before == 4)
    assert found[2, 10:31, 10:51].min() > 0
    assert not found[2, 40:].any()


def test_shapes_that_lie_in_no_plane_are_refused():
    viewer, layer = scene()
    slanted = Shapes([[[0, 5, 5], [4, 5, 30], [4, 20, 30], [0, 20, 5]]], ndim=3)
    with pytest.raises(ValueError, match="no visible plane"):
        shapes_to_labels(viewer, slanted, layer)
    with pytest.raises(ValueError, match="no shapes"):
        shapes_to_labels(viewer, Shapes(ndim=2), layer)
    layer.read_only = "it is a copy"
    with pytest.raises(ValueError, match="it is a copy"):
        shapes_to_labels(viewer, slanted, layer)
    assert not shown(layer).any()
