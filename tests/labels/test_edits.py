from __future__ import annotations

import contextlib
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from napari.layers import Labels
from napari.layers.labels._labels_utils import interpolate_coordinates
from PIL import Image, ImageDraw

from napari_ngff.labels import shapes
from napari_ngff.labels.edits import (
    Edit,
    EditLog,
    LabelSet,
    dump_edit,
    join_edits,
    load_edit,
)
from napari_ngff.labels.level_grid import LevelGrid
from napari_ngff.labels.runs import mask_runs, point_runs
from napari_ngff.labels.shapes import (
    Everywhere,
    Mask,
    Polygon,
    Stroke,
    is_large,
    polygon_runs,
)
from painting import holders, sampled, samples, touched

SIZES = st.integers(1, 40).flatmap(
    lambda full: st.tuples(st.just(full), st.integers(1, full))
)


@given(SIZES)
def test_each_voxel_of_level_0_belongs_to_one_block(sizes):
    full, size = sizes
    grid = LevelGrid((full,), (size,))
    index = np.arange(full)
    held = grid.holder_index(0, index)
    np.testing.assert_array_equal(held, holders(full, size))
    assert sorted(set(held.tolist())) == list(range(size))
    coarse = np.arange(size)
    first = grid.block_start(0, np.arange(size + 1))
    assert (first[0], first[-1]) == (0, full)
    np.testing.assert_array_equal(np.repeat(coarse, np.diff(first)), held)
    sample = grid.block_sample(0, coarse)
    np.testing.assert_array_equal(sample, samples(full, size))
    np.testing.assert_array_equal(grid.holder_index(0, sample), coarse)


def napari_polygon(points, shape):
    layer = Labels(np.zeros(shape, "u1"))
    layer.paint_polygon(points, 1)
    return layer.data.astype(bool)


CORNERS = st.lists(
    st.tuples(st.integers(-15, 70), st.integers(-15, 90)), min_size=3, max_size=9
)


@settings(deadline=None, max_examples=80)
@given(CORNERS, st.integers(3, 25))
def test_polygons_are_napari_s_at_any_border_of_chunks(points, step):
    shape = 57, 71
    polygon = Polygon(tuple(points), shape)
    grid = LevelGrid(shape, shape)
    ours = np.zeros(shape, bool)
    for y in range(0, shape[0], step):
        for x in range(0, shape[1], step):
            box = (y, min(y + step, 57)), (x, min(x + step, 71))
            ours[tuple(slice(*s) for s in box)] = polygon.covered_voxels(
                grid, box, True
            )
    np.testing.assert_array_equal(ours, napari_polygon(points, shape))


@contextlib.contextmanager
def limits(**values):
    """Other limits of the polygons for a while."""
    before = {name: getattr(shapes, name) for name in values}
    try:
        for name, value in values.items():
            setattr(shapes, name, value)
        polygon_runs.cache_clear()
        is_large.cache_clear()
        yield
    finally:
        for name, value in before.items():
            setattr(shapes, name, value)
        polygon_runs.cache_clear()
        is_large.cache_clear()


@settings(deadline=None, max_examples=60)
@given(CORNERS)
def test_polygons_in_bands_are_the_same(points):
    whole = polygon_runs(tuple(points), (57, 71))
    with limits(BAND=100):
        np.testing.assert_array_equal(polygon_runs(tuple(points), (57, 71)), whole)


@settings(deadline=None, max_examples=100)
@given(CORNERS, st.integers(3, 25))
def test_huge_polygons_are_napari_s_at_level_0(points, step):
    shape = 57, 71
    polygon = Polygon(tuple(points), shape)
    grid = LevelGrid(shape, shape)
    ours = np.zeros(shape, bool)
    with limits(EXACT=0, BAND=300):
        for y in range(0, shape[0], step):
            box = (y, min(y + step, 57)), (0, 71)
            ours[y : y + step] = polygon.covered_voxels(grid, box, True)
    np.testing.assert_array_equal(ours, napari_polygon(points, shape))


@settings(deadline=None, max_examples=100)
@given(CORNERS)
def test_huge_polygons_are_off_at_the_outline_alone_at_coarser_levels(points):
    ours = np.zeros((57, 71), bool)
    with limits(EXACT=0):
        for y, start, stop in polygon_runs(tuple(points), (57, 71)):
            ours[y, start:stop] = True
    theirs = napari_polygon(points, (57, 71))
    outline = np.zeros((57 + 8, 71 + 8), bool)
    closed = [*points, points[0]]
    for a, b in itertools.pairwise(closed):
        line = np.linspace(a, b, 200)
        for y, x in np.round(line).astype(int):
            if -2 <= y <= 58 and -2 <= x <= 72:
                outline[y + 4 - 1 : y + 4 + 2, x + 4 - 1 : x + 4 + 2] = True
    assert not ((ours != theirs) & ~outline[4:-4, 4:-4]).any()


