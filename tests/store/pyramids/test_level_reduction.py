"""Parts of coarser levels, made alone, are those of the whole."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_ngff.store.pyramids.level_reduction import (
    AxisSteps,
    LevelReduction,
    method_named,
)


def whole(pixels, shape, method):
    reduction = LevelReduction.between_shapes(pixels.shape, shape, method)
    box = tuple((0, n) for n in shape)
    sources = reduction.source_box(box)
    return reduction.reduce(pixels[tuple(slice(*s) for s in sources)], box)


def counted(pixels, shape):
    """The most frequent id of every block, one at a time."""
    steps = [
        AxisSteps.between_sizes(n, m) for n, m in zip(pixels.shape, shape, strict=True)
    ]
    out = np.empty(shape, pixels.dtype)
    for index in np.ndindex(*shape):
        part = tuple(
            slice(int(s.block_start(i)), int(s.block_stop(i)))
            for s, i in zip(steps, index, strict=True)
        )
        counts = Counter(pixels[part].ravel().tolist())
        most = max(counts.values())
        ids = [v for v, count in counts.items() if count == most]
        out[index] = min([v for v in ids if v != 0], default=0)
    return out


@st.composite
def cases(draw):
    ndim = draw(st.integers(1, 3))
    fine = [draw(st.integers(1, (40, 17, 9)[ndim - 1])) for _ in range(ndim)]
    coarse = tuple(draw(st.integers(1, n)) for n in fine)
    seed = draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    return rng.integers(-1, draw(st.integers(1, 4)), fine, dtype="i4"), coarse


@given(cases())
@settings(deadline=None, max_examples=200)
def test_mode_is_the_most_frequent_id_and_of_several_the_smallest_label(case):
    pixels, shape = case
    np.testing.assert_array_equal(whole(pixels, shape, "mode"), counted(pixels, shape))


@pytest.mark.parametrize("dtype", ["u1", "i4", "u8"])
def test_mode_of_squares_of_all_kinds(dtype):
    ids = np.array([0, np.iinfo(dtype).min, 3, 4, np.iinfo(dtype).max], dtype)
    # Each combination of four ids is a square, in two planes that differ.
    squares = ids[np.indices((5,) * 4).reshape(2, 2, 25, 25)]
    plane = squares.transpose(2, 0, 3, 1).reshape(50, 50)
    stack = np.stack([plane, plane.T])
    expected = counted(stack, (2, 25, 25))
    assert set(np.unique(expected)) == set(ids)
    np.testing.assert_array_equal(whole(stack, (2, 25, 25), "mode"), expected)
    np.testing.assert_array_equal(whole(plane, (25, 25), "mode"), expected[0])


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_a_stroke_in_one_plane_is_in_the_level_of_half_the_planes(data):
    pixels = np.zeros((8, 16, 16), "u2")
    plane = data.draw(st.integers(0, 7))
    pixels[plane, 4:12, 2:10] = data.draw(st.integers(1, 65535))
    shape = data.draw(st.sampled_from([(4, 8, 8), (4, 16, 16), (4, 16, 8)]))
    level = whole(pixels, shape, "mode")
    assert (level != 0).sum() == (pixels != 0).sum() * np.prod(shape) * 2 / pixels.size


@given(cases(), st.data())
@settings(deadline=None, max_examples=300)
def test_what_depends_on_a_change_is_made_again_exactly(case, data):
    pixels, shape = case
    method = data.draw(st.sampled_from(["nearest", "mode"]))
    level = whole(pixels, shape, method)
    box = []
    for n in pixels.shape:
        start = data.draw(st.integers(0, n - 1))
        box.append((start, data.draw(st.integers(start + 1, n))))
    pixels[tuple(slice(*span) for span in box)] = 7
    reduction = LevelReduction.between_shapes(pixels.shape, shape, method)
    targets = reduction.target_box(tuple(box))
    if targets is not None:
        sources = reduction.source_box(targets)
        block = pixels[tuple(slice(*span) for span in sources)]
        part = reduction.reduce(block, targets)
        level[tuple(slice(*span) for span in targets)] = part
    np.testing.assert_array_equal(level, whole(pixels, shape, method))


@pytest.mark.parametrize("n", [1, 2, 7, 8, 61])
@pytest.mark.parametrize("factor", [1, 2, 3, 4])
def test_nearest_is_the_stride(n, factor):
    pixels = np.arange(n)
    strided = pixels[::factor]
    reduction = LevelReduction.between_shapes((n,), strided.shape, ratios=[factor])
    (sources,) = reduction.source_box(((0, len(strided)),))
    block = pixels[slice(*sources)]
    assert reduction.reduce(block, ((0, len(strided)),)).tolist() == strided.tolist()


def test_a_level_that_was_cut_leaves_the_last_voxel_over():
    assert whole(np.array([1, 2, 2, 3, 9]), (2,), "mode").tolist() == [1, 2]


def test_the_size_of_voxels_settles_the_factor():
    assert AxisSteps.between_sizes(7, 3).factor == 2
    assert AxisSteps.between_sizes(7, 3, 3.0).factor == 3
    assert AxisSteps.between_sizes(10, 7).factor is None


def test_a_growing_level_is_refused():
    with pytest.raises(ValueError, match="cannot follow"):
        LevelReduction.between_shapes((4, 4), (4, 5))


@pytest.mark.parametrize(
    ("name", "method"),
    [("mode", "mode"), ("Mode", "mode"), (None, "nearest"), ("gaussian", "nearest")],
)
def test_type_of_the_multiscale_decides(name, method):
    assert method_named(name) == method


@pytest.mark.parametrize(
    ("method", "expected"), [("mean", [2, 8]), ("nearest", [1, 8]), ("mode", [1, 8])]
)
def test_a_known_factor_counts_also_where_few_voxels_are_left(method, expected):
    pixels = np.array([1, 1, 4, 8], np.uint8)
    reduction = LevelReduction.between_shapes((4,), (2,), method, (3,))
    assert reduction.factors == (3,)
    np.testing.assert_array_equal(reduction.reduce(pixels, ((0, 2),)), expected)
