"""Saving an edit into labels that are there: what is edited, by whom; see `cases.py`.

The file is there beforehand, and each edit is at another place. What is measured is the
save alone: neither the painting nor what is read to paint. All levels are compared with
a full rebuild afterwards.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from saving import FULL, LEVELS, PICTURES, fresh, labels, warm_up

Values = dict[str, dict[str, list[float]]]
Box = tuple[tuple[int, int], ...]

SIDES = {"plane": (819, 819), "stack": (16, 410, 410)}
"""Of a box that is one hundredth of a picture."""

FRESH = 70_000_000
"""Labels from here on are in none of the pictures."""


def boxes(name: str, count: int) -> list[Box]:
    """Boxes all over a picture, none at the corner of a chunk."""
    random = np.random.default_rng(3)
    shape = PICTURES[name][1]
    return [
        tuple(
            (start := int(random.integers(0, n - side)), start + side)
            for n, side in zip(shape, SIDES[name], strict=True)
        )
        for _ in range(count)
    ]


def shapes(name: str) -> list[tuple[int, ...]]:
    """Of the levels: y and x are halved."""
    shape = PICTURES[name][1]
    return [(*shape[:-2], shape[-2] >> k, shape[-1] >> k) for k in range(LEVELS)]


def reduced(pixels: np.ndarray, method: str) -> list[np.ndarray]:
    """All levels, made anew."""
    from napari_ngff.store.pyramids.level_reduction import LevelReduction

    levels = [pixels]
    wanted = shapes("plane" if pixels.ndim == 2 else "stack")
    for shape in wanted[1:]:
        reduction = LevelReduction.between_shapes(levels[-1].shape, shape, method)
        box = tuple((0, n) for n in shape)
        inside = tuple(slice(*span) for span in reduction.source_box(box))
        levels.append(reduction.reduce(levels[-1][inside], box))
    return levels


def write_file(folder: Path, name: str, method: str) -> None:
    """Write labels with zarr-python alone, coded as our new ones are."""
    import zarr
    from zarr.codecs import ZstdCodec

    for number, pixels in enumerate(reduced(labels(name), method)):
        array = zarr.create_array(
            folder / str(number),
            shape=pixels.shape,
            chunks=PICTURES[name][2],
            dtype=pixels.dtype,
            compressors=ZstdCodec(level=1),
        )
        array[...] = pixels


def opened(folder: Path, method: str) -> Any:
    """Open labels as the viewer does, with a journal."""
    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.journal import Journal
    from napari_ngff.labels.label_writer import LabelWriter
    from napari_ngff.store.arrays.chunked_array import open_array
    from napari_ngff.store.pyramids.pyramid import LevelSource
    from napari_ngff.store.sources.folder_store import FolderStore

    source = FolderStore(str(folder))
    levels = [LevelSource(open_array(source, str(k))) for k in range(LEVELS)]
    canvas = Canvas(levels)
    journal = Journal(str(folder), "", canvas)
    writer = LabelWriter(canvas, journal.before_images, method)
    writer.journal = journal
    return writer


def fill(writer: Any, box: Box, label: int) -> None:
    """Paint a box, one polygon in each of its planes."""
    from napari_ngff.labels.edits import Edit
    from napari_ngff.labels.shapes import Polygon

    (a, b), (c, d) = box[-2:]
    corners = ((a, c), (a, d - 1), (b - 1, d - 1), (b - 1, c))
    canvas = writer.canvas
    axes = tuple(range(len(box)))
    shape = Polygon(corners, canvas.shape[-2:])
    canvas.begin_step()
    for plane in range(*box[0]) if len(box) > 2 else (None,):
        fixed = () if plane is None else ((0, plane),)
        canvas.add_edit(Edit(shape, axes[-2:], fixed, label))
    canvas.close_step()
    writer.journal.sync()


def check(folder: Path, writer: Any, method: str) -> None:
    """Compare every level with one made anew."""
    import zarr

    whole = writer.canvas.read(0, tuple((0, n) for n in writer.canvas.shape))
    for number, want in enumerate(reduced(whole, method)):
        found = zarr.open_array(folder / str(number), mode="r")[...]
        assert (found == want).all(), f"level {number}"


def edit_by_us(folder: Path, name: str, rounds: int, method: str) -> list[float]:
    write_file(folder / "labels", name, method)
    writer = opened(folder / "labels", method)
    times = []
    for number, box in enumerate(boxes(name, rounds + 1)):
        fill(writer, box, FRESH + number)
        start = time.perf_counter()
        outcome = writer.save()
        times.append(time.perf_counter() - start)
        assert outcome.blocks
    check(folder / "labels", writer, method)
    writer.journal.remove()
    return times[1:]


def edit_by_ngio(folder: Path, name: str, rounds: int, method: str) -> list[float]:
    """Its fastest way: a region, and its part of the coarser levels."""
    import ngio
    from zarr.codecs import ZstdCodec

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
    codec = (ZstdCodec(level=1),)
    label = container.derive_label(
        "cells", dtype="uint32", ngff_version="0.5", compressors=codec
    )
    label.set_array(labels(name))
    label.consolidate()
    times = []
    for number, box in enumerate(boxes(name, rounds + 1)):
        part = tuple(slice(*span) for span in box)
        patch = np.full([b - a for a, b in box], FRESH + number, np.uint32)
        start = time.perf_counter()
        label.set_array(patch, **dict(zip(axes, part, strict=True)))
        label.consolidate(regions=[part])
        times.append(time.perf_counter() - start)
    return times[1:]


EDITORS: dict[str, Callable[[Path, str, int, str], list[float]]] = {
    "napari-ngff": edit_by_us,
    "ngio, region": edit_by_ngio,
}


def edit_save(data: Path, rounds: int, name: str, method: str, who: str) -> Values:
    """Milliseconds to save one hundredth, at all levels; of others also all anew."""
    os.environ["XDG_DATA_HOME"] = str(data / "journal")
    warm_up(data, who.split(",")[0])
    with fresh(data) as folder:
        if who in EDITORS:
            times = EDITORS[who](folder, name, rounds, method)
        else:
            pixels, times = labels(name), []
            for _ in range(max(1, rounds // 5)):
                with fresh(data) as place:
                    start = time.perf_counter()
                    FULL["zstd"][who.split(",")[0]](place, name, pixels)
                    times.append(time.perf_counter() - start)
    return {name: {who: [seconds * 1000 for seconds in times]}}


def edit_all(data: Path, rounds: int, name: str, method: str, who: str) -> Values:
    """Milliseconds to save where every chunk is edited, but not every voxel."""
    os.environ["XDG_DATA_HOME"] = str(data / "journal")
    warm_up(data, "floor")
    times = []
    for _ in range(rounds):
        with fresh(data) as folder:
            if who == "floor":
                pixels = labels(name)
                start = time.perf_counter()
                FULL["zstd"]["floor"](folder, name, pixels)
                times.append(time.perf_counter() - start)
                continue
            write_file(folder, name, method)
            writer = opened(folder, method)
            stripes(writer, name)
            start = time.perf_counter()
            writer.save()
            times.append(time.perf_counter() - start)
            check(folder, writer, method)
            writer.journal.remove()
    return {name: {who: [seconds * 1000 for seconds in times]}}


def stripes(writer: Any, name: str) -> None:
    """Paint a stripe through every row of chunks, in every plane."""
    _, shape, chunks = PICTURES[name]
    planes = [(n, n + 1) for n in range(shape[0])] if len(shape) > 2 else [()]
    rows = range(chunks[-2] // 2, shape[-2], chunks[-2])
    for number, (plane, row) in enumerate(itertools.product(planes, rows)):
        box = (*((plane,) if plane else ()), (row, row + 40), (0, shape[-1]))
        fill(writer, box, FRESH + number)


def edit_memory(data: Path, rounds: int, name: str, method: str, who: str) -> Values:
    """Growth of memory in MB while an edit of every chunk is saved."""
    from cases import growth

    from napari_ngff.store.arrays.chunked_array import cache

    os.environ["XDG_DATA_HOME"] = str(data / "journal")
    values: list[float] = []
    with fresh(data) as folder:
        write_file(folder, name, method)
        writer = opened(folder, method)
        fill(writer, boxes(name, 1)[0], FRESH)
        writer.save()
        cache.clear()
        stripes(writer, name)
        with growth(values):
            writer.save()
        writer.journal.remove()
    return {name: {who: values}}


CASES: dict[str, Callable[..., Values]] = {
    function.__name__: function for function in (edit_save, edit_all, edit_memory)
}
