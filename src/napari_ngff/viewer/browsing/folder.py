"""What can be walked: a plate, a well, a collection, or a plain folder of images."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from napari_ngff.errors import AccessError, NotOMEZarrError, OMEZarrError
from napari_ngff.metadata.model import Kind
from napari_ngff.store.folder import FolderSource
from napari_ngff.store.location import METADATA_NAMES
from napari_ngff.store.node import open_node
from napari_ngff.viewer.reader import read

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.store.node import Node
    from napari_ngff.store.source import Source
    from napari_ngff.viewer.picture import LayerData

__all__ = ["WALKED", "ImageFolder", "find", "image_folder", "read_each"]

WALKED = (Kind.PLATE, Kind.WELL, Kind.COLLECTION, Kind.SCENE)
"""Kinds of groups that hold several images."""

MOST_ENTRIES = 4096
"""Of a folder that are looked at: it may be the home of a million other files."""


@dataclass(frozen=True, slots=True)
class ImageFolder:
    """Zarr groups side by side in a folder that is none itself.

    Attributes
    ----------
    source
        The folder.
    names
        Of the groups, sorted.
    """

    source: Source
    names: tuple[str, ...]


def image_folder(path: str) -> ImageFolder | None:
    """List the zarr groups directly in a folder; None where there are none.

    Only looks at what is there, at `MOST_ENTRIES` at most; a group may turn out to be
    no image.

    Raises
    ------
    AccessError, OSError
        Where the folder cannot be listed.
    """
    if not os.path.isdir(path):
        return None
    source = FolderSource(os.path.abspath(path))
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
    return ImageFolder(source, tuple(names)) if names else None


def is_group(path: str) -> bool:
    """Tell whether a folder has a metadata document of zarr."""
    return any(os.path.isfile(os.path.join(path, name)) for name in METADATA_NAMES)


def find(path: str) -> Node | ImageFolder:
    """Find what can be walked at a path or an address.

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
    if node.kind in WALKED:
        return node
    raise NotOMEZarrError(
        f"{node} is neither a plate, a well nor a collection. Open it as layers."
    )


def read_each(
    paths: Iterable[str],
) -> tuple[list[tuple[str, list[LayerData]]], list[str]]:
    """Make the layers of several images; one that is broken does not stop the others.

    Returns
    -------
    layers
        Path and layers of each that can be shown.
    messages
        Why the others cannot.
    """
    found, messages = [], []
    for path in paths:
        try:
            found.append((path, read(path)))
        except (OMEZarrError, OSError) as error:
            messages.append(str(error))
    return found, messages
