"""Fields with objects on a grid, and what numpy alone cuts out of them."""

from __future__ import annotations

import numpy as np

from napari_ngff.plate.results.object_crops import SIDE
from plates import write_image

Y, X = np.indices((12, 12)) - 5.5
DISK = Y**2 + X**2 <= 36


def write_field(folder, axes, shape, step, corner=(0, 0), levels=3):
    """Write noise and round objects on a grid of 20 pixels; return both."""
    rng = np.random.default_rng(sum(shape))
    pixels = rng.integers(0, 90, shape).astype("u2")
    labels = np.zeros(
        [n for n, axis in zip(shape, axes, strict=True) if axis != "c"], "u4"
    )
    for y in range(4, shape[-2] - 12, 20):
        for x in range(4, shape[-1] - 12, 20):
            labels[..., y : y + 12, x : x + 12][..., DISK] = labels.max() + 1
            light = np.where(DISK, rng.integers(60, 165), 0).astype("u2")
            pixels[..., y : y + 12, x : x + 12] += light
    planes = {"y": (step, corner[0]), "x": (step, corner[1])}
    write_image(folder, pixels, 3, axes, levels, labels=["nuclei"], planes=planes)
    inner = folder / "labels/nuclei"
    inner_axes = axes.replace("c", "")
    write_image(inner, labels, 3, inner_axes, levels, label={}, planes=planes)
    return pixels, labels


def nearest(plane, middle, side, step):
    """Sample a plane by numpy alone, around an index, a length with a spacing."""
    offsets = ((np.arange(SIDE) + 0.5) / SIDE - 0.5) * side / step
    y, x = (np.round(i + offsets).astype(int) for i in middle)
    found = np.zeros((SIDE, SIDE), plane.dtype)
    for row, i in enumerate(y):
        for column, j in enumerate(x):
            if 0 <= i < plane.shape[0] and 0 <= j < plane.shape[1]:
                found[row, column] = plane[i, j]
    return found
