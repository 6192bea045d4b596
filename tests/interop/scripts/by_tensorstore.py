"""tensorstore: arrays of Zarr 2 and 3; metadata by hand."""

from __future__ import annotations

import json
from pathlib import Path

import tensorstore
from common import main, random_labels, random_pixels

IMAGE, LABELS = random_pixels(3, 40, 70, dtype="i2"), random_labels(3, 40, 70)
SHARDED = {
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 32, 32]}},
    "codecs": [
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": [1, 16, 16],
                "codecs": [
                    {"name": "transpose", "configuration": {"order": [2, 0, 1]}},
                    {"name": "bytes", "configuration": {"endian": "big"}},
                    {"name": "zstd", "configuration": {"level": 3}},
                    {"name": "crc32c"},
                ],
                "index_location": "start",
            },
        }
    ],
}
PLAIN = {
    "chunks": [1, 32, 32],
    "dimension_separator": "/",
    "order": "F",
    "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 2},
}
ARRAYS = {"0.4": ("zarr", PLAIN), "0.5": ("zarr3", SHARDED)}
AXES = [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"]


def array(path, driver, **options):
    store = {"driver": "file", "path": path}
    spec = {"driver": driver, "kvstore": store} | options
    return tensorstore.open(spec).result()


def attributes(path, version, content):
    """Write the metadata of a group."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    if version == "0.4":
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        (folder / ".zattrs").write_text(json.dumps(content))
        return
    ome = {"ome": {"version": version, **content}}
    document = {"zarr_format": 3, "node_type": "group", "attributes": ome}
    (folder / "zarr.json").write_text(json.dumps(document))


def multiscale(path, version, pixels):
    driver, metadata = ARRAYS[version]
    datasets = []
    for number, level in enumerate([pixels, pixels[:, ::2, ::2]]):
        target = array(
            f"{path}/{number}",
            driver,
            create=True,
            metadata=metadata,
            schema={"dtype": level.dtype.name, "domain": {"shape": level.shape}},
        )
        target.write(level).result()
        step = {"type": "scale", "scale": [2.0, 0.5 * 2**number, 0.5 * 2**number]}
        datasets.append({"path": f"{number}", "coordinateTransformations": [step]})
    own = {"version": version} if version == "0.4" else {}
    return [{**own, "axes": AXES, "datasets": datasets}]


def write():
    finest = {}
    for version in ARRAYS:
        path = f"{version}.ome.zarr"
        below = f"{path}/labels/cells"
        attributes(path, version, {"multiscales": multiscale(path, version, IMAGE)})
        attributes(f"{path}/labels", version, {"labels": ["cells"]})
        cells = {"multiscales": multiscale(below, version, LABELS), "image-label": {}}
        attributes(below, version, cells)
        finest |= {path: IMAGE, below: LABELS}
    return finest, []


def read():
    found = {}
    for version, (driver, _) in ARRAYS.items():
        path = Path(f"{version}.ome.zarr")
        name = ".zarray" if version == "0.4" else "zarr.json"
        for document in sorted(path.rglob(name)):
            if "shape" in json.loads(document.read_text()):
                levels = found.setdefault(document.parents[1].as_posix(), [])
                opened = array(document.parent.as_posix(), driver, open=True)
                levels.append(opened.read().result())
    return found


if __name__ == "__main__":
    main("tensorstore", write, read)
