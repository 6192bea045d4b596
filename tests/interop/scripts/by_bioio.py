"""bioio-ome-zarr: images of both versions, and one file; it reads no labels."""

from __future__ import annotations

from bioio_ome_zarr import Reader
from bioio_ome_zarr.writers import OMEZarrWriter
from common import main, random_pixels
from zarr_levels import labels_below, levels

IMAGE = random_pixels(2, 2, 3, 70, 90)
SHAPES = [IMAGE.shape, (2, 2, 3, 35, 45), (2, 2, 3, 17, 22)]
CHUNKS = (1, 1, 1, 32, 32)
FORMATS = {
    "0.4.ome.zarr": {"zarr_format": 2},
    "0.5.ozx": {"zarr_format": 3},
    "0.5.ome.zarr": {"zarr_format": 3, "shard_shape": (1, 1, 3, 64, 64)},
}


def write():
    for path, options in FORMATS.items():
        writer = OMEZarrWriter(
            path,
            SHAPES,
            "uint16",
            chunk_shape=CHUNKS,
            physical_pixel_size=[1.0, 1.0, 2.0, 0.5, 0.5],
            axes_units=[None, None, *["micrometer"] * 3],
            **options,
        )
        writer.write_full_volume(IMAGE)
        writer.close()
    return dict.fromkeys(FORMATS, IMAGE), []


def read():
    found = {}
    for path in FORMATS:
        reader = Reader(path)
        found[path] = []
        for level in reader.resolution_levels:
            reader.set_resolution_level(level)
            found[path].append(reader.get_image_data("TCZYX"))
        found |= {labels: levels(labels) for labels in labels_below(path)}
    return found


if __name__ == "__main__":
    main("bioio-ome-zarr", write, read)
