"""Whether an object was changed since it was read."""

from __future__ import annotations

import os
from dataclasses import dataclass

__all__ = ["Revision"]


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
