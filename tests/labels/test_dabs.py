"""Dabs of a large brush: what one adds to another, against every voxel of both."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_ngff.labels import dabs, edits, shapes
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.level_grid import LevelGrid
from napari_ngff.labels.shapes import Stroke
from painting import pyramid


@pytest.fixture(autouse=True)
def _every_brush_is_large(monkeypatch):
    for module in (dabs, edits, shapes):
        monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(dabs, "BAND", 5)


def every_voxel(stroke, grid, box, touch):
    """Cover a box by the definition: dab for dab, voxel by voxel."""
    squares = []
    for axis, span in enumerate(box):
        low, high = grid.block_bounds(axis, span, touch)
        at = stroke.dab_centres()[:, axis, None]
        away = np.maximum(np.maximum(low - at, at - high), 0)
        shape = [len(at)] + [1] * len(box)
        shape[axis + 1] = -1
        squares.append(((away * stroke.weights[axis]) ** 2).reshape(shape))
    total = sum(squares)
    return (total <= stroke.radius**2).any(axis=0)


def whole(cover, box):
    return np.broadcast_to(cover, [b - a for a, b in box])


GRIDS = [
    LevelGrid((61, 83), (61, 83)),
    LevelGrid((61, 83), (21, 40)),
    LevelGrid((9, 30, 42), (9, 30, 42)),
    LevelGrid((9, 30, 42), (4, 15, 13)),
]


@st.composite
def pairs(draw):
    grid = draw(st.sampled_from(GRIDS))
    full = grid.full
    place = st.tuples(*(st.integers(-5, n + 5) for n in full))
    step = st.tuples(*(st.integers(-4, 4) for _ in full))
    weights = draw(st.sampled_from([(1.0,) * len(full), (2.5, 1.0, 1.3)[: len(full)]]))
    radius = draw(st.integers(0, 60)) + 0.5
    first = draw(place)
    second = tuple(a + b for a, b in zip(first, draw(step), strict=True))
    corners = [sorted(draw(st.tuples(*2 * [st.integers(0, n)]))) for n in grid.sizes]
    box = tuple((a, max(b, a + 1)) for a, b in corners)
    box = tuple((min(a, n - 1), min(b, n)) for (a, b), n in zip(box, grid.sizes))  # noqa: B905
    made = [Stroke((at, at), (0,), radius, weights) for at in (first, second)]
    return grid, box, draw(st.booleans()), *made


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(pairs())
def test_nothing_new_lies_outside_of_the_crescent(case):
    grid, box, touch, first, second = case
    new = every_voxel(second, grid, box, touch) & ~every_voxel(first, grid, box, touch)
    parts = second.boxes_beyond(first, grid, box, touch)
    assert sum(math.prod(b - a for a, b in part) for part in parts) <= new.size
    for part in parts:
        assert all(
            a <= low < high <= b for (low, high), (a, b) in zip(part, box, strict=True)
        )
        index = tuple(
            slice(low - a, high - a)
            for (low, high), (a, _) in zip(part, box, strict=True)
        )
        new[index] = False
    assert not new.any()


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(pairs())
def test_a_way_of_dabs_is_each_dab_drawn(case):
    grid, box, touch, first, second = case
    way = Stroke((first.points[0], second.points[0]), (3,), first.radius, first.weights)
    np.testing.assert_array_equal(
        whole(way.covered_voxels(grid, box, touch), box),
        every_voxel(way, grid, box, touch),
    )


@pytest.mark.parametrize("source", [None, 3])
@pytest.mark.parametrize("touch", [True, False])
def test_steps_of_a_large_brush_are_as_if_each_were_drawn_whole(source, touch):
    random = np.random.default_rng(3)
    pixels = np.kron(random.integers(0, 4, (12, 12)), np.ones((11, 11), int))
    levels = pyramid(pixels.astype("u2"), [(66, 66), (33, 44)], (32, 40))
    ours = Canvas(levels)
    at = np.array([60.0, -20.0])
    expected = [level.pixels.copy() for level in levels]
    for number in range(25):
        step = random.uniform(-2, 9, 2)
        shape = Stroke((tuple(at), tuple(at + step)), (number % 2,), 38.5, (1.0, 1.0))
        edit = Edit(shape, (0, 1), (), 9 - number // 9, source, touch)
        at = at + step
        ours.add_edit(edit)
        for level, values in zip(ours.levels, expected, strict=True):
            box = tuple((0, n) for n in level.shape)
            shown = np.zeros(level.shape, "u2")
            ours.overlay_edits(level.number, box, shown)
            mask = every_voxel(shape, level.grid, box, touch)
            mask &= edit.replaced_mask(values)
            values[mask] = edit.label
    for level, values in zip(ours.levels, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(level), values)


def test_a_step_of_a_large_brush_looks_at_a_crescent_only(monkeypatch):
    monkeypatch.undo()
    grid = LevelGrid((4096, 4096), (4096, 4096))
    first, second = (
        Stroke(((2048.0, x), (2048.0, x)), (0,), 1000.5, (1.0, 1.0)) for x in (900, 903)
    )
    box = ((1536, 2560), (1536, 2560))
    parts = second.boxes_beyond(first, grid, box, True)
    voxels = sum(math.prod(b - a for a, b in part) for part in parts)
    assert 0 < voxels < 1024 * 1024 / 10
    assert first.boxes_beyond(first, grid, ((2000, 2100), (800, 900)), True) == []
