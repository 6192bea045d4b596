"""ngff-zarr: images of each version, with shards and as one file, and a plate."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

import ngff_zarr
from common import main, random_labels, random_pixels
from ngff_zarr.v04.zarr_metadata import Plate, PlateColumn, PlateRow, PlateWell

IMAGE = random_pixels(2, 4, 70, 90)
LABELS = random_labels(4, 70, 90)
FIELD = random_pixels(60, 70, seed=2)
VERSIONS = {"0.4.ome.zarr": "0.4", "0.5.ome.zarr": "0.5", "0.5.ozx": "0.5"}
PLATE, WELL = "plate.ome.zarr", "A/1"
METHOD = ngff_zarr.Methods.DASK_IMAGE_NEAREST


def multiscales(pixels, dims):
    scale = {name: 0.5 for name in dims if name != "c"}
    units = dict.fromkeys(scale, "micrometer")
    image = ngff_zarr.to_ngff_image(pixels, list(dims), scale, axes_units=units)
    return ngff_zarr.to_multiscales(image, [2, 4], chunks=32, method=METHOD)


def write():
    finest = {}
    for path, version in VERSIONS.items():
        shards = {"chunks_per_shard": 2} if path == "0.5.ome.zarr" else {}
        image = multiscales(IMAGE, "czyx")
        ngff_zarr.to_ngff_zarr(path, image, version=version, **shards)
        finest[path] = IMAGE
    # It has no function for labels inside of an image; people write them so.
    path = "0.5.ome.zarr/labels/cells"
    ngff_zarr.to_ngff_zarr(path, multiscales(LABELS, "zyx"), version="0.5")
    list_labels(Path("0.5.ome.zarr"))
    finest[path] = LABELS
    wells = [PlateWell(WELL, 0, 0)]
    plate = Plate([PlateColumn("1")], [PlateRow("A")], wells, field_count=1)
    ngff_zarr.to_hcs_zarr(ngff_zarr.HCSPlate(PLATE, plate), PLATE)
    field = multiscales(FIELD, "yx")
    ngff_zarr.write_hcs_well_image(PLATE, field, plate, "A", "1", acquisition_id=0)
    finest[f"{PLATE}/{WELL}/0"] = FIELD
    return finest, [PLATE]


def list_labels(image):
    """Write the group that lists labels, and that they are labels."""
    listed = {"ome": {"version": "0.5", "labels": ["cells"]}}
    document = {"zarr_format": 3, "node_type": "group", "attributes": listed}
    (image / "labels/zarr.json").write_text(json.dumps(document))
    cells = image / "labels/cells/zarr.json"
    document = json.loads(cells.read_text())
    document["attributes"]["ome"]["image-label"] = {}
    cells.write_text(json.dumps(document))


def levels(path):
    found = ngff_zarr.from_ngff_zarr(path)
    return [image.data.compute() for image in found.images]


def read():
    paths = [*VERSIONS, f"{PLATE}/{WELL}/0"]
    found = {}
    for path in paths:
        found[path] = levels(path)
        if path.endswith(".ozx"):
            found |= labels_of_archive(path)
        for document in (".zattrs", "zarr.json"):
            for own in sorted(Path(path).glob(f"labels/*/{document}")):
                below = own.parent.as_posix()
                found[below] = levels(below)
    return found


def labels_of_archive(path):
    """Read the labels in a single file, which it does by unpacking alone."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        for own in sorted(Path(folder).glob("labels/*/zarr.json")):
            found[f"{path}/labels/{own.parent.name}"] = levels(own.parent)
    return found


def validate(path):
    if ".ozx/" in path:
        path = path.partition("/")[0]
    ngff_zarr.from_ngff_zarr(path, validate=True)
    if path.startswith(PLATE):
        ngff_zarr.from_hcs_zarr(PLATE, validate=True)


if __name__ == "__main__":
    main("ngff-zarr", write, read, ("ngff-zarr", validate))
