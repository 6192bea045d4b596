"""A process that ends as usual keeps all that was painted in it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from napari_ngff.labels.journal import find_journals, read_journal
from napari_ngff.viewer.samples import write_image

PAINT = """
import sys
from napari.components import ViewerModel
from napari_ngff.labels.journal import find_journals
from napari_ngff.plugin import get_reader
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.browsing.recovery import open_journal

path, row = sys.argv[1], int(sys.argv[2])
viewer = ViewerModel()
for one in get_reader(path)(path):
    viewer.add_layer(as_layer(one) if isinstance(one, tuple) else one)
layer = viewer.layers["nuclei"]
for folder in find_journals(*layer.saver.journal.place):
    layer.saver.take_over(open_journal(layer.saver, folder))
for column in range(5, 60, 10):
    layer.paint((0, row, column), row)
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    write_image(tmp_path / "cells.ome.zarr", shape=(1, 64, 64))
    return tmp_path / "cells.ome.zarr"


@pytest.mark.long
def test_edits_on_top_of_recovered_ones_outlive_the_process(path):
    for number, row in enumerate((10, 20, 30), 1):
        command = [sys.executable, "-c", PAINT, str(path), str(row)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert (ended.returncode, ended.stderr) == (0, "")
        (folder,) = find_journals(str(path), "labels/nuclei")
        assert read_journal(folder).unsaved_count == 6 * number
