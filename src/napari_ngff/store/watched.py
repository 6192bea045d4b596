"""A hierarchy that is written, and in which state each of its objects was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.store.folder import FolderSource
from napari_ngff.store.sink import mark_of

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from napari_ngff.metadata.model import Problem
    from napari_ngff.store.sink import Mark, Sink

__all__ = ["Watched", "WatchedFolder"]


class Watched:
    """Read objects, and note what state they were in when they were first read.

    Parameters
    ----------
    sink
        Whose `source` is read; see `Source`.

    Attributes
    ----------
    marks
        Key -> state, None for an object that was not there. About 200 bytes for each.
    """

    problems: tuple[Problem, ...] = ()

    def __init__(self, sink: Sink) -> None:
        self._sink, self._source = sink, sink.source
        self.marks: dict[str, Mark | None] = {}

    @property
    def name(self) -> str:
        """Path of the root."""
        return self._source.name

    @property
    def concurrency(self) -> int:
        """How many reads at once pay."""
        return self._source.concurrency

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        if key not in self.marks:
            # Before reading: what changes in between is then seen as a change.
            self.marks.setdefault(key, self._sink.mark(key))
        return self._source.get(key, start, length)

    def names(self, prefix: str) -> tuple[str, ...] | None:
        """Names directly below `prefix`, sorted."""
        return self._source.names(prefix)

    def store(self) -> Store:
        """Open the hierarchy as a read-only zarr store."""
        return self._source.store()


class WatchedFolder(FolderSource):
    """Read objects, and note what state they were in when they were first read.

    Attributes
    ----------
    marks
        Key -> state, None for an object that was not there. About 200 bytes for each.
    """

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.marks: dict[str, Mark | None] = {}

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        if key not in self.marks:
            # Before reading: what changes in between is then seen as a change.
            self.marks.setdefault(key, mark_of(f"{self.root}/{key}"))
        return super().get(key, start, length)
