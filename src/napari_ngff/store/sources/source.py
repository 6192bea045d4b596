"""Where bytes come from: one small read-only contract.

A *key* is the path of an object relative to the hierarchy's root, with ``/`` and no
leading slash, such as ``"A/1/0/zarr.json"``. Nothing behind it can write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Problem
    from napari_ngff.store.sources.revision import Revision

__all__ = ["ReadLog", "Source"]


@runtime_checkable
class Source(Protocol):
    """The objects of one hierarchy; safe to use from several threads at once."""

    @property
    def name(self) -> str:
        """Path or URL of the root for messages, without a trailing slash."""

    @property
    def concurrency(self) -> int:
        """How many reads at once pay: cores for a local one, many for a remote one."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with the container itself (an archive's order or comment)."""

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
            None where there is no such object.

        Raises
        ------
        AccessError
            Where the system or the server refuses.
        CorruptDataError
            Where the container is damaged at this object.
        OSError
            Where reading fails in any other way.
        """

    def revision(self, key: str) -> Revision | None:
        """Tell the revision that an object has now.

        None where there is no such object, and where the source does not know: then
        what it has is taken not to change while it is open.
        """

    def names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix` ("" for the root), sorted.

        None where the source cannot be listed (plain HTTP).
        """


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
