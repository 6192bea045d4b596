"""Files in the user's cache folder, of which the least recently used are deleted."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import platformdirs

from napari_ngff.store.write.replace_file import replace_when_done

LATER = 3600
"""Seconds after which a further use of an entry is noted: a write for each would cost
more than the order is worth."""

ROOM = 0.9
"""Part of the limit that is left after entries were deleted: not one for each new."""


def cache_folder(name: str) -> Path:
    """Return a folder in the user's cache; it may not exist yet."""
    return platformdirs.user_cache_path("napari-ngff", appauthor=False) / name


class DiskCache:
    """Bytes by name, each in a file of its own, up to a limit.

    Safe to use from several threads and processes. Where the disk refuses, nothing is
    kept.

    Parameters
    ----------
    folder
        Where the files are; made when the first is written.
    suffix
        Of their names, such as ".preview".
    limit
        Bytes at most, about.
    """

    def __init__(self, folder: Path, suffix: str, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._suffix = suffix
        self._size: int | None = None
        self._lock = threading.Lock()

    def path_of(self, name: str) -> Path:
        """Return the file of an entry, which may not exist."""
        return self.folder / f"{sha256(name.encode()).hexdigest()}{self._suffix}"

    def load(self, name: str) -> bytes | None:
        """Read an entry; None where there is none."""
        try:
            return self.path_of(name).read_bytes()
        except OSError:
            return None

    def note_use(self, name: str) -> None:
        """Remember that an entry was of use: it is deleted after others."""
        path = self.path_of(name)
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > LATER:
                os.utime(path)

    def keep(self, name: str, *parts: bytes | memoryview) -> None:
        """Write an entry, of all parts together, in place of an older one."""
        path = self.path_of(name)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (
                # Not flushed: what a loss of power takes is read again.
                replace_when_done(path, flush=False) as aside,
                open(aside, "xb") as file,
            ):
                file.writelines(parts)
        except OSError:  # a full or a read-only disk: reading goes on
            return
        self._shrink(sum(len(part) for part in parts))

    def clear(self) -> int:
        """Delete all entries; return the bytes that were freed."""
        freed = 0
        with self._lock:
            for path, size, _ in self.list_entries():
                with suppress(OSError):
                    os.unlink(path)
                    freed += size
            self._size = None
        return freed

    def list_entries(self) -> list[tuple[str, int, float]]:
        """List path, size in bytes and time of last use of all entries."""
        entries = []
        with suppress(OSError), os.scandir(self.folder) as items:
            for item in items:
                # "in": files that a killed process left aside have more behind it.
                if self._suffix in item.name:
                    with suppress(OSError):
                        state = item.stat()
                        entries.append((item.path, state.st_size, state.st_mtime))
        return entries

    def _shrink(self, added: int) -> None:
        """Delete the least recently used entries where there are too many."""
        with self._lock:
            # The folder is listed once; other processes' entries are counted next time.
            if self._size is None:
                self._size = sum(size for _, size, _ in self.list_entries())
            else:
                self._size += added
            if self._size <= self.limit:
                return
            entries = sorted(self.list_entries(), key=lambda entry: entry[2])
            self._size = sum(size for _, size, _ in entries)
            for path, size, _ in entries:
                if self._size <= self.limit * ROOM:
                    break
                with suppress(OSError):
                    os.unlink(path)
                self._size -= size
