"""The one place where a file is written aside and gets its name."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from napari_ngff.store.sources.revision import Revision
from napari_ngff.store.write.exchange import exchange, rename_to_free
from napari_ngff.store.write.fsync import flush_file, flush_folder, flush_open_file
from napari_ngff.store.write.named_errors import permitted
from napari_ngff.store.write.writer_token import aside_name, new_token, remove_left

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from napari_ngff.store.compression import Buffer

__all__ = [
    "nameless_file",
    "remove",
    "rename",
    "rename_over",
    "replace_file",
    "require_writable",
    "temporary_folder",
    "write_aside",
    "written_aside",
]


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
        opened = open(aside, "xb", buffering=0)  # noqa: SIM115
        try:
            with opened as file:
                left = memoryview(bytes(data))
                while left:
                    # One call takes 2 GiB at most on Linux, and less on a full disk.
                    left = left[os.write(file.fileno(), left) :]
                if flush:
                    flush_open_file(file)
        except BaseException:
            with suppress(OSError):
                os.unlink(aside)
            raise
    return aside


def replace_file(
    path: str | Path, data: Buffer, before: Revision | bool | None = False
) -> bool:
    """Write a file whole, or leave what is there; its folder is made.

    Of a link, what it leads to. It survives a loss of power.

    Parameters
    ----------
    before
        As of `rename_over`; False for anything.

    Returns
    -------
    bool
        Whether it is written; else what is there is another file than `before`.

    Raises
    ------
    AccessError, OSError
        Where the system refuses.
    """
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    with permitted(path):
        os.makedirs(folder, exist_ok=True)
    with suppress(OSError):
        remove_left(folder)
    aside = write_aside(path, data, new_token(), flush=True)
    try:
        if isinstance(before, bool):
            rename(aside, path)
        elif not rename_over(aside, path, before):
            return False
        flush_folder(folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise
    return True


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


def temporary_folder() -> str:
    """Tell where the system keeps files that are soon gone."""
    return tempfile.gettempdir()


def rename(aside: str, path: str) -> None:
    """Give a file that was written aside its name, and the mode of what it replaces."""
    with permitted(path):
        with suppress(FileNotFoundError):
            shutil.copymode(path, aside)
        os.replace(aside, path)


def rename_over(aside: str, path: str, before: Revision | None) -> bool:
    """Give a file its name, if what is there is still what was read.

    Where the system can, also what another program puts there at this very moment is
    seen, and stays: the two are swapped, and swapped back.

    Parameters
    ----------
    before
        Revision of what is to be replaced; None for nothing.

    Returns
    -------
    bool
        Whether it has its name; else it is gone.
    """
    with permitted(path):
        try:
            if Revision.of_file(path) == before and _takes_place(aside, path, before):
                return True
        except (FileExistsError, FileNotFoundError):
            pass  # made, or removed, at this moment
        with suppress(FileNotFoundError):
            os.unlink(aside)
    return False


def _takes_place(aside: str, path: str, before: Revision | None) -> bool:
    if before is None:
        if not rename_to_free(aside, path):
            rename(aside, path)
        return True
    shutil.copymode(path, aside)
    mine = inside = Revision.of_file(aside)
    if not exchange(aside, path):
        rename(aside, path)
        return True
    expected: Revision | None = before
    while (found := Revision.of_file(aside)) != expected:
        # Others wrote there: put back what they did, and look again.
        inside, expected = found, inside
        exchange(aside, path)
    try:
        os.unlink(aside)
    except OSError:
        # All is in its place; where that fails again, whoever sweeps removes it.
        with suppress(OSError):
            os.unlink(aside)
    return inside == mine


def remove(path: str) -> None:
    """Remove a file, if there is one."""
    with permitted(path), suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)
