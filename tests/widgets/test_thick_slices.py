"""Images with thickness: workers read the sections and join them, coarse ones first."""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest
import zarr
from napari.layers.image._slice import _ImageSliceRequest

from mouse import camera, canvas, pump, until
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.streaming import pixel_fetcher
from napari_ngff.viewer.streaming.streamed_levels import are_pixels_coming
from napari_ngff.viewer.streaming.streamed_view import SectionJoin
from patience import PATIENCE
from plates import write_image
from unreliable import Handler, serving

SIZE, PLANES, LEVELS, CHUNK = 2048, 6, 4, 256

JOINS = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}

gate = threading.Event()
"""Chunks of pixels are read while it is set."""


class GateHandler(Handler):
    def do_GET(self):
        if self.path.rpartition("/")[2].isdecimal():
            gate.wait(PATIENCE)
        super().do_GET()


@functools.cache
def pixels_of(level):
    """Axes czyx; a value tells its place and its level."""
    rows, columns = np.mgrid[: SIZE : 2**level, : SIZE : 2**level]
    plane = (rows + 2 * columns) // 8 + level
    sections = [plane * (1 + z % 3) + 1000 * z for z in range(PLANES)]
    return np.stack([np.stack(sections) + 7000 * c for c in range(2)]).astype("uint16")


def write_cells(folder):
    write_image(folder, np.zeros((2, PLANES, 64, 64), "uint16"), 3, "czyx", LEVELS)
    for level in range(LEVELS):
        zarr.create_array(
            folder / str(level), data=pixels_of(level), overwrite=True,
            chunks=(1, 1, CHUNK, CHUNK),
        )  # fmt: skip


@pytest.fixture
def joiners(monkeypatch):
    """Threads that joined sections, by napari's way and by ours."""
    project, join, threads = _ImageSliceRequest._project_slice, SectionJoin.join, set()

    def note_join(self, pixels):
        if pixels.size > PLANES:  # else of fill values
            threads.add(threading.current_thread())
        return join(self, pixels)

    def note_project(data, axis, mode):
        if any(data.shape[i] > 1 for i in axis):
            threads.add(threading.current_thread())
        return project(data, axis, mode)

    monkeypatch.setattr(SectionJoin, "join", note_join)
    monkeypatch.setattr(
        _ImageSliceRequest, "_project_slice", staticmethod(note_project)
    )
    return threads


@pytest.fixture(params=["server", "disk"])
def cells(request, viewer, tmp_path, monkeypatch):
    """Two layers of an image, at rest, whose chunks come when the gate is open."""
    get = FolderStore.read

    def get_later(self, key, *arguments):
        if request.param == "disk" and key.rpartition("/")[2].isdecimal():
            gate.wait(PATIENCE)
        return get(self, key, *arguments)

    monkeypatch.setattr(FolderStore, "read", get_later)
    if request.param == "server":
        pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    write_cells(tmp_path / "cells.ome.zarr")
    gate.set()
    with serving(tmp_path, GateHandler) as server:
        where = server.address if request.param == "server" else str(tmp_path)
        viewer.open(f"{where}/cells.ome.zarr", plugin="napari-ngff")
        viewer.dims.set_current_step(0, 2)
        pump(300)  # the camera is fitted until the window has its size
        until(lambda: not are_pixels_coming())
        monkeypatch.setattr(pixel_fetcher, "WAIT", 0.02)
        monkeypatch.setattr(pixel_fetcher, "WAIT_TOGETHER", 0.03)
        yield viewer.layers
        gate.set()
        until(lambda: not are_pixels_coming())


def thicken(viewer, mode, steps=4):
    """Project the sections from two before to two after the one of the slider."""
    for layer in viewer.layers:
        layer.projection_mode = mode
    viewer.dims.thickness = (steps * viewer.dims.range[0].step, *(0,) * 2)


def drawn_and_true(layer, mode, sections=slice(0, 5)):
    """Pixels that napari has on the canvas, and the projection of those of the file."""
    (top, left), (bottom, right) = layer.corner_pixels[:, -2:]
    stack = pixels_of(layer.data_level)[layer.metadata[KEY].channel, sections]
    part = stack[:, top : bottom + 1, left : right + 1]
    return layer._slice.image.raw, JOINS[mode](part, axis=0)


def is_true(layer, mode, **more):
    raw, truth = drawn_and_true(layer, mode, **more)
    return raw.dtype == truth.dtype and np.array_equal(raw, truth)


def look_close(viewer, y, x):
    camera(viewer).zoom, camera(viewer).center = 3, (0, y / 2, x / 2)
    canvas(viewer)._scene_canvas.update()


@pytest.mark.long
@pytest.mark.parametrize("mode", JOINS)
def test_workers_join_sections_and_coarse_ones_stand_for_them(
    viewer, cells, joiners, mode
):
    thicken(viewer, mode)
    until(lambda: all(is_true(layer, mode) for layer in cells))
    gate.clear()
    cache.clear()
    look_close(viewer, 500, 500)
    until(lambda: cells[0].data_level == 0)
    raw, truth = drawn_and_true(cells[0], mode)
    assert raw.shape == truth.shape
    assert not np.array_equal(raw, truth)
    # What stands there until then is the same place of a coarser level.
    near = 15 * (5 if mode == "sum" else 1)
    assert np.abs(raw.astype(float) - truth).max() <= near
    gate.set()
    until(lambda: all(is_true(layer, mode) for layer in cells))
    assert joiners
    assert threading.main_thread() not in joiners


@pytest.mark.default_cases("server")
def test_values_of_joined_sections_are_never_coarse(viewer, cells):
    thicken(viewer, "mean")
    until(lambda: is_true(cells[1], "mean"))
    gate.clear()
    cache.clear()
    look_close(viewer, 600, 400)
    until(lambda: cells[1].data_level == 0)
    _, truth = drawn_and_true(cells[1], "mean")
    top, left = cells[1].corner_pixels[0, -2:]

    def values():
        return [
            (cells[1].get_value((2, top + y, left + x))[1], truth[y, x])
            for y, x in np.ndindex(*(n // 20 for n in truth.shape))
        ]

    assert any(value is None for value, _ in values())
    assert all(value in (None, true) for value, true in values())
    gate.set()
    until(lambda: is_true(cells[1], "mean"))
    assert all(value == true for value, true in values())


@pytest.mark.long
def test_a_step_of_the_slider_and_another_projection_show_no_others(viewer, cells):
    thicken(viewer, "max")
    until(lambda: is_true(cells[0], "max"))
    viewer.dims.set_current_step(0, 3)
    until(lambda: is_true(cells[0], "max", sections=slice(1, 6)))
    thicken(viewer, "min", 2)
    until(lambda: is_true(cells[0], "min", sections=slice(2, 5)))
    thicken(viewer, "none", 0)
    plane = pixels_of(cells[0].data_level)[0, 3]
    until(lambda: np.array_equal(cells[0]._slice.image.raw, plane))


@pytest.mark.long
@pytest.mark.default_cases("server")
def test_a_screenshot_waits_for_all_sections(viewer, cells):
    thicken(viewer, "sum")
    until(lambda: is_true(cells[0], "sum"))
    gate.clear()
    cache.clear()
    look_close(viewer, 500, 500)
    until(lambda: cells[0].data_level == 0)
    threading.Timer(0.2, gate.set).start()
    viewer.screenshot(flash=False)
    assert is_true(cells[0], "sum")
    assert is_true(cells[1], "sum")
