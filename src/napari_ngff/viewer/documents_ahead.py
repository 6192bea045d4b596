"""Chooses the documents that a server is asked for together, before they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.plate.mosaic import ALL_READ
from napari_ngff.plate.plate_layout import map_plate, spread_numbers
from napari_ngff.viewer.contrast import SAMPLED_WELLS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari_ngff.store.hierarchy.copied_documents import CopiedDocuments
    from napari_ngff.store.hierarchy.node import Node

__all__ = ["keys_ahead"]

MOST_AHEAD = 128
"""Most documents of an image, a well or a collection that are asked for so."""

MOST_OF_WELL = 32
"""The same of each well that shows others only its size and its contrast."""


def keys_ahead(node: Node, *, first_image: bool, samples_pixels: bool) -> list[str]:
    """List the documents that opening a node will read, of those that it has copies of.

    Parameters
    ----------
    node
        That is about to be opened.
    first_image, samples_pixels
        As for `napari_ngff.viewer.node_contents.open_contents`.

    Returns
    -------
    list
        Keys of the hierarchy; those of groups above first.
    """
    copied, metadata = node.copied, node.metadata
    if not copied.names:
        return []
    names: Iterable[str]
    if metadata.plate is not None:
        paths = [well.path for well in map_plate(metadata.plate).wells]
        names = _plate_names(copied, paths, samples_pixels)
    elif metadata.collection is not None and first_image:
        names = (*copied.below("OME"), *copied.shallow_first("0", MOST_AHEAD))
    else:
        names = copied.shallow_first("", MOST_AHEAD)
    return [node.location.object_key(name) for name in names]


def _plate_names(
    copied: CopiedDocuments, paths: Sequence[str], samples_pixels: bool
) -> Iterable[str]:
    """List the documents of the first well, and of those that are read with it."""
    chosen: Iterable[int] = range(len(paths))
    if len(paths) > ALL_READ:
        chosen = spread_numbers(len(paths), SAMPLED_WELLS) if samples_pixels else ()
    names: dict[str, None] = {}
    for path in paths[:1]:
        names.update(dict.fromkeys(copied.shallow_first(path, MOST_AHEAD)))
    for number in chosen:
        names.update(dict.fromkeys(_well_names(copied, paths[number])))
    return names


def _well_names(copied: CopiedDocuments, path: str) -> list[str]:
    """List the documents of a well, its images, and the first level of each."""
    depth = path.count("/") + 1
    names, seen = [], set()
    for name in copied.shallow_first(path, MOST_OF_WELL):
        image, _, _ = name.rpartition("/")[0].rpartition("/")
        below = name.count("/") - depth
        # An array, the first of its image; not the group of its labels.
        if below == 2 and (image in seen or "/labels/" in name):
            continue
        if below <= 2:
            names.append(name)
        if below == 2:
            seen.add(image)
    return names
