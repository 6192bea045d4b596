"""Locks of files, by which processes learn of each other.

The system lets go of all of them when a process ends in any way.
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
    "hold",
    "hold_if_possible",
    "is_held",
    "lock_open_file",
    "thread_turn",
    "turn",
]

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Answers of file systems that know no locks."""

_turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)


def hold(path: str | Path) -> IO[bytes]:
    """Hold a file, which is made where there is none, until it is closed.

    Raises
    ------
    BlockingIOError
        Where another holds it, in this process or another.
    OSError
        Where it cannot be opened, or the file system knows no locks.
    """
    file = open(path, "ab", buffering=0)  # noqa: SIM115
    try:
        _lock(file.fileno())
    except OSError:
        file.close()
        raise
    return file


def _lock(handle: int, wait: bool = False) -> None:
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from error
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def hold_if_possible(path: str | Path) -> IO[bytes]:
    """Hold a file as `hold` does; merely open it where there are no locks."""
    try:
        return hold(path)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return open(path, "ab", buffering=0)
        raise


def is_held(path: str | Path) -> bool:
    """Tell whether somebody holds a file that is there."""
    if not os.path.exists(path):
        return False
    try:
        hold(path).close()
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def lock_open_file(handle: int, wait: bool = False) -> bool:
    """Lock an open file until it is closed; return whether it is.

    On Windows, where nobody may replace what is open, that is True without a lock.
    """
    if sys.platform == "win32":
        return True
    try:
        _lock(handle, wait)
    except OSError:
        return False
    return True


def thread_turn(path: str) -> threading.Lock:
    """Lock by which threads of this process take turns at a place."""
    return _turns[os.path.realpath(path)]


@contextmanager
def turn(root: str) -> Iterator[None]:
    """Change documents of a hierarchy one after another, not to be nested.

    Else one of two that extend the same list at the same time would be lost. Other
    processes wait, too, except on Windows, and where the file system knows no locks.

    Parameters
    ----------
    root
        Its folder.
    """
    with thread_turn(root):
        handle = None
        if sys.platform != "win32":
            with suppress(OSError):
                handle = os.open(root, os.O_RDONLY)
                lock_open_file(handle, wait=True)
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)
