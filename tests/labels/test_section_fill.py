"""The shape of an object between its sections, against a plain reference."""

from __future__ import annotations

import numpy as np
import pytest

from napari_ngff.labels import section_fill
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.runs import runs_mask
from napari_ngff.labels.section_fill import fill_between, find_in_sections
from painting import between_sections, pyramid

SHAPE = 14, 40, 50


def go_on(done, total):
    return 0 < done <= total


def stack_of(sections, shape=SHAPE):
    out = np.zeros(shape, bool)
    box = tuple((0, n) for n in shape[1:])
    for index, runs in sections.items():
        out[index] = runs_mask(runs, box)
    return out


def found_in(stack, chunks=(4, 16, 16), report=go_on):
    level = Canvas(pyramid(stack.astype("u1"), [], chunks)).levels[0]
    box = tuple((0, n) for n in stack.shape)
    return find_in_sections(level, box, (0, 1, 2), 1, report)


def disc(stack, index, y, x, radius, weights=(1, 1)):
    rows, columns = np.ogrid[: stack.shape[1], : stack.shape[2]]
    away = ((rows - y) * weights[0]) ** 2 + ((columns - x) * weights[1]) ** 2
    stack[index] |= away <= radius**2


def blobs(seed, weights):
    """Sections with discs, some at the border, at gaps of random widths."""
    random = np.random.default_rng(seed)
    stack = np.zeros(SHAPE, bool)
    count = int(random.integers(2, 6))
    for index in random.choice(len(stack), count, replace=False):
        for _ in range(int(random.integers(1, 4))):  # parts come and go
            y, x, radius = random.uniform((-4, -4, 2), (44, 54, 18))
            disc(stack, index, y, x, radius, weights)
    return stack


@pytest.mark.parametrize("weights", [(1, 1), (0.5, 3.0), (2.5, 0.4)])
@pytest.mark.parametrize("seed", range(12))
def test_gaps_are_filled_as_by_distances_in_whole_sections(seed, weights):
    stack = blobs(seed, weights)
    sections = found_in(stack)
    np.testing.assert_array_equal(stack_of(sections), stack)
    filled = fill_between(sections, SHAPE[1:], weights, go_on)
    assert not set(filled) & set(sections)
    between = between_sections(stack, weights) & ~stack
    np.testing.assert_array_equal(stack_of(filled), between)


def test_a_cone_gets_its_radius_in_each_section():
    stack = np.zeros(SHAPE, bool)
    disc(stack, 1, 20, 25, 4)
    disc(stack, 11, 20, 25, 14)
    filled = stack_of(fill_between(found_in(stack), SHAPE[1:], (1, 1), go_on))
    for index in range(2, 11):
        area = filled[index].sum()
        assert np.sqrt(area / np.pi) == pytest.approx(3 + index, abs=0.6)


def test_a_section_that_is_all_of_the_object_shrinks_to_the_next():
    stack = np.zeros(SHAPE, bool)
    stack[2] = True
    disc(stack, 12, 20, 25, 5)
    filled = stack_of(fill_between(found_in(stack), SHAPE[1:], (1, 1), go_on))
    areas = filled[3:12].sum(axis=(1, 2))
    assert (np.diff(areas) <= 0).all()
    assert areas[-1] < 500
    assert (filled[3:12] | ~stack[12]).all()


def test_nothing_is_filled_without_a_gap_and_beyond_the_ends():
    stack = np.zeros(SHAPE, bool)
    assert found_in(stack) == {}
    for index in (5, 6, 7):
        disc(stack, index, 20, 20, 6)
        assert fill_between(found_in(stack), SHAPE[1:], (1, 1), go_on) == {}


def test_a_large_rectangle_is_refused_with_its_size(monkeypatch):
    stack = np.zeros((4, 1500, 2200), bool)
    stack[0, 5, 5] = stack[0, 1400, 2100] = stack[3, 7, 7] = True
    monkeypatch.setattr(section_fill, "LARGEST", 1 << 20)
    with pytest.raises(ValueError, match="has 2,933,004 pixels"):
        fill_between(found_in(stack, (2, 512, 512)), stack.shape[1:], (1, 1), go_on)


def test_who_reports_may_end_the_search_and_the_shapes():
    reports = []

    def stop_at_third(done, total):
        reports.append(done)
        return len(reports) < 3

    stack = np.zeros(SHAPE, bool)
    for index in range(0, 14, 2):
        disc(stack, index, 20, 20, 6)
    for search in (
        lambda: found_in(stack, report=stop_at_third),
        lambda: fill_between(found_in(stack), SHAPE[1:], (1, 1), stop_at_third),
    ):
        reports.clear()
        with pytest.raises(InterruptedError):
            search()
        assert reports == [1, 2, 3]
