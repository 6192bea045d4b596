"""Labels below their edits, as a stream reads them: chunk by chunk, in any axes."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from napari_ngff.labels.edits import Edit
from napari_ngff.labels.shapes import Stroke
from napari_ngff.store.arrays.boxes import box_of, cells_in, whole_box
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.streaming.label_stream import (
    LabelStream,
    drawn_box,
    stream_canvas,
)
from napari_ngff.viewer.streaming.missing_parts import drawn_parts, stored_parts
from napari_ngff.viewer.streaming.streamed_view import StreamedView
from saving import open_canvas, open_writer

CASES = {
    "as stored": ((3, 20, 30), (0, 1, 2)),
    "turned": ((3, 20, 30), (0, 2, 1)),
    "more axes": ((3, 20, 30), (None, 0, 1, 2)),
    "fewer axes": ((1, 20, 30), (1, 2)),
    "moved axes": ((3, 20, 30), (2, None, 0, 1)),
}


@pytest.fixture(params=CASES)
def canvas(request, tmp_path):
    shape, order = CASES[request.param]
    values = np.arange(np.prod(shape), dtype="u4").reshape(shape)
    zarr.create_array(tmp_path / "0", data=values, chunks=(1, 8, 8), shards=None)
    return open_canvas(tmp_path, 1, order)


def level_of(canvas, number=0):
    return LabelStream(canvas)._level_of(number)


def test_each_chunk_is_that_of_the_canvas_read_or_from_memory(canvas):
    level, true = level_of(canvas), canvas.levels[0]
    for cell in cells_in(whole_box(true.shape), true.chunks):
        area = box_of(cell, true.chunks, true.shape)
        expected = true.read_below(area)
        assert np.array_equal(level.read_stored(area, pytest.fail), expected)
        chunk = level.cached_chunk(cell)
        inside = tuple(slice(0, stop - start) for start, stop in area)
        assert np.array_equal(chunk[inside], expected)


def test_a_view_takes_what_is_in_memory(canvas):
    true = canvas.levels[0]
    box = tuple((size // 4, size) for size in true.shape)
    expected = true.read_below(box)
    view = StreamedView(level_of(canvas), 0, box)
    view.take_cached()
    assert view.is_whole
    assert np.array_equal(view.pixels, expected)


def test_a_lost_chunk_is_found_where_it_is_drawn(canvas):
    level = level_of(canvas)
    for cell in cells_in(whole_box(level.shape), level.chunks):
        area = box_of(cell, level.chunks, level.shape)
        ((array, stored),) = stored_parts(level.below, area)
        assert array is level.array
        assert drawn_box(level, stored) == area


def test_lost_chunks_are_those_of_what_is_drawn(canvas):
    stream_canvas(canvas)
    stream, layer = canvas.drawn, OMEZarrLabels(canvas)
    level = stream._level_of(0)
    box = tuple((size // 2, size) for size in level.shape)
    stream.get_view(level, 0, box)
    ((array, part),) = drawn_parts(layer)
    # Each voxel has another value.
    drawn = level.read_stored(box, pytest.fail)
    assert np.array_equal(np.unique(array.read(part)), np.unique(drawn))


def test_below_saved_edits_are_the_labels_of_the_file_or_of_before(tmp_path):
    values = np.arange(600, dtype="u4").reshape(20, 30)
    for number in range(2):
        step = 2**number
        zarr.create_array(
            tmp_path / str(number), data=values[::step, ::step], chunks=(8, 8)
        )
    writer = open_writer(tmp_path, 2)
    canvas, whole = writer.canvas, whole_box(values.shape)
    levels = [level_of(canvas, number) for number in range(2)]
    canvas.add_edit(
        Edit(Stroke(((4, 4), (4, 20)), (30,), 3, (1.0, 1.0)), (0, 1), (), 999)
    )
    canvas.close_step()
    writer.save()
    stored = zarr.open_array(tmp_path / "1", mode="r")[...]
    assert (stored == 999).any()
    now = level_of(canvas, 0), level_of(canvas, 1)
    assert np.array_equal(now[0].read_stored(whole, pytest.fail), values)
    assert np.array_equal(now[1].read_stored(whole_box((10, 15)), pytest.fail), stored)
    assert now[1].token != levels[1].token
    canvas.undo()
    undone = level_of(canvas, 1)
    coarse = undone.read_stored(whole_box((10, 15)), pytest.fail)
    assert np.array_equal(coarse, values[::2, ::2])
    assert undone.token != now[1].token
    # A view goes on with the state of which it is.
    assert np.array_equal(now[1].read_stored(whole_box((10, 15)), pytest.fail), stored)
