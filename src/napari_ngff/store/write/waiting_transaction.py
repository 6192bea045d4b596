"""The common part of transactions whose objects wait in a temporary file."""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from typing_extensions import override

from napari_ngff.errors import name_errors
from napari_ngff.store.arrays.stored_objects import join_key
from napari_ngff.store.sources.blob import Blob, Revision, clip_range
from napari_ngff.store.sources.file_bytes import PositionFile, write_at
from napari_ngff.store.sources.read_ahead import WrappedStore
from napari_ngff.store.store import (
    NOTHING,
    NewTree,
    Revisions,
    Store,
    Transaction,
    WaitingObject,
)
from napari_ngff.store.write.consolidated import update_copies
from napari_ngff.store.write.label_list_watch import announce_lists
from napari_ngff.store.write.replace_file import nameless_file, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.compression import Buffer


@dataclass(frozen=True, slots=True)
class StagedObject:
    """An object that waits to be saved.

    Attributes
    ----------
    file, start, length
        The file that has its bytes, and where they are.
    revision
        That the object will have once it is saved.
    """

    file: PositionFile
    start: int
    length: int
    revision: Revision

    def read_part(self, part: slice) -> bytes:
        """Read a part of the object."""
        return self.file.read(self.start + part.start, part.stop - part.start)


