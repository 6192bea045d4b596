"""A hierarchy in a folder of the file system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.errors import AccessError
from napari_ngff.store.workers import CORES

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from napari_ngff.metadata.model import Problem

__all__ = ["FolderSource"]

READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)


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

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        path = f"{self.root}/{key}"
        try:
            handle = os.open(path, READING)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError as error:
            # Windows answers so for a folder, too.
            if os.path.isdir(path):
                return None
            msg = f"No permission to read {path}. Ask its owner, or copy the data."
            raise AccessError(msg) from error
        try:
            return _read(handle, start, length)
        except IsADirectoryError:
            return None
        finally:
            os.close(handle)

    def names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix`, sorted."""
        try:
            return tuple(sorted(os.listdir(f"{self.root}/{prefix}")))
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except PermissionError as error:
            msg = f"No permission to list {self.root}/{prefix}."
            raise AccessError(msg) from error

    def store(self) -> Store:
        """Open the folder as a read-only zarr store."""
        from zarr.storage import LocalStore

        return LocalStore(Path(self.root), read_only=True)


def _read(handle: int, start: int | None, length: int | None) -> bytes:
    size = os.fstat(handle).st_size
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
