"""All that changes a hierarchy, or writes a file beside one, as a test makes it do so.

Each is tried in every kind of store; where it cannot write, it says what it refuses.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from buckets import connect
from napari_ngff.errors import NodeNotFoundError
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.create_labels import METHOD, create_labels
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.field_states import STATES, FieldStates
from napari_ngff.labels.journal import Journal, find_journals
from napari_ngff.labels.label_metadata import write_label_info
from napari_ngff.labels.label_writer import LabelWriter
from napari_ngff.labels.object_classes import ClassChanges, ObjectClass
from napari_ngff.labels.places.copy_labels import copy_labels
from napari_ngff.labels.places.listed_labels import delete_labels, rename_labels
from napari_ngff.labels.places.merge_sidecar import merge
from napari_ngff.labels.places.sidecar import sidecar_location
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.before_images import BeforeImages
from napari_ngff.labels.saving.retype_array import retype_arrays
from napari_ngff.labels.shapes import Mask
from napari_ngff.metadata.model import LabelInfo
from napari_ngff.plate.tables.files import write_frame
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.lazy_array import BlankArray
from napari_ngff.store.check.repair import put_back, repair_problems
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.hierarchy.save_transform import save_transform
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.sources.archive_store import ArchiveStore
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.sources.remote_store import RemoteStore
from napari_ngff.store.write.writer_token import remove_left
from napari_ngff.store.write.zip_packing import pack_hierarchy
from saving import describe, edit, levels_of, write_group, write_image, write_levels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.store import Store

SHAPES = ((48, 64), (24, 32), (12, 16))
CHUNKS = (16, 16)
SHARDS = (32, 32)
EDITS, BETWEEN = 8, 4
"""Edits that are painted, and how many there are between two saves."""

WIDE = 70000
"""A label that uint16 does not hold."""

FOLDER, ARCHIVE, BUCKET = KINDS = "folder", "archive", "bucket"

BUCKET_ADDRESS = "s3://cells/image.zarr"


@dataclass(frozen=True)
class Place:
    """Where an image is: its kind of store, and a folder for all files."""

    kind: str
    folder: Path

    @property
    def files(self) -> Path:
        return self.folder / "files"

    @property
    def root(self) -> Path | str:
        """What a user opens."""
        if self.kind == BUCKET:
            return BUCKET_ADDRESS
        return self.files / ("image.ozx" if self.kind == ARCHIVE else "image.zarr")

    @property
    def source(self) -> Store:
        kinds = {FOLDER: FolderStore, ARCHIVE: ArchiveStore, BUCKET: RemoteStore}
        return kinds[self.kind](str(self.root))

    def node(self, path: str = "") -> Node:
        node = open_node(self.root)
        return node.child(path) if path else node

    def recover(self, path: str) -> None:
        """Begin to write there, as whoever does next."""
        self.source.begin().recover(path)


@dataclass(frozen=True)
class Caller:
    """What changes a hierarchy.

    Attributes
    ----------
    prepare
        Makes the image in a folder that is not there.
    make
        Changes it.
    recover
        Opens the same for writing.
    refuses
        Kinds of store in which it does not write -> what the error says.
    painting
        Of labels that are painted and saved several times: how.
    own
        What it writes where it is no hierarchy's object: in whatever kind of store the
        image is, that is the same.
    odd
        Whether it leaves labels whose coarser levels are not made of the finer ones.
    """

    prepare: Callable[[Path], None]
    make: Callable[[Place], None]
    recover: Callable[[Place], None]
    refuses: dict[str, str] = field(default_factory=dict)
    painting: Painting | None = None
    own: str = ""
    odd: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of store that it is tried in."""
        return (FOLDER,) if self.own else KINDS

    @property
    def written(self) -> tuple[str, ...]:
        """Those in which it writes."""
        return tuple(kind for kind in self.kinds if kind not in self.refuses)


@dataclass(frozen=True)
class Painting:
    """How labels are painted: as new ones, with a label that needs a wider type."""

    name: str = "nuclei"
    new: bool = False
    wide: bool = False
    in_layer: bool = False

    @property
    def path(self) -> str:
        return f"labels/{self.name}"

    @property
    def method(self) -> str:
        return METHOD if self.new else "nearest"

    def edit(self, number: int) -> Edit:
        label = WIDE if self.wide and number >= 4 and not number % 4 else None
        return edit(number, 7, SHAPES[0], label)


# What there is.


