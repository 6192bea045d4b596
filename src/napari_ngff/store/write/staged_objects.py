"""Objects that wait in a temporary file, to be saved later."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.store.sources.file_bytes import PositionFile
from napari_ngff.store.write.named_errors import name_errors
from napari_ngff.store.write.replace_file import nameless_file, temporary_folder
from napari_ngff.store.write.zip_writer import write_at

if TYPE_CHECKING:
    from napari_ngff.store.sources.source import Revision


@dataclass(frozen=True, slots=True)
class StagedObject:
    """An object that waits: its file, position and length there, and its revision."""

    file: PositionFile
    start: int
    length: int
    revision: Revision

    def read_part(self, part: slice) -> bytes:
        """Read a part of the object."""
        return self.file.read(self.start + part.start, part.stop - part.start)


class StagingFile:
    """A temporary file that only grows; safe to use from several threads.

    It has no name: it disappears with the last object in it, or with the process.

    Parameters
    ----------
    folder
        The file is on its file system.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._opened: PositionFile | None = None
        self._end = 0

    @property
    def _open_file(self) -> PositionFile:
        with self._lock:
            if self._opened is None:
                # The file object is closed with the `PositionFile`.
                self._opened = PositionFile("unsaved data", nameless_file(self._folder))
            return self._opened

    def append_bytes(self, raw: bytes, revision: Revision) -> StagedObject:
        """Append the bytes of an object, and the revision that it will have.

        Raises
        ------
        OSError
            Where the disk is full.
        """
        file = self._open_file
        with self._lock:
            start = self._end
            # Reserved under the lock; written without it, at a position that no one
            # else has.
            self._end += len(raw)
        with name_errors(self._folder or temporary_folder()):
            write_at(file.fileno(), raw, start)
        return StagedObject(file, start, len(raw), revision)
