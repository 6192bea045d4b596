"""Many edits are recovered in about a second, each still a step of undo."""

from __future__ import annotations

import time

import numpy as np
import pytest
from napari.components import ViewerModel

from journals import discard_edits
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.shapes import Stroke
from napari_ngff.plugin import get_reader
from napari_ngff.viewer.browsing.recovery import open_journal
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import Window

COUNT = 12_000


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(Window, "current", Window())
    path = tmp_path / "cells.ome.zarr"
    write_image(path, shape=(512, 512))
    return path


def opened(path):
    model = ViewerModel()
    for one in get_reader(str(path))(str(path)):
        model.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    return model.layers["nuclei"]


def strokes(count):
    rng = np.random.default_rng(7)
    for number in range(count):
        row, column = rng.integers(0, 500, 2).tolist()
        points = ((float(row), float(column)), (row + 5.0, column + 5.0))
        stroke = Stroke(points, (4,), 5.5, (1.0, 1.0))
        yield Edit(stroke, (0, 1), (), number % 200 + 1)


@pytest.mark.long
def test_thousands_of_edits_are_recovered_at_once(path):
    layer = opened(path)
    for edit in strokes(COUNT):
        layer.canvas.begin_step()
        layer.canvas.add_edit(edit)
        layer.canvas.close_step()
    begun = time.process_time()
    pixels = np.asarray(layer.data[0])
    reading = time.process_time() - begun
    layer.saver.keep_journal()
    folder = layer.saver.journal.folder
    size = (folder / "edits.jsonl").stat().st_size
    layer = opened(path)
    begun = time.process_time()
    layer.saver.take_over(open_journal(layer.saver, folder))
    took = time.process_time() - begun
    assert (np.asarray(layer.data[0]) == pixels).all()
    layer.saver.journal.sync()
    assert (folder / "edits.jsonl").stat().st_size == size
    assert took < 3 * reading, f"{took:.1f} s, and {reading:.1f} s to read all voxels"
    for _ in range(3):
        layer.undo()
    assert len(layer.canvas.edits) == COUNT - 3
    discard_edits(layer.saver)
