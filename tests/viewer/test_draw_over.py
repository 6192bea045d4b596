"""What the tools draw over: any label, one label, none that is locked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from napari.layers import Labels

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.object_classes import ObjectClass, ObjectClasses
from napari_ngff.viewer.bridge.merge_result import merge
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from painting import pyramid

SHAPE = 48, 60

LOCKED_CLASSES = (ObjectClass("whole", (1, 2, 3, 255), locked=True),)


def layers():
    pixels = np.random.default_rng(3).integers(0, 4, (12, 15)).astype("u2")
    pixels = pixels.repeat(4, axis=0).repeat(4, axis=1)
    ours = OMEZarrLabels(Canvas(pyramid(pixels, [(24, 30), (10, 11)])))
    return ours, Labels(pixels.copy())


POINT = st.tuples(st.integers(0, SHAPE[0] - 1), st.integers(0, SHAPE[1] - 1))


def act(layer, tool, points, label, size):
    layer.brush_size = size
    if tool == "dab":
        layer.paint(points[0], label)
    elif tool == "polygon":
        layer.paint_polygon(np.array(points), label)
    else:
        layer.fill(points[0], label)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["dab", "polygon", "fill"]),
            st.lists(POINT, min_size=3, max_size=5),
            st.integers(0, 4),
            st.integers(1, 20),
        ),
        min_size=1,
        max_size=5,
    ),
    st.sets(st.integers(0, 4), max_size=2),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
def test_locked_labels_and_others_than_one_stay(program, locked, only, are_objects):
    ours, stock = layers()
    ours.only_over = only
    if are_objects:
        classes = ObjectClasses(LOCKED_CLASSES)
        classes = classes.with_objects(dict.fromkeys(locked, "whole"))
        ours.object_classes = lambda: classes
    else:
        ours.spared = tuple(sorted(locked))
    for tool, points, label, size in program:
        before = stock.data.copy()
        act(ours, tool, points, label, size)
        act(stock, tool, points, label, size)
        kept = np.isin(before, [*locked])
        if only is not None and not (only == label == 0):
            kept |= before != only
        stock.data[kept] = before[kept]
        np.testing.assert_array_equal(np.asarray(ours.canvas.levels[0]), stock.data)


def test_locked_labels_stay_when_results_are_merged():
    ours, stock = layers()
    ours.spared = (2,)
    merge(Labels(np.full(SHAPE, 7)), ours, "overwrite")
    expected = np.where(stock.data == 2, 2, 7)
    np.testing.assert_array_equal(np.asarray(ours.canvas.levels[0]), expected)


@pytest.mark.parametrize("new", [0, 3, 9])
def test_one_label_becomes_another_and_is_again_itself(new):
    ours, stock = layers()
    ours.replace_label(2, new)
    for level, before in zip(
        ours.canvas.levels, layers()[0].canvas.levels, strict=True
    ):
        before = np.asarray(before)
        np.testing.assert_array_equal(level, np.where(before == 2, new, before))
    ours.undo()
    np.testing.assert_array_equal(np.asarray(ours.canvas.levels[0]), stock.data)
