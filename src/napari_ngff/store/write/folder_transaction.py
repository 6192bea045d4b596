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
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from napari_ngff.errors import ConflictError
from napari_ngff.store.sources.folder_source import FolderSource
from napari_ngff.store.sources.source import Revision
from napari_ngff.store.write.file_lock import take_turn
from napari_ngff.store.write.fsync import flush_all, flush_file, flush_folder
from napari_ngff.store.write.label_list_watch import announce_lists
from napari_ngff.store.write.named_errors import name_errors
from napari_ngff.store.write.replace_file import (
    remove_file,
    rename_over,
    replace_file,
    write_aside,
)
from napari_ngff.store.write.replace_tree import (
    FolderChange,
    TreeReplacement,
    recover_trees,
)
from napari_ngff.store.write.transaction import (
    NOTHING,
    GoesOn,
    Revisions,
    Secure,
    WaitingObject,
    conflict_text,
)
from napari_ngff.store.write.writer_token import is_left, new_token

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from napari_ngff.store.compression import Buffer

Result = TypeVar("Result")

MOST_WAITING = 1024
"""Most objects that wait; each takes some 500 bytes of memory."""

LONGEST_WAIT = 20.0
"""Seconds that an object waits at most, while others are put."""


class FolderTransaction(FolderChange):
    """Change the objects below `root`, a path without a trailing separator.

    Two threads must not put the same object at once. Where many objects wait, or for
    long, they are saved before `commit`. See `Transaction`.
    """

    saves_together = False
    # Keys of unfinished files.
    _waiting: dict[str, WaitingObject[str]]

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.token = new_token()
        # Path of a new tree -> key of the folder aside in which it is made.
        self.redirected: dict[str, str] = {}
        self.moving = threading.Lock()
        self.moves = 0  # odd while a tree or an object is being renamed
        # Folders that got a new folder inside, to be flushed with the next objects.
        self._made: set[str] = set()
        self._since = 0.0
        self._conflicts: list[str] = []
        self._turn = threading.Lock()

    # Reading.

    @property
    @override
    def source(self) -> FolderSource:
        return _FolderView(self, self._waiting)

    @override
    def find_path(self, key: str) -> str:
        # The path itself or something below it; "nuclei-2" is not below "nuclei".
        for path, aside in self.redirected.items():
            if key.startswith(path) and key[len(path) : len(path) + 1] in ("", "/"):
                return f"{self.root}/{aside}{key[len(path) :]}"
        return f"{self.root}/{key}"

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

    @override
    def put(self, key: str, data: Buffer, secure: Secure | None = None) -> None:
        before = self._revision_before(key)
        path = self.find_path(key)
        # First without its folder: making each anew costs a call for every chunk.
        try:
            aside = write_aside(path, data, self.token, flush=False)
        except FileNotFoundError:
            self._make_folder(os.path.dirname(path))
            aside = write_aside(path, data, self.token, flush=False)
        key_aside = aside[len(self.root) + 1 :]
        self._add_waiting(key, WaitingObject(key_aside, before, secure))

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

    @override
    def _stored_revision(self, key: str) -> Revision | None:
        return Revision.of_file(self.find_path(key))

    @override
    def _add_waiting(self, key: str, waiting: WaitingObject[str]) -> None:
        now = time.monotonic()
        with self._lock:
            if not self._waiting:
                self._since = now
        super()._add_waiting(key, waiting)
        # A long save must not lose all of it to a loss of power.
        if len(self._waiting) >= MOST_WAITING or now - self._since > LONGEST_WAIT:
            self.place_waiting()

    @override
    def _drop_content(self, waiting: WaitingObject[str]) -> None:
        if waiting.content is not None:
            with suppress(OSError):
                os.unlink(f"{self.root}/{waiting.content}")

    @override
    def put_document(self, key: str, data: Buffer) -> None:
        path = f"{self.root}/{key}"
        with self._lock:
            # False is "any revision", None is "no file".
            expected = self._expected.pop(key, False)
        if not replace_file(path, data, expected):
            raise ConflictError(conflict_text(path))
        announce_lists(self.root, [key])

    @override
    def remove_below(self, path: str) -> None:
        """Remove a folder as far as the system allows, and objects that wait below
        it.
        """
        # First what waits: it would otherwise be put into a folder that is gone.
        self.drop_waiting(path)
        shutil.rmtree(self.find_path(path), ignore_errors=True)

    @override
    def take_turn(self) -> AbstractContextManager[None]:
        return take_turn(self.root)

    @override
    def replace_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> TreeReplacement:
        with name_errors(f"{self.root}/{path}"):
            return TreeReplacement(self, path, entry, documents)

    @override
    def make_tree(
        self, path: str, entry: str = "", documents: Sequence[str] = ()
    ) -> RedirectedTree:
        with name_errors(f"{self.root}/{path}"):
            return RedirectedTree(self, path, entry, documents)

    @override
    def recover(self, path: str) -> None:
        recover_trees(self, path)

    @override
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

    @override
    def commit(self, goes_on: GoesOn | None = None) -> bool:
        self.place_waiting()
        with self._lock:
            self._documents.clear()
        conflicts, self._conflicts = self._conflicts, []
        if conflicts:
            raise ConflictError("\n".join(conflicts))
        return True

    @override
    def place_waiting(self) -> None:
        # One thread at a time: two would rename the same objects.
        with self._turn:
            with self._lock:
                waiting = list(self._waiting.items())
            secured = dict.fromkeys(file.secure for _, file in waiting if file.secure)
            # Before any rename: the journal and the before-images must be able to
            # restore what the renames replace.
            flushes: list[Callable[[], None]] = [*secured]
            flushes += [
                partial(self._flush_waiting, key, file.content)
                for key, file in waiting
                if file.content is not None
            ]
            # All at once, so that the disk is waited for once.
            flush_all(flushes)
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
                flush_all(partial(flush_folder, folder) for folder in folders | made)

    def _refuse_object(self, key: str, file: WaitingObject[str]) -> None:
        """Drop an object of an array that was replaced."""
        with self._lock:
            if self._waiting.get(key) is file:
                del self._waiting[key]
                self._drop_content(file)
                self._conflicts.append(conflict_text(self.find_path(key)))

    def _flush_waiting(self, key: str, aside: str) -> None:
        # If another program removed the file, `_place_object` reports it.
        with name_errors(self.find_path(key)), suppress(FileNotFoundError):
            flush_file(f"{self.root}/{aside}")

    def _place_object(self, key: str, file: WaitingObject[str]) -> None:
        """Give an object its name, unless another program changed it meanwhile."""
        path = self.find_path(key)
        with self._lock, self.mark_move():
            # Put again by another thread since the list was made: that waits for its
            # own flush.
            if self._waiting.get(key) is not file:
                return
            if file.content is not None:
                taken = not rename_over(
                    f"{self.root}/{file.content}", path, file.before
                )
            else:
                taken = Revision.of_file(path) != file.before
                if not taken:
                    remove_file(path)
            del self._waiting[key]
            # Collected: one object that others changed must not keep back the rest.
            if taken:
                self._conflicts.append(conflict_text(path))


