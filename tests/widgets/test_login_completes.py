"""What a server refused comes once it was given another login."""

from __future__ import annotations

import functools
from collections import Counter

import numpy as np
import pytest
import zarr

from locked_server import logins_sent, serving_locked
from mouse import camera, canvas, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.store.sources import server_access
from napari_ngff.store.sources.server_logins import make_login, set_login
from napari_ngff.viewer.streaming import outage_watch, streamed_view
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from napari_ngff.widgets.login_dialog import ask_login
from plates import write_image

pytest.importorskip("aiohttp", reason="needs the extra [remote]")
pytestmark = pytest.mark.usefixtures("no_logins")

SIZE, LEVELS = 2048, 4
OLD, NEW = "Bearer 0ld", "Bearer n3w"


@functools.cache
def pattern():
    rows, columns = np.mgrid[:SIZE, :SIZE]
    plane = rows + 2 * columns + 1
    return np.stack([plane, plane + 20_000]).astype("uint16")


@pytest.fixture(scope="module")
def stored_image(tmp_path_factory):
    """Folder of an image of two channels."""
    folder = tmp_path_factory.mktemp("stored")
    write_image(folder / "cells.ome.zarr", pattern(), 3, levels=LEVELS)
    for level in range(LEVELS):
        step = 2**level
        zarr.create_array(
            folder / "cells.ome.zarr" / str(level), data=pattern()[:, ::step, ::step],
            chunks=(1, 128, 128), overwrite=True,
        )  # fmt: skip
    return folder


@pytest.fixture
def server(viewer, stored_image, monkeypatch):
    monkeypatch.setattr(streamed_view, "RETRY_AFTER", 0.1)
    monkeypatch.setattr(outage_watch, "FIRST_PAUSE", 0.2)
    monkeypatch.setattr(outage_watch, "LONGEST_PAUSE", 0.2)
    use_workers()
    with serving_locked(stored_image, [OLD, NEW]) as server:
        set_login(server.address, make_login(token="0ld"))
        viewer.open(f"{server.address}/cells.ome.zarr", plugin="napari-ngff")
        pump(300)  # the camera is fitted until the window has its size
        until(lambda: not fetcher.is_busy)
        yield server
        until(lambda: not fetcher.is_busy)
    server_access.resume_reading()


def look(viewer, zoom, y, x):
    camera(viewer).zoom, camera(viewer).center = zoom, (0, y, x)
    canvas(viewer)._scene_canvas.update()


def is_true(layer, number):
    (top, left), (bottom, right) = layer.corner_pixels[:, -2:]
    raw = layer._slice.image.raw
    part = pattern()[number][top : bottom + 1, left : right + 1]
    return layer.data_level == 0 and np.array_equal(raw, part)


def refuse_pixels(viewer, server, reported):
    """Look at pixels that are refused."""
    server.wanted = [NEW]
    look(viewer, 1, 1000, 1000)
    until(lambda: viewer.layers[0].data_level == 0 and reported)
    until(lambda: not fetcher.is_busy)
    pump(100)
    assert not is_true(viewer.layers[0], 0)


def test_pixels_come_after_the_login(viewer, server, reported):
    refuse_pixels(viewer, server, reported)
    raw = viewer.layers[0]._slice.image.raw
    assert raw.min() > 0, "coarser pixels stay there"
    (result, text) = reported[0]
    host = server.address.removeprefix("http://")
    assert result.startswith(f"cells.ome.zarr: {host} refuses ")
    assert result.endswith(" They are asked for again after a login.")
    assert "The server refuses to give" in text
    assert "Log in to the server" in text
    assert "copy" not in text
    at = viewer.layers[0].corner_pixels[:, -2:].mean(axis=0)
    assert viewer.layers[0].get_value(tuple(at), world=False)[1] is None
    # Nobody asks again with a login that is refused; some servers lock an account.
    pump(800)
    look(viewer, 1, 1020, 1000)
    pump(200)
    until(lambda: not fetcher.is_busy)
    assert len(server.refused) == len(set(server.refused))
    sent = len(server.sent)
    # Nor after the login of another server.
    set_login("http://127.0.0.1:1", make_login(token="other"))
    pump(100)
    assert len(server.sent) == sent
    dialog = ask_login(viewer, server.address, lambda answer: None)
    dialog.lines["token"].setText("n3w")
    dialog.accept()
    until(lambda: all(map(is_true, viewer.layers, (0, 1))))
    assert logins_sent(server)[-1] == NEW


@pytest.mark.long
def test_a_wrong_login_asks_once(viewer, server, reported):
    refuse_pixels(viewer, server, reported)
    refused, messages = len(server.refused), len(reported)
    set_login(server.address, make_login(token="wr0ng"))
    until(lambda: len(server.refused) > refused)
    until(lambda: not fetcher.is_busy)
    pump(800)
    until(lambda: not fetcher.is_busy)
    assert max(Counter(server.refused).values()) == 2
    assert len(reported) == messages
    set_login(server.address, make_login(token="n3w"))
    until(lambda: all(map(is_true, viewer.layers, (0, 1))))
