"""Files that several processes of ours change at the same time."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError

from napari_ngff.errors import ConflictError
from napari_ngff.labels.canvas import Canvas
from napari_ngff.labels.edits import Edit
from napari_ngff.labels.field_states import FieldStates
from napari_ngff.labels.journal import Journal, find_journals
from napari_ngff.labels.object_classes import ClassChanges
from napari_ngff.labels.places.label_list import change_list
from napari_ngff.labels.places.sidecar import (
    address_of,
    choose_location,
    remember_sidecar,
    sidecar_candidates,
    sidecar_location,
)
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.saving.journal_records import JournalSubject, read_head
from napari_ngff.labels.shapes import Mask
from napari_ngff.store.arrays.lazy_array import BlankArray
from napari_ngff.store.disk_cache import DiskCache
from napari_ngff.store.hierarchy.node import open_node
from napari_ngff.store.sources.blob import Revision
from napari_ngff.store.sources.server_logins import keep_login, kept_login, make_login
from napari_ngff.store.write import file_lock
from napari_ngff.viewer.annotations.file_annotation import write_file
from napari_ngff.viewer.annotations.file_journal import (
    FileJournal,
    KeptContent,
    find_kept_files,
)
from napari_ngff.viewer.annotations.object_class_table import write_classes
from napari_ngff.viewer.samples import write_image, write_plate
from napari_ngff.viewer.services.settings import (
    last_tool,
    note_address,
    note_tool,
    recent_addresses,
)
from object_tables import stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

ROUNDS = int(os.environ.get("ROUNDS", "25"))
"""Changes of each process."""


class SharedFile:
    """A file, or files, of a plate or an image in `folder`, or of the user.

    `change` adds one of the `NAMES`, and `read` returns those that are there.
    """

    NAMES = ROUNDS
    """Different names of each process; it changes each of them in turn."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Write what is there before."""

    def change(self, name: str) -> None:
        """Add a name, such as "a7"."""
        raise NotImplementedError

    def read(self) -> Iterable[str]:
        """Return the names that are there."""
        raise NotImplementedError


class States(SharedFile):
    def prepare(self):
        write_plate(self.folder / "plate.zarr", grid=(1, 2), fields=1, shape=(32, 32))

    def _open(self):
        return FieldStates(open_node(self.folder / "plate.zarr"))

    def change(self, name):
        self._open().set_state(name, "done")

    def read(self):
        return self._open().all_states()


class SidecarNote(SharedFile):
    def prepare(self):
        write_image(self.folder / "image.zarr", shape=(32, 32))

    def _open(self):
        return open_node(self.folder / "image.zarr")

    def change(self, name):
        image = self._open()
        remember_sidecar(image, sidecar_location(image, self.folder / name))

    def read(self):
        places = sidecar_candidates(address_of(self._open()))[2:]
        return [place.parent.name for place in places]


class Addresses(SharedFile):
    NAMES = 6

    def change(self, name):
        note_address(f"https://host/{name}.zarr")

    def read(self):
        return [
            text[len("https://host/") : -len(".zarr")] for text in recent_addresses()
        ]


class Tool(SharedFile):
    NAMES = 1

    def prepare(self):
        note_tool({"mode": "a0", "more": "x" * 1000})

    def change(self, name):
        note_tool({"mode": name, "more": "x" * 1000})

    def read(self):
        # Whole, and any of the two.
        return ["a0", "b0"] if len(last_tool().get("more", "")) == 1000 else []


class Logins(SharedFile):
    def _server(self, name):
        return f"https://{name}.org"

    def change(self, name):
        keep_login(self._server(name), make_login("me", name))

    def read(self):
        names = [f"{who}{number}" for who in "ab" for number in range(ROUNDS)]
        return [name for name in names if kept_login(self._server(name))]


class Cache(SharedFile):
    DATA = b"pixels" * 1000

    def _open(self):
        return DiskCache(self.folder / "cache", ".chunk", 1 << 30)

    def change(self, name):
        self._open().keep(name, self.DATA)

    def read(self):
        names = [f"{who}{number}" for who in "ab" for number in range(ROUNDS)]
        found = {name: self._open().load(name) for name in names}
        assert set(found.values()) <= {None, self.DATA}
        return [name for name, data in found.items() if data]