def pixels_of(seed):
    ids = np.random.default_rng(seed).integers(0, 4, (6, 8))
    return np.kron(ids, np.ones((8, 8), int)).astype("u2")


def write_labels(folder, seed, method="nearest", **options):
    levels = levels_of(pixels_of(seed), SHAPES[1:], method)
    chunks = (8, 8) if options else CHUNKS
    write_levels(folder, levels, chunks, dimension_names=("y", "x"), **options)
    describe(folder, len(SHAPES), label=LabelInfo())


def prepare_image(root, **options):
    """An image with label images "other" and "nuclei"."""
    write_image(root, SHAPES, CHUNKS)
    write_labels(root / "labels/nuclei", 1, **options)
    content = {"version": "0.5", "labels": ["other", "nuclei"]}
    write_group(root / "labels", {"ome": content})


def prepare_sharded(root):
    prepare_image(root, shards=(16, 16))


def prepare_interpolated(root):
    """Labels whose coarser levels are means."""
    prepare_image(root)
    for number in (1, 2):
        level = zarr.open_array(root / f"labels/nuclei/{number}", mode="r+")
        level[...] = level[...] // 2 + 1000


def prepare_repaired(root):
    prepare_interpolated(root)
    repair_problems(open_node(root), "label-levels-interpolated")


def prepare_unlisted(root):
    """Labels that the list does not name, and copies of the documents."""
    prepare_image(root)
    write_group(root / "labels", {"ome": {"version": "0.5", "labels": ["other"]}})


def prepare_sidecar(root):
    """An image with labels, and a sidecar with others of the same name."""
    prepare_image(root)
    image = open_node(root)
    home = sidecar_location(image)
    made = create_labels(image, "nuclei", np.dtype("u2"), 0, home)
    made.register()
    folder = Path(home.source.name) / home.path_of("nuclei")
    for number, pixels in enumerate(levels_of(pixels_of(2), SHAPES[1:], "mode")):
        zarr.open_array(folder / str(number), mode="r+")[...] = pixels


def prepare_table(root):
    prepare_image(root)
    root.with_name("table.csv").write_text("area\n1\n")


# What changes it.


def sidecar_of(place):
    return str(place.files / "image.zarr.labels.ome.zarr")


def merge_labels(place, **options):
    merge(sidecar_of(place), place.root, **options)


def merge_removed(place):
    if os.path.exists(sidecar_of(place)):
        merge_labels(place, name="mine", overwrite=True, remove=True)


def recover_removed(place):
    place.recover("labels/mine")
    sidecar = sidecar_of(place)
    if os.path.exists(sidecar):
        FolderStore(sidecar).begin().recover("nuclei")
    recover_files(place)


def delete_nuclei(place):
    _, finish = delete_labels(place.node("labels/nuclei"))
    finish()


def prepare_classified(root):
    """An image with a table of classes of the objects of "nuclei"."""
    prepare_image(root)
    write_round(open_node(root))


def rename_nuclei(place):
    """Rename "nuclei" to "mine", unless that is done."""
    if "nuclei" in (place.node("labels").metadata.labels or ()):
        rename_labels(place.node(), place.node("labels/nuclei"), "mine")


def recover_renamed(place):
    from napari_ngff.viewer.annotations.object_class_table import list_class_tables

    nuclei(place)
    # The classes are those of whichever name the list has.
    (labels,) = list_class_tables(place.node())
    assert labels in place.node("labels").metadata.labels


def copy_to_sidecar(place):
    copy_labels(place.node("labels/nuclei"), place.node())


def recover_sidecar(place, path="nuclei"):
    sidecar_location(place.node()).source.begin().recover(path)
    recover_files(place)


def new_in_sidecar(place):
    image = place.node()
    save_new(place, "mine", home=sidecar_location(image, place.files / "mine"))


def recover_other_sidecar(place):
    home = sidecar_location(place.node(), place.files / "mine")
    home.source.begin().recover("mine")
    FolderStore(str(place.files / "mine")).begin().recover("")


def widen_type(place):
    source = place.source
    arrays = [open_array(source, f"labels/nuclei/{i}") for i in range(3)]
    transaction = source.begin()
    retype_arrays(arrays, np.dtype("u4"), transaction)
    transaction.commit()


