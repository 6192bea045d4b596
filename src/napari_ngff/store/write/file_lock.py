"""Locks of files between processes.

The system releases all locks of a process that ends, also if it is killed.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections import defaultdict
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "hold_file",
    "hold_if_possible",
    "is_held",
    "lock_open_file",
    "take_turn",
    "turn_lock",
]

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Answers of file systems without locks."""

_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def hold_file(path: str | Path) -> IO[bytes]:
    """Lock a file until it is closed; it is made if there is none.

    Raises
    ------
    BlockingIOError
        Where it is locked, by this process or another.
    OSError
        Where it cannot be opened, or the file system has no locks.
    """
    # To append, which neither empties a file that is there nor needs one.
    file = open(path, "ab", buffering=0)  # noqa: SIM115
    try:
        # A lock of `flock`, which belongs to the open file: a second opening in this
        # process is refused, too.
        _lock_handle(file.fileno())
    except OSError:
        file.close()
        raise
    return file


def _lock_handle(handle: int, wait: bool = False) -> None:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            # Windows reports a locked file as a lack of permission.
            raise BlockingIOError(*error.args) from error
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def hold_if_possible(path: str | Path) -> IO[bytes]:
    """Lock a file as `hold_file`; only open it where there are no locks."""
    try:
        return hold_file(path)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return open(path, "ab", buffering=0)
        raise


def is_held(path: str | Path) -> bool:
    """Return whether a file exists and is locked."""
    if not os.path.exists(path):
        return False
    try:
        hold_file(path).close()
    # Locked means that its owner runs; any other error says nothing, and counts as not
    # held.
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def lock_open_file(handle: int, wait: bool = False) -> bool:
    """Lock an open file until it is closed; return whether it is locked."""
    # On Windows no other program may replace a file that is open.
    if sys.platform == "win32":
        return True
    try:
        _lock_handle(handle, wait)
    except OSError:
        return False
    return True


def turn_lock(path: str) -> threading.Lock:
    """Return the lock by which threads of this process take turns at a path."""
    return _turns[os.path.realpath(path)]


@contextmanager
def take_turn(root: str) -> Iterator[None]:
    """Change documents of a hierarchy while no one else does; not to be nested.

    Of two processes that extend the same list at the same time, one change would be
    lost. Other processes wait as well, except on Windows, and on file systems without
    locks.

    Parameters
    ----------
    root
        Its folder.
    """
    # First the threads of this process, for systems without locks of files.
    with turn_lock(root):
        handle = None
        if sys.platform != "win32":
            with suppress(OSError):
                # The folder itself is locked: a lock file would be one more object in
                # the hierarchy.
                handle = os.open(root, os.O_RDONLY)
                lock_open_file(handle, wait=True)
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)
