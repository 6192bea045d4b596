"""Layers of labels as they come out of the reader, and new ones."""

from __future__ import annotations

import copy
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, _layer_actions

from napari_ngff import plugin
from napari_ngff.labels.canvas import Canvas
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.viewer.layers.label_owners import TARGET
from napari_ngff.viewer.painting import canvas_labels, paint
from napari_ngff.viewer.painting.new_labels import free_name, new_labels
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.painting.painted_layers import as_layer
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.samples import write_image, write_plate
from painting import Empty, Memory, pyramid
from patience import PATIENCE, until


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    where = tmp_path_factory.mktemp("painted") / "cells.ome.zarr"
    return write_image(where, "0.5", shape=(2, 64, 96))


@pytest.fixture
def reported(monkeypatch):
    messages = []
    monkeypatch.setattr(canvas_labels, "show_info", messages.append)
    monkeypatch.setattr(canvas_labels, "show_warning", messages.append)
    monkeypatch.setattr(paint, "show_warning", messages.append)
    return messages


def opened(path):
    return plugin.get_reader(str(path))(str(path))


def painted(path):
    return [layer for layer in opened(path) if isinstance(layer, Layer)]


def small(dtype="u2"):
    pixels = np.zeros((60, 80), dtype)
    pixels[20:40, 20:40] = 3
    return Canvas(pyramid(pixels, [(30, 40)]))


def test_the_reader_gives_labels_that_can_be_painted(image):
    layers = opened(image)
    assert [isinstance(x, tuple) for x in layers] == [True] * 3 + [False] * 2
    nuclei, cells = layers[3:]
    assert (nuclei.name, cells.name) == ("nuclei", "cells")
    assert nuclei.editable
    assert nuclei.visible
    assert not cells.visible
    before = np.asarray(nuclei.data)
    assert before.any()
    nuclei.selected_label = nuclei.next_label()
    assert nuclei.selected_label not in before
    nuclei.paint((0, 30, 40), nuclei.selected_label)
    assert np.asarray(nuclei.data)[0, 30, 40] == nuclei.selected_label
    assert not (np.asarray(nuclei.data)[1] != before[1]).any()


def test_edits_are_unsaved_until_they_are_undone(image):
    layer = painted(image)[0]
    assert not layer.unsaved
    layer.paint((0, 30, 40), 7)
    assert layer.unsaved
    layer.undo()
    assert not layer.unsaved


@pytest.mark.skipif(os.name == "nt" or os.getuid() == 0, reason="may write anywhere")
def test_labels_that_may_not_be_written_say_so(image):
    array = Path(image, "labels", "nuclei", "0")
    array.chmod(0o500)
    try:
        (layer, *_) = painted(image)
    finally:
        array.chmod(0o700)
    assert not layer.editable
    assert "no permission to write" in layer.get_status((0, 0, 0))["coordinates"]


def test_labels_of_a_plate_are_read_only(tmp_path):
    plate = write_plate(
        tmp_path / "plate.ome.zarr", "0.5", grid=(2, 2), fields=1, shape=(64, 64)
    )
    (layer, *_) = painted(plate)
    assert not layer.editable
    status = layer.get_status((0,) * layer.ndim)["coordinates"]
    assert "read-only: plate overview, open a field to paint." in status


def test_undo_survives_another_slice_and_level(image):
    layer = painted(image)[0]
    viewer = ViewerModel()
    viewer.add_layer(layer)
    before = np.asarray(layer.data)
    for t, level in ((0, 0), (1, 1), (0, None)):
        viewer.dims.set_current_step(0, t)
        layer.locked_data_level = level
        layer.paint((t, 30, 40), 9)
        layer.paint((t, 50, 60), 8)
    for _ in range(6):
        layer.undo()
        viewer.dims.set_current_step(0, 1)
    np.testing.assert_array_equal(np.asarray(layer.data), before)


