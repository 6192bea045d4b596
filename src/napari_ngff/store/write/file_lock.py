"""Locks of files between processes.

The system releases all locks of a process that ends, also if it is killed.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import IO

from napari_ngff.store.data_folder import data_folder

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Answers of file systems without locks."""

PAUSE = 0.002
"""Seconds between two attempts to lock a file."""

PATIENCE = 5
"""Seconds of attempts where nobody holds a file, and others ask whether it is held."""

QUESTION = 0.1
"""Seconds that others ask at most, on Windows, where asking takes the lock."""

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
        last = time.monotonic() + PATIENCE
        while True:
            try:
                # A lock of `flock`, which belongs to the open file: a second opening
                # in this process is refused, too.
                _lock_handle(file.fileno())
                return file
            except BlockingIOError:
                # Refused also while somebody only asks whether it is held.
                if is_held(path) or time.monotonic() > last:
                    raise
            time.sleep(PAUSE)
    except OSError:
        file.close()
        raise


def _lock_handle(handle: int, *, shared: bool = False, wait: bool = False) -> None:
    """Lock an open file; `shared` with others who ask, and not with who holds it."""
    if sys.platform == "win32":
        import msvcrt

        # Locks are never shared: a refusal counts if it lasts longer than a question.
        last = time.monotonic() + QUESTION
        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
                break
            except PermissionError as error:
                # Windows reports a locked file as a lack of permission.
                if not wait and time.monotonic() > last:
                    raise BlockingIOError(*error.args) from error
            time.sleep(PAUSE)
    else:
        import fcntl

        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)


def hold_if_possible(path: str | Path) -> IO[bytes]:
    """Lock a file as `hold_file`; only open it where there are no locks."""
    try:
        return hold_file(path)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return open(path, "ab", buffering=0)
        raise


def is_held(path: str | Path) -> bool:
    """Return whether a file exists and is locked; who locks it meanwhile can."""
    try:
        with open(path, "rb") as file:
            _lock_handle(file.fileno(), shared=True)
    # Locked means that its owner runs; any other error says nothing, and counts as not
    # held.
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def lock_open_file(handle: int, wait: bool = False) -> bool:
    """Lock an open file until it is closed; return whether it is locked."""
    try:
        _lock_handle(handle, wait=wait)
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
    lost. Other processes wait as well, except on file systems without locks.

    Parameters
    ----------
    root
        Its folder.
    """
    # First the threads of this process, for systems without locks of files.
    with turn_lock(root):
        handle = _lock_turn(root)
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)


def _lock_turn(root: str) -> int | None:
    """Lock what is locked for a turn; None where there are no locks of files."""
    # The folder itself: a file in it would be one more object in the hierarchy.
    for opening in (partial(os.open, flags=os.O_RDONLY), _open_turn_file):
        with suppress(OSError):
            handle = opening(root)
            if lock_open_file(handle, wait=True):
                return handle
            os.close(handle)
    return None


def _open_turn_file(root: str) -> int:
    # Windows locks no folders, and neither do networks whose files can be locked.
    folder = data_folder() / "turns"
    folder.mkdir(parents=True, exist_ok=True)
    place = os.path.normcase(os.path.realpath(root))
    name = sha256(place.encode()).hexdigest()[:32]
    return os.open(folder / name, os.O_RDWR | os.O_CREAT)
