"""Merges a sidecar into its image: copies its label images into the image's own list.

Each is copied to a folder beside its place and compared. Then it gets its own name, and
at last its entry in the list of labels. So the image is valid if this stops anywhere.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.addresses import is_url
from napari_ngff.errors import (
    ConflictError,
    NodeNotFoundError,
    NotOMEZarrError,
    OMEZarrError,
    OptionError,
    TargetExistsError,
    UnsupportedError,
)
from napari_ngff.labels.journal import find_journals
from napari_ngff.labels.places.copy_labels import GoesOn, LabelCopy, open_arrays
from napari_ngff.labels.places.label_list import add_to_list
from napari_ngff.labels.places.label_location import (
    LabelLocation,
    is_name,
    location_inside,
)
from napari_ngff.labels.places.listed_labels import delete_labels
from napari_ngff.labels.places.sidecar import forget_sidecar as forget_sidecar
from napari_ngff.labels.places.sidecar import image_path, name_of, source_of
from napari_ngff.metadata.model import GroupKind
from napari_ngff.metadata.version import UNSTATED
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import (
    Node,
    open_node,
    read_node,
    without_links,
)
from napari_ngff.store.limits import DOCUMENTS
from napari_ngff.store.pyramids.pyramid import open_pyramid
from napari_ngff.store.sources.folder_store import FolderStore, FolderTransaction
from napari_ngff.store.write.writer_token import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.sources.blob import Revision
    from napari_ngff.store.store import Revisions


@dataclass(frozen=True, slots=True)
class LabelMerge:
    """A label image of a sidecar, and where it is merged.

    Attributes
    ----------
    label
        In the sidecar.
    image
        Where it goes.
    name
        That it gets there.
    """

    label: Node
    image: Node
    name: str

    @property
    def location(self) -> LabelLocation:
        """The image's list of labels."""
        return location_inside(self.image)


def merge(
    sidecar: str | os.PathLike[str],
    image: str | os.PathLike[str] | None = None,
    *,
    labels: Sequence[str] = (),
    name: str | None = None,
    overwrite: bool = False,
    remove: bool = False,
    goes_on: GoesOn | None = None,
) -> tuple[LabelMerge, ...]:
    """Copy label images of a sidecar into their image.

    Nothing is copied before it is known that all can be. The copy has the zarr format
    and version of the image, and the same voxels: they are compared. What an earlier
    merge has copied is not copied again.

    Parameters
    ----------
    sidecar
        Path of the sidecar, or of one label image in it.
    image
        Path of the image, or of the plate or collection with it; by default what the
        labels say.
    labels
        Names of label images, or their paths in the sidecar; all by default.
    name
        Another name for the only label image.
    overwrite
        Replace label images of the same name. What was there stays until its successor
        is whole.
    remove
        Remove from the sidecar what was merged, and an empty sidecar.
    goes_on
        Called with the progress of each label image; returns whether to go on.

    Returns
    -------
    tuple
        What was merged; empty where only the removal of all was left to finish.

    Raises
    ------
    NotOMEZarrError
        Where there are no label images at `sidecar`.
    FileExistsError
        Where a name is taken by other labels, without `overwrite`.
    ConflictError
        Where another process merges labels of that name into the image now.
    UnsupportedError
        Where the image cannot be written; the message says why.
    CorruptDataError
        Where a block cannot be read, or the copy differs. The image is as it was.
    OSError
        Where the system refuses to write.
    """
    if _recover_sidecar(sidecar):
        return ()
    chosen = _choose_labels(sidecar, labels)
    # Then a given image is that one, whatever path the labels state.
    alone = len({image_path(label) for label in chosen}) == 1
    merges = [
        LabelMerge(item, _open_image(item, image, alone), name_of(item))
        for item in chosen
    ]
    if name is not None:
        if len(merges) != 1:
            msg = f"One name for {len(merges)} label images. Choose one of them."
            raise OptionError(msg, "name")
        merges = [LabelMerge(merges[0].label, merges[0].image, name)]
    # All of them before the first is written.
    found = [_check_merge(item, overwrite, remove) for item in merges]
    done = []
    for item, merged in zip(merges, found, strict=True):
        copied = merged
        if copied is None:
            copied = _list_revisions(item) if remove else {}
            if not _merge_label(item, overwrite, goes_on):
                break
        if remove:
            _remove_merged(item, copied)
        done.append(item)
    return tuple(done)


