"""An archive on a server in a window: opened, drawn, painted on and replaced."""

from __future__ import annotations

import functools
import os
import shutil
import threading

import numpy as np
import pytest
import zarr

from mouse import camera, canvas, pump, until
from napari_ngff.labels.places import sidecar
from napari_ngff.store.arrays import region_read
from napari_ngff.store.disk_cache import DiskCache
from napari_ngff.store.sources import server_access
from napari_ngff.store.sources.kept_chunks import KeptChunks, keep_chunks
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.streaming.streamed_levels import fetcher, stream_of
from napari_ngff.widgets.form_dialog import close_form
from napari_ngff.widgets.forms import show_open_url
from plates import pixels, write_image, write_plate
from range_server import serving_ranges

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

SIZE, LEVELS = 2048, 4
LATENCY = 0.05
OLD = 1_700_000_000


@functools.cache
def pattern(version=1):
    rows, columns = np.mgrid[:SIZE, :SIZE]
    plane = rows + 2 * columns + 10_000 * version
    return np.stack([plane, plane + 3000]).astype("uint16")


@pytest.fixture(scope="module")
def stored_cells(tmp_path_factory):
    """Write a version of the image once: its folder, and an archive of it beside."""

    @functools.cache
    def write_once(version=1, shards=None):
        folder = tmp_path_factory.mktemp("cells")
        write_cells(folder, version, shards)
        return folder

    return write_once


def write_cells(folder, version, shards):
    """Write an image in small chunks, into an archive that is larger than its end."""
    root = folder / f"{version}.ome.zarr"
    data = pattern(version)
    write_image(root, data, 3, levels=LEVELS, labels=("nuclei",))
    for level in range(LEVELS):
        step = 2**level
        zarr.create_array(
            root / str(level), data=data[:, ::step, ::step], chunks=(1, 128, 128),
            shards=shards, compressors=None, overwrite=True,
        )  # fmt: skip
    pack_hierarchy(root, folder / "cells.ozx")
    os.utime(folder / "cells.ozx", (OLD + version, OLD + version))


@pytest.fixture
def server(viewer, tmp_path, stored_cells):
    shutil.copytree(stored_cells(), tmp_path, dirs_exist_ok=True)
    with serving_ranges(tmp_path) as server:
        server.latency = LATENCY
        yield server
        until(lambda: not fetcher.is_busy)
    server_access.resume_reading()


@pytest.fixture
def address(server):
    return f"{server.address}/cells.ozx"


NAMES = ["cells: channel 0", "cells: channel 1", "nuclei"]


def is_opened(viewer):
    return [layer.name for layer in viewer.layers] == NAMES


def look(viewer, zoom, y, x):
    camera(viewer).zoom, camera(viewer).center = zoom, (0, y, x)
    canvas(viewer)._scene_canvas.update()


def is_true(layer, version=1):
    """Return whether the canvas has the pixels of the file."""
    (top, left), (bottom, right) = layer.corner_pixels[:, -2:]
    step = 2**layer.data_level
    true = pattern(version)[layer.metadata[KEY].channel][::step, ::step]
    part = true[top : bottom + 1, left : right + 1]
    return np.array_equal(layer._slice.image.raw, part)


def wait_for_silence(server):
    """Wait until nothing more is read ahead."""
    before = -1
    while server.nbytes > before:
        before = server.nbytes
        pump(300)


def is_at_rest(viewer):
    images = viewer.layers[:2]
    finest = all(layer.data_level == 0 for layer in images)
    return finest and not fetcher.is_busy and all(map(is_true, images))


@pytest.mark.long
@pytest.mark.parametrize("shards", [None, (1, 512, 512)], ids=["chunks", "shards"])
def test_pixels_on_the_screen_are_those_of_the_file(
    viewer, server, address, tmp_path, askers, stored_cells, shards
):
    if shards:
        shutil.copy2(stored_cells(shards=shards) / "cells.ozx", tmp_path)
    layers = viewer.open(address, plugin="napari-ngff")
    assert is_opened(viewer)
    assert all(stream_of(layer) is not None for layer in layers)
    pump(300)  # the camera is fitted until the window has its size
    until(lambda: not fetcher.is_busy)
    assert all(map(is_true, viewer.layers[:2]))
    look(viewer, 2, 400, 500)
    until(lambda: is_at_rest(viewer))
    assert askers
    assert threading.main_thread() not in askers
    assert all(stated for _, stated in server.asked)
    assert np.array_equal(np.asarray(layers[1].data[0]), pattern()[1])
    assert np.array_equal(np.asarray(layers[2].data[0]), pattern()[0])


