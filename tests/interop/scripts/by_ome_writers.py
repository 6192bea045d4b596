"""ome-writers: an image by each of its backends, and a plate; it reads nothing."""

from __future__ import annotations

import ome_writers as writers
import yaozarrs
from common import main, random_pixels
from zarr_levels import labels_below, levels

BACKENDS = ["tensorstore", "zarrs-python", "zarr-python", "acquire-zarr"]
PLATE = "plate.ome.zarr"
FIELDS = {
    "A/1/0": random_pixels(64, 80, seed=2),
    "B/2/0": random_pixels(64, 80, seed=3),
}


def image(backend):
    return random_pixels(3, 2, 70, 90, seed=BACKENDS.index(backend))


def dimension(name, count, kind, **options):
    return writers.Dimension(name=name, count=count, type=kind, **options)


def plane(height, width):
    options = {"chunk_size": 32, "scale": 0.5, "unit": "micrometer"}
    y = dimension("y", height, "space", **options)
    return [y, dimension("x", width, "space", **options)]


def stream(path, dimensions, backend, frames, **options):
    settings = writers.AcquisitionSettings(
        root_path=path,
        dimensions=dimensions,
        dtype="uint16",
        format=writers.OmeZarrFormat(name="ome-zarr", backend=backend),
        **options,
    )
    with writers.create_stream(settings) as opened:
        for frame in frames:
            opened.append(frame)


def write():
    finest = {}
    for backend in BACKENDS:
        path, pixels = f"{backend}.ome.zarr", image(backend)
        first = dimension("t", 3, "time"), dimension("c", 2, "channel")
        frames = [frame for time in pixels for frame in time]
        stream(path, [*first, *plane(70, 90)], backend, frames)
        finest[path] = pixels
    wells = [field.split("/") for field in FIELDS]
    places = [
        writers.Position(name=name, plate_row=row, plate_column=column)
        for row, column, name in wells
    ]
    position = writers.Dimension(name="p", type="position", coords=places)
    plate = writers.Plate(row_names=["A", "B"], column_names=["1", "2"], name="plate")
    dimensions = [position, *plane(64, 80)]
    stream(PLATE, dimensions, "tensorstore", FIELDS.values(), plate=plate)
    finest |= {f"{PLATE}/{field}": pixels for field, pixels in FIELDS.items()}
    return finest, [PLATE]


def read():
    paths = [f"{backend}.ome.zarr" for backend in BACKENDS]
    paths += [f"{PLATE}/{field}" for field in FIELDS]
    return {one: levels(one) for path in paths for one in [path, *labels_below(path)]}


if __name__ == "__main__":
    main("ome-writers", write, read, ("yaozarrs", yaozarrs.validate_zarr_store))
