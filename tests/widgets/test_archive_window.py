"""Paint with the mouse on labels of an `.ozx`, press Ctrl+S, and they are in it."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
import zarr
from qtpy.QtCore import Qt

from mouse import drag, press_save, pump
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.samples import write_image

CONTROL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def path(tmp_path):
    write_image(tmp_path / "cells.ozx", shape=(200, 240))
    return tmp_path / "cells.ozx"


def opened(viewer, path):
    use_workers()
    viewer.open(str(path), plugin="napari-ngff")
    return shown(viewer, viewer.layers["nuclei"])


def shown(viewer, layer):
    for other in viewer.layers:
        other.visible = other is layer
    viewer.layers.selection.active = layer
    viewer.reset_view()
    pump(100)
    return layer


def paint(viewer, layer, label, points):
    layer.mode, layer.selected_label, layer.brush_size = "paint", label, 9
    drag(viewer, [tuple(np.multiply(p, layer.scale) + layer.translate) for p in points])


def stored(path, name):
    with zarr.storage.ZipStore(path, mode="r") as store:
        return zarr.open_array(store, path=f"labels/{name}/0", mode="r")[:]


@pytest.mark.long
def test_painted_pixels_are_in_the_archive_after_ctrl_s(viewer, path, qapp):
    before = stored(path, "nuclei")
    layer = opened(viewer, path)
    assert layer.editable
    paint(viewer, layer, 77, [(40, 50), (90, 120)])
    press_save(viewer, layer)
    assert not layer.unsaved
    assert "Saved" in layer.saver.note
    after = stored(path, "nuclei")
    assert (after == 77).sum() > 400
    assert ((after == before) | (after == 77)).all()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    # The image that is open, and the labels, are read from the new file.
    image = viewer.layers[0]
    image.visible = True
    assert np.asarray(image.data[0]).any()
    layer.undo()
    press_save(viewer, layer)
    assert (stored(path, "nuclei") == before).all()
    viewer.layers.clear()


def test_new_labels_are_in_the_archive_after_ctrl_s(viewer, path, qapp):
    opened(viewer, path)
    layer = new_labels(viewer.layers[0], "mine")
    viewer.add_layer(layer)
    shown(viewer, layer)
    paint(viewer, layer, 5, [(40, 50), (90, 120)])
    press_save(viewer, layer)
    assert not layer.unsaved
    assert (stored(path, "mine") == 5).sum() > 400
    viewer.layers.clear()
    viewer.open(str(path), plugin="napari-ngff")
    assert (np.asarray(viewer.layers["mine"].data[0]) == 5).sum() > 400
