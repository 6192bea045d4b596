"""A folder that remembers in which state it read each object."""

from __future__ import annotations

from napari_ngff.store.folder import FolderSource
from napari_ngff.store.sink import Mark, mark_of

__all__ = ["WatchedFolder"]


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