def test_it_passes_for_labels_with_the_rest_of_napari(tmp_path):
    layer = OMEZarrLabels(small(), name="cells")
    viewer = ViewerModel()
    viewer.add_layer(layer)
    layer.brush_size = 5
    layer.paint((5, 5), 9)
    assert layer._type_string == "labels"
    np.testing.assert_array_equal(np.asarray(layer.data)[5, 3:8], 9)
    assert np.asarray(layer.data[0][5, 5]) == layer.data[5, 5] == 9
    viewer.layers.selection = {layer}
    _layer_actions._duplicate_layer(viewer.layers)
    twin = viewer.layers["cells copy"]
    layer.undo()
    assert np.asarray(twin.data[0])[5, 5] == 9
    assert isinstance(copy.copy(layer), Labels)
    viewer.layers.selection.active = layer
    _layer_actions._convert_dtype(viewer.layers, "uint32")
    assert layer.dtype == "uint32"
    assert np.asarray(layer.data).dtype == "uint32"
    layer.paint((5, 5), 100_000)
    with pytest.raises(AssertionError):
        _layer_actions._convert_dtype(viewer.layers, "uint8")


def test_what_cannot_be_done_is_refused_with_what_to_do(reported):
    layer = OMEZarrLabels(Canvas([Empty((100_000,) * 2), Empty((500, 500))]))
    with pytest.raises(MemoryError, match="coarser level"):
        np.asarray(layer.data)
    with pytest.raises(TypeError, match="data_setitem"):
        layer.data[3, 4] = 1
    with pytest.raises(TypeError, match="data_setitem"):
        layer.data = np.zeros((5, 5), int)
    with pytest.raises(IndexError):
        layer.data_setitem((np.array([100_000]), np.array([0])), 1)
    layer.locked_data_level = 0
    assert layer.locked_data_level is None
    layer.fill((50, 50), 2)
    assert layer.canvas.edits == ()
    assert len(reported) == 2
    assert "polygon" in reported[1]


def test_a_label_that_overflows_widens_the_type(reported):
    layer = OMEZarrLabels(small("u1"))
    layer.selected_label = 255
    assert layer.dtype == "uint8"
    layer.selected_label = 256
    assert layer.dtype == "uint16"
    layer.paint((5, 5), 70_000)
    assert layer.dtype == "uint32"
    assert np.asarray(layer.data)[5, 5] == 70_000
    assert np.asarray(layer.data)[30, 30] == 3
    assert len(reported) == 2
    assert "uint16" in reported[0]


def test_labels_of_true_and_false_can_be_painted(tmp_path):
    layer = OMEZarrLabels(Canvas([Memory(np.eye(40, dtype=bool))]))
    layer.paint((5, 20), 2)
    assert set(np.unique(np.asarray(layer.data))) == {0, 1, 2}


class Slow(Memory):
    gate = None
    asked = False

    def read(self, box):
        if self.gate is not None:
            self.asked = True
            assert self.gate.wait(PATIENCE), "the brush waits for the store"
        return super().read(box)


@pytest.mark.parametrize("undone", [False, True])
def test_a_stroke_made_while_a_slice_is_read_is_not_lost(undone):
    source = Slow(np.zeros((200, 200), "u2"), (64, 64))
    layer = OMEZarrLabels(Canvas([source]))
    viewer = ViewerModel()
    viewer.add_layer(layer)
    layer.paint((20, 20), 1)
    source.gate = threading.Event()
    state = layer._slicing_state
    request = state._make_slice_request_internal(
        slice_input=state._slice_input,
        data_slice=state.data_slice,
        dask_indexer=state.dask_optimized_slicing,
    )
    # As napari's asynchronous slicing does it, at a known pace.
    state._set_unloaded_slice_id(request.id)
    found = []
    thread = threading.Thread(target=lambda: found.append(request()))
    thread.start()
    until(lambda: source.asked)
    layer.paint((100, 100), 2)
    layer.paint((150, 150), 3)
    if undone:
        layer.undo()
        layer.undo()
        layer.undo()
    source.gate.set()
    thread.join()
    state._update_slice_response(found[0])
    state._update_loaded_slice_id(request.id)
    picture = layer._slice.image.raw
    shown = [int(picture[i, i]) for i in (20, 100, 150)]
    assert shown == ([0, 0, 0] if undone else [1, 2, 3])
    np.testing.assert_array_equal(picture, np.asarray(layer.data))


@pytest.mark.parametrize(
    "order", [(0, 1, 2), (2, 0, 1), (1, None, 2), (None, 2, 1), (1, 2)]
)
def test_axes_are_read_in_another_order(order):
    pixels = np.arange(1 * 5 * 7).reshape(1, 5, 7)
    pixels = pixels if 0 not in order else np.arange(3 * 5 * 7).reshape(3, 5, 7)
    source = ArrayWindow(Memory(pixels, (2, 3, 4)), order)
    kept = [axis for axis in order if axis is not None]
    expected = pixels.transpose(kept + [a for a in range(3) if a not in kept])
    expected = expected.reshape(source.shape)
    whole = tuple((0, n) for n in source.shape)
    np.testing.assert_array_equal(source.read(whole), expected)
    box = tuple((min(1, n - 1), n) for n in source.shape)
    part = source.read(box)
    np.testing.assert_array_equal(part, expected[tuple(slice(*s) for s in box)])


