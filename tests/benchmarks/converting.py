"""How long conversions take, and how much memory, against others and the floor.

    python converting.py DATA CASE [GIGABYTES]

prints one round by itself.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from packing import alternate, copied

Values = dict[str, dict[str, list[float]]]

SIDE, CHUNK, SHARD = 2048, 512, 2048
PLANE = SIDE * SIDE * 2
"""Bytes of the pixels of a plane."""


def write_source(data: Path, gigabytes: str) -> Path:
    """Write 0.4 with blosc: planes of blurred noise, as of a camera."""
    import numcodecs

    folder = data / f"converted-{gigabytes}.ome.zarr"
    if folder.exists():
        return folder
    planes = max(1, round(float(gigabytes) * 1e9 / PLANE))
    partial = folder.with_suffix(".part")
    (partial / "0").mkdir(parents=True)
    rng = np.random.default_rng(0)
    waves = 800 * np.add.outer(*[np.sin(np.arange(SIDE) / 40) ** 2] * 2)
    plane = (waves + rng.poisson(200, (SIDE, SIDE))).astype("u2")
    codec = numcodecs.Blosc("lz4", 5, 1)
    document = {
        "zarr_format": 2,
        "shape": [planes, SIDE, SIDE],
        "chunks": [1, CHUNK, CHUNK],
        "dtype": "<u2",
        "compressor": codec.get_config(),
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "dimension_separator": "/",
    }
    (partial / "0" / ".zarray").write_text(json.dumps(document))
    for z in range(planes):
        shifted = np.roll(plane, 31 * z, 1) + np.uint16(z)
        for y in range(SIDE // CHUNK):
            place = partial / "0" / str(z) / str(y)
            place.mkdir(parents=True)
            for x in range(SIDE // CHUNK):
                rows = slice(y * CHUNK, (y + 1) * CHUNK)
                part = shifted[rows, x * CHUNK : (x + 1) * CHUNK]
                (place / str(x)).write_bytes(codec.encode(np.ascontiguousarray(part)))
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "zyx"]
    scale = [{"type": "scale", "scale": [1.0, 0.3, 0.3]}]
    dataset = {"path": "0", "coordinateTransformations": scale}
    entry = {"version": "0.4", "name": "a", "axes": axes, "datasets": [dataset]}
    (partial / ".zattrs").write_text(json.dumps({"multiscales": [entry]}))
    (partial / ".zgroup").write_text('{"zarr_format": 2}')
    partial.rename(folder)
    return folder


def flushed_copy(source: Path, copy: Path) -> None:
    copied(source, copy)
    subprocess.run(["sync", "-f", str(copy)], check=True)


def converting_metadata(data: Path, rounds: int, gigabytes: str) -> Values:
    """0.4 to 0.5, where the bytes of chunks stay; a copy by the system."""
    from napari_ngff import convert

    source, made = write_source(data, gigabytes), data / "made.ome.zarr"
    ways: dict[str, tuple[Callable[[], Any], Path]] = {
        "napari-ngff": (lambda: convert(source, made), made),
        "`cp -r`": (lambda: flushed_copy(source, made), made),
    }
    return {"time": alternate(ways, rounds)}


def store_by_dask(source: Path, made: Path) -> None:
    import dask.array as da
    import zarr

    pixels = da.from_zarr(str(source / "0")).rechunk((1, SHARD, SHARD))
    array = zarr.create_array(
        str(made / "0"),
        shape=pixels.shape,
        dtype=pixels.dtype,
        chunks=(1, CHUNK, CHUNK),
        shards=(1, SHARD, SHARD),
        compressors=zarr.codecs.ZstdCodec(level=1),
    )
    da.store(pixels, array, lock=False)


def store_by_ome_zarr(source: Path, made: Path) -> None:
    import dask.array as da
    import zarr
    from ome_zarr.writer import write_multiscale

    pixels = da.from_zarr(str(source / "0")).rechunk((1, SHARD, SHARD))
    options = {
        "chunks": (1, CHUNK, CHUNK),
        "shards": (1, SHARD, SHARD),
        "compressors": zarr.codecs.ZstdCodec(level=1),
    }
    group = zarr.open_group(str(made), mode="w", zarr_format=3)
    write_multiscale([pixels], group, axes="zyx", storage_options=options)


def store_by_ngff_zarr(source: Path, made: Path) -> None:
    import ngff_zarr
    import zarr

    image = ngff_zarr.from_ngff_zarr(str(source)).images[0]
    shards = {"z": 1, "y": SHARD // CHUNK, "x": SHARD // CHUNK}
    chunks = {"z": 1, "y": CHUNK, "x": CHUNK}
    multiscales = ngff_zarr.to_multiscales(image, [], chunks=chunks, cache=False)
    codec = zarr.codecs.ZstdCodec(level=1)
    ngff_zarr.to_ngff_zarr(
        str(made),
        multiscales,
        version="0.5",
        chunks_per_shard=shards,
        compressors=codec,
    )


def nothing() -> None:
    """What warms a process up."""
    import dask.array
    import zarr

    import napari_ngff

    del dask, zarr, napari_ngff


def converting_processes(data: Path, rounds: int, gigabytes: str, count: str) -> Values:
    """The same in 1 or 2 processes of one thread each, which run already."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    import dask

    from napari_ngff import convert

    source, made = write_source(data, gigabytes), data / "made.ome.zarr"
    side = f"y={SHARD},x={SHARD}"
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(int(count), mp_context=spawned) as pool:
        for each in [pool.submit(nothing) for _ in range(int(count) * 4)]:
            each.result()
        one = count == "1"
        name = "synchronous" if one else "processes"

        def ours() -> None:
            convert(source, made, codec="zstd:1", shards=side, scheduler=name)

        def floor() -> None:
            made.mkdir()
            code_only(source, None if one else pool)

        ways: dict[str, tuple[Callable[[], Any], Path]] = {
            "napari-ngff": (ours, made),
            "dask, zarr-python": (lambda: store_by_dask(source, made), made),
            "ome-zarr-py": (lambda: store_by_ome_zarr(source, made), made),
            "ngff-zarr": (lambda: store_by_ngff_zarr(source, made), made),
            "decode and encode": (floor, made),
        }
        if not one:  # its arrays cannot be sent to another process
            del ways["ngff-zarr"]
        settings = {"scheduler": name} | ({} if one else {"pool": pool})
        with dask.config.set(settings):
            return {"time": alternate(ways, rounds)}


