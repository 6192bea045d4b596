"""Label images in folders for tests of saving, and what they must hold."""

from __future__ import annotations

import zarr

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.reduce import Reduction
from napari_ngff.labels.retained import Retained
from napari_ngff.labels.writer import LabelWriter
from napari_ngff.store.arranged import Arranged
from napari_ngff.store.chunks import open_array
from napari_ngff.store.folder import FolderSource
from napari_ngff.store.pyramid import LevelSource


def reduced(pixels, shape, method):
    """A whole coarser level."""
    reduction = Reduction.of(pixels.shape, shape, method)
    box = tuple((0, n) for n in shape)
    sources = reduction.sources(box)
    return reduction.reduce(pixels[tuple(slice(*s) for s in sources)], box)


def levels_of(pixels, shapes, method):
    levels = [pixels]
    for shape in shapes:
        levels.append(reduced(levels[-1], shape, method))
    return levels


def write_levels(folder, levels, chunks, **options):
    """Write a pyramid with zarr-python alone."""
    for number, pixels in enumerate(levels):
        fitting = tuple(min(c, n) for c, n in zip(chunks, pixels.shape, strict=True))
        if options.get("shards"):
            fitting = chunks
        array = zarr.create_array(
            folder / str(number), shape=pixels.shape, chunks=fitting,
            dtype=pixels.dtype, fill_value=0, **options,
        )  # fmt: skip
        array[...] = pixels
    return folder


def read_levels(folder, count):
    """Read a pyramid with zarr-python alone."""
    return [zarr.open_array(folder / str(i), mode="r")[...] for i in range(count)]


def open_canvas(folder, count, order=None):
    source = FolderSource(str(folder))
    sources = [LevelSource(open_array(source, str(i))) for i in range(count)]
    return Canvas([s if order is None else Arranged(s, order) for s in sources])


def open_writer(folder, count, method="nearest", order=None):
    canvas = open_canvas(folder, count, order)
    return LabelWriter(canvas, Retained(), method)


def object_files(folder):
    """Every file below a folder but documents: path -> bytes, time of change."""
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file() and p.name not in ("zarr.json", ".zarray")
    }
