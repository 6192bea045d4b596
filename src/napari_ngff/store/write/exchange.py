"""Renames that Python does not have: a swap of two paths, and one to a free name.

Linux has ``renameat2`` (glibc 2.28), macOS ``renamex_np``; Windows and some network
file systems have nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from typing import Any

WORKING_FOLDER = -100
"""AT_FDCWD: paths are relative to the working folder."""

SWAP = 2
"""RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS."""

FREE = 4 if sys.platform == "darwin" else 1
"""RENAME_NOREPLACE of Linux, RENAME_EXCL of macOS."""

# Of old kernels, and of file systems such as NFS and FAT.
CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def exchange_paths(first: str, second: str) -> bool:
    """Swap the names of two files or folders; neither is missing at any moment.

    Returns
    -------
    bool
        False where the system cannot do that; nothing is changed then.

    Raises
    ------
    OSError
        Where it refuses.
    """
    return _try_rename(first, second, SWAP)


def rename_to_free(first: str, second: str) -> bool:
    """Rename a file to a name that does not exist.

    Returns
    -------
    bool
        False where the system cannot do that; nothing is changed then.

    Raises
    ------
    FileExistsError
        Where something is there.
    OSError
        Where it refuses.
    """
    return _try_rename(first, second, FREE)


def _try_rename(first: str, second: str, way: int) -> bool:
    number = _call_rename(os.fsencode(first), os.fsencode(second), way)
    if number in CANNOT:
        return False
    if number:
        raise OSError(number, os.strerror(number), first, None, second)
    return True


@cache
def _load_library() -> Any:
    # None is the C library of the process; `use_errno` keeps the error apart for each
    # thread.
    return ctypes.CDLL(None, use_errno=True)


def _call_rename(first: bytes, second: bytes, way: int) -> int:
    """Return the number of the system's error, 0 for none."""
    if sys.platform == "win32":
        return errno.ENOSYS
    try:
        if sys.platform == "darwin":
            failed = _load_library().renamex_np(first, second, way)
        else:
            failed = _load_library().renameat2(
                WORKING_FOLDER, first, WORKING_FOLDER, second, way
            )
    # The library is older than the call.
    except AttributeError:
        return errno.ENOSYS
    return ctypes.get_errno() if failed else 0
