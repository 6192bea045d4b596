"""The one place where a file is written aside and gets its name."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from napari_ngff.store.write.fsync import flush_file, flush_folder
from napari_ngff.store.write.named_errors import permitted
from napari_ngff.store.write.writer_token import PART, new_token, remove_left

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from napari_ngff.store.compression import Buffer

__all__ = [
    "aside_name",
    "nameless_file",
    "remove",
    "rename",
    "replace_file",
    "require_writable",
    "write_aside",
    "written_aside",
]

WRITING = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

_numbers = itertools.count()


def aside_name(path: str, token: str) -> str:
    """Make a name beside a file, under which nobody reads."""
    return f"{path}.{token}-{next(_numbers):x}{PART}"


def write_aside(path: str, data: Buffer, token: str, flush: bool) -> str:
    """Write bytes beside the place of a file, in a folder that is there.

    Returns
    -------
    str
        Where they are.

    Raises
    ------
    AccessError, OSError
        Where the system refuses; nothing is left.
    """
    aside = aside_name(path, token)
    with permitted(path):
        handle = os.open(aside, WRITING, 0o666)
        try:
            with os.fdopen(handle, "wb", buffering=0) as file:
                left = memoryview(bytes(data))
                while left:
                    # One call takes 2 GiB at most on Linux, and less on a full disk.
                    left = left[os.write(file.fileno(), left) :]
                if flush:
                    os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                os.unlink(aside)
            raise
    return aside


def replace_file(path: str | Path, data: Buffer) -> None:
    """Write a file whole, or leave what is there; its folder is made.

    Of a link, what it leads to. It survives a loss of power.

    Raises
    ------
    AccessError, OSError
        Where the system refuses.
    """
    path = os.path.realpath(path)
    with permitted(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with written_aside(path) as aside, open(aside, "xb") as file:
        file.write(bytes(data))


@contextmanager
def written_aside(path: str | Path, *, flush: bool = True) -> Iterator[str]:
    """Let a file be written beside `path`, which it replaces in the end.

    Parameters
    ----------
    path
        Of the file, or of a link to it.
    flush
        Whether it has to survive a loss of power; else it may be lost whole.

    Yields
    ------
    str
        Where to write it. What is raised leaves `path` as it was.
    """
    path = os.path.realpath(path)
    folder, aside = os.path.dirname(path), aside_name(path, new_token())
    try:
        if flush:
            with suppress(OSError):
                remove_left(folder)
        with permitted(path):
            yield aside
            if flush:
                flush_file(aside)
        rename(aside, path)
        if flush:
            flush_folder(folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise


def require_writable(path: str | Path) -> None:
    """Refuse now what writing would refuse later: beside `path` an empty file is made.

    Raises
    ------
    AccessError, OSError
        Where the system refuses.
    """
    os.unlink(write_aside(os.path.realpath(path), b"", new_token(), flush=False))


def nameless_file(folder: str | None = None) -> IO[bytes]:
    """Open a file without a name, which is gone with its process.

    Parameters
    ----------
    folder
        On whose file system; by default where the system keeps such files.
    """
    return tempfile.TemporaryFile(dir=folder, buffering=0)


def rename(aside: str, path: str) -> None:
    """Give a file that was written aside its name, and the mode of what it replaces."""
    with permitted(path):
        with suppress(FileNotFoundError):
            shutil.copymode(path, aside)
        os.replace(aside, path)


def remove(path: str) -> None:
    """Remove a file, if there is one."""
    with permitted(path), suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)
