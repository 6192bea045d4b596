"""Waits until files, and the names in folders, are on the disk."""

from __future__ import annotations

import errno
import os
import sys
from queue import Queue
from threading import Thread
from typing import IO

from napari_ngff.store.write.named_errors import permitted

__all__ = ["FLUSHERS", "Flushing", "flush_file", "flush_folder", "flush_open_file"]

FLUSHERS = 8
"""Threads that wait for the disk: 1,400 files take 0.2 s in eight, 2 s in one."""

AHEAD = 256
"""Files that wait to be flushed at most."""

UNKNOWN = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}
"""Answers of systems that cannot flush a folder."""


class Flushing:
    """Files on their way to the disk, while others are made.

    That is mostly waiting, which threads of its own do beside those that compress.
    """

    def __init__(self) -> None:
        self._paths: Queue[str | None] = Queue(AHEAD)
        self._threads: list[Thread] = []
        self._errors: list[Exception] = []
        self._stopped = False

    def start(self) -> None:
        """Start the threads, which end by `finish` or `stop`."""
        for _ in range(FLUSHERS):
            # A daemon, so that whoever forgets to stop it does not keep the process.
            thread = Thread(target=self._work, name="napari-ngff-disk", daemon=True)
            thread.start()
            self._threads.append(thread)

    def add(self, path: str) -> None:
        """Have a file flushed soon; from any thread.

        Raises
        ------
        OSError
            Where one of those before did not get there.
        """
        self._raise()
        self._paths.put(path)

    def finish(self) -> None:
        """Wait until all are on the disk.

        Raises
        ------
        OSError
            Where one did not get there.
        """
        self._join()
        self._raise()

    def stop(self) -> None:
        """Forget about those that nobody has begun with."""
        self._stopped = True
        self._join()

    def _work(self) -> None:
        while (path := self._paths.get()) is not None:
            if self._stopped:
                continue
            try:
                flush_file(path)
            except Exception as error:  # noqa: BLE001
                # Whatever it is: that file may not be on the disk.
                self._errors.append(error)

    def _join(self) -> None:
        for _ in self._threads:
            self._paths.put(None)
        while self._threads:
            self._threads.pop().join()

    def _raise(self) -> None:
        if self._errors:
            raise self._errors[0]


def flush_open_file(file: IO[bytes] | int) -> None:
    """Wait until the bytes of an open file, or the number of one, are on the disk."""
    os.fsync(file if isinstance(file, int) else file.fileno())


def flush_file(path: str) -> None:
    """Wait until the bytes of a file are on the disk.

    Raises
    ------
    OSError
        Where they do not get there.
    """
    # Windows flushes only what is open for writing.
    handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        with permitted(path):
            flush_open_file(handle)
    finally:
        os.close(handle)


def flush_folder(path: str) -> None:
    """Wait until the names in a folder are on the disk, where the system can."""
    if sys.platform == "win32":
        return
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return  # gone, or not to be listed
    try:
        flush_open_file(handle)
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(handle)
