"""Thumbnails kept on disk, in the user's cache folder, until their files change."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import platformdirs

from napari_ngff.store.folder import FolderSource
from napari_ngff.store.location import is_url
from napari_ngff.store.ozx import ZipSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from napari_ngff.store.source import Source

__all__ = ["LIMIT", "Entry", "PreviewCache", "clear_previews", "preview_folder"]

LIMIT = 256 * 2**20
"""Bytes on disk; beyond, what was not used for longest is deleted."""

State = list[int] | None
"""Of a file; None where there is none. As JSON gives it back."""

SUFFIX = ".preview"
FORMAT = 1
"""Changes with what is in an entry, and with how its pixels are made."""

DAY = 86400
LATER = 3600
"""Seconds after which a further use of an entry is noted: a write for each would cost
more than the order is worth."""


def preview_folder() -> Path:
    """Where thumbnails are kept if nothing else is said; it need not be there yet."""
    return platformdirs.user_cache_path("napari-ngff", appauthor=False) / "previews"


def clear_previews(folder: Path | None = None) -> int:
    """Delete all thumbnails that are kept on disk.

    Returns
    -------
    int
        Bytes freed.
    """
    freed = 0
    for path, size, _ in entries(folder or preview_folder()):
        with contextlib.suppress(OSError):
            os.unlink(path)
            freed += size
    return freed


@dataclass(slots=True, eq=False)
class Entry:
    """One thumbnail on its way in or out of the cache.

    Attributes
    ----------
    source
        To read from where `pixels` is None: it notes the state of what it reads.
    pixels
        "cyx"; None where nothing is known, or not any more.
    keep
        Whether `pixels`, set by the caller, shall be kept.
    """

    source: Source
    pixels: np.ndarray[Any, Any] | None = None
    keep: bool = False


class PreviewCache:
    """Pixels of thumbnails by place, each with the state of the files they are of.

    In a folder that is size, time and number of every file read; of an archive, those
    of the archive. What lies behind an address is taken to change once a day. Safe to
    use from several threads and processes. Where the disk refuses, nothing is kept.

    Parameters
    ----------
    folder
        That of `preview_folder` if None.
    limit
        Bytes at most, about.
    """

    def __init__(self, folder: Path | None = None, limit: int = LIMIT) -> None:
        self.folder = folder or preview_folder()
        self._limit = limit
        self._size: int | None = None
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def entry(self, source: Source, name: str) -> Iterator[Entry]:
        """Look a thumbnail up; what the caller sets is kept when the block ends.

        Nothing is kept of a store in memory, whose name tells it from no other.

        Parameters
        ----------
        source
            Where its files are.
        name
            Tells it from others of the source.
        """
        key = sha256(f"{FORMAT} {source.name} {name}".encode()).hexdigest()
        path = self.folder / f"{key}{SUFFIX}"
        pixels = self._load(path, source)
        reading = noting(source)
        entry = Entry(reading, pixels)
        yield entry
        state = state_of(reading)
        if pixels is None and entry.pixels is not None and entry.keep and state:
            self._keep(path, entry.pixels, state)

    def _load(self, path: Path, source: Source) -> np.ndarray[Any, Any] | None:
        try:
            data = path.read_bytes()
            header, _, rest = data.partition(b"\n")
            state = json.loads(header)
            pixels = np.load(BytesIO(rest), allow_pickle=False)
            if pixels.ndim != 3 or pixels.dtype.kind not in "uif":
                return None
            if not is_current(source, state):
                return None
            if time.time() - path.stat().st_mtime > LATER:
                os.utime(path)
        except (OSError, ValueError, EOFError, TypeError):
            return None  # not there, or damaged: it is made again
        found: np.ndarray[Any, Any] = pixels
        return found

    def _keep(self, path: Path, pixels: np.ndarray[Any, Any], state: Any) -> None:
        buffer = BytesIO()
        buffer.write(json.dumps(state).encode() + b"\n")
        np.save(buffer, pixels, allow_pickle=False)
        aside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(buffer.getbuffer())
            os.replace(aside, path)
        except OSError:  # a full or a read-only disk: looking goes on
            with contextlib.suppress(OSError):
                os.unlink(aside)
            return
        self._shrink(buffer.tell())

    def _shrink(self, added: int) -> None:
        """Delete what was not used for longest, down to nine tenths of the limit."""
        with self._lock:
            if self._size is None:
                self._size = sum(size for _, size, _ in entries(self.folder))
            else:
                self._size += added
            if self._size <= self._limit:
                return
            found = sorted(entries(self.folder), key=lambda entry: entry[2])
            self._size = sum(size for _, size, _ in found)
            for path, size, _ in found:
                if self._size <= self._limit * 0.9:
                    break
                with contextlib.suppress(OSError):
                    os.unlink(path)
                self._size -= size


def entries(folder: Path) -> list[tuple[str, int, float]]:
    """Path, size in bytes and time of last use of everything that is kept."""
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as items:
        for item in items:
            if SUFFIX in item.name:
                with contextlib.suppress(OSError):
                    state = item.stat()
                    found.append((item.path, state.st_size, state.st_mtime))
    return found


class NotingFolder(FolderSource):
    """Reads objects, and notes the state of each before it is first read."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.states: dict[str, State] = {}

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        if key not in self.states:
            self.states[key] = file_state(f"{self.root}/{key}")
        return super().get(key, start, length)


def noting(source: Source) -> Source:
    """Return a source that notes what it reads, where that can be."""
    return NotingFolder(source.root) if isinstance(source, FolderSource) else source


def state_of(source: Source) -> Any:
    """Say in which state the files were that a source read; None if that is unknown."""
    if isinstance(source, NotingFolder):
        return source.states
    if isinstance(source, ZipSource):
        return file_state(source.path)
    return int(time.time() // DAY) if is_url(source.name) else None


def is_current(source: Source, state: Any) -> bool:
    """Tell whether the files are still in a state that was noted."""
    if not isinstance(source, FolderSource):
        return bool(state and state == state_of(source))
    states = state.items() if isinstance(state, dict) else ()
    return bool(states) and all(
        file_state(f"{source.root}/{key}") == noted for key, noted in states
    )


def file_state(path: str) -> State:
    """Size in bytes, time of the last change in ns and number of a file, if it is
    there.
    """
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return [found.st_size, found.st_mtime_ns, found.st_ino]
