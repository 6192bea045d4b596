"""A save keeps the rule by which others have made the coarser levels."""

import pickle

import numpy as np
import pytest

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.level_rules import find_rules
from napari_ngff.labels.shapes import Mask
from napari_ngff.store.pyramids.level_reduction import AxisSteps, LevelReduction
from saving import levels_of, open_writer, read_levels, write_levels

SHAPE = (203, 310)


def last(pixels):
    """The last voxel of each block, as ngio takes."""
    return pixels[1::2, 1::2]


def mixed(pixels):
    return pixels[1::2, ::2][: pixels.shape[0] // 2, : pixels.shape[1] // 2]


def mode(pixels):
    shape = tuple(-(-n // 2) for n in pixels.shape)
    return levels_of(pixels, [shape], "mode")[1]


def first(pixels):
    return pixels[::2, ::2]


def largest(pixels):
    """A rule that is none of ours."""
    a = pixels[: pixels.shape[0] // 2 * 2, : pixels.shape[1] // 2 * 2]
    return a.reshape(a.shape[0] // 2, 2, a.shape[1] // 2, 2).max((1, 3))


RULES = {"last": last, "mixed": mixed, "mode": mode, "first": first}


def pyramid(rule, pixels):
    levels = [pixels]
    for _ in range(2):
        levels.append(np.ascontiguousarray(rule(levels[-1])))
    return levels


@pytest.fixture
def pixels():
    """Labels as nuclei are: some of any size on an empty ground."""
    rng = np.random.default_rng(4)
    out = np.zeros(SHAPE, "u2")
    for number in range(1, 90):
        y, x = rng.integers(0, SHAPE[0] - 20), rng.integers(0, SHAPE[1] - 20)
        out[y : y + rng.integers(3, 20), x : x + rng.integers(3, 20)] = number
    return out


def paint(canvas: Canvas, corner, size, label):
    canvas.begin_step()
    canvas.add_edit(
        Edit(Mask(mask_runs(np.ones(size, bool), corner)), (0, 1), (), label)
    )
    canvas.close_step()


@pytest.mark.parametrize("stated", ["nearest", "mode"])
@pytest.mark.parametrize("name", RULES)
def test_the_rule_of_the_file_is_kept(tmp_path, pixels, name, stated):
    write_levels(tmp_path / "a", pyramid(RULES[name], pixels), (64, 64))
    writer = open_writer(tmp_path / "a", 3, stated)
    want = pixels.copy()
    for corner, size in (
        ((100, 101), (1, 1)),
        ((33, 40), (17, 23)),
        ((202, 0), (1, 9)),
    ):
        paint(writer.canvas, corner, size, 999)
        want[tuple(slice(a, a + n) for a, n in zip(corner, size, strict=True))] = 999
        assert writer.save().refused == ()
        for got, level in zip(
            read_levels(tmp_path / "a", 3), pyramid(RULES[name], want), strict=True
        ):
            np.testing.assert_array_equal(got, level)
    for _ in range(3):
        writer.canvas.undo()
    writer.save()
    for got, level in zip(
        read_levels(tmp_path / "a", 3), pyramid(RULES[name], pixels), strict=True
    ):
        np.testing.assert_array_equal(got, level)


@pytest.mark.parametrize("stated", ["nearest", "mode"])
def test_where_no_rule_fits_only_what_is_touched_changes(tmp_path, pixels, stated):
    before = pyramid(largest, pixels)
    write_levels(tmp_path / "a", before, (64, 64))
    writer = open_writer(tmp_path / "a", 3, stated)
    paint(writer.canvas, (100, 100), (8, 8), 999)
    writer.save()
    got = read_levels(tmp_path / "a", 3)
    for number in (1, 2):
        f = 2**number
        touched = np.zeros(got[number].shape, bool)
        touched[100 // f : -(-108 // f), 100 // f : -(-108 // f)] = True
        np.testing.assert_array_equal(got[number][~touched], before[number][~touched])
        assert (got[number][touched] == 999).mean() > 0.5
    paint(writer.canvas, (104, 104), (40, 40), 77)
    writer.save()
    for _ in range(2):
        writer.canvas.undo()
    writer.save()
    for level, want in zip(read_levels(tmp_path / "a", 3), before, strict=True):
        np.testing.assert_array_equal(level, want)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("stated", ["nearest", "mode"])
@pytest.mark.parametrize("name", [*RULES, "largest"])
def test_a_rule_that_fits_by_chance_changes_nothing_elsewhere(
    tmp_path, name, stated, turned
):
    # Around the edit labels differ along one axis only, so several rules fit there.
    pixels = np.zeros((256, 256), "u2") + np.arange(256, dtype="u2") // 7
    pixels[200:] += np.arange(56, dtype="u2")[:, None] // 3
    pixels = pixels.T.copy() if turned else pixels
    before = pyramid(RULES.get(name, largest), pixels)
    write_levels(tmp_path / "a", before, (256, 256))
    writer = open_writer(tmp_path / "a", 3, stated)
    paint(writer.canvas, (120, 124), (6, 5), 999)
    assert writer.save().refused == ()
    for number, got in enumerate(read_levels(tmp_path / "a", 3)):
        below = np.zeros(got.shape, bool)
        f = 2**number
        below[120 // f : -(-126 // f), 124 // f : -(-129 // f)] = True
        np.testing.assert_array_equal(got[~below], before[number][~below])
        assert (got[below] == 999).any()
    writer.canvas.undo()
    writer.save()
    for got, level in zip(read_levels(tmp_path / "a", 3), before, strict=True):
        np.testing.assert_array_equal(got, level)


def test_one_stroke_changes_one_voxel_of_what_ngio_writes(tmp_path, pixels):
    ngio = pytest.importorskip("ngio")
    image = ngio.create_ome_zarr_from_array(
        tmp_path / "a.zarr", np.zeros(SHAPE, "u2"), pixelsize=0.5, levels=3,
        chunks=(64, 64),
    )  # fmt: skip
    label = image.derive_label("nuclei")
    label.set_array(pixels)
    label.consolidate()
    place = tmp_path / "a.zarr" / "labels" / "nuclei"
    before = read_levels(place, 3)
    writer = open_writer(place, 3)
    paint(writer.canvas, (101, 101), (1, 1), 999)
    writer.save()
    changed = [
        (one != other).sum()
        for one, other in zip(read_levels(place, 3), before, strict=True)
    ]
    assert changed == [1, 1, 0]


@pytest.mark.parametrize(("fine", "coarse"), [(9, 5), (9, 4), (8, 4), (7, 2), (5, 3)])
def test_an_offset_is_the_same_in_parts_as_in_whole(fine, coarse):
    pixels = np.arange(fine)
    factor = AxisSteps.between_sizes(fine, coarse).factor
    for offset in range(factor):
        rule = LevelReduction((AxisSteps(fine, coarse, factor, offset),))
        (whole,) = rule.source_box(((0, coarse),))
        want = rule.reduce(pixels[slice(*whole)], ((0, coarse),))
        taken = np.minimum(np.arange(coarse) * factor + offset, fine - 1)
        np.testing.assert_array_equal(want, taken)
        for start in range(fine):
            for stop in range(start + 1, fine + 1):
                found = rule.target_box(((start, stop),))
                inside = np.flatnonzero((taken >= start) & (taken < stop))
                got = [] if found is None else list(range(*found[0]))
                assert got == inside.tolist()


def test_empty_labels_keep_what_is_stated():
    class Empty:
        def __init__(self, shape):
            self.shape = shape

        def read(self, box):
            return np.zeros([b - a for a, b in box], "u1")

    stated = [LevelReduction.between_shapes((64, 64), (32, 32), "mode")]
    levels = [Empty((64, 64)), Empty((32, 32))]
    (rule,) = find_rules(levels, stated, [((0, 8), (0, 8))])
    assert rule == stated[0]


def shown(canvas):
    whole = [tuple((0, n) for n in level.shape) for level in canvas.levels]
    return [canvas.read(number, box) for number, box in enumerate(whole)]


@pytest.mark.parametrize("name", [*RULES, "largest"])
def test_what_is_open_shows_the_levels_that_the_file_has(tmp_path, pixels, name):
    rule = RULES.get(name, largest)
    write_levels(tmp_path / "a", pyramid(rule, pixels), (64, 64))
    writer = open_writer(tmp_path / "a", 3)
    canvas = writer.canvas
    before = shown(canvas)

    def in_file():
        return all(
            np.array_equal(a, b)
            for a, b in zip(shown(canvas), read_levels(tmp_path / "a", 3), strict=True)
        )

    paint(canvas, (100, 101), (1, 1), 999)
    paint(canvas, (33, 40), (1, 90), 998)
    assert not in_file()
    assert (shown(canvas)[2] == 998).any()  # thin strokes are seen while they are new
    writer.save()
    assert in_file()
    paint(canvas, (34, 40), (1, 20), 997)
    assert not in_file()
    writer.save()
    assert in_file()
    other = pickle.loads(pickle.dumps(canvas))
    for one, two in zip(shown(canvas), shown(other), strict=True):
        np.testing.assert_array_equal(one, two)
    twin = canvas.copy()
    kept = shown(twin)
    for _ in range(3):
        canvas.undo()
    for one, two in zip(before, shown(canvas), strict=True):
        np.testing.assert_array_equal(one, two)
    for _ in range(3):
        canvas.redo()
    assert in_file()
    canvas.undo()
    writer.save()
    assert in_file()
    paint(canvas, (150, 151), (3, 3), 996)
    writer.save()
    assert in_file()
    for one, two in zip(kept, shown(twin), strict=True):
        np.testing.assert_array_equal(one, two)
