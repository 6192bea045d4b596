"""A plate as Fractal writes it: each well is one image, whose table has its fields."""

from __future__ import annotations

import warnings

import numpy as np

from plates import SPACING, write_plate

SIDE = 16
"""Voxels of a field, of which each well has two by two."""


def write_boxes(path, boxes, *, backends=("csv",), masks="", names=()):
    """Write boxes (name -> axis -> start and length) by ngio, in each backend."""
    from judges import ngio

    rois = [
        ngio.Roi.from_values(
            name=name,
            slices={"z": (0.0, 1.0), **box},
            label=int(name) if masks else None,
            space="world",
            note=f"about {name}",
        )
        for name, box in boxes.items()
    ]
    container = ngio.open_ome_zarr_container(str(path))
    for backend, name in zip(backends, names or backends, strict=True):
        table = ngio.tables.RoiTable(rois=rois)
        if masks:
            table = ngio.tables.MaskingRoiTable(rois=rois, reference_label=masks)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            container.add_table(name, table, backend=backend, overwrite=True)


def write_fractal_plate(root, wells=("A/1", "A/2"), backend="csv", fields=1):
    """Write the plate; each well has the table FOV_ROI_table."""
    shape = (2, 2 * SIDE, 2 * SIDE)
    write_plate(root, grid=(1, 3), fields=fields, shape=shape, wells=list(wells))
    side = SIDE * SPACING
    corners = [(y * side, x * side) for y, x in np.ndindex(2, 2)]
    boxes = {
        f"FOV_{n}": {"y": (y, side), "x": (x, side)}
        for n, (y, x) in enumerate(corners, 1)
    }
    for well in wells:
        for field in range(fields):
            names = ("FOV_ROI_table",)
            path = root / well / str(field)
            write_boxes(path, boxes, backends=(backend,), names=names)
    return root