def test_a_polygon_of_a_whole_slide_is_exact_where_it_is_looked_at():
    # As wide as napari's picture would be, but few rows of it.
    points = ((10, 20), (99_950, 99_000), (70_003, 7))
    frame = (100_000, 100_000)
    assert is_large(points, frame)
    box = (60_000, 60_040), (0, 100_000)
    ours = Polygon(points, frame).covered_voxels(LevelGrid(frame, frame), box, True)
    low = np.array([60_000, 7])
    picture = Image.new("L", (100_000 - 7, 40), 0)
    moved = [(x - low[1], y - low[0]) for y, x in points]
    ImageDraw.Draw(picture).polygon(moved, outline=1, fill=1)
    np.testing.assert_array_equal(ours[:, 7:], np.asarray(picture, bool))


@given(
    st.tuples(*[st.floats(-50, 50, width=32)] * 4),
    st.integers(1, 40),
)
def test_dabs_lie_where_napari_puts_them(ends, size):
    start, stop = ends[:2], ends[2:]
    theirs = np.round(interpolate_coordinates(start, stop, size)).astype(int)
    steps = round(max(abs(np.subtract(stop, start))) / size * 4)
    ours = Stroke((start, stop), (steps,), 3.5, (1.0, 1.0)).dab_centres()
    np.testing.assert_array_equal(ours, theirs)


def test_strokes_that_follow_each_other_are_joined():
    def edit(a, b, **other):
        shape = Stroke((a, b), (3,), 2.5, (1.0, 1.0))
        return Edit(shape, (0, 1), (), **{"label": 1, **other})

    a, b, c = (0.0, 0.0), (0.0, 9.0), (7.0, 9.0)
    (joined,) = join_edits([edit(a, b), edit(b, c)])
    separate = np.concatenate(
        [edit(a, b).shape.dab_centres(), edit(b, c).shape.dab_centres()]
    )
    np.testing.assert_array_equal(joined.shape.dab_centres(), separate)
    assert len(join_edits([edit(a, b), edit(c, a)])) == 2
    assert len(join_edits([edit(a, b), edit(b, c, label=2)])) == 2
    assert len(join_edits([edit(a, b), edit(b, c, source=2)])) == 2


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 30)), min_size=1, max_size=60
    ),
    st.integers(1, 21),
    st.integers(1, 31),
    st.booleans(),
)
def test_runs_cover_what_the_plain_rule_says(points, height, width, touch):
    full, size = (21, 31), (height, width)
    mask = np.zeros(full, bool)
    mask[tuple(np.array(points).T)] = True
    runs = point_runs(np.array(points))
    np.testing.assert_array_equal(runs, mask_runs(mask, (0, 0)))
    ours = np.zeros(size, bool)
    box = tuple((0, n) for n in size)
    ours[...] = Mask(runs).covered_voxels(LevelGrid(full, size), box, touch)
    np.testing.assert_array_equal(ours, (touched if touch else sampled)(mask, size))


@pytest.mark.parametrize(
    "shape",
    [
        Stroke(((0.1, 2.0), (3.0, 1 / 3)), (4,), 2.5, (1.0, 2.5)),
        Polygon(((0, 0), (3, 9), (-4, 5)), (20, 30)),
        Mask(np.array([[0, 2, 9], [1, 3, 4]])),
        Everywhere((20, 30)),
    ],
)
def test_edits_survive_json(shape):
    edit = Edit(shape, (1, 2), ((0, 5),), 7, 3, False)
    assert load_edit(json.loads(json.dumps(dump_edit(edit)))) == edit


LABELS = st.sets(st.integers(0, 9) | st.sampled_from([1 << 31, 1 << 40]), max_size=9)


@given(LABELS, LABELS, LABELS, st.sampled_from(["u4", "i8", "u8"]))
def test_spared_labels_are_a_set_that_survives_json(first, second, there, dtype):
    largest = np.iinfo(dtype).max  # also of those that are no signed integers
    first, there = ({*some, largest} for some in (first, there))
    values = np.array([min(x, largest) for x in there], dtype)
    packed = [LabelSet.of_labels(some) for some in (first, first, second)]
    np.testing.assert_array_equal(
        packed[0].find_in(values), [int(x) in first for x in values]
    )
    edits = [Edit(Everywhere((9,)), (0,), (), 7, spared=spared) for spared in packed]
    before, loaded = None, []
    for edit, last in zip(edits, [None, *edits], strict=False):
        before = load_edit(json.loads(json.dumps(dump_edit(edit, last))), before)
        loaded.append(before)
    assert loaded == edits
    older = dump_edit(edits[2]) | {"spared": sorted(second)}
    assert load_edit(older) == edits[2]


def test_something_else_is_no_edit():
    with pytest.raises((ValueError, KeyError, TypeError)):
        load_edit({"shape": {"kind": "blob"}, "axes": [0, 1], "fixed": []})


def test_the_log_finds_edits_by_place():
    log = EditLog(2)
    for i in range(600):
        points = ((float(i), 0.0), (float(i), 3.0))
        log.add_edit(Edit(Stroke(points, (1,), 0.5, (1.0, 1.0)), (0, 1), (), 1))
    assert log.edits_touching(((10, 13), (0, 2))) == [10, 11, 12]
    assert log.edits_touching(((10, 13), (0, 2)), 11) == [11, 12]
    assert log.edits_touching(((10, 13), (5, 9))) == []
