"""Measure painting in a real window; prints the tables as JSON, for `run.py`.

A step is what one move of the mouse costs napari's interpreter: ``Labels._draw``, from
coordinates to the changed part of the texture. Drawing the window is left out; it is
the same for all. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import tempfile
import time
import tracemalloc
from typing import Any

import napari
import numpy as np
import zarr

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.shapes import Stroke
from napari_ngff.plugin import use_workers
from napari_ngff.viewer.painting.paint import OMEZarrLabels

SIDE = 100_000
MOVES = 60
ZOOMS = (2.0, 0.05, 0.006)
BRUSHES = (10, 100, 2000)
SCREEN = 1000
"""Pixels that the view is at most wide."""


class Zeros:
    """A level that costs nothing to read."""

    def __init__(self, side: int) -> None:
        self.shape = (side, side)
        self.chunks = (512, 512)
        self.dtype = np.dtype("uint32")

    def read(self, box: Any) -> Any:
        return np.zeros([b - a for a, b in box], self.dtype)


def large() -> Canvas:
    return Canvas([Zeros(-(-SIDE // 2**k)) for k in range(9)])


def settle(seconds: float = 0.4) -> None:
    end = time.perf_counter() + seconds
    app = napari.qt.get_qapp()
    while time.perf_counter() < end:
        app.processEvents()
        time.sleep(0.005)


def stroke(layer: Any, middle: float, zoom: float, moves: int = MOVES) -> list[float]:
    """Milliseconds of each step of a wave, five pixels of the screen long.

    Of a brush larger than the screen, the edge that leads goes over it: else the first
    dab covers it, and the other steps have nothing to draw.
    """
    radius = layer.brush_size / 2
    behind = radius if radius * zoom > SCREEN else 0
    way = [
        (
            middle + 80 / zoom * np.sin(i / 6),
            middle - behind + (5 * i - 2.5 * moves) / zoom,
        )
        for i in range(moves + 1)
    ]
    times = []
    with layer.block_history():
        for start, stop in itertools.pairwise(way):
            begin = time.perf_counter()
            layer._draw(2, start, stop)
            times.append((time.perf_counter() - begin) * 1000)
            napari.qt.get_qapp().processEvents()
    return times


def once(function: Any) -> float:
    begin = time.perf_counter()
    function()
    return (time.perf_counter() - begin) * 1000


def rows_of(
    viewer: Any, layer: Any, side: int, zooms: Any, moves: int = MOVES
) -> list[str]:
    """One row per zoom and brush."""
    rows = []
    layer.mode = "paint"
    for zoom in zooms:
        viewer.scene.camera.center = (0, side / 2, side / 2)
        viewer.scene.camera.zoom = zoom
        settle()
        for brush in BRUSHES:
            layer.brush_size = brush
            stroke(layer, side / 2, zoom, 5)  # warms up
            layer.undo()
            times = sorted(stroke(layer, side / 2, zoom, moves))
            undo = once(layer.undo)
            median, high = statistics.median(times), times[int(len(times) * 0.95) - 1]
            rows.append(
                f"| {layer.name} | {zoom:g} | {brush} | {median:.1f} | {high:.1f} |"
                f" {undo:.1f} |"
            )
            print(rows[-1], file=sys.stderr, flush=True)
    viewer.layers.clear()
    return rows


def steps() -> str:
    use_workers()
    viewer = napari.Viewer(show_welcome_screen=False)
    viewer.window.resize(1200, 900)
    settle()
    head = ["| labels | zoom | brush | median, ms | 95 %, ms | undo, ms |"]
    head.append("|---|---:|---:|---:|---:|---:|")
    ours = viewer.add_layer(OMEZarrLabels(large(), name="napari-ngff, 100,000²"))
    rows = rows_of(viewer, ours, SIDE, ZOOMS)
    stock = viewer.add_labels(np.zeros((4096, 4096), "u4"), name="napari, numpy 4096²")
    rows += rows_of(viewer, stock, 4096, (2.0, 0.2))
    with tempfile.TemporaryDirectory() as folder:
        array = zarr.create_array(
            f"{folder}/a.zarr", shape=(16384,) * 2, chunks=(512, 512), dtype="u4"
        )
        array[...] = 1
        stock = viewer.add_labels(array, name="napari, zarr 16,384²")
        rows += rows_of(viewer, stock, 16384, (2.0, 0.05), 10)
    viewer.close()
    return "\n".join([*head, *rows])


def memory() -> str:
    """What a thousand strokes take, and an edited view costs to read."""
    random = np.random.default_rng(0)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    canvas = large()
    for number in range(1000):
        at = random.uniform(40_000, 60_000, 2)
        canvas.begin_step()
        for _ in range(MOVES):
            to = at + random.uniform(-20, 20, 2)
            shape = Stroke((tuple(at), tuple(to)), (4,), 10.5, (1.0, 1.0))
            canvas.add_edit(Edit(shape, (0, 1), (), number + 1))
            at = to
        canvas.close_step()
        box = tuple((int(c) - 512, int(c) + 512) for c in at)
        canvas.overlay_edits(0, box, np.zeros((1024, 1024), "u4"))
    grown = (tracemalloc.get_traced_memory()[0] - before) / 1e6
    tracemalloc.stop()
    lines = ["| | |", "|---|---:|", f"| memory of 1000 strokes | {grown:.0f} MB |"]
    plain = statistics.median(once(lambda: view(large(), 50_000)) for _ in range(9))
    lines.append(f"| a view of 1024², not edited | {plain:.1f} ms |")
    fresh = canvas.copy()
    first = once(lambda: view(fresh, 50_000))
    again = statistics.median(once(lambda: view(fresh, 50_000)) for _ in range(9))
    count = len(fresh.log.edits_touching(((50_000, 51_024),) * 2))
    lines.append(f"| the same with {count} strokes on it, first | {first:.1f} ms |")
    lines.append(f"| ... and again | {again:.1f} ms |")
    top = once(lambda: np.asarray(fresh.levels[8][:]))
    lines.append(f"| the coarsest level with all 1000 strokes, first | {top:.0f} ms |")
    return "\n".join(lines)


def view(canvas: Canvas, at: int) -> Any:
    return canvas.read(0, ((at, at + 1024), (at, at + 1024)))


def main() -> None:
    print(json.dumps({"painting": steps(), "painting-memory": memory()}))


if __name__ == "__main__":
    main()
