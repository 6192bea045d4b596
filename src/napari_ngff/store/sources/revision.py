"""Revisions of stored objects: equal revisions mean equal bytes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Revision:
    """State of a stored object; equal revisions mean equal bytes.

    What a cache keeps of an object is kept together with its revision.

    Attributes
    ----------
    size
        In bytes.
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


class TaggedBytes(bytes):
    """An object of a server or a part of it, with the ETag that the object had.

    Two parts of different tags are of different versions of the object; "" is the tag
    of a server that states none.
    """

    tag: str

    def __new__(cls, data: bytes | bytearray | memoryview, tag: str = "") -> Self:
        """Combine what a server sent."""
        tagged = super().__new__(cls, data)
        tagged.tag = tag
        return tagged
