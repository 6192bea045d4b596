"""ome-zarr-py: an image with labels and a plate, in each version that it writes."""

from __future__ import annotations

import inspect
import os

import numpy as np
import zarr
from common import main, module, random_labels, random_pixels
from ome_zarr import format as formats
from ome_zarr import writer
from ome_zarr.io import parse_url
from ome_zarr.reader import Reader

IMAGE, LABELS = random_pixels(2, 96, 120), random_labels(96, 120)
FIELDS = {
    "A/1/0": random_pixels(64, 80, seed=2),
    "B/2/0": random_pixels(64, 80, seed=3),
}
OLD = not hasattr(formats, "FormatV05")
FORMATS = [formats.FormatV04()] if OLD else [formats.FormatV04(), formats.FormatV05()]


def write_pixels(pixels, group, fmt, axes):
    steps = [0.5 if axis in "yx" else 1.0 for axis in axes]
    options = {"storage_options": {"chunks": (1,) * (len(axes) - 2) + (48, 48)}}
    if "scale" in inspect.signature(writer.write_image).parameters:
        options["scale"] = dict(zip(axes, steps, strict=True))
    writer.write_image(pixels, group, fmt=fmt, axes=axes, **options)


def write():
    finest, plates = {}, []
    for fmt in FORMATS:
        path, plate = f"{fmt.version}.ome.zarr", f"plate-{fmt.version}.ome.zarr"
        group = zarr.group(parse_url(path, mode="w", fmt=fmt).store, **of(fmt))
        write_pixels(IMAGE, group, fmt, "cyx")
        info = {"colors": [{"label-value": 2, "rgba": [0, 0, 255, 255]}]}
        writer.write_labels(
            LABELS, group, "cells", fmt=fmt, axes="yx", label_metadata=info
        )
        finest |= {path: IMAGE, f"{path}/labels/cells": LABELS}
        group = zarr.group(parse_url(plate, mode="w", fmt=fmt).store, **of(fmt))
        wells = ["A/1", "B/2"]
        writer.write_plate_metadata(group, ["A", "B"], ["1", "2"], wells, fmt=fmt)
        for well in wells:
            below = group.require_group(well)
            writer.write_well_metadata(below, ["0"], fmt=fmt)
            field = f"{well}/0"
            write_pixels(FIELDS[field], below.require_group("0"), fmt, "yx")
            finest[f"{plate}/{field}"] = FIELDS[field]
        plates.append(plate)
    return finest, plates


def of(fmt):
    return {} if OLD else {"zarr_format": fmt.zarr_format}


def read():
    found = {}
    for name in sorted(os.listdir()):
        fields = list(FIELDS) if name.startswith("plate") else [""]
        for field in fields:
            for node in Reader(parse_url(os.path.join(name, field)))():
                if node.data:
                    place = os.path.relpath(str(node.zarr)[: -len(" [zgroup]")])
                    found[place] = [*map(np.asarray, node.data)]
    return found


def validate(path):
    version = "0.5" if "0.5.ome" in path else "0.4"
    models.open_ome_zarr(zarr.open_group(path, mode="r"), version=version)


models = module("ome_zarr_models")

if __name__ == "__main__":
    main("ome-zarr", write, read, ("ome-zarr-models", validate) if models else None)
