"""Local labels that are read slowly: coarse at once, then true; never in the window."""

from __future__ import annotations

import functools
import shutil
import threading
import time

import numpy as np
import pytest
import zarr
from numcodecs import Zlib
from slow_codec import SlowCodec

from journals import discard_edits
from mouse import camera, canvas, pump, until
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.store.sources.blob import Blob
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.streaming import pixel_fetcher
from napari_ngff.viewer.streaming.streamed_levels import are_pixels_coming
from patience import PATIENCE
from plates import write_image

SIZE, PLANES, LEVELS, DELAY = 2048, 3, 4, 0.03

readers = set()
"""Threads that read chunks of labels."""

gate = threading.Event()
"""Chunks are read while it is set."""


def pass_gate():
    readers.add(threading.current_thread())
    time.sleep(DELAY)
    gate.wait(PATIENCE)


CODECS = {"disk": Zlib(1), "codec": SlowCodec(1000 * DELAY)}


@functools.cache
def labels_of(level):
    """Blocks of 100 x 100 pixels, other ones in each plane, and in each level."""
    rows, columns = np.mgrid[: SIZE : 2**level, : SIZE : 2**level]
    plane = (rows // 100 * 100 + columns // 100 + 1 + 10_000 * level).astype("uint32")
    return np.stack([plane + 100_000 * z for z in range(PLANES)])


def write_cells(folder, codec):
    small = np.zeros((1, PLANES, 64, 64), "uint16")
    write_image(folder, small, 2, "czyx", levels=LEVELS, labels=("nuclei",))
    for level in range(LEVELS):
        keywords = {
            "zarr_format": 2, "overwrite": True,
            "chunk_key_encoding": {"name": "v2", "separator": "/"},
        }  # fmt: skip
        label = folder / "labels" / "nuclei" / str(level)
        zarr.create_array(
            label, data=labels_of(level), chunks=(1, 256, 256), compressors=codec,
            **keywords,
        )  # fmt: skip
        image = np.zeros((1, PLANES, SIZE >> level, SIZE >> level), "uint16")
        zarr.create_array(
            folder / str(level), data=image, chunks=(1, 1, 2048, 2048), **keywords
        )


@pytest.fixture
def slow_disk(monkeypatch):
    """A disk that takes its time for each chunk of labels."""
    get = FolderStore.read

    def get_slowly(self, key, *arguments):
        if "nuclei" in key and key.rpartition("/")[2].isdecimal():
            pass_gate()
        return get(self, key, *arguments)

    monkeypatch.setattr(FolderStore, "read", get_slowly)


@pytest.fixture(scope="module")
def stored_cells(tmp_path_factory):
    """Write an image and its labels once for each codec."""

    @functools.cache
    def write_once(name):
        folder = tmp_path_factory.mktemp(name) / "cells.ome.zarr"
        write_cells(folder, CODECS[name])
        return folder

    return write_once


@pytest.fixture(params=CODECS)
def labels(request, viewer, tmp_path, stored_cells, monkeypatch, slow_disk):
    """Labels whose chunks take 30 ms each, at rest in the first plane."""
    monkeypatch.setattr(pixel_fetcher, "WAIT", 0.02)
    monkeypatch.setattr(pixel_fetcher, "WAIT_TOGETHER", 0.03)
    shutil.copytree(stored_cells(request.param), tmp_path / "cells.ome.zarr")
    readers.clear()
    gate.set()
    viewer.open(str(tmp_path / "cells.ome.zarr"), plugin="napari-ngff")
    viewer.dims.set_current_step(0, 0)
    pump(300)  # the camera is fitted until the window has its size
    until(lambda: not are_pixels_coming())
    yield viewer.layers["nuclei"]
    gate.set()
    until(lambda: not are_pixels_coming())


def look(viewer, y, x):
    camera(viewer).zoom, camera(viewer).center = 2, (0, y / 2, x / 2)
    canvas(viewer)._scene_canvas.update()


def drawn(layer, z=0):
    """Labels on the canvas, and those of the file there."""
    (top, left), (bottom, right) = layer.corner_pixels[:, -2:]
    truth = labels_of(layer.data_level)[z, top : bottom + 1, left : right + 1]
    return layer._slice.image.raw, truth


def is_whole(layer, z=0):
    """Return whether level 0 is on the canvas, true and in its colours."""
    raw, truth = drawn(layer, z)
    colors = layer._slice.image.view
    return (
        layer.data_level == 0
        and np.array_equal(raw, truth)
        and np.array_equal(colors, layer._raw_to_displayed(raw))
    )


def is_coarse(layer):
    raw, truth = drawn(layer)
    return layer.data_level == 0 and not np.array_equal(raw, truth)


@pytest.mark.long
@pytest.mark.default_cases("codec")
def test_a_pan_shows_coarse_labels_and_then_the_true_ones(viewer, labels):
    gate.clear()
    look(viewer, 600, 600)
    until(lambda: is_coarse(labels))
    raw, truth = drawn(labels)
    assert (raw % 10_000 == truth).mean() > 0.9, "of a coarser level, in their place"
    gate.set()
    until(lambda: is_whole(labels))
    viewer.dims.set_current_step(0, 2)
    until(lambda: is_whole(labels, 2))
    assert readers
    assert threading.main_thread() not in readers


@pytest.mark.default_cases("disk")
def test_values_are_never_coarse_and_code_gets_true_labels(viewer, labels):
    gate.clear()
    look(viewer, 1000, 1400)
    until(lambda: is_coarse(labels))
    (top, left), (bottom, right) = labels.corner_pixels[:, -2:]
    found = [
        (labels.get_value((0, y, x))[1], labels_of(0)[0, y, x])
        for y in range(top, bottom, 20)
        for x in range(left, right, 20)
    ]
    assert any(value is None for value, _ in found)
    assert all(value in (None, truth) for value, truth in found)
    gate.set()
    part = np.asarray(labels.data[0][0, 900:1100, 1300:1500])
    assert np.array_equal(part, labels_of(0)[0, 900:1100, 1300:1500])
    until(lambda: is_whole(labels))
    assert labels.get_value((0, top, left)) == (0, labels_of(0)[0, top, left])


@pytest.mark.long
@pytest.mark.default_cases("codec")
def test_a_screenshot_waits_for_the_true_labels(viewer, labels):
    gate.clear()
    look(viewer, 600, 600)
    until(lambda: is_coarse(labels))
    threading.Timer(0.2, gate.set).start()
    viewer.screenshot(flash=False)
    assert is_whole(labels)


@pytest.mark.long
@pytest.mark.parametrize("labels", ["disk"], indirect=True)
def test_after_a_save_labels_still_come_in_workers(viewer, labels):
    look(viewer, 600, 600)
    until(lambda: is_whole(labels))
    labels.paint((0, 600, 600), 77)
    labels.saver.save()
    until(lambda: not labels.unsaved)
    readers.clear()
    gate.clear()
    look(viewer, 1500, 1500)
    until(lambda: is_coarse(labels))
    gate.set()
    until(lambda: is_whole(labels))
    look(viewer, 600, 600)
    until(lambda: labels._slice.image.raw[centre_of(labels, 600, 600)] == 77)
    assert readers
    assert threading.main_thread() not in readers


@pytest.mark.long
@pytest.mark.parametrize("sidecar", [False, True], ids=["image", "sidecar"])
def test_new_labels_come_in_workers_after_their_first_save(viewer, labels, sidecar):
    image = next(one for one in viewer.layers if one._type_string == "image")
    new = new_labels(image, "new-nuclei", sidecar=sidecar)
    viewer.add_layer(new)
    labels.visible = False
    # However large the window is, another level is shown later.
    look(viewer, 1000, 1000)
    until(lambda: new.data_level == 0)
    new.brush_size = 300
    new.paint((0, 1000, 1000), 77)
    new.saver.save()
    until(lambda: not new.unsaved)
    until(lambda: not are_pixels_coming())
    readers.clear()
    cache.clear()
    gate.clear()
    camera(viewer).zoom, camera(viewer).center = 0.3, (0, 450, 450)
    canvas(viewer)._scene_canvas.update()
    until(lambda: new.data_level > 0 and are_pixels_coming())
    pump(50)
    gate.set()
    until(lambda: not are_pixels_coming() and is_painted(new, 77))
    assert new.data_level > 0
    assert readers
    assert threading.main_thread() not in readers
    new.paint((0, 400, 400), 78)
    assert is_painted(new, 78)
    new.undo()
    until(lambda: is_painted(new, 77) and not is_painted(new, 78))
    discard_edits(new.saver)


def is_painted(layer, label):
    return (layer._slice.image.raw == label).any()


def centre_of(layer, y, x):
    top, left = layer.corner_pixels[0, -2:]
    return min(max(y - top, 0), layer._slice.image.raw.shape[0] - 1), min(
        max(x - left, 0), layer._slice.image.raw.shape[1] - 1
    )


@pytest.mark.parametrize("labels", ["disk"], indirect=True)
def test_strokes_on_coarse_labels_stay_when_the_true_ones_come(viewer, labels):
    gate.clear()
    look(viewer, 700, 700)
    until(lambda: is_coarse(labels))
    labels.paint((0, 700, 700), 77)
    assert labels._slice.image.raw[centre_of(labels, 700, 700)] == 77
    gate.set()
    until(lambda: not are_pixels_coming())
    assert labels._slice.image.raw[centre_of(labels, 700, 700)] == 77
    labels.undo()
    until(lambda: is_whole(labels))


@pytest.mark.long
@pytest.mark.parametrize("labels", ["codec"], indirect=True)
def test_labels_that_cannot_be_decoded_are_reported_once_and_read_again(
    viewer, labels, monkeypatch, reported
):
    get = FolderStore.read

    def get_rubbish(self, key, *arguments):
        blob = get(self, key, *arguments)
        is_chunk = "nuclei" in key and key[-1].isdecimal()
        return Blob(b"rubbish") if is_chunk else blob

    monkeypatch.setattr(FolderStore, "read", get_rubbish)
    look(viewer, 1300, 1300)
    until(lambda: reported and not are_pixels_coming())
    pump(200)
    assert len([one for one in reported if "incorrect header" in str(one)]) == 1
    monkeypatch.setattr(FolderStore, "read", get)
    for place in (500, 1300):
        look(viewer, place, place)
        until(lambda: is_whole(labels))
