"""Local images that are read slowly: coarse at once, then whole; fast ones as ever."""

from __future__ import annotations

import functools
import random
import threading
import time

import numpy as np
import pytest
import zarr
from numcodecs import Zlib
from slow_codec import SlowCodec

from mouse import camera, canvas, pump, until
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.streaming import pixel_fetcher
from napari_ngff.viewer.streaming.pixel_fetcher import local_fetcher, pixels_arrived
from plates import write_image

SIZE, PLANES, LEVELS = 2048, 4, 4
DELAY = 0.02
"""Seconds that each chunk takes."""


CODECS = {"disk": Zlib(1), "codec": SlowCodec(1000 * DELAY)}


@functools.cache
def pixels_of(level):
    """Axes czyx; a value tells its place and its level."""
    step = 2**level
    rows, columns = np.mgrid[:SIZE:step, :SIZE:step]
    plane = (rows + 2 * columns) // 8 + level
    return np.stack(
        [
            np.stack([plane + 5000 * c + 1000 * z for z in range(PLANES)])
            for c in range(2)
        ]
    ).astype("uint16")


def write_cells(folder, codec):
    small = np.zeros((2, PLANES, 64, 64), "uint16")
    write_image(folder, small, 2, "czyx", levels=LEVELS)
    for level in range(LEVELS):
        zarr.create_array(
            folder / str(level), data=pixels_of(level), chunks=(1, 1, 256, 256),
            overwrite=True, zarr_format=2, compressors=codec,
            chunk_key_encoding={"name": "v2", "separator": "/"},
        )  # fmt: skip


@pytest.fixture
def threads(monkeypatch):
    """Threads that read chunks, each of which takes its time."""
    get, found = FolderStore.read, set()

    def get_slowly(self, key, *arguments):
        if key.rpartition("/")[2].isdecimal():
            found.add(threading.current_thread())
            time.sleep(DELAY)
        return get(self, key, *arguments)

    monkeypatch.setattr(FolderStore, "read", get_slowly)
    yield found
    until(lambda: not local_fetcher.is_busy)


@pytest.fixture(scope="module")
def stored_cells(tmp_path_factory):
    """Write an image once for each codec; nothing here changes it."""

    @functools.cache
    def write_once(name):
        folder = tmp_path_factory.mktemp(name) / "cells.ome.zarr"
        write_cells(folder, CODECS[name])
        return folder

    return write_once


@pytest.fixture(params=CODECS)
def cells(request, viewer, stored_cells, monkeypatch, threads):
    """Two layers of an image whose chunks take 20 ms each, at rest."""
    monkeypatch.setattr(pixel_fetcher, "WAIT", 0.03)
    monkeypatch.setattr(pixel_fetcher, "WAIT_TOGETHER", 0.045)
    viewer.open(str(stored_cells(request.param)), plugin="napari-ngff")
    pump(300)  # the camera is fitted until the window has its size
    until(lambda: not local_fetcher.is_busy)
    threads.clear()
    return viewer.layers


def look(viewer, zoom, y, x):
    camera(viewer).zoom, camera(viewer).center = zoom, (0, y, x)
    canvas(viewer)._scene_canvas.update()


def drawn_and_true(viewer, layer):
    """Pixels that napari has on the canvas, and those of the file."""
    (top, left), (bottom, right) = layer.corner_pixels[:, -2:]
    channel, z = layer.metadata[KEY].channel, viewer.dims.current_step[0]
    plane = pixels_of(layer.data_level)[channel, z]
    return layer._slice.image.raw, plane[top : bottom + 1, left : right + 1]


def is_true(viewer, layer):
    return np.array_equal(*drawn_and_true(viewer, layer))


def is_at_rest(viewer):
    return not local_fetcher.is_busy and all(
        is_true(viewer, layer) for layer in viewer.layers
    )


@pytest.mark.long
@pytest.mark.default_cases("disk")
def test_a_pan_shows_coarse_pixels_and_then_the_true_ones(viewer, cells, threads):
    assert is_at_rest(viewer)
    look(viewer, 2, 500, 500)
    until(lambda: cells[0].data_level == 0)
    raw, truth = drawn_and_true(viewer, cells[0])
    assert raw.shape == truth.shape
    assert not np.array_equal(raw, truth)
    # What stands there until then is the same place of a coarser level.
    assert np.abs(raw.astype(int) - truth).max() <= 8
    until(lambda: is_at_rest(viewer))
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.default_cases("disk")
def test_code_gets_true_pixels_at_once(viewer, cells):
    look(viewer, 2, 500, 500)
    until(lambda: cells[0].data_level == 0)
    part = np.asarray(cells[1].data[0][2, 900:1100, 900:1100])
    assert np.array_equal(part, pixels_of(0)[1, 2, 900:1100, 900:1100])
    until(lambda: is_at_rest(viewer))


def value_at(layer, y, x):
    """Value of a place at level 0, as the status bar looks it up; None for none."""
    z = layer._slice_input.world_slice.point[0]
    found = layer.get_value((z, y / 2, x / 2), world=True, dims_displayed=[1, 2])
    return found[1]


@pytest.mark.default_cases("disk")
def test_values_are_never_coarse(viewer, cells):
    true = pixels_of(0)[0, viewer.dims.current_step[0]]
    places = [(y, x) for y in range(1000, 1160, 16) for x in range(900, 1100, 16)]

    def values():
        return [value_at(cells[0], *at) for at in places]

    assert None not in values()  # of the level on the screen
    look(viewer, 3, 1080 / 2, 1000 / 2)
    until(lambda: cells[0].data_level == 0)
    assert None in values()
    seen = []
    while local_fetcher.is_busy:
        seen += [
            (value, true[at])
            for value, at in zip(values(), places, strict=True)
            if value is not None
        ]
        pump(5)
    until(lambda: is_at_rest(viewer))
    assert all(value == truth for value, truth in seen)
    assert values() == [true[at] for at in places]


@pytest.mark.long
def test_a_screenshot_has_true_pixels(viewer, cells):
    look(viewer, 2, 500, 500)
    picture = viewer.screenshot(flash=False)
    assert cells[0].data_level == 0
    assert is_true(viewer, cells[0])
    assert is_true(viewer, cells[1])
    until(lambda: is_at_rest(viewer))
    pump(100)
    assert np.array_equal(viewer.screenshot(flash=False), picture)


@pytest.mark.long
@pytest.mark.default_cases("codec")
def test_at_rest_the_picture_is_what_is_read_at_once(viewer, cells):
    walk = random.Random(5)
    for _ in range(3):
        for _ in range(walk.randint(1, 6)):
            if walk.random() < 0.3:
                viewer.dims.set_current_step(0, walk.randrange(PLANES))
            y, x = walk.randrange(SIZE), walk.randrange(SIZE)
            look(viewer, walk.choice((0.3, 0.6, 1.2, 2, 4)), y / 2, x / 2)
            pump(walk.choice((0, 10, 40, 90)))
        until(lambda: is_at_rest(viewer))


@pytest.mark.long
def test_a_file_that_is_read_in_time_is_drawn_once(viewer, stored_cells):
    arrived = []
    pixels_arrived.connect(arrived.append)
    viewer.open(str(stored_cells("disk")), plugin="napari-ngff")
    for step in range(5):
        look(viewer, 2, 400 + 100 * step, 500)
        viewer.dims.set_current_step(0, step % PLANES)
        pump(30)
        assert is_at_rest(viewer)
    pixels_arrived.disconnect(arrived.append)
    assert not arrived
