"""The bytes of one file on a server, read in parts of one version of it."""

from __future__ import annotations

import io
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import (
    CorruptDataError,
    FileChangedError,
    NodeNotFoundError,
    UnsupportedError,
)
from napari_ngff.store.limits import allowed_chunk
from napari_ngff.store.lru_cache import ByteCache
from napari_ngff.store.sources.joined_reads import JoinedReads
from napari_ngff.store.sources.kept_chunks import KeptBytes
from napari_ngff.store.sources.revision import Revision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.sources.file_bytes import Span
    from napari_ngff.store.sources.file_part import FilePart, FileVersion
    from napari_ngff.store.sources.remote_source import RemoteSource

__all__ = ["RemoteFile"]

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
    """A file on a server; see `FileBytes`.

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

    def __init__(
        self, source: RemoteSource, key: str, revision: Revision | None = None
    ) -> None:
        self._source = source
        self._key = key
        self.name = f"{source.name}/{key}"
        self.counts = source.counts
        self._is_changed = self._is_page = False
        part = self._open_end()
        version = part.version
        size = len(part.data) if version.size is None else version.size
        self._version: FileVersion = version
        self.size = size
        self.revision = Revision(size, 0, tag=version.condition)
        self.is_pinned = bool(version.condition) or len(part.data) == size
        self._is_page = part.is_page
        self._tail, self._tail_start = part.data, size - len(part.data)
        self._joined = JoinedReads(self._fetch, source.concurrency)
        self._lock = threading.Lock()
        self._ahead = 0
        self._blocks: ByteCache[bytes] = ByteCache(MOST_BLOCKS)
        self._coming: dict[int, Future[bytes]] = {}
        if revision not in (None, self.revision):
            raise FileChangedError(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process must not read another version.
        return RemoteFile, (self._source, self._key, self.revision)

    @property
    def concurrency(self) -> int:
        """Useful number of requests at the same time."""
        return self._source.concurrency

    @property
    def damage_remedy(self) -> str:
        """What to do where the file is damaged."""
        if self._is_page:
            return (
                "The server sent a web page: check the address, which must lead to the"
                " file itself and may need a login or a token."
            )
        return "It may not have been uploaded completely: ask who put it there."

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
        chunks = self._source.kept_chunks(self._key) if missing else None
        if chunks is not None and self._version.tag:
            for group in group_spans(spans, missing):
                kept = chunks.load(self._kept_name([spans[n] for n in group]))
                if kept is not None and kept.tag == self._version.tag:
                    self.counts.add_kept()
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
                    chunks.keep(name, KeptBytes(data, self._version.tag))
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
