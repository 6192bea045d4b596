"""The lines that describe what was read for a layer."""

import numpy as np
from napari.components import ViewerModel
from napari.layers import Image
from npe2 import PluginManager

from napari_ngff.store.sources.read_counts import ReadFigures
from napari_ngff.viewer.inspecting.reading_figures import (
    LayerReading,
    describe_reading,
    reading_of,
)
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image

FIGURES = ReadFigures(
    from_memory=3000, chunks=1000, chunk_bytes=2_500_000, ahead=40, ahead_used=10,
    requests=1010, waiting=7, received=2_600_000, kept=1,
)  # fmt: skip


def lines(*, is_remote, figures=FIGURES):
    reading = LayerReading("a.zarr", figures, is_remote, 96_000_000, 268_000_000)
    return dict(describe_reading(reading))


def test_a_file_of_a_server_has_lines_for_its_requests():
    assert lines(is_remote=True) == {
        "Chunks from memory": "3,000 (75 %)",
        "Chunks read": "1,000 (2.5 MB)",
        "Read ahead": "40 chunks, 10 used",
        "Parts from this disk": "1",
        "Requests": "1,010 (2.6 MB received)",
        "Requests waiting": "7",
        "Memory, all layers": "96 MB of 268 MB",
    }


def test_a_local_file_has_no_line_that_is_always_zero():
    assert list(lines(is_remote=False)) == [
        "Chunks from memory",
        "Chunks read",
        "Memory, all layers",
    ]


def test_nothing_is_divided_by_zero():
    shown = lines(is_remote=False, figures=ReadFigures())
    assert shown["Chunks from memory"] == "0"


def test_all_layers_of_a_file_have_its_counts(tmp_path):
    path = write_image(tmp_path / "cells.ome.zarr", shape=(1, 300, 300))
    viewer = ViewerModel()
    PluginManager.instance().discover()
    viewer.open(str(path), plugin="napari-ngff")
    before = [reading_of(layer).figures.chunks for layer in viewer.layers]
    image = viewer.layers[0]
    np.asarray(image.data[0])
    after = [reading_of(layer).figures.chunks for layer in viewer.layers]
    assert len(set(before)) == len(set(after)) == 1
    assert after[0] > before[0]
    assert reading_of(image).name == str(path)
    assert not reading_of(image).is_remote


def test_labels_of_a_sidecar_have_its_counts(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = write_image(tmp_path / "cells.ome.zarr", shape=(1, 300, 300))
    viewer = ViewerModel()
    PluginManager.instance().discover()
    viewer.open(str(path), plugin="napari-ngff")
    labels = viewer.add_layer(new_labels(viewer.layers[0], "mine", sidecar=True))
    labels.paint((0, 100, 100), 5)
    labels.saver.save()
    viewer.layers.clear()
    viewer.open(str(path), plugin="napari-ngff")
    labels = viewer.layers["mine"]
    assert np.asarray(labels.data[0])[0, 100, 100] == 5
    reading = reading_of(labels)
    assert reading.name == str(tmp_path / "cells.labels.ome.zarr")
    assert reading.figures.chunks > 0


def test_layers_of_other_files_have_none():
    assert reading_of(None) is None
    assert reading_of(Image(np.zeros((4, 4)))) is None
