"""What is selected, visible and in which contrast when a file was opened."""

from __future__ import annotations

import os
import shutil
import time

import numpy as np
import pytest
from napari.layers import Labels

from mouse import drop_on_canvas, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.samples import write_image, write_plate
from plates import mark_own


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    where = tmp_path_factory.mktemp("opened") / "cells.ome.zarr"
    return write_image(where, shape=(96, 128))


@pytest.fixture
def cells(sample, tmp_path):
    return shutil.copytree(sample, tmp_path / "cells.ome.zarr")


def opened(viewer, path):
    use_workers()
    drop_on_canvas(viewer, path)
    until(lambda: len(viewer.layers))
    pump(200)
    listed = viewer.window._qt_viewer.layers.selectionModel().selectedIndexes()
    assert [index.data() for index in listed] == [viewer.layers.selection.active.name]
    return viewer.layers.selection.active


def test_an_image_opens_with_its_first_labels_seen_through(viewer, cells):
    active = opened(viewer, cells)
    assert active is viewer.layers[0], "the labels are not of this package"
    assert [layer.visible for layer in viewer.layers] == [True] * 4 + [False]
    assert viewer.layers["nuclei"].opacity == 0.4


def test_own_labels_are_selected(viewer, cells):
    """Those that were saved last, or the first of them where that is not known."""
    mark_own(cells / "labels/cells/zarr.json")
    active = opened(viewer, cells)
    assert active is viewer.layers["cells"]
    assert active.visible
    assert not viewer.layers["nuclei"].visible


@pytest.mark.long
def test_without_labels_the_first_channel_is_selected(viewer, cells):
    shutil.rmtree(cells / "labels")
    assert opened(viewer, cells) is viewer.layers[0]


def test_labels_that_were_saved_last_are_visible(viewer, cells):
    levels = open_node(str(cells / "labels/cells")).metadata.image.multiscales[0].levels
    later = time.time() + 3600
    for path in (cells / "labels/cells" / levels[-1].path).rglob("*"):
        os.utime(path, (later, later))
    opened(viewer, cells)
    assert viewer.layers["cells"].visible
    assert not viewer.layers["nuclei"].visible


@pytest.mark.long
def test_a_plate_opens_without_false_colors(viewer, tmp_path):
    plate = write_plate(
        tmp_path / "plate.ome.zarr", grid=(2, 2), fields=1, shape=(64, 64)
    )
    active = opened(viewer, plate)
    labels = [layer for layer in viewer.layers if isinstance(layer, Labels)]
    assert labels
    assert not any(layer.visible for layer in labels)
    assert active is viewer.layers[0]


@pytest.mark.long
def test_labels_alone_start_where_their_image_does(viewer, tmp_path):
    path = write_image(tmp_path / "film.ome.zarr", shape=(4, 64, 96))
    opened(viewer, path)
    start = viewer.dims.current_step[0]
    viewer.layers.clear()
    viewer.dims.reset()
    assert opened(viewer, path / "labels/nuclei") is viewer.layers["nuclei"]
    assert viewer.dims.current_step[0] == start == 0


@pytest.mark.long
def test_the_contrast_slider_spans_the_pixels(viewer, cells):
    opened(viewer, cells)
    for layer in viewer.layers[:3]:
        high = np.asarray(layer.data[0] if layer.multiscale else layer.data).max()
        ends = layer.contrast_limits_range
        assert max(high, layer.contrast_limits[1]) / 2 < ends[1] < 60_000
