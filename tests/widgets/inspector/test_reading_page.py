"""The page *Reading* of the inspector: the counts of a server and of the page agree."""

from __future__ import annotations

import numpy as np
import pytest
import zarr

from mouse import pump, until
from napari_ngff.store.limits import size_text
from napari_ngff.viewer.samples import write_image as write_sample
from napari_ngff.viewer.streaming.streamed_levels import ahead_reader, fetcher
from napari_ngff.widgets.inspector.inspector_dock import READING, Inspector
from napari_ngff.widgets.inspector.pages import HINT
from plates import write_image
from range_server import serving_ranges

PLANES, SIZE, THICK = 24, 512, 8
"""Planes of the stack, and planes of each chunk."""


@pytest.fixture
def server(tmp_path):
    pytest.importorskip("aiohttp", reason="needs the extra [remote]")
    stack = np.random.default_rng(3).integers(0, 4000, (PLANES, SIZE, SIZE), "uint16")
    folder = tmp_path / "stack.ome.zarr"
    write_image(folder, stack, 3, "zyx", 2)
    for level in range(2):
        step = 2**level
        zarr.create_array(
            folder / str(level), data=stack[:, ::step, ::step],
            chunks=(THICK, 128, 128), overwrite=True,
        )  # fmt: skip
    with serving_ranges(tmp_path) as server:
        yield server


@pytest.fixture
def page(viewer):
    inspector = Inspector(viewer)
    viewer.window.add_dock_widget(inspector, name="Inspector", area="right")
    inspector.tabs.setCurrentIndex(READING)
    return inspector.reading


def rest():
    until(lambda: not fetcher.is_busy and not ahead_reader.is_running)


def shown(page):
    return {name: label.text() for name, label in page.lines.items()}


def chunks_asked(server):
    return [path for path, _ in server.asked if "/c/" in path]


def open_stack(viewer, server):
    viewer.open(f"{server.address}/stack.ome.zarr", plugin="napari-ngff")
    pump(300)  # the camera is fitted until the window has its size
    rest()


def test_the_page_and_the_server_count_the_same(viewer, page, server):
    open_stack(viewer, server)

    def agrees():
        lines, nbytes = shown(page), size_text(server.nbytes)
        return (
            lines["Requests"] == f"{len(server.asked)} ({nbytes} received)"
            and lines["Chunks read"].startswith(f"{len(chunks_asked(server))} (")
            and lines["Requests waiting"] == "0"
        )

    until(agrees)
    # The chunks below and above those on screen, although the next planes are on it.
    before = len(chunks_asked(server))
    ahead = {path.split("/c/")[1].split("/")[0] for path in chunks_asked(server)}
    assert ahead == {"0", "1", "2"}
    assert int(shown(page)["Read ahead"].split()[0]) > 0
    assert shown(page)["Read ahead"].endswith(", 0 used")
    # A step into the next chunk needs no request for what is in view.
    plane = viewer.dims.current_step[0]
    viewer.dims.set_current_step(0, plane + THICK)
    rest()
    used = 0

    def is_used():
        nonlocal used
        used = int(shown(page)["Read ahead"].split(", ")[1].split()[0])
        return used

    until(is_used)
    until(agrees)
    assert used <= before
    assert int(shown(page)["Chunks from memory"].split()[0]) >= used


@pytest.mark.long
def test_the_page_is_renewed_only_while_it_is_visible(viewer, page, server):
    open_stack(viewer, server)
    requests = f"{len(server.asked)} ("
    until(lambda: shown(page)["Requests"].startswith(requests))
    tabs = page.parent().parent().parent().parent()
    tabs.setCurrentIndex(0)
    np.asarray(viewer.layers[0].data[0])
    before = shown(page)
    pump(1300)
    assert shown(page) == before
    tabs.setCurrentIndex(READING)
    assert shown(page) != before


@pytest.mark.long
def test_local_files_and_other_layers(viewer, page, tmp_path):
    assert page.title.text() == HINT
    assert not page.lines
    path = write_sample(tmp_path / "cells.ome.zarr", shape=(1, 300, 300))
    viewer.open(str(path), plugin="napari-ngff")
    until(lambda: "cells.ome.zarr" in page.title.text())
    until(lambda: shown(page)["Chunks read"][0] != "0")
    assert "Requests" not in page.lines
    viewer.add_image(np.zeros((4, 4)))
    until(lambda: page.title.text() == HINT)
    assert not page.lines
