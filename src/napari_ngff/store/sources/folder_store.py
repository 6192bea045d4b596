"""A hierarchy in a folder of the file system."""

from __future__ import annotations

import os
import stat
from typing import Any

from typing_extensions import override

from napari_ngff.errors import AccessError, CorruptDataError, UnsupportedError
from napari_ngff.store.limits import check_document_size
from napari_ngff.store.sources.blob import Blob, Revision, Traits
from napari_ngff.store.store import Store

OPEN_FLAGS = (
    os.O_RDONLY
    # Windows would translate line ends, and stop at a byte 26.
    | getattr(os, "O_BINARY", 0)
    # Without it, opening a named pipe waits for ever.
    | getattr(os, "O_NONBLOCK", 0)
)

KNOWN_FOLDERS = 4096
"""Most folders of which is kept where they really are: an image may have millions."""


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
        path = self.find_path(key)
        try:
            handle = os.open(path, OPEN_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            # Windows refuses permission where another system says it is a folder.
            if os.path.isdir(path):
                return None
            msg = f"No permission to read {path}."
            raise AccessError(msg, remedy="Ask its owner, or copy the data.") from error
        try:
            # Of the open file, not of its path: a save may replace the file meanwhile.
            status = os.fstat(handle)
            if stat.S_ISDIR(status.st_mode):
                return None
            if not stat.S_ISREG(status.st_mode):
                msg = f"{path} is a pipe or a device, not a file. It is not read."
                raise CorruptDataError(msg)
            if start is None:
                check_document_size(path, status.st_size)
            data = _read_part(handle, status.st_size, start, length)
            return Blob(data, Revision.of_stat(status))
        finally:
            os.close(handle)

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


def _read_part(handle: int, size: int, start: int | None, length: int | None) -> bytes:
    first = 0 if start is None else min(start, size) if start >= 0 else size + start
    first = max(first, 0)
    count = size - first if length is None else min(length, size - first)
    if first:
        os.lseek(handle, first, os.SEEK_SET)
    data = os.read(handle, count)
    # One call gives 2 GiB at most on Linux.
    while len(data) < count and (more := os.read(handle, count - len(data))):
        data += more
    return data
