"""multiview-stitcher: tiles of both versions; it has no function for labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import main, random_pixels
from multiview_stitcher import ngff_utils, spatial_image_utils

IMAGE = random_pixels(1, 2, 4, 270, 300)
VERSIONS = {"0.4.ome.zarr": "0.4", "0.5.ome.zarr": "0.5"}


def write():
    image = spatial_image_utils.get_sim_from_array(
        IMAGE,
        dims=list("tczyx"),
        scale={"z": 2.0, "y": 0.5, "x": 0.5},
        translation={"z": 0.0, "y": 100.0, "x": -20.0},
        c_coords=["DAPI", "GFP"],
    )
    for path, version in VERSIONS.items():
        ngff_utils.write_sim_to_ome_zarr(
            image,
            path,
            {"z": 1, "y": 2, "x": 2},
            ngff_version=version,
            show_progressbar=False,
        )
    return dict.fromkeys(VERSIONS, IMAGE), []


def levels(path):
    images = ngff_utils.read_ngff_multiscales(path).images
    return [np.asarray(image.data) for image in images]


def read():
    found = {}
    for path in VERSIONS:
        found[path] = levels(path)
        read_back = ngff_utils.read_sim_from_ome_zarr(path)
        assert (np.asarray(read_back.data) == found[path][0]).all()
        for labels in sorted(Path(path).glob("labels/*/")):
            found[labels.as_posix()] = levels(labels.as_posix())
    return found


if __name__ == "__main__":
    main("multiview-stitcher", write, read)
