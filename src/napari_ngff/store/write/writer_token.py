"""Names of unfinished files, which show whether their writer still runs.

A file is written to ``.<name>.<token>-<number>.aside`` and renamed. The token has the
machine and the process of the writer.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import socket
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from napari_ngff.store.write.file_lock import is_held

SUFFIX = ".aside"
"""Suffix of unfinished files and folders, which readers of zarr ignore."""

STALE = 60
"""Seconds after which a writer of another machine counts as ended."""

FORM = re.compile(r"(?P<machine>[0-9a-f]{8})p(?P<process>[0-9a-f]+)r[0-9a-f]{8}")

OURS = re.compile(rf"\..+\.[0-9a-f]{{8}}[0-9a-fpr]*-[0-9a-f]+{re.escape(SUFFIX)}")
"""The whole form: files of users may have the same suffix."""

_numbers = itertools.count()


def new_token() -> str:
    """Make the token of a writer in this process."""
    # The random part distinguishes two writers of one process, and processes that got
    # the same number.
    return f"{_machine_code()}p{os.getpid():x}r{secrets.token_hex(4)}"


def aside_name(path: str, token: str) -> str:
    """Make a name beside a file, which no program reads."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{token}-{next(_numbers):x}{SUFFIX}")


def is_aside(name: str) -> bool:
    """Return whether a file or folder of that name is one that is being written."""
    return OURS.fullmatch(name) is not None


def is_left(path: str, dead: Collection[str] = ()) -> bool:
    """Return whether a file is left over from a process that ended before it was done.

    Parameters
    ----------
    path
        Of the file.
    dead
        Tokens of writers that are known to have ended.

    Raises
    ------
    OSError
        Where it does not exist.
    """
    name = os.path.basename(path)
    # A file that is not surely ours is never touched.
    if not is_aside(name):
        return False
    token = name.removesuffix(SUFFIX).rpartition(".")[2].partition("-")[0]
    # Noted in a journal that no process holds: no need to ask the system.
    if token in dead:
        return True
    alive = is_alive(token)
    if alive is None:
        return os.stat(path).st_mtime < time.time() - STALE and not is_held(path)
    return not alive


def remove_left(folder: str, dead: Collection[str] = ()) -> None:
    """Remove unfinished files of ended processes from a folder, as far as it can be.

    See `is_left`.
    """
    with suppress(OSError):  # it cannot be listed
        for name in os.listdir(folder):
            if name.endswith(SUFFIX):
                with suppress(OSError):
                    if is_left(f"{folder}/{name}", dead):
                        os.unlink(f"{folder}/{name}")


def is_alive(token: str) -> bool | None:
    """Return whether a writer of this machine runs; None for any other token."""
    form = FORM.fullmatch(token)
    # On Windows `os.kill` with 0 ends the process.
    if form is None or form["machine"] != _machine_code() or sys.platform == "win32":
        return None
    try:
        os.kill(int(form["process"], 16), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # the process belongs to another user
    return True


@cache
def _machine_code() -> str:
    """Return a code of this machine and its start."""
    # Others may see the same files. After a restart, and in another container, the
    # numbers of processes mean other processes.
    known = [socket.gethostname()]
    for source in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            path = Path(source)
            known.append(os.readlink(path) if path.is_symlink() else path.read_text())
        except OSError:
            known.append("")
    return sha256("\n".join(known).encode()).hexdigest()[:8]
