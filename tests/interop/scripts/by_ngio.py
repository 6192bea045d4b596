"""ngio: images of both versions with labels and a table, and a plate."""

from __future__ import annotations

import ngio
import numpy as np
from common import main, random_labels, random_pixels

IMAGE = random_pixels(2, 3, 80, 100)
LABELS = random_labels(3, 80, 100)
FIELDS = {"B/03/0": random_pixels(1, 64, 80, seed=2)}
IMAGES = {"0.4.ome.zarr": "0.4", "0.5.ome.zarr": "0.5"}
PLATE = "plate.ome.zarr"


def write_labels(container, pixels):
    labels = container.derive_label("cells")
    labels.set_array(pixels)
    labels.consolidate()


def write():
    finest = {}
    for path, version in IMAGES.items():
        container = ngio.create_ome_zarr_from_array(
            path, IMAGE, 0.5, levels=3, axes_names="czyx", ngff_version=version
        )
        write_labels(container, LABELS)
        table = container.build_image_roi_table("whole")
        container.add_table("whole", table)
        finest |= {path: IMAGE, f"{path}/labels/cells": LABELS}
    images = [ngio.ImageInWellPath(row="B", column="03", path="0")]
    plate = ngio.create_empty_plate(PLATE, "plate", images, ngff_version="0.5")
    for field, pixels in FIELDS.items():
        store = plate.get_image_store("B", "03", "0")
        ngio.create_ome_zarr_from_array(
            store, pixels, 0.5, levels=2, axes_names="cyx", ngff_version="0.5"
        )
        container = ngio.open_ome_zarr_container(f"{PLATE}/{field}")
        write_labels(container, random_labels(64, 80))
        finest[f"{PLATE}/{field}"] = pixels
        finest[f"{PLATE}/{field}/labels/cells"] = random_labels(64, 80)
    return finest, [PLATE]


def read():
    found = {}
    ngio.open_ome_zarr_plate(PLATE).get_images()
    for path in [*IMAGES, *(f"{PLATE}/{field}" for field in FIELDS)]:
        container = ngio.open_ome_zarr_container(path, mode="r")
        found[path] = [
            np.asarray(container.get_image(path=level).get_array())
            for level in container.level_paths
        ]
        for name in container.list_labels():
            found[f"{path}/labels/{name}"] = [
                np.asarray(container.get_label(name, path=level).get_array())
                for level in container.get_label(name).meta.paths
            ]
        if path in IMAGES:
            assert container.list_tables() == ["whole"]
            container.get_roi_table("whole")
    return found


def validate(path):
    image, _, name = path.partition("/labels/")
    container = ngio.open_ome_zarr_container(image, mode="r", validate_arrays=True)
    if name:
        container.get_label(name)


if __name__ == "__main__":
    main("ngio", write, read, ("ngio", validate))
