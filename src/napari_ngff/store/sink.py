"""Writes objects into a hierarchy in a folder; nothing else changes what is there.

An object is written beside its place and renamed: whoever reads it, and whatever
happens meanwhile, finds the old bytes or the new ones.
"""

from __future__ import annotations

import itertools
import os
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from napari_ngff.errors import AccessError

if TYPE_CHECKING:
    from napari_ngff.store.compression import Buffer

__all__ = ["PART", "FolderSink", "Mark"]

Mark = tuple[int, int, int]
"""Size in bytes, time of the last change in ns, and number of a file; all differ
where an object was written again, since a rename brings a new file."""

PART = ".part"
"""Ends the name under which an object is written; readers of zarr ignore it."""

STALE = 60

WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

_numbers = itertools.count()


class FolderSink:
    """Write the objects below `root`, a path without a trailing separator.

    Safe to use from several threads at once.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def put(self, key: str, data: Buffer) -> None:
        """Write an object whole, or leave what is there.

        The bytes are on the disk before they get their name.

        Raises
        ------
        AccessError
            Where the system refuses.
        OSError
            Where writing fails in any other way: a full disk, a place gone.
        """
        path = f"{self.root}/{key}"
        aside = f"{path}.{os.getpid():x}-{next(_numbers):x}{PART}"
        try:
            handle = self._open(aside)
            try:
                with os.fdopen(handle, "wb", buffering=0) as file:
                    _write(file.fileno(), data)
                    os.fsync(file.fileno())
                with suppress(FileNotFoundError):
                    shutil.copymode(path, aside)
                os.replace(aside, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(aside)
                raise
        except PermissionError as error:
            msg = f"No permission to write {path}. Ask its owner, or save elsewhere."
            raise AccessError(msg) from error

    def _open(self, aside: str) -> int:
        with suppress(FileNotFoundError):
            return os.open(aside, WRITING, 0o666)
        os.makedirs(os.path.dirname(aside), exist_ok=True)
        return os.open(aside, WRITING, 0o666)

    def delete(self, key: str) -> None:
        """Remove an object; nothing where there is none.

        Raises
        ------
        AccessError
            Where the system refuses.
        """
        path = f"{self.root}/{key}"
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except PermissionError as error:
            msg = f"No permission to remove {path}. Ask its owner, or save elsewhere."
            raise AccessError(msg) from error

    def mark(self, key: str) -> Mark | None:
        """Tell which state an object is in; None where there is none."""
        return mark_of(f"{self.root}/{key}")

    def sweep(self, prefix: str) -> None:
        """Remove what a writer that was killed left beside its objects.

        Parameters
        ----------
        prefix
            Of a folder; all below it is looked at. What was written in the last
            `STALE` seconds may be somebody's at work, and stays.
        """
        oldest = time.time() - STALE
        for folder, _, files in os.walk(f"{self.root}/{prefix}"):
            for name in files:
                path = os.path.join(folder, name)
                with suppress(OSError):
                    if name.endswith(PART) and os.stat(path).st_mtime < oldest:
                        os.unlink(path)


def mark_of(path: str) -> Mark | None:
    """Tell which state a file is in; None where there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _write(handle: int, data: Buffer) -> None:
    left = memoryview(bytes(data))
    while left:
        # One call takes 2 GiB at most on Linux, and less on a disk that fills up.
        left = left[os.write(handle, left) :]
