"""Saving labels: what is saved, by whom, and how it is measured; see `cases.py`.

Each contender runs in a process of its own, on an array in memory. Peak memory is what
lies above the start, so without that array.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from napari_ngff.store.arrays.array_document import NewArray
    from napari_ngff.store.pyramids.level_reduction import Method

JSON = dict[str, Any]
Save = Callable[[Path, str, np.ndarray], None]
Values = dict[str, dict[str, list[float]]]

LEVELS = 5
THREADS = 2

SYNCING = 8
"""Threads that wait for the disk."""

SAVED = "saved"
"""Folder of what is saved."""


@dataclass(frozen=True)
class Codec:
    """How numcodecs is asked for a codec, and how Zarr v3 states it."""

    numcodecs: JSON
    stated: JSON


ZSTD = Codec(
    {"id": "zstd", "level": 1},
    {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
)
"""Of new labels."""

BLOSC = Codec(
    {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1},
    {
        "name": "blosc",
        "configuration": {
            "typesize": 4,
            "cname": "zstd",
            "clevel": 5,
            "shuffle": "shuffle",
            "blocksize": 0,
        },
    },
)
"""As zarr-python sets it where it is asked for blosc, so often of labels of others."""

PICTURES = {
    "plane": ("yx", (8192, 8192), (512, 512)),
    "stack": ("zyx", (64, 2048, 2048), (1, 512, 512)),
}
"""Axes, shape and chunks of what is saved."""


def labels(name: str) -> np.ndarray:
    """Round cells on a grid, three fifths of the ground, each with its own number."""
    _, shape, _ = PICTURES[name]
    side = 40
    y, x = (np.arange(n, dtype=np.uint32) for n in shape[-2:])
    number = (y // side)[:, None] * np.uint32(shape[-1] // side + 1) + x // side + 1
    away = (y % side - side / 2)[:, None] ** 2 + (x % side - side / 2) ** 2
    plane = np.where(away < (0.44 * side) ** 2, number, 0).astype(np.uint32)
    if len(shape) == 2:
        return plane
    stack = np.empty(shape, np.uint32)
    for z in range(shape[0]):
        stack[z] = np.roll(plane, z, axis=1)
    return stack


# -------- all of a label image, into a new file --------


def by_us(folder: Path, name: str, pixels: np.ndarray) -> None:
    """The writer, as napari calls it: to the disk, and renamed when it is there."""
    from napari_ngff.viewer.composing.write_layers import write

    axes = PICTURES[name][0]
    keywords = {"name": "cells", "axis_labels": tuple(axes)}
    write(folder / "new.zarr", [(pixels, keywords, "labels")], to_version="0.5")


def by_levels(
    folder: Path, name: str, pixels: np.ndarray, method: Method, codec: Codec
) -> None:
    """The same, by another method or codec, and without what is said of an image."""
    from napari_ngff.metadata.model import Axis
    from napari_ngff.store.arrays.lazy_array import PlainSource
    from napari_ngff.store.pyramids.level_reduction import LevelReduction
    from napari_ngff.store.pyramids.pyramid_writer import PyramidPlan, PyramidWriter
    from napari_ngff.store.write.new_hierarchy import NewHierarchy

    axes = PICTURES[name][0]
    ones = (1,) * len(axes)
    kinds = [Axis(letter, "space") for letter in axes]
    outline = PyramidPlan.choose_shapes(pixels.shape, kinds, ones, ones, levels=LEVELS)
    reducers = [
        LevelReduction.between_shapes(fine, coarse, method, step)
        for fine, coarse, step in outline.steps
    ]
    with NewHierarchy(folder / "new.zarr") as draft:
        arrays = [
            (path, coded(new, codec))
            for path, new in outline.describe_arrays(
                pixels.dtype, tuple(axes), shuffle=False
            )
        ]
        cascade = PyramidWriter(draft, arrays, reducers, "0.5", outline.tile)
        cascade.write_levels(PlainSource(pixels), concurrency=THREADS)


def coded(new: NewArray, codec: Codec) -> NewArray:
    """Have an array compressed by another codec than that of new ones."""
    from napari_ngff.store.arrays.array_document import NewArray

    class Coded(NewArray):
        def make_document(self, version: str) -> tuple[str, bytes]:
            name, text = NewArray.make_document(self, version)
            document = json.loads(text)
            document["codecs"][1] = codec.stated
            return name, json.dumps(document).encode()

    return Coded(new.shape, new.chunks, new.dtype, new.names)


def floor(
    folder: Path, name: str, pixels: np.ndarray, codec: Codec, *, to_disk: bool
) -> None:
    """Compress level 0 and write its files, and nothing else.

    Where they are forced to the disk, that is while others are compressed.
    """
    from numcodecs import get_codec

    encode, chunks = get_codec(codec.numcodecs).encode, PICTURES[name][2]

    def step(corner: tuple[int, ...]) -> None:
        part = tuple(
            slice(start, start + n) for start, n in zip(corner, chunks, strict=True)
        )
        path = folder / "-".join(map(str, corner))
        path.write_bytes(encode(np.ascontiguousarray(pixels[part])))
        if to_disk:
            syncing.append(disk.submit(sync, path))

    syncing: list[Future[None]] = []
    spans = zip(pixels.shape, chunks, strict=True)
    corners = itertools.product(*(range(0, size, n) for size, n in spans))
    with ThreadPoolExecutor(SYNCING) as disk:
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(step, corners))
        for one in syncing:
            one.result()
    if to_disk:
        sync(folder)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def by_ome_zarr(folder: Path, name: str, pixels: np.ndarray) -> None:
    import zarr
    from ome_zarr.writer import write_labels

    axes, _, chunks = PICTURES[name]
    group = zarr.open_group(str(folder / "new.zarr"), mode="w")
    write_labels(
        pixels,
        group,
        "cells",
        scaler=None,
        axes=axes,
        scale_factors=[2**i for i in range(1, LEVELS)],
        storage_options={"chunks": chunks},
    )


def by_ngio(folder: Path, name: str, pixels: np.ndarray) -> None:
    import ngio

    axes, shape, chunks = PICTURES[name]
    container = ngio.create_empty_ome_zarr(
        folder / "new.zarr",
        shape,
        pixelsize=1.0,
        axes_names=list(axes),
        levels=LEVELS,
        chunks=chunks,
        ngff_version="0.5",
    )
    label = container.derive_label("cells", dtype="uint32")
    label.set_array(pixels)
    label.consolidate()


def by_ngff_zarr(folder: Path, name: str, pixels: np.ndarray) -> None:
    import ngff_zarr

    axes, _, chunks = PICTURES[name]
    image = ngff_zarr.to_ngff_image(pixels, dims=list(axes))
    factors = [
        {letter: 2**i if letter in "yx" else 1 for letter in axes}
        for i in range(1, LEVELS)
    ]
    levels = ngff_zarr.to_multiscales(
        image,
        factors,
        method=ngff_zarr.Methods.DASK_IMAGE_NEAREST,
        chunks=dict(zip(axes, chunks, strict=True)),
    )
    ngff_zarr.to_ngff_zarr(str(folder / "new.zarr"), levels, version="0.5")


def ours(codec: Codec) -> dict[str, Save]:
    """Our ways, and what they are compared with."""
    return {
        "napari-ngff": partial(by_levels, method="mode", codec=codec),
        "the same, nearest": partial(by_levels, method="nearest", codec=codec),
        "floor": partial(floor, codec=codec, to_disk=False),
        "floor, on the disk": partial(floor, codec=codec, to_disk=True),
    }


FULL: dict[str, dict[str, Save]] = {
    "zstd": ours(ZSTD)
    | {
        "napari-ngff": by_us,
        "ome-zarr-py": by_ome_zarr,
        "ngio": by_ngio,
        "ngff-zarr": by_ngff_zarr,
    },
    "blosc": ours(BLOSC),
}
"""Codec and name of each way to save; others choose their codec themselves."""


def full_save(
    data: Path, rounds: int, name: str, who: str, codec: str = "zstd"
) -> Values:
    """Milliseconds for all levels of a label image, warmed up, without imports."""
    pixels = labels(name)
    warm_up(data, who, codec)
    times = []
    for _ in range(rounds):
        with fresh(data) as folder:
            start = time.perf_counter()
            FULL[codec][who](folder, name, pixels)
            times.append((time.perf_counter() - start) * 1000)
    return {name: {who: times}}


def full_save_memory(data: Path, rounds: int, name: str, who: str) -> Values:
    """Growth of memory in MB while all levels are saved."""
    from cases import growth

    pixels = labels(name)
    warm_up(data, who)
    values: list[float] = []
    with fresh(data) as folder, growth(values):
        FULL["zstd"][who](folder, name, pixels)
    return {name: {who: values}}


def warm_up(data: Path, who: str, codec: str = "zstd") -> None:
    """Save something small."""
    PICTURES["small"] = ("yx", (600, 600), (512, 512))
    with fresh(data) as folder:
        FULL[codec][who](folder, "small", np.ones((600, 600), np.uint32))


@contextmanager
def fresh(data: Path) -> Iterator[Path]:
    """A folder for what is saved, which `run.py` removes when all is measured.

    Not before, since ext4 without a journal makes files more slowly for minutes after
    others were removed. The disk is at rest afterwards.
    """
    saved = data / SAVED
    saved.mkdir(parents=True, exist_ok=True)
    yield Path(tempfile.mkdtemp(dir=saved))
    if hasattr(os, "sync"):
        os.sync()


# -------- what to run --------

CASES: dict[str, Callable[..., Values]] = {
    function.__name__: function for function in (full_save, full_save_memory)
}
