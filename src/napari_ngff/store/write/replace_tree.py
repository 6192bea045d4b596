"""A folder takes the place of another whole, or not at all.

What is new is made in a folder beside its place, ``.<name>.<token>.aside``, which its
process holds. `TreeReplacement.commit` swaps the two in one step where the system can.
Elsewhere there are two renames; whoever is killed between them leaves enough for
`recover` to finish.

In that folder are ``lock``, which is held; ``new``, ``old`` and ``done``: what is made,
what had to make room, and what is to be deleted; and ``note.json``: what else changes
with it, and where it has to be listed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sys
import time
import weakref
from contextlib import closing, suppress
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

from napari_ngff.errors import ConflictError
from napari_ngff.store.hierarchy.consolidated import remove_copies, update_copies
from napari_ngff.store.workers import share_work
from napari_ngff.store.write.exchange import exchange
from napari_ngff.store.write.file_lock import hold, hold_if_possible, is_held
from napari_ngff.store.write.fsync import flush_file, flush_folder
from napari_ngff.store.write.named_errors import permitted
from napari_ngff.store.write.transaction import Transaction
from napari_ngff.store.write.writer_token import SUFFIX, remove_left

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["TreeReplacement", "recover"]

FORM = re.compile(rf"\.(?P<name>.+)\.[0-9a-f]{{8}}{re.escape(SUFFIX)}")

LOCK, NEW, OLD, DONE, NOTE = "lock", "new", "old", "done", "note.json"

FLUSHERS = 16
"""Files that are flushed at once."""

STALE = 3600
"""Seconds after which nobody is at work any more, on file systems without locks."""


class FolderChange(Transaction, Protocol):
    """What a transaction of a folder has besides."""

    def find_path(self, key: str) -> str:
        """Path of an object."""

    def settle(self) -> None:
        """Give names to what waits."""

    def drop_waiting(self, path: str) -> None:
        """Forget what waits below a folder."""


class TreeReplacement:
    """A folder that is made beside `place` and takes its place; a context.

    Leaving the context without `commit`, or dying, leaves `place` as it was.

    Parameters
    ----------
    transaction
        Of the hierarchy.
    path
        Of the folder that is replaced, or made.
    entry
        Name of a label image, as a list of labels has it, where it counts only once it
        is in the list; ``a/b`` is listed two folders above. "" for anything else.
    documents
        Paths of groups and arrays whose copies in consolidated metadata change with
        the folder.

    Attributes
    ----------
    new
        The folder in which to make what is new; it is not there yet.
    key
        Its path below the hierarchy's root.

    Raises
    ------
    ConflictError
        Where another is making something for that place.
    """

    def __init__(
        self,
        transaction: FolderChange,
        path: str,
        entry: str = "",
        documents: Sequence[str] = (),
    ) -> None:
        self._transaction, self._entry, self._documents = (
            transaction,
            entry,
            list(documents),
        )
        self._adopted = ""
        self.place = transaction.find_path(path)
        parent, name = os.path.split(self.place)
        os.makedirs(parent, exist_ok=True)
        self._lock: IO[bytes] | None
        self._folder, lock = _claimed(parent, name)
        self._lock = lock
        # Who forgets it is as good as dead.
        weakref.finalize(self, lock.close).atexit = False
        self.new = f"{self._folder}/{NEW}"
        self.key = self.new[len(transaction.root) + 1 :]
        if _others(parent, name, self._folder):
            self.close()
            raise ConflictError(
                f"{self.place} is being made by another window or process. Try again"
                " when that has ended, or choose another name."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def remove(self) -> None:
        """Let what is there go; see `Tree.remove`."""
        if self._entry:
            self._write_note(self.place, listed=True)
        else:
            os.rename(self.place, f"{self._folder}/{DONE}")
            flush_folder(os.path.dirname(self.place))

    def adopt(self, key: str) -> None:
        """Take the folder at a path of the hierarchy as what is new."""
        folder = self._transaction.find_path(key)
        self._adopted = os.path.relpath(folder, os.path.dirname(self.place))
        self._write_note(folder, listed=False)
        os.rename(folder, self.new)

    def commit(self, *, kept: str = "") -> None:
        """Give what is new its place: from then on it survives a loss of power.

        Parameters
        ----------
        kept
            See `Tree.commit`.

        Raises
        ------
        OSError
            Where the system refuses; `place` is as it was.
        """
        self.prepare(kept)
        self.swap(kept)
        self.flush()

    def prepare(self, kept: str = "") -> None:
        """Bring all that is new to the disk; see `commit`."""
        self._transaction.settle()
        folders = [folder for folder, _, _ in os.walk(self.new)]
        share_work(iter(folders), flush_folder, len(folders), FLUSHERS)
        free = not os.path.lexists(self.place)
        if self._documents or kept or (self._entry and free):
            self._write_note(self.new, listed=free, kept=os.path.basename(kept))
        # Or a reader could take what is new for what was there.
        remove_copies(self._transaction, self._documents)

    def swap(self, kept: str = "") -> None:
        """Let what was prepared take its place; see `commit`."""
        if not os.path.lexists(self.place):
            os.rename(self.new, self.place)
        elif exchange(self.place, self.new):
            _keep(self.new, self.place, os.path.basename(kept))
        else:
            self._rename_both()
            _keep(f"{self._folder}/{OLD}", self.place, os.path.basename(kept))

    def flush(self) -> None:
        """Bring its name to the disk; see `commit`."""
        flush_folder(os.path.dirname(self.place))

    def _write_note(self, folder: str, *, listed: bool, kept: str = "") -> None:
        """Note what else goes with a folder: whether it counts only once listed."""
        note = {
            "entry": self._entry if listed else "",
            "documents": self._documents,
            "kept": kept,
            "adopted": self._adopted,
            "file": os.stat(folder).st_ino,
        }
        path = f"{self._folder}/{NOTE}"
        with permitted(path), open(path, "w", encoding="utf-8") as file:
            json.dump(note, file)
        flush_file(path)
        flush_folder(self._folder)

    def _rename_both(self) -> None:
        old = f"{self._folder}/{OLD}"
        os.rename(self.place, old)
        try:
            os.rename(self.new, self.place)
        except BaseException:
            os.rename(old, self.place)
            raise

    def close(self) -> None:
        """Finish or take back what was begun, and remove what lies aside."""
        if self._lock is not None:
            lock, self._lock = self._lock, None
            self._transaction.drop_waiting(self.key)
            _settle(self._folder, self._transaction, self.place, lock)


def recover(transaction: FolderChange, path: str = "") -> None:
    """Finish or take back what dead processes left where a group is to be changed.

    Looks into the group, its labels, and all groups above; what living processes do
    there goes on.

    Parameters
    ----------
    transaction
        Of the hierarchy.
    path
        Of a group or an array in it.
    """
    parts = [part for part in path.split("/") if part]
    for depth in range(len(parts) + 1):
        _recover_folder(transaction, "/".join((transaction.root, *parts[:depth])))
    _recover_folder(transaction, "/".join((transaction.root, *parts, "labels")))


def _recover_folder(transaction: FolderChange, folder: str) -> None:
    try:
        remove_left(folder)
        names = os.listdir(folder)
    except OSError:
        return  # not there, or not to be listed: then nothing is written there
    for name in names:
        form = FORM.fullmatch(name)
        if form is not None:
            # What the system refuses now is tried again the next time.
            with suppress(OSError):
                _recover_one(
                    transaction, f"{folder}/{name}", f"{folder}/{form['name']}"
                )


def _claimed(parent: str, name: str) -> tuple[str, IO[bytes]]:
    """Make a folder beside a place, and hold it."""
    while True:
        folder = f"{parent}/.{name}.{secrets.token_hex(4)}{SUFFIX}"
        # Another process may take it for one that is left before it is held.
        with suppress(FileExistsError, FileNotFoundError, BlockingIOError):
            os.mkdir(folder)
            try:
                lock = hold_if_possible(f"{folder}/{LOCK}")
            except OSError:
                with suppress(OSError):
                    os.rmdir(folder)  # where nobody holds it
                raise
            if os.path.exists(f"{folder}/{LOCK}"):
                return folder, lock


def _others(parent: str, name: str, own: str) -> bool:
    """Whether another process, or another window of this one, is at work there."""
    for other in os.listdir(parent):
        form = FORM.fullmatch(other)
        if form is not None and form["name"] == name:
            folder = f"{parent}/{other}"
            if folder != own and is_held(f"{folder}/{LOCK}"):
                return True
    return False


def _recover_one(transaction: FolderChange, folder: str, place: str) -> None:
    with suppress(OSError):
        os.rmdir(folder)  # of a process that was killed at its very first step
        return
    path = f"{folder}/{LOCK}"
    if not os.path.exists(path):
        return  # none of ours
    try:
        lock = hold(path)
    except BlockingIOError:
        return
    except OSError:
        if time.time() - os.stat(folder).st_mtime < STALE:
            return
        lock = open(path, "ab", buffering=0)  # noqa: SIM115
    _settle(folder, transaction, place, lock)


def _settle(
    folder: str, transaction: FolderChange, place: str, lock: IO[bytes]
) -> None:
    """Bring a place into one of two states, and remove the folder beside it.

    Each step leaves something that the same steps settle.
    """
    with closing(lock):
        note = _read_note(folder)
        _settle_place(folder, place, note)
        if note:
            update_copies(transaction, note["documents"])
            with suppress(OSError):
                os.unlink(f"{folder}/{NOTE}")
        left = [f"{folder}/{name}" for name in (NOTE, DONE, NEW)]
        for path in left[1:]:
            shutil.rmtree(path, ignore_errors=True)
        if any(map(os.path.lexists, left)):
            return  # the system does not let all of it go; the next one tries again
        if sys.platform == "win32":
            lock.close()
        # Last: without it nobody knows that the folder is ours.
        with suppress(OSError):
            os.unlink(f"{folder}/{LOCK}")
            os.rmdir(folder)


def _settle_place(folder: str, place: str, note: dict[str, Any]) -> None:
    new, old, done = (f"{folder}/{name}" for name in (NEW, OLD, DONE))
    there = os.path.lexists(place)
    if os.path.lexists(old):
        if not there:
            os.rename(new if os.path.lexists(new) else old, place)
            flush_folder(os.path.dirname(place))
        _keep_noted(note, old, place)
        if os.path.lexists(old):
            os.rename(old, done)
    elif there and os.path.lexists(new):
        _keep_noted(note, new, place)
    elif there and not _counts(note, place):
        os.rename(place, new)
        flush_folder(os.path.dirname(place))
    if os.path.lexists(new) and os.stat(new).st_ino == note.get("file"):
        # It did not come to its place.
        _keep(new, place, note.get("adopted", ""))


def _keep(old: str, place: str, name: str) -> None:
    """Keep what was at a place beside it, unless something of that name is there."""
    kept = os.path.join(os.path.dirname(place), name)
    if name and not os.path.lexists(kept):
        os.rename(old, kept)


def _keep_noted(note: dict[str, Any], old: str, place: str) -> None:
    """Keep what had to make room, where what is noted has come to its place."""
    if os.path.lexists(old) and os.stat(place).st_ino == note.get("file"):
        _keep(old, place, note["kept"])


def _read_note(folder: str) -> dict[str, Any]:
    """Read what was noted before anything was moved; {} for nothing."""
    try:
        with open(f"{folder}/{NOTE}", encoding="utf-8") as file:
            note = json.load(file)
        return {
            "entry": str(note["entry"]),
            "documents": [str(path) for path in note["documents"]],
            "kept": str(note["kept"]),
            "adopted": str(note["adopted"]),
            "file": int(note["file"]),
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        return {"documents": []}  # cut off: nothing has moved


def _counts(note: dict[str, Any], place: str) -> bool:
    """Whether what came to a free place is complete: in the list that it belongs to."""
    entry = note.get("entry")
    if not entry or os.stat(place).st_ino != note["file"]:
        return True  # or somebody has put something else there since
    group = place
    for _ in entry.split("/"):
        group = os.path.dirname(group)
    return entry in _listed(group)


def _listed(group: str) -> list[Any]:
    """Read a list of labels; [] where there is none."""
    for name in ("zarr.json", ".zattrs"):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            with open(f"{group}/{name}", encoding="utf-8") as file:
                content = json.load(file)
            if name == "zarr.json":
                content = content["attributes"].get("ome") or content["attributes"]
            return list(content["labels"])
    return []
