"""Replaces a folder by another as a whole, or not at all.

The new folder is made beside its place, in ``.<name>.<token>.aside``, which its process
locks. `TreeReplacement.commit` swaps the two in one step where the system can.
Elsewhere it takes two renames; if the process is killed between them, `recover_trees`
finishes.

The folder aside has ``lock``, the locked file; ``new``, the new folder; ``old``, the
one that it replaces; ``done``, what will be deleted; and ``note.json``: what else
changes with it, and the list that has to name it, or its successor.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from typing import IO, Any

from typing_extensions import override

from napari_ngff.errors import ConflictError, name_errors
from napari_ngff.store.limits import parse_json
from napari_ngff.store.sources.file_bytes import read_file
from napari_ngff.store.store import (
    NOTHING,
    NewTree,
    Revisions,
    Transaction,
    conflict_error,
)
from napari_ngff.store.write.consolidated import update_copies
from napari_ngff.store.write.exchange import exchange_paths
from napari_ngff.store.write.file_lock import hold_file, hold_if_possible, is_held
from napari_ngff.store.write.fsync import flush_all, flush_file, flush_folder
from napari_ngff.store.write.label_list_watch import read_list
from napari_ngff.store.write.writer_token import SUFFIX, remove_left

FORM = re.compile(rf"\.(?P<name>.+)\.[0-9a-f]{{8}}{re.escape(SUFFIX)}")

LOCK, NEW, OLD, DONE, NOTE = "lock", "new", "old", "done", "note.json"

STALE = 3600
"""Seconds after which a process counts as ended, on file systems without locks."""


class FolderChange(Transaction):
    """A transaction of a folder, with what a replacement needs of it.

    Attributes
    ----------
    redirected
        Path of a new tree that is made in place -> key of the folder aside.
    moving
        Held while a tree or an object is being renamed.
    moves
        Odd meanwhile.
    """

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.redirected: dict[str, str] = {}
        self.moving = threading.Lock()
        self.moves = 0

    def find_path(self, key: str) -> str:
        """Return the path of an object, which is aside in a tree that is redirected."""
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

    @abstractmethod
    def place_waiting(self) -> None:
        """Flush the objects that wait, and give them their names.

        Where another program changed an object, its object stays.
        """


class TreeReplacement(NewTree):
    """A new folder that is made beside `place` and replaces it; a context.

    Without `commit`, or if the process is killed, `place` stays as it was.

    Parameters
    ----------
    transaction
        Of the hierarchy.
    path
        Of the folder that is replaced, or made.
    entry
        Name of a label image in a list of labels: the new folder is complete only once
        it is listed; ``a/b`` is listed two folders above. "" for anything else.
    documents
        Paths of groups and arrays whose copies in consolidated metadata change with
        the folder.
    in_place
        See `Transaction.replace_tree`.

    Attributes
    ----------
    new
        Path of the new folder, which the caller makes.
    key
        Its path below the hierarchy's root; `path` where it is made in place.

    Raises
    ------
    ConflictError
        Where another process or window replaces the same folder.
    """

    def __init__(
        self,
        transaction: FolderChange,
        path: str,
        entry: str = "",
        documents: Sequence[str] = (),
        *,
        in_place: bool = False,
    ) -> None:
        self._transaction, self._entry = transaction, entry
        self._documents = list(documents)
        self._adopted, self._is_placed = "", False
        self.place = transaction.find_path(path)
        parent, name = os.path.split(self.place)
        os.makedirs(parent, exist_ok=True)
        self._lock: IO[bytes] | None
        self._folder, lock = _claim_folder(parent, name)
        self._lock = lock
        # A replacement that is forgotten counts as ended: its lock is released.
        weakref.finalize(self, lock.close).atexit = False
        self.new = f"{self._folder}/{NEW}"
        self.key = self.new[len(transaction.root) + 1 :]
        # After the own folder was claimed: of two that begin at the same moment, at
        # least one sees the other.
        if _is_contested(parent, name, self._folder):
            self.close()
            raise ConflictError(
                f"{self.place} is being made by another window or process. Try again"
                " when that has ended, or choose another name."
            )
        if in_place:
            transaction.redirected[path] = self.key
            self.key = path

    def remove_old(
        self, successor: str = "", references: Sequence[tuple[str, str, str]] = ()
    ) -> None:
        """Remove the old group; of labels, once the list says so.

        Parameters
        ----------
        successor
            Name by which the list replaces them; "" for none.
        references
            Key of a document that refers to them, text to be replaced in it, and the
            new one: at once, since there are groups of both names.
        """
        if self._entry:
            # Noted before the list is changed: a process that is killed in between is
            # finished by the next one.
            self._write_note(
                self.place, listed=True, successor=successor, references=references
            )
            _change_references(self._transaction, references)
        else:
            # One rename hides the folder at once; deleting its files may take minutes.
            os.rename(self.place, f"{self._folder}/{DONE}")
            flush_folder(os.path.dirname(self.place))

    def set_aside(self) -> None:
        """Put the old folder aside, until this is closed; see `remove_old`."""
        os.rename(self.place, self.new)

    def put_back(self) -> None:
        """Put back what was set aside, or take back `remove_old`."""
        # Without the note no one removes what no list names.
        with suppress(FileNotFoundError):  # it could not be written
            os.unlink(f"{self._folder}/{NOTE}")
        if os.path.lexists(self.new):
            os.rename(self.new, self.place)
            flush_folder(os.path.dirname(self.place))

    def adopt_folder(self, key: str) -> None:
        """Use the folder at `key` as the new one."""
        folder = self._transaction.find_path(key)
        self._adopted = os.path.relpath(folder, os.path.dirname(self.place))
        # Before the rename, so that whoever recovers knows where the folder came from.
        self._write_note(folder, listed=False)
        os.rename(folder, self.new)

    @override
    def commit(self, *, kept: str = "", expected: Revisions = NOTHING) -> None:
        if self._is_placed:
            # What was put since an earlier commit, which did not come to its end.
            self._transaction.place_waiting()
            return
        self._flush_new(kept)
        # Whoever saves objects of the old folder compares and renames in a turn, too.
        with self._transaction.take_turn() if expected else nullcontext():
            for key, revision in expected.items():
                if self._transaction.find_revision(key) != revision:
                    raise conflict_error(self._transaction.root, [key])
            with self._transaction.mark_move():
                self._swap_folders(kept)
                self._transaction.redirected.pop(self.key, None)
                self._is_placed = True
        self.flush_name()

    def _flush_new(self, kept: str) -> None:
        # The files of the new folder, flushed and renamed; then its folders, which have
        # their names.
        self._transaction.place_waiting()
        flush_all(partial(flush_folder, folder) for folder, _, _ in os.walk(self.new))
        # New labels need the note to be listed; labels that replace others are listed
        # already.
        free = not os.path.lexists(self.place)
        if self._documents or kept or (self._entry and free):
            self._write_note(self.new, listed=free, kept=os.path.basename(kept))
        # Before the swap: a reader must not take a copy of the old metadata for that of
        # the new folder.
        update_copies(self._transaction, self._documents, forgets=True)

    def _swap_folders(self, kept: str) -> None:
        if not os.path.lexists(self.place):
            os.rename(self.new, self.place)
        # After the swap the old folder is at `new`, and is deleted by `close`, unless
        # it is kept.
        elif exchange_paths(self.place, self.new):
            _keep_old(self.new, self.place, os.path.basename(kept))
        else:
            self._rename_both()
            _keep_old(f"{self._folder}/{OLD}", self.place, os.path.basename(kept))

    def flush_name(self) -> None:
        """Flush the name of the folder; see `commit`."""
        flush_folder(os.path.dirname(self.place))

    def _write_note(
        self, folder: str, *, listed: bool, kept: str = "", **more: Any
    ) -> None:
        """Write down what else changes with a folder, for a process that finishes
        it.
        """
        note = {
            "entry": self._entry if listed else "",
            "documents": self._documents,
            "kept": kept,
            "adopted": self._adopted,
            # The inode stays through renames: whoever recovers sees by it where this
            # folder is now.
            "file": os.stat(folder).st_ino,
            **more,
        }
        path = f"{self._folder}/{NOTE}"
        with name_errors(path), open(path, "w", encoding="utf-8") as file:
            json.dump(note, file)
        # The note must be on the disk before the swap that it explains.
        flush_file(path)
        flush_folder(self._folder)

    def _rename_both(self) -> None:
        old = f"{self._folder}/{OLD}"
        os.rename(self.place, old)
        try:
            os.rename(self.new, self.place)
        except BaseException:
            # The second rename failed: the old folder goes back, so that its place is
            # never left empty.
            os.rename(old, self.place)
            raise

    @override
    def close(self) -> None:
        """Finish or undo what was begun, and remove the folder aside."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            if not self._is_placed:
                # Else a later commit of the transaction would fail on files that are
                # removed here.
                self._transaction.drop_waiting(self.key)
                self._transaction.redirected.pop(self.key, None)
            _finish_folder(self._folder, self._transaction, self.place, lock)


