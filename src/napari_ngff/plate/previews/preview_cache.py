"""Thumbnails kept on disk, in the user's cache folder, until their files change."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.addresses import is_url
from napari_ngff.store.disk_cache import DiskCache, cache_folder
from napari_ngff.store.limits import parse_json
from napari_ngff.store.sources.read_ahead import ReadLog

if TYPE_CHECKING:
    from napari_ngff.store.sources.blob import Revision
    from napari_ngff.store.store import Store

LIMIT = 256 * 2**20
"""Bytes on disk beyond which the least recently used thumbnails are deleted."""

SUFFIX = ".preview"
FORMAT = 3
"""Number to raise when the content of an entry, or the way to its pixels, changes."""

DAY = 86400


def preview_folder() -> Path:
    """Return the folder where thumbnails are kept by default; it may not exist yet."""
    return cache_folder("previews")


def clear_previews(folder: Path | None = None) -> int:
    """Delete all thumbnails that are kept on disk.

    Returns
    -------
    int
        Bytes freed.
    """
    return DiskCache(folder or preview_folder(), SUFFIX, LIMIT).clear()


@dataclass(slots=True, eq=False)
class CacheEntry:
    """One thumbnail as the cache has it, or as the caller sets it.

    Attributes
    ----------
    source
        To read from where `pixels` is None: it notes the revision of what it reads.
    pixels
        Axes "cyx"; None where the cache has none, or its files have changed.
    """

    source: Store
    pixels: np.ndarray[Any, Any] | None = None


class PreviewCache:
    """Pixels of thumbnails on disk, each with the state of its files.

    The state is the revision of every object that was read. Files behind a URL are
    taken to change once a day. Safe to use from several threads and processes. Where
    the disk refuses, nothing is kept.

    Parameters
    ----------
    folder
        That of `preview_folder` if None.
    limit
        Bytes at most, about.
    """

    def __init__(self, folder: Path | None = None, limit: int = LIMIT) -> None:
        self._files = DiskCache(folder or preview_folder(), SUFFIX, limit)

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._files.folder

    @contextlib.contextmanager
    def open_entry(self, source: Store, name: str) -> Iterator[CacheEntry]:
        """Look a thumbnail up; at the end of the block, keep what the caller set.

        Nothing is kept of a store in memory, whose name others have too.

        Parameters
        ----------
        source
            Where its files are.
        name
            Distinguishes it from others of the source.
        """
        # The name of the file: same place, plane and channels, same entry.
        key = f"{FORMAT} {source.name} {name}"
        pixels = self._load_entry(key, source)
        reads = ReadLog(source)
        entry = CacheEntry(reads, pixels)
        yield entry
        # Empty where nothing was seen to be read: it could not be checked later.
        state = state_of(reads)
        if pixels is None and entry.pixels is not None and state:
            self._keep_entry(key, entry.pixels, state)

    def _load_entry(self, key: str, source: Store) -> np.ndarray[Any, Any] | None:
        data = self._files.load(key)
        if data is None:
            return None
        try:
            header, _, values = data.partition(b"\n")
            fields = parse_json(header)
            dtype = np.dtype(fields["dtype"])
            if len(fields["shape"]) != 3 or dtype.kind not in "uif":
                return None
            pixels = np.frombuffer(values, dtype).reshape(fields["shape"])
            # One look per object that was read, instead of reading and decoding it.
            if not is_current(source, fields["state"]):
                return None
        except (OSError, ValueError, TypeError, KeyError):
            return None  # damaged: it is made again
        self._files.note_use(key)
        return pixels

    def _keep_entry(self, key: str, pixels: np.ndarray[Any, Any], state: Any) -> None:
        # Not in NumPy's own format, whose header is parsed as Python: in Python 3.11
        # that fails in threads now and then (python/cpython issue 106905).
        fields = {"state": state, "dtype": pixels.dtype.str, "shape": pixels.shape}
        self._files.keep(key, json.dumps(fields).encode() + b"\n" + pixels.tobytes())


def state_of(reads: ReadLog) -> Any:
    """Return the state of the objects that were read; None if it is unknown."""
    numbers = {key: numbers_of(revision) for key, revision in reads.revisions.items()}
    if any(numbers.values()):
        return numbers  # also of an archive on a server, whose directory has them
    # Asking a server for each object would cost as much as reading it.
    return int(time.time() // DAY) if is_url(reads.name) else None


def is_current(source: Store, state: Any) -> bool:
    """Return whether the objects still have the state that was noted."""
    if not isinstance(state, dict):
        return is_url(source.name) and bool(state == time.time() // DAY)
    return bool(state) and all(
        numbers_of(source.find_revision(key)) == noted for key, noted in state.items()
    )


def numbers_of(revision: Revision | None) -> list[int] | None:
    """Convert a revision into what JSON returns for it."""
    # Not of a server, which is not asked for each object.
    return None if revision is None or revision.tag else revision.numbers