def _recover_sidecar(sidecar: str | os.PathLike[str]) -> bool:
    """Finish what ended merges removed; return whether that was the sidecar itself."""
    gone = folder = Path(os.path.realpath(sidecar))
    if is_url(str(sidecar)) or gone.is_file():
        return False
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    removed = any(folder.glob(f".{escape(gone.name)}.*{SUFFIX}"))
    for place in (folder.parent, folder):
        FolderStore(str(place)).begin().recover("")
    return removed and not gone.exists()


def _choose_labels(
    sidecar: str | os.PathLike[str], labels: Sequence[str]
) -> list[Node]:
    node = open_node(sidecar)
    root = read_node(Location(node.location.source))
    if root.metadata.labels is None or root.metadata.image is not None:
        msg = f"{node} is not a sidecar: its root has no list of labels."
        raise NotOMEZarrError(msg)
    if node.kind is GroupKind.LABEL:
        return [node]
    paths = root.metadata.labels or ()
    nodes = [root.child(path) for path in paths]
    # "B.3.0.nuclei" and "nuclei" both name it.
    names = {end for node in nodes for end in (node.name, name_of(node))}
    lacking = [name for name in labels if name not in names]
    if lacking or not nodes:
        listed = ", ".join(paths) or "none"
        msg = f"{root} has no label image {', '.join(lacking)}. There are: {listed}."
        raise NotOMEZarrError(msg)
    wanted = set(labels or names)
    return [node for node in nodes if {node.name, name_of(node)} & wanted]


def _open_image(label: Node, given: str | os.PathLike[str] | None, alone: bool) -> Node:
    """Open the image to which a label image belongs.

    Where `alone`, all label images are of one image: then any given image will do.
    """
    below = image_path(label)
    if given is not None:
        node = open_node(given)
        if node.metadata.image is not None and (alone or node.location.path == below):
            return node
        return read_node(Location(node.location.source, below))
    source = source_of(label)
    if is_url(source):
        msg = f"{source} cannot be written."
        raise UnsupportedError(msg, remedy="Download it, and name its folder.")
    try:
        return open_node(source)
    except NodeNotFoundError as error:
        msg = f"{label} belongs to {source}, which does not exist."
        raise NodeNotFoundError(msg, remedy="Name the image.") from error


def _check_merge(item: LabelMerge, overwrite: bool, remove: bool) -> Revisions | None:
    """Refuse what cannot be merged, or not removed then.

    Returns
    -------
    Mapping or None
        What was merged before: the revisions of its objects, for the removal.
    """
    home = item.location
    source = home.source
    root = source.traits.folder
    if root is None:
        msg = f"{source.name} is not a folder: labels can be merged into a folder only."
        raise UnsupportedError(
            msg, remedy="Unpack or download it, and name the folder."
        )
    image = join_key(root, item.image.location.path)
    if not os.access(image, os.W_OK):
        raise UnsupportedError(f"No permission to write {image}.")
    if not is_name(item.name):
        raise ValueError(f"{item.name!r} cannot be the name of a label image.")
    _check_fit(item)
    if remove:
        _check_removable(item.label)
    source.begin().recover(home.path_of(item.name))
    # Before they are compared: what is saved meanwhile is not removed.
    revisions = _list_revisions(item) if remove else {}
    return None if _is_free(item, overwrite) else revisions


def _is_free(item: LabelMerge, overwrite: bool) -> bool:
    """Return whether labels are still to be merged; refuse a name of others."""
    # In the list, or a folder that no list names: neither is overwritten unasked.
    home = item.location
    folder = join_key(home.source.name, home.path_of(item.name))
    taken = item.name in home.label_names() or os.path.lexists(folder)
    if not taken or overwrite:
        return True
    copy = LabelCopy(item.label, home, item.name, home.path_of(item.name))
    with suppress(OMEZarrError, OSError):
        if item.name in home.label_names() and copy.is_complete():
            return False
    raise TargetExistsError(f"The label image {item.name} of {item.image}")


def _check_fit(item: LabelMerge) -> None:
    """Refuse a label image whose size differs from that of the image.

    Along each axis either the voxels are as many, or they reach as far, up to one of
    the labels', or the label image has one only.
    """
    label, image = open_pyramid(item.label), open_pyramid(item.image)
    names = image.multiscale.axis_names
    for axis, axis_name in enumerate(label.multiscale.axis_names):
        if axis_name not in names:
            raise UnsupportedError(
                f"{item.image} has no axis {axis_name}; {item.label} has."
            )
        image_axis = names.index(axis_name)
        sizes = label.levels[0].shape[axis], image.levels[0].shape[image_axis]
        steps = (
            abs(label.multiscale.levels[0].scale[axis]),
            abs(image.multiscale.levels[0].scale[image_axis]),
        )
        # In units of the axis; labels of a coarser level have fewer, larger voxels.
        apart = abs(sizes[0] * steps[0] - sizes[1] * steps[1])
        if sizes[0] not in (1, sizes[1]) and apart > steps[0]:
            msg = (
                f"{item.label} has {sizes[0]} voxels along {axis_name}, and"
                f" {item.image} has {sizes[1]}: it belongs to another image."
            )
            raise UnsupportedError(msg)


