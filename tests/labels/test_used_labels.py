"""All stored pixels are looked at for a label that none has."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.raster import Raster
from napari_ngff.labels.shapes import Stroke
from napari_ngff.labels.used_labels import StoredLabels
from napari_ngff.store.arrays.chunked_array import cache, open_array
from napari_ngff.store.arrays.lazy_array import ArrayWindow, BlankArray
from napari_ngff.store.hierarchy.location import find_location
from napari_ngff.store.pyramids.pyramid import LevelSource


def stored(folder, pixels, **options):
    """Store pixels as zarr writes them; return them as a level of a canvas."""
    zarr.create_array(folder, data=pixels, **options)
    location = find_location(folder)
    array = open_array(location.source, location.path)
    return ArrayWindow.whole_source(LevelSource(array, pytest.fail))


@pytest.fixture
def pixels():
    """One pixel of the largest label, which no coarser level has."""
    pixels = np.zeros((70, 90), "u4")
    pixels[1:30, 1:30] = 4
    pixels[51, 77] = 70_001
    return pixels


@pytest.mark.parametrize("options", [{}, {"shards": (64, 64)}])
def test_a_single_pixel_of_any_layout_is_found(tmp_path, pixels, options):
    fine = stored(tmp_path / "0", pixels, chunks=(16, 16), **options)
    coarse = stored(tmp_path / "1", pixels[::2, ::2], chunks=(16, 16))
    canvas = Canvas([fine, coarse])
    assert canvas.used.guess_next() == 5, "what the coarsest level shows"
    kept = cache.nbytes
    assert canvas.used.find_free() == 70_002
    assert canvas.used.guess_next() == 70_002
    assert [canvas.used.has(label) for label in (4, 5, 70_001)] == [True, False, True]
    assert cache.nbytes == kept, "chunks on the screen stay in memory"


def test_strokes_count_also_where_they_are_undone(tmp_path, pixels):
    canvas = Canvas([stored(tmp_path / "0", pixels, chunks=(16, 16))])
    stroke = Stroke(((5.0, 5.0), (5.0, 9.0)), (4,), 1.5, (1.0, 1.0))
    canvas.add_edit(Edit(stroke, (0, 1), (), 80_000))
    canvas.undo()
    assert canvas.used.find_free() == 80_001
    several = Raster(np.array([[6, 9]]), (0.0, 0.0), (1.0, 1.0))
    canvas.add_edit(Edit(several, (0, 1), (), 9))
    assert [canvas.used.has(label) for label in (6, 7, 9)] == [True, False, True]


def test_what_another_program_writes_is_found_when_the_file_is_read_again(
    tmp_path, pixels
):
    canvas = Canvas([stored(tmp_path / "0", pixels, chunks=(16, 16))])
    assert canvas.used.find_free() == 70_002
    zarr.open_array(tmp_path / "0", mode="r+")[60, 60] = 90_000
    canvas.reread_sources()
    assert canvas.used.find_free() == 90_001


def test_nothing_is_read_of_new_labels():
    canvas = Canvas([BlankArray((1 << 20, 1 << 20), (1, 1), np.dtype("u2"))])
    assert canvas.used.is_known
    assert canvas.used.find_free() == 1
    assert canvas.used.find_free([1, 2]) == 3


def test_a_look_that_is_not_needed_any_more_ends(tmp_path, pixels):
    source = stored(tmp_path / "0", pixels, chunks=(16, 16))
    asked = []

    def stops():
        asked.append(True)
        return len(asked) > 3

    assert StoredLabels.of_arrays([source], stops) is None
    assert len(asked) < 10
    canvas = Canvas([source])
    canvas.used.look_at_all(lambda: True)
    assert not canvas.used.is_known


def test_a_broken_chunk_hides_no_others(tmp_path, pixels):
    source = stored(tmp_path / "0", pixels, chunks=(16, 16))
    (tmp_path / "0" / "c" / "0" / "0").write_bytes(b"broken")
    assert Canvas([source]).used.find_free() == 70_002
