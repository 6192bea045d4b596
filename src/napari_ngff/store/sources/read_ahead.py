"""Stores that are read through others, and objects that are asked for ahead.

A server is asked at once for what would take one round trip after the other.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from napari_ngff.errors import OMEZarrError
from napari_ngff.store.store import Store
from napari_ngff.store.threads import ask_pool, share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future
    from contextlib import AbstractContextManager

    from napari_ngff.metadata.model import Problem
    from napari_ngff.store.sources.blob import Blob, Revision
    from napari_ngff.store.store import Revisions

PATIENCE = 2.0
"""Seconds for what only saves time: a server may never answer."""

Result = TypeVar("Result")


def call_at_once(source: Store, calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Call functions that read from a source: at once from a server, else in turn.

    Local documents are read faster than a thread wakes up.

    Returns
    -------
    list
        Their results, in the order of the functions.

    Raises
    ------
    Exception
        The first one of the functions.
    """
    results: dict[int, Result] = {}

    def call_one(number: int) -> None:
        results[number] = calls[number]()

    waits = source.traits.waits_at_once
    share_work(iter(range(len(calls))), call_one, len(calls), waits)
    return [results[number] for number in range(len(calls))]


class ReadAhead:
    """Reads objects of a source, and asks a server for them before they are needed.

    Parameters
    ----------
    source
        To read.
    """

    def __init__(self, source: Store) -> None:
        self.source = source
        self._answers: dict[str, Future[bytes | None]] = {}

    def ask(self, keys: Iterable[str]) -> None:
        """Begin to read objects; the first is left to whoever reads it."""
        if not self.source.traits.is_remote:
            return
        for key in list(keys)[1:]:
            if key not in self._answers:
                most = self.source.traits.at_once
                answer = ask_pool(most, partial(self.source.get, key))
                if answer is not None:
                    self._answers[key] = answer

    def get(self, key: str) -> bytes | None:
        """Read an object; errors of those that are never read are never raised."""
        answer = self._answers.get(key)
        # One that has not begun is read here: all threads may wait for this one.
        if answer is None or answer.cancel():
            return self.source.get(key)
        return answer.result()

    def get_soon(self, key: str) -> bytes | None:
        """Return what was asked for if it comes soon; None for all else."""
        answer = self._answers.get(key)
        with suppress(OMEZarrError, OSError):
            return None if answer is None else answer.result(PATIENCE)
        return None


def _same_source(source: Store) -> Store:
    return source


class WrappedStore(Store):
    """A source that reads by another; a subclass does more.

    Parameters
    ----------
    source
        To read.
    """

    def __init__(self, source: Store) -> None:
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
    def reading_ahead(self, keys: Sequence[str]) -> AbstractContextManager[None]:
        return self._source.reading_ahead(keys)

    @override
    def find_revision(self, key: str) -> Revision | None:
        return self._source.find_revision(key)

    @override
    def list_names(self, prefix: str) -> tuple[str, ...] | None:
        return self._source.list_names(prefix)

    @override
    def list_keys(self, prefix: str) -> Iterable[str]:
        return self._source.list_keys(prefix)


class ReadLog(WrappedStore):
    """Read objects of a source, and keep the revision of each at its first read.

    Parameters
    ----------
    source
        To read.
    revisions
        Key -> revision, None for an object that was not there; by default none is known
        yet. About 300 bytes for each.
    """

    def __init__(
        self, source: Store, revisions: dict[str, Revision | None] | None = None
    ) -> None:
        super().__init__(source)
        self.revisions = {} if revisions is None else revisions

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

    def list_changed(self, keys: Iterable[str] | None = None) -> Revisions:
        """List objects that others have changed since, and their revisions now.

        Parameters
        ----------
        keys
            Of the objects; by default all that were read.
        """
        asked = list(self.revisions if keys is None else keys)
        calls = [partial(self._source.find_revision, key) for key in asked]
        found = zip(asked, call_at_once(self._source, calls), strict=True)
        return {key: now for key, now in found if now != self.revisions.get(key)}
