"""Changes a folder: objects are written aside, and get their names together.

To flush a file costs a disk's whole latency, but hundreds of files flushed at once cost
little more than one. What must be on the disk before what: docs/design/005.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
import time
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from napari_ngff.errors import ConflictError
from napari_ngff.store.sources.folder_source import FolderSource
from napari_ngff.store.sources.revision import Revision
from napari_ngff.store.workers import share_work
from napari_ngff.store.write.file_lock import turn
from napari_ngff.store.write.fsync import flush_file, flush_folder
from napari_ngff.store.write.named_errors import permitted
from napari_ngff.store.write.replace_tree import TreeReplacement, recover
from napari_ngff.store.write.transaction import TransactionSource
from napari_ngff.store.write.write_file import (
    remove,
    rename_over,
    replace_file,
    write_aside,
)
from napari_ngff.store.write.writer_token import is_left, new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from napari_ngff.store.compression import Buffer
    from napari_ngff.store.write.transaction import GoesOn, Secure

__all__ = ["FolderTransaction"]

Found = TypeVar("Found")

MOST = 1024
"""Objects that wait at most; some 500 bytes of memory for each."""

LONGEST = 20.0
"""Seconds that one waits at most, while others come."""

FLUSHERS = 16
"""Files that are flushed at once."""


@dataclass(frozen=True, slots=True, eq=False)
class _WaitingFile:
    """An object that waits: key of its file, None for removal; the old revision."""

    aside: str | None
    before: Revision | None
    secure: Secure | None


class FolderTransaction:
    """Change what is below `root`, a path without a trailing separator.

    Not the same object from two threads at once. What is put is renamed sooner where
    much or long waits; whoever reads `source` sees it at once. See `Transaction`.
    """

    saves_together = False
    wants_shards = False

    def __init__(self, root: str) -> None:
        self.root = root
        self.token = new_token()
        self.redirected: dict[str, str] = {}
        self.moving = threading.Lock()
        self.moves = 0  # odd while a tree or an object comes to its place
        self._waiting: dict[str, _WaitingFile] = {}
        self._expected: dict[str, Revision | None] = {}
        self._made: set[str] = set()
        self._since = 0.0
        self._conflicts: list[str] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    # Reading.

    @property
    def source(self) -> FolderSource:
        """The folder with what waits."""
        return _FolderView(self, self._waiting)

    @property
    def uncommitted(self) -> bool:
        """Whether something waits."""
        return bool(self._waiting)

    def find_path(self, key: str) -> str:
        """Path of an object, which may be aside; see `make_tree`."""
        for path, aside in self.redirected.items():
            if key.startswith(path) and key[len(path) : len(path) + 1] in ("", "/"):
                return f"{self.root}/{aside}{key[len(path) :]}"
        return f"{self.root}/{key}"

    def find_revision(self, key: str) -> Revision | None:
        """Tell the revision that an object has, or will have."""
        return self.source.find_revision(key)

    @contextmanager
    def move(self) -> Iterator[None]:
        """Give something its place: what is read meanwhile is read again."""
        with self.moving:
            self.moves += 1
            try:
                yield
            finally:
                self.moves += 1

    # Writing.

    def expect(self, key: str, revision: Revision | None) -> None:
        """Let an object be replaced only where it has this revision until then."""
        if self.find_revision(key) != revision:
            raise ConflictError(_taken(self.find_path(key)))
        with self._lock:
            if key not in self._waiting:
                self._expected[key] = revision

    def put(self, key: str, data: Buffer, secure: Secure | None = None) -> None:
        """Write an object aside; see `Transaction.put`."""
        before = self._before(key)
        path = self.find_path(key)
        try:
            aside = write_aside(path, data, self.token, flush=False)
        except FileNotFoundError:
            self._make_folder(os.path.dirname(path))
            aside = write_aside(path, data, self.token, flush=False)
        self._stage(key, _WaitingFile(aside[len(self.root) + 1 :], before, secure))

    def _make_folder(self, folder: str) -> None:
        """Make a folder, and remember those in which it is new."""
        missing = list(
            itertools.takewhile(lambda one: not os.path.isdir(one), _upwards(folder))
        )
        with permitted(folder):
            os.makedirs(folder, exist_ok=True)
        with self._lock:
            self._made.update(os.path.dirname(one) for one in missing)

    def delete(self, key: str, secure: Secure | None = None) -> None:
        """Note that an object is to be removed."""
        before = self._before(key)
        if before is not None or key in self._waiting:
            self._stage(key, _WaitingFile(None, before, secure))

    def _before(self, key: str) -> Revision | None:
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is not None:
                return waiting.before
            if key in self._expected:
                return self._expected.pop(key)
        return Revision.of_file(self.find_path(key))

    def _stage(self, key: str, one: _WaitingFile) -> None:
        now = time.monotonic()
        with self._lock:
            if not self._waiting:
                self._since = now
            older = self._waiting.get(key)
            self._waiting[key] = one
            enough = len(self._waiting) >= MOST or now - self._since > LONGEST
        if older is not None:
            self._drop(older)
        if enough:
            self.settle()

    def _drop(self, one: _WaitingFile) -> None:
        if one.aside is not None:
            with suppress(OSError):
                os.unlink(f"{self.root}/{one.aside}")

    def put_document(self, key: str, data: Buffer) -> None:
        """Replace a document at once, unless it is another than expected."""
        path = f"{self.root}/{key}"
        with self._lock:
            expected = self._expected.pop(key, False)
        if not replace_file(path, data, expected):
            raise ConflictError(_taken(path))

    def clear(self, path: str) -> None:
        """Remove a folder as far as the system allows, and what waits below it."""
        self.drop_waiting(path)
        shutil.rmtree(self.find_path(path), ignore_errors=True)

    def drop_waiting(self, path: str) -> None:
        """Forget what waits below a folder."""
        with self._lock:
            for key in [key for key in self._waiting if key.startswith(f"{path}/")]:
                self._drop(self._waiting.pop(key))

    def alone(self) -> AbstractContextManager[None]:
        """Change documents one after another; see `turn`."""
        return turn(self.root)

    def replace_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> TreeReplacement:
        """Begin what is to take the place of a folder; see `Transaction`."""
        with permitted(f"{self.root}/{path}"):
            return TreeReplacement(self, path, entry, documents)

    def make_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> RedirectedTree:
        """Begin what is to come to a place; see `Transaction.make_tree`."""
        return RedirectedTree(self, path, self.replace_tree(path, entry, documents))

    def recover(self, path: str) -> None:
        """Finish or take back what dead processes left; see `recover`."""
        recover(self, path)

    def sweep(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove what a writer that was killed left beside its objects.

        All below the folder is looked at; see `is_left`.
        """
        for folder, _, files in os.walk(self.find_path(prefix)):
            for name in files:
                path = os.path.join(folder, name)
                with suppress(OSError):
                    if is_left(path, dead):
                        os.unlink(path)

    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Flush what waits, and give it its names; see `Transaction.commit`."""
        self.settle()
        conflicts, self._conflicts = self._conflicts, []
        if conflicts:
            raise ConflictError("\n".join(conflicts))
        return True

    def settle(self) -> None:
        """Flush what waits, and give it its names; those that others took stay."""
        with self._turn:
            with self._lock:
                waiting = list(self._waiting.items())
            secured = dict.fromkeys(one.secure for _, one in waiting if one.secure)
            flushes: list[Callable[[], None]] = [*secured]
            flushes += [
                partial(self._flush, key, one.aside)
                for key, one in waiting
                if one.aside is not None
            ]
            _all(flushes)
            folders = set()
            try:
                # Or another of ours could rename between the last look and this.
                with turn(self.root):
                    for key, one in waiting:
                        self._finish(key, one)
                        folders.add(os.path.dirname(self.find_path(key)))
            finally:
                with self._lock:
                    made, self._made = self._made, set()
                _all(partial(flush_folder, folder) for folder in folders | made)

    def _flush(self, key: str, aside: str) -> None:
        # Whoever removed it is told of by `_finish`.
        with permitted(self.find_path(key)), suppress(FileNotFoundError):
            flush_file(f"{self.root}/{aside}")

    def _finish(self, key: str, one: _WaitingFile) -> None:
        """Give an object its name, unless another program was there meanwhile."""
        path = self.find_path(key)
        with self._lock, self.move():
            if self._waiting.get(key) is not one:
                return
            if one.aside is not None:
                taken = not rename_over(f"{self.root}/{one.aside}", path, one.before)
            else:
                taken = Revision.of_file(path) != one.before
                if not taken:
                    remove(path)
            del self._waiting[key]
            if taken:
                self._conflicts.append(_taken(path))


class _FolderView(FolderSource, TransactionSource):
    """Read a folder with what waits in place of what it will replace."""

    transaction: FolderTransaction

    def __init__(
        self, transaction: FolderTransaction, waiting: dict[str, _WaitingFile]
    ) -> None:
        super().__init__(transaction.root)
        self.transaction = transaction
        self._waiting = waiting

    def __reduce__(self) -> tuple[Any, ...]:
        return FolderSource, (self.root,)  # what is aside is of this process

    def find_path(self, key: str) -> str:
        """Path of an object, which may be aside."""
        return self.transaction.find_path(key)

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        read = super().get
        return self._look(key, lambda place: read(place, start, length))

    def find_revision(self, key: str) -> Revision | None:
        """Tell the revision that an object has, or will have: a rename keeps it."""
        return self._look(key, super().find_revision)

    def _look(self, key: str, look: Callable[[str], Found | None]) -> Found | None:
        """Look at an object, which may be aside."""
        moves = self.transaction.moves
        found = self._look_once(key, look)
        if moves % 2 or moves != self.transaction.moves:
            # It may be of what was replaced.
            with self.transaction.moving:
                found = self._look_once(key, look)
        return found

    def _look_once(self, key: str, look: Callable[[str], Found | None]) -> Found | None:
        while True:
            one = self._waiting.get(key)
            place = key if one is None else one.aside
            found = None if place is None else look(place)
            if self._waiting.get(key) is one:
                break
        if found is None and place not in (key, None):
            return look(key)  # it got its name just now
        return found


class RedirectedTree:
    """A tree that is written, and read, as if it was in its place; see `Tree`.

    Attributes
    ----------
    key
        Path of its place.
    """

    def __init__(
        self, transaction: FolderTransaction, path: str, tree: TreeReplacement
    ) -> None:
        self._transaction, self.key, self._tree = transaction, path, tree
        transaction.redirected[path] = tree.key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def remove(self) -> None:
        """Let what is there go; see `Tree.remove`."""
        self._tree.remove()

    def adopt(self, key: str) -> None:
        """Take the folder at a path of the hierarchy as what is new."""
        self._tree.adopt(key)

    def commit(self, *, kept: str = "") -> None:
        """Put it in its place; if it is there already, what was put since."""
        if self.key not in self._transaction.redirected:
            self._transaction.settle()
            return
        self._tree.prepare(kept)
        with self._transaction.move():
            self._tree.swap(kept)
            del self._transaction.redirected[self.key]
        self._tree.flush()

    def close(self) -> None:
        """Finish or take back what was begun."""
        if self.key in self._transaction.redirected:
            self._transaction.clear(self.key)
            del self._transaction.redirected[self.key]
        self._tree.close()


def _taken(path: str) -> str:
    return (
        f"{path} was changed by another program since it was read. It is left as it is."
    )


def _all(calls: Iterable[Callable[[], None]]) -> None:
    some = list(calls)
    share_work(iter(some), lambda call: call(), len(some), FLUSHERS)


def _upwards(folder: str) -> Iterable[str]:
    while folder != os.path.dirname(folder):
        yield folder
        folder = os.path.dirname(folder)