@pytest.mark.long
@pytest.mark.default_cases("folder")
@pytest.mark.parametrize("name", ["cells.ozx", "1.ome.zarr"], ids=["archive", "folder"])
def test_what_was_seen_before_is_not_sent_again(viewer, server, tmp_path, name):
    files = DiskCache(tmp_path / "kept", ".chunk", 2**29)
    keep_chunks(KeptChunks(files, keeps_private=False))
    try:
        sent = []
        for _ in range(2):
            server.nbytes = 0
            viewer.open(f"{server.address}/{name}", plugin="napari-ngff")
            pump(300)
            look(viewer, 2, 400, 500)
            until(lambda: is_at_rest(viewer))
            wait_for_silence(server)
            sent.append(server.nbytes)
            viewer.layers.clear()
            region_read.cache.clear()
    finally:
        keep_chunks(None)
    assert sent[1] < sent[0] / 4


@pytest.mark.long
def test_the_form_for_an_address(viewer, server, address):
    server.query = "token=s3cret"
    form = show_open_url(viewer)
    form.address.value = f"{address}?token=s3cret"
    form.open_address()
    until(lambda: is_opened(viewer) and not fetcher.is_busy)
    assert viewer.layers[0].source.path == address
    shown = [layer.name + repr(layer.metadata) for layer in viewer.layers]
    assert "s3cret" not in "".join(shown) + viewer.title + str(viewer.status)
    # Opened again without the token, also a group in it.
    viewer.layers.clear()
    viewer.open(f"{address}/labels/nuclei", plugin="napari-ngff")
    assert len(viewer.layers) == 1


@pytest.mark.long
def test_an_address_with_a_token_is_offered_to_this_reader(viewer, server, address):
    server.query = "token=s3cret"
    viewer.open(f"{address}?token=s3cret", plugin="napari-ngff")
    assert is_opened(viewer)


def test_a_failure_is_reported(viewer, server, address, monkeypatch):
    monkeypatch.setattr("napari_ngff.store.sources.http_server.LARGEST_WHOLE", 1000)
    server.ranges = False
    form = show_open_url(viewer)
    form.address.value = address
    form.open_address()
    until(lambda: form.button.enabled)
    assert "sends no parts of files" in form.status.value
    assert form.status.value.endswith("or have it unpacked on the server.")
    assert not viewer.layers
    close_form(form)
    pump(50)


@pytest.mark.long
def test_a_file_that_is_replaced_is_reported_and_never_mixed(
    viewer, server, address, tmp_path, reported, stored_cells
):
    viewer.open(address, plugin="napari-ngff")
    pump(300)
    until(lambda: not fetcher.is_busy)
    shutil.copy2(stored_cells(2) / "cells.ozx", tmp_path)
    assert viewer.layers[0].data_level > 0
    look(viewer, 2, 400, 500)
    until(lambda: reported)
    until(lambda: not fetcher.is_busy)
    assert "was changed on the server while it was open" in reported[0][1]
    assert reported[0][1].endswith("Close it, and open it again.")
    assert len(reported) < 4
    raw = viewer.layers[0]._slice.image.raw
    assert pattern(1)[0].max() < pattern(2)[0].min()
    assert raw.max() <= pattern(1)[0].max()
    viewer.layers.clear()
    viewer.open(address, plugin="napari-ngff")
    assert np.array_equal(np.asarray(viewer.layers[0].data[0]), pattern(2)[0])


@pytest.mark.long
def test_new_labels_are_saved_in_a_sidecar(viewer, address, tmp_path, monkeypatch):
    monkeypatch.setattr(sidecar, "sidecar_folder", lambda: tmp_path / "side")
    viewer.open(address, plugin="napari-ngff")
    layer = viewer.add_layer(new_labels(viewer.layers[0], "mine"))
    layer.selected_label = 7
    layer.paint((10, 10), 7)
    assert layer.saver.save_now()
    assert list((tmp_path / "side").glob("cells*/mine/0/c"))
    viewer.layers.clear()
    viewer.open(address, plugin="napari-ngff")
    assert np.asarray(viewer.layers["mine"].data[0])[10, 10] == 7


@pytest.mark.long
def test_a_plate(viewer, server, tmp_path):
    write_plate(tmp_path / "plate.zarr", fields=2, shape=(1, 32, 32))
    pack_hierarchy(tmp_path / "plate.zarr", tmp_path / "plate.ozx")
    viewer.open(f"{server.address}/plate.ozx", plugin="napari-ngff")
    until(lambda: not fetcher.is_busy)
    layer = viewer.layers[0]
    level = np.asarray(layer.data[0])
    field = pixels(4 * 50, (1, 32, 32))[0]
    windows = np.lib.stride_tricks.sliding_window_view(level, (32, 32))
    assert (windows[:, :, 0, 0] == field[0, 0]).any()
    assert any(
        np.array_equal(windows[tuple(at)], field)
        for at in np.argwhere(windows[:, :, 0, 0] == field[0, 0])
    )
