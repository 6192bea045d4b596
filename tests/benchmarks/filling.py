"""Filling an object between sections, against the distance transforms of scipy alone.

50 sections of 2048 x 2048, uint16, in shards; the object is in every seventh, or in
the first and the last alone. Ours reads all labels of the file, measures, interpolates
and makes the edits; scipy has the sections with the object in memory, and measures the
distances inside and outside of it. The filled pixels are compared with those between
distances in whole sections.
"""

from __future__ import annotations

import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from napari.components import ViewerModel
from scipy.ndimage import distance_transform_edt as edt

from napari_ngff import read_layers, write
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.viewer.painting.section_edits import edit_sections

SHAPE, WEIGHTS = (50, 2048, 2048), (0.5, 0.25)


def stack_of(sections: range) -> np.ndarray:
    """A large object with a wavy outline that moves, turns and grows."""
    rows, columns = np.ogrid[: SHAPE[1], : SHAPE[2]]
    stack = np.zeros(SHAPE, bool)
    for index in sections:
        y, x = rows - 900 - 4 * index, columns - 1000 - 2 * index
        around = np.arctan2(y, x) + index / 30
        stack[index] = np.hypot(y, x) < 500 + 5 * index + 90 * np.sin(7 * around)
    return stack


def measure_by_scipy(stack: np.ndarray) -> tuple[float, dict[int, np.ndarray]]:
    """Return seconds, and the signed distances in the sections with the object."""
    have = np.flatnonzero(stack.any(axis=(1, 2))).tolist()
    start = time.perf_counter()
    signed = {i: edt(stack[i], WEIGHTS) - edt(~stack[i], WEIGHTS) for i in have}
    return time.perf_counter() - start, signed


def fill_by_us(path: Path) -> tuple[float, np.ndarray]:
    """Return seconds, and the labels with the edits."""
    viewer = ViewerModel()
    for layer in read_layers(path):
        viewer.add_layer(layer)
    viewer.layers.selection.active, layer.visible = layer, True
    layer.selected_label = 7
    cache.clear()
    start = time.perf_counter()
    edits = edit_sections(viewer, lambda done, total: True)
    seconds = time.perf_counter() - start
    edits.apply_edits()
    return seconds, np.asarray(layer.canvas.levels[0])


def main() -> None:
    """Print seconds of both, and their ratio."""
    for sections in (range(0, 50, 7), range(0, 50, 49)):
        stack = stack_of(sections)
        theirs, signed = measure_by_scipy(stack)
        want = stack.copy()
        for a, b in pairwise(sections):
            for i in range(a + 1, b):
                want[i] = (b - i) * signed[a] + (i - a) * signed[b] > 0
        del signed
        with tempfile.TemporaryDirectory() as folder:
            place = {"axis_labels": tuple("zyx"), "scale": (2.0, *WEIGHTS)}
            image = (np.zeros(SHAPE, "u1"), {"name": "image", **place}, "image")
            labels = np.where(stack, 7, 0).astype("u2")
            cells = (labels, {"name": "cells", **place}, "labels")
            path = write(Path(folder) / "stack.ome.zarr", [image, cells], shards=True)
            ours, found = fill_by_us(path)
        assert np.array_equal(found == 7, want), "the filled pixels differ"
        print(
            f"{len(sections)} of {SHAPE[0]} sections: scipy {theirs:.1f} s,"
            f" napari-ngff {ours:.1f} s, {ours / theirs:.2f} times as long"
        )


if __name__ == "__main__":
    sys.exit(main())
