"""A folder where objects are written aside one by one, and get their names together.

To flush a file costs a disk's whole latency, but hundreds of files flushed at once cost
little more than one. What must be on the disk before what: docs/design/005.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from napari_ngff.errors import ConflictError
from napari_ngff.store.flushing import flush_file, flush_folder
from napari_ngff.store.folder import FolderSource
from napari_ngff.store.sink import FolderSink, mark_of, permitted, remove, rename
from napari_ngff.store.workers import share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zarr.abc.store import Store

    from napari_ngff.store.compression import Buffer
    from napari_ngff.store.sink import GoesOn, Mark, Sink

__all__ = ["StagedFolder", "flush", "staged"]

MOST = 1024
"""Objects that wait at most; some 500 bytes of memory for each."""

LONGEST = 20.0
"""Seconds that one waits at most, while others come."""

FLUSHERS = 16
"""Files that are flushed at once."""


@dataclass(frozen=True, slots=True, eq=False)
class _Staged:
    """An object that waits: key of its file, None for removal; state of the old one."""

    aside: str | None
    before: Mark | None


class StagedFolder(FolderSink):
    """Write objects below `root` that `commit` gives their names.

    Not the same object from two threads at once. What is put is renamed sooner where
    much or long waits; whoever reads `source` sees it at once.

    Attributes
    ----------
    guard
        Called before anything is renamed: what has to be on the disk by then.
    """

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.guard: Callable[[], None] | None = None
        self._waiting: dict[str, _Staged] = {}
        self._made: set[str] = set()
        self._since = 0.0
        self._conflicts: list[str] = []
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    @property
    def source(self) -> FolderSource:
        """The folder with what waits."""
        return _StagedSource(self.root, self._waiting)

    @property
    def uncommitted(self) -> bool:  # type: ignore[override]
        """Whether something waits."""
        return bool(self._waiting)

    def store(self) -> Store:
        """Open the folder as a zarr store, which writes at once."""
        self._settle()
        return super().store()

    def put(self, key: str, data: Buffer) -> None:
        """Write an object aside; see `Sink.put`."""
        before = self._before(key)
        path = self.write_aside(f"{self.root}/{key}", data, flush=False)
        self._stage(key, _Staged(path[len(self.root) + 1 :], before))

    def make_folder(self, folder: str) -> None:
        """Make a folder, and remember those in which it is new."""
        missing = list(
            itertools.takewhile(lambda one: not os.path.isdir(one), _upwards(folder))
        )
        super().make_folder(folder)
        with self._lock:
            self._made.update(os.path.dirname(one) for one in missing)

    def delete(self, key: str) -> None:
        """Note that an object is to be removed."""
        before = self._before(key)
        if before is not None or key in self._waiting:
            self._stage(key, _Staged(None, before))

    def _before(self, key: str) -> Mark | None:
        waiting = self._waiting.get(key)
        return mark_of(f"{self.root}/{key}") if waiting is None else waiting.before

    def _stage(self, key: str, one: _Staged) -> None:
        now = time.monotonic()
        with self._lock:
            if not self._waiting:
                self._since = now
            older = self._waiting.pop(key, None)
            self._waiting[key] = one
            enough = len(self._waiting) >= MOST or now - self._since > LONGEST
        if older is not None:
            self._drop(older)
        if enough:
            self._settle()

    def _drop(self, one: _Staged) -> None:
        if one.aside is not None:
            with suppress(OSError):
                os.unlink(f"{self.root}/{one.aside}")

    def clear(self, path: str) -> None:
        """Remove a folder, and what waits below it."""
        with self._lock:
            for key in [key for key in self._waiting if key.startswith(f"{path}/")]:
                self._drop(self._waiting.pop(key))
        super().clear(path)

    def replace(self, path: str, by: str) -> None:
        """Rename a folder to where another is, complete and on the disk."""
        self._settle()
        super().replace(path, by)
        flush_folder(os.path.dirname(f"{self.root}/{path}"))

    def mark(self, key: str) -> Mark | None:
        """Tell which state an object is in, or will be."""
        one = self._waiting.get(key)
        if one is not None and one.aside is None:
            return None
        found = mark_of(f"{self.root}/{one.aside}") if one and one.aside else None
        return found or mark_of(f"{self.root}/{key}")

    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Flush what waits, and give it its names; see `Sink.commit`."""
        self._settle()
        conflicts, self._conflicts = self._conflicts, []
        if conflicts:
            raise ConflictError("\n".join(conflicts))
        return True

    def _settle(self) -> None:
        with self._turn:
            with self._lock:
                waiting = list(self._waiting.items())
            flushes: list[Callable[[], None]] = [] if not self.guard else [self.guard]
            flushes += [
                partial(self._flush, key, one.aside)
                for key, one in waiting
                if one.aside is not None
            ]
            _all(flushes)
            folders = set()
            try:
                for key, one in waiting:
                    self._finish(key, one)
                    folders.add(os.path.dirname(f"{self.root}/{key}"))
            finally:
                with self._lock:
                    made, self._made = self._made, set()
                _all(partial(flush_folder, folder) for folder in folders | made)

    def _flush(self, key: str, aside: str) -> None:
        # Whoever removed it is told of by `_finish`.
        with permitted(f"{self.root}/{key}"), suppress(FileNotFoundError):
            flush_file(f"{self.root}/{aside}")

    def _finish(self, key: str, one: _Staged) -> None:
        """Give an object its name, unless another program was there meanwhile."""
        path = f"{self.root}/{key}"
        with self._lock:
            if self._waiting.get(key) is not one:
                return
            aside = None if one.aside is None else f"{self.root}/{one.aside}"
            taken = mark_of(path) != one.before
            if taken:
                self._drop(one)
            elif aside is None:
                remove(path)
            elif os.path.exists(aside):
                rename(aside, path)
            else:
                taken = True
            del self._waiting[key]
            if taken:
                self._conflicts.append(
                    f"{path} was changed by another program since it was read. It is"
                    " left as it is."
                )


class _StagedSource(FolderSource):
    """Read what waits in place of what it will replace."""

    def __init__(self, root: str, waiting: dict[str, _Staged]) -> None:
        super().__init__(root)
        self._waiting = waiting

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        one = self._waiting.get(key)
        if one is not None:
            if one.aside is None:
                return None
            data = super().get(one.aside, start, length)
            if data is not None:
                return data
        # Also where it got its name just now.
        return super().get(key, start, length)


def staged(sink: Sink) -> Sink:
    """Let objects of a folder get their names together; other sinks do so anyway."""
    return StagedFolder(sink.root) if type(sink) is FolderSink else sink


def flush(path: str) -> None:
    """Wait until a file and its name are on the disk, if there is such a file."""
    with suppress(FileNotFoundError):
        flush_file(path)
    flush_folder(os.path.dirname(path))


def _all(calls: Iterable[Callable[[], None]]) -> None:
    some = list(calls)
    share(iter(some), lambda call: call(), len(some), FLUSHERS)


def _upwards(folder: str) -> Iterable[str]:
    while folder != os.path.dirname(folder):
        yield folder
        folder = os.path.dirname(folder)
