"""Who is at work: files that are held, and turns that are taken.

The system lets go of both when a process ends in any way.
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

__all__ = ["hold", "holding", "is_held", "turn"]

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

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
        if sys.platform == "win32":
            import msvcrt

            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            except PermissionError as error:
                raise BlockingIOError(*error.args) from error
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise
    return file


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


@contextmanager
def holding(path: str) -> Iterator[None]:
    """Hold a file that is there only meanwhile, or that a killed process has left.

    Where the file system knows no locks, nobody is kept out.

    Raises
    ------
    BlockingIOError
        Where another holds it.
    OSError
        Where it cannot be opened.
    """
    file = _held(path)
    while file is not None and not _is_there(file, path):
        file.close()  # who held it has deleted it meanwhile
        file = _held(path)
    try:
        yield
    finally:
        if file is not None and sys.platform == "win32":
            file.close()  # nothing is deleted there that is open
        with suppress(OSError):
            os.unlink(path)
        if file is not None:
            file.close()


def _held(path: str) -> IO[bytes] | None:
    try:
        return hold(path)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return None
        raise


def _is_there(file: IO[bytes], path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


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
    with _turns[os.path.realpath(root)]:
        handle = None
        if sys.platform != "win32":
            import fcntl

            with suppress(OSError):
                handle = os.open(root, os.O_RDONLY)
                fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)