class _FolderView(FolderSource):
    """Read a folder, with objects that wait instead of those they replace."""

    def __init__(
        self, transaction: FolderTransaction, waiting: dict[str, WaitingObject[str]]
    ) -> None:
        super().__init__(transaction.root)
        self.transaction = transaction
        self._waiting = waiting

    def __reduce__(self) -> tuple[Any, ...]:
        # Unfinished files belong to this process: others read what is saved.
        return FolderSource, (self.root,)

    @override
    def find_path(self, key: str) -> str:
        return self.transaction.find_path(key)

    @override
    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        read = super().get
        return self._look_up(key, lambda place: read(place, start, length))

    @override
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
            path = key if file is None else file.content
            result = None if path is None else look(path)
            # Put or saved while it was read: then what was read may be either.
            if self._waiting.get(key) is file:
                break
        if result is None and path not in (key, None):
            return look(key)  # it was renamed just now
        return result


class RedirectedTree(TreeReplacement):
    """A new folder that is read and written by the path that it will have.

    Attributes
    ----------
    key
        Path of its place.
    """

    _transaction: FolderTransaction

    def __init__(
        self,
        transaction: FolderTransaction,
        path: str,
        entry: str,
        documents: Sequence[str],
    ) -> None:
        super().__init__(transaction, path, entry, documents)
        transaction.redirected[path] = self.key
        self.key = path

    @override
    def commit(self, *, kept: str = "", expected: Revisions = NOTHING) -> None:
        """Put the folder in its place; if it is there, save what was put since."""
        # Committed already: only objects that were put since then are left.
        if self.key not in self._transaction.redirected:
            self._transaction.place_waiting()
            return
        # Flushed before the swap, the name after it; only the swap is marked for
        # readers.
        self.flush_new(kept)
        with self._transaction.mark_move():
            self.swap_folders(kept, expected)
            del self._transaction.redirected[self.key]
        self.flush_name()

    @override
    def close(self) -> None:
        if self.key in self._transaction.redirected:
            # Not committed: as the redirection still holds, this removes the folder
            # aside.
            self._transaction.remove_below(self.key)
            del self._transaction.redirected[self.key]
        super().close()


def _folders_above(folder: str) -> Iterable[str]:
    while folder != os.path.dirname(folder):
        yield folder
        folder = os.path.dirname(folder)
