"""Changes of a hierarchy that happen whole or not at all, each as a test makes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import zarr

from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.creation import METHOD, create_labels
from napari_ngff.labels.description import write_label_info
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.places.merging import merge
from napari_ngff.labels.places.replica import copy_labels
from napari_ngff.labels.places.sidecar import sidecar_home
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.retained import Retained
from napari_ngff.labels.saving.widening import widen
from napari_ngff.labels.shapes import Mask
from napari_ngff.labels.writer import LabelWriter
from napari_ngff.metadata.model import LabelInfo
from napari_ngff.plate.tables.files import write_frame
from napari_ngff.store.archives.packing import pack
from napari_ngff.store.chunks import open_array
from napari_ngff.store.draft import Draft
from napari_ngff.store.folder import FolderSource
from napari_ngff.store.lazy import BlankArray
from napari_ngff.store.node import open_node
from napari_ngff.store.repair import repair
from napari_ngff.store.write.folder_transaction import FolderTransaction
from saving import describe, levels_of, write_group, write_image, write_levels

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPES = ((48, 64), (24, 32), (12, 16))
CHUNKS = (16, 16)


@dataclass(frozen=True)
class Change:
    """One way of changing a hierarchy.

    Attributes
    ----------
    prepare
        Makes it in a folder that is not there.
    make
        Changes it.
    recover
        Opens the same for writing.
    """

    prepare: Callable[[Path], None]
    make: Callable[[Path], None]
    recover: Callable[[Path], None]


def pixels_of(seed):
    ids = np.random.default_rng(seed).integers(1, 250, (6, 8))
    return np.kron(ids, np.ones((8, 8), int)).astype("u2")


def write_labels(folder, seed, method="nearest"):
    levels = levels_of(pixels_of(seed), SHAPES[1:], method)
    write_levels(folder, levels, CHUNKS, dimension_names=("y", "x"))
    describe(folder, len(SHAPES), label=LabelInfo())


def prepare_image(root):
    """An image with label images "other" and "nuclei"."""
    write_image(root, SHAPES, CHUNKS)
    write_labels(root / "labels/nuclei", 1)
    content = {"version": "0.5", "labels": ["other", "nuclei"]}
    write_group(root / "labels", {"ome": content})


def prepare_interpolated(root):
    """Labels whose coarser levels are means."""
    prepare_image(root)
    for number in (1, 2):
        level = zarr.open_array(root / f"labels/nuclei/{number}", mode="r+")
        level[...] = level[...] // 2 + 1000


def rebuild(root):
    repair(open_node(root), "label-levels-interpolated")


def recover_nuclei(root):
    FolderTransaction(str(root)).recover("labels/nuclei")


def prepare_sidecar(root):
    """An image with labels, and a sidecar with others of the same name."""
    prepare_image(root)
    image = open_node(root)
    home = sidecar_home(image)
    made = create_labels(image, "nuclei", np.dtype("u2"), 0, home)
    made.register()
    folder = Path(home.source.name) / home.path("nuclei")
    for number, pixels in enumerate(levels_of(pixels_of(2), SHAPES[1:], "mode")):
        zarr.open_array(folder / str(number), mode="r+")[...] = pixels


def sidecar_of(root):
    return sidecar_home(open_node(root)).source.name


def merge_over(root):
    merge(sidecar_of(root), root, overwrite=True)


def merge_new(root):
    merge(sidecar_of(root), root, name="mine")


def recover_mine(root):
    FolderTransaction(str(root)).recover("labels/mine")


def copy_to_sidecar(root):
    image = open_node(root)
    copy_labels(image.child("labels/nuclei"), image)


def recover_sidecar(root):
    FolderTransaction(str(sidecar_of(root))).recover("nuclei")


def widen_type(root):
    arrays = [open_array(FolderSource(str(root)), f"labels/nuclei/{i}") for i in (0, 1)]
    widen(arrays, np.dtype("u4"), (FolderTransaction(str(root))))


def save_new(root, name, replace):
    """Paint new labels over nothing, and save them."""
    canvas = Canvas([BlankArray(shape, CHUNKS, np.dtype("u2")) for shape in SHAPES])
    runs = mask_runs(np.ones((30, 30), bool), (5, 5))
    canvas.begin()
    canvas.add(Edit(Mask(runs), (0, 1), (), 3))
    canvas.close()
    made = create_labels(open_node(root), name, canvas.dtype, replace=replace)
    files = made.arrays, (0, 1)
    writer = LabelWriter(canvas, Retained(), METHOD, made.ratios, files, made.register)
    writer.save()


def write_anew(target):
    """Write all of an image over another."""
    with Draft(target, overwrite=True) as draft:
        for key in ("zarr.json", "0/zarr.json"):
            source = target if target.is_dir() else target.with_name("image.zarr")
            draft.put(key, (source / key).read_bytes())
        for number in range(4):
            draft.put(f"0/c/0/{number}", bytes(range(200)))


def write_archive(root):
    write_anew(root.with_name("image.ozx"))


def prepare_archive(root):
    prepare_image(root)
    pack(root, root.with_name("image.ozx"))


def recover_beside(root):
    FolderTransaction(str(root.parent)).recover("")


def pack_beside(root):
    pack(root, root.with_name("packed.ozx"))


def write_table(root):
    """Write a table over another."""
    import pandas as pd

    write_frame(pd.DataFrame({"area": range(30)}), root.with_name("table.csv"))


def prepare_table(root):
    prepare_image(root)
    root.with_name("table.csv").write_text("area\n1\n")


def save_colors(root):
    label = open_node(root).child("labels/nuclei")
    write_label_info(label, LabelInfo({1: (1.0, 0.0, 0.0, 1.0)}))


CHANGES = {
    "pack": Change(prepare_image, pack_beside, recover_beside),
    "write a table": Change(prepare_table, write_table, recover_beside),
    "save colours": Change(prepare_image, save_colors, recover_nuclei),
    "write anew": Change(prepare_image, write_anew, recover_beside),
    "write an archive": Change(prepare_archive, write_archive, recover_beside),
    "rebuild a level": Change(prepare_interpolated, rebuild, recover_nuclei),
    "merge over others": Change(prepare_sidecar, merge_over, recover_nuclei),
    "merge new ones": Change(prepare_sidecar, merge_new, recover_mine),
    "copy to a sidecar": Change(prepare_image, copy_to_sidecar, recover_sidecar),
    "widen a type": Change(prepare_image, widen_type, recover_nuclei),
    "replace labels": Change(
        prepare_image, lambda root: save_new(root, "nuclei", True), recover_nuclei
    ),
    "make labels": Change(
        prepare_image, lambda root: save_new(root, "mine", False), recover_mine
    ),
}
