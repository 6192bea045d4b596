"""Finds groups with several images: plates, wells, collections, or plain folders."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from napari_ngff.errors import AccessError, NotOMEZarrError
from napari_ngff.metadata.model import GroupKind, GroupMetadata
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import Node, find_images_inside, open_node
from napari_ngff.store.limits import DOCUMENTS
from napari_ngff.store.sources.folder_store import FolderStore

if TYPE_CHECKING:
    from napari_ngff.store.store import Store

BROWSED = (GroupKind.PLATE, GroupKind.WELL, GroupKind.COLLECTION, GroupKind.SCENE)
"""Kinds of groups that hold several images."""

MOST_TRIED = 16
"""Most groups of a folder that are opened to find the image to show first."""

MOST_ENTRIES = 4096
"""Most entries of a folder that are looked at; there may be a million other files."""


def find_first_image(folder: Node) -> str | None:
    """Find the first group of a folder that is an image, among `MOST_TRIED`."""
    names = (folder.metadata.series or ())[:MOST_TRIED]
    opened = ((name, folder.find_child(name)) for name in names)
    images = (n for n, each in opened if each and each.kind is GroupKind.IMAGE)
    return next(images, None)


def image_folder(path: str) -> Node | None:
    """Return a folder of zarr groups, or a group without OME metadata, to be browsed.

    Its series are the names of the groups, sorted; in a store of SpatialData paths such
    as "images/a". None where there are none. Documents in a plain folder are not read:
    a listed group may turn out to be no image. At most `MOST_ENTRIES` entries are
    looked at.

    Raises
    ------
    AccessError, OSError
        Where the folder cannot be listed.
    """
    if not os.path.isdir(path):
        return None
    source = FolderStore(os.path.abspath(path))
    if is_group(path):
        # A store of SpatialData, for example, whose root is a group without OME
        # metadata.
        inside = find_images_inside(Location(source, ""))
        return _folder_of(source, inside)
    try:
        with os.scandir(path) as entries:
            names = sorted(
                entry.name
                for entry in islice(entries, MOST_ENTRIES)
                if entry.is_dir() and is_group(entry.path)
            )
    except PermissionError as error:
        msg = f"No permission to list {path}."
        raise AccessError(msg) from error
    return _folder_of(source, tuple(names))


def _folder_of(source: Store, names: tuple[str, ...]) -> Node | None:
    # The format does not matter: `child` tries both where the document is not of this
    # one.
    metadata = GroupMetadata(series=names)
    return Node(Location(source), 3, {}, metadata) if names else None


def find_plates(node: Node) -> tuple[str, ...]:
    """Find the addresses of the plates in a folder, by reading each group."""
    opened = map(node.find_child, node.metadata.series or ())
    return tuple(str(each) for each in opened if each and each.kind is GroupKind.PLATE)


def is_group(path: str) -> bool:
    """Return whether a folder has a metadata document of zarr."""
    return any(os.path.isfile(os.path.join(path, name)) for name in DOCUMENTS)


def find_images(path: str) -> Node:
    """Find what can be browsed at a path or an address; a plain folder is a group, too.

    Raises
    ------
    NotOMEZarrError
        Where nothing there holds several images.
    OMEZarrError, OSError
        Where it cannot be read.
    """
    try:
        node = open_node(path)
    except NotOMEZarrError:
        folder = image_folder(path)
        if folder is None:
            raise
        return folder
    if node.kind in BROWSED:
        return node
    raise NotOMEZarrError(
        f"{node} is neither a plate, a well nor a collection.",
        remedy="Open it as layers.",
    )
