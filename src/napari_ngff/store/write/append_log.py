"""A file to which whole records are appended: all of a record is in it, or nothing."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from napari_ngff.errors import name_errors
from napari_ngff.store.write.fsync import flush_open_file
from napari_ngff.store.write.replace_file import temporary_folder, write_whole


def append_record(path: str | Path, record: bytes) -> None:
    """Append a record to a file, which is made where there is none."""
    with name_errors(str(path)), open(path, "ab", buffering=0) as file:
        AppendLog(file).append(record)


class AppendLog:
    """Append records to a file; a full disk does not cut them in two.

    Parameters
    ----------
    file
        Open for writing, in binary, without a buffer, from which bytes of a failed
        record could follow later. The caller closes it.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        # The name of a temporary file is a number.
        named = isinstance(file.name, str)
        self._place = file.name if named else temporary_folder()
        self._end = os.fstat(file.fileno()).st_size

    def append(self, record: bytes) -> int:
        """Write a record; return where it begins.

        Raises
        ------
        OSError
            Where there is no room. The file is cut back to its old end, now or by the
            next call.
        """
        with name_errors(self._place):
            # What an earlier call could not cut off.
            self._cut_unfinished()
            self._file.seek(0, os.SEEK_END)
            try:
                write_whole(self._file, record)
            except BaseException:
                with suppress(OSError):
                    self._cut_unfinished()
                raise
        start, self._end = self._end, self._end + len(record)
        return start

    def _cut_unfinished(self) -> None:
        """Remove the bytes of a record that failed."""
        if os.fstat(self._file.fileno()).st_size != self._end:
            self._file.truncate(self._end)

    def flush(self) -> None:
        """Wait until the file is on the disk."""
        with name_errors(self._place):
            flush_open_file(self._file)