def save_new(place, name, *, replace=False, home=None):
    """Paint new labels over nothing, and save them."""
    canvas = blank_canvas()
    runs = mask_runs(np.ones((30, 30), bool), (5, 5))
    add(canvas, Edit(Mask(runs), (0, 1), (), 3))
    made = create_labels(place.node(), name, canvas.dtype, home=home, replace=replace)
    files = made.arrays, (0, 1)
    writer = LabelWriter(
        canvas, BeforeImages(), METHOD, made.ratios, files, made.register
    )
    try:
        writer.save()
    except BaseException:
        made.abandon()
        raise


def save_colors(place):
    label = place.node("labels/nuclei")
    write_label_info(label, LabelInfo({1: (1.0, 0.0, 0.0, 1.0)}))


_images: dict[str, Any] = {}


def save_place(place):
    # Again by the group that was opened, as a layer does: the numbers are relative.
    image = _images.setdefault(str(place.root), place.node())
    axes = image.metadata.image.multiscales[0].axes
    save_transform(image, "", np.diag([3.0, 3.0, 1.0]), axes)


def rebuild(place):
    repair_problems(place.node(), "label-levels-interpolated")


def fix(place):
    repair_problems(place.node(), "label-unlisted")


def undo_repair(place):
    for number in (1, 2):
        kept = place.files / f"image.zarr/labels/nuclei/{number}.before-repair"
        put_back(place.node(), str(kept))