def code_chunk(path: str) -> None:
    """Decode and encode one chunk."""
    import numcodecs

    with open(path, "rb") as file:
        numcodecs.Zstd(1).encode(numcodecs.Blosc("lz4", 5, 1).decode(file.read()))


def code_only(source: Path, pool: Any) -> None:
    """Decode and encode each chunk, and write nothing; without a pool one by one."""
    paths = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(source / "0")
        for name in names
        if not name.startswith(".")
    ]
    for _ in (
        pool.map(code_chunk, paths, chunksize=16) if pool else map(code_chunk, paths)
    ):
        pass


def code_by_threads(source: Path) -> None:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        code_only(source, pool)


def converting_chunks(data: Path, rounds: int, gigabytes: str) -> Values:
    """0.4 blosc to 0.5 zstd in shards: the pixels are decoded and encoded."""
    from napari_ngff import convert

    source, made = write_source(data, gigabytes), data / "made.ome.zarr"
    side = f"y={SHARD},x={SHARD}"

    def floor() -> None:
        made.mkdir()
        code_by_threads(source)

    ways: dict[str, tuple[Callable[[], Any], Path]] = {
        "napari-ngff": (
            lambda: convert(source, made, codec="zstd:1", shards=side),
            made,
        ),
        "dask, zarr-python": (lambda: store_by_dask(source, made), made),
        "ome-zarr-py": (lambda: store_by_ome_zarr(source, made), made),
        "ngff-zarr": (lambda: store_by_ngff_zarr(source, made), made),
        "decode and encode": (floor, made),
    }
    return {"time": alternate(ways, rounds)}


