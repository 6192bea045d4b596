"""While chunks on the screen are missing, a sign says so, and a notice names them."""

from __future__ import annotations

import re

import numpy as np
import pytest
import zarr
from napari.utils.notifications import notification_manager
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from mouse import camera, canvas, drop_on_canvas, pump, until
from napari_ngff.plugin import use_workers
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.streaming import outage_watch, streamed_view
from napari_ngff.viewer.streaming.missing_parts import (
    MissingRetry,
    is_volume_shown,
    list_lost,
    read_chunks,
)
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from napari_ngff.widgets.status_signs import TRY_AGAIN, MissingSign, sign_of
from plates import write_image as write_plain
from unreliable import DROP, OK, serving

WINDOW = 1000, 750
SIZE = 1024


def write_stack(folder):
    """Write three planes in chunks of 128 x 128, at three levels."""
    rows, columns = np.mgrid[:SIZE, :SIZE]
    planes = np.stack([rows + 2 * columns + 5000 * n + 1 for n in range(3)])
    planes = planes.astype("uint16")
    write_plain(folder, planes, 3, "zyx", 3)
    for level in range(3):
        step = 2**level
        zarr.create_array(
            folder / str(level), data=planes[:, ::step, ::step],
            chunks=(1, 128, 128), overwrite=True,
        )  # fmt: skip
    return planes


def look(viewer, zoom, y, x):
    camera(viewer).zoom, camera(viewer).center = zoom, (0, y, x)
    canvas(viewer)._scene_canvas.update()


def sign_text(viewer):
    sign = sign_of(viewer, MissingSign)
    return sign.text() if sign is not None and sign.isVisible() else ""


def messages():
    return [str(record.message) for record in notification_manager.records]


def menu_of(viewer):
    """Open the menu of the sign by a click, and give its entries."""
    sign = sign_of(viewer, MissingSign)
    sign._menu.popup(sign.mapToGlobal(sign.rect().topLeft()))
    until(sign._menu.isVisible)
    return {action.text(): action for action in sign._menu.actions()}


@pytest.fixture
def short_pauses(monkeypatch):
    monkeypatch.setattr(streamed_view, "RETRY_AFTER", 0.2)
    monkeypatch.setattr(outage_watch, "FIRST_PAUSE", 0.5)
    monkeypatch.setattr(outage_watch, "LONGEST_PAUSE", 0.5)


def show_plane(viewer, tmp_path, server):
    viewer.open(f"{server.address}/stack.ome.zarr", plugin="napari-ngff")
    viewer.dims.set_current_step(0, 0)
    pump(300)
    look(viewer, 2, 500, 500)
    until(lambda: viewer.layers[0].data_level == 0 and not fetcher.is_busy)
    assert sign_text(viewer) == ""


def test_a_server_that_stops_is_named_until_all_is_there(
    viewer, tmp_path, short_pauses
):
    pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    use_workers()
    write_stack(tmp_path / "stack.ome.zarr")
    with serving(tmp_path) as server:
        port = server.server_port
        show_plane(viewer, tmp_path, server)
        notification_manager.records.clear()
        server.answer = lambda path: DROP
    viewer.dims.set_current_step(0, 2)
    until(lambda: sign_text(viewer))
    until(lambda: not fetcher.is_busy and messages())
    pump(600)
    count = int(re.fullmatch(r"(\d+) chunks missing", sign_text(viewer))[1])
    assert count >= 12
    first = messages()[0].partition("\n")[0]
    stated = re.fullmatch(
        rf"stack\.ome\.zarr: (\d+) chunks could not be read from 127\.0\.0\.1:{port}\."
        r" They are asked for again by themselves\.",
        first,
    )
    assert int(stated[1]) >= count
    assert len(messages()) == 1, "one notice for all of them"
    # It stays: there is no other sign that the picture is not the file.
    pump(1000)
    assert sign_text(viewer) == f"{count} chunks missing"
    tip = sign_of(viewer, MissingSign).toolTip()
    assert f"{count} chunks could not be read from 127.0.0.1:{port}" in tip
    # What is on the screen counts, not what failed before.
    viewer.dims.set_current_step(0, 0)
    until(lambda: sign_text(viewer) == "")
    viewer.dims.set_current_step(0, 2)
    until(lambda: sign_text(viewer) == f"{count} chunks missing")
    with serving(tmp_path, port=port):
        until(lambda: sign_text(viewer) == "")
        until(lambda: not fetcher.is_busy)


