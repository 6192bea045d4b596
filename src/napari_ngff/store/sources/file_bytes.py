"""The bytes of a file, read by position: of a local file, or of one on a server."""

from __future__ import annotations

import os
import stat
import threading
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from napari_ngff.errors import AccessError, CorruptDataError, NodeNotFoundError
from napari_ngff.store.limits import check_document_size
from napari_ngff.store.sources.blob import Blob, Revision, clip_range
from napari_ngff.store.threads import CORES

OPEN_FLAGS = (
    os.O_RDONLY
    # Windows would translate line ends, and stop at a byte 26.
    | getattr(os, "O_BINARY", 0)
    # Without it, opening a named pipe waits for ever.
    | getattr(os, "O_NONBLOCK", 0)
)

Span = tuple[int, int]
"""Bytes of a file: the first, and their number."""


class PositionFile:
    """A file of this computer.

    Parameters
    ----------
    path
        Of the file.
    handle
        Of the file if it is open.

    Attributes
    ----------
    name
        Path or address, without its secrets.
    size
        Number of bytes.
    revision
        State of the file when it was opened.
    is_pinned
        Whether all that is read is of `revision`.
    concurrency
        Useful number of reads at the same time.
    damage_remedy
        What to do where the file is damaged.
    """

    is_pinned = True
    concurrency = CORES
    damage_remedy = "Copy or download it again: it may be incomplete."

    def __init__(self, path: str, handle: Any = None) -> None:
        self.name = path
        try:
            # Closed by finalize.
            handle = handle or open(path, "rb", buffering=0)  # noqa: SIM115
        except FileNotFoundError as error:
            raise NodeNotFoundError(f"There is no file {path}.") from error
        except PermissionError as error:
            msg = f"No permission to read {path}."
            raise AccessError(msg, remedy="Ask its owner, or copy the data.") from error
        self._handle = handle
        # Windows has no read that leaves the position of the file alone.
        self._turn = nullcontext() if hasattr(os, "pread") else threading.Lock()
        self.close = weakref.finalize(self, handle.close)
        status = os.fstat(handle.fileno())
        self.size = status.st_size
        self.revision = Revision.of_stat(status)

    def fileno(self) -> int:
        """Return the number that the system gave to the open file."""
        number: int = self._handle.fileno()
        return number

    def read(self, start: int, length: int) -> bytes:
        """Read `length` bytes from `start`; fewer only at the end of the file."""
        with self._turn:
            return read_at(self._handle.fileno(), start, length)

    def read_spans(self, spans: Sequence[Span]) -> list[bytes]:
        """Read several parts, one after the other."""
        return [self.read(start, length) for start, length in spans]

    def read_into(self, start: int, buffer: memoryview) -> int:
        """Read bytes from `start` into a buffer; return how many."""
        if not hasattr(os, "preadv"):  # as on Windows
            data = self.read(start, len(buffer))
            buffer[: len(data)] = data
            return len(data)
        done, step = 0, 1
        while step and done < len(buffer):
            step = os.preadv(self.fileno(), [buffer[done:]], start + done)
            done += step
        return done


def read_at(handle: int, start: int, length: int) -> bytes:
    """Read bytes of an open file; fewer only at its end."""
    data = _read_some(handle, start, length)
    # One call gives 2 GiB at most on Linux.
    while 0 < len(data) < length:
        more = _read_some(handle, start + len(data), length - len(data))
        if not more:
            break
        data += more
    return data


def _read_some(handle: int, start: int, length: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(handle, length, start)
    os.lseek(handle, start, os.SEEK_SET)
    return os.read(handle, length)


def read_file(
    path: str, start: int | None = None, length: int | None = None
) -> Blob | None:
    """Read a file of this computer, or a part of it; see `Store.read`."""
    try:
        handle = os.open(path, OPEN_FLAGS)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        # Windows refuses permission where another system says it is a folder.
        if os.path.isdir(path):
            return None
        msg = f"No permission to read {path}."
        raise AccessError(msg, remedy="Ask its owner, or copy the data.") from error
    try:
        # Of the open file, not of its path: a save may replace the file meanwhile.
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            return None
        if not stat.S_ISREG(status.st_mode):
            msg = f"{path} is a pipe or a device, not a file. It is not read."
            raise CorruptDataError(msg)
        if start is None:
            check_document_size(path, status.st_size)
        part = clip_range(start or 0, length, status.st_size)
        data = read_at(handle, part.start, part.stop - part.start)
        return Blob(data, Revision.of_stat(status))
    finally:
        os.close(handle)


def why_not_writable(*paths: str) -> str:
    """Describe which path this user may not write; "" for none of them."""
    for path in paths:
        # Only asked, never tried: opening labels must not change the folder.
        if not os.access(path, os.W_OK):
            return f"there is no permission to write {path}."
    return ""


_seeking = threading.Lock()


def write_at(handle: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of `data` at an offset, from any thread."""
    unwritten = memoryview(data)
    while unwritten:
        if hasattr(os, "pwrite"):
            step = os.pwrite(handle, unwritten, offset)
        else:  # Windows
            with _seeking:
                os.lseek(handle, offset, os.SEEK_SET)
                step = os.write(handle, unwritten)
        unwritten, offset = unwritten[step:], offset + step
