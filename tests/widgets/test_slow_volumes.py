"""Volumes in 3D: the coarsest level at once, then the finest that fits."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import zarr

from mouse import camera, pump, until
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.streaming import pixel_fetcher, volume_fit
from napari_ngff.viewer.streaming.streamed_levels import are_pixels_coming
from plates import write_image

TIMES, DEPTH, SIZE, LEVELS = 3, 8, 128, 3


def pixels_of(level):
    """Axes tzyx; values tell their place and their level."""
    step = 2**level
    t, z, y, x = np.mgrid[:TIMES, :DEPTH, :SIZE:step, :SIZE:step]
    return (10_000 * t + 1000 * z + y + 2 * x + level).astype("uint16")


TRUTH = [pixels_of(level) for level in range(LEVELS)]


@pytest.fixture
def readers(monkeypatch):
    """Threads that read chunks, each of which takes its time."""
    get, found = FolderStore.read, set()

    def get_slowly(self, key, *arguments):
        if "/c/" in key:
            found.add(threading.current_thread())
            time.sleep(0.005)
        return get(self, key, *arguments)

    monkeypatch.setattr(FolderStore, "read", get_slowly)
    return found


@pytest.fixture
def stack(viewer, tmp_path, monkeypatch, readers):
    """A series of stacks, in 2D and at rest."""
    monkeypatch.setattr(pixel_fetcher, "WAIT", 0.03)
    monkeypatch.setattr(pixel_fetcher, "WAIT_TOGETHER", 0.045)
    viewer.window.resize(700, 560)  # drawn sooner
    folder = tmp_path / "stack.ome.zarr"
    write_image(folder, TRUTH[0], 3, "tzyx", levels=LEVELS)
    for level, pixels in enumerate(TRUTH):
        zarr.create_array(
            folder / str(level), data=pixels, chunks=(1, 1, 32, 32), overwrite=True
        )
    viewer.open(str(folder), plugin="napari-ngff")
    pump(300)
    until(lambda: not are_pixels_coming())
    readers.clear()
    yield viewer.layers[0]
    viewer.dims.ndisplay = 2
    until(lambda: not are_pixels_coming())


def is_true(viewer, layer, level):
    truth = TRUTH[level][viewer.dims.current_step[0]]
    return layer.data_level == level and np.array_equal(layer._slice.image.raw, truth)


@pytest.mark.long
def test_the_coarsest_level_is_followed_by_the_finest_that_fits(viewer, stack, readers):
    viewer.dims.ndisplay = 3
    assert stack.data_level == LEVELS - 1
    until(lambda: is_true(viewer, stack, 0))
    assert stack.locked_data_level == 0
    assert threading.main_thread() not in readers


def test_it_comes_when_the_camera_rests(viewer, stack, monkeypatch):
    monkeypatch.setattr(volume_fit, "CAMERA_REST", 0.5)
    viewer.dims.ndisplay = 3
    for step in range(20):
        camera(viewer).angles = (0, 0, 2 * step)
        pump(60)
        assert stack.data_level == LEVELS - 1
    until(lambda: is_true(viewer, stack, 0))


@pytest.mark.long
def test_another_time_is_coarse_first(viewer, stack, readers):
    viewer.dims.ndisplay = 3
    until(lambda: is_true(viewer, stack, 0))
    assert viewer.dims.current_step[0] == 1
    for time_point in (2, 0, 1):
        viewer.dims.set_current_step(0, time_point)
        assert stack.data_level == LEVELS - 1
        assert stack.locked_data_level is None
    until(lambda: is_true(viewer, stack, 0))
    assert threading.main_thread() not in readers


@pytest.mark.long
def test_back_in_2d_the_zoom_chooses(viewer, stack):
    viewer.dims.ndisplay = 3
    viewer.dims.ndisplay = 2
    pump(500)
    assert stack.locked_data_level is None
    viewer.dims.ndisplay = 3
    until(lambda: is_true(viewer, stack, 0))
    viewer.dims.ndisplay = 2
    assert stack.locked_data_level is None


@pytest.mark.long
def test_the_status_bar_names_the_level(viewer, stack):
    viewer.dims.ndisplay = 3
    until(lambda: is_true(viewer, stack, 0))
    viewer.layers.selection.active = stack
    status = stack.get_status((0, 0, 0, 0), world=True)
    reported = {"value": "0, 57", "coordinates": "stack [0 1 2]: 0, 57"}
    viewer.status = {**status, **reported}
    assert viewer.status["coordinates"] == "stack [0 1 2]: 57; level 0 of 0 to 2"