def test_a_click_lists_what_is_missing_and_reads_it_now(viewer, tmp_path):
    pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    use_workers()
    write_stack(tmp_path / "stack.ome.zarr")
    with serving(tmp_path) as server:
        port = server.server_port
        show_plane(viewer, tmp_path, server)
        server.answer = lambda path: DROP
    viewer.dims.set_current_step(0, 2)
    until(lambda: sign_text(viewer))
    until(lambda: not fetcher.is_busy)
    pump(600)
    with serving(tmp_path, port=port):
        entries = menu_of(viewer)
        assert list(entries)[-1] == TRY_AGAIN
        (what, *_) = entries
        assert what.startswith("stack.ome.zarr: ")
        # Long before the window asks again, which is after five seconds.
        entries[TRY_AGAIN].trigger()
        sign_of(viewer, MissingSign)._menu.close()
        until(lambda: sign_text(viewer) == "" and not fetcher.is_busy)


@pytest.mark.default_cases("image")
@pytest.mark.parametrize("painted", [False, True], ids=["image", "labels"])
def test_a_damaged_chunk_of_a_local_file_is_shown_as_such(viewer, tmp_path, painted):
    use_workers()
    notification_manager.records.clear()
    path = write_image(tmp_path / "cells.ome.zarr", shape=(512, 512))
    level = path / ("labels/nuclei/0" if painted else "0")
    chunk = max((p for p in level.rglob("*") if p.is_file() and "zarr" not in p.name
                 and not p.name.startswith(".")), key=str)  # fmt: skip
    whole = chunk.read_bytes()
    chunk.write_bytes(b"not a chunk")
    drop_on_canvas(viewer, path)
    until(lambda: len(viewer.layers))
    pump(300)
    until(lambda: sign_text(viewer) == "1 chunk damaged")
    until(messages)  # which waits a moment for further chunks
    place = "cells.ome.zarr/labels/nuclei" if painted else "cells.ome.zarr"
    assert f"{place}: 1 chunk is damaged. It stays empty." in messages()[-1]
    entries = menu_of(viewer)
    assert TRY_AGAIN not in entries, "asking again does not help"
    sign_of(viewer, MissingSign)._menu.close()
    # Repaired by hand, it is read when the view is drawn again.
    chunk.write_bytes(whole)
    for layer in viewer.layers:
        layer.refresh()
    until(lambda: sign_text(viewer) == "")
    # Or the image is closed.
    chunk.write_bytes(b"not a chunk")
    notification_manager.records.clear()


@pytest.mark.long
def test_the_sign_goes_with_the_layer(viewer, tmp_path):
    use_workers()
    path = write_image(tmp_path / "cells.ome.zarr", shape=(64, 64))
    for chunk in (path / "0").rglob("*"):
        if chunk.is_file() and "zarr" not in chunk.name:
            chunk.write_bytes(b"not a chunk")
    viewer.open(str(path), plugin="napari-ngff")
    until(lambda: "damaged" in sign_text(viewer))
    sign = sign_of(viewer, MissingSign)
    assert sign.isVisible()
    for layer in viewer.layers:
        layer.visible = False
    until(lambda: sign_text(viewer) == "")
    for layer in viewer.layers:
        layer.visible = True
    until(lambda: "damaged" in sign_text(viewer))
    QTest.mouseClick(viewer.window._qt_window, Qt.MouseButton.LeftButton)
    viewer.layers.clear()
    until(lambda: sign_text(viewer) == "")
    notification_manager.records.clear()


