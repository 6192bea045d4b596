"""The interface through which all stores are read.

A *key* is the path of an object relative to the hierarchy's root, with ``/`` and no
leading slash, such as ``"A/1/0/zarr.json"``. Sources cannot write; see `Transaction`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

from typing_extensions import override

from napari_ngff.store.threads import CORES

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Problem


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


@runtime_checkable
class Source(Protocol):
    """The objects of one hierarchy; safe to use from several threads at once."""

    @property
    def name(self) -> str:
        """Path or URL of the root for messages, without a trailing slash."""

    @property
    def concurrency(self) -> int:
        """Useful number of reads at the same time: few for a disk, many for a
        server.
        """
        # More threads only wait for each other: Python's lock, not the disk, is the
        # limit.
        return CORES

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of the container itself (an archive's order or comment)."""
        return ()

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object, or a part of it.

        Parameters
        ----------
        key
            Of the object.
        start
            First byte; negative counts from the object's end; None for all of it.
        length
            Number of bytes from `start`, or None for the rest.

        Returns
        -------
        bytes or None
            None where there is no such object. A part from a server is `TaggedBytes`.

        Raises
        ------
        AccessError
            Where the system or the server refuses.
        CorruptDataError
            Where the container is damaged at this object.
        UnsupportedError
            Where it is encrypted, or compressed in a way that is not known.
        OSError
            Where reading fails in any other way.
        """

    def find_revision(self, key: str) -> Revision | None:
        """Return the revision that an object has now.

        None where there is no such object, and where the source knows no revisions:
        then its objects count as unchanged while it is open.
        """

    def list_names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix` ("" for the root), sorted.

        None where the source cannot be listed (plain HTTP).
        """


def _same_source(source: Source) -> Source:
    return source


class WrappedSource(Source):
    """A source that reads by another; a subclass does more.

    Parameters
    ----------
    source
        To read.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    @override
    def name(self) -> str:
        return self._source.name

    @property
    @override
    def concurrency(self) -> int:
        return self._source.concurrency

    @property
    @override
    def problems(self) -> tuple[Problem, ...]:
        return self._source.problems

    @override
    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        return self._source.get(key, start, length)

    @override
    def find_revision(self, key: str) -> Revision | None:
        return self._source.find_revision(key)

    @override
    def list_names(self, prefix: str) -> tuple[str, ...] | None:
        return self._source.list_names(prefix)


class ReadLog(WrappedSource):
    """Read objects of a source, and keep the revision of each at its first read.

    Attributes
    ----------
    revisions
        Key -> revision, None for an object that was not there. About 300 bytes for
        each.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.revisions: dict[str, Revision | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process (a worker of dask) reads only, and never compares revisions.
        return _same_source, (self._source,)

    @override
    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        if key not in self.revisions:
            # Before the read: a change in between then counts as a change.
            self.revisions.setdefault(key, self._source.find_revision(key))
        return super().get(key, start, length)
