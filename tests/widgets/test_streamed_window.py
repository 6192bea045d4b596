"""A remote image in a window: coarse at once, then whole, and the window goes on."""

from __future__ import annotations

import functools
import threading
import time

import numpy as np
import pytest
import zarr
from napari.utils.notifications import notification_manager

from mouse import camera, canvas, pump, until
from napari_ngff.store.sources import remote_store
from napari_ngff.store.threads import MOST
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.streaming import outage_watch, pixel_fetcher, streamed_view
from napari_ngff.viewer.streaming.streamed_levels import ahead_reader, fetcher
from plates import write_image
from unreliable import DROP, OK, Handler, serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

SIZE = 2048
LATENCY = 0.1

FINEST = 1.2
"""Zoom that shows level 0; at 1, napari takes level 0 or 1 as it rounds the view."""

CHUNK = 128


class SlowHandler(Handler):
    def do_GET(self):
        time.sleep(LATENCY)
        super().do_GET()


@functools.cache
def pattern(channels=2, size=SIZE):
    rows, columns = np.mgrid[:size, :size]
    plane = rows + 2 * columns
    return np.stack([plane + 20_000 * c for c in range(channels)]).astype("uint16")


def write_cells(folder, data, axes="cyx", levels=5):
    write_image(folder, data, 3, axes, levels)
    for level in range(levels):
        step = 2**level
        zarr.create_array(
            folder / str(level), data=data[:, ::step, ::step],
            chunks=(1, CHUNK, CHUNK), overwrite=True,
        )  # fmt: skip


@pytest.fixture(scope="module")
def stored_image(tmp_path_factory):
    """Folder of an image of two channels."""
    folder = tmp_path_factory.mktemp("stored")
    write_cells(folder / "cells.ome.zarr", pattern())
    return folder


@pytest.fixture
def remote_image(viewer, stored_image):
    """Two layers of an image on a server that takes 0.1 s for each answer."""
    with serving(stored_image, SlowHandler) as server:
        viewer.open(f"{server.address}/cells.ome.zarr", plugin="napari-ngff")
        pump(300)  # the camera is fitted until the window has its size
        until(lambda: not fetcher.is_busy)
        server.asked.clear()
        yield server
        until(lambda: not fetcher.is_busy)


def look(viewer, zoom, y, x):
    camera(viewer).zoom, camera(viewer).center = zoom, (0, y, x)
    canvas(viewer)._scene_canvas.update()


def drawn(layer):
    """Pixels that napari has on the canvas, and their level and box."""
    (top, left), (bottom, right) = layer.corner_pixels[:, -2:]
    return (
        layer._slice.image.raw,
        layer.data_level,
        np.s_[top : bottom + 1, left : right + 1],
    )


def is_true(layer):
    """Return whether the canvas has the pixels of the file."""
    raw, level, box = drawn(layer)
    channel = layer.metadata[KEY].channel
    step = 2**level
    return np.array_equal(raw, pattern()[channel][::step, ::step][box])


def is_at_rest(viewer):
    """Return whether a part of level 0 is on the canvas, whole and true."""
    finest = all(layer.data_level == 0 for layer in viewer.layers)
    return finest and not fetcher.is_busy and all(map(is_true, viewer.layers))


def test_a_pan_shows_coarse_pixels_and_then_the_true_ones(viewer, remote_image):
    assert viewer.layers[0].data_level > 0
    look(viewer, FINEST, 600, 600)
    until(lambda: not is_true(viewer.layers[0]))
    raw, level, box = drawn(viewer.layers[0])
    assert level == 0
    truth = pattern()[0][box]
    assert raw.shape == truth.shape
    # What stands there until then is the same place of a coarser level.
    assert np.abs(raw.astype(int) - truth).max() <= 3 * 8
    until(lambda: is_at_rest(viewer))


