"""A server that hangs after an image was opened: what is on this disk goes on."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from mouse import pump, until
from napari_ngff.labels.places.sidecar import address_of, sidecars_of
from napari_ngff.plugin import use_workers
from napari_ngff.store.sources import server_access
from napari_ngff.viewer.painting.new_labels import new_labels
from napari_ngff.viewer.plans.layer_plan import origin_of
from napari_ngff.viewer.streaming.streamed_levels import ahead_reader, are_pixels_coming
from plates import write_image
from unreliable import HANG, OK, serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

SHAPE = 3, 256, 300


@pytest.fixture
def remote_image(viewer, tmp_path, monkeypatch):
    """The layer of an image on a server, and the server."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    write_image(tmp_path / "cells.ome.zarr", np.ones(SHAPE, "uint16"), 3, "zyx", 2)
    use_workers()
    with serving(tmp_path) as server:
        viewer.open(f"{server.address}/cells.ome.zarr", plugin="napari-ngff")
        pump(200)
        until(lambda: not are_pixels_coming() and not ahead_reader.is_running)
        yield viewer.layers[0], server
        server.answer = lambda path: OK
        server.over.set()
        until(lambda: not are_pixels_coming() and not ahead_reader.is_running)
        server_access.resume_reading()


@pytest.mark.default_cases("1")
@pytest.mark.parametrize("level", [0, 1])
def test_a_first_save_into_a_sidecar_asks_no_server(viewer, remote_image, level):
    image, server = remote_image
    server.answer = lambda path: HANG
    server.asked.clear()
    labels = new_labels(image, "mine", level=level)
    viewer.add_layer(labels)
    labels.brush_size = 21
    labels.paint((1, 100 >> level, 120 >> level), 7)
    labels.saver.save()
    until(lambda: not labels.saver.running)
    assert labels.unsaved == 0
    assert not server.asked
    (sidecar,) = sidecars_of(address_of(origin_of(image).node))
    saved = zarr.open_array(sidecar / "mine" / "0", mode="r")
    assert saved.shape == image.data[level].shape
    assert np.array_equal(saved[...], np.asarray(labels.data[0]))
    assert (saved[1] == 7).sum() > 300
    labels.paint((2, 50, 60), 8)
    labels.saver.save()
    until(lambda: not labels.saver.running)
    assert labels.unsaved == 0
    assert (saved[2] == 8).sum() > 300
    assert not server.asked
