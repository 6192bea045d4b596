"""Which chunks are read before they are looked at."""

import gc
import weakref

import numpy as np
import pytest
import zarr

from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.streaming.label_stream import LabelStream
from napari_ngff.viewer.streaming.streamed_levels import AheadReader, list_chunks_ahead
from napari_ngff.viewer.streaming.streamed_view import StreamedView
from saving import open_canvas

PLANES = frozenset({0, 1})
"""Time and depth; not channels."""


@pytest.fixture
def levels(tmp_path):
    """Two levels with the axes t, z, c, y, x, one plane in a chunk."""
    for number, size in enumerate((64, 32)):
        zarr.create_array(
            tmp_path / str(number), data=np.ones((3, 5, 2, size, size), "uint8"),
            chunks=(1, 1, 1, 16, 16),
        )  # fmt: skip
    source = FolderStore(str(tmp_path))
    return [LevelSource(open_array(source, str(n))) for n in range(2)]


def view_of(levels, number, t, z, y, x):
    box = (t, t + 1), (z, z + 1), (0, 1), y, x
    return StreamedView(levels[number], number, box)


def test_the_next_planes_come_first_and_the_coarse_ones_before_the_fine(levels):
    part = view_of(levels, 0, 0, 2, (16, 32), (16, 32))
    thumbnail = view_of(levels, 1, 0, 2, (0, 32), (0, 32))
    chunks = sorted(
        list_chunks_ahead([part, thumbnail], PLANES), key=lambda one: one.order
    )
    places = [(one.level is levels[1], one.cell[:3]) for one in chunks]
    assert set(places[:8]) == {(True, (1, 2, 0)), (True, (0, 3, 0))}
    assert set(places[8:12]) == {(True, (0, 1, 0))}
    assert set(places[12:14]) == {(False, (1, 2, 0)), (False, (0, 3, 0))}
    assert places[14] == (False, (0, 1, 0))
    # Then the eight chunks around the one in view; never another channel.
    assert [place for place, _ in places[15:]] == [False] * 8
    assert {one.cell[:3] for one in chunks[15:]} == {(0, 2, 0)}
    assert not {one.cell for one in chunks} & {(0, 2, 0, 1, 1)}


def test_nothing_is_read_beside_a_volume(levels, monkeypatch):
    monkeypatch.setattr(
        "napari_ngff.viewer.streaming.streamed_levels.LARGEST_VIEW", 1000
    )
    volume = StreamedView(levels[0], 0, ((0, 1), (0, 5), (0, 1), (0, 64), (0, 64)))
    assert list_chunks_ahead([volume], PLANES) == []


class Resting:
    stepped_axes = PLANES

    def __init__(self, *views):
        self.drawn_views = views


def test_no_chunk_is_asked_for_twice_and_none_while_the_screen_waits(
    levels, monkeypatch
):
    asked = []
    monkeypatch.setattr(
        "napari_ngff.viewer.streaming.streamed_levels.ChunkAhead.read",
        lambda chunk: asked.append(chunk.cell),
    )
    busy = [True]
    reader = AheadReader(lambda: busy[0])
    resting = Resting(view_of(levels, 0, 0, 2, (0, 64), (0, 64)))
    reader.read_around(resting)
    assert asked == []
    busy[0] = False
    reader.read_around(resting)
    assert sorted({cell[:2] for cell in asked}) == [(0, 1), (0, 3), (1, 2)]
    assert len(asked) == len(set(asked)) == 3 * 16
    reader.read_around(resting)
    assert len(asked) == 3 * 16


def test_what_was_read_ahead_is_not_kept(tmp_path):
    zarr.create_array(tmp_path / "0", data=np.ones((20, 30), "uint32"), chunks=(8, 8))
    reader = AheadReader(lambda: False)

    def read_around_labels():
        canvas = open_canvas(tmp_path, 1, (0, 1))
        level = LabelStream(canvas)._level_of(0)
        reader.read_around(Resting(StreamedView(level, 0, ((0, 8), (0, 8)))))
        assert level.cached_chunk((0, 1)) is not None
        return weakref.ref(level.array)

    array = read_around_labels()
    gc.collect()
    assert array() is None


def test_where_chunks_hold_several_planes_the_next_chunk_is_read(tmp_path):
    zarr.create_array(
        tmp_path / "0", data=np.ones((20, 16, 16), "uint8"), chunks=(8, 16, 16)
    )
    level = LevelSource(open_array(FolderStore(str(tmp_path)), "0"))

    def chunks_beside(plane):
        view = StreamedView(level, 0, ((plane, plane + 1), (0, 16), (0, 16)))
        chunks = list_chunks_ahead([view], frozenset({0}))
        return [one.cell[0] for one in sorted(chunks, key=lambda one: one.order)]

    assert [chunks_beside(plane) for plane in (3, 8, 12, 19)] == [
        [1],
        [2, 0],
        [2, 0],
        [1],
    ]
