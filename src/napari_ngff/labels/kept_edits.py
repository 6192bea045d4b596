"""Edits in journals that no process uses, found by the image that they belong to."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.addresses import is_url
from napari_ngff.errors import CorruptDataError
from napari_ngff.labels.journal import LOCK, delete_journal, journal_home
from napari_ngff.labels.places.sidecar import (
    address_of,
    image_path,
    sidecar_candidates,
    source_of,
)
from napari_ngff.labels.saving.journal_records import (
    EDITS,
    JournalHead,
    read_head,
    read_journal,
)
from napari_ngff.store.write.file_lock import is_held

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from napari_ngff.store.hierarchy.node import Node

LABELS = "/labels/"

LATEST = 1 << 33
"""Seconds since 1970, in the year 2242."""


@dataclass(frozen=True, slots=True)
class KeptEdits:
    """A journal that can be taken over.

    Attributes
    ----------
    folder
        Of the journal.
    head
        What was edited.
    count
        How many edits the file lacks.
    time
        When the last of them was written, in seconds since 1970.
    image
        Path or URL of the image; "" where that is not known.
    has_classes
        Whether the file lacks a change of classes.
    needs_originals
        Whether they go over what the file was before; see `JournalContent`.
    noun
        What one of them is called.
    """

    folder: Path
    head: JournalHead
    count: int
    time: float
    image: str
    has_classes: bool = False
    needs_originals: bool = False
    noun: str = "edit"

    @property
    def name(self) -> str:
        """Name of the label image."""
        return self.head.subject.name

    @property
    def place(self) -> str:
        """Path of the label image, whether it exists yet or not."""
        return place_text(self.head.store, self.head.path)


def address_text(node: Node) -> str:
    """Return path or URL of a group, however it was opened; "" for one in memory."""
    address = address_of(node)
    return "" if address is None else address.path_of(node.location.path)


def place_text(store: str, path: str) -> str:
    """Return the path of a group, which need not exist yet; "" for no path."""
    if not store:
        return ""
    # As `Address.root`, so that both are equal through links and relative paths.
    root = store if is_url(store) else os.path.realpath(store)
    return f"{root}/{path}" if path else root


def image_of_label(label: Node) -> str:
    """Return path or URL of the image of labels, by where the labels are."""
    address = address_text(label)
    if f"{LABELS}{label.name}" in address:
        return address.rpartition(LABELS)[0]
    # In a sidecar, whose paths are flat: only the stated source leads to the image.
    source = source_of(label) if image_path(label) or label.metadata.image else ""
    return source if source and source != address else ""


def find_kept_edits(
    nodes: Iterable[Node],
    places: Iterable[str] = (),
    unreadable: list[str] | None = None,
) -> list[KeptEdits]:
    """List free journals of images or labels that are at or below some groups.

    Those of which the file lacks nothing are deleted. Reads every journal's first line.

    Parameters
    ----------
    nodes
        Plates, wells, images, labels, or groups above them.
    places
        Of label images that are not there yet, and files of images that are not of an
        OME-Zarr; see `place_text`.
    unreadable
        Gets a text about each journal of these that cannot be read, and each of which
        nobody can say what it is of. They stay as they are.

    Raises
    ------
    OSError
        Where the folder of journals cannot be listed.
    """
    tops = {text for node in nodes if (text := address_text(node))}
    tops.update(filter(None, places))
    older = [_OlderSidecars(node) for node in nodes]
    kept: list[KeptEdits] = []
    for folder in _list_folders(journal_home()):
        try:
            kept += _find_in(folder, tops, older)
        except CorruptDataError as error:
            if unreadable is not None:
                unreadable.append(str(error))
        except OSError:
            continue  # another window deletes it at this moment
    return sorted(kept, key=lambda kept: kept.time)


def _find_in(
    folder: Path, tops: set[str], older: Sequence[_OlderSidecars]
) -> Iterator[KeptEdits]:
    """Read a journal, if it is of what is at or below some paths."""
    head = read_head(folder)
    if head is None:
        return
    image, label_text = _image_of(head), place_text(head.store, head.path)
    # Heads of earlier versions do not name their image.
    if not image:
        image = next(filter(None, (sidecars.image_of(head) for sidecars in older)), "")
    # Labels that were saved may be opened alone, so their own path counts, too.
    if any(is_below(text, top) for text in (image, label_text) for top in tops):
        yield from _read_kept(folder, head, image)


def is_below(text: str, top: str) -> bool:
    """Return whether a path equals another one, or lies below it."""
    return bool(text) and (text == top or text.startswith(f"{top.rstrip('/')}/"))


def _list_folders(home: Path) -> Iterator[Path]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for group in sorted(home.iterdir()):
            with contextlib.suppress(OSError):
                for folder in sorted(group.iterdir()):
                    if (folder / EDITS).exists():
                        yield folder


def _read_kept(folder: Path, head: JournalHead, image: str) -> Iterator[KeptEdits]:
    # An open window holds it, whose edits are not to be recovered.
    if is_held(folder / LOCK):
        return
    try:
        content = read_journal(folder)
    except CorruptDataError as error:
        raise CorruptDataError.at_place(
            error, f"Edits of '{head.subject.name}'"
        ) from error
    if content.is_unsaved:
        # No calendar has the times that some file systems state.
        time = min(max((folder / EDITS).stat().st_mtime, 0), LATEST)
        yield KeptEdits(
            folder,
            head,
            content.unsaved_count,
            time,
            image,
            content.classes.unsaved,
            content.needs_originals,
        )
    else:
        delete_journal(folder)


def _image_of(head: JournalHead) -> str:
    if head.subject.image:
        return head.subject.image
    # A slash before, so that "labels/nuclei" of an image at the root is found, too.
    path = f"/{head.path}"
    if LABELS not in path:
        return ""
    return place_text(head.store, path.rpartition(LABELS)[0].strip("/"))


class _OlderSidecars:
    """Finds the image of older journals, whose labels are in sidecars of a group."""

    def __init__(self, node: Node) -> None:
        address = address_of(node)
        self._places = () if address is None else sidecar_candidates(address)
        self._image = "" if node.metadata.image is None else address_text(node)
        path = node.location.path.replace("/", ".")
        self._prefix = f"{path}." if path else ""

    def image_of(self, head: JournalHead) -> str:
        """Return the address of the group if a journal is of its labels, else ""."""
        store = os.path.realpath(head.store) if head.store else ""
        known = store in map(str, self._places)
        return self._image if known and head.path.startswith(self._prefix) else ""
