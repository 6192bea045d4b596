"""Far files are opened while the window goes on, and can be cancelled."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from napari.utils.progress import progress
from qtpy.QtCore import Qt, QTimer
from qtpy.QtTest import QTest

from mouse import pump, until
from napari_ngff.errors import OMEZarrError
from napari_ngff.store.sources import remote_store as remote
from napari_ngff.store.sources import server_access
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from napari_ngff.widgets.activity_bar import ActivityBar
from napari_ngff.widgets.form_dialog import shown_form
from napari_ngff.widgets.forms import TITLE, show_open_url
from plates import pixels, write_image
from unreliable import HANG, OK, Handler, serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

LATENCY = 0.1


class SlowHandler(Handler):
    def do_GET(self):
        time.sleep(LATENCY)
        super().do_GET()


@pytest.fixture
def server(viewer, tmp_path):
    for name in ("cells", "others"):
        folder = tmp_path / f"{name}.ome.zarr"
        write_image(folder, pixels(1, (2, 64, 64)), 3, labels=("nuclei",))
    with serving(tmp_path, SlowHandler) as server:
        yield server
        server.answer = lambda path: OK
        server.over.set()
        until(lambda: not fetcher.is_busy)
    server_access.resume_reading()


def address(server, name="cells"):
    return f"{server.address}/{name}.ome.zarr"


def drop(viewer, path):
    viewer.window._qt_viewer._qt_open([path], stack=False)


def names(viewer):
    return [layer.name for layer in viewer.layers]


CELLS = ["cells: channel 0", "cells: channel 1", "nuclei"]


def test_a_script_gets_the_layers_and_the_window_goes_on(viewer, server, askers):
    beats = []
    timer = QTimer()
    timer.timeout.connect(lambda: beats.append(len(server.asked)))
    timer.start(5)
    layers = viewer.open(address(server), plugin="napari-ngff")
    timer.stop()
    assert [layer.name for layer in layers] == names(viewer) == CELLS
    assert len(set(beats)) > 3, "the window answered between the requests"
    assert askers
    assert threading.main_thread() not in askers
    assert np.array_equal(np.asarray(layers[1].data[0]), pixels(1, (2, 64, 64))[1])


def test_a_drop_returns_at_once(viewer, server, askers):
    drop(viewer, address(server))
    assert not viewer.layers
    until(lambda: names(viewer) == CELLS and not fetcher.is_busy)
    assert threading.main_thread() not in askers
    assert viewer.layers[0].source.path == address(server)
    # A second drop while the first is read.
    drop(viewer, address(server))
    drop(viewer, address(server, "others"))
    until(lambda: len(viewer.layers) == 9)


@pytest.mark.long
def test_a_failure_after_a_drop_is_shown(viewer, server, reported):
    drop(viewer, address(server, "gone"))
    until(lambda: reported)
    assert reported[0][0] == "Not opened: gone.ome.zarr"
    assert f"answered 404 Not Found for {address(server, 'gone')}." in reported[0][1]
    with pytest.raises((OMEZarrError, ValueError)):
        viewer.open(address(server, "gone"), plugin="napari-ngff")


def test_an_opening_can_be_cancelled(viewer, server, reported):
    server.answer = lambda path: HANG

    def bars():
        return [bar for bar in progress._all_instances if isinstance(bar, ActivityBar)]

    drop(viewer, address(server))
    until(bars)
    assert bars()[0].desc.startswith("Opening cells.ome.zarr")
    bars()[0].cancel()
    until(lambda: reported)
    assert "cancelled" in reported[0][1]
    assert not viewer.layers
    assert not bars()
    # One does not cancel the others, nor those that come later.
    server.answer = lambda path: OK
    drop(viewer, address(server))
    until(lambda: names(viewer) == CELLS)


def test_the_form_for_an_address_cancels_what_it_reads(viewer, server):
    form = show_open_url(viewer)
    cancel = form.cancel_button.native
    assert not cancel.isVisible()
    server.answer = lambda path: HANG
    form.address.value = address(server)
    QTest.mouseClick(form.button.native, Qt.MouseButton.LeftButton)
    until(lambda: server.asked and cancel.isVisible())
    QTest.mouseClick(cancel, Qt.MouseButton.LeftButton)
    until(lambda: form.button.enabled)
    text = f"{address(server)} was not opened: it was cancelled."
    assert (form.status.value, cancel.isVisible()) == (text, False)
    # The next try is not cancelled.
    server.answer = lambda path: OK
    QTest.mouseClick(form.button.native, Qt.MouseButton.LeftButton)
    until(lambda: names(viewer) == CELLS)


def test_a_failure_is_shown_although_the_form_was_closed(viewer, server, reported):
    server.answer = lambda path: HANG
    form = show_open_url(viewer)
    form.address.value = address(server)
    form.open_address()
    until(lambda: server.asked)
    QTest.keyClick(form.address.native, Qt.Key.Key_Escape)
    until(lambda: not shown_form(viewer, TITLE))
    server.answer = lambda path: 404
    server.over.set()  # those that hang are given up, and asked again
    until(lambda: reported)
    assert reported[0][0] == "Not opened: cells.ome.zarr"
    assert address(server) in reported[0][1]


@pytest.mark.long
def test_another_is_opened_while_one_waits(viewer, server, tmp_path):
    inner = []

    def open_others():
        inner.extend(viewer.open(address(server, "others"), plugin="napari-ngff"))
        local = str(tmp_path / "others.ome.zarr")
        inner.extend(viewer.open(local, plugin="napari-ngff"))

    QTimer.singleShot(50, open_others)
    layers = viewer.open(address(server), plugin="napari-ngff")
    assert [layer.name for layer in layers][:2] == CELLS[:2]
    assert len(inner) == 6
    assert len(viewer.layers) == 9


def test_the_window_is_closed_while_one_waits(viewer, server, monkeypatch):
    # On a slow machine closing takes long.
    monkeypatch.setattr(remote, "TIMEOUT", 600)
    server.answer = lambda path: HANG

    def close_once_asked():
        if server.asked:
            viewer.close()
        else:
            QTimer.singleShot(20, close_once_asked)

    QTimer.singleShot(0, close_once_asked)
    with pytest.raises(OMEZarrError, match="was closed"):
        viewer.open(address(server), plugin="napari-ngff")
    assert not server.over.is_set()  # the server has not answered
    pump(50)