class Lists(SharedFile):
    """The list of labels of an image, which is beside the data."""

    def prepare(self):
        write_image(self.folder / "image.zarr", shape=(32, 32))

    def change(self, name):
        home = choose_location(open_node(self.folder / "image.zarr"), None)
        transaction = home.source.begin()
        change_list(transaction, home, lambda listed: join_names(listed, name))
        transaction.commit()

    def read(self):
        text = (self.folder / "image.zarr/labels/zarr.json").read_text()
        listed = json.loads(text)["attributes"]["ome"]["labels"]
        return [name for name in listed if name not in ("nuclei", "cells")]


class ObjectClassTables(SharedFile):
    """Classes of the objects of an image, which is beside the data."""

    def prepare(self):
        write_image(self.folder / "image.zarr", shape=(32, 32))

    def change(self, name):
        label = 2 * int(name[1:]) + "ab".index(name[0]) + 1
        changes = ClassChanges("nuclei", (), {label: name})
        while True:
            with suppress(ConflictError):
                write_classes(open_node(self.folder / "image.zarr"), changes)
                return

    def read(self):
        rows = stored(self.folder / "image.zarr").get("nuclei", {})
        return rows.values()


def join_names(listed, name):
    return [*listed, *({name} - set(listed))]


class Journals(SharedFile):
    """Journals of one label image: a folder for each, beside each other."""

    PLACE = "/nowhere/image.zarr", "labels/cells"

    def change(self, name):
        canvas = Canvas([BlankArray((8, 8), (8, 8), np.dtype("u2"))])
        canvas.add_edit(
            Edit(Mask(mask_runs(np.ones((2, 2), bool), (0, 0))), (0, 1), (), 7)
        )
        journal = Journal(*self.PLACE, canvas, subject=JournalSubject(name=name))
        journal.close()
        assert journal.trouble is None, journal.trouble

    def read(self):
        heads = map(read_head, find_journals(*self.PLACE))
        return [head.subject.name for head in heads]


class FileJournals(SharedFile):
    """Journals of points and the like."""

    def change(self, name):
        journal = FileJournal()
        journal.write(
            KeptContent("points", name, "/nowhere", "a.csv", (), 1, "point", name)
        )
        journal.close()

    def read(self):
        unreadable = []
        found = find_kept_files(["/nowhere"], unreadable)
        assert unreadable == []
        return [one.content.name for one in found]


class PointsFile(SharedFile):
    """A file beside an image that a window replaces as a whole, if it is as it was."""

    def change(self, name):
        path = str(self.folder / "points.csv")
        while True:
            revision, lines = Revision.of_file(path), list(self.read())
            if name in lines:
                return
            with suppress(ConflictError):
                text = "\n".join([*lines, name])
                write_file(path, lambda text=text: text, (path, revision))

    def read(self):
        with suppress(FileNotFoundError):
            return (self.folder / "points.csv").read_text().split("\n")
        return []


KINDS = {kind.__name__: kind for kind in SharedFile.__subclasses__()}


class FolderKeyring(KeyringBackend):
    """A keychain in a folder, for all processes: a file for each entry."""

    priority = 1

    def _path(self, service, name):
        folder = os.environ["FOLDER_KEYRING"]
        return os.path.join(folder, f"{service} {name}".replace("/", "_"))

    def get_password(self, service, username):
        try:
            with open(self._path(service, username), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def set_password(self, service, username, password):
        with open(self._path(service, username), "w", encoding="utf-8") as file:
            file.write(password)

    def delete_password(self, service, username):
        try:
            os.unlink(self._path(service, username))
        except FileNotFoundError as error:
            raise PasswordDeleteError(username) from error


def refuse_folder(root: str) -> int:
    """Do as Windows, and some networks."""
    raise PermissionError(errno.EACCES, "no locks of folders", root)


def change_all(
    kinds: Sequence[str], folder: Path, who: str, start, ended, *, locks_folders: bool
) -> None:
    """Make the changes of one process, to one file after the other."""
    if not locks_folders:
        file_lock._open_folder = refuse_folder
    for name in kinds:
        shared = KINDS[name](folder / name)
        start.wait(60)
        for number in range(ROUNDS):
            shared.change(f"{who}{number % shared.NAMES}")
        ended.wait(60)
