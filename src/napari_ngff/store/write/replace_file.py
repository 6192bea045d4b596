"""Writes files aside and renames them; nothing else in the package does."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING

from napari_ngff.errors import name_errors
from napari_ngff.store.sources.blob import Revision
from napari_ngff.store.write.exchange import exchange_paths, rename_to_free
from napari_ngff.store.write.fsync import flush_file, flush_folder, flush_open_file
from napari_ngff.store.write.writer_token import aside_name, new_token, remove_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from napari_ngff.store.compression import Buffer


make_folders = partial(os.makedirs, exist_ok=True)
"""Makes a folder and those above it, unless they exist."""


def write_aside(
    path: str,
    parts: Iterable[Buffer],
    token: str,
    make_folder: Callable[[str], None] | None = None,
    *,
    flush: bool,
) -> str:
    """Write bytes into an unfinished file beside its place.

    Parameters
    ----------
    token
        See `new_token`.
    make_folder
        Called with the path of its folder where that does not exist.
    flush
        Whether to wait until the bytes are on the disk.

    Returns
    -------
    str
        Path of the unfinished file.

    Raises
    ------
    AccessError, OSError
        Where the system refuses; no file is left.
    """
    aside = aside_name(path, token)
    with name_errors(path):
        # Without a buffer: an error of the disk is raised by `write`, not when the file
        # is closed.
        try:
            opened = open(aside, "xb", buffering=0)  # noqa: SIM115
        except FileNotFoundError:
            # Only where it is missing: most objects have a folder.
            if make_folder is None:
                raise
            make_folder(os.path.dirname(path))
            opened = open(aside, "xb", buffering=0)  # noqa: SIM115
        with removed_on_error(aside), opened as file:
            for part in parts:
                write_whole(file, bytes(part))
            if flush:
                flush_open_file(file)
    return aside


def write_whole(file: IO[bytes], data: bytes) -> None:
    """Write all of some bytes into a file without a buffer."""
    # A view, so that nothing is copied: one call takes 2 GiB at most on Linux, and less
    # on a full disk.
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[file.write(unwritten) :]


@contextmanager
def removed_on_error(aside: str) -> Iterator[None]:
    """Remove an unfinished file after an error."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)
        raise


def replace_file(
    path: str | Path, data: Buffer, before: Revision | bool | None = False
) -> bool:
    """Replace a file as a whole, or leave it; its folder is made.

    A link stays, and its target is replaced. The file survives a loss of power.

    Parameters
    ----------
    before
        As in `rename_over`; False for any revision.

    Returns
    -------
    bool
        False if the file has another revision than `before`.

    Raises
    ------
    AccessError, OSError
        Where the system refuses.
    """
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    remove_left(folder)
    aside = write_aside(path, [data], new_token(), make_folders, flush=True)
    with removed_on_error(aside):
        # False: whatever is there is replaced.
        if isinstance(before, bool):
            rename_aside(aside, path)
        elif not rename_over(aside, path, before):
            return False
        flush_folder(folder)
    return True


@contextmanager
def replace_when_done(path: str | Path, *, flush: bool = True) -> Iterator[str]:
    """Yield a path beside a file; what is written there replaces the file in the end.

    Parameters
    ----------
    path
        Of the file, or of a link to it.
    flush
        Whether it must survive a loss of power; without, it may be lost as a whole.

    Yields
    ------
    str
        Where to write. After an error `path` is as it was.
    """
    path = os.path.realpath(path)
    folder, aside = os.path.dirname(path), aside_name(path, new_token())
    with removed_on_error(aside):
        if flush:
            remove_left(folder)
        with name_errors(path):
            yield aside
            if flush:
                # The bytes before the name: else a loss of power could leave the name
                # of an empty file.
                flush_file(aside)
        rename_aside(aside, path)
        if flush:
            flush_folder(folder)


def require_writable(path: str | Path) -> None:
    """Raise if `path` cannot be written: an empty file is made beside it, and removed.

    Raises
    ------
    AccessError, OSError
        Where the system refuses.
    """
    # Tried: on Windows `os.access` knows only the read-only flag of files.
    os.unlink(write_aside(os.path.realpath(path), (), new_token(), flush=False))


def nameless_file(folder: str | None = None) -> IO[bytes]:
    """Open a file without a name, which disappears with its process.

    Parameters
    ----------
    folder
        On its file system; by default in the folder of temporary files.
    """
    return tempfile.TemporaryFile(dir=folder, buffering=0)


def temporary_folder() -> str:
    """Return the folder of temporary files."""
    return tempfile.gettempdir()


def rename_aside(aside: str, path: str) -> None:
    """Give an unfinished file its name, and the mode of the file that it replaces."""
    with name_errors(path):
        with suppress(FileNotFoundError):
            shutil.copymode(path, aside)
        # Windows refuses `os.rename` over a file that exists.
        os.replace(aside, path)


def rename_over(aside: str, path: str, before: Revision | None) -> bool:
    """Give an unfinished file its name, if the file there still has a revision.

    Where the system can, the two are swapped, compared again, and swapped back if
    another program replaced the file at this very moment.

    Parameters
    ----------
    before
        Revision of the file that is replaced; None for no file.

    Returns
    -------
    bool
        Whether it got its name; otherwise the unfinished file is removed.
    """
    with name_errors(path):
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
            rename_aside(aside, path)
        return True
    shutil.copymode(path, aside)
    mine = inside = Revision.of_file(aside)
    # Systems without a swap: between the comparison and this rename are some
    # microseconds.
    if not exchange_paths(aside, path):
        rename_aside(aside, path)
        return True
    expected: Revision | None = before
    while (swapped := Revision.of_file(aside)) != expected:
        # Another program wrote there: swap back its file, and compare again.
        inside, expected = swapped, inside
        exchange_paths(aside, path)
    try:
        os.unlink(aside)
    except OSError:
        # The save itself has succeeded: a file that stays is removed by a later save.
        with suppress(OSError):
            os.unlink(aside)
    return inside == mine


def remove_file(path: str) -> None:
    """Remove a file, if there is one."""
    with name_errors(path), suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)