@pytest.mark.long
def test_the_sign_goes_where_the_last_chunk_comes_while_it_looks(
    viewer, tmp_path, monkeypatch
):
    use_workers()
    path = write_image(tmp_path / "cells.ome.zarr", shape=(64, 64))
    chunks = {}
    for chunk in (path / "0").rglob("*"):
        if chunk.is_file() and "zarr" not in chunk.name:
            chunks[chunk] = chunk.read_bytes()
            chunk.write_bytes(b"not a chunk")
    viewer.open(str(path), plugin="napari-ngff")
    until(lambda: "damaged" in sign_text(viewer))
    for chunk, content in chunks.items():
        chunk.write_bytes(content)

    def read_at_once(retry):
        read_chunks(list(list_lost(viewer)))
        assert not list(list_lost(viewer))

    monkeypatch.setattr(MissingRetry, "ask_sometimes", read_at_once)
    until(lambda: sign_text(viewer) == "")
    notification_manager.records.clear()


EMPTY = "/stack.ome.zarr/0/c/0/1/1"
"""A chunk that is not stored: it is in no cache, and each reader asks for it."""


@pytest.fixture
def volume(viewer, tmp_path):
    """A stack in 2D, whose finest level is a volume in 3D, and its server."""
    pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    use_workers()
    folder = tmp_path / "stack.ome.zarr"
    voxels = np.ones((16, SIZE, SIZE), "uint8")
    voxels[:, 256:512, 256:512] = 0
    write_plain(folder, voxels, 3, "zyx", 2)
    for level in range(2):
        step = 2**level
        zarr.create_array(
            folder / str(level), data=voxels[:, ::step, ::step],
            chunks=(16, 256, 256), overwrite=True,
        )  # fmt: skip
    assert not (tmp_path / EMPTY[1:]).exists()
    with serving(tmp_path) as server:
        viewer.open(f"{server.address}/stack.ome.zarr", plugin="napari-ngff")
        look(viewer, 2, 384, 384)
        until(lambda: viewer.layers[0].data_level == 0 and not fetcher.is_busy)
        pump(300)
        yield server
    notification_manager.records.clear()


def lose_empty_chunk(viewer, server):
    """Show the volume while the server does not answer for the empty chunk."""
    server.answer = lambda path: DROP if path == EMPTY else OK
    viewer.dims.ndisplay = 3
    until(lambda: sign_text(viewer) == "1 chunk missing")
    until(lambda: is_volume_shown(viewer.layers[0]))


@pytest.mark.long
@pytest.mark.parametrize("asks", [False, True], ids=["by itself", "by a click"])
def test_an_empty_chunk_of_a_volume_is_missing_until_the_server_answers(
    viewer, volume, monkeypatch, asks
):
    monkeypatch.setattr(outage_watch, "FIRST_PAUSE", 1000.0 if asks else 0.5)
    monkeypatch.setattr(outage_watch, "LONGEST_PAUSE", 1000.0 if asks else 0.5)
    lose_empty_chunk(viewer, volume)
    volume.answer = lambda path: OK  # 404 for the empty chunk: its fill value
    volume.asked.clear()
    if asks:
        menu_of(viewer)[TRY_AGAIN].trigger()
        sign_of(viewer, MissingSign)._menu.close()
    until(lambda: sign_text(viewer) == "")
    assert EMPTY in volume.asked


@pytest.mark.long
def test_a_chunk_that_comes_late_is_put_into_the_volume(viewer, volume, short_pauses):
    late = "/stack.ome.zarr/0/c/0/3/3"
    volume.answer = lambda path: DROP if path == late else OK
    cache.clear()  # it was read ahead
    viewer.dims.ndisplay = 3
    until(lambda: sign_text(viewer) == "1 chunk missing")
    layer = viewer.layers[0]
    until(lambda: is_volume_shown(layer) and not layer._slice.image.raw[0, -1, -1])
    volume.answer = lambda path: OK
    until(lambda: sign_text(viewer) == "")
    until(lambda: layer._slice.image.raw[0, -1, -1])


@pytest.mark.long
def test_what_another_reader_did_not_get_is_not_missing_on_the_screen(viewer, volume):
    lose_empty_chunk(viewer, volume)
    viewer.dims.ndisplay = 2  # there it was answered before
    until(lambda: sign_text(viewer) == "")
