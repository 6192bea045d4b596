"""Objects that wait in a file without a name to become part of an archive."""

from __future__ import annotations

import threading
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.store.sources.revision import Revision
from napari_ngff.store.sources.zip_directory import PositionFile
from napari_ngff.store.write.named_errors import permitted
from napari_ngff.store.write.write_file import nameless_file
from napari_ngff.store.write.zip_writer import write_at

if TYPE_CHECKING:
    from napari_ngff.store.compression import Buffer

__all__ = ["Stage", "Staged"]


@dataclass(frozen=True, slots=True)
class Staged:
    """Bytes of an object: the file, where they are in it, and their CRC-32."""

    file: PositionFile
    start: int
    length: int
    crc: int

    @property
    def revision(self) -> Revision:
        """The revision that the object will have in the archive."""
        return Revision(self.length, self.crc)

    def read(self, part: slice) -> bytes:
        """Read some of them."""
        return self.file.read(self.start + part.start, part.stop - part.start)


class Stage:
    """A temporary file that only grows, and is gone when nobody has any of it.

    So it is, too, whatever ends the process.

    Safe to use from several threads.

    Parameters
    ----------
    folder
        On whose file system it is.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._opened: PositionFile | None = None
        self._end = 0

    @property
    def _file(self) -> PositionFile:
        with self._lock:
            if self._opened is None:
                # The file object is closed with the `PositionFile`.
                self._opened = PositionFile("unsaved data", nameless_file(self._folder))
            return self._opened

    def put(self, data: Buffer) -> Staged:
        """Append bytes.

        Raises
        ------
        OSError
            Where the disk is full.
        """
        raw, file = bytes(data), self._file
        with self._lock:
            start = self._end
            self._end += len(raw)
        with permitted(self._folder or "temporary files of the system"):
            write_at(file.fileno(), raw, start)
        return Staged(file, start, len(raw), zlib.crc32(raw))
