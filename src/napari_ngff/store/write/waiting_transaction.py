"""The common part of transactions whose objects wait in a temporary file."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol, Self

from napari_ngff.errors import ConflictError
from napari_ngff.store.hierarchy.consolidated import update_copies
from napari_ngff.store.sources.zip_source import clip_range
from napari_ngff.store.write.staged_objects import StagedObject, StagingFile
from napari_ngff.store.write.transaction import (
    NOTHING,
    TransactionSource,
    conflict_text,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from napari_ngff.metadata.model import Problem
    from napari_ngff.store.compression import Buffer
    from napari_ngff.store.sources.revision import Revision
    from napari_ngff.store.write.transaction import GoesOn, Revisions, Secure


class StoredObjects(Protocol):
    """Stored objects; a part of `Source`."""

    @property
    def concurrency(self) -> int:
        """Useful number of reads at the same time."""

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it."""

    def find_revision(self, key: str) -> Revision | None:
        """Return the revision of an object."""

    def list_keys(self, prefix: str) -> Iterable[str]:
        """Keys of all objects below a folder."""


class _WaitingSource(TransactionSource):
    """A hierarchy, with the objects that wait; see `Source`."""

    problems: tuple[Problem, ...] = ()
    transaction: WaitingTransaction

    def __init__(self, transaction: WaitingTransaction) -> None:
        self.transaction = transaction

    @property
    def name(self) -> str:
        return self.transaction.root

    @property
    def concurrency(self) -> int:
        return self.transaction.stored.concurrency

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        return self.transaction.get(key, start, length)

    def find_revision(self, key: str) -> Revision | None:
        return self.transaction.readable_revision(key)

    def list_names(self, prefix: str) -> tuple[str, ...]:
        base = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        # From all keys below, since neither archives nor buckets have folders.
        keys = self.transaction.list_keys(base.rstrip("/"))
        return tuple(sorted({key[len(base) :].partition("/")[0] for key in keys}))


