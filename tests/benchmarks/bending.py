"""A view of an image that a field of displacements bends, against scipy in memory.

1024 x 1024 of 4096 x 4096, uint16; a field of 512 x 512 vectors, float32. Ours reads
and decodes the chunks that it needs, which no cache holds; scipy has both arrays in
memory. The pixels of both must be the same.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import zarr
from scipy.ndimage import map_coordinates

from napari_ngff import open_node, open_pyramid
from napari_ngff.metadata.model import Reference
from napari_ngff.store.hierarchy.coordinate_systems import open_systems
from napari_ngff.store.pyramids.resampled import BentImage, SampleGrid, resample_pyramid

OURS = "napari-ngff"
SIDE, STEP, VIEW = 4096, 8, 1024


def write(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Write the image and its field."""
    pixels = np.random.default_rng(0).integers(0, 60000, (SIDE, SIDE), "u2")
    y, x = np.mgrid[: SIDE // STEP, : SIDE // STEP] * float(STEP)
    field = np.stack([9 * np.sin(x / 200), 7 * np.cos(y / 150)], -1).astype("f4")
    axes = [{"name": name, "type": "space"} for name in "yx"]
    ends = {"input": {"path": "0"}, "output": {"name": "physical"}}
    multiscale = {
        "coordinateSystems": [
            {"name": name, "axes": axes} for name in ("physical", "atlas")
        ],
        "datasets": [
            {"path": "0", "coordinateTransformations": [{"type": "identity"} | ends]}
        ],
        "coordinateTransformations": [
            {
                "type": "displacements",
                "path": "field",
                "input": {"name": "atlas"},
                "output": {"name": "physical"},
            }
        ],
    }
    ome = {"version": "0.6", "multiscales": [multiscale]}
    zarr.create_group(folder, attributes={"ome": ome})
    zarr.create_array(folder / "0", data=pixels, chunks=(512, 512))
    to_input = [{"type": "scale", "scale": [STEP, STEP, 1]}]
    zarr.create_array(
        folder / "field",
        data=field,
        chunks=(256, 256, 2),
        attributes={"ome": {"coordinateTransformations": to_input}},
    )
    return pixels, field


def views(rounds: int) -> dict[str, list[float]]:
    """Milliseconds of views at different places."""
    with tempfile.TemporaryDirectory() as folder:
        pixels, field = write(Path(folder) / "image.zarr")
        node = open_node(Path(folder) / "image.zarr")
        pyramid = open_pyramid(node)
        graph = open_systems([node]).graph
        pull = graph.way(Reference(name="atlas"), Reference(name="physical"))
        bent = BentImage.cover_image(pyramid, pull, pyramid.multiscale.axes)
        bent = BentImage(
            pull, bent.axes, SampleGrid((0.0, 0.0), (1.0, 1.0), (SIDE, SIDE))
        )
        level = resample_pyramid(pyramid, bent).levels[0]
        times: dict[str, list[float]] = {OURS: [], "scipy": []}
        for i in range(rounds):
            at = 100 + 150 * i % (SIDE - VIEW - 200)
            box = ((at, at + VIEW), (at + 50, at + 50 + VIEW))
            pyramid.levels[0].array.forget_chunks()
            pull.field.array.forget_chunks()
            start = time.perf_counter()
            ours = level.read(box)
            times[OURS].append(1000 * (time.perf_counter() - start))
            start = time.perf_counter()
            y, x = np.mgrid[box[0][0] : box[0][1], box[1][0] : box[1][1]].astype(float)
            grid = y / STEP, x / STEP
            moved = [
                map_coordinates(field[..., axis], grid, order=1, mode="nearest")
                for axis in (0, 1)
            ]
            place = y + moved[0], x + moved[1]
            plain = map_coordinates(pixels, place, "f8", order=1, mode="nearest")
            times["scipy"].append(1000 * (time.perf_counter() - start))
            difference = np.abs(ours - np.rint(plain)).max()
            assert difference <= 1, difference
    return times
