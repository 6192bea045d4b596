from __future__ import annotations

import copy
import itertools
import threading

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from napari_ngff.labels.canvas import NOTED, Canvas
from napari_ngff.labels.edits import Edit, LabelSet
from napari_ngff.labels.label_objects import flood_region
from napari_ngff.labels.shapes import Everywhere, Mask, Stroke
from painting import Empty, Memory, pyramid
from patience import PATIENCE


def stroke(*points, label=1, radius=2.5, source=None):
    edges = itertools.pairwise(points)
    steps = [round(max(np.abs(np.subtract(*edge)))) for edge in edges]
    shape = Stroke(tuple(points), tuple(steps), radius, (1.0, 1.0))
    return Edit(shape, (0, 1), (), label, source)


def wide(chunk=512):
    shapes = [(-(-100_000 // 2**k),) * 2 for k in range(9)]
    return Canvas([Empty(shape, (chunk, chunk)) for shape in shapes])


def test_painting_reads_nothing():
    levels = pyramid(np.zeros((64, 64), "u2"), [(32, 32)])
    canvas = Canvas(levels)
    canvas.add_edit(stroke((10.0, 10.0), (40.0, 50.0)))
    out = np.zeros((32, 32), "u2")
    canvas.overlay_edits(1, ((0, 32), (0, 32)), out)
    assert out.any()
    assert [level.read_voxels for level in levels] == [0, 0]


def test_a_chunk_that_is_all_painted_is_neither_stored_nor_read():
    levels = pyramid(np.zeros((64, 64), "u2"), [])
    canvas = Canvas(levels)
    canvas.add_edit(Edit(Everywhere((64, 64)), (0, 1), (), 7))
    assert (np.asarray(canvas.levels[0]) == 7).all()
    before = levels[0].read_voxels
    assert (np.asarray(canvas.levels[0]) == 7).all()
    assert levels[0].read_voxels == before
    assert canvas.nbytes == 0


def test_steps_are_undone_whole_and_done_again():
    canvas = Canvas(pyramid(np.zeros((64, 64), "u2"), [(32, 32)]))
    states = [[np.asarray(level) for level in canvas.levels]]
    for label in range(1, 6):
        canvas.begin_step()
        for i in range(4):
            at = 10.0 * label, 8.0 * i + 5
            canvas.add_edit(stroke(at, (at[0], at[1] + 8), label=label))
            canvas.overlay_edits(1, ((0, 32), (0, 32)), np.zeros((32, 32), "u2"))
        assert len(canvas.close_step()) == 1  # joined
        states.append([np.asarray(level) for level in canvas.levels])
    for i in reversed(range(5)):
        canvas.undo()
        for level, state in zip(canvas.levels, states[i], strict=True):
            np.testing.assert_array_equal(np.asarray(level), state)
    assert canvas.undo() == []
    for i in range(1, 6):
        canvas.redo()
        for level, state in zip(canvas.levels, states[i], strict=True):
            np.testing.assert_array_equal(np.asarray(level), state)
    assert canvas.redo() == []


def test_more_steps_than_are_noted_are_undone():
    canvas = Canvas(pyramid(np.zeros((64, 64), "u2"), [], (32, 64)))
    states = []
    for i in range(NOTED + 15):
        states.append(np.asarray(canvas.levels[0]))
        canvas.add_edit(stroke((i * 0.7, 5.0), (60.0 - i * 0.5, 60.0), label=i + 1))
    for state in reversed(states):
        canvas.undo()
        np.testing.assert_array_equal(np.asarray(canvas.levels[0]), state)


def test_what_was_undone_is_gone_after_another_edit():
    canvas = Canvas(pyramid(np.zeros((64, 64), "u2"), []))
    canvas.add_edit(stroke((5.0, 5.0), (5.0, 50.0), label=1))
    canvas.add_edit(stroke((20.0, 5.0), (20.0, 50.0), label=2))
    canvas.undo()
    canvas.add_edit(stroke((40.0, 5.0), (40.0, 50.0), label=3))
    assert canvas.redo() == []
    assert set(np.unique(np.asarray(canvas.levels[0]))) == {0, 1, 3}


@pytest.mark.long
def test_a_thousand_strokes_take_little_memory_and_lose_none():
    canvas = wide()
    random = np.random.default_rng(1)
    starts = random.uniform(1000, 99_000, (1000, 2))
    for number, start in enumerate(starts):
        canvas.begin_step()
        for _ in range(10):
            stop = start + random.uniform(-30, 30, 2)
            canvas.add_edit(
                stroke(tuple(start), tuple(stop), label=number + 1, radius=5.5)
            )
            start = stop
        canvas.close_step()
        at = [int(c) for c in start]
        box = tuple((max(0, c - 400), min(100_000, c + 400)) for c in at)
        canvas.overlay_edits(0, box, np.zeros([b - a for a, b in box], "u2"))
    assert canvas.nbytes <= 64 << 20
    assert len(canvas.edits) == 1000
    values = canvas.levels[0].read_points(np.round(starts).astype(int).T)
    assert np.count_nonzero(values) == 1000


@pytest.mark.parametrize("budget", [0, 10_000])
def test_the_budget_is_kept_and_changes_nothing(budget):
    pixels = np.zeros((200, 200), "u2")
    ours, other = (Canvas([Memory(pixels, (32, 32))], b) for b in (budget, 1 << 30))
    random = np.random.default_rng(2)
    for i in range(15):
        points = [tuple(p) for p in random.uniform(0, 200, (3, 2))]
        for canvas in (ours, other):
            canvas.add_edit(stroke(*points, label=i + 1))
        ours.overlay_edits(0, ((0, 200), (0, 200)), np.zeros((200, 200), "u2"))
        assert ours.nbytes <= max(budget, 32 * 32 * 3 * 2)
    np.testing.assert_array_equal(
        np.asarray(ours.levels[0]), np.asarray(other.levels[0])
    )


@pytest.mark.long
def test_many_threads_read_while_one_paints():
    canvas = Canvas(pyramid(np.zeros((256, 256), "u2"), [(128, 128)], (32, 32)))
    errors, stop = [], threading.Event()

    def read():
        try:
            while not stop.is_set():
                values = np.unique(np.asarray(canvas.levels[0]))
                assert values.max() <= 200
                np.asarray(canvas.levels[1])
        except BaseException as error:  # noqa: BLE001  told by the main thread
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(200):
        canvas.begin_step()
        canvas.add_edit(stroke((i, 5.0), (250.0 - i, 250.0), label=i + 1))
        if i % 3 == 2:
            canvas.undo()
        else:
            canvas.close_step()
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    twin = Canvas(pyramid(np.zeros((256, 256), "u2"), [(128, 128)], (32, 32)))
    for edit in canvas.edits:
        twin.add_edit(edit)
    for level, other in zip(canvas.levels, twin.levels, strict=True):
        np.testing.assert_array_equal(np.asarray(level), np.asarray(other))


class Interrupted(Memory):
    """A store during each read of which somebody paints."""

    paint = None

    def read(self, box):
        if self.paint is not None:
            thread = threading.Thread(target=self.paint)
            thread.start()
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the brush waits for the store"
        return super().read(box)


SHAPES = st.sampled_from([Everywhere((48, 48)), stroke((9.0, 5.0), (30.0, 40.0)).shape])
EDITS = st.builds(
    Edit,
    SHAPES,
    st.just((0, 1)),
    st.just(()),
    st.integers(0, 4),
    source=st.none() | st.integers(0, 4),
    spared=st.sampled_from([(), (1,), (2, 3)]).map(LabelSet.of_labels),
)


@settings(max_examples=40)
@given(st.lists(EDITS, min_size=1, max_size=4), st.lists(EDITS, max_size=4))
@example([Edit(Everywhere((48, 48)), (0, 1), (), 2, 1, False)], [])
def test_nobody_waits_with_a_brush_for_a_store(before, meanwhile):
    labels = np.arange(48 * 48, dtype="u2").reshape(48, 48) % 5
    levels = pyramid(labels, [(24, 24)], (16, 16))
    slow = [Interrupted(level.pixels, level.chunks) for level in levels]
    canvas, strokes = Canvas(slow), iter(meanwhile)

    def paint():
        edit = next(strokes, None)
        if edit is None:
            canvas.begin_step()  # takes the lock as well
        else:
            canvas.add_edit(edit)

    for edit in before:
        canvas.add_edit(edit)
    for level in slow:
        level.paint = paint
    for level in canvas.levels:
        np.asarray(level)
    canvas.rasterise_level(0)
    for level in slow:
        level.paint = None
    twin = Canvas(levels)
    for edit in canvas.edits:
        twin.add_edit(edit)
    for level, other in zip(canvas.levels, twin.levels, strict=True):
        np.testing.assert_array_equal(np.asarray(level), np.asarray(other))


def test_copies_go_their_own_way():
    canvas = Canvas(pyramid(np.zeros((64, 64), "u2"), [(32, 32)]))
    canvas.add_edit(stroke((5.0, 5.0), (5.0, 50.0), label=1))
    twin = copy.deepcopy(canvas)
    level = copy.deepcopy(canvas.levels[1])
    canvas.undo()
    assert not np.asarray(canvas.levels[0]).any()
    assert np.asarray(twin.levels[0]).any()
    assert np.asarray(level).any()
    twin.undo()
    assert not np.asarray(twin.levels[0]).any()


def test_levels_behave_like_arrays():
    pixels = np.arange(40 * 50).reshape(40, 50).astype("u2")
    level = Canvas([Memory(pixels)]).levels[0]
    assert (level.shape, level.ndim, level.size, len(level)) == ((40, 50), 2, 2000, 40)
    np.testing.assert_array_equal(np.asarray(level[3]), pixels[3])
    np.testing.assert_array_equal(np.asarray(level[..., -4]), pixels[..., -4])
    np.testing.assert_array_equal(np.asarray(level[5:9, 2:-3]), pixels[5:9, 2:-3])
    np.testing.assert_array_equal(np.asarray(level[::2, ::3]), pixels[::2, ::3])
    index = np.array([1, -2, 39]), np.array([0, 49, -50])
    np.testing.assert_array_equal(level[index], pixels[index])
    np.testing.assert_array_equal(np.asarray(level.astype("f4")), pixels.astype("f4"))
    assert int(level[3, 4]) == pixels[3, 4]
    with pytest.raises(IndexError):
        level.read_points([[40], [0]])
    with pytest.raises(MemoryError, match="coarser level"):
        np.asarray(wide().levels[0])


def test_a_value_that_does_not_fit_is_refused_until_it_is_widened():
    canvas = Canvas([Memory(np.full((20, 20), 9, "u1"))])
    canvas.add_edit(stroke((5.0, 5.0), (5.0, 9.0), label=200))
    with pytest.raises(OverflowError):
        canvas.add_edit(stroke((5.0, 5.0), (5.0, 9.0), label=300))
    canvas.change_dtype(np.dtype("u2"))
    canvas.add_edit(stroke((15.0, 5.0), (15.0, 9.0), label=300))
    assert set(np.unique(np.asarray(canvas.levels[0]))) == {9, 200, 300}


def test_the_next_label_counts_what_was_painted_and_the_coarsest_level():
    levels = pyramid(np.zeros((64, 64), "u2"), [(32, 32)])
    levels[1].pixels[3, 3] = 17
    canvas = Canvas(levels)
    assert canvas.used.guess_next() == 18
    assert levels[0].read_voxels == 0
    canvas.add_edit(stroke((5.0, 5.0), (5.0, 9.0), label=40))
    assert canvas.used.guess_next() == 41


def test_flood_stays_in_its_region_and_in_its_budget():
    pixels = np.zeros((100, 100), "u2")
    pixels[20:80, 20:80] = 1
    pixels[20:80, 50] = 2
    level = Canvas([Memory(pixels)]).levels[0]
    runs = flood_region(level, (30, 30), (0, 1))
    mask = Mask(runs).covered_voxels(level.grid, ((0, 100), (0, 100)), True)
    expected = np.zeros((100, 100), bool)
    expected[20:80, 20:50] = True
    np.testing.assert_array_equal(mask, expected)
    assert flood_region(level, (30, 30), (0, 1), budget=1000) is None
    assert flood_region(wide().levels[0], (0, 0), (0, 1)) is None


def test_what_a_worker_rasterised_is_taken_over():
    below = np.full((64, 64), 3, "u2")
    edits = [
        stroke((9.0 * n, 5.0), (9.0 * n, 50.0), label=n, source=n % 2 * 3 or None)
        for n in range(1, 7)
    ]
    plain, canvas = (Canvas(pyramid(below, [(32, 32)])) for _ in range(2))
    plain.add_edits(edits)
    drawn = canvas.copy_with(edits)
    drawn.rasterise_level(0)
    canvas.add_edits(edits, drawn)
    assert canvas.nbytes > 0 == drawn.nbytes
    canvas.add_edit(stroke((1.0, 1.0), (60.0, 60.0), label=9))
    plain.add_edit(stroke((1.0, 1.0), (60.0, 60.0), label=9))
    drawn.rasterise_level(1)
    canvas.take_rasterised(drawn)  # later: it lacks the last edit
    for _ in range(4):
        for one, other in zip(canvas.levels, plain.levels, strict=True):
            assert (np.asarray(one) == np.asarray(other)).all()
        assert canvas.undo() == plain.undo()


def test_what_a_worker_rasterised_of_other_edits_is_left():
    canvas = Canvas(pyramid(np.zeros((64, 64), "u2"), []))
    edits = [stroke((9.0, 5.0), (9.0, 50.0), label=4)]
    drawn = canvas.copy_with(edits)
    drawn.rasterise_level(0)
    canvas.add_edits(edits)
    canvas.undo()
    canvas.add_edit(stroke((30.0, 5.0), (30.0, 50.0), label=5))
    canvas.take_rasterised(drawn)
    assert set(np.unique(canvas.levels[0])) == {0, 5}
    with pytest.raises(OverflowError):
        canvas.copy_with([stroke((9.0, 5.0), (9.0, 50.0), label=70_000)])
