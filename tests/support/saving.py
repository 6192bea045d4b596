"""Label images in folders for tests of saving, and what they must hold."""

from __future__ import annotations

import json
import random

import numpy as np
import zarr

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.journal import Journal, find_journals
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.before_images import BeforeImages
from napari_ngff.labels.shapes import Mask
from napari_ngff.metadata.dump import dump_image
from napari_ngff.metadata.model import Axis, ImageMetadata, LabelInfo, Level, Multiscale
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.sources.folder_store import FolderStore


def edit(
    number: int, seed: int, shape: tuple[int, int], label: int | None = None
) -> Edit:
    """Make an edit; some replace what others painted, and would show a second time.

    Some erase whole blocks, at coarser levels, too.
    """
    rng = random.Random(seed * 1000 + number)
    size = rng.randint(3, 40), rng.randint(3, 40)
    corner = [rng.randint(0, n - 3) for n in shape]
    size = [min(n, s - c) for n, s, c in zip(size, shape, corner, strict=True)]
    source = rng.choice([None, 0, 1, 2, 3])
    runs = mask_runs(np.ones(size, bool), corner)
    drawn = rng.randint(0, 3)
    if number % 8 == 7:
        size, source, drawn = [min(64, n) for n in shape], None, 0
        runs = mask_runs(np.ones(size, bool), (0, 0))
    return Edit(Mask(runs), (0, 1), (), drawn if label is None else label, source)


def reduced(pixels, shape, method):
    """A whole coarser level."""
    reduction = LevelReduction.between_shapes(pixels.shape, shape, method)
    box = tuple((0, n) for n in shape)
    sources = reduction.source_box(box)
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


def write_group(folder, content, version="0.5"):
    """Write the metadata of a group."""
    folder.mkdir(parents=True, exist_ok=True)
    if version == "0.4":
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        (folder / ".zattrs").write_text(json.dumps(content))
        return folder
    group = {"zarr_format": 3, "node_type": "group", "attributes": content}
    (folder / "zarr.json").write_text(json.dumps(group))
    return folder


def describe(folder, count, version="0.5", label=None):
    """Write the metadata of an image, or of labels, whose levels are halved."""
    axes = (Axis("y", "space", None), Axis("x", "space", None))
    levels = []
    for k in range(count):
        scale, shift = (2.0**k,) * 2, ((2.0**k - 1) / 2,) * 2
        levels.append(Level(str(k), scale, shift))
    image = ImageMetadata((Multiscale(folder.name, axes, tuple(levels)),), label=label)
    return write_group(folder, dump_image(image, version), version)


def write_image(folder, shapes, chunks, version="0.5"):
    """Write an image of zeros with a label image named other."""
    options = {"dimension_names": ("y", "x")}
    if version == "0.4":
        key = {"name": "v2", "separator": "/"}
        options = {"zarr_format": 2, "chunk_key_encoding": key}
    levels = [np.zeros(shape, "u1") for shape in shapes]
    write_levels(folder, levels, chunks, **options)
    describe(folder, len(shapes), version)
    content = {"labels": ["other"]}
    ome = content if version == "0.4" else {"ome": {"version": version, **content}}
    write_group(folder / "labels", ome, version)
    other = folder / "labels" / "other"
    levels = [np.full(shape, 3, "u2") for shape in shapes]
    write_levels(other, levels, chunks, **options)
    describe(other, len(shapes), version, LabelInfo())
    return folder


def read_levels(folder, count):
    """Read a pyramid with zarr-python alone."""
    return [zarr.open_array(folder / str(i), mode="r")[...] for i in range(count)]


def open_canvas(folder, count, order=None, source=None):
    source = source or FolderStore(str(folder))
    sources = [LevelSource(open_array(source, str(i))) for i in range(count)]
    return Canvas([s if order is None else ArrayWindow(s, order) for s in sources])


def open_writer(folder, count, method="nearest", order=None):
    canvas = open_canvas(folder, count, order)
    return LabelWriter(canvas, BeforeImages(), method)


def journaled(label, canvas, method="nearest", folder=None):
    """Make a writer with a journal; taking over what a dead process left, if given."""
    journal = Journal(str(label), "", canvas, folder)
    writer = LabelWriter(canvas, journal.before_images, method)
    writer.journal = journal
    if folder is not None:
        for one in journal.content.edits:
            canvas.begin_step()
            canvas.add_edit(one)
            canvas.close_step()
        writer.adopt_journal(journal.content)
    return writer


def recovered(label, canvas, method="nearest"):
    """Do what napari does when it is started anew."""
    (folder,) = find_journals(str(label), "")
    return journaled(label, canvas, method, folder)


def object_files(folder):
    """Every file below a folder but documents: path -> bytes, time of change."""
    return {
        str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file() and p.name not in ("zarr.json", ".zarray")
    }
