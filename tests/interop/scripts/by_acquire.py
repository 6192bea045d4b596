"""acquire-zarr: an image and a plate, streamed; it reads nothing itself."""

from __future__ import annotations

import acquire_zarr as acquire
from common import main, random_pixels
from zarr_levels import labels_below, levels

IMAGE = random_pixels(4, 2, 96, 128)
FIELD = random_pixels(4, 2, 96, 128, seed=2)
PLATE = "store.zarr/plate"


def settings(key, **options):
    kind = acquire.DimensionType
    sizes = {"t": (4, 2), "c": (2, 1), "y": (96, 48), "x": (128, 64)}
    kinds = {"t": kind.TIME, "c": kind.CHANNEL, "y": kind.SPACE, "x": kind.SPACE}
    dimensions = [
        acquire.Dimension(
            name=name,
            kind=kinds[name],
            array_size_px=size,
            chunk_size_px=chunk,
            shard_size_chunks=2,
            scale=0.5 if name in "yx" else 1.0,
        )
        for name, (size, chunk) in sizes.items()
    ]
    return acquire.ArraySettings(
        output_key=key,
        dimensions=dimensions,
        data_type=acquire.DataType.UINT16,
        compression=acquire.CompressionSettings(
            compressor=acquire.Compressor.BLOSC1,
            codec=acquire.CompressionCodec.BLOSC_ZSTD,
            level=1,
            shuffle=1,
        ),
        downsampling_method=acquire.DownsamplingMethod.MEAN,
        **options,
    )


def write():
    field = acquire.FieldOfView(path="fov1", array_settings=settings(None))
    well = acquire.Well(row_name="A", column_name="1", images=[field])
    runs = [acquire.Acquisition(id=0, name="first")]
    plate = acquire.Plate(
        path="plate",
        name="plate",
        row_names=["A"],
        column_names=["1"],
        wells=[well],
        acquisitions=runs,
    )
    stream = acquire.ZarrStream(
        acquire.StreamSettings(
            store_path="store.zarr", arrays=[settings("image")], hcs_plates=[plate]
        )
    )
    stream.append(IMAGE, key="image")
    stream.append(FIELD, key="plate/A/1/fov1")
    stream.close()
    return {"store.zarr/image": IMAGE, f"{PLATE}/A/1/fov1": FIELD}, [PLATE]


def read():
    paths = ["store.zarr/image", f"{PLATE}/A/1/fov1"]
    return {one: levels(one) for path in paths for one in [path, *labels_below(path)]}


if __name__ == "__main__":
    main("acquire-zarr", write, read)
