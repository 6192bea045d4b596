"""Writes what the benchmarks read: large images, few chunks real; archives; a plate.

python data.py FOLDER
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
import zarr
from numcodecs import Blosc
from zarr.codecs import BloscCodec

SIDE = 4096
"""Height and width in voxels of what is real of level 0."""

BIG = {"1e4": 5, "1e6": 123}
"""Chunks of level 0 -> number of planes; 2 channels, chunks of 256 x 256."""

BIG_SIDE = {"1e4": 8192, "1e6": 16384}
LEVELS = 5
REAL_PLANES = 4
ENTRIES = 100_000
PLATES = {
    "96 x 4": (8, 12, 4, "0.4"),
    "384 x 9": (16, 24, 9, "0.5"),
    "1536 x 4": (32, 48, 4, "0.4"),
}
"""Name -> rows, columns, fields per well, version."""
SCREEN = 32, 48


def picture(side: int, seed: int = 0) -> np.ndarray:
    """Cells-like pixels with noise, axes yx, uint16; blosc makes them half as large."""
    random = np.random.default_rng(seed)
    y, x = np.ogrid[:side, :side]
    smooth = 900 + 600 * np.sin(y / 37) * np.cos(x / 53)
    return random.poisson(smooth).astype(np.uint16)


def make_array(
    folder: Path,
    shape,
    chunks,
    *,
    shards=None,
    version: str = "0.5",
    dtype="uint16",
    names=None,
) -> zarr.Array:
    """Make an empty array of blosc-zstd chunks."""
    old = version == "0.4"
    codec = (
        Blosc("zstd", 5, Blosc.SHUFFLE)
        if old
        else BloscCodec(cname="zstd", clevel=5, shuffle="shuffle")
    )
    separator = {"name": "v2" if old else "default", "separator": "/"}
    return zarr.create_array(
        store=str(folder),
        shape=shape,
        chunks=chunks,
        shards=shards,
        dtype=dtype,
        compressors=codec,
        chunk_key_encoding=separator,
        zarr_format=2 if old else 3,
        fill_value=0,
        dimension_names=names,
    )


def write_group(folder: Path, content: dict, version: str) -> None:
    """Write the metadata of a group."""
    folder.mkdir(parents=True, exist_ok=True)
    if version == "0.4":
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        (folder / ".zattrs").write_text(json.dumps(content))
        return
    content = {"ome": {"version": version, **content}}
    document = {"zarr_format": 3, "node_type": "group", "attributes": content}
    (folder / "zarr.json").write_text(json.dumps(document))


def write_image(folder: Path, axes: str, levels: int, version: str) -> None:
    """Write the metadata of an image whose levels halve y and x."""
    types = {"c": "channel"}
    datasets = []
    for i in range(levels):
        scale = [2.0**i if axis in "yx" else 1.0 for axis in axes]
        shift = [(2.0**i - 1) / 2 if axis in "yx" else 0.0 for axis in axes]
        transformations = [
            {"type": "scale", "scale": scale},
            {"type": "translation", "translation": shift},
        ]
        datasets.append({"path": str(i), "coordinateTransformations": transformations})
    multiscale = {
        "name": folder.name.split(".")[0],
        "axes": [{"name": a, "type": types.get(a, "space")} for a in axes],
        "datasets": datasets,
    }
    if version == "0.4":
        multiscale["version"] = version
    content: dict = {"multiscales": [multiscale]}
    if "c" in axes:
        window = {"min": 0, "max": 4000, "start": 200, "end": 2000}
        colors = ("00FF00", "FF00FF")
        content["omero"] = {
            "channels": [
                {"color": color, "active": True, "window": window, "label": label}
                for color, label in zip(colors, "AB", strict=True)
            ]
        }
    write_group(folder, content, version)


def write_small(folder: Path, version: str) -> None:
    """Write a small image of two channels and three levels."""
    write_image(folder, "czyx", 3, version)
    for i in range(3):
        shape = (2, 4, 256 >> i, 256 >> i)
        array = make_array(folder / str(i), shape, (1, 1, 64, 64), version=version)
        array[...] = np.broadcast_to(picture(256 >> i), shape)


def write_big(folder: Path, name: str, version: str) -> None:
    """Write a large image: real are some planes of the middle at the coarsest levels
    and, in one plane, `SIDE` x `SIDE` voxels of level 0.
    """
    write_image(folder, "czyx", LEVELS, version)
    planes, side = BIG[name], BIG_SIDE[name]
    middle = planes // 2
    real = slice(middle - 1, middle - 1 + REAL_PLANES)
    for i in range(LEVELS):
        n = side >> i
        shape = (2, planes, n, n)
        array = make_array(folder / str(i), shape, (1, 1, 256, 256), version=version)
        if i == 0:
            array[0, middle, :SIDE, :SIDE] = picture(SIDE)
        elif n <= 2048:
            array[:, real] = np.broadcast_to(picture(n), (2, REAL_PLANES, n, n))


def write_flat(folder: Path, chunk: int, shard: int | None, version: str) -> None:
    """Write one real plane of `SIDE` x `SIDE`."""
    write_image(folder, "yx", 1, version)
    shape = (SIDE, SIDE)
    shards = (shard, shard) if shard else None
    chunks = (chunk, chunk)
    array = make_array(folder / "0", shape, chunks, shards=shards, version=version)
    array[...] = picture(SIDE)


def pack(folder: Path) -> None:
    """Write a folder as an `.ozx` beside it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    files.sort(key=lambda path: path.name != "zarr.json")
    with zipfile.ZipFile(folder.with_suffix(".ozx"), "w") as archive:
        archive.comment = b'{"ome": {"version": "0.5"}}'
        for path in files:
            archive.write(path, path.relative_to(folder).as_posix())


