"""Repairs of metadata and of label pyramids, each asked for by the code of a problem.

Only in a folder of this computer. A document is written beside and renamed; the
previous one stays as ``<name>.before-repair`` until `RepairedFile.delete_old`, so that
a repair can be undone until the document is changed again. Keys of a document that are
not repaired stay.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.errors import (
    ConflictError,
    NodeNotFoundError,
    OMEZarrError,
    UnsupportedError,
)
from napari_ngff.metadata.rules import stated_version
from napari_ngff.metadata.version import V0_5, Version
from napari_ngff.store.arrays.array_document import read_documents
from napari_ngff.store.arrays.array_writer import ArrayWriter
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.check.branches import label_paths
from napari_ngff.store.check.images import count_strangers
from napari_ngff.store.check.visit_groups import check_hierarchy
from napari_ngff.store.convert.rebuild_pyramid import ReplacedLevel
from napari_ngff.store.hierarchy.edit_document import change_text
from napari_ngff.store.hierarchy.node import Node, read_node
from napari_ngff.store.limits import ATTRIBUTES_IN
from napari_ngff.store.pyramids.level_reduction import LevelReduction
from napari_ngff.store.sources.folder_store import FolderTransaction
from napari_ngff.store.write.consolidated import update_copies
from napari_ngff.store.write.replace_file import rename_aside, replace_when_done

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON
    from napari_ngff.store.store import Transaction

SUFFIX = ".before-repair"

Change = Callable[["JSON", "Node"], None]
"""Corrects what a document has under ``ome``, or at its root, in place."""


@dataclass(frozen=True, slots=True)
class RepairedFile:
    """One file or folder that a repair replaced.

    Attributes
    ----------
    path
        What was replaced, on disk.
    kept
        What was there before, beside it.
    """

    path: str
    kept: str

    @property
    def is_unchanged(self) -> bool:
        """Return whether nothing was saved there since the first repair."""
        if not os.path.lexists(self.kept):
            return True  # there was no repair
        return os.stat(self.kept).st_mtime_ns == find_newest(self.path)

    def note_state(self) -> None:
        """Note, as the time of what is kept, when the repair was written."""
        newest = find_newest(self.path)
        os.utime(self.kept, ns=(newest, newest))

    def delete_old(self) -> None:
        """Delete the old file or folder; do nothing if that was done already."""
        if os.path.isdir(self.kept):
            shutil.rmtree(self.kept)
        elif os.path.exists(self.kept):
            os.unlink(self.kept)


def repair_problems(node: Node, code: str) -> tuple[RepairedFile, ...]:
    """Repair every problem of one code in a group and below it.

    Parameters
    ----------
    node
        In a folder of this computer.
    code
        One of `REPAIRS`.

    Returns
    -------
    tuple of RepairedFile
        What was replaced; () where there was nothing to do. A problem whose answer is
        not in the data (a well whose path names no row) stays.

    Raises
    ------
    UnsupportedError
        Where the code has no repair, or the data are in an archive or on a server.
    OSError
        Where the folder cannot be written.
    """
    if code not in REPAIRS:
        names = ", ".join(REPAIRS)
        msg = f"There is no repair of {code}. There is one of: {names}."
        raise UnsupportedError(msg)
    source = node.location.source
    if source.traits.folder is None:
        msg = (
            f"{source.name} is not a folder of this computer, and only such are"
            " repaired."
        )
        raise UnsupportedError(
            msg, remedy="Download or unpack it, repair the folder and pack it again."
        )
    # An earlier repair may have been killed: what it left aside is finished or removed
    # before its files are looked at.
    source.begin().recover(node.location.path)
    if code == INTERPOLATED:
        return tuple(rebuild_labels(node))
    # A dict keeps the order. A missing label is reported at its own path, but the list
    # to be corrected is that of its labels group.
    paths = {
        labels_group(node, path) if code == "label-missing" else path: None
        for path, problem in check_hierarchy(node)
        if problem.code == code
    }
    corrected = (correct_document(node, path, CORRECTIONS[code]) for path in paths)
    return tuple(repaired for repaired in corrected if repaired is not None)


def find_newest(path: str) -> int:
    """Return when a file, or anything in a folder, was changed last, in ns."""
    below = [
        os.path.join(folder, name)
        for folder, folders, files in os.walk(path)
        for name in (*folders, *files)
    ]
    times = [os.stat(path).st_mtime_ns]
    for entry in below:
        # Unfinished files of another process come and go.
        with suppress(FileNotFoundError):
            times.append(os.stat(entry).st_mtime_ns)
    return max(times)


def put_back(node: Node, kept: str) -> str:
    """Undo a repair, in consolidated metadata as well; return the restored path.

    Does nothing if the repair was undone already.

    Parameters
    ----------
    node
        Any group of the hierarchy.
    kept
        As `RepairedFile.kept`.

    Raises
    ------
    ConflictError
        Where something was saved there after the repair; nothing is changed.
    OSError
        Where the folder cannot be written.
    """
    source = node.location.source
    repaired = RepairedFile(kept.removesuffix(SUFFIX), kept)
    if not os.path.lexists(kept):
        return repaired.path
    if os.path.isdir(kept):
        put_level_back(node, repaired)
        return repaired.path
    transaction = source.begin()
    with transaction.take_turn():
        require_unchanged(repaired)
        rename_aside(kept, repaired.path)
    root = os.path.realpath(source.name)
    path = os.path.relpath(os.path.dirname(repaired.path), root).replace(os.sep, "/")
    # zarr-python believes consolidated metadata, which still have the repaired
    # document.
    update_copies(transaction, ["" if path == "." else path])
    return repaired.path


def put_level_back(node: Node, repaired: RepairedFile) -> None:
    """Put a level back that was made again."""
    source = node.location.source
    transaction = source.begin()
    key, kept = (
        os.path.relpath(path, source.name).replace(os.sep, "/")
        for path in (repaired.path, repaired.kept)
    )
    level = open_array(source, key, node.zarr_format)
    # Read before the comparison: what is saved after it is a conflict.
    revisions = ArrayWriter(level, transaction).list_revisions()
    require_unchanged(repaired)
    # A folder cannot be renamed over another: it is swapped with it, as when it was
    # replaced.
    with FolderTransaction(source.name).replace_tree(key) as tree:
        tree.adopt_folder(kept)
        tree.commit(expected=revisions)


def require_unchanged(repaired: RepairedFile) -> None:
    """Raise a ConflictError where something was saved after a repair."""
    if repaired.is_unchanged:
        return
    raise ConflictError(
        f"{repaired.path} was saved after the repair. Undoing the repair would remove"
        " those changes.",
        remedy=f"The state before it is in {os.path.basename(repaired.kept)}.",
    )


def labels_group(node: Node, path: str) -> str:
    """Return the path of the labels group that lists the label at a path."""
    parts = path.split("/")
    for index in range(len(parts) - 1, 0, -1):
        above, label = "/".join(parts[:index]), "/".join(parts[index:])
        if parts[index - 1] == "labels":
            group = read_node(type(node.location)(node.location.source, above))
            if label in (group.metadata.labels or ()):
                return above
    return path.rpartition("/")[0]


def correct_document(node: Node, path: str, change: Change) -> RepairedFile | None:
    """Correct the document of one group; None where that changes nothing."""
    location = type(node.location)(node.location.source, path)
    group = read_node(location, node.zarr_format)
    key = location.object_key(ATTRIBUTES_IN[group.zarr_format])
    transaction = location.source.begin()
    # Read, changed and replaced in one turn: another process may list a label at the
    # same moment.
    with transaction.take_turn():
        text = transaction.read_document(key)
        changed = change_text(text, group, lambda home: change(home, group))
        if changed == text:
            return None
        repaired = replace_document(transaction, key, changed.encode())
    update_copies(transaction, [path])
    return repaired


def replace_document(transaction: Transaction, key: str, data: bytes) -> RepairedFile:
    """Replace a document, and keep the old one: of several repairs the oldest."""
    file = os.path.realpath(os.path.join(transaction.root, key))
    kept = file + SUFFIX
    # After a second repair, what a user wants back is the state before the first.
    repaired, first = RepairedFile(file, kept), not os.path.exists(kept)
    can_undo = repaired.is_unchanged
    if first:
        with replace_when_done(kept) as aside:
            # A copy, not a rename: at no moment may the group be without its document.
            shutil.copy2(file, aside)
    try:
        transaction.put_document(key, data)
    except BaseException:
        if first:
            # Nothing was replaced: a file of this name would say that something was.
            os.unlink(kept)
        raise
    if can_undo:
        repaired.note_state()
    return repaired


# --- what is done to a document


def list_labels(home: JSON, group: Node) -> None:
    """Add the label images that are there and not listed."""
    home["labels"] += list(label_paths(group, group.metadata.labels or ()))


def drop_labels(home: JSON, group: Node) -> None:
    """Drop the labels that are listed and not there."""
    home["labels"] = [
        entry
        for entry in home["labels"]
        if not isinstance(entry, str) or is_there(group, entry)
    ]


def is_there(group: Node, path: str) -> bool:
    """Return whether there is a group, damaged or not."""
    try:
        group.child(path)
    except NodeNotFoundError:
        return False
    except (OMEZarrError, OSError):
        # A group that cannot be read may still be a label image: its entry stays in the
        # list.
        return True
    return True


def add_indices(home: JSON, group: Node) -> None:
    """Add rowIndex and columnIndex to wells whose path names a row and a column."""
    plate = home["plate"]
    if not all(isinstance(plate.get(key), list) for key in ("rows", "columns")):
        return
    rows, columns = (
        [entry.get("name") if isinstance(entry, dict) else None for entry in plate[key]]
        for key in ("rows", "columns")
    )
    for well in list_objects(plate.get("wells")):
        row, _, column = str(well.get("path")).partition("/")
        if row in rows and column in columns:
            fill_key(well, "rowIndex", rows.index(row))
            fill_key(well, "columnIndex", columns.index(column))


def add_versions(home: JSON, group: Node) -> None:
    """Add the version that the hierarchy has, or that the document implies."""
    version = version_above(group) or group.metadata.version
    if group.zarr_format == 3:
        fill_key(home, "version", version)
    keys = ("plate", "well", "image-label")
    inner = list_objects([home.get(key) for key in keys])
    if group.zarr_format == 2:
        inner += list_objects(home.get("multiscales"))
    # Of the versions with Zarr v3, only 0.5 repeats it in these objects.
    elif not Version(version or "").belongs_to(V0_5):
        inner = []
    for holder in inner:
        fill_key(holder, "version", version)


def fill_key(place: JSON, key: str, value: object) -> None:
    """Set a key that is missing, or null, which is as good as missing."""
    if place.get(key) is None:
        place[key] = value


def list_objects(entries: object) -> list[JSON]:
    """Return the JSON objects of a list; other entries are reported elsewhere."""
    listed = entries if isinstance(entries, list) else []
    return [entry for entry in listed if isinstance(entry, dict)]


def version_above(group: Node) -> str | None:
    """Return the version of the nearest group above that states one."""
    node: Node | None = group
    while node is not None:
        stated = stated_version(node.attributes, node.zarr_format)
        if stated is not None:
            return stated
        node = node.parent()
    return None


# --- label pyramids


def rebuild_labels(node: Node) -> Iterator[RepairedFile]:
    """Make the coarser levels of labels again where they hold strange ids."""
    findings = check_hierarchy(node, pixels=True)
    paths = dict.fromkeys(path for path, p in findings if p.code == INTERPOLATED)
    for path in paths:
        location = type(node.location)(node.location.source, path)
        location.source.begin().recover(path)
        image = read_node(location, node.zarr_format).metadata.image
        levels = image.multiscales[0].levels if image is not None else ()
        keys = [location.object_key(level.path) for level in levels]
        yield from rebuild_levels(node, keys)


def rebuild_levels(node: Node, keys: list[str]) -> Iterator[RepairedFile]:
    """Make the levels again from the first strange one on."""
    source, remade = node.location.source, False
    for finer, coarser in itertools.pairwise(keys):
        fine = open_array(source, finer, node.zarr_format)
        coarse = open_array(source, coarser, node.zarr_format)
        if remade or count_strangers(fine, coarse):
            transaction, kept = source.begin(), f"{coarser}{SUFFIX}"
            repaired = RepairedFile(
                join_key(source.name, coarser), join_key(source.name, kept)
            )
            can_undo = repaired.is_unchanged
            shapes = fine.shape, coarse.shape
            replaced = ReplacedLevel(
                transaction,
                finer,
                coarser,
                read_documents(source, coarser, coarse.zarr_format),
                "nearest",
                LevelReduction.between_shapes(*shapes).factors,
                (finer, coarser),
            )
            # An error or a kill before the new level is there leaves the old one.
            replaced.put_in_place(lambda *_: None, kept=kept)
            if can_undo:
                repaired.note_state()
            yield repaired
            remade = True


INTERPOLATED = "label-levels-interpolated"

CORRECTIONS: dict[str, Change] = {
    "label-unlisted": list_labels,
    "label-missing": drop_labels,
    "well-index-missing": add_indices,
    "version-missing": add_versions,
    "plate-version-missing": add_versions,
    "well-version-missing": add_versions,
    "label-version-missing": add_versions,
}

REPAIRS = {
    "label-unlisted": "add label images to the list of labels",
    "label-missing": "remove missing labels from the list of labels",
    "well-index-missing": "add rowIndex and columnIndex to wells, from their paths",
    "version-missing": "add the version that the hierarchy has",
    "plate-version-missing": "add the version to the plate",
    "well-version-missing": "add the version to wells",
    "label-version-missing": "add the version to image-label",
    INTERPOLATED: "compute coarser levels of labels again, by nearest",
}
"""Code of a problem -> what its repair does."""