def _check_removable(label: Node) -> None:
    source, path = label.location.source, label.location.path
    if source.traits.folder is None or not path:
        raise UnsupportedError(f"{label} is in no folder, and cannot be removed.")
    levels = tuple(f"{label.location.path}/{level}/" for level in open_arrays(label))
    for key in source.list_keys(path):
        name = key.rpartition("/")[2]
        # Systems put hidden files of their own into folders.
        if not key.startswith(levels) and name not in DOCUMENTS and name[0] != ".":
            msg = f"{label} holds {source.name}/{key}, which is not merged."
            raise UnsupportedError(msg, remedy="Move that, or merge without removing.")
    # Removing the labels would take away what these edits belong to.
    if find_journals(source.name, path):
        msg = f"{label} has edits that were never saved."
        raise UnsupportedError(
            msg, remedy="Open it in napari to recover and save them first."
        )


def _merge_label(item: LabelMerge, overwrite: bool, goes_on: GoesOn | None) -> bool:
    """Merge one label image; return False if it was cancelled."""
    home, path = item.location, item.location.path_of(item.name)
    transaction = home.source.begin()
    transaction.recover(path)
    levels = (join_key(path, level) for level in open_arrays(item.label))
    # Their copies in consolidated metadata are removed before and added after.
    documents = [home.group, path, *levels, *_old_documents(item)]
    try:
        replacement = transaction.replace_tree(
            path, home.list_entry(item.name), documents
        )
    except ConflictError as error:
        msg = (
            f"{item.name} is being merged into {item.image}, or made there, by another"
            " process."
        )
        raise ConflictError(msg, remedy="Merge again when that has ended.") from error
    with replacement as tree:
        if not _is_free(item, overwrite):  # another may just have ended
            return True
        label = without_links(item.label)
        copy = LabelCopy(label, home, item.name, tree.key)
        if not copy.write(transaction, goes_on):
            return False
        # Before the old label image is replaced.
        copy.compare_voxels()
        tree.commit()
        add_to_list(transaction, home, item.name)
    return True


def _old_documents(item: LabelMerge) -> list[str]:
    """Return the paths of group and arrays of the label image that is replaced."""
    try:
        label = item.location.open_label(item.name)
    except (OMEZarrError, OSError):
        return []  # whatever is there, no group names its arrays
    image, location = label.metadata.image, label.location
    multiscales = image.multiscales if image is not None else ()
    levels = [level.path for multiscale in multiscales for level in multiscale.levels]
    return [location.path, *map(location.object_key, levels)]


def _list_revisions(item: LabelMerge) -> dict[str, Revision | None]:
    """Return the revision of each object of a label image in a sidecar."""
    source, path = item.label.location.source, item.label.location.path
    return {key: source.find_revision(key) for key in source.list_keys(path)}


def _require_copied(item: LabelMerge, copied: Revisions) -> None:
    """Raise ConflictError if labels were saved into the sidecar since they were copied.

    Whoever saves compares and renames in a turn; the caller has it.
    """
    if _list_revisions(item) != copied:
        raise ConflictError(
            f"{item.label} was changed by another window while it was copied into"
            f" {item.image}. It was not removed.",
            remedy="Merge again with overwriting, once it is saved.",
        )


def _remove_merged(item: LabelMerge, copied: Revisions) -> None:
    """Remove a label image from its sidecar, and the sidecar if it was the last one."""
    source, path = item.label.location.source, item.label.location.path
    root = read_node(Location(source))
    home = LabelLocation(source, "", root.metadata.version or UNSTATED)
    # New labels in another window may not be listed yet, so the list alone does not
    # show whether it was the last.
    is_alone = {*(source.list_names("") or ())} <= {path, *DOCUMENTS}
    if list(home.label_names()) == [path] and is_alone:
        # The folder itself, by one rename: a sidecar without labels would be shown.
        above, name = os.path.split(source.name)
        turn = source.begin().take_turn()
        with FolderTransaction(above).replace_tree(name) as tree, turn:
            _require_copied(item, copied)
            tree.remove_old()
        forget_sidecar(item.image, source.name)
        return
    with source.begin().take_turn():
        _require_copied(item, copied)
    delete_labels(item.label)[1]()
