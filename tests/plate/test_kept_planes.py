"""Planes of levels too large to be kept whole: parts of them come in, and stay."""

from __future__ import annotations

import itertools
import shutil
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaics import mosaic, whole
from napari_ngff.plate import kept_planes
from napari_ngff.store.arrays.region_read import cache as chunks
from plates import pixels, write_array, write_image, write_plate

GRID, SHAPE = (4, 5), (2, 12, 12)


@pytest.fixture
def small_planes(monkeypatch):
    """Let nothing but the coarsest levels be small enough to be kept whole."""
    monkeypatch.setattr(kept_planes, "PLANE_BYTES", 4096)
    kept_planes.kept.clear()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A plate with a gap, fields that overlap, a well that is cut and one broken."""
    root = write_plate(
        tmp_path_factory.mktemp("planes") / "p", grid=GRID, fields=3, shape=SHAPE
    )
    for well, corner in ("A/2", (5, 3)), ("B/3", (7, 9)):
        shutil.rmtree(root / well / "1")
        write_image(root / well / "1", pixels(61, SHAPE, "u1"), 3, corner=corner)
    shutil.rmtree(root / "C/2/0")
    write_image(root / "C/2/0", pixels(62, (2, 40, 12)), 3, corner=(0, 0))
    shutil.rmtree(root / "A/3")
    (root / "B/2/2/zarr.json").write_text("{")
    return root


class Asked(list):
    """What was to be drawn elsewhere, to draw it when a test says so."""

    def defer(self, level, box):
        self.append((level, box))
        return True

    def draw(self, wells=1000):
        """Draw at most so many wells of what was asked for last."""
        left = itertools.chain([False] * wells, itertools.repeat(True))
        level, box = self[-1]
        return level.draw_box(box, lambda: next(left))


def in_a_worker(function, *arguments):
    found = []
    worker = threading.Thread(target=lambda: found.append(function(*arguments)))
    worker.start()
    worker.join()
    return found[0]


def boxes(shape):
    """Rectangles of a level, of one plane or more."""
    spans = [
        st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True) for n in shape
    ]
    return st.tuples(*(span.map(lambda two: tuple(sorted(two))) for span in spans))


def area(box):
    return tuple(slice(*span) for span in box)


STEPS = st.lists(
    st.tuples(boxes((2, 96, 120)), st.integers(0, 14), st.booleans()),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def level(root):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_planes, "PLANE_BYTES", 4096)
        found = mosaic(root, reported=[]).pyramid.levels[0]
        assert found.shape == (2, 96, 120)
        yield found


@settings(deadline=None, max_examples=150)
@given(steps=STEPS)
def test_parts_equal_what_is_read_at_once(level, steps):
    kept_planes.kept.clear()
    level.tiles.defer = None
    picture = whole(level)
    asked = Asked()
    level.tiles.defer = asked.defer
    for box, wells, finish in steps:
        asked.clear()
        expected = picture[area(box)]
        shown = level.read(box)
        # What is missing is 0, and nothing else is wrong.
        np.testing.assert_array_equal(shown[shown != 0], expected[shown != 0])
        if asked:
            asked.draw(wells)
            more = level.read(box)
            assert np.all((more != 0) >= (shown != 0))
        np.testing.assert_array_equal(in_a_worker(level.read, box), expected)
        if asked and finish:
            assert asked.draw()
            asked.clear()
            np.testing.assert_array_equal(level.read(box), expected)
            assert not asked


def test_what_was_seen_stays_while_the_view_moves(small_planes, tmp_path, reads):
    joined = mosaic(write_plate(tmp_path / "p", grid=(4, 6), shape=(1, 16, 16)))
    level, asked = joined.pyramid.levels[0], Asked()
    picture = whole(level)
    joined.tiles.defer = asked.defer
    level.read(((0, 1), (0, 64), (0, 96)))
    assert asked.draw()
    shown = level.read(((0, 1), (20, 84), (40, 136)))
    seen = picture[:, 20:64, 40:96]
    np.testing.assert_array_equal(shown[:, :44, :56], seen)
    assert not shown[:, 44:].any()
    assert not shown[:, :, 56:].any()
    chunks.clear()
    reads.clear()
    assert asked.draw()
    wells = {key[:3] for key in reads}
    assert wells == {"A/4", "A/5", "B/4", "B/5", "C/2", "C/3", "C/4", "C/5"}
    shown = level.read(((0, 1), (20, 84), (40, 136)))
    np.testing.assert_array_equal(shown, picture[:, 20:84, 40:136])


def test_one_plane_says_nothing_of_another(small_planes, tmp_path):
    joined = mosaic(write_plate(tmp_path / "p", grid=(3, 4), shape=(3, 16, 16)))
    level, asked = joined.pyramid.levels[0], Asked()
    picture = whole(level)
    joined.tiles.defer = asked.defer
    for channel in range(3):
        box = ((channel, channel + 1), (8, 88), (8, 120))
        assert not level.read(box).any()
        assert asked.draw()
        np.testing.assert_array_equal(level.read(box), picture[area(box)])


def test_only_what_is_in_view_is_kept(small_planes, tmp_path):
    joined = mosaic(write_plate(tmp_path / "p", grid=(4, 6), shape=(1, 16, 16)))
    level, asked = joined.pyramid.levels[0], Asked()
    whole(level)
    assert kept_planes.kept.nbytes == 0
    joined.tiles.defer = asked.defer
    for at in range(0, 64, 8):
        level.read(((0, 1), (at, at + 64), (at, at + 100)))
        assert asked.draw()
        assert 2 * 6400 <= kept_planes.kept.nbytes < 2 * 6400 + 1000


def test_few_wells_are_read_at_once(small_planes, tmp_path):
    joined = mosaic(write_plate(tmp_path / "p", grid=(4, 6), shape=(1, 16, 16)))
    level, asked = joined.pyramid.levels[0], Asked()
    joined.tiles.defer = asked.defer
    assert level.read(((0, 1), (0, 64), (0, 64))).all()
    assert not asked


def test_few_wells_come_in_where_they_have_no_such_level(small_planes, tmp_path):
    root = write_plate(tmp_path / "p", grid=(4, 6), shape=(1, 32, 32), levels=1)
    joined = mosaic(root)
    level, asked = joined.pyramid.levels[1], Asked()
    joined.tiles.defer = asked.defer
    box = ((0, 1), (0, 40), (0, 40))
    assert not level.read(box).any()
    assert asked.draw()
    expected = in_a_worker(level.read, box)
    assert expected.all()
    np.testing.assert_array_equal(level.read(box), expected)


def test_more_than_a_window_shows_is_read_at_once(small_planes, tmp_path, monkeypatch):
    joined = mosaic(write_plate(tmp_path / "p", grid=(4, 6), shape=(1, 16, 16)))
    level, asked = joined.pyramid.levels[0], Asked()
    monkeypatch.setattr(kept_planes, "PART_BYTES", 2 * 128 * 100)
    joined.tiles.defer = asked.defer
    assert whole(level).all()
    assert not asked


def test_room_is_made_for_a_large_canvas(small_planes, tmp_path, monkeypatch):
    joined = mosaic(write_plate(tmp_path / "p", grid=(4, 6), shape=(2, 16, 16)))
    level, asked = joined.pyramid.levels[0], Asked()
    joined.tiles.defer = asked.defer
    monkeypatch.setattr(kept_planes.kept, "_limit", 1000)
    views = [((channel, channel + 1), (0, 100), (0, 190)) for channel in (0, 1)]
    for box in views:
        level.read(box)
        assert asked.draw()
    asked.clear()
    assert all(level.read(box).all() for box in views)
    assert not asked


@pytest.fixture
def deep(small_planes, tmp_path):
    """A plate of three levels, of which the coarsest is kept whole."""
    return mosaic(
        write_plate(tmp_path / "p", grid=(4, 6), fields=1, shape=(2, 32, 32), levels=3)
    )


def enlarged(pixels, times):
    return np.kron(pixels, np.ones((times, times), pixels.dtype))


def test_coarser_wells_stand_in_for_what_is_missing(deep):
    fine, _, coarse = deep.pyramid.levels
    known = in_a_worker(coarse.read, ((0, 1), (0, 32), (8, 48)))[0]
    asked = Asked()
    deep.tiles.defer = asked.defer
    box = (0, 1), (10, 128), (5, 150)
    shown = fine.read(box)[0]
    assert not shown[:, :27].any()  # nobody has seen these wells
    np.testing.assert_array_equal(shown[:, 27:], enlarged(known, 4)[10:, :118])
    asked.draw(wells=3)
    exact = in_a_worker(fine.read, box)[0]
    some = fine.read(box)[0]
    np.testing.assert_array_equal(some[:22, :91], exact[:22, :91])
    np.testing.assert_array_equal(some[22:], shown[22:])
    np.testing.assert_array_equal(some[:, 91:], shown[:, 91:])
    assert asked.draw()
    np.testing.assert_array_equal(fine.read(box)[0], exact)
    assert not fine.read(((1, 2), *box[1:])).any()


def test_the_next_coarser_wells_stand_in(deep):
    fine, middle, coarse = deep.pyramid.levels
    in_a_worker(coarse.read, ((0, 1), (0, 32), (0, 48)))
    asked = Asked()
    deep.tiles.defer = asked.defer
    part = (0, 1), (16, 64), (0, 64)
    middle.read(part)
    asked.draw(wells=11)  # of twelve
    shown = fine.read(((0, 1), (0, 128), (0, 192)))[0]
    known = in_a_worker(middle.read, part)[0]
    expected = in_a_worker(coarse.read, ((0, 1), (0, 32), (0, 48)))[0]
    expected = enlarged(expected, 4)
    last = expected[96:, 96:128].copy()
    expected[32:, :128] = enlarged(known, 2)
    expected[96:, 96:128] = last
    np.testing.assert_array_equal(shown, expected)


def test_coarser_planes_stand_in_for_those_of_their_depth(small_planes, tmp_path):
    root = write_plate(tmp_path / "p", grid=(4, 5), fields=1, shape=(1, 32, 32))
    volume = pixels(3, (4, 32, 32))
    for row, column in np.ndindex(4, 5):
        place = root / "ABCD"[row] / str(column + 1) / "0"
        shutil.rmtree(place)
        write_image(place, volume, 3, axes="zyx", levels=3)
        # Every second plane, too.
        shutil.rmtree(place / "2")
        write_array(place / "2", volume[::2, ::4, ::4], 3)
    joined = mosaic(root)
    fine, _, coarse = joined.pyramid.levels
    assert coarse.shape == (2, 32, 40)
    in_a_worker(coarse.read, ((0, 2), (0, 32), (0, 40)))
    asked = Asked()
    joined.tiles.defer = asked.defer
    for z in range(4):
        shown = fine.read(((z, z + 1), (0, 128), (0, 160)))[0]
        one = enlarged(volume[z // 2 * 2, ::4, ::4], 4)
        np.testing.assert_array_equal(shown, np.tile(one, (4, 5)))
