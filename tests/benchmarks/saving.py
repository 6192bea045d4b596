"""Saving labels: what is saved, by whom, and how it is measured; see `cases.py`.

Each contender runs in a process of its own, on an array in memory. Peak memory is what
lies above the start, so without that array.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

Values = dict[str, dict[str, list[float]]]

LEVELS = 5
THREADS = 2

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
    from napari_ngff.viewer.writer import write

    axes = PICTURES[name][0]
    keywords = {"name": "cells", "axis_labels": tuple(axes)}
    write(folder / "new.zarr", [(pixels, keywords, "labels")], version="0.5")


def by_us_nearest(folder: Path, name: str, pixels: np.ndarray) -> None:
    """The same, coarser levels by the first voxel of each block."""
    from napari_ngff.labels.reduce import Reduction
    from napari_ngff.metadata.model import Axis
    from napari_ngff.store.cascade import Cascade
    from napari_ngff.store.draft import Draft
    from napari_ngff.store.outline import Outline
    from napari_ngff.viewer.composing.array_source import PlainSource

    axes = PICTURES[name][0]
    ones = (1,) * len(axes)
    kinds = [Axis(letter, "space") for letter in axes]
    outline = Outline.of(pixels.shape, kinds, ones, ones, levels=LEVELS)
    reducers = [
        (Reduction.of(fine, coarse, "nearest", step), step)
        for fine, coarse, step in outline.steps
    ]
    with Draft(folder / "new.zarr") as draft:
        arrays = outline.arrays(pixels.dtype, tuple(axes), shuffle=False)
        cascade = Cascade(draft, arrays, reducers, "0.5", outline.tile)
        cascade.write(PlainSource(pixels), concurrency=THREADS)


def floor(folder: Path, name: str, pixels: np.ndarray) -> None:
    """Compress level 0 and write its files, and nothing else."""
    from concurrent.futures import ThreadPoolExecutor

    from numcodecs import Zstd

    codec, chunks = Zstd(1), PICTURES[name][2]

    def step(corner: tuple[int, ...]) -> None:
        part = tuple(
            slice(start, start + n) for start, n in zip(corner, chunks, strict=True)
        )
        data = codec.encode(np.ascontiguousarray(pixels[part]))
        (folder / "-".join(map(str, corner))).write_bytes(data)

    spans = zip(pixels.shape, chunks, strict=True)
    corners = itertools.product(*(range(0, size, n) for size, n in spans))
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(step, corners))


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


FULL: dict[str, Callable[[Path, str, np.ndarray], None]] = {
    "napari-ngff": by_us,
    "the same, nearest": by_us_nearest,
    "floor": floor,
    "ome-zarr-py": by_ome_zarr,
    "ngio": by_ngio,
    "ngff-zarr": by_ngff_zarr,
}


def full_save(data: Path, rounds: int, name: str, who: str) -> Values:
    """Seconds for all levels of a label image, without imports and a first call."""
    pixels = labels(name)
    warm_up(data, who)
    times = []
    for _ in range(rounds):
        with emptied(data / "saved") as folder:
            start = time.perf_counter()
            FULL[who](folder, name, pixels)
            times.append(time.perf_counter() - start)
    return {name: {who: times}}


def full_save_memory(data: Path, rounds: int, name: str, who: str) -> Values:
    """Growth of memory in MB while all levels are saved."""
    from cases import growth

    pixels = labels(name)
    warm_up(data, who)
    values: list[float] = []
    with emptied(data / "saved") as folder, growth(values):
        FULL[who](folder, name, pixels)
    return {name: {who: values}}


def warm_up(data: Path, who: str) -> None:
    """Save something small."""
    PICTURES["small"] = ("yx", (600, 600), (512, 512))
    with emptied(data / "saved") as folder:
        FULL[who](folder, "small", np.ones((600, 600), np.uint32))


@contextmanager
def emptied(folder: Path) -> Iterator[Path]:
    """An empty folder, which is removed afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -------- what to run --------

CASES: dict[str, Callable[..., Values]] = {
    function.__name__: function for function in (full_save, full_save_memory)
}