def test_opening_reads_no_level_that_is_not_shown(viewer, tmp_path):
    folder = tmp_path / "stack.ome.zarr"
    write_image(folder, np.ones((4, 64, 64), "uint16"), 3, "zyx", 4)
    for level in range(4):
        side = SIZE >> level
        zarr.create_array(
            folder / str(level), chunks=(1, CHUNK, CHUNK),
            data=np.broadcast_to(pattern(1, side), (4, side, side)), overwrite=True,
        )  # fmt: skip
    # What an empty window has: napari draws a corner of level 0 while it adds sliders.
    viewer.reset_view()
    camera(viewer).zoom = 1
    with serving(tmp_path, SlowHandler) as server:
        viewer.open(f"{server.address}/stack.ome.zarr", plugin="napari-ngff")
        pump(300)
        until(lambda: not fetcher.is_busy)
        layer = viewer.layers[0]
        raw, level, box = drawn(layer)
        np.testing.assert_array_equal(raw, pattern(1, SIZE >> level)[0][box])
        asked = {path.split("/")[2] for path in server.asked if "/c/" in path}
    assert asked == {str(level), "3"}


def test_the_chunks_of_all_layers_are_asked_for_at_once(
    viewer, stored_image, monkeypatch
):
    # No layer is asked for because requests of the other were given up.
    monkeypatch.setattr(remote_store, "TIMEOUT", 600)
    # On a slow machine the second layer asks long after the first.
    monkeypatch.setattr(pixel_fetcher, "APART", 0.05)
    waiting, gate = [], threading.Event()
    gate.set()

    class GatedHandler(Handler):
        def do_GET(self):
            waiting.append(self.path)
            gate.wait(600)
            super().do_GET()

    with serving(stored_image, GatedHandler) as server:
        viewer.open(f"{server.address}/cells.ome.zarr", plugin="napari-ngff")
        pump(300)
        until(lambda: not fetcher.is_busy)
        gate.clear()
        waiting.clear()
        # The first layer alone has more chunks here than requests at once.
        look(viewer, FINEST, 600, 600)
        finest = lambda: [x.split("/0/c/")[1][0] for x in waiting if "/0/c/" in x]  # noqa: E731
        try:
            until(lambda: len(finest()) == MOST)
            # The middle of both channels, not all of one of them.
            assert min(map(finest().count, "01")) > MOST // 4
        finally:
            gate.set()
        until(lambda: is_at_rest(viewer))


@pytest.mark.long
def test_the_window_waits_for_no_answer_while_it_is_panned(
    viewer, remote_image, askers
):
    askers.clear()
    for step in range(12):
        look(viewer, FINEST, 100 + 70 * step, 100 + 60 * step)
        pump(60)
    until(lambda: is_at_rest(viewer))
    assert askers
    assert threading.main_thread() not in askers


@pytest.mark.long
def test_code_gets_true_pixels_at_once(viewer, remote_image):
    look(viewer, FINEST, 1200, 1200)
    part = np.asarray(viewer.layers[1].data[0][900:1100, 900:1100])
    assert np.array_equal(part, pattern()[1][900:1100, 900:1100])


