"""Colours of labels from tables, against napari's own colormaps."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from napari.utils.colormaps import DirectLabelColormap, label_colormap

from napari_ngff.viewer.layers.label_colors import LabelColors, recolor_labels
from napari_ngff.viewer.layers.label_layers import OTHER
from napari_ngff.viewer.layers.label_layers import label_colormap as ours

DTYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")
COLOR = st.tuples(*[st.integers(0, 255)] * 4)


def fraction(color):
    return np.array(color, np.float32) / 255


def drawn(colormap, values):
    """What the graphics card makes of labels: the texture's row, then its colour."""
    texture = colormap._data_to_texture(values)
    if values.dtype.itemsize <= 2:
        found = colormap._get_mapping_from_cache(values.dtype)[texture]
        if colormap.use_selection:
            found[texture != colormap._selection_as_minimum_dtype(values.dtype)] = 0
        return found
    colors = colormap._values_mapping_to_minimum_values_set()[1]
    table = np.zeros((len(colors), 4), np.float32)
    for key, color in colors.items():
        table[key] = color
    return table[texture.astype(int)]


@pytest.mark.default_cases("u1", "i4")
@pytest.mark.parametrize("dtype", DTYPES)
@given(
    st.dictionaries(st.integers(-100, 300), COLOR, max_size=20),
    st.lists(st.integers(-100, 300), min_size=1, max_size=30),
    st.integers(1, 100),
    st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_listed_labels_look_as_in_napari(dtype, colors, labels, selection, alone):
    info = np.iinfo(dtype)
    # napari without numba clips negative ones that are not listed.
    known = [
        v for v in labels if v in colors or (v > 0 and min(colors, default=0) >= 0)
    ]
    inside = [v for v in known if info.min <= v <= info.max] or [0]
    values = np.array(inside, dtype)
    listed = {v: fraction(c) for v, c in colors.items()}
    listed |= {None: np.array(OTHER, np.float32)}
    listed.setdefault(0, np.zeros(4, np.float32))
    stock = DirectLabelColormap(color_dict=listed)
    mine = LabelColors.from_listed(listed)
    for colormap in (stock, mine):
        colormap.selection, colormap.use_selection = selection, alone
    np.testing.assert_array_equal(mine.map(values), stock.map(values.copy()))
    np.testing.assert_array_equal(drawn(mine, values), mine.map(values))
    for value in values:
        np.testing.assert_array_equal(mine.map(value), stock.map(int(value)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [100, 10**5, 2**62])
def test_other_labels_look_as_without_colours(dtype, largest):
    info = np.iinfo(dtype)
    random = np.random.default_rng(0)
    low, high = max(info.min + 1, -largest), min(info.max, largest)
    values = random.integers(low, high, 1000).astype(dtype)
    values[0] = 0
    colormap = ours({3: (1, 2, 3, 255)})
    others = values[values != 3]
    usual = label_colormap(49).map(others)
    np.testing.assert_array_equal(colormap.map(others), usual)
    np.testing.assert_array_equal(drawn(colormap, others), usual)
    np.testing.assert_array_equal(colormap.map(3), fraction((1, 2, 3, 255)))


@pytest.mark.parametrize(
    "values",
    [
        np.array([5, 10**6, 2**40, 2**62, -7], "i8"),
        np.array([5, 10**6, 2**40, 2**63 - 2, 2**63, 2**63 + 9, 2**64 - 2], "u8"),
    ],
)
def test_labels_of_any_size_have_their_own_colour(values):
    colors = {int(v): (i, 1, 2, 255) for i, v in enumerate(values)}
    colormap = ours(colors)
    expected = [fraction(c) for c in colors.values()]
    np.testing.assert_array_equal(colormap.map(values), expected)
    np.testing.assert_array_equal(drawn(colormap, values), expected)
    for value, color in zip(values.tolist(), expected, strict=True):
        np.testing.assert_array_equal(colormap.map(value), color)
    near = values + values.dtype.type(1)
    usual = label_colormap(49).map(near)
    np.testing.assert_array_equal(colormap.map(near), usual)
    changed = recolor_labels(colormap, {int(values[-1]): (1, 1, 1, 1)})
    np.testing.assert_array_equal(changed.map(values[-1:]), [(1, 1, 1, 1)])
    usual_again = recolor_labels(changed, {int(values[-1]): None})
    expected = label_colormap(49).map(values[-1:])
    np.testing.assert_array_equal(usual_again.map(values[-1:]), expected)


@pytest.mark.parametrize("count", [150, 300, 70_000])
def test_many_colours_and_each_change_of_them(count):
    random = np.random.default_rng(count)
    parts = random.integers(0, 256, (count, 4)).tolist()
    colors = {value: tuple(color) for value, color in enumerate(parts, 1)}
    colormap = ours(colors)
    values = random.integers(0, count + 100, 5000).astype("u4")
    changes = {2: fraction((1, 1, 1, 1)), 3: None, count + 50: fraction((2, 2, 2, 2))}
    changed = recolor_labels(colormap, changes)
    later = {**colors, 2: (1, 1, 1, 1), count + 50: (2, 2, 2, 2)}
    del later[3]
    np.testing.assert_array_equal(changed.map(values), ours(later).map(values))
    np.testing.assert_array_equal(drawn(changed, values), changed.map(values))
    assert set(changed.color_dict) == {None, 0, *later}
    assert colormap.map(2).tolist() == fraction(colors[2]).tolist(), "the first stays"
    back = recolor_labels(changed, {2: fraction(colors[2]), 3: fraction(colors[3])})
    np.testing.assert_array_equal(back.map(values[:9]), back.map(values)[:9])
    assert back.map(3).tolist() == fraction(colors[3]).tolist()


def test_nothing_new_is_no_new_colormap():
    colormap = ours({1: (1, 2, 3, 255)})
    assert recolor_labels(colormap, {1: fraction((1, 2, 3, 255)), 4: None}) is colormap


def test_colours_of_others_stay_where_classes_get_theirs():
    values = np.arange(1, 90, dtype="u4")
    red = np.array((1, 0, 0, 1), np.float32)
    direct = DirectLabelColormap(color_dict={None: "gray", 9: "blue"})
    shuffled = label_colormap(30, 0.3)
    for before in (direct, shuffled):
        before.selection, before.use_selection = 5, False
        after = recolor_labels(before, {5: red})
        expected = before.map(values).copy()
        expected[4] = red
        np.testing.assert_array_equal(after.map(values), expected)
        assert after.selection == 5


def test_a_copy_has_the_same_colours():
    colormap = ours({5: (1, 2, 3, 255), 10**9: (3, 2, 1, 255)})
    values = np.array([0, 1, 5, 10**9], "u4")
    colormap.map(values)
    twin = copy.deepcopy(colormap)
    np.testing.assert_array_equal(twin.map(values), colormap.map(values))
