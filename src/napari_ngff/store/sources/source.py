"""The interface through which all stores are read.

A *key* is the path of an object relative to the hierarchy's root, with ``/`` and no
leading slash, such as ``"A/1/0/zarr.json"``. Sources cannot write; see `Transaction`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from napari_ngff.store.threads import CORES, LOCAL_CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.errors import OMEZarrError
    from napari_ngff.metadata.model import Problem


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


class Source(ABC):
    """The objects of one hierarchy; safe to use from several threads at once."""

    traits = Traits()

    @property
    @abstractmethod
    def name(self) -> str:
        """Path or URL of the root for messages, without a trailing slash."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of the container itself (an archive's order or comment)."""
        return ()

    def check_container(self, stated: str | None) -> Iterable[Problem]:
        """Compare the container with its rules; list `problems`, and others.

        Parameters
        ----------
        stated
            Version that the metadata of the root group state.
        """
        return self.problems

    def find_file(self, before: Revision | None) -> Revision | None:
        """Return the revision of the file that holds all objects; None without one.

        Parameters
        ----------
        before
            What was returned when it was opened; a server is asked whether it still has
            that one. None for the first call.

        Raises
        ------
        FileChangedError
            Where a server has another one now.
        """

    def explain_missing(self, path: str) -> OMEZarrError | None:
        """Explain that a folder has no document of zarr; None where it may be so."""

    def close(self) -> None:
        """Close what is open; also done when the object is no longer used."""

    @abstractmethod
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        """Read an object, or a part of it, and its revision.

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
        Blob or None
            None where there is no such object.

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

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read the bytes of an object, or of a part of it; see `read`."""
        blob = self.read(key, start, length)
        return None if blob is None else blob.data

    @abstractmethod
    def find_revision(self, key: str) -> Revision | None:
        """Return the revision that an object has now.

        None where there is no such object, and where it would take a request or the
        source knows no revisions: then its objects count as unchanged while it is open.
        """

    def ask_revision(self, key: str) -> Revision | None:
        """Return the revision that an object has now, also if it takes a request."""
        return self.find_revision(key)

    @abstractmethod
    def list_names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix` ("" for the root), sorted.

        None where the source cannot be listed (plain HTTP).
        """

    def list_keys(self, prefix: str) -> Iterable[str]:
        """List the keys of all objects below a folder, at any depth."""
        for name in self.list_names(prefix) or ():
            key = f"{prefix}/{name}" if prefix else name
            # A name with names below it is a folder; there is no other way to ask.
            if self.list_names(key):
                yield from self.list_keys(key)
            else:
                yield key


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
        self.traits = source.traits

    @property
    @override
    def name(self) -> str:
        return self._source.name

    @property
    @override
    def problems(self) -> tuple[Problem, ...]:
        return self._source.problems

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        return self._source.read(key, start, length)

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
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        blob = super().read(key, start, length)
        self.revisions.setdefault(key, None if blob is None else blob.revision)
        return blob
