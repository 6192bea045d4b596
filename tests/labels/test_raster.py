from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.edits import Edit, dump_edit, load_edit
from napari_ngff.labels.raster import Raster, cut_labels
from painting import pyramid, samples

STEP = st.sampled_from([0.4, 1.0, 1.5, 2.0, 3.7])


def edit_of(shape, fixed=(), source=None):
    taken = [axis for axis, _ in fixed]
    ndim = shape.values.ndim + len(taken)
    axes = tuple(axis for axis in range(ndim) if axis not in taken)
    return Edit(shape, axes, fixed, int(shape.values.max()), source, False)


@settings(deadline=None, max_examples=60)
@given(
    st.tuples(st.floats(-9, 40), st.floats(-9, 50)),
    st.tuples(STEP, STEP),
    st.sampled_from([None, 0, 3]),
    st.sampled_from([None, 0, 2]),
    st.integers(3, 25),
)
def test_each_voxel_takes_the_nearest_at_every_level(origin, step, clear, source, cut):
    random = np.random.default_rng(1)
    below = random.integers(0, 4, (41, 53)).astype("u2")
    values = random.integers(0, 5, (9, 13)).astype("u1")
    canvas = Canvas(pyramid(below, [(20, 18), (7, 9)], (cut, cut)))
    levels = [np.asarray(level) for level in canvas.levels]
    canvas.add_edit(edit_of(Raster(values, origin, step, clear), source=source))

    for level, before in zip(canvas.levels, levels, strict=True):
        expected = before.copy()
        at = [samples(f, n) for f, n in zip(below.shape, before.shape, strict=True)]
        for i, y in enumerate(at[0]):
            for j, x in enumerate(at[1]):
                row = math.floor((y + 0.5 - origin[0]) / step[0])
                column = math.floor((x + 0.5 - origin[1]) / step[1])
                if not (0 <= row < 9 and 0 <= column < 13):
                    continue
                value = values[row, column]
                if value != clear and source in (None, before[i, j]):
                    expected[i, j] = value
        np.testing.assert_array_equal(np.asarray(level), expected)

    canvas.undo()
    np.testing.assert_array_equal(np.asarray(canvas.levels[0]), below)


def test_it_lies_in_one_plane_of_a_stack():
    canvas = Canvas(pyramid(np.zeros((3, 8, 8), "u2"), []))
    values = np.arange(1, 5, dtype="u1").reshape(2, 2)
    canvas.add_edit(edit_of(Raster(values, (2.0, 3.0), (2.0, 1.0)), fixed=((0, 1),)))
    found = np.asarray(canvas.levels[0])
    assert not found[[0, 2]].any()
    np.testing.assert_array_equal(found[1, 2:6, 3:5], [[1, 2], [1, 2], [3, 4], [3, 4]])
    assert np.count_nonzero(found) == 8


@pytest.mark.parametrize("dtype", [">u2", "u1", "i4"])
def test_it_survives_json(dtype):
    values = np.arange(12, dtype=dtype).reshape(3, 4)
    edit = edit_of(Raster(values, (1.5, 2.0), (2.0, 0.5), 0), source=4)
    again = load_edit(json.loads(json.dumps(dump_edit(edit))))
    assert again == edit
    other = edit_of(Raster(values + 1, (1.5, 2.0), (2.0, 0.5), 0), source=4)
    assert again != other


def test_damaged_labels_are_refused():
    data = dump_edit(edit_of(Raster(np.ones((4, 4), "u1"), (0.0, 0.0), (1.0, 1.0))))
    data["shape"]["values"] = data["shape"]["values"][:8]
    with pytest.raises(ValueError, match="cut off"):
        load_edit(data)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=4),
    st.sampled_from(["?", "u1", "i2", "u4", "i8"]),
    st.integers(0, 4),
    st.integers(0, 99),
)
def test_labels_are_cut_out_of_an_array_where_there_are_any(shape, kind, count, seed):
    random = np.random.default_rng(seed)
    data = np.zeros(shape, kind)
    for _ in range(count):
        data[tuple(random.integers(0, shape))] = random.integers(1, 100)
    if not data.any():
        with pytest.raises(ValueError, match="All labels are 0"):
            cut_labels(data)
        return
    values, first = cut_labels(data)
    again = np.zeros(shape, values.dtype)
    box = tuple(slice(a, a + n) for a, n in zip(first, values.shape, strict=True))
    again[box] = values
    assert np.array_equal(again, data)
    for axis in range(values.ndim):  # no plane at an end is empty
        assert (
            np.take(values, [0, -1], axis)
            .any(tuple(set(range(len(shape))) - {axis}))
            .all()
        )
    assert not np.shares_memory(values, data), "strokes go on in the array"


def test_negative_labels_are_refused():
    with pytest.raises(ValueError, match="negative"):
        cut_labels(np.full((2, 2), -1))
