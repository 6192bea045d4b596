"""A hierarchy in a folder of the file system."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from napari_ngff.errors import AccessError, CorruptDataError
from napari_ngff.store.limits import check_document_size
from napari_ngff.store.sources.revision import Revision
from napari_ngff.store.workers import CORES

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Problem
    from napari_ngff.store.sources.source import Source

__all__ = ["FolderSource", "local_folder"]

READING = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NONBLOCK", 0)  # or opening a named pipe waits for ever
)


def local_folder(source: Source) -> str | None:
    """Return the folder of this computer that a hierarchy is; None for none."""
    return source.root if isinstance(source, FolderSource) else None


class FolderSource:
    """Read the objects below `root`, a path without a trailing separator."""

    problems: tuple[Problem, ...] = ()

    def __init__(self, root: str) -> None:
        self.root = root

    @property
    def name(self) -> str:
        """The folder's path."""
        return self.root

    @property
    def concurrency(self) -> int:
        """One reader per core: more only fight for the interpreter."""
        return CORES

    def locate(self, key: str) -> str:
        """Path of an object, or of a folder of them."""
        return f"{self.root}/{key}"

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        path = self.locate(key)
        try:
            handle = os.open(path, READING)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            # Windows answers so for a folder, too.
            if os.path.isdir(path):
                return None
            msg = f"No permission to read {path}."
            raise AccessError(msg, remedy="Ask its owner, or copy the data.") from error
        try:
            found = os.fstat(handle)
            if stat.S_ISDIR(found.st_mode):
                return None
            if not stat.S_ISREG(found.st_mode):
                msg = f"{path} is a pipe or a device, not a file. It is not read."
                raise CorruptDataError(msg)
            if start is None:
                check_document_size(path, found.st_size)
            return _read(handle, found.st_size, start, length)
        finally:
            os.close(handle)

    def revision(self, key: str) -> Revision | None:
        """Tell the revision of an object; see `Source.revision`."""
        return Revision.of_file(self.locate(key))

    def names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix`, sorted."""
        try:
            return tuple(sorted(os.listdir(self.locate(prefix))))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except PermissionError as error:
            msg = f"No permission to list {self.locate(prefix)}."
            raise AccessError(msg) from error


def _read(handle: int, size: int, start: int | None, length: int | None) -> bytes:
    first = 0 if start is None else min(start, size) if start >= 0 else size + start
    first = max(first, 0)
    left = size - first if length is None else min(length, size - first)
    if first:
        os.lseek(handle, first, os.SEEK_SET)
    data = os.read(handle, left)
    # One call gives 2 GiB at most on Linux.
    while len(data) < left and (more := os.read(handle, left - len(data))):
        data += more
    return data
