"""Strokes that the X server itself makes: the pointer, the window, Qt and napari."""

from __future__ import annotations

import itertools
import os
import shutil

import numpy as np
import pytest
from napari.layers import Labels
from qtpy.QtWidgets import QApplication

from mouse import camera, canvas, on_canvas, pump, until
from napari_ngff.labels.canvas import Canvas
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from painting import Empty
from pointer import x

pytestmark = [
    pytest.mark.skipif(shutil.which("xdotool") is None, reason="needs xdotool"),
    pytest.mark.skipif(not os.environ.get("DISPLAY"), reason="needs an X server"),
]

SIDE = 100_000
MIDDLE = SIDE // 2


def place(viewer, point):
    """Pixel of the screen nearest to a world position (y, x), and where that lies."""
    native = canvas(viewer).native
    at = native.mapToGlobal(on_canvas(viewer, point).toPoint())
    local = native.mapFromGlobal(at)
    world = canvas(viewer).view.scene.transform.imap([local.x(), local.y(), 0, 1])
    return (at.x(), at.y()), (float(world[1]), float(world[0]))


@pytest.mark.long
@pytest.mark.parametrize("zoom", [2.0, 0.05, 0.006])
def test_the_pointer_paints_where_it_goes(viewer, zoom):
    if QApplication.platformName() != "xcb":
        pytest.skip("the window is not on the X server")
    use_workers()
    sizes = [(-(-SIDE // 2**k),) * 2 for k in range(9)]
    labels = viewer.add_layer(OMEZarrLabels(Canvas([Empty(s) for s in sizes])))
    labels.mode, labels.selected_label = "paint", 3
    camera(viewer).center = (0, MIDDLE, MIDDLE)
    camera(viewer).zoom = zoom
    viewer.window._qt_window.raise_()
    pump(300)
    labels.brush_size = size = round(14 / zoom)
    corners = [(-60, -80), (-60, 90), (70, 90), (70, -80)]
    way = [
        place(viewer, (MIDDLE + dy / zoom, MIDDLE + dx / zoom)) for dy, dx in corners
    ]
    x("mousemove", *way[0][0])
    x("mousedown", 1)
    for pixel, _ in way[1:]:
        x("mousemove", *pixel)
    x("mouseup", 1)
    until(lambda: len(labels._undo_history) == 1)
    points = [world for _, world in way]
    spread = np.linspace(-140, 140, 57) / zoom + MIDDLE
    around = np.array(np.meshgrid(spread, spread, indexing="ij")).reshape(2, -1)
    found = labels.canvas.levels[0].read_points(np.round(around).astype(int))
    away = distance(np.round(around).T, points)
    radius, pixel = size // 2 + 0.5, 1.5 / zoom + 1
    assert set(found[away < radius - pixel]) == {3}
    assert set(found[away > radius + pixel]) == {0}
    if zoom == 2:
        same_as_stock(labels, points, size)


def distance(points, way):
    """Distance of points, axes (point, axis), to a way of straight lines."""
    found = np.full(len(points), np.inf)
    for start, stop in itertools.pairwise(way):
        start, along = np.array(start), np.subtract(stop, start)
        part = np.clip((points - start) @ along / (along @ along), 0, 1)
        away = np.linalg.norm(points - start - part[:, None] * along, axis=1)
        found = np.minimum(found, away)
    return found


def same_as_stock(labels, points, size):
    """The voxels are those of napari's brush along the same way."""
    low, high = MIDDLE - 80, MIDDLE + 80
    stock = Labels(np.zeros((high - low,) * 2, "u2"))
    stock.mode, stock.brush_size = "paint", size
    points = [np.subtract(point, low) for point in points]
    for start, stop in zip([points[0], *points], points, strict=False):
        stock._draw(3, start, stop)
    ours = labels.canvas.read(0, ((low, high),) * 2)
    np.testing.assert_array_equal(ours, stock.data)
