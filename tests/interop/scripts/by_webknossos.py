"""webknossos: a dataset of an image and a segmentation; arrays by tensorstore."""

from __future__ import annotations

import json
from pathlib import Path

import cluster_tools
import numpy as np
import tensorstore
import webknossos
from common import main, random_labels, random_pixels

PATH = Path("dataset")
SHAPE = 128, 128, 64  # x, y, z; no level is padded
IMAGE, CELLS = random_pixels(*SHAPE), random_labels(*SHAPE)


def array(path):
    store = {"driver": "file", "path": path.as_posix()}
    spec = {"driver": "zarr3", "kvstore": store}
    return tensorstore.open(spec, open=True).result().read().result()


def levels(group):
    document = json.loads((group / "zarr.json").read_text())
    (multiscale,) = document["attributes"]["ome"]["multiscales"]
    return [array(group / dataset["path"]) for dataset in multiscale["datasets"]]


def write():
    dataset = webknossos.Dataset(PATH, voxel_size=(10.0, 10.0, 25.0))
    finest = {}
    for name, kind, pixels in [
        ("color", "color", IMAGE),
        ("cells", "segmentation", CELLS),
    ]:
        layer = dataset.write_layer(
            name, kind, data=pixels, data_format="zarr3", downsample=False,
            chunk_shape=(32, 32, 32), shard_shape=(32, 32, 32),
        )  # fmt: skip
        with cluster_tools.get_executor("sequential") as executor:
            layer.downsample(
                coarsest_mag=webknossos.Mag("4-4-2"), executor=executor,
                chunk_shape=(32, 32, 32), shard_shape=(32, 32, 32),
            )  # fmt: skip
        finest[(PATH / name).as_posix()] = pixels[np.newaxis]
    return finest, []


def read():
    found = {}
    dataset = webknossos.Dataset.open(PATH)
    for name, layer in dataset.layers.items():
        group = PATH / name
        found[group.as_posix()] = levels(group)
        for mag, view in layer.mags.items():
            pixels = view.read()
            stored = array(group / view.path.name)
            assert (stored[tuple(map(slice, pixels.shape))] == pixels).all(), mag
        for labels in sorted(group.glob("labels/*/zarr.json")):
            found[labels.parent.as_posix()] = levels(labels.parent)
    return found


if __name__ == "__main__":
    main("webknossos", write, read)
