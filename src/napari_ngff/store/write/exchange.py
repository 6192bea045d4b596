"""Swaps two folders in one step, where the system can.

Python can only rename a folder to a name that is free. Linux has ``renameat2`` (glibc
2.28), macOS ``renamex_np``; Windows and some network file systems have nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

__all__ = ["exchange"]

HERE = -100
"""AT_FDCWD: paths are relative to the working folder."""

SWAP = 2
"""RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS."""

CANNOT = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}


def exchange(first: str, second: str) -> bool:
    """Swap what two paths name, so that nobody finds either of them missing.

    Returns
    -------
    bool
        False where the system cannot do that; nothing is changed then.

    Raises
    ------
    OSError
        Where it refuses.
    """
    number = _swap(os.fsencode(first), os.fsencode(second))
    if number in CANNOT:
        return False
    if number:
        raise OSError(number, os.strerror(number), first, None, second)
    return True


def _swap(first: bytes, second: bytes) -> int:
    """Return the number of the system's error, 0 for none."""
    if sys.platform == "win32":
        return errno.ENOSYS
    library = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(first, second, SWAP)
        else:
            failed = library.renameat2(HERE, first, HERE, second, SWAP)
    except AttributeError:
        return errno.ENOSYS
    return ctypes.get_errno() if failed else 0
