"""A mosaic over HTTP: the same pixels, requests at once but not too many."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import unreliable
from napari_ngff import open_node
from napari_ngff.plate import kept_planes
from napari_ngff.plate.arrangement import ScreenArrangements
from napari_ngff.plate.mosaic import open_mosaic
from napari_ngff.plate.plate_contents import PlateContents
from napari_ngff.plate.plate_layout import map_plate
from napari_ngff.store.threads import MOST
from patience import until
from plates import write_plate

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

AT_ONCE = 8
"""Requests that must come together, or the server gives nothing."""


class Handler(unreliable.Handler):
    """Gives nothing before as many requests wait as the server wants."""

    def do_GET(self):
        server = self.server
        with server.lock:
            server.now += 1
            server.most = max(server.most, server.now)
        until(lambda: server.most >= server.wanted)
        try:
            super().do_GET()
        finally:
            with server.lock:
                server.now -= 1


@pytest.fixture
def served(tmp_path):
    folder = write_plate(
        tmp_path / "p", grid=(4, 6), wells=[f"{r}/{c}" for r in "ABD" for c in "12346"]
    )
    with unreliable.serving(tmp_path, Handler) as server:
        server.now = server.most = server.wanted = 0
        yield folder, f"{server.address}/p", server


def opened(where):
    node = open_node(where)
    wells = map_plate(node.metadata.plate).wells
    return open_mosaic(ScreenArrangements(PlateContents(node)), wells).pyramid.levels


def whole(source):
    return source.read(tuple((0, size) for size in source.shape))


def test_wells_are_read_at_once_from_a_server(served):
    folder, address, server = served
    levels = opened(address)
    server.asked.clear()
    server.most, server.wanted = 0, AT_ONCE
    picture = whole(levels[-1])
    np.testing.assert_array_equal(picture, whole(opened(folder)[-1]))
    assert AT_ONCE <= server.most <= MOST
    server.asked.clear()
    whole(levels[-1])
    assert server.asked == []


def test_a_well_that_is_not_there_is_asked_for_once(served):
    folder, address, server = served
    shutil.rmtree(folder / "D")
    levels = opened(address)
    server.asked.clear()
    whole(levels[-1])
    whole(levels[0])
    # All wells were looked at when the mosaic was opened: there are few.
    assert not [path for path in server.asked if path.startswith("/p/D/")]


def test_no_well_of_a_server_is_waited_for(served, monkeypatch):
    folder, address, server = served
    monkeypatch.setattr(kept_planes, "PLANE_BYTES", 1024)
    level, asked = opened(address)[0], []
    level.tiles.defer = lambda *what: asked.append(what) or True
    box = (0, 1), (20, 40), (20, 40)
    server.asked.clear()
    assert not level.read(box).any()
    assert not server.asked
    assert level.draw_box(asked[0][1])
    expected = opened(folder)[0].read(box)
    np.testing.assert_array_equal(level.read(box), expected)
    assert expected.any()