def keys_in(plane, box):
    """Ends of the addresses of the chunks of a box of a plane, at level 0."""
    rows, columns = (range(one.start // CHUNK, -(-one.stop // CHUNK)) for one in box)
    return {f"/0/c/{plane}/{y}/{x}" for y in rows for x in columns}


def asked_in(server, plane, box):
    """Those of them that were asked for."""
    keys = tuple(keys_in(plane, box))
    return [path for path in server.asked if path.endswith(keys)]


@pytest.mark.long
def test_the_next_plane_is_there_before_the_slider_moves(viewer, tmp_path):
    planes = pattern(5, 1024)
    write_cells(tmp_path / "stack.ome.zarr", planes, axes="zyx", levels=3)
    with serving(tmp_path, SlowHandler) as server:
        viewer.open(f"{server.address}/stack.ome.zarr", plugin="napari-ngff")
        viewer.dims.set_current_step(0, 2)
        pump(300)
        layer = viewer.layers[0]
        # A level that is shown whole would stay so.
        look(viewer, 0.5, 256, 256)
        until(lambda: layer.data_level > 0)
        look(viewer, 2, 256, 256)
        until(lambda: layer.data_level == 0 and not fetcher.is_busy)
        until(lambda: not ahead_reader.is_running)
        for plane in (3, 2, 1):
            server.asked.clear()
            viewer.dims.set_current_step(0, plane)
            raw, level, box = drawn(layer)
            assert level == 0
            assert np.array_equal(raw, planes[plane][box])
            until(lambda: not fetcher.is_busy and not ahead_reader.is_running)
            assert not asked_in(server, plane, box)
        # A pan by less than a chunk, too.
        server.asked.clear()
        look(viewer, 2, 256 + 60, 256 + 60)
        pump(100)
        raw, level, panned = drawn(layer)
        assert panned != box
        assert np.array_equal(raw, planes[1][panned])
        until(lambda: not fetcher.is_busy and not ahead_reader.is_running)
        assert not asked_in(server, 1, panned)


@pytest.mark.long
def test_what_is_panned_away_is_not_read(viewer, remote_image, monkeypatch):
    monkeypatch.setattr(remote_store, "TIMEOUT", 600)
    monkeypatch.setattr(ahead_reader, "read_around", lambda stream: None)
    gate, seen, last = threading.Event(), set(), set()

    def answer_late(path):
        gate.wait(600)
        return OK

    # Nothing comes while the view moves, however slow the machine is.
    remote_image.answer = answer_late
    try:
        for place in range(100, 1000, 100):
            look(viewer, FINEST, place, place)
            pump(60)
            _, level, box = drawn(viewer.layers[0])
            assert level == 0
            last = keys_in(0, box) | keys_in(1, box)
            seen |= last
    finally:
        gate.set()
    until(lambda: is_at_rest(viewer))
    finest = (x for x in remote_image.asked if "/0/c/" in x)
    chunks = {x[x.index("/0/c/") :] for x in finest}
    assert last <= chunks
    # Of what was left, only what was being read already.
    assert len(chunks - last) <= MOST < len(seen - last) / 2


@pytest.mark.long
def test_a_server_that_comes_back_is_asked_again(viewer, remote_image, monkeypatch):
    monkeypatch.setattr(streamed_view, "RETRY_AFTER", 0.2)
    remote_image.answer = lambda path: 418
    look(viewer, FINEST, 600, 600)
    until(lambda: viewer.layers[0].data_level == 0)
    until(lambda: not fetcher.is_busy)
    assert not is_true(viewer.layers[0])
    raw, _, box = drawn(viewer.layers[0])
    # The coarser picture stays, rather than empty squares.
    assert np.abs(raw.astype(int) - pattern()[0][box]).max() <= 3 * 8
    notification_manager.records.clear()
    remote_image.answer = lambda path: OK
    pump(300)
    look(viewer, FINEST, 640, 600)
    until(lambda: is_at_rest(viewer))


@pytest.mark.long
def test_what_is_on_screen_comes_once_the_server_is_back(viewer, tmp_path, monkeypatch):
    # napari does not slice again where the view stays within what it has sliced.
    monkeypatch.setattr(streamed_view, "RETRY_AFTER", 0.2)
    monkeypatch.setattr(outage_watch, "FIRST_PAUSE", 0.5)
    monkeypatch.setattr(outage_watch, "LONGEST_PAUSE", 0.5)
    planes = pattern(3, 1024) + 1
    write_cells(tmp_path / "stack.ome.zarr", planes, axes="zyx", levels=3)
    with serving(tmp_path) as server:
        port = server.server_port
        viewer.open(f"{server.address}/stack.ome.zarr", plugin="napari-ngff")
        viewer.dims.set_current_step(0, 0)
        pump(300)
        look(viewer, 2, 500, 500)
        layer = viewer.layers[0]
        until(lambda: layer.data_level == 0 and not fetcher.is_busy)
        server.answer = lambda path: DROP  # of connections that stay open
    viewer.dims.set_current_step(0, 2)
    pump(300)
    until(lambda: not fetcher.is_busy)
    raw, _, box = drawn(layer)
    assert not np.array_equal(raw, planes[2][box])
    assert layer.get_value((2, 900, 900), world=False)[1] is None
    pump(600)  # a notice counts first
    notification_manager.records.clear()
    pump(1500)
    assert not notification_manager.records  # asks again without a word
    with serving(tmp_path, port=port) as server:
        until(lambda: np.array_equal(drawn(layer)[0], planes[2][drawn(layer)[2]]))
        assert layer.get_value((2, 900, 900), world=False)[1] == planes[2][900, 900]
        until(lambda: not fetcher.is_busy)
