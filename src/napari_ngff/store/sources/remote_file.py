"""The bytes of one file on a server, read in parts of one version of it.

Reads of neighbouring bytes that threads ask for at about the same time are joined.
"""

from __future__ import annotations

import io
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from napari_ngff.addresses import join_address
from napari_ngff.errors import (
    CorruptDataError,
    FileChangedError,
    NodeNotFoundError,
    UnsupportedError,
)
from napari_ngff.store.limits import allowed_chunk
from napari_ngff.store.lru_cache import ByteCache
from napari_ngff.store.sources.blob import Blob, Revision
from napari_ngff.store.sources.file_bytes import PositionFile, Span
from napari_ngff.store.sources.kept_chunks import kept_chunks_of
from napari_ngff.store.threads import share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.store.sources.file_part import FilePart, FileVersion
    from napari_ngff.store.sources.remote_store import RemoteStore

GATHER = 0.003
"""Seconds that a read waits for others; none where nothing else is read."""

GAP = 32 << 10
"""Bytes between two parts that are read along, rather than by another request."""

MOST_JOINED = 1 << 20
"""Bytes of a joined read: larger ones arrive sooner by several requests."""


class AskedSpan:
    """Bytes that one read asks for, and the joined read that brings them."""

    __slots__ = ("batch", "joined", "start", "stop")

    def __init__(self, span: Span, batch: threading.Event) -> None:
        self.start, self.stop = span[0], span[0] + span[1]
        self.batch = batch
        self.joined = JoinedSpan(self)

    def cut(self) -> bytes:
        """Wait for the bytes.

        Raises
        ------
        Exception
            Of the joined read.
        """
        data = self.joined.data.result()
        start = self.start - self.joined.start
        return data[start : start + self.stop - self.start]


class JoinedSpan:
    """A read that brings the bytes of several; the thread of the first one reads."""

    __slots__ = ("data", "first", "start", "stop")

    def __init__(self, first: AskedSpan) -> None:
        self.first = first
        self.start, self.stop = first.start, first.stop
        self.data: Future[bytes] = Future()

    def takes(self, other: AskedSpan) -> bool:
        """Return whether another part, which does not begin before, is read along."""
        if other.start > self.stop + GAP:
            return False
        stop = max(self.stop, other.stop)
        # A header before the bytes of a large entry costs nothing.
        small = self.stop - self.start <= GAP
        return small or stop == self.stop or stop - self.start <= MOST_JOINED


class JoinedReads:
    """Reads parts of one file from many threads, by as few requests as is useful.

    Parameters
    ----------
    fetch
        Reads the bytes from a position to another.
    concurrency
        How many requests at once are of use.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], concurrency: int) -> None:
        self._fetch = fetch
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._waiting: list[AskedSpan] = []
        self._gathering = False
        self._readers = 0

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Read parts of the file.

        Raises
        ------
        Exception
            Of `fetch`.
        """
        batch = threading.Event()
        asked = [AskedSpan(span, batch) for span in spans]
        with self._lock:
            self._waiting += asked
            gathers = not self._gathering
            self._gathering = True
            alone = not self._readers
            self._readers += 1
        try:
            if gathers:
                self._gather(0 if alone else GATHER)
            batch.wait()
            led = [one.joined for one in asked if one.joined.first is one]
            share_work(iter(led), self._fetch_joined, len(led), self._concurrency)
            return [one.cut() for one in asked]
        finally:
            with self._lock:
                self._readers -= 1

    def _gather(self, seconds: float) -> None:
        """Let other threads ask, and join what they asked for."""
        try:
            if seconds:
                time.sleep(seconds)
        finally:
            # Also after Ctrl+C: the other threads wait for it.
            with self._lock:
                asked, self._waiting = self._waiting, []
                self._gathering = False
            join_spans(asked)
            for one in asked:
                one.batch.set()

    def _fetch_joined(self, joined: JoinedSpan) -> None:
        # Nothing is raised here: other threads wait for the other parts.
        try:
            joined.data.set_result(self._fetch(joined.start, joined.stop))
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            joined.data.set_exception(error)


def join_spans(asked: Sequence[AskedSpan]) -> None:
    """Give parts that are close to each other the same joined read."""
    last: JoinedSpan | None = None
    for one in sorted(asked, key=lambda one: (one.start, one.stop)):
        if last is not None and last.takes(one):
            last.stop = max(last.stop, one.stop)
            one.joined = last
        else:
            last = one.joined