def recover_trees(transaction: FolderChange, path: str = "") -> None:
    """Finish or undo what ended processes left where a group is to be changed.

    Looks into the group, its labels, and all groups above; folders that a running
    process has locked stay.

    Parameters
    ----------
    transaction
        Of the hierarchy.
    path
        Of a group or an array in it.
    """
    parts = [part for part in path.split("/") if part]
    # From the root down: a group above may itself be between two renames.
    for depth in range(len(parts) + 1):
        _recover_folder(transaction, "/".join((transaction.root, *parts[:depth])))
    _recover_folder(transaction, "/".join((transaction.root, *parts, "labels")))


def _recover_folder(transaction: FolderChange, folder: str) -> None:
    remove_left(folder)
    try:
        names = os.listdir(folder)
    except OSError:
        return  # missing, or not readable: then nothing is written there either
    for name in names:
        form = FORM.fullmatch(name)
        if form is not None:
            # What fails now is tried again by the next change.
            with suppress(OSError):
                _recover_one(
                    transaction, f"{folder}/{name}", f"{folder}/{form['name']}"
                )


def _claim_folder(parent: str, name: str) -> tuple[str, IO[bytes]]:
    """Make a folder beside a place, and lock it."""
    while True:
        folder = f"{parent}/.{name}.{secrets.token_hex(4)}{SUFFIX}"
        # Another process may remove it as left over, before it is locked: then again.
        with suppress(FileExistsError, FileNotFoundError, BlockingIOError):
            os.mkdir(folder)
            try:
                lock = hold_if_possible(f"{folder}/{LOCK}")
            except OSError:
                with suppress(OSError):
                    os.rmdir(folder)  # unless another process has locked it
                raise
            # The lock may be of a file that was removed before it was locked: then
            # another folder is made.
            if os.path.exists(f"{folder}/{LOCK}"):
                return folder, lock


