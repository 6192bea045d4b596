"""A file that only grows, by whole records: one is in it, or nothing of it is."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from napari_ngff.store.write.fsync import flush_open_file
from napari_ngff.store.write.named_errors import permitted
from napari_ngff.store.write.write_file import temporary_folder

if TYPE_CHECKING:
    from typing import IO

__all__ = ["AppendLog"]


class AppendLog:
    """Append to a file what a full disk must not cut in two.

    Parameters
    ----------
    file
        Open for writing, in binary, without a buffer: else bytes of a record that was
        given up could follow it. It is still to be closed by whoever opened it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        # One without a name has a number instead.
        named = isinstance(file.name, str)
        self._place = file.name if named else temporary_folder()
        self._end = os.fstat(file.fileno()).st_size

    def append(self, record: bytes) -> int:
        """Write a record; return where it begins.

        Raises
        ------
        OSError
            Where there is no room. The file ends where it did, or does by the next
            call.
        """
        unwritten = memoryview(record)
        with permitted(self._place):
            self._cut()
            self._file.seek(0, os.SEEK_END)
            try:
                while unwritten:
                    unwritten = unwritten[self._file.write(unwritten) :]
            except BaseException:
                with suppress(OSError):
                    self._cut()
                raise
        start, self._end = self._end, self._end + len(record)
        return start

    def _cut(self) -> None:
        """Remove what there is of a record that was given up."""
        if os.fstat(self._file.fileno()).st_size != self._end:
            self._file.truncate(self._end)

    def flush(self) -> None:
        """Return once all of it is on the disk."""
        with permitted(self._place):
            flush_open_file(self._file)