def write_layers(place):
    """Write layers of napari over what is there."""
    from napari_ngff.viewer.composing.write_layers import write

    pixels = np.arange(48 * 64, dtype="u2").reshape(48, 64)
    labels = (pixels // 500).astype("u1")
    layers = [(pixels, {"name": "cells"}, "image"), (labels, {"name": "a"}, "labels")]
    write(place.root, layers, overwrite=True, to_version="0.5")


def pack_folder(place):
    pack_hierarchy(
        place.files / "image.zarr", place.files / "packed.ozx", overwrite=True
    )


def write_table(place):
    import pandas as pd

    write_frame(pd.DataFrame({"area": range(30)}), place.files / "table.csv")


def save_classes(place):
    write_round(place.node())


def write_round(image):
    from napari_ngff.viewer.annotations.object_class_table import write_classes

    round_ones = (ObjectClass("round", (255, 0, 0, 255)),)
    changes = ClassChanges("nuclei", round_ones, {3: "round", 5: "round"})
    write_classes(image, changes)


def recover_classes(place):
    place.recover("tables/nuclei_classes")


def state_field(place):
    FieldStates(place.node()).set_state("", STATES[1])


def recover_files(place):
    """Write beside the image again."""
    FolderStore(str(place.files)).begin().recover("")


def recover_states(place):
    """Write states of fields again: those of a bucket are in the folder of data."""
    recover_files(place)
    folder = place.folder / "data/napari-ngff/annotation"
    if folder.exists():
        remove_left(str(folder))


# Painting.


def add(canvas, one):
    canvas.begin_step()
    canvas.add_edit(one)
    canvas.close_step()


def add_numbered(canvas, painting, number):
    one = painting.edit(number)
    if one.label > np.iinfo(canvas.dtype).max:
        canvas.change_dtype(np.dtype("u4"))
    add(canvas, one)


def blank_canvas():
    return Canvas([BlankArray(shape, CHUNKS, np.dtype("u2")) for shape in SHAPES])


def is_listed(place, name):
    return name in (place.node("labels").metadata.labels or ())


def open_canvas(place, path):
    source = place.source
    paths = [f"{path}/{i}" for i in range(len(SHAPES))]
    try:
        arrays = [open_array(source, one) for one in paths]
    except NodeNotFoundError:
        # Between two renames; `attach` of the viewer does the same.
        place.recover(path)
        arrays = [open_array(source, one) for one in paths]
    return Canvas([LevelSource(array) for array in arrays])


def writer_of(place, painting, canvas, journal):
    """Save into the labels, or make them."""
    if not painting.new or is_listed(place, painting.name):
        writer = LabelWriter(canvas, journal.before_images, painting.method)
    else:
        made = create_labels(place.node(), painting.name, canvas.dtype)
        files = made.arrays, (0, 1)
        writer = LabelWriter(
            canvas, journal.before_images, METHOD, made.ratios, files, made.register
        )
    writer.journal = journal
    return writer


reported: list[Callable[[str], None]] = [lambda text: None]
"""To whom it is told what is in the journal, and what is saved."""


class PaintingUser:
    """Paints and saves; after an error it goes on where it was."""

    def __init__(self, place, painting):
        self.place, self.painting = place, painting
        self.number, self.due = 0, False
        new = painting.new
        self.canvas = blank_canvas() if new else open_canvas(place, painting.path)
        self.journal = Journal(str(place.root), painting.path, self.canvas)
        self.writer = None
        if not new:
            self.writer = writer_of(place, painting, self.canvas, self.journal)

    def go_on(self):
        if self.due:
            self.save()
        while self.number < EDITS:
            add_numbered(self.canvas, self.painting, self.number)
            self.number += 1
            self.due = self.number % BETWEEN == 0
            self.journal.sync()
            reported[0](f"edit {self.number}")
            if self.due:
                self.save()

    def save(self):
        if self.writer is None:
            self.writer = writer_of(
                self.place, self.painting, self.canvas, self.journal
            )
        assert self.writer.save().refused == ()
        assert not self.writer.has_unsaved
        self.due = False
        reported[0](f"saved {self.number}")


class LayerUser(PaintingUser):
    """The same in a layer of napari, which saves by itself."""

    def __init__(self, place, painting):
        from napari_ngff.viewer.annotations import leaving
        from napari_ngff.viewer.services.window import Window
        from napari_ngff.viewer.session import session_of
        from painting_process import open_layers

        self.place, self.painting = place, painting
        self.number, self.due, self.time = 0, False, 0.0
        Window.current = Window()
        leaving.autosave_minutes = lambda: 1
        self.viewer = open_layers(place.root)
        self.layer = self.viewer.layers[painting.name]
        if self.layer.saver is None:  # who may not write cannot paint either
            raise PermissionError(errno.EACCES, self.layer.read_only, str(place.root))
        self.canvas, self.journal = self.layer.canvas, self.layer.saver.journal
        self.autosave = leaving.AutoSaver(session_of(self.viewer).annotations)
        self.results: list[Any] = []
        self.layer.saver.saved.connect(self.results.append)
        self.layer.saver.failed.connect(self.results.append)

    def save(self):
        self.results.clear()
        self.autosave.save_due(self.time)
        self.time += 61
        self.autosave.save_due(self.time)
        self.time += 1
        (result,) = self.results
        for error in (result.error, result.unsaid):
            if error is not None:
                raise error
        assert not self.layer.unsaved
        self.due = False
        reported[0](f"saved {self.number}")


_users: dict[Painting, PaintingUser] = {}


def paint(painting):
    """Make what paints so, and goes on after an error."""

    def make(place):
        if painting not in _users:
            user = LayerUser if painting.in_layer else PaintingUser
            _users[painting] = user(place, painting)
        _users[painting].go_on()

    return make


def recover_painted(painting):
    """Make what takes over the journal of a dead process, and saves what it has."""

    def recover(place):
        found = find_journals(str(place.root), painting.path)
        if not found:
            place.recover(painting.path)
            return
        anew = painting.new and not is_listed(place, painting.name)
        canvas = blank_canvas() if anew else open_canvas(place, painting.path)
        journal = Journal(str(place.root), painting.path, canvas, found[0])
        for one in journal.content.edits:
            if one.label > np.iinfo(canvas.dtype).max:
                canvas.change_dtype(np.dtype("u4"))
            add(canvas, one)
        writer = writer_of(place, painting, canvas, journal)
        writer.adopt_journal(journal.content)
        assert writer.save().refused == ()
        assert not writer.has_unsaved
        reported[0](f"recovered {len(canvas.edits)}")
        journal.remove()

    return recover


def painted(original, painting, count):
    """All levels after some edits, made at once where nobody was ever killed.

    `original` is a folder.
    """
    place = Place(FOLDER, original)
    canvas = blank_canvas() if painting.new else open_canvas(place, painting.path)
    canvas.change_dtype(np.dtype("u4"))
    for number in range(count):
        add_numbered(canvas, painting, number)
    whole = canvas.read(0, tuple((0, n) for n in SHAPES[0]))
    return levels_of(whole, SHAPES[1:], painting.method)


# What is found.


BESIDE = "data/napari-ngff/journal/", "data/napari-ngff/last-tool.json", "tmp/"
"""What is no part of what is changed."""

WHEN = re.compile(rb'"when": "[^"]*"')
"""A time, which is another each time."""


def state_of(place: Place) -> dict[str, str]:
    """Hash of every object and file but journals; entries of archives, not these."""
    found = {
        name: hashlib.sha256(WHEN.sub(b"", data)).hexdigest()
        for name, data in contents_of(place)
    }
    return dict(sorted(found.items()))


def contents_of(place: Place) -> Iterable[tuple[str, bytes]]:
    for path in place.folder.rglob("*"):
        name = path.relative_to(place.folder).as_posix()
        if name.startswith(BESIDE) or path.is_dir():
            continue
        if path.suffix == ".ozx":
            with zipfile.ZipFile(path) as archive:
                assert archive.testzip() is None
                for entry in archive.infolist():
                    yield f"{name}/{entry.filename}", archive.read(entry)
        else:
            yield name, path.read_bytes()
    if place.kind == BUCKET:
        files = connect(os.environ["AWS_ENDPOINT_URL"])
        for name in files.find("cells"):
            yield f"bucket/{name}", files.cat(name)


ONLY_FOLDERS = "only such are repaired"
NO_FOLDER = "labels can be merged into a folder only"

PAINTINGS = {
    "save labels": (Painting(), prepare_image),
    "save into shards": (Painting(), prepare_sharded),
    "save labels that need a wider type": (Painting(wide=True), prepare_image),
    "save new labels": (Painting("mine", new=True), prepare_image),
    "autosave": (Painting(in_layer=True), prepare_image),
}


def _painted() -> dict[str, Caller]:
    made = {}
    for name, (painting, prepare) in PAINTINGS.items():
        refuses = {BUCKET: "cannot be replaced in an object store"}
        made[name] = Caller(
            prepare, paint(painting), recover_painted(painting),
            refuses if painting.wide else {}, painting,
        )  # fmt: skip
    return made


def nuclei(place):
    place.recover("labels/nuclei")


def mine(place):
    place.recover("labels/mine")


CALLERS = _painted() | {
    "widen a type": Caller(
        prepare_image, widen_type, nuclei,
        {BUCKET: "cannot be replaced in an object store"},
    ),
    "new labels": Caller(prepare_image, lambda place: save_new(place, "mine"), mine),
    "replace labels": Caller(
        prepare_image, lambda place: save_new(place, "nuclei", replace=True), nuclei,
        {BUCKET: "is not replaced in an object store"},
    ),
    "copy to a sidecar": Caller(prepare_image, copy_to_sidecar, recover_sidecar),
    "new labels in a sidecar": Caller(
        prepare_image, new_in_sidecar, recover_other_sidecar
    ),
    "merge new labels": Caller(
        prepare_sidecar, lambda place: merge_labels(place, name="mine"), mine,
        {ARCHIVE: NO_FOLDER, BUCKET: NO_FOLDER},
    ),
    "merge over labels": Caller(
        prepare_sidecar, lambda place: merge_labels(place, overwrite=True), nuclei,
        {ARCHIVE: NO_FOLDER, BUCKET: NO_FOLDER},
    ),
    "delete labels": Caller(
        prepare_image, delete_nuclei, nuclei,
        {ARCHIVE: "could not be put back", BUCKET: "could not be put back"},
    ),
    "rename labels": Caller(
        prepare_classified, rename_nuclei, recover_renamed,
        {ARCHIVE: "could not be put back", BUCKET: "could not be put back"},
    ),
    "merge and remove": Caller(
        prepare_sidecar, merge_removed, recover_removed,
        {ARCHIVE: NO_FOLDER, BUCKET: NO_FOLDER},
    ),
    "fix metadata": Caller(
        prepare_unlisted, fix, nuclei, {ARCHIVE: ONLY_FOLDERS, BUCKET: ONLY_FOLDERS}
    ),
    "rebuild a level": Caller(
        prepare_interpolated, rebuild, nuclei,
        {ARCHIVE: ONLY_FOLDERS, BUCKET: ONLY_FOLDERS},
    ),
    "undo a repair": Caller(
        prepare_repaired, undo_repair, nuclei, own="what a repair has kept", odd=True,
    ),
    "Save transform": Caller(
        prepare_image, save_place, lambda place: place.recover("")
    ),
    "save colours": Caller(prepare_image, save_colors, nuclei),
    "save classes of objects": Caller(prepare_image, save_classes, recover_classes),
    "npe2 writer": Caller(
        prepare_image, write_layers, recover_files, {BUCKET: "is not a local path"}
    ),
    "pack": Caller(prepare_image, pack_folder, recover_files, own="an archive"),
    "measured table": Caller(prepare_table, write_table, recover_files, own="a file"),
    "annotation states": Caller(prepare_image, state_field, recover_states),
}  # fmt: skip
