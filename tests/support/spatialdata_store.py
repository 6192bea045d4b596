"""Stores as SpatialData 0.7 writes them: images and labels with alternative systems."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import zarr

CYX = ("c", "y", "x")


def system(name: str, axes: tuple[str, ...]) -> dict[str, Any]:
    kinds = {"c": "channel"}
    listed = [
        {"name": n, "type": kinds.get(n, "space")}
        | ({} if n == "c" else {"unit": "unit"})
        for n in axes
    ]
    return {"name": name, "axes": listed}


def alternative(axes, output, **transformation):
    """State a way to a coordinate system; several in a list are alternatives."""
    ends = {
        "input": system("".join(axes), axes),
        "output": system(output, axes),
    }
    for inner in transformation.get("transformations", ()):
        inner |= ends
    return transformation | ends


def write_group(folder, attributes):
    folder.mkdir(parents=True, exist_ok=True)
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (folder / "zarr.json").write_text(json.dumps(document))


def write_element(folder, pixels, axes, transformations, extra=None):
    """Write an image of two levels, or labels, as one element of a store."""
    datasets = []
    for k in range(2):
        steps = [1.0 if n == "c" else 2.0**k for n in axes]
        part = pixels[..., :: 2**k, :: 2**k]
        zarr.create_array(folder / f"s{k}", data=part, dimension_names=axes)
        scale = {"type": "scale", "scale": steps}
        datasets.append({"path": f"s{k}", "coordinateTransformations": [scale]})
    multiscale = {
        "name": f"/{folder.parent.name}/{folder.name}",
        "datasets": datasets,
        "axes": [{"name": n, "type": "channel" if n == "c" else "space"} for n in axes],
        "coordinateTransformations": transformations,
    }
    ome = {"version": "0.5-dev-spatialdata", "multiscales": [multiscale]}
    attributes = {"ome": ome | (extra or {}), "spatialdata_attrs": {"version": "0.3"}}
    write_group(folder, attributes)


def write_store(folder, transformations=None):
    """Write a store of one image, "im", and one element of labels, "cells"."""
    if transformations is None:
        transformations = [
            alternative(CYX, "global", type="scale", scale=[1.0, 0.5, 0.5]),
            alternative(CYX, "aligned", type="scale", scale=[1.0, 0.2, 0.2]),
        ]
    pixels = np.arange(3 * 64 * 80).reshape(3, 64, 80).astype(np.uint16)
    write_group(folder, {"spatialdata_attrs": {"version": "0.2"}})
    write_group(folder / "images", {})
    write_element(folder / "images/im", pixels, CYX, transformations)
    write_group(folder / "labels", {"ome": {"labels": ["cells"]}})
    flat = [alternative(("y", "x"), "global", type="scale", scale=[0.5, 0.5])]
    cells = (pixels[0] // 500).astype(np.uint32)
    extra = {"image-label": {"version": "0.5-dev-spatialdata"}}
    write_element(folder / "labels/cells", cells, ("y", "x"), flat, extra)
    return folder
