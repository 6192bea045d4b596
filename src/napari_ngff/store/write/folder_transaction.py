"""Changes a folder: objects are written aside, flushed together, and then renamed.

To flush one file takes the latency of the disk, but to flush hundreds at once takes
little more. The order of all flushes is in docs/design/005.
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
from napari_ngff.store.threads import share_work
from napari_ngff.store.write.file_lock import take_turn
from napari_ngff.store.write.fsync import flush_file, flush_folder
from napari_ngff.store.write.label_list_watch import announce_lists
from napari_ngff.store.write.named_errors import name_errors
from napari_ngff.store.write.replace_file import (
    remove_file,
    rename_over,
    replace_file,
    write_aside,
)
from napari_ngff.store.write.replace_tree import TreeReplacement, recover_trees
from napari_ngff.store.write.transaction import (
    NOTHING,
    TransactionSource,
    conflict_text,
)
from napari_ngff.store.write.writer_token import is_left, new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from napari_ngff.store.compression import Buffer
    from napari_ngff.store.write.transaction import GoesOn, Revisions, Secure

Result = TypeVar("Result")

MOST_WAITING = 1024
"""Most objects that wait; each takes some 500 bytes of memory."""

LONGEST_WAIT = 20.0
"""Seconds that an object waits at most, while others are put."""

FLUSHERS = 16
"""Files that are flushed at once."""


@dataclass(frozen=True, slots=True, eq=False)
class _WaitingFile:
    """An object that waits: key of its unfinished file, None to remove it."""

    aside: str | None
    before: Revision | None
    secure: Secure | None


class FolderTransaction:
    """Change the objects below `root`, a path without a trailing separator.

    Two threads must not put the same object at once. Where many objects wait, or for
    long, they are saved before `commit`. See `Transaction`.
    """

    saves_together = False
    wants_shards = False

    def __init__(self, root: str) -> None:
        self.root = root
        self.token = new_token()
        # Path of a new tree -> key of the folder aside in which it is made.
        self.redirected: dict[str, str] = {}
        self.moving = threading.Lock()
        self.moves = 0  # odd while a tree or an object is being renamed
        self._waiting: dict[str, _WaitingFile] = {}
        self._expected: dict[str, Revision | None] = {}
        self._documents: dict[str, Buffer] = {}
        # Folders that got a new folder inside, to be flushed with the next objects.
        self._made: set[str] = set()
        self._since = 0.0
        self._conflicts: list[str] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    # Reading.

    @property
    def source(self) -> FolderSource:
        """The folder, with the objects that wait."""
        return _FolderView(self, self._waiting)

    @property
    def uncommitted(self) -> bool:
        """Return whether something waits."""
        return bool(self._waiting)

    def find_path(self, key: str) -> str:
        """Return the path of an object, which may be aside; see `make_tree`."""
        # The path itself or something below it; "nuclei-2" is not below "nuclei".
        for path, aside in self.redirected.items():
            if key.startswith(path) and key[len(path) : len(path) + 1] in ("", "/"):
                return f"{self.root}/{aside}{key[len(path) :]}"
        return f"{self.root}/{key}"

    def find_revision(self, key: str) -> Revision | None:
        """Return the revision that an object has, or will have."""
        return self.source.find_revision(key)

    @contextmanager
    def mark_move(self) -> Iterator[None]:
        """Mark a rename: readers read again what they read meanwhile."""
        with self.moving:
            self.moves += 1
            try:
                yield
            finally:
                self.moves += 1

    # Writing.

    def expect_revision(self, key: str, revision: Revision | None) -> None:
        """Replace an object only if it still has this revision then."""
        if self.find_revision(key) != revision:
            raise ConflictError(conflict_text(self.find_path(key)))
        with self._lock:
            if key not in self._waiting:
                self._expected[key] = revision

    def expect_document(self, key: str, data: Buffer) -> None:
        """Save chunks of an array only if its document is still the same then."""
        with self._lock:
            self._documents[key] = data

    def put(self, key: str, data: Buffer, secure: Secure | None = None) -> None:
        """Write an object aside; see `Transaction.put`."""
        before = self._revision_before(key)
        path = self.find_path(key)
        # First without its folder: making each anew costs a call for every chunk.
        try:
            aside = write_aside(path, data, self.token, flush=False)
        except FileNotFoundError:
            self._make_folder(os.path.dirname(path))
            aside = write_aside(path, data, self.token, flush=False)
        self._add_waiting(
            key, _WaitingFile(aside[len(self.root) + 1 :], before, secure)
        )

    def _make_folder(self, folder: str) -> None:
        """Make a folder, and note the folders to flush because of it."""
        missing = list(
            itertools.takewhile(
                lambda path: not os.path.isdir(path), _folders_above(folder)
            )
        )
        with name_errors(folder):
            os.makedirs(folder, exist_ok=True)
        # The name of a new folder is in the folder above, so that is flushed.
        with self._lock:
            self._made.update(os.path.dirname(path) for path in missing)

    def delete(self, key: str, secure: Secure | None = None) -> None:
        """Let the removal of an object wait."""
        before = self._revision_before(key)
        if before is not None or key in self._waiting:
            self._add_waiting(key, _WaitingFile(None, before, secure))

    def _revision_before(self, key: str) -> Revision | None:
        with self._lock:
            waiting = self._waiting.get(key)
            # What waits replaces the same stored object as before: the first revision
            # counts.
            if waiting is not None:
                return waiting.before
            if key in self._expected:
                return self._expected.pop(key)
        return Revision.of_file(self.find_path(key))

    def _add_waiting(self, key: str, file: _WaitingFile) -> None:
        now = time.monotonic()
        with self._lock:
            if not self._waiting:
                self._since = now
            older = self._waiting.get(key)
            self._waiting[key] = file
            enough = (
                len(self._waiting) >= MOST_WAITING or now - self._since > LONGEST_WAIT
            )
        if older is not None:
            # Outside of the lock: removing a file may take long on a network.
            self._remove_aside(older)
        # A long save must not lose all of it to a loss of power.
        if enough:
            self.place_waiting()

    def _remove_aside(self, file: _WaitingFile) -> None:
        if file.aside is not None:
            with suppress(OSError):
                os.unlink(f"{self.root}/{file.aside}")

    def put_document(self, key: str, data: Buffer) -> None:
        """Replace a document at once, unless another program changed it."""
        path = f"{self.root}/{key}"
        with self._lock:
            # False is "any revision", None is "no file".
            expected = self._expected.pop(key, False)
        if not replace_file(path, data, expected):
            raise ConflictError(conflict_text(path))
        announce_lists(self.root, [key])

    def remove_below(self, path: str) -> None:
        """Remove a folder as far as the system allows, and objects that wait below
        it.
        """
        # First what waits: it would otherwise be put into a folder that is gone.
        self.drop_waiting(path)
        shutil.rmtree(self.find_path(path), ignore_errors=True)

    def drop_waiting(self, path: str = "") -> None:
        """Drop the objects that wait below a folder; see `Transaction`."""
        base = f"{path}/" if path else ""
        with self._lock:
            for key in [key for key in self._waiting if key.startswith(base)]:
                self._remove_aside(self._waiting.pop(key))

    def take_turn(self) -> AbstractContextManager[None]:
        """Change documents one after another; see `file_lock.take_turn`."""
        return take_turn(self.root)

    def replace_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> TreeReplacement:
        """Begin a folder that replaces another; see `Transaction`."""
        with name_errors(f"{self.root}/{path}"):
            return TreeReplacement(self, path, entry, documents)

    def make_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> RedirectedTree:
        """Begin a new folder; see `Transaction.make_tree`."""
        return RedirectedTree(self, path, self.replace_tree(path, entry, documents))

    def recover(self, path: str) -> None:
        """Finish or undo what ended processes left; see `recover_trees`."""
        recover_trees(self, path)

    def remove_leftovers(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove unfinished files of killed processes, in all folders below; see
        `is_left`.
        """
        # Chunks are in nested folders, and unfinished ones lie beside them.
        for folder, _, files in os.walk(self.find_path(prefix)):
            for name in files:
                path = os.path.join(folder, name)
                with suppress(OSError):
                    if is_left(path, dead):
                        os.unlink(path)

    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Flush and rename what waits; see `Transaction.commit`."""
        self.place_waiting()
        with self._lock:
            self._documents.clear()
        conflicts, self._conflicts = self._conflicts, []
        if conflicts:
            raise ConflictError("\n".join(conflicts))
        return True

    def place_waiting(self) -> None:
        """Flush and rename what waits; objects that others changed stay as they are."""
        # One thread at a time: two would rename the same objects.
        with self._turn:
            with self._lock:
                waiting = list(self._waiting.items())
            secured = dict.fromkeys(file.secure for _, file in waiting if file.secure)
            # Before any rename: the journal and the before-images must be able to
            # restore what the renames replace.
            flushes: list[Callable[[], None]] = [*secured]
            flushes += [
                partial(self._flush_waiting, key, file.aside)
                for key, file in waiting
                if file.aside is not None
            ]
            # All at once, so that the disk is waited for once.
            _call_all(flushes)
            folders = set()
            try:
                # Another process of this package must not rename between the comparison
                # of a revision and the rename.
                with take_turn(self.root):
                    replaced = self._find_replaced()
                    for key, file in waiting:
                        if key.startswith(replaced):
                            self._refuse_object(key, file)
                        else:
                            self._place_object(key, file)
                        folders.add(os.path.dirname(self.find_path(key)))
            finally:
                # Also after an error: the names that were given must survive.
                with self._lock:
                    made, self._made = self._made, set()
                _call_all(partial(flush_folder, folder) for folder in folders | made)

    def _find_replaced(self) -> tuple[str, ...]:
        """Find the arrays whose documents are others by now; paths with a slash."""
        with self._lock:
            documents = list(self._documents.items())
        return tuple(
            f"{key.rpartition('/')[0]}/"
            for key, data in documents
            if self.source.get(key) != data
        )

    def _refuse_object(self, key: str, file: _WaitingFile) -> None:
        """Drop an object of an array that was replaced."""
        with self._lock:
            if self._waiting.get(key) is file:
                del self._waiting[key]
                self._remove_aside(file)
                self._conflicts.append(conflict_text(self.find_path(key)))

    def _flush_waiting(self, key: str, aside: str) -> None:
        # If another program removed the file, `_place_object` reports it.
        with name_errors(self.find_path(key)), suppress(FileNotFoundError):
            flush_file(f"{self.root}/{aside}")

    def _place_object(self, key: str, file: _WaitingFile) -> None:
        """Give an object its name, unless another program changed it meanwhile."""
        path = self.find_path(key)
        with self._lock, self.mark_move():
            # Put again by another thread since the list was made: that waits for its
            # own flush.
            if self._waiting.get(key) is not file:
                return
            if file.aside is not None:
                taken = not rename_over(f"{self.root}/{file.aside}", path, file.before)
            else:
                taken = Revision.of_file(path) != file.before
                if not taken:
                    remove_file(path)
            del self._waiting[key]
            # Collected: one object that others changed must not keep back the rest.
            if taken:
                self._conflicts.append(conflict_text(path))


class _FolderView(FolderSource, TransactionSource):
    """Read a folder, with objects that wait instead of those they replace."""

    transaction: FolderTransaction

    def __init__(
        self, transaction: FolderTransaction, waiting: dict[str, _WaitingFile]
    ) -> None:
        super().__init__(transaction.root)
        self.transaction = transaction
        self._waiting = waiting

    def __reduce__(self) -> tuple[Any, ...]:
        # Unfinished files belong to this process: others read what is saved.
        return FolderSource, (self.root,)

    def find_path(self, key: str) -> str:
        """Return the path of an object, which may be aside."""
        return self.transaction.find_path(key)

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        read = super().get
        return self._look_up(key, lambda place: read(place, start, length))

    def find_revision(self, key: str) -> Revision | None:
        """Return the revision that an object has, or will have: a rename keeps it."""
        return self._look_up(key, super().find_revision)

    def _look_up(self, key: str, look: Callable[[str], Result | None]) -> Result | None:
        """Read an object, or its unfinished file if it waits."""
        moves = self.transaction.moves
        result = self._look_once(key, look)
        if moves % 2 or moves != self.transaction.moves:
            # During a rename, old and new objects may have been read.
            with self.transaction.moving:
                result = self._look_once(key, look)
        return result

    def _look_once(
        self, key: str, look: Callable[[str], Result | None]
    ) -> Result | None:
        while True:
            file = self._waiting.get(key)
            # None for an object whose removal waits.
            path = key if file is None else file.aside
            result = None if path is None else look(path)
            # Put or saved while it was read: then what was read may be either.
            if self._waiting.get(key) is file:
                break
        if result is None and path not in (key, None):
            return look(key)  # it was renamed just now
        return result


class RedirectedTree:
    """A new folder that is read and written by the path that it will have.

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

    def remove_old(self) -> None:
        """Remove the old folder; see `NewTree.remove_old`."""
        self._tree.remove_old()

    def adopt_folder(self, key: str) -> None:
        """Use a folder of the hierarchy as the new one."""
        self._tree.adopt_folder(key)

    def commit(self, *, kept: str = "", expected: Revisions = NOTHING) -> None:
        """Put the folder in its place; if it is there, save what was put since."""
        # Committed already: only objects that were put since then are left.
        if self.key not in self._transaction.redirected:
            self._transaction.place_waiting()
            return
        # Flushed before the swap, the name after it; only the swap is marked for
        # readers.
        self._tree.flush_new(kept)
        with self._transaction.mark_move():
            self._tree.swap_folders(kept, expected)
            del self._transaction.redirected[self.key]
        self._tree.flush_name()

    def abandon(self) -> None:
        """Close it after a commit that failed and is given up."""
        self._tree.abandon()

    def close(self) -> None:
        """Finish or undo what was begun."""
        if self.key in self._transaction.redirected:
            # Not committed: as the redirection still holds, this removes the folder
            # aside.
            self._transaction.remove_below(self.key)
            del self._transaction.redirected[self.key]
        self._tree.close()


def _call_all(calls: Iterable[Callable[[], None]]) -> None:
    pending = list(calls)
    share_work(iter(pending), lambda call: call(), len(pending), FLUSHERS)


def _folders_above(folder: str) -> Iterable[str]:
    while folder != os.path.dirname(folder):
        yield folder
        folder = os.path.dirname(folder)
