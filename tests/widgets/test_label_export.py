"""napari's own ways to copy and save a layer, with painted labels of several levels."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Layer, _layer_actions
from qtpy.QtWidgets import QFileDialog

from napari_ngff.labels.canvas import Canvas
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from painting import Empty, pyramid

tifffile = pytest.importorskip("tifffile")


def painted():
    pixels = np.zeros((5, 60, 80), "u2")
    pixels[:, 20:40, 20:40] = 3
    canvas = Canvas(pyramid(pixels, [(5, 30, 40), (3, 15, 20)]))
    layer = OMEZarrLabels(canvas, name="cells", scale=(2, 0.5, 0.5))
    layer.brush_size = 9
    layer.paint((2, 10, 10), 300)
    return layer


def answer(monkeypatch, path):
    chosen = staticmethod(lambda *_, **__: (str(path), ""))
    monkeypatch.setattr(QFileDialog, "getSaveFileName", chosen)


def test_save_selected_layers_as_tif(viewer, tmp_path, monkeypatch):
    layer = viewer.add_layer(painted())
    viewer.add_image(np.zeros((5, 60, 80), "u1"))
    viewer.layers.selection.active = layer
    answer(monkeypatch, tmp_path / "cells.tif")
    viewer.window._qt_viewer._save_layers_dialog(selected=True)
    saved = tifffile.imread(tmp_path / "cells.tif")
    np.testing.assert_array_equal(saved, np.asarray(layer.data))
    assert set(np.unique(saved)) == {0, 3, 300}
    assert layer.unsaved, "a picture of the labels is not their file"
    # All layers go into a folder, one file each.
    viewer.layers.save(str(tmp_path / "all"), plugin="napari")
    np.testing.assert_array_equal(
        tifffile.imread(tmp_path / "all" / "cells.tif"), saved
    )


def test_labels_that_no_tif_should_hold_are_refused(viewer, tmp_path, monkeypatch):
    canvas = Canvas([Empty((-(-100_000 // 2**k),) * 2) for k in range(9)])
    viewer.layers.selection.active = viewer.add_layer(OMEZarrLabels(canvas))
    answer(monkeypatch, tmp_path / "cells.tif")
    with pytest.raises(MemoryError, match=r"19 GiB.*coarser level.*OME-Zarr"):
        viewer.window._qt_viewer._save_layers_dialog(selected=True)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "duplicate",
    [
        lambda layer: Layer.create(*layer.as_layer_data_tuple()),
        lambda layer: Layer.create(*copy.deepcopy(layer.as_layer_data_tuple())),
        copy.copy,
    ],
    ids=["tuple", "deep tuple", "copy"],
)
def test_copies_show_what_was_painted(duplicate):
    layer = painted()
    twin = duplicate(layer)
    viewer = ViewerModel()
    viewer.add_layer(twin)
    for level, own in zip(layer.data, twin.data, strict=True):
        np.testing.assert_array_equal(np.asarray(own), np.asarray(level))
    np.testing.assert_array_equal(twin.scale, layer.scale)


def test_a_duplicate_is_of_its_own():
    layer = painted()
    viewer = ViewerModel()
    viewer.add_layer(layer)
    viewer.layers.selection = {layer}
    _layer_actions._duplicate_layer(viewer.layers)
    twin = viewer.layers["cells copy"]
    layer.undo()
    layer.paint((2, 50, 50), 9)
    assert set(np.unique(np.asarray(twin.data[0]))) == {0, 3, 300}
    assert set(np.unique(np.asarray(layer.data[0]))) == {0, 3, 9}


def test_converting_the_type_keeps_edits_and_can_be_painted_on():
    layer = painted()
    viewer = ViewerModel()
    viewer.add_layer(layer)
    viewer.layers.selection.active = layer
    before = np.asarray(layer.data)
    for dtype in ("int64", "uint32", "uint16"):
        _layer_actions._convert_dtype(viewer.layers, dtype)
        assert layer.dtype == np.asarray(layer.data).dtype == dtype
        np.testing.assert_array_equal(np.asarray(layer.data), before)
    layer.paint((2, 50, 50), 9)
    assert layer.data[2, 50, 50] == 9


def test_other_plugins_read_level_0():
    data = painted().data
    assert data.shape == (5, 60, 80)
    assert data[2, 10, 10] == 300
    np.testing.assert_array_equal(np.asarray(data[2, 8:12, 10]), 300)
    assert np.max(data) == data.max() == 300
    assert (np.asarray(data) == 3).sum() == 5 * 400
