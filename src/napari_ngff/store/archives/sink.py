"""Writes into a zip archive: what is put waits, and `commit` writes it anew."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from napari_ngff.errors import ConflictError, NodeNotFoundError, OMEZarrError
from napari_ngff.store.archives.rewriting import identity, rewrite, sweep, turn
from napari_ngff.store.archives.stage import Stage, Staged
from napari_ngff.store.ozx import clip, reload_all

if TYPE_CHECKING:
    from collections.abc import Collection

    from zarr.abc.store import Store

    from napari_ngff.metadata.model import Problem
    from napari_ngff.store.compression import Buffer
    from napari_ngff.store.ozx import ZipSource
    from napari_ngff.store.sink import GoesOn, Mark

__all__ = ["ArchiveSink", "StagedSource"]


class StagedSource:
    """An archive with all that was put into its sink; see `Source`."""

    problems: tuple[Problem, ...] = ()

    def __init__(self, sink: ArchiveSink) -> None:
        self.sink = sink

    @property
    def name(self) -> str:
        """Path of the archive, and of the root inside."""
        return self.sink.root

    @property
    def concurrency(self) -> int:
        """As of the archive."""
        return self.sink.archive.concurrency

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        return self.sink.get(key, start, length)

    def names(self, prefix: str) -> tuple[str, ...]:
        """Names directly below `prefix`, sorted."""
        base = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        keys = self.sink.keys(base.rstrip("/"))
        return tuple(sorted({key[len(base) :].partition("/")[0] for key in keys}))

    def store(self) -> Store:
        """Open the same objects as a read-only zarr store."""
        from napari_ngff.store.bridge import SourceStore

        return SourceStore(self)


class ArchiveSink:
    """Write into what a `ZipSource` reads; see `Sink`.

    Memory: some 400 bytes for each entry of the archive while it is written, and some
    hundred for each object that waits.

    Parameters
    ----------
    archive
        From then on its reads are those of the newest archive of its path.
    """

    token = ""

    def __init__(self, archive: ZipSource) -> None:
        self.archive = archive
        self.root = archive.name
        # Where a link leads to: that is what is replaced.
        self.path = os.path.realpath(archive.path)
        self.folder = os.path.dirname(self.path)
        self._stage = Stage(self.folder)
        self._staged: dict[str, Staged | None] = {}
        # What was in the archive when it was last asked for, and when it was put.
        self._asked: dict[str, Mark | None] = {}
        self._bases: dict[str, Mark | None] = {}
        self._lock = threading.Lock()

    @property
    def source(self) -> StagedSource:
        """The archive with all that was put."""
        return StagedSource(self)

    @property
    def uncommitted(self) -> bool:
        """Whether something waits."""
        return bool(self._staged)

    def store(self) -> Store:
        """Open the archive as a zarr store that can be written."""
        from napari_ngff.store.bridge import SinkStore

        return SinkStore(self)

    # Reading.

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`."""
        staged = self._staged.get(key, False)
        if staged is False:
            return self.archive.get(key, start, length)
        if not isinstance(staged, Staged):
            return None
        return staged.read(clip(0 if start is None else start, length, staged.length))

    def keys(self, prefix: str) -> list[str]:
        """Keys of all objects below a folder."""
        base = f"{prefix}/" if prefix else ""
        with self._lock:
            staged = {k: v for k, v in self._staged.items() if k.startswith(base)}
        found = {key for key in self.archive.keys(prefix) if key not in staged}
        return [*found, *(key for key, one in staged.items() if one is not None)]

    def mark(self, key: str) -> Mark | None:
        """Size and CRC-32 of an object, which is its state; None where there is none.

        What other programs have written is seen, unless something waits here.
        """
        with self._lock:
            if key in self._staged:
                staged = self._staged[key]
                return None if staged is None else (staged.length, staged.crc, 0)
            if not self._staged:
                # While another writes there, the old file is as good; not to commit.
                with suppress(OMEZarrError):
                    self._follow()
            mark = self._asked[key] = self._stored(key)
            return mark

    def _stored(self, key: str) -> Mark | None:
        entry = self.archive.archive.entry(self.archive.entry_name(key))
        return None if entry is None else (entry.size, entry.crc, 0)

    def _follow(self) -> None:
        """Read what another program has put in the place of the archive.

        Raises
        ------
        NodeNotFoundError, AccessError, CorruptDataError, UnsupportedError
            As `Archive`.
        """
        try:
            same = identity(self.path) == self.archive.archive.file.identity
        except FileNotFoundError as error:
            msg = f"There is no file {self.path} any more. Put it back, and save again."
            raise NodeNotFoundError(msg) from error
        if not same:
            self.archive.reload()

    # Writing.

    def put(self, key: str, data: Buffer) -> None:
        """Let an object wait; see `Sink.put`."""
        staged = self._stage.put(data)
        with self._lock:
            self._keep(key, staged)

    def delete(self, key: str) -> None:
        """Let the removal of an object wait."""
        with self._lock:
            if self._staged.get(key) is not None or self._stored(key) is not None:
                self._keep(key, None)

    def _keep(self, key: str, staged: Staged | None) -> None:
        if key not in self._bases:
            known = key in self._asked
            self._bases[key] = self._asked.pop(key) if known else self._stored(key)
        self._staged[key] = staged

    def clear(self, path: str) -> None:
        """Let the removal of all that is below `path` wait."""
        for key in self.keys(path):
            self.delete(key)

    def replace(self, path: str, by: str) -> None:
        """Put all that is below `by` in the place of what is below `path`."""
        self.clear(path)
        for key in self.keys(by):
            target = f"{path}{key.removeprefix(by)}"
            with self._lock:
                staged = self._staged.get(key)
                if staged is not None:
                    self._keep(target, staged)
            if staged is None:
                self.put(target, self.archive.get(key) or b"")
            self.delete(key)

    def sweep(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove what a writer that was killed left beside the archive.

        A lock tells which one is at work, whatever `dead` says.
        """
        sweep(self.path)

    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Write the archive with all that waits; see `Sink.commit`.

        Raises
        ------
        ConflictError
            As of `Sink`.
        CorruptDataError, UnsupportedError
            Where the archive is damaged, or has encrypted entries.
        AccessError, OSError
            Where the folder cannot be written, or the disk has no room for a second
            archive. What waits goes on waiting.
        """
        with turn(self.path):
            while self._staged:
                self._compare()
                done = self._write(goes_on)
                if done is not None:
                    return done
        return True

    def _compare(self) -> None:
        """Drop what waits for a place that others have changed."""
        with self._lock:
            self._follow()
            changed = [k for k, base in self._bases.items() if self._stored(k) != base]
            for key in changed:
                del self._staged[key], self._bases[key]
        if changed:
            more = f" and {len(changed) - 1} more" if changed[1:] else ""
            raise ConflictError(
                f"{self.root}/{changed[0]}{more} was changed by another program since"
                " it was read. It is left as it is, and nothing else is saved."
            )

    def _write(self, goes_on: GoesOn | None) -> bool | None:
        """Write the archive anew; None where the old one was changed meanwhile."""
        with self._lock:
            staged = {self.archive.entry_name(k): v for k, v in self._staged.items()}
        root = self.get("zarr.json")
        done = rewrite(self.path, self.archive.archive, staged, root, goes_on)
        if not done:
            return done
        try:
            reload_all(self.path)
        finally:
            # Not before: what waited is what the new file has.
            with self._lock:
                for one in (self._staged, self._bases, self._asked):
                    one.clear()
                self._stage = Stage(self.folder)
        return True
