"""What counts as a step of undo: all that changes a voxel, and as napari has it."""

from __future__ import annotations

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Labels

from napari_ngff.labels.canvas import Canvas
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from painting import pyramid


def pixels():
    values = np.zeros((3, 60, 80), "u2")
    values[:, 20:40, 20:40] = 3
    return values


def show(layer):
    viewer = ViewerModel()
    viewer.add_layer(layer)
    viewer.dims.set_current_step(0, 0)
    layer.brush_size = 5
    return layer


def ours(level=0):
    layer = OMEZarrLabels(Canvas(pyramid(pixels(), [(3, 30, 40)])))
    layer.locked_data_level = level
    return show(layer)


def stock():
    return show(Labels(pixels()))


def drag(layer, label, *points):
    layer.mode = "paint"
    with layer.block_history():
        for start, stop in zip([points[0], *points], points, strict=False):
            layer._draw(label, start, stop)


def bucket(layer, contiguous):
    layer.contiguous = contiguous
    layer.fill((0, 30, 30), 3)


def preserve(layer, label, at):
    layer.preserve_labels = True
    layer.paint(at, label)


NOTHING = {
    "a dab over its own label": lambda x: x.paint((0, 30, 30), 3),
    "a stroke over its own label": lambda x: drag(x, 3, (0, 30, 30), (0, 32, 33)),
    "erasing where nothing is": lambda x: drag(x, 0, (0, 5, 5), (0, 5, 50)),
    "a bucket of the same label": lambda x: bucket(x, True),
    "the same, everywhere": lambda x: bucket(x, False),
    "a polygon inside of its label": lambda x: x.paint_polygon(
        [(0, 22, 22), (0, 22, 30), (0, 30, 30)], 3
    ),
    "a polygon outside": lambda x: x.paint_polygon(
        [(0, -9, -9), (0, -9, -5), (0, -5, -5)], 3
    ),
    "a dab outside": lambda x: x.paint((0, -50, 30), 5),
    "preserved labels": lambda x: preserve(x, 5, (0, 30, 30)),
    "voxels set as they are": lambda x: x.data_setitem(
        (np.array([0, 0]), np.array([30, 5]), np.array([30, 5])), np.array([3, 0])
    ),
}

SOMETHING = {
    "a dab on the border of its label": lambda x: x.paint((0, 30, 40), 3),
    "a stroke that leaves its label": lambda x: drag(x, 3, (0, 30, 30), (0, 30, 50)),
    "erasing at last": lambda x: drag(x, 0, (0, 5, 5), (0, 5, 9), (0, 30, 30)),
    "another plane": lambda x: x.paint((2, 50, 50), 3),
    "one of some voxels": lambda x: x.data_setitem(
        (np.array([0, 0]), np.array([30, 5]), np.array([30, 5])), np.array([3, 1])
    ),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_changes_nothing_is_no_step_as_in_napari(name):
    for layer in (ours(), stock()):
        layer.paint((0, 50, 50), 7)
        layer.paint((0, 10, 50), 8)
        layer.undo()
        NOTHING[name](layer)
        assert len(layer._undo_history) == 1
        layer.redo()
        assert np.asarray(layer.data)[0, 10, 50] == 8, "what was undone is gone"
        layer.undo()
        layer.undo()
        np.testing.assert_array_equal(np.asarray(layer.data), pixels())


@pytest.mark.parametrize("name", SOMETHING)
@pytest.mark.parametrize("level", [0, 1])
def test_what_changes_a_voxel_is_one_step(name, level):
    layer, other = ours(level), stock()
    for each in (layer, other):
        SOMETHING[name](each)
        assert len(each._undo_history) == 1
    np.testing.assert_array_equal(np.asarray(layer.data), other.data)
    layer.undo()
    np.testing.assert_array_equal(np.asarray(layer.data), pixels())


def test_what_cannot_be_seen_counts():
    # Every second voxel: at level 1 the label is all that shows.
    values = pixels()
    values[:, 20:40:2, 20:40:2] = 0
    layer = OMEZarrLabels(Canvas(pyramid(values, [(3, 30, 40)])))
    layer.locked_data_level = 1
    show(layer)
    before = layer._slice.image.raw.copy()
    layer.paint((0, 30, 30), 3)
    np.testing.assert_array_equal(layer._slice.image.raw, before)
    assert len(layer._undo_history) == 1
    assert (np.asarray(layer.data)[0, 28:33, 30] == 3).all()


def test_a_label_replaced_by_itself_is_no_step():
    layer = ours(1)
    layer.replace_label(3, 3)
    assert not layer._undo_history
    layer.replace_label(3, 4)
    assert len(layer._undo_history) == 1


def test_a_stroke_that_fails_is_a_step_of_its_own():
    layer = ours()

    def fail_in_the_middle():
        with layer.block_history():
            layer.paint((0, 5, 5), 4)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_in_the_middle()
    layer.paint((0, 50, 50), 5)
    layer.undo()
    assert layer.data[0, 5, 5] == 4
    assert layer.data[0, 50, 50] == 0
    layer.undo()
    assert layer.data[0, 5, 5] == 0