def _is_contested(parent: str, name: str, claimed: str) -> bool:
    """Return whether another process, or another window, replaces the same place."""
    for other in os.listdir(parent):
        form = FORM.fullmatch(other)
        if form is not None and form["name"] == name:
            folder = f"{parent}/{other}"
            if folder != claimed and is_held(f"{folder}/{LOCK}"):
                return True
    return False


def _recover_one(transaction: FolderChange, folder: str, place: str) -> None:
    with suppress(OSError):
        # Empty: its process was killed before the lock was made.
        os.rmdir(folder)
        return
    path = f"{folder}/{LOCK}"
    if not os.path.exists(path):
        return  # not made by this package
    try:
        # While this is held, no second process recovers the same folder.
        lock = hold_file(path)
    except BlockingIOError:
        return
    except OSError:
        if time.time() - os.stat(folder).st_mtime < STALE:
            return
        lock = open(path, "ab", buffering=0)  # noqa: SIM115
    _finish_folder(folder, transaction, place, lock)


def _finish_folder(
    folder: str, transaction: FolderChange, place: str, lock: IO[bytes]
) -> None:
    """Complete or undo a replacement, and remove the folder aside."""
    # After each step the process may be killed: the same steps then finish the rest.
    with closing(lock):
        note = _read_note(folder)
        _finish_place(folder, transaction, place, note)
        if note:
            # After the folder is where it belongs: the copies are made of what is there
            # now.
            update_copies(transaction, note["documents"])
            with suppress(OSError):
                os.unlink(f"{folder}/{NOTE}")
        leftovers = [f"{folder}/{name}" for name in (NOTE, DONE, NEW)]
        for path in leftovers[1:]:
            shutil.rmtree(path, ignore_errors=True)
        if any(map(os.path.lexists, leftovers)):
            return  # the system refuses to remove some; the next change tries again
        if sys.platform == "win32":
            lock.close()
        # Last: without its lock no process would know that the folder is left over.
        with suppress(OSError):
            os.unlink(f"{folder}/{LOCK}")
            os.rmdir(folder)


