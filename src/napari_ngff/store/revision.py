"""Whether an object was changed since it was read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Problem
    from napari_ngff.store.source import Source

__all__ = ["ReadLog", "Revision"]


@dataclass(frozen=True, slots=True)
class Revision:
    """State of a stored object; two that are equal mean the same bytes.

    Whatever is kept of an object in memory is kept together with its revision.

    Attributes
    ----------
    size
        In bytes.
    stamp
        Time of the last change in ns; of an entry of an archive its CRC-32.
    file
        Number of the file, which is another one after a rename; 0 in an archive.
    tag
        Of an object store, which tells it; "" elsewhere.
    """

    size: int
    stamp: int
    file: int = 0
    tag: str = ""

    @classmethod
    def of_stat(cls, found: os.stat_result) -> Revision:
        """Take it from what the system says of a file."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)

    @classmethod
    def of_file(cls, path: str) -> Revision | None:
        """Look at a file; None where there is none."""
        try:
            return cls.of_stat(os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    @property
    def numbers(self) -> list[int]:
        """The same as a list, for JSON."""
        return [self.size, self.stamp, self.file]


def _itself(source: Source) -> Source:
    return source


class ReadLog:
    """Read objects of a source, and note the revision in which each was first read.

    Parameters
    ----------
    source
        To read.

    Attributes
    ----------
    revisions
        Key -> revision, None for an object that was not there. About 300 bytes for
        each.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self.revisions: dict[str, Revision | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process reads, and never compares.
        return _itself, (self._source,)

    @property
    def name(self) -> str:
        """Path of the root."""
        return self._source.name

    @property
    def concurrency(self) -> int:
        """How many reads at once pay."""
        return self._source.concurrency

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the container."""
        return self._source.problems

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        if key not in self.revisions:
            # Before reading: what changes in between is then seen as a change.
            self.revisions.setdefault(key, self._source.revision(key))
        return self._source.get(key, start, length)

    def revision(self, key: str) -> Revision | None:
        """Tell the revision that an object has now; see `Source.revision`."""
        return self._source.revision(key)

    def names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix`, sorted."""
        return self._source.names(prefix)
