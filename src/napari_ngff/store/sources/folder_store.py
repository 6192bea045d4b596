"""A hierarchy in a folder of the file system, read and changed.

A change writes objects aside, flushes them together, and then renames them: to flush
one file takes the latency of the disk, but to flush hundreds at once takes little more.
The order of all flushes is in docs/design/005.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from contextlib import AbstractContextManager, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from napari_ngff.errors import AccessError, UnsupportedError, name_errors
from napari_ngff.store.sources.blob import Blob, Revision, Traits
from napari_ngff.store.sources.file_bytes import read_file, why_not_writable
from napari_ngff.store.store import GoesOn, Store, WaitingObject, conflict_error
from napari_ngff.store.write.file_lock import take_turn
from napari_ngff.store.write.fsync import flush_all, flush_file, flush_folder
from napari_ngff.store.write.label_list_watch import announce_lists
from napari_ngff.store.write.replace_file import (
    make_folders,
    remove_file,
    removed_on_error,
    rename_aside,
    rename_over,
    replace_file,
    write_aside,
)
from napari_ngff.store.write.replace_tree import (
    FolderChange,
    TreeReplacement,
    recover_trees,
)
from napari_ngff.store.write.writer_token import is_aside, new_token, remove_left

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from napari_ngff.store.compression import Buffer
    from napari_ngff.store.store import Transaction

Result = TypeVar("Result")

KNOWN_FOLDERS = 4096
"""Most folders of which is kept where they really are: an image may have millions."""


MOST_WAITING = 1024
"""Most objects that wait; each takes some 500 bytes of memory."""

LONGEST_WAIT = 20.0
"""Seconds that an object waits at most, while others are put."""


class FolderStore(Store):
    """Read the objects below `root`.

    Parameters
    ----------
    root
        A path without a trailing separator.
    follows_links
        Whether links may lead out of it, or from a folder into one that it is in.
    """

    def __init__(self, root: str, follows_links: bool = True) -> None:
        self.root = root
        self.traits = Traits(folder=root)
        self._follows_links = follows_links
        self._real: dict[str, tuple[str, ...]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process finds out itself where folders are.
        return FolderStore, (self.root, self._follows_links)

    @property
    @override
    def name(self) -> str:
        return self.root

    def find_path(self, key: str) -> str:
        """Return the path of an object, or of a folder of objects.

        Raises
        ------
        UnsupportedError
            Where it is a link that is not followed.
        """
        path = f"{self.root}/{key}" if key else self.root
        if not self._follows_links and key:
            real = self._real_folders(os.path.dirname(path))
            if os.path.islink(path):
                self._follow_link(path, real)
        return path

    def _real_folders(self, folder: str) -> tuple[str, ...]:
        """Return where a folder really is, behind the folders that it is in."""
        known = self._real.get(folder)
        if known is None:
            if len(self._real) >= KNOWN_FOLDERS:
                self._real.clear()
            if folder == self.root:
                known = (os.path.realpath(folder),)
            else:
                above = self._real_folders(folder.rpartition("/")[0])
                known = self._follow_link(folder, above)
            self._real[folder] = known
        return known

    def _follow_link(self, path: str, above: tuple[str, ...]) -> tuple[str, ...]:
        real = os.path.realpath(path)
        if real in above or not real.startswith(os.path.join(above[0], "")):
            msg = f"{path} is a link that leads out of {self.root}, or in a circle."
            remedy = "Remove it, or convert with --follow-links."
            raise UnsupportedError(msg, remedy=remedy)
        return (*above, real)

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        return read_file(self.find_path(key), start, length)

    @override
    def find_revision(self, key: str) -> Revision | None:
        return Revision.of_file(self.find_path(key))

    @override
    def list_names(self, prefix: str) -> tuple[str, ...] | None:
        try:
            # Sorted: file systems list names in any order, and callers show and compare
            # lists.
            return tuple(sorted(os.listdir(self.find_path(prefix))))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except PermissionError as error:
            msg = f"No permission to list {self.find_path(prefix)}."
            raise AccessError(msg) from error

    def list_files(self, prefix: str = "") -> Iterator[tuple[str, str, int]]:
        """Yield key, path and size in bytes of all files below a folder.

        What an unfinished save left is no part of the hierarchy.
        """
        with os.scandir(self.find_path(prefix)) as entries:
            for entry in entries:
                if is_aside(entry.name):
                    continue
                key = f"{prefix}/{entry.name}" if prefix else entry.name
                if entry.is_dir():
                    yield from self.list_files(key)
                elif entry.is_file():
                    path = self.find_path(key) if entry.is_symlink() else entry.path
                    yield key, path, entry.stat().st_size

    @override
    def list_keys(self, prefix: str) -> list[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            return sorted(key for key, _, _ in self.list_files(prefix))
        return []

    @override
    def why_not_written(self, path: str = "") -> str:
        return why_not_writable(os.path.join(self.root, path))

    @override
    def begin(self) -> Transaction:
        return FolderTransaction(self.root)

    @override
    def put_new(self, key: str, parts: Iterable[bytes]) -> None:
        path = f"{self.root}/{key}"
        token = _token_of(os.getpid())
        aside = write_aside(path, parts, token, make_folders, flush=False)
        with removed_on_error(aside):
            rename_aside(aside, path)

    @override
    def flush_new(self, keys: Iterable[str]) -> None:
        flush_all(partial(flush_file, f"{self.root}/{key}") for key in keys)


@cache
def _token_of(process: int) -> str:
    """Return the token of a process: there is another one after a fork."""
    return new_token()


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
        # Folders that got a new folder inside, to be flushed with the next objects.
        self._made: set[str] = set()
        # Key of an object -> those that it is made of.
        self._sources: dict[str, set[str]] = {}
        self._since = 0.0
        self._turn = threading.Lock()

    # Reading.

    @property
    @override
    def source(self) -> FolderStore:
        return _FolderView(self, self._waiting)

    # Writing.

    @override
    def _stage_bytes(self, key: str, data: Buffer) -> str:
        path, make_folder = self.find_path(key), self._make_folder
        aside = write_aside(path, [data], self.token, make_folder, flush=False)
        return aside[len(self.root) + 1 :]

    def _make_folder(self, folder: str) -> None:
        """Make a folder, and note the folders to flush because of it."""
        # The name of a new folder is in the folder above, so that is flushed.
        above, made = folder, set[str]()
        while not os.path.isdir(above) and above != os.path.dirname(above):
            above = os.path.dirname(above)
            made.add(above)
        os.makedirs(folder, exist_ok=True)
        with self._lock:
            self._made |= made

    @override
    def _stored_revision(self, key: str) -> Revision | None:
        return Revision.of_file(self.find_path(key))

    @override
    def note_sources(self, key: str, sources: Iterable[str]) -> None:
        self._sources.setdefault(key, set()).update(sources)

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
            raise conflict_error(self.root, [key])
        announce_lists(self.root, [key])

    @override
    def remove_below(self, path: str) -> None:
        """Remove a folder as far as the system allows, and objects that wait below
        it.
        """
        # First the objects that wait: `commit` would miss their folder.
        self.drop_waiting(path)
        shutil.rmtree(self.find_path(path), ignore_errors=True)

    @override
    def take_turn(self) -> AbstractContextManager[None]:
        return take_turn(self.root)

    @override
    def replace_tree(
        self,
        path: str,
        entry: str = "",
        documents: Sequence[str] = (),
        *,
        in_place: bool = False,
    ) -> TreeReplacement:
        with name_errors(f"{self.root}/{path}"):
            return TreeReplacement(self, path, entry, documents, in_place=in_place)

    @override
    def recover(self, path: str) -> None:
        recover_trees(self, path)

    @override
    def remove_leftovers(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove unfinished files of killed processes, in all folders below; see
        `is_left`.
        """
        # Chunks are in nested folders, and unfinished ones lie beside them.
        for folder, _, _ in os.walk(self.find_path(prefix)):
            remove_left(folder, dead)

    @override
    def commit(self, goes_on: GoesOn | None = None) -> bool:
        self.place_waiting()
        with self._lock:
            self._documents.clear()
            self._sources.clear()
        self._raise_conflicts()
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
                        self._place_object(key, file, key.startswith(replaced))
                        folders.add(os.path.dirname(self.find_path(key)))
            finally:
                # Also after an error: the names that were given must survive.
                with self._lock:
                    made, self._made = self._made, set()
                flush_all(partial(flush_folder, folder) for folder in folders | made)

    def _flush_waiting(self, key: str, aside: str) -> None:
        # If another program removed the file, `_place_object` reports it.
        with name_errors(self.find_path(key)), suppress(FileNotFoundError):
            flush_file(f"{self.root}/{aside}")

    def _place_object(
        self, key: str, file: WaitingObject[str], is_replaced: bool
    ) -> None:
        """Give an object its name, unless another program changed it meanwhile.

        Parameters
        ----------
        is_replaced
            Whether another program has replaced the array of the object.
        """
        path = self.find_path(key)
        with self._lock, self.mark_move():
            # Another thread has put the object again since the list was made: that one
            # is not flushed yet.
            if self._waiting.get(key) is not file:
                return
            if taken := is_replaced or not self._sources.pop(key, set()).isdisjoint(
                self._conflicts
            ):
                self._drop_content(file)
            elif file.content is not None:
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
                self._conflicts.append(key)


class _FolderView(FolderStore):
    """Read a folder, with objects that wait instead of those they replace."""

    def __init__(
        self, transaction: FolderTransaction, waiting: dict[str, WaitingObject[str]]
    ) -> None:
        super().__init__(transaction.root)
        self.transaction = transaction
        self._waiting = waiting

    def __reduce__(self) -> tuple[Any, ...]:
        # Unfinished files belong to this process: others read what is saved.
        return FolderStore, (self.root,)

    @override
    def begin(self) -> Transaction:
        # What waits must be changed by the transaction that holds it.
        return self.transaction

    @override
    def find_path(self, key: str) -> str:
        return self.transaction.find_path(key)

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        read = super().read
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
