"""Remote labels in a window: coarse at once, then true; nothing else is coarse."""

from __future__ import annotations

import functools
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import zarr

from mouse import camera, canvas, pump, until
from napari_ngff.viewer.painting.brush import pick_label
from napari_ngff.viewer.streaming.streamed_levels import fetcher
from plates import write_image
from unreliable import Handler, serving

pytest.importorskip("aiohttp", reason="needs the extra [remote]")

SIZE, LEVELS, LATENCY = 2048, 4, 0.1


class SlowHandler(Handler):
    def do_GET(self):
        time.sleep(LATENCY)
        super().do_GET()


@functools.cache
def labels_of(level):
    """Blocks of 100 x 100 pixels; the value also tells the level."""
    rows, columns = np.mgrid[: SIZE : 2**level, : SIZE : 2**level]
    return (rows // 100 * 100 + columns // 100 + 1 + 10_000 * level).astype("uint32")


def write_cells(folder):
    small = np.zeros((1, 64, 64), "uint16")
    write_image(folder, small, 3, levels=LEVELS, labels=("nuclei",))
    for level in range(LEVELS):
        chunks = {"chunks": (128, 128), "overwrite": True}
        label = folder / "labels" / "nuclei" / str(level)
        zarr.create_array(label, data=labels_of(level), **chunks)
        image = np.zeros((1, SIZE >> level, SIZE >> level), "uint16")
        chunks["chunks"] = 1, 512, 512
        zarr.create_array(folder / str(level), data=image, **chunks)


@pytest.fixture(scope="module")
def stored_image(tmp_path_factory):
    """Folder of an image with labels."""
    folder = tmp_path_factory.mktemp("stored")
    write_cells(folder / "cells.ome.zarr")
    return folder


@pytest.fixture
def labels(viewer, stored_image):
    """Labels on a server that takes 0.1 s for each answer, at rest."""
    with serving(stored_image, SlowHandler) as server:
        viewer.open(f"{server.address}/cells.ome.zarr", plugin="napari-ngff")
        pump(300)  # the camera is fitted until the window has its size
        until(lambda: not fetcher.is_busy)
        yield viewer.layers["nuclei"]
        until(lambda: not fetcher.is_busy)


def look(viewer, y, x):
    camera(viewer).zoom, camera(viewer).center = 2, (0, y / 2, x / 2)
    canvas(viewer)._scene_canvas.update()


def drawn(layer):
    """Labels on the canvas, and those of the file there."""
    (top, left), (bottom, right) = layer.corner_pixels[:, -2:]
    box = np.s_[top : bottom + 1, left : right + 1]
    return layer._slice.image.raw, labels_of(layer.data_level)[box]


def is_whole(layer):
    """Return whether a part of level 0 is on the canvas, true and in its colors."""
    raw, truth = drawn(layer)
    colors = layer._slice.image.view
    return (
        layer.data_level == 0
        and np.array_equal(raw, truth)
        and np.array_equal(colors, layer._raw_to_displayed(raw))
    )


def is_coarse(layer):
    return layer.data_level == 0 and (drawn(layer)[0] > 10_000).any()


def test_a_pan_shows_coarse_labels_and_then_the_true_ones(viewer, labels):
    look(viewer, 600, 600)
    until(lambda: is_coarse(labels))
    raw, truth = drawn(labels)
    same = raw % 10_000 == truth
    assert raw.shape == truth.shape
    assert same.mean() > 0.9, "blocks of a coarser level are in the same place"
    until(lambda: is_whole(labels) and not fetcher.is_busy)


@pytest.mark.long
def test_the_window_waits_for_no_answer(viewer, labels, askers):
    askers.clear()
    for step in range(6):
        look(viewer, 500 + 120 * step, 500 + 90 * step)
        pump(60)
    until(lambda: is_whole(labels) and not fetcher.is_busy)
    assert askers
    assert threading.main_thread() not in askers


@pytest.mark.long
def test_code_gets_true_labels_at_once(viewer, labels):
    look(viewer, 1200, 1200)
    until(lambda: is_coarse(labels))
    part = np.asarray(labels.data[0][1100:1300, 1100:1300])
    assert np.array_equal(part, labels_of(0)[1100:1300, 1100:1300])
    assert (
        labels.data[0][np.array([1500]), np.array([1500])] == labels_of(0)[1500, 1500]
    )


@pytest.mark.long
def test_values_and_picked_labels_are_never_coarse(viewer, labels):
    look(viewer, 1000, 1400)
    until(lambda: is_coarse(labels))
    found = set()
    (top, left), (bottom, right) = labels.corner_pixels[:, -2:]
    for y in range(top, bottom, 20):
        for x in range(left, right, 20):
            level, value = labels.get_value((y, x))
            assert level == 0
            assert value in (None, labels_of(0)[y, x])
            found.add(value is None)
    assert True in found
    # A label that is still to be read is picked when it is there.
    (top, left), _ = labels.corner_pixels[:, -2:]
    corner = next(
        (y, x)
        for y in range(top, bottom, 20)
        for x in range(left, right, 20)
        if labels.get_value((y, x))[1] is None
    )
    position = labels.data_to_world(corner)
    pick_label(labels, SimpleNamespace(position=position))
    until(lambda: labels.selected_label == labels_of(0)[corner])
    until(lambda: is_whole(labels))
    assert labels.get_value(corner) == (0, labels_of(0)[corner])


def test_edits_over_coarse_labels_stay(viewer, labels):
    labels.editable = True  # as those of a bucket
    look(viewer, 700, 700)
    until(lambda: is_coarse(labels))
    (top, left), (bottom, right) = labels.corner_pixels[:, -2:]
    at = (top + bottom) // 2, (left + right) // 2
    labels.paint(at, 77)
    # With the value that stands there for now, a stroke still changes the file.
    coarse = int(drawn(labels)[0][5, 5])
    labels.paint((top + 5, left + 5), coarse)
    seen = labels._slice.image.raw[at[0] - top, at[1] - left]
    assert seen == 77
    until(lambda: not fetcher.is_busy)
    raw, _ = drawn(labels)
    assert raw[at[0] - top, at[1] - left] == 77
    assert raw[5, 5] == coarse
    assert labels.data[0][np.array([top + 5]), np.array([left + 5])] == coarse
    labels.undo()
    labels.undo()
    until(lambda: is_whole(labels))
