"""Writes objects into a hierarchy; nothing else changes what is there.

In a folder an object is written beside its place and renamed: whoever reads it, and
whatever happens meanwhile, finds the old bytes or the new ones.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from napari_ngff.errors import AccessError, UnsupportedError
from napari_ngff.store.exchange import exchange
from napari_ngff.store.folder import FolderSource

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from napari_ngff.store.compression import Buffer
    from napari_ngff.store.source import Source

__all__ = [
    "PART",
    "FolderSink",
    "GoesOn",
    "Mark",
    "Sink",
    "mark_of",
    "permitted",
    "remove",
    "rename",
    "sink_of",
]

Mark = tuple[int, int, int]
"""State of an object, to be compared with another. In a folder: size in bytes, time of
the last change in ns, and number of a file; all differ where an object was written
again, since a rename brings a new file."""

GoesOn = Callable[[int, int], bool]
"""Told how many bytes are written, and of how many; returns whether to go on."""

PART = ".part"
"""Ends the name under which an object is written; readers of zarr ignore it."""

STALE = 60

WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

_numbers = itertools.count()


class Sink(Protocol):
    """Where objects of one hierarchy are written; safe from several threads at once.

    Attributes
    ----------
    root
        Path of the hierarchy, for messages.
    token
        In the names of what it writes aside; "" where that needs none.
    """

    root: str
    token: str

    @property
    def source(self) -> Source:
        """The hierarchy with all that was put."""

    @property
    def uncommitted(self) -> bool:
        """Whether something was put that only `commit` saves."""

    def store(self) -> Store:
        """Open the hierarchy as a zarr store that can be written."""

    def put(self, key: str, data: Buffer) -> None:
        """Write an object whole, or leave what is there.

        Raises
        ------
        AccessError
            Where the system refuses.
        OSError
            Where writing fails in any other way: a full disk, a place gone.
        """

    def delete(self, key: str) -> None:
        """Remove an object; nothing where there is none."""

    def clear(self, path: str) -> None:
        """Remove all that is below `path`."""

    def replace(self, path: str, by: str) -> None:
        """Put all that is below `by` in the place of what is below `path`."""

    def mark(self, key: str) -> Mark | None:
        """Tell which state an object is in; None where there is none."""

    def sweep(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove what a writer that was killed left below a folder.

        Parameters
        ----------
        prefix
            Of the folder.
        dead
            Tokens of writers that are known to write no more.
        """

    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Save all that was put since: from then on it survives a loss of power.

        Returns
        -------
        bool
            Whether it is done; False where it was told not to go on.

        Raises
        ------
        ConflictError
            Where another program has changed the same objects meanwhile. Those are
            left as they are, and what was put there is dropped.
        OSError
            Where the system refuses; calling again goes on from there.
        """


def sink_of(source: Source) -> Sink:
    """Choose how to write into what is read from `source`.

    Raises
    ------
    UnsupportedError
        Where it cannot be written.
    """
    from napari_ngff.store.archives.sink import ArchiveSink, StagedSource
    from napari_ngff.store.ozx import ZipSource

    if isinstance(source, FolderSource):
        return FolderSink(source.root)
    if isinstance(source, StagedSource):
        return source.sink
    if isinstance(source, ZipSource):
        return ArchiveSink(source)
    raise UnsupportedError(
        f"{source.name} cannot be written in place: it is no folder and no archive."
    )


class FolderSink:
    """Write the objects below `root`, a path without a trailing separator."""

    uncommitted = False

    def __init__(self, root: str) -> None:
        self.root = root
        self.token = secrets.token_hex(4)

    @property
    def source(self) -> FolderSource:
        """The folder itself."""
        return FolderSource(self.root)

    def store(self) -> Store:
        """Open the folder as a zarr store; see `Sink.store`."""
        from zarr.storage import LocalStore

        return LocalStore(Path(self.root))

    def put(self, key: str, data: Buffer) -> None:
        """Write an object whole, or leave what is there.

        The bytes are on the disk before they get their name.

        Raises
        ------
        AccessError
            Where the system refuses.
        OSError
            Where writing fails in any other way: a full disk, a place gone.
        """
        path = f"{self.root}/{key}"
        aside = self.write_aside(path, data, flush=True)
        try:
            rename(aside, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(aside)
            raise

    def write_aside(self, path: str, data: Buffer, flush: bool) -> str:
        """Write bytes beside the place of a file, and return where."""
        aside = f"{path}.{self.token}-{next(_numbers):x}{PART}"
        with permitted(path):
            handle = self._open(aside)
            try:
                with os.fdopen(handle, "wb", buffering=0) as file:
                    _write(file.fileno(), data)
                    if flush:
                        os.fsync(file.fileno())
            except BaseException:
                with suppress(OSError):
                    os.unlink(aside)
                raise
        return aside

    def _open(self, aside: str) -> int:
        with suppress(FileNotFoundError):
            return os.open(aside, WRITING, 0o666)
        self.make_folder(os.path.dirname(aside))
        return os.open(aside, WRITING, 0o666)

    def make_folder(self, folder: str) -> None:
        """Make a folder and those above it."""
        os.makedirs(folder, exist_ok=True)

    def delete(self, key: str) -> None:
        """Remove an object; nothing where there is none.

        Raises
        ------
        AccessError
            Where the system refuses.
        """
        remove(f"{self.root}/{key}")

    def clear(self, path: str) -> None:
        """Remove a folder as far as the system allows; see `Sink.clear`."""
        shutil.rmtree(f"{self.root}/{path}", ignore_errors=True)

    def replace(self, path: str, by: str) -> None:
        """Put a folder in the place of another; see `Sink.replace`.

        In one step on Linux and macOS. Elsewhere there is an instant between two
        renames with neither; the old one is then at ``<path>.before``.
        """
        place, new = f"{self.root}/{path}", f"{self.root}/{by}"
        if exchange(place, new):
            shutil.rmtree(new, ignore_errors=True)
            return
        kept = f"{place}.before"
        shutil.rmtree(kept, ignore_errors=True)
        os.rename(place, kept)
        try:
            os.rename(new, place)
        except BaseException:
            os.rename(kept, place)
            raise
        shutil.rmtree(kept, ignore_errors=True)

    def mark(self, key: str) -> Mark | None:
        """Tell which state an object is in; None where there is none."""
        return mark_of(f"{self.root}/{key}")

    def sweep(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove what a writer that was killed left beside its objects.

        All below the folder is looked at. What was written in the last `STALE` seconds
        by a writer that is not known to be dead may be somebody's at work, and stays.
        """
        oldest = time.time() - STALE
        for folder, _, files in os.walk(f"{self.root}/{prefix}"):
            for name in files:
                path = os.path.join(folder, name)
                if not name.endswith(PART):
                    continue
                token = name.removesuffix(PART).rpartition(".")[2].partition("-")[0]
                with suppress(OSError):
                    if token in dead or os.stat(path).st_mtime < oldest:
                        os.unlink(path)

    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Nothing is left to do: what is put is on the disk; see `Sink.commit`."""
        return True


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


@contextmanager
def permitted(path: str) -> Iterator[None]:
    """Say what cannot be written, and what to do, where the system refuses."""
    try:
        yield
    except PermissionError as error:
        msg = f"No permission to write {path}. Ask its owner, or save elsewhere."
        raise AccessError(msg) from error


def mark_of(path: str) -> Mark | None:
    """Tell which state a file is in; None where there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _write(handle: int, data: Buffer) -> None:
    left = memoryview(bytes(data))
    while left:
        # One call takes 2 GiB at most on Linux, and less on a disk that fills up.
        left = left[os.write(handle, left) :]