def write_entries(path: Path) -> None:
    """Write an `.ozx` of about `ENTRIES` small stored entries."""
    side = int(ENTRIES**0.5)
    folder = path.with_suffix(".folder")
    write_image(folder, "yx", 1, "0.5")
    make_array(folder / "0", (side * 16, side * 16), (16, 16), dtype="uint8")
    chunk = Blosc("zstd", 5, Blosc.SHUFFLE).encode(np.arange(256, dtype=np.uint8))
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b'{"ome": {"version": "0.5"}}'
        for document in ("zarr.json", "0/zarr.json"):
            archive.write(folder / document, document)
        for y in range(side):
            for x in range(side):
                archive.writestr(f"0/c/{y}/{x}", chunk)
    shutil.rmtree(folder)


def write_plate(
    folder: Path, height: int, width: int, fields: int, version: str
) -> None:
    """Write a plate of small fields that share their pixels."""
    rows = [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ", "AA", "AB", "AC", "AD", "AE", "AF"][:height]
    columns = [str(i + 1) for i in range(width)]
    wells = [
        {"path": f"{r}/{c}", "rowIndex": i, "columnIndex": j}
        for i, r in enumerate(rows)
        for j, c in enumerate(columns)
    ]
    plate = {
        "columns": [{"name": c} for c in columns],
        "rows": [{"name": r} for r in rows],
        "wells": wells,
        "field_count": fields,
        "name": "plate",
        "version": version,
    }
    write_group(folder, {"plate": plate}, version)
    field = folder.parent / "field.tmp"
    write_image(field, "cyx", 3, version)
    for i in range(3):
        n = 128 >> i
        array = make_array(field / str(i), (2, n, n), (1, 64, 64), version=version)
        array[...] = np.broadcast_to(picture(n), (2, n, n))
    images = {"images": [{"path": str(i)} for i in range(fields)], "version": version}
    for row in rows:
        write_group(folder / row, {}, version)
    for well in wells:
        write_group(folder / well["path"], {"well": images}, version)
        for i in range(fields):
            target = folder / well["path"] / str(i)
            shutil.copytree(field, target, copy_function=os.link)
    shutil.rmtree(field)


def write_screen(folder: Path) -> None:
    """Write the metadata alone of a plate of 1536 wells, a field with labels each."""
    rows = [chr(ord("A") + i) for i in range(26)] + [
        f"A{chr(65 + i)}" for i in range(6)
    ]
    columns = [str(i + 1) for i in range(SCREEN[1])]
    wells = [
        {"path": f"{r}/{c}", "rowIndex": i, "columnIndex": j}
        for i, r in enumerate(rows)
        for j, c in enumerate(columns)
    ]
    plate = {
        "columns": [{"name": c} for c in columns],
        "rows": [{"name": r} for r in rows],
        "wells": wells,
        "field_count": 1,
        "name": "screen",
        "version": "0.5",
    }
    write_group(folder, {"plate": plate}, "0.5")
    well = folder.parent / "well.tmp"
    write_group(well, {"well": {"images": [{"path": "0"}], "version": "0.5"}}, "0.5")
    write_image(well / "0", "cyx", 3, "0.5")
    write_group(well / "0" / "labels", {"labels": ["nuclei"]}, "0.5")
    write_image(well / "0" / "labels" / "nuclei", "yx", 3, "0.5")
    document = well / "0" / "labels" / "nuclei" / "zarr.json"
    content = json.loads(document.read_text())
    content["attributes"]["ome"]["image-label"] = {"version": "0.5"}
    document.write_text(json.dumps(content))
    for i in range(3):
        n = 1024 >> i
        make_array(well / "0" / str(i), (2, n, n), (1, 256, 256), names="cyx")
        array = document.parent / str(i)
        make_array(array, (n, n), (256, 256), dtype="uint32", names="yx")
    for row in rows:
        write_group(folder / row, {}, "0.5")
    for place in wells:
        shutil.copytree(well, folder / place["path"], copy_function=os.link)
    shutil.rmtree(well)


FLAT = {
    "256": (256, None, "0.5"),
    "512": (512, None, "0.5"),
    "sharded": (256, 2048, "0.5"),
    "v2": (256, None, "0.4"),
}
"""Name -> chunk, shard, version."""


def write_all(data: Path) -> None:
    """Write every data set that is not there yet."""
    jobs: dict[str, tuple] = {}
    for version in ("0.4", "0.5"):
        jobs[f"small-{version}.zarr"] = (write_small, version)
        for name in BIG:
            jobs[f"{name}-{version}.zarr"] = (write_big, name, version)
    for name, spec in FLAT.items():
        jobs[f"flat-{name}.zarr"] = (write_flat, *spec)
    jobs["entries.ozx"] = (write_entries,)
    for name, plate in PLATES.items():
        jobs[f"plate-{name}.zarr"] = (write_plate, *plate)
    jobs["screen.zarr"] = (write_screen,)
    for name, (write, *arguments) in jobs.items():
        final = data / name
        if final.exists():
            continue
        print(f"  writing {name}", flush=True)
        partial = data / f"{name}.part" / name
        shutil.rmtree(partial.parent, ignore_errors=True)
        partial.parent.mkdir(parents=True)
        write(partial, *arguments)
        partial.rename(final)
        partial.parent.rmdir()
    for name in ("256", "sharded"):
        if not (data / f"flat-{name}.ozx").exists():
            pack(data / f"flat-{name}.zarr")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    write_all(target)
