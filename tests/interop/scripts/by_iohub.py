"""iohub: images and a plate, of all the versions that it writes; labels since 0.3."""

from __future__ import annotations

import inspect

import zarr_levels
from common import main, random_labels, random_pixels
from iohub.ngff import nodes, open_ome_zarr
from zarr_levels import labels_below

IMAGE, LABELS = random_pixels(2, 2, 3, 60, 80), random_labels(2, 3, 60, 80)
FIELDS = {"A/1/0": random_pixels(1, 2, 1, 48, 64, seed=2)}
CHANNELS = ["DAPI", "GFP"]
NEW = hasattr(nodes.Position, "create_label")
VERSIONS = ["0.4", "0.5"] if NEW else ["0.4"]
SHARDS = "shards_ratio" in inspect.signature(nodes.Position.create_image).parameters


def create(path, layout, version):
    return open_ome_zarr(
        path, layout=layout, mode="w-", channel_names=CHANNELS, version=version
    )


def put(position, pixels, labels, version):
    chunks = {"chunks": (1, 1, 1, 32, 32)}
    if SHARDS and version == "0.5":
        chunks["shards_ratio"] = (1, 1, 1, 2, 2)
    position.create_image("0", pixels, **chunks)
    position.initialize_pyramid(2)
    position["1"][...] = random_pixels(*position["1"].shape, seed=4)
    if NEW:
        colors = {1: [255, 0, 0, 255]}
        position.create_label("cells", labels, colors, pyramid_levels=2)


def write():
    finest, plates = {}, []
    for version in VERSIONS:
        path, plate_path = f"{version}.ome.zarr", f"plate-{version}.ome.zarr"
        with create(path, "fov", version) as position:
            put(position, IMAGE, LABELS, version)
        finest[path] = IMAGE
        if NEW:
            finest[f"{path}/labels/cells"] = LABELS
        with create(plate_path, "hcs", version) as plate:
            for field, pixels in FIELDS.items():
                labels = random_labels(1, 1, 48, 64)
                put(plate.create_position(*field.split("/")), pixels, labels, version)
                finest[f"{plate_path}/{field}"] = pixels
                if NEW:
                    finest[f"{plate_path}/{field}/labels/cells"] = labels
        plates.append(plate_path)
    return finest, plates


def levels(node):
    return [node[key][...] for key in node.array_keys()]


def position_levels(path, position):
    found = {path: levels(position)}
    if NEW:
        for name, labels in position.labels():
            found[f"{path}/labels/{name}"] = levels(labels)
    else:
        found |= {below: zarr_levels.levels(below) for below in labels_below(path)}
    return found


def read():
    found = {}
    for version in VERSIONS:
        with open_ome_zarr(f"{version}.ome.zarr", layout="fov") as position:
            found |= position_levels(f"{version}.ome.zarr", position)
        path = f"plate-{version}.ome.zarr"
        with open_ome_zarr(path, layout="hcs") as plate:
            for field, position in plate.positions():
                found |= position_levels(f"{path}/{field}", position)
    return found


if __name__ == "__main__":
    main("iohub", write, read)