def test_an_axis_of_several_elements_is_not_dropped():
    with pytest.raises(ValueError, match="one element"):
        ArrayWindow(Memory(np.zeros((3, 4, 5))), (1, 2))


@pytest.mark.parametrize("level", [0, 1, 2])
def test_new_labels_lie_on_their_image(level):
    image = Image(
        [np.zeros(s, "u1") for s in [(6, 40, 64), (6, 20, 32), (3, 10, 16)]],
        multiscale=True,
        scale=(2, 0.5, 0.25),
        translate=(1, 2, 3),
        rotate=np.array([[1, 0, 0], [0, 0.8, -0.6], [0, 0.6, 0.8]]),
        shear=(0, 0, 0.2),
        units=("um", "um", "um"),
        axis_labels=("z", "y", "x"),
        affine=np.array(
            [[1, 0, 0, 5], [0, 0.9, 0.1, 6], [0, -0.1, 1.1, 7], [0, 0, 0, 1]]
        ),
        contrast_limits=(0, 1),
    )
    labels = new_labels(image, "nuclei", level=level)
    assert [x.shape for x in labels.data] == [x.shape for x in image.data[level:]]
    assert labels.units == image.units
    assert labels.axis_labels == image.axis_labels
    assert labels.dtype == "uint16"
    # Corners of the whole are the same, half a voxel off the outermost middles.
    theirs, ours = (np.array(x.data.shape) for x in (image, labels))
    for corner in ((0, 0, 0), (1, 1, 1), (1, 0, 1)):
        np.testing.assert_allclose(
            labels.data_to_world(np.multiply(ours, corner) - 0.5),
            image.data_to_world(np.multiply(theirs, corner) - 0.5),
        )


def test_new_labels_of_a_file(image):
    layers = [x if isinstance(x, Layer) else Layer.create(*x) for x in opened(image)]
    labels = new_labels(layers[0])
    assert labels.data.shape == (2, 64, 96)
    assert labels.data[0].chunks == layers[3].data[0].chunks
    target = labels.metadata[TARGET]
    assert (target.name, target.level) == ("labels", 0)
    assert target.node is not None
    with pytest.raises(ValueError, match="already"):
        new_labels(layers[0], "Nuclei")
    with pytest.raises(ValueError, match="no level 9"):
        new_labels(layers[0], level=9)
    assert free_name(layers[0], ["labels"]) == "labels-2"


def test_new_labels_of_plain_images():
    large = np.broadcast_to(np.uint8(0), (9000, 7001))
    labels = new_labels(Image(large, contrast_limits=(0, 1)))
    shapes = [level.shape for level in labels.data]
    assert shapes[:2] == [(9000, 7001), (4500, 3501)]
    assert max(shapes[-1]) <= 1024
    assert labels.data[0].chunksize == (512, 512)
    photo = new_labels(Image(np.zeros((30, 40, 3), "u1"), rgb=True))
    assert photo.data.shape == (30, 40)


def test_after_a_save_the_screen_shows_what_the_file_has(image, tmp_path):
    path = shutil.copytree(image, tmp_path / "a.ome.zarr")
    model = ViewerModel()
    for one in opened(path):
        model.add_layer(as_layer(one) if isinstance(one, tuple) else one)
    layer = next(one for one in model.layers if isinstance(one, OMEZarrLabels))
    layer.locked_data_level = 1
    layer.brush_size = 1
    model.dims.set_point(0, 0)
    layer.data_setitem((np.array([0] * 9), np.array([9] * 9), np.arange(5, 14)), 77)
    name = layer.metadata[KEY].node.location.path

    def seen():
        return np.array(layer._slice.image.raw)

    def stored(level):
        return zarr.open_array(path / name / str(level), mode="r")[...]

    assert (seen() == 77).any()
    assert layer.saver.save_now()
    np.testing.assert_array_equal(seen(), stored(1)[0])
    for level in range(len(layer.data)):
        np.testing.assert_array_equal(layer.data[level], stored(level))