def converting_joined(data: Path, rounds: int, gigabytes: str) -> Values:
    """0.4 to 0.5 in shards, where the bytes of chunks stay; a copy by the system."""
    from napari_ngff import convert

    source, made = write_source(data, gigabytes), data / "made.ome.zarr"
    side = f"y={SHARD},x={SHARD}"
    ways: dict[str, tuple[Callable[[], Any], Path]] = {
        "napari-ngff": (lambda: convert(source, made, shards=side), made),
        "`cp -r`": (lambda: flushed_copy(source, made), made),
    }
    return {"time": alternate(ways, rounds)}


def converting_memory(data: Path, rounds: int, gigabytes: str, who: str) -> Values:
    """Most memory of the process, while it decodes and encodes."""
    del rounds
    from napari_ngff import convert

    source, made = write_source(data, gigabytes), data / "made.ome.zarr"
    if who == "napari-ngff":
        convert(
            source, made, codec="zstd:1", shards=f"y={SHARD},x={SHARD}", overwrite=True
        )
    else:
        store_by_dask(source, made)
    subprocess.run(["rm", "-rf", str(made)], check=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"memory": {who: [peak]}}


def write_planned(data: Path, units: str) -> Path:
    """Write an image of so many units by its shape; nothing is stored in it."""
    source = write_source(data, "0.008")
    huge = data / f"planned-{units}.ome.zarr"
    if not huge.exists():
        subprocess.run(["mkdir", "-p", str(huge / "0")], check=True)
        for name in (".zgroup", ".zattrs"):
            (huge / name).write_text((source / name).read_text())
        document = json.loads((source / "0" / ".zarray").read_text())
        document["shape"] = [int(units), 8192, 4096]
        document["chunks"] = [1, 4096, 4096]
        (huge / "0" / ".zarray").write_text(json.dumps(document))
    return huge


def running(data: Path, rounds: int, units: str) -> Values:
    """Do so many units, of which none has anything to copy, by two threads."""
    from napari_ngff import convert

    del rounds
    huge, made = write_planned(data, units), data / "ran.ome.zarr"
    start = time.perf_counter()
    result = convert(huge, made)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    subprocess.run(["rm", "-rf", str(made)], check=True)
    assert math.isclose(result.units, int(units), rel_tol=0.01), result.units
    each = seconds / result.units * 1e6
    return {"run": {"seconds": [seconds], "µs for each": [each], "MB": [peak]}}


def planning(data: Path, rounds: int, units: str) -> Values:
    """Plan an array of so many units, and list them; nothing is stored in it."""
    import tracemalloc

    from napari_ngff import open_node
    from napari_ngff.store.convert.conversion_plan import ConversionPlan
    from napari_ngff.store.convert.request import read_request

    del rounds
    huge = write_planned(data, units)
    tracemalloc.start()
    start = time.perf_counter()
    plan = ConversionPlan(open_node(huge), read_request({}))
    count = 0
    for task in plan.list_tasks():
        for index in range(task.count):
            count += 1
            if index % 64 == 0:  # a position costs a microsecond
                task.unit_box(index)
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    assert math.isclose(count, int(units), rel_tol=0.01), count
    return {"plan": {"seconds": [seconds], "MB": [peak]}}


CASES: dict[str, Callable[..., Values]] = {
    function.__name__: function
    for function in (
        converting_metadata,
        converting_chunks,
        converting_joined,
        converting_processes,
        converting_memory,
        planning,
        running,
    )
}


def main() -> None:
    data, case, *arguments = sys.argv[1:]
    Path(data).mkdir(exist_ok=True)
    print(json.dumps(CASES[case](Path(data), 2, *arguments)))


if __name__ == "__main__":
    main()
