"""Flushes files and folders: waits until they are on the disk."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterable
from queue import Queue
from threading import Thread
from typing import IO

from napari_ngff.store.threads import share_work
from napari_ngff.store.write.named_errors import name_errors

FLUSHERS = 8
"""Threads that wait for the disk: 1,400 files take 0.2 s in eight, 2 s in one."""

AHEAD = 256
"""Most files that wait to be flushed."""

AT_ONCE = 16
"""Files and folders that are flushed at once."""

UNKNOWN = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}
"""Answers of systems that cannot flush a folder."""


class FlushQueue:
    """Files that are flushed by threads, while others are written.

    Flushing is waiting, so it has its own threads beside those that compress.
    """

    def __init__(self) -> None:
        # Bounded: a writer that is faster than the disk waits for it.
        self._paths: Queue[str | None] = Queue(AHEAD)
        self._threads: list[Thread] = []
        self._errors: list[Exception] = []
        self._stopped = False

    def start_threads(self) -> None:
        """Start the threads; `finish_flushing` or `stop_flushing` ends them."""
        for _ in range(FLUSHERS):
            # Daemons: threads that are never stopped must not keep the process alive.
            thread = Thread(
                target=self._flush_files, name="napari-ngff-disk", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def add_file(self, path: str) -> None:
        """Let a file be flushed soon; from any thread.

        Raises
        ------
        OSError
            Where an earlier file could not be flushed.
        """
        self._raise_first()
        self._paths.put(path)

    def finish_flushing(self) -> None:
        """Wait until all files are on the disk.

        Raises
        ------
        OSError
            Where a file could not be flushed.
        """
        self._join_threads()
        self._raise_first()

    def stop_flushing(self) -> None:
        """Drop the files that still wait."""
        self._stopped = True
        self._join_threads()

    def _flush_files(self) -> None:
        while (path := self._paths.get()) is not None:
            if self._stopped:
                continue
            try:
                flush_file(path)
            except Exception as error:  # noqa: BLE001
                # Any error means that the file may not be on the disk.
                self._errors.append(error)

    def _join_threads(self) -> None:
        for _ in self._threads:
            # One None for each thread ends it, after the files before it.
            self._paths.put(None)
        while self._threads:
            self._threads.pop().join()

    def _raise_first(self) -> None:
        if self._errors:
            raise self._errors[0]


def flush_open_file(file: IO[bytes] | int) -> None:
    """Wait until the bytes of an open file, or the number of one, are on the disk.

    Raises
    ------
    OSError
        Where they do not get there; it names the file, if that knows its name.
    """
    try:
        os.fsync(file if isinstance(file, int) else file.fileno())
    except OSError as error:
        # The system was given a number, and names nothing.
        name = getattr(file, "name", None)
        if error.filename is None and isinstance(name, str | os.PathLike):
            raise OSError(error.errno, error.strerror, os.fspath(name)) from error
        raise


def flush_file(path: str) -> None:
    """Wait until the bytes of a file are on the disk.

    Raises
    ------
    OSError
        Where the disk fails or is full.
    """
    # Windows flushes only files that are open for writing.
    handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        with name_errors(path):
            flush_open_file(handle)
    finally:
        os.close(handle)


def flush_folder(path: str) -> None:
    """Wait until the names in a folder are on the disk, where the system can."""
    # Without it, a rename may be lost though the file itself was flushed.
    if sys.platform == "win32":
        return
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return  # removed, or not readable
    try:
        flush_open_file(handle)
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(handle)


def flush_all(flushes: Iterable[Callable[[], None]]) -> None:
    """Call functions that flush, many at once, so that the disk is waited for once."""
    pending = list(flushes)
    share_work(iter(pending), lambda flush: flush(), len(pending), AT_ONCE)
