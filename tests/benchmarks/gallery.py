"""First screens of the gallery, beside reading the same boxes by zarr alone: ms.

python tests/benchmarks/gallery.py [ROWS]

A plate of 96 wells with 2 fields of 1080 x 1080; a table of a million objects.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import zarr

from napari_ngff.plate.results.object_crops import CropField, CropView
from napari_ngff.plate.tables.table import make_table
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.viewer.results.gallery import list_objects

SIDE, STEP, SPACING = 1080, 24, 0.5
SEEN = 40
"""Crops on a first screen."""

RAMP = np.outer(np.arange(256), np.ones(3)).astype(np.float32).tobytes()


def write_fields(root):
    """Write the fields, all with the same nuclei, and return their places."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
    from plates import write_image, write_plate

    write_plate(root, grid=(8, 12), fields=2, shape=(1, 8, 8), levels=1)
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 4000, (2, SIDE, SIDE)).astype("u2")
    count = SIDE // STEP
    ids = np.arange(1, count * count + 1, dtype="u4").reshape(count, count)
    labels = ids.repeat(STEP, 0).repeat(STEP, 1)
    labels[::STEP] = labels[:, ::STEP] = 0
    places = sorted(root.glob("*/*/[01]"))
    for folder in places:
        write_image(folder, pixels, 3, labels=["nuclei"])
        write_image(folder / "labels/nuclei", labels, 3, "yx", label={})
    return [str(x.relative_to(root)) for x in places], count * count


def make_rows(places, per_field, rows):
    """Make the table of objects, as it is measured."""
    number = np.arange(rows)
    place = number // per_field % len(places)
    label = number % per_field
    wells = np.array([x.rpartition("/")[0].replace("/", "") for x in places])
    frame = pd.DataFrame({"well": wells[place], "field": (place % 2).astype(str)})
    frame["label"] = label + 1
    frame["area"] = np.random.default_rng(1).gamma(5, 20, rows)
    side = SIDE // STEP
    for axis, at in (("y", label // side), ("x", label % side)):
        frame[f"centroid_{axis}"] = (at * STEP + STEP / 2) * SPACING
    return make_table(frame, "objects", region="nuclei")


def read_screen(root, found, shown, fields):
    """Read the crops of a first screen."""
    looks = tuple((i, (0.0, 4000.0), 1.0, RAMP) for i in range(2))
    view = CropView(looks, STEP * SPACING * 1.5)
    boxes = []
    for row in shown[:SEEN]:
        at = {name: values[row] for name, values in found.items()}
        path = f"{at['well']}/{at['field']}"
        if path not in fields:
            fields[path] = CropField.open(open_node(f"{root}/{path}"), "nuclei")
        fields[path].read_crop(int(at["label"]), at, view)
        boxes.append((path, at["centroid_y"] / SPACING, at["centroid_x"] / SPACING))
    return boxes


def read_boxes(root, boxes, arrays):
    """Read the same boxes by zarr alone."""
    half = int(STEP * 0.75)
    for path, y, x in boxes:
        rows, columns = (slice(max(int(i) - half, 0), int(i) + half) for i in (y, x))
        for name in ("0", "labels/nuclei/0"):
            place = f"{root}/{path}/{name}"
            if place not in arrays:
                arrays[place] = zarr.open_array(place, mode="r")
            arrays[place][..., rows, columns]


def timed(step, call):
    start = time.perf_counter()
    result = call()
    sys.stdout.write(f"{step:<46}{1000 * (time.perf_counter() - start):>8.0f}\n")
    return result


def measure_screens(root, found):
    """Print the times of a first screen, cold and warm."""
    fields, arrays = {}, {}
    for heat in ("first", "again"):
        step = f"{SEEN} crops, {heat}"
        boxes = timed(step, lambda: read_screen(root, found[0], found[2], fields))
        step = f"  the boxes by zarr, {heat}"
        timed(step, lambda boxes=boxes: read_boxes(root, boxes, arrays))


def main():
    """Write a plate, and print the times."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "p.ome.zarr"
        places, per_field = write_fields(root)
        table = make_rows(places, per_field, rows)
        table = table.place_on({x.rpartition("/")[0]: x for x in places})
        for column in ("", "area"):
            order = f"put {rows:,} rows in order by {column or 'the table'}"
            found = timed(
                order, lambda c=column: list_objects(table.frame, c, False, "", None)
            )
            measure_screens(root, found)


if __name__ == "__main__":
    main()
