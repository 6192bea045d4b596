"""Counts what is read of one hierarchy: chunks, bytes and requests."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.arrays.boxes import Cell

__all__ = ["ReadCounts", "ReadFigures", "counts_of", "counts_of_folder"]

MOST_AHEAD = 20_000
"""Chunks read ahead that are remembered until they are used; about 5 MB."""


@dataclass(frozen=True, slots=True)
class ReadFigures:
    """What was read of a hierarchy since it was opened.

    Attributes
    ----------
    from_memory
        Decoded chunks that were in memory when they were asked for.
    chunks, chunk_bytes
        Chunks that were read and decoded, and their bytes as they are stored.
    ahead, ahead_used
        Of these, chunks that were read ahead; and how many of them were asked for
        later.
    requests, waiting
        Requests for bytes that were sent to a server, and those without an answer yet.
        One that is redirected, or repeated with a login, counts once.
    received
        Bytes of the answers, without headers; documents included.
    kept
        Parts of files that were taken from this disk, because a server confirmed them.
    """

    from_memory: int = 0
    chunks: int = 0
    chunk_bytes: int = 0
    ahead: int = 0
    ahead_used: int = 0
    requests: int = 0
    waiting: int = 0
    received: int = 0
    kept: int = 0


class ReadCounts:
    """Counters of one hierarchy; safe to use from many threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._from_memory = self._chunks = self._chunk_bytes = 0
        self._ahead = self._ahead_used = 0
        self._requests = self._waiting = self._received = self._kept = 0
        # Chunks that were read ahead, and not used yet, by the token of their array;
        # the oldest first.
        self._unused: dict[tuple[int, Cell], None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # A lock cannot be pickled; another process counts for itself.
        return ReadCounts, ()

    @property
    def figures(self) -> ReadFigures:
        """All counts at one moment."""
        with self._lock:
            return ReadFigures(
                from_memory=self._from_memory,
                chunks=self._chunks,
                chunk_bytes=self._chunk_bytes,
                ahead=self._ahead,
                ahead_used=self._ahead_used,
                requests=self._requests,
                waiting=self._waiting,
                received=self._received,
                kept=self._kept,
            )

    def add_found(self, token: int, cells: Sequence[Cell]) -> None:
        """Count chunks of an array that were in memory when they were asked for."""
        with self._lock:
            self._from_memory += len(cells)
            for cell in cells if self._unused else ():
                if (token, cell) in self._unused:
                    del self._unused[token, cell]
                    self._ahead_used += 1

    def add_chunk(self, token: int, cell: Cell, nbytes: int) -> None:
        """Count a chunk that was read and decoded; `nbytes` as it is stored."""
        with self._lock:
            self._chunks += 1
            self._chunk_bytes += nbytes
            # Read ahead before, and dropped from memory since.
            self._unused.pop((token, cell), None)

    def add_ahead(self, token: int, cell: Cell) -> None:
        """Count a chunk that was read ahead, after `add_chunk`."""
        with self._lock:
            self._ahead += 1
            self._unused[token, cell] = None
            if len(self._unused) > MOST_AHEAD:
                del self._unused[next(iter(self._unused))]

    def begin_request(self) -> None:
        """Count a request that is sent to a server."""
        with self._lock:
            self._requests += 1
            self._waiting += 1

    def end_request(self, content: object) -> None:
        """Note that a request was answered, by bytes or an object with them, or failed.

        Parameters
        ----------
        content
            The answer; None where there was none.
        """
        data = getattr(content, "data", content)
        with self._lock:
            self._waiting -= 1
            self._received += len(data) if isinstance(data, bytes) else 0

    def add_kept(self) -> None:
        """Count a part of a file that was taken from this disk."""
        with self._lock:
            self._kept += 1


def counts_of(source: object) -> ReadCounts:
    """Return the counters of a `Source`; new ones for a source that has none."""
    counts = getattr(source, "counts", None)
    return counts if isinstance(counts, ReadCounts) else ReadCounts()


_of_folders: WeakValueDictionary[str, ReadCounts] = WeakValueDictionary()


def counts_of_folder(root: str) -> ReadCounts:
    """Return the counters that all sources of one folder share."""
    return _of_folders.setdefault(root, ReadCounts())