class WaitingTree:
    """A new group whose objects wait in the transaction; see `NewTree`."""

    def __init__(
        self,
        transaction: WaitingTransaction,
        path: str,
        key: str,
        documents: Sequence[str],
    ) -> None:
        self._transaction, self._path, self._documents = transaction, path, documents
        self.key, self._committed = key, False
        # Beside its place: what an earlier tree has left. In its place: the old group.
        transaction.remove_below(key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def remove_old(self) -> None:
        """Remove the old group."""
        self._transaction.remove_below(self._path)

    def adopt_folder(self, key: str) -> None:
        """Use all objects below `key` as the new group."""
        self._transaction.move_folder(key, self.key)

    def commit(self, *, kept: str = "", expected: Revisions = NOTHING) -> None:
        """Let it wait under its own name; see `NewTree.commit`."""
        for object_key, revision in expected.items():
            self._transaction.expect_revision(object_key, revision)
        # First the old group is moved: what is kept is the oldest state, so it is never
        # replaced.
        if kept and not self._transaction.list_keys(kept):
            self._transaction.move_folder(self._path, kept)
        if self.key != self._path:
            self._transaction.move_folder(self.key, self._path)
        # Last: the copies are made of the documents that wait now.
        update_copies(self._transaction, self._documents)
        self._committed = True

    def abandon(self) -> None:
        """Do what `close` does: what waits is stored as a whole, or not at all."""
        self.close()

    def close(self) -> None:
        """Drop the new group if it was not committed."""
        if not self._committed:
            self._transaction.remove_below(self.key)


class WaitingTransaction(ABC):
    """Let objects wait in a file without a name; see `Transaction`.

    Memory: some hundred bytes for each object that waits.

    Parameters
    ----------
    stored
        Objects that are changed.
    name
        Path of their root, for messages.
    folder
        The file that waits is on its file system; by default with temporary files.
    """

    token = ""
    saves_together = True
    wants_shards = False

    def __init__(
        self, stored: StoredObjects, name: str, folder: str | None = None
    ) -> None:
        self.stored = stored
        self.root = name
        self.folder = folder
        self._stage = StagingFile(folder)
        # None for an object whose removal waits.
        self._staged: dict[str, StagedObject | None] = {}
        # Revisions that callers expect, and those at the time of `put`.
        self._expected: dict[str, Revision | None] = {}
        self._bases: dict[str, Revision | None] = {}
        self._documents: dict[str, Buffer] = {}
        self._secured: set[Secure] = set()
        self._lock = threading.Lock()

    @property
    def source(self) -> _WaitingSource:
        """The hierarchy, with the objects that wait."""
        return _WaitingSource(self)

    @property
    def uncommitted(self) -> bool:
        """Return whether objects wait."""
        return bool(self._staged)

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        # False: nothing waits; None: its removal waits.
        staged = self._staged.get(key, False)
        if staged is False:
            return self.stored.get(key, start, length)
        if not isinstance(staged, StagedObject):
            return None
        return staged.read_part(
            clip_range(0 if start is None else start, length, staged.length)
        )

    def list_keys(self, prefix: str) -> list[str]:
        """Keys of all objects below a folder."""
        base = f"{prefix}/" if prefix else ""
        with self._lock:
            staged = {k: v for k, v in self._staged.items() if k.startswith(base)}
        stored = {key for key in self.stored.list_keys(prefix) if key not in staged}
        return [*stored, *(key for key, item in staged.items() if item is not None)]

    def readable_revision(self, key: str) -> Revision | None:
        """Return the revision of what `get` reads, whatever others wrote since."""
        staged = self._staged.get(key, False)
        if staged is False:
            return self._stored_revision(key)
        return self._revision_of(staged) if isinstance(staged, StagedObject) else None

    def find_revision(self, key: str) -> Revision | None:
        """Return the revision of an object; see `Transaction.find_revision`."""
        return self.readable_revision(key)

    def _revision_of(self, staged: StagedObject) -> Revision:
        """Return the revision that an object will have once it is saved."""
        return staged.revision

    def _stored_revision(self, key: str) -> Revision | None:
        return self.stored.find_revision(key)

    # Writing.

    def expect_revision(self, key: str, revision: Revision | None) -> None:
        """Replace an object only if it still has this revision then."""
        if self.find_revision(key) != revision:
            raise ConflictError(conflict_text(f"{self.root}/{key}"))
        with self._lock:
            if key not in self._staged:
                self._expected[key] = revision

    def expect_document(self, key: str, data: Buffer) -> None:
        """Save chunks of an array only if its document is still the same then."""
        with self._lock:
            # One that waits is compared itself, by its revision.
            if key not in self._staged:
                self._documents[key] = data

    def put(self, key: str, data: Buffer, secure: Secure | None = None) -> None:
        """Let an object wait; see `Transaction.put`."""
        # Outside of the lock: a server may take long, and threads write into the file
        # at the same time, each at its own position.
        base = self._ask_base(key)
        staged = self._stage.append_bytes(data)
        with self._lock:
            self._keep_waiting(key, staged, base, secure)

    def put_document(self, key: str, data: Buffer) -> None:
        """Let a document wait."""
        self.put(key, data)

    def delete(self, key: str, secure: Secure | None = None) -> None:
        """Let the removal of an object wait."""
        base = self._ask_base(key)
        with self._lock:
            if self._staged.get(key) is not None or base is not None:
                self._keep_waiting(key, None, base, secure)

    def _ask_base(self, key: str) -> Revision | None:
        """Return the revision of what a `put` replaces."""
        with self._lock:
            # The first revision counts: a second `put` replaces what waits, not what is
            # stored.
            for known in (self._bases, self._expected):
                if key in known:
                    return known[key]
        return self._stored_revision(key)

    def _keep_waiting(
        self,
        key: str,
        staged: StagedObject | None,
        base: Revision | None,
        secure: Secure | None = None,
    ) -> None:
        self._bases.setdefault(key, self._expected.pop(key, base))
        self._staged[key] = staged
        if secure is not None:
            self._secured.add(secure)

    def remove_below(self, path: str) -> None:
        """Let the removal of all objects below `path` wait."""
        for key in self.list_keys(path):
            self.delete(key)

    def drop_waiting(self, path: str = "") -> None:
        """Drop the objects that wait below a folder; see `Transaction`."""
        base = f"{path}/" if path else ""
        with self._lock:
            for key in [key for key in self._staged if key.startswith(base)]:
                del self._staged[key], self._bases[key]

    def move_folder(self, by: str, path: str) -> None:
        """Replace all objects below `path` by those below `by`."""
        self.remove_below(path)
        for key in self.list_keys(by):
            target = f"{path}{key.removeprefix(by)}"
            staged = self._staged.get(key)
            if staged is not None:
                base = self._ask_base(target)
                with self._lock:
                    self._keep_waiting(target, staged, base)
            else:
                # Not waiting: the object is read from where it is stored.
                self.put(target, self.stored.get(key) or b"")
            self.delete(key)

    def take_turn(self) -> AbstractContextManager[None]:
        """Allow changes of documents."""
        # No lock: the second of two commits has a conflict.
        return nullcontext()

    @abstractmethod
    def replace_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> WaitingTree:
        """Begin a group that replaces another; see `Transaction`."""

    @abstractmethod
    def make_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> WaitingTree:
        """Begin a new group; see `Transaction`."""

    @abstractmethod
    def recover(self, path: str) -> None:
        """Remove what ended processes left; see `Transaction`."""

    @abstractmethod
    def remove_leftovers(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove unfinished files of killed processes; see `Transaction`."""

    @abstractmethod
    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Save what waits; see `Transaction`."""

    def _secure_all(self) -> None:
        for secure in list(self._secured):
            secure()

    def _forget_waiting(self) -> None:
        """Drop all that waited."""
        with self._lock:
            for waiting in (
                self._staged,
                self._bases,
                self._expected,
                self._documents,
                self._secured,
            ):
                waiting.clear()
            # A new file: the old one disappears when the last reader of it has ended.
            self._stage = StagingFile(self.folder)
