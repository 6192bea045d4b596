"""A hierarchy in a folder of the file system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.errors import AccessError

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from napari_ngff.metadata.model import Problem

__all__ = ["FolderSource"]


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
        return os.cpu_count() or 1

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        path = f"{self.root}/{key}"
        try:
            with open(path, "rb", buffering=0) as file:
                if start is not None:
                    file.seek(start, os.SEEK_END if start < 0 else os.SEEK_SET)
                # A raw read may return less than asked for (Linux stops at 2 GiB).
                parts = []
                left = -1 if length is None else length
                while left and (part := file.read(left)):
                    parts.append(part)
                    left = left - len(part) if length is not None else -1
                return parts[0] if len(parts) == 1 else b"".join(parts)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except PermissionError as error:
            # Windows answers so for a folder, too.
            if os.path.isdir(path):
                return None
            msg = f"No permission to read {path}. Ask its owner, or copy the data."
            raise AccessError(msg) from error

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
