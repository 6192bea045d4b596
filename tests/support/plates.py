"""Writes plates of tiny images quickly, without any library: for tests."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_uppercase

import numpy as np

AXES = {
    "t": {"name": "t", "type": "time"},
    "c": {"name": "c", "type": "channel"},
    "z": {"name": "z", "type": "space", "unit": "micrometer"},
    "y": {"name": "y", "type": "space", "unit": "micrometer"},
    "x": {"name": "x", "type": "space", "unit": "micrometer"},
}
LETTERS = (*ascii_uppercase, *(f"A{letter}" for letter in ascii_uppercase))
SPACING = 0.5
"""Micrometers per voxel along y and x, in all of them."""


def write_group(folder, attributes, zarr_format):
    """Write a group; `attributes` are those of OME-Zarr."""
    folder.mkdir(parents=True, exist_ok=True)
    if zarr_format == 2:
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        (folder / ".zattrs").write_text(json.dumps(attributes))
        return
    inner = {"ome": {"version": "0.5", **attributes}} if attributes else {}
    document = {"zarr_format": 3, "node_type": "group", "attributes": inner}
    (folder / "zarr.json").write_text(json.dumps(document))


def write_array(folder, data, zarr_format):
    """Write an array as a single uncompressed chunk."""
    folder.mkdir(parents=True, exist_ok=True)
    shape = list(data.shape)
    if zarr_format == 2:
        document = {
            "zarr_format": 2,
            "shape": shape,
            "chunks": shape,
            "dtype": data.dtype.str,
            "compressor": None,
            "fill_value": 0,
            "order": "C",
            "filters": None,
            "dimension_separator": "/",
        }
        (folder / ".zarray").write_text(json.dumps(document))
        chunk = folder.joinpath(*"0" * data.ndim)
    else:
        grid = {"name": "regular", "configuration": {"chunk_shape": shape}}
        codec = {"name": "bytes", "configuration": {"endian": "little"}}
        document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": data.dtype.name,
            "chunk_grid": grid,
            "chunk_key_encoding": {"name": "default"},
            "codecs": [codec],
            "fill_value": 0,
            "attributes": {},
        }
        (folder / "zarr.json").write_text(json.dumps(document))
        chunk = folder.joinpath("c", *"0" * data.ndim)
    chunk.parent.mkdir(parents=True, exist_ok=True)
    chunk.write_bytes(data.tobytes())


def write_image(
    folder,
    data,
    zarr_format,
    axes="cyx",
    levels=2,
    corner=None,
    name="",
    labels=(),
    label=None,
    planes=None,
):
    """Write an image, each level every second voxel of the one before.

    `corner` is its place along y and x in voxels; `labels` are names of label images,
    whose voxels are those of its first channel; `label` makes it one; `planes` has
    the distance of planes and the place of the first, by axis; also of rows or columns.
    """
    planes = planes or {}
    datasets = []
    for level in range(levels):
        scale = [SPACING * 2**level if axis in "yx" else 1.0 for axis in axes]
        for axis, (step, _) in planes.items():
            scale[axes.index(axis)] = step * (2**level if axis in "yx" else 1)
        steps = [{"type": "scale", "scale": scale}]
        if corner is not None or planes:
            y, x = corner or (0, 0)
            place = {"y": SPACING * y, "x": SPACING * x}
            place |= {axis: first for axis, (_, first) in planes.items()}
            moved = [float(place.get(axis, 0)) for axis in axes]
            steps.append({"type": "translation", "translation": moved})
        datasets.append({"path": str(level), "coordinateTransformations": steps})
        write_array(
            folder / str(level), data[..., :: 2**level, :: 2**level], zarr_format
        )
    multiscale = {
        "name": name,
        "axes": [AXES[axis] for axis in axes],
        "datasets": datasets,
    }
    if zarr_format == 2:
        multiscale["version"] = "0.4"
    attributes = {"multiscales": [multiscale]}
    if label is not None:
        attributes["image-label"] = label
    write_group(folder, attributes, zarr_format)
    if labels:
        write_group(folder / "labels", {"labels": list(labels)}, zarr_format)
    first = axes.index("c") if "c" in axes else None
    flat = data if first is None else data.take(0, first)
    for one in labels:
        write_image(
            folder / "labels" / one,
            flat.astype("u4"),
            zarr_format,
            axes.replace("c", ""),
            levels,
            corner,
            label={},
            planes=planes,
        )


def pixels(number, shape, dtype="u2"):
    """Values that differ from image to image and from voxel to voxel; none is 0."""
    size = int(np.prod(shape))
    return (np.arange(size).reshape(shape) + 1 + number * 7 % 60000).astype(dtype)


def write_plate(
    root,
    zarr_format=3,
    grid=(2, 3),
    fields=4,
    shape=(1, 8, 8),
    levels=2,
    wells=None,
    placed=True,
    acquisitions=1,
    labelled=lambda well: (),
):
    """Write a plate; returns its folder.

    Parameters
    ----------
    grid
        Rows and columns.
    fields
        Per well and acquisition.
    shape
        Of a field, "cyx".
    wells
        Paths of those to write ("A/1"); all if None.
    placed
        Whether fields state their places, in a grid as square as can be.
    labelled
        Names of the labels of a well's fields, by its path.
    """
    root = Path(root)
    rows, columns = LETTERS[: grid[0]], [str(i + 1) for i in range(grid[1])]
    paths = [f"{row}/{column}" for row in rows for column in columns]
    runs = [{"id": i, "name": f"round {i}"} for i in range(acquisitions)]
    kept = paths if wells is None else list(wells)
    plate = {
        "name": "Tiny",
        "rows": [{"name": name} for name in rows],
        "columns": [{"name": name} for name in columns],
        "wells": [
            {
                "path": path,
                "rowIndex": rows.index(path.split("/")[0]),
                "columnIndex": columns.index(path.split("/")[1]),
            }
            for path in kept
        ],
        "acquisitions": runs,
    }
    write_group(root, {"plate": plate}, zarr_format)
    across = int(np.ceil(np.sqrt(fields)))
    for path in kept:
        images = [
            {"path": str(run * fields + k), "acquisition": run}
            for run in range(acquisitions)
            for k in range(fields)
        ]
        write_group(root / path, {"well": {"images": images}}, zarr_format)
        for image in images:
            number = int(image["path"])
            k = number % fields
            corner = (k // across * shape[-2], k % across * shape[-1])
            write_image(
                root / path / image["path"],
                pixels(paths.index(path) * 50 + number, shape),
                zarr_format,
                levels=levels,
                corner=corner if placed else None,
                name=f"{path} {number}",
                labels=labelled(path),
            )
    return root


def mark_own(document):
    """Let a label image be one of this package, by its zarr.json."""
    content = json.loads(document.read_text())
    (multiscale,) = content["attributes"]["ome"]["multiscales"]
    multiscale["metadata"] = {"software": "napari-ngff"}
    document.write_text(json.dumps(content))


def move_images(images, shift, scale=1.0):
    """Move images by (y, x) in micrometers, with voxels that are larger by `scale`."""
    for folder in images:
        document = json.loads((folder / "zarr.json").read_text())
        (multiscale,) = document["attributes"]["ome"]["multiscales"]
        for level in multiscale["datasets"]:
            steps = {step["type"]: step for step in level["coordinateTransformations"]}
            sizes = steps["scale"]["scale"]
            sizes[-2:] = [size * scale for size in sizes[-2:]]
            place = steps.setdefault(
                "translation", {"type": "translation", "translation": [0] * len(sizes)}
            )["translation"]
            place[-2:] = [old + new for old, new in zip(place[-2:], shift, strict=True)]
            level["coordinateTransformations"] = [
                steps["scale"],
                steps["translation"],
            ]
        (folder / "zarr.json").write_text(json.dumps(document))