TAIL = 128 << 10
"""Bytes of the end that the first request asks for: the end record of an archive with
the longest comment, and the directory of some thousand entries."""

BLOCK = 1 << 20
"""Bytes of metadata that one request brings."""

MOST_BLOCKS = 32 << 20
"""Bytes of metadata that are kept."""

HEADER = 64
"""Bytes of a part that is kept on this disk together with the one behind it: a file for
each header would be one of 30 bytes."""

LEAST_LIMIT = 256 << 20
"""Bytes that one read may always have: the directory of an archive."""

NO_PARTS = "Download the file and open it, or have it unpacked on the server."


class RemoteFile:
    """A file on a server, with what a `PositionFile` has.

    All that is read is of the version that the file had when it was opened, by its ETag
    or by the time of its last change. A server that sends no parts of files is asked
    for all of a small one, once.

    Parameters
    ----------
    source
        The folder on the server.
    key
        Name of the file in it.
    revision
        What the file has to be; None for any.

    Raises
    ------
    NodeNotFoundError, AccessError, ServerError
        Where it is not there, or does not come.
    UnsupportedError
        Where it is large, and the server sends no parts of it.
    FileChangedError
        Where it has another revision.
    """

    damage_remedy = "It may not have been uploaded completely: ask who put it there."

    def __init__(
        self, source: RemoteStore, key: str, revision: Revision | None = None
    ) -> None:
        self._source = source
        self._key = key
        self.concurrency = source.traits.at_once
        self.name = join_address(source.name, key)
        self._is_changed = False
        part = self._open_end()
        version = part.version
        size = len(part.data) if version.size is None else version.size
        self._version: FileVersion = version
        self.size = size
        self.revision = Revision(size, 0, tag=version.condition)
        self.is_pinned = bool(version.condition) or len(part.data) == size
        self._tail, self._tail_start = part.data, size - len(part.data)
        self._joined = JoinedReads(self._fetch, self.concurrency)
        self._lock = threading.Lock()
        self._ahead = 0
        self._blocks: ByteCache[bytes] = ByteCache(MOST_BLOCKS)
        self._coming: dict[int, Future[bytes]] = {}
        if revision not in (None, self.revision):
            raise FileChangedError(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process must not read another version.
        return RemoteFile, (self._source, self._key, self.revision)

    def close(self) -> None:
        """Do nothing: a file on a server is not kept open."""

    def require_same(self) -> None:
        """Ask the server whether the file is still the one that was opened.

        Raises
        ------
        FileChangedError
            Where it is another one.
        AccessError, ServerError
            Where there is no answer.
        """
        if self._version.condition:
            self._fetch(0, 1)

    def read_ahead(self, stop: int) -> None:
        """Read the beginning of the file, up to `stop`, in large blocks from now on."""
        self._ahead = stop

    def read(self, start: int, length: int) -> bytes:
        """Read `length` bytes from `start`; fewer only at the end of the file.

        Raises
        ------
        FileChangedError
            Where the file has another version now.
        AccessError, ServerError
            Where it does not come.
        CorruptDataError
            Where it is too much to be read.
        """
        return self.read_spans([(start, length)])[0]

    def read_spans(self, spans: Sequence[Span]) -> list[bytes]:
        """Read several parts, by as few requests as is useful; see `read`."""
        spans = [self._clip(span) for span in spans]
        found = [self._read_kept(*span) for span in spans]
        missing = [n for n, data in enumerate(found) if data is None]
        chunks = kept_chunks_of(self._source.access, self._key) if missing else None
        if chunks is not None and self._version.tag:
            for group in group_spans(spans, missing):
                kept = chunks.load(self._kept_name([spans[n] for n in group]))
                if kept is not None and kept.tag == self._version.tag:
                    rest = io.BytesIO(kept.data)
                    for n in group:
                        found[n] = rest.read(spans[n][1])
            missing = [n for n in missing if found[n] is None]
        if missing:
            # Without what is in memory of them, which is the end.
            asked = [spans[n] for n in missing]
            asked = [(a, min(a + n, self._tail_start) - a) for a, n in asked]
            for n, data in zip(missing, self._joined.read(asked), strict=True):
                in_tail = max(0, sum(spans[n]) - self._tail_start)
                found[n] = data + self._tail[:in_tail]
            if chunks is not None:
                for group in group_spans(spans, missing):
                    data = b"".join(found[n] or b"" for n in group)
                    name = self._kept_name([spans[n] for n in group])
                    chunks.keep(name, Blob(data, Revision.of_tag(self._version.tag)))
        return [data or b"" for data in found]

    def _kept_name(self, spans: Sequence[Span]) -> str:
        """Name what is kept of the file on this disk."""
        return f"{self.name} {spans}"

    def _clip(self, span: Span) -> Span:
        start = min(max(span[0], 0), self.size)
        length = max(0, min(span[1], self.size - start))
        if length > max(LEAST_LIMIT, allowed_chunk()):
            msg = f"{self.name} has a part of {length >> 20} MB, which is not read."
            raise CorruptDataError(msg, remedy=self.damage_remedy)
        return start, length

    def _read_kept(self, start: int, length: int) -> bytes | None:
        """Read what is in memory, or comes in blocks; None for all else."""
        if start >= self._tail_start or not length:
            first = start - self._tail_start
            return self._tail[first : first + length] if length else b""
        stop = start + length
        if stop > self._ahead or length > BLOCK:
            return None
        numbers = range(start // BLOCK, (stop - 1) // BLOCK + 1)
        data = b"".join(map(self._read_block, numbers))
        first = start - numbers[0] * BLOCK
        return data[first : first + length]

    def _read_block(self, number: int) -> bytes:
        """Read a block of metadata; by one request if several threads ask for it."""
        with self._lock:
            known = self._blocks.get(number)
            coming = self._coming.get(number)
            reads = known is None and coming is None
            if coming is None:
                coming = Future()
            if reads:
                self._coming[number] = coming
        if known is not None:
            return known
        if reads:
            try:
                start = number * BLOCK
                data = self._fetch(start, min(start + BLOCK, self._ahead))
                self._blocks.put(number, data, len(data))
                coming.set_result(data)
            except BaseException as error:  # noqa: BLE001  raised where it is waited for
                coming.set_exception(error)
            finally:
                with self._lock:
                    del self._coming[number]
        return coming.result()

    def _open_end(self) -> FilePart:
        """Ask for the end of the file."""
        part = self._request(-TAIL, None)
        size = part.version.size
        if part.is_part or (size and size == len(part.data)):
            return part
        if size:
            # Some servers know no parts that are counted from the end.
            part = self._request(max(0, size - TAIL), size)
            if part.is_part:
                return part
        elif size == 0:
            msg = f"{self.name} is empty."
            raise CorruptDataError(msg, remedy=self.damage_remedy)
        large = "more than 64 MB" if size is None else f"{size / 2**20:,.0f} MB"
        msg = (
            f"{self.name} has {large}, and the server sends no parts of files, by which"
            " a zipped OME-Zarr is read."
        )
        raise UnsupportedError(msg, remedy=NO_PARTS)

    def _request(self, start: int, end: int | None) -> FilePart:
        part = self._source.fetch_part(self._key, start, end)
        if part is None:
            msg = f"There is no file {self.name}."
            if self.name.startswith("http"):
                msg = f"The server answered 404 Not Found for {self.name}."
            raise NodeNotFoundError(msg, remedy="Check the address; it may have moved.")
        return part

    def _fetch(self, start: int, stop: int) -> bytes:
        """Read a part from the server, of the version that was opened."""
        if not self._is_changed:
            part = self._source.fetch_part(self._key, start, stop, self._version)
            if part is not None and part.is_part and self._version.may_be(part.version):
                return part.data
            self._is_changed = True
        raise FileChangedError(self.name)


def group_spans(spans: Sequence[Span], numbers: Sequence[int]) -> list[list[int]]:
    """Put a span as short as the header of an entry together with the one behind it."""
    groups: list[list[int]] = []
    is_open = False
    for number in numbers:
        if is_open:
            groups[-1].append(number)
        else:
            groups.append([number])
        is_open = spans[number][1] <= HEADER
    return groups


FileBytes = PositionFile | RemoteFile
"""A file that is read by position, from many threads at once."""