def _finish_place(
    folder: str, transaction: FolderChange, place: str, note: dict[str, Any]
) -> None:
    new, old, done = (f"{folder}/{name}" for name in (NEW, OLD, DONE))
    exists = os.path.lexists(place)
    if note.get("successor"):
        # While there are groups of both names, so that each reference leads to one.
        is_listed = note["successor"] in read_list(read_file, os.path.dirname(place))
        _change_references(transaction, note["references"], back=not is_listed)
    if os.path.lexists(old):
        # Between two renames, where the system cannot swap.
        if not exists:
            # The old folder makes room only for a new one that is whole; without a new
            # one it goes back.
            os.rename(new if os.path.lexists(new) else old, place)
            flush_folder(os.path.dirname(place))
        _keep_noted(note, old, place)
        if os.path.lexists(old):
            os.rename(old, done)
    elif exists and os.path.lexists(new):
        # The swap is done: at `new` there is the old folder.
        _keep_noted(note, new, place)
    # New labels that were never listed: a reader would not find them.
    elif exists and not _is_complete(note, place):
        os.rename(place, new)
        flush_folder(os.path.dirname(place))
        if note["successor"]:
            # What others have saved since the files were linked.
            link_folder(new, f"{os.path.dirname(place)}/{note['successor']}")
    if os.path.lexists(new) and os.stat(new).st_ino == note.get("file"):
        # It was not put in its place: back to where it was adopted from.
        _keep_old(new, place, note.get("adopted", ""))


def link_folder(old: str, new: str) -> None:
    """Give the files of a folder second names in another, or newer ones there."""
    for folder, _, names in os.walk(old, onerror=_raise_error):
        target = os.path.normpath(f"{new}/{os.path.relpath(folder, old)}")
        with name_errors(target):
            os.makedirs(target, exist_ok=True)
            for name in names:
                if not name.endswith(SUFFIX):
                    _link_file(f"{folder}/{name}", f"{target}/{name}")


def _raise_error(error: OSError) -> None:
    # Else `os.walk` would leave out what it cannot list.
    raise error


def _link_file(source: str, target: str) -> None:
    with suppress(FileNotFoundError):
        if os.stat(target).st_mtime_ns >= os.stat(source).st_mtime_ns:
            return
        os.unlink(target)
    try:
        os.link(source, target)
    except OSError:  # not on every disk
        shutil.copy2(source, target)
        flush_file(target)


def _change_references(
    transaction: FolderChange,
    references: Sequence[tuple[str, str, str]],
    *,
    back: bool = False,
) -> None:
    for key, *texts in references:
        before, after = reversed(texts) if back else texts
        folder = os.path.dirname(transaction.find_path(key))
        if os.path.isdir(folder):  # the table is still there
            remove_left(folder)
            transaction.change_document(
                key, partial(_replace_text, before.encode(), after.encode())
            )


def _replace_text(before: bytes, after: bytes, raw: bytes | None) -> bytes | None:
    return raw and raw.replace(before, after)


def _keep_old(old: str, place: str, name: str) -> None:
    """Keep the old folder beside its place, unless something of that name exists."""
    kept = os.path.join(os.path.dirname(place), name)
    if name and not os.path.lexists(kept):
        os.rename(old, kept)


def _keep_noted(note: dict[str, Any], old: str, place: str) -> None:
    """Keep the old folder, if the new one is in its place."""
    if os.path.lexists(old) and os.stat(place).st_ino == note.get("file"):
        _keep_old(old, place, note["kept"])


def _read_note(folder: str) -> dict[str, Any]:
    """Read the note; {} if there is none."""
    try:
        with open(f"{folder}/{NOTE}", encoding="utf-8") as file:
            note = parse_json(file.read())
        return {
            "entry": str(note["entry"]),
            "documents": [str(path) for path in note["documents"]],
            "kept": str(note["kept"]),
            "adopted": str(note["adopted"]),
            "file": int(note["file"]),
            # Of labels that are renamed alone.
            "successor": str(note.get("successor", "")),
            "references": list(note.get("references", ())),
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        # The note is flushed before anything moves.
        return {"documents": []}  # cut off: nothing has moved


def _is_complete(note: dict[str, Any], place: str) -> bool:
    """Return whether a folder stays: in the list that names it, not its successor."""
    entry = note.get("entry")
    if not entry or os.stat(place).st_ino != note["file"]:
        return True  # or another program has put something else there since
    group = place
    # ``a/b`` is listed two folders above.
    for _ in entry.split("/"):
        group = os.path.dirname(group)
    listed, successor = read_list(read_file, group), note["successor"]
    return successor not in listed if successor else entry in listed