class StagingFile:
    """A temporary file that only grows; safe to use from several threads.

    It has no name: it disappears with the last object in it, or with the process.

    Parameters
    ----------
    folder
        The file is on its file system.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._opened: PositionFile | None = None
        self._end = 0

    @property
    def _open_file(self) -> PositionFile:
        with self._lock:
            if self._opened is None:
                # The file object is closed with the `PositionFile`.
                self._opened = PositionFile("unsaved data", nameless_file(self._folder))
            return self._opened

    def append_bytes(self, raw: bytes, revision: Revision) -> StagedObject:
        """Append the bytes of an object, and the revision that it will have.

        Raises
        ------
        OSError
            Where the disk is full.
        """
        file = self._open_file
        with self._lock:
            start = self._end
            # Each thread reserves its own part of the file, and then writes there at
            # the same time as others.
            self._end += len(raw)
        with name_errors(self._folder or temporary_folder()):
            write_at(file.fileno(), raw, start)
        return StagedObject(file, start, len(raw), revision)


class _WaitingStore(WrappedStore):
    """Reads objects that wait in a transaction, and all others from its store."""

    def __init__(
        self,
        transaction: WaitingTransaction,
        waiting: dict[str, WaitingObject[StagedObject]],
    ) -> None:
        super().__init__(transaction.stored)
        self.transaction = transaction
        self._waiting = waiting

    @override
    def begin(self) -> Transaction:
        # What waits must be changed by the transaction that holds it.
        return self.transaction

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        waiting = self._waiting.get(key)
        if waiting is None:
            return super().read(key, start, length)
        staged = waiting.content
        if staged is None:
            return None
        part = clip_range(0 if start is None else start, length, staged.length)
        return Blob(staged.read_part(part), staged.revision)

    @override
    def find_revision(self, key: str) -> Revision | None:
        waiting = self._waiting.get(key)
        if waiting is None:
            return super().find_revision(key)
        staged = waiting.content
        return None if staged is None else staged.revision

    @override
    def list_names(self, prefix: str) -> tuple[str, ...]:
        base = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        # From all keys below, since neither archives nor buckets have folders.
        keys = self.transaction.list_keys(base.rstrip("/"))
        return tuple(sorted({key[len(base) :].partition("/")[0] for key in keys}))


class WaitingTree(NewTree):
    """A new group whose objects wait in the transaction."""

    def __init__(
        self,
        transaction: WaitingTransaction,
        path: str,
        key: str,
        documents: Sequence[str],
    ) -> None:
        self._transaction, self._path, self._documents = transaction, path, documents
        self.key, self._committed = key, False
        # An earlier new group that was not finished, or the old group itself.
        transaction.remove_below(key)

    @override
    def commit(self, *, kept: str = "", expected: Revisions = NOTHING) -> None:
        for object_key, revision in expected.items():
            self._transaction.expect_revision(object_key, revision)
        # Nothing that was kept before is replaced, since the oldest state counts.
        if kept and not self._transaction.list_keys(kept):
            self._transaction.move_folder(self._path, kept)
        if self.key != self._path:
            self._transaction.move_folder(self.key, self._path)
        # Last: the copies are made of the documents that wait now.
        update_copies(self._transaction, self._documents)
        self._committed = True

    @override
    def close(self) -> None:
        """Drop the new group if it was not committed."""
        if not self._committed:
            self._transaction.remove_below(self.key)

    @override
    def abandon(self) -> None:
        """Remove it, with what a failed commit has stored of it."""
        self.close()
        self._transaction.take_back(self._path)


class WaitingTransaction(Transaction):
    """Let objects wait in a file without a name.

    Memory: some hundred bytes for each object that waits.

    Parameters
    ----------
    stored
        Objects that are changed.
    name
        Path of their root, for messages.
    folder
        The bytes of objects wait on its file system; by default in the folder of
        temporary files.
    """

    _waiting: dict[str, WaitingObject[StagedObject]]

    def __init__(
        self,
        stored: Store,
        name: str,
        folder: str | None = None,
    ) -> None:
        super().__init__(name)
        self.stored = stored
        self.folder = folder
        self._stage = StagingFile(folder)

    @property
    @override
    def source(self) -> _WaitingStore:
        return _WaitingStore(self, self._waiting)

    def list_keys(self, prefix: str) -> list[str]:
        """Keys of all objects below a folder."""
        base = f"{prefix}/" if prefix else ""
        with self._lock:
            waiting = {k: v for k, v in self._waiting.items() if k.startswith(base)}
        stored = {key for key in self.stored.list_keys(prefix) if key not in waiting}
        return [*stored, *(k for k, one in waiting.items() if one.content is not None)]

    def revision_of(self, data: bytes) -> Revision:
        """Return the revision that an object will have once it is saved."""
        return Revision(len(data), zlib.crc32(data))

    @override
    def _stored_revision(self, key: str) -> Revision | None:
        return self.stored.find_revision(key)

    # Writing.

    @override
    def _stage_bytes(self, key: str, data: Buffer) -> StagedObject:
        raw = bytes(data)
        return self._stage.append_bytes(raw, self.revision_of(raw))

    @override
    def remove_below(self, path: str) -> None:
        for key in self.list_keys(path):
            self.delete(key)

    def move_folder(self, source: str, target: str) -> None:
        """Replace all objects below `target` by those below `source`."""
        self.remove_below(target)
        for key in self.list_keys(source):
            path = f"{target}{key.removeprefix(source)}"
            waiting = self._waiting.get(key)
            if waiting is not None:
                moved = replace(waiting, before=self._revision_before(path))
                self._add_waiting(path, moved)
            else:
                # Not waiting: the object is read from where it is stored.
                self.put(path, self.stored.get(key) or b"")
            self.delete(key)

    @override
    def replace_tree(
        self,
        path: str,
        entry: str = "",
        documents: Sequence[str] = (),
        *,
        in_place: bool = False,
    ) -> WaitingTree:
        above, _, name = path.rpartition("/")
        # Beside, so that the old group can still be read while the new one is made.
        key = path if in_place else join_key(above, f".{name}.new")
        return WaitingTree(self, path, key, documents)

    def take_back(self, path: str) -> None:
        """Remove what a commit that failed has stored of a new group."""
        # Of an archive nothing is stored, or all.

    def _secure_all(self) -> None:
        known = [waiting.secure for waiting in list(self._waiting.values())]
        for secure in filter(None, dict.fromkeys(known)):
            secure()

    def _forget_saved(self) -> None:
        """Drop all that waited, and announce the lists of labels in it."""
        with self._lock:
            keys = tuple(self._waiting)
            for known in (self._waiting, self._expected, self._documents):
                known.clear()
            # A new file: the old one disappears when the last reader of it has ended.
            self._stage = StagingFile(self.folder)
        announce_lists(self.root, keys)
