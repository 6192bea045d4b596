"""Measuring labels of a plate, beside scikit-image alone: seconds of the processor.

python tests/benchmarks/measuring.py [WELLS] [FOLDER]

Wells with 4 fields of 1080 x 1080 and two channels, in chunks of 256 x 256, with some
150 round nuclei each. scikit-image has the same labels and pixels, read by zarr, and
gives the same columns. All fields are tasks of dask on the same threads.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import dask
import numpy as np
import pandas as pd
import zarr
from skimage.feature import graycomatrix, graycoprops
from skimage.measure import regionprops, regionprops_table

from napari_ngff.plate.tables.measure_labels import FieldTask, measure
from napari_ngff.plate.tables.object_features import COLUMNS, GRAYS, choose_columns
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.threads import CORES

SIDE, STEP, FIELDS = 1080, 84, 4
PLACE = ("label", "num_pixels", "area", "centroid")
INTENSITY = ("intensity_mean", "intensity_min", "intensity_max")
SHAPE, TEXTURE = COLUMNS.values()


def write_screen(root, wells):
    """Write the plate, all of whose fields have other nuclei; return its fields."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    from plates import write_image, write_plate

    grid = (-(-wells // 24), min(wells, 24))
    write_plate(root, grid=grid, fields=FIELDS, shape=(1, 8, 8), levels=1)
    paths = (x for x in root.glob("*/*/*") if x.name.isdigit())
    # As the browser lists them.
    places = sorted(paths, key=lambda x: (x.parts[-3], int(x.parts[-2]), x.name))
    y, x = np.indices((SIDE, SIDE))
    cells = y // STEP * (SIDE // STEP + 1) + x // STEP + 1
    for number, folder in enumerate(places):
        rng = np.random.default_rng(number)
        radii, ratios = rng.uniform([[12], [0.6]], [[36], [1.0]], (2, cells.max() + 1))
        away = (y % STEP - STEP / 2) ** 2 + (x % STEP - STEP / 2) ** 2 / ratios[cells]
        inside = away < radii[cells] ** 2 * ratios[cells]
        labels = np.where(inside, cells, 0).astype("u4")
        light = rng.gamma(4, 300, (2, cells.max() + 1))[:, cells] * inside
        pixels = rng.poisson(light + 100).astype("u2")
        write_image(folder, pixels, 3, labels=["nuclei"])
        write_image(folder / "labels/nuclei", labels, 3, "yx", label={})
    return places


def measure_texture(pixels, inside):
    """Texture of one object, as the documentation of scikit-image shows it."""
    values, inner = pixels.astype(float), pixels[inside].astype(float)
    low, span = inner.min(), np.ptp(inner) or 1.0
    grays = np.clip((values - low) / span * GRAYS, 0, GRAYS - 1) + 1
    grays = np.where(inside, grays, 0).astype("u1")
    angles = [np.pi / 4 * number for number in range(4)]
    counts = graycomatrix(grays, [1], angles, GRAYS + 1, symmetric=True)[1:, 1:]
    counts = counts.sum(axis=3, keepdims=True)
    return [inner.std(), *(graycoprops(counts, name)[0, 0] for name in TEXTURE[1:])]


def measure_alone(folder, columns, spacing):
    """Measure one field by scikit-image."""
    labels = zarr.open_array(folder / "labels/nuclei/0", mode="r")[:]
    channels = zarr.open_array(folder / "0", mode="r")[:]
    names = (*PLACE, *INTENSITY, *(SHAPE if columns else ()))
    pixels = np.moveaxis(channels, 0, -1)
    found = pd.DataFrame(
        regionprops_table(labels, pixels, names, spacing=(spacing, spacing))
    )
    if columns:
        regions = regionprops(labels)
        for number, channel in enumerate(channels):
            rows = [measure_texture(channel[r.slice], r.image) for r in regions]
            names = [f"{name}_{number}" for name in TEXTURE]
            found = found.join(pd.DataFrame(rows, columns=names))
    return found


def timed(call):
    wall, used = time.perf_counter(), time.process_time()
    result = call()
    return time.perf_counter() - wall, time.process_time() - used, result


def compare(found, alone, columns):
    """Require the same numbers of both."""
    pairs = {"num_pixels": "voxels", "area": "area"}
    if columns:
        pairs |= {name: name for name in SHAPE}
        pairs |= {f"{name}_1": f"{name}_1" for name in TEXTURE}
    for theirs, ours in pairs.items():
        np.testing.assert_allclose(found[ours], alone[theirs], rtol=1e-9)


def main(root, wells):
    places = write_screen(root, wells)
    node, spacing = open_node(str(root)), 0.5
    for columns in ((), ("shape", "texture")):
        task = FieldTask(choose_columns(columns))
        step = dask.delayed(measure_alone)
        tasks = [step(folder, columns, spacing) for folder in places]
        run = {
            "napari-ngff": lambda task=task: measure(node, "nuclei", task=task).frame,
            "scikit-image": lambda tasks=tasks: pd.concat(
                dask.compute(*tasks, scheduler="threads", num_workers=CORES)
            ),
        }
        results = {}
        for who, call in run.items():
            wall, used, results[who] = timed(call)
            print(f"{', '.join(columns) or 'sizes'}: {who}: {used:.1f} ({wall:.1f})")
        compare(*results.values(), columns)
    print(f"{len(places)} fields, {len(results['napari-ngff']):,} objects")


if __name__ == "__main__":
    wells = int(sys.argv[1]) if len(sys.argv) > 1 else 384
    if len(sys.argv) > 2:
        main(Path(sys.argv[2]) / "screen.zarr", wells)
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder) / "screen.zarr", wells)
