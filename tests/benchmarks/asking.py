"""Counts the requests of usual tasks: the table of docs/design/014.

    python tests/benchmarks/asking.py

Each task begins without anything that is known, on a bucket of S3 and on a server of
HTTP, both on this computer.
"""

from __future__ import annotations

import itertools
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import numpy as np
import zarr

from buckets import bucket_server
from napari_ngff import open_node
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.chunked_array import cache, open_array
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.store.write.zip_packing import pack_hierarchy
from napari_ngff.viewer.reader import read_paths
from plates import pixels, write_image, write_plate
from range_server import serving_ranges


def write_files(folder: Path) -> None:
    """Write an image with labels in two versions, an archive of it, and a plate."""
    for version in (2, 3):
        image = folder / f"i{version}.zarr"
        write_image(image, pixels(1, (2, 128, 128)), version, labels=("nuclei",))
    labels = zarr.open_group(folder / "i3.zarr/labels/nuclei")
    noise = np.random.default_rng(1).integers(1, 9, (128, 128), "u2")
    labels.create_array("0", data=noise, chunks=(32, 32), overwrite=True)
    pack_hierarchy(folder / "i3.zarr", folder / "i.ozx")
    write_plate(folder / "p.zarr")


def read_level(path: str, level: int) -> None:
    """Open an image, and read all of a level."""
    found = open_pyramid(open_node(path)).levels[level]
    found.read(tuple((0, n) for n in found.shape))


def save_chunks(root: str, count: int, asked: list[Any]) -> None:
    """Save chunks of labels that are open."""
    source = open_node(f"{root}/i3.zarr").location.source
    transaction = source.begin()
    writer = ArrayWriter(open_array(source, "labels/nuclei/0"), transaction)
    array = writer.array
    grid = [-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)]
    forget(asked)

    def paint(_: Any, values: Any) -> bool:
        values[...] = 7
        return True

    for cell in itertools.islice(itertools.product(*map(range, grid)), count):
        writer.update_cells(cell, [cell], paint)
    transaction.commit()


def forget(asked: list[Any]) -> None:
    """Begin to count again, when the answers of what came before are there."""
    time.sleep(0.3)
    asked.clear()


TASKS: dict[str, Callable[[str], Any]] = {
    "open an image 0.4": lambda root: open_node(f"{root}/i2.zarr"),
    "open an image 0.5": lambda root: open_node(f"{root}/i3.zarr"),
    "list its labels": lambda root: open_node(f"{root}/i3.zarr").labels(),
    "read its coarsest level": lambda root: read_level(f"{root}/i3.zarr", -1),
    "read its finest level": lambda root: read_level(f"{root}/i3.zarr", 0),
    "read its layers": lambda root: read_paths(f"{root}/i3.zarr"),
    "open a plate": lambda root: open_node(f"{root}/p.zarr"),
    "read a level of an archive": lambda root: read_level(f"{root}/i.ozx", 0),
}


def count_requests(root: str, asked: list[Any], writes: bool) -> dict[str, str]:
    """Count the requests of each task."""
    tasks = dict(TASKS)
    if writes:
        for count in (1, 4):
            name = f"save {count} chunk{'s' * (count > 1)} of its labels"
            tasks[name] = lambda root, count=count: save_chunks(root, count, asked)
    found = {}
    for name, task in tasks.items():
        cache.clear()
        forget(asked)
        task(root)
        time.sleep(0.3)
        methods = Counter(getattr(one, "method", "GET") for one in asked)
        found[name] = ", ".join(f"{count} {name}" for name, count in methods.items())
    return found


def main() -> None:
    """Print a line for each task."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        with bucket_server() as files:
            files.mkdir("data")
            files.put(folder, "data", ACL="public-read")
            bucket = count_requests("s3://data", files.asked, writes=True)
        with serving_ranges(name) as server:
            web = count_requests(server.address, server.asked, writes=False)
    for task, counts in bucket.items():
        print(f"| {task} | {web.get(task, '')} | {counts} |")


if __name__ == "__main__":
    main()
