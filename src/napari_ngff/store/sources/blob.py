"""The bytes of a stored object with their revision, and what stores are like."""

from __future__ import annotations

import os
from dataclasses import dataclass

from napari_ngff.store.threads import CORES, LOCAL_CONCURRENCY


@dataclass(frozen=True, slots=True)
class Revision:
    """State of a stored object; equal revisions mean equal bytes.

    What a cache keeps of an object is kept together with its revision.

    Attributes
    ----------
    size
        In bytes; 0 where a server does not state it with each answer.
    stamp
        Time of the last change in ns; of an entry of an archive its CRC-32.
    file
        Number of the file, which is another one after a rename; 0 in an archive.
    tag
        The ETag of an object store; "" elsewhere.
    """

    size: int
    stamp: int
    file: int = 0
    tag: str = ""

    @classmethod
    def of_stat(cls, status: os.stat_result) -> Revision:
        """Make the revision of a file from its status."""
        # With the inode: files written within one tick of the clock have equal times.
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)

    @classmethod
    def of_tag(cls, tag: str, size: int = 0) -> Revision | None:
        """Make the revision of an object of a server; None where it states no ETag."""
        return cls(size, 0, tag=tag) if tag else None

    @classmethod
    def of_file(cls, path: str) -> Revision | None:
        """Return the revision of a file; None where there is no file."""
        try:
            return cls.of_stat(os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    @property
    def numbers(self) -> list[int]:
        """Size, stamp and file, as a list for JSON."""
        return [self.size, self.stamp, self.file]


@dataclass(frozen=True, slots=True)
class Blob:
    """The bytes of a stored object or of a part of it, and the revision it had then.

    Attributes
    ----------
    data
        The bytes.
    revision
        Of the whole object; None where its source states none.
    """

    data: bytes
    revision: Revision | None = None

    @property
    def tag(self) -> str:
        """The ETag of the object; "" for none."""
        return "" if self.revision is None else self.revision.tag


@dataclass(frozen=True, slots=True)
class Traits:
    """What a store is like; nothing asks of what kind it is.

    Attributes
    ----------
    at_once
        Useful number of reads at the same time: few for a disk, many for a server.
    folder
        Path of a folder in which each object is a file; None for any other store.
    is_lasting
        Whether its name leads to it in another session.
    has_directory
        Whether a directory of all objects is in memory: names and revisions take no
        request, and few objects are better, so that new arrays get shards.
    """

    # More threads only wait for each other: Python's lock, not the disk, is the limit.
    at_once: int = CORES
    folder: str | None = None
    is_lasting: bool = True
    has_directory: bool = False

    @property
    def is_remote(self) -> bool:
        """Return whether each read waits for a server."""
        return self.at_once > LOCAL_CONCURRENCY

    @property
    def waits_at_once(self) -> int:
        """Useful number of reads that wait at the same time: none waits for a disk."""
        return self.at_once if self.is_remote else 1


def clip_range(start: int, length: int | None, size: int) -> slice:
    """Return the bytes that `Store.read` is to read of an object of `size`."""
    low = min(start, size) if start >= 0 else max(0, size + start)
    high = size if length is None else min(size, low + length)
    return slice(low, max(low, high))
