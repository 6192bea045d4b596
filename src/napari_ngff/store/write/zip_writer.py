"""Writes a zip archive whose entries are known beforehand, in several threads.

All sizes are known, and so is where each entry goes. There are ZIP64 records whatever
the size ("The ZIP64 format extension SHOULD be used", RFC-9). Numbers in comments are
sections of PKWARE's APPNOTE.TXT.
"""

from __future__ import annotations

import errno
import os
import struct
import threading
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.sources.zip_directory import (
    END,
    END64,
    END64_SIGNATURE,
    END_SIGNATURE,
    ENTRY_SIGNATURE,
    LOCAL_SIGNATURE,
    LOCATOR,
    LOCATOR_SIGNATURE,
    MAX32,
    UTF8,
    PositionFile,
    read_into,
)
from napari_ngff.store.workers import CORES, share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari_ngff.store.write.transaction import GoesOn

__all__ = ["InflatingError", "Part", "size_of_archive", "write_archive"]

HEADER = struct.Struct("<4sHHHHHIIIHH")  # 4.3.7
HEADER64 = struct.Struct("<HHQQ")  # 4.5.3
CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")  # 4.3.12

VERSION, UNIX = 45, 3 << 8
"""The first version of the format with ZIP64 (4.4.3.2); whose attributes these are."""

BATCH = 1 << 19
"""Bytes that are read, and written, at once: they stay in a core's own cache."""

COPIED = 8 << 20
"""Bytes that the system is told to copy at once."""

READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)

MIDNIGHT = 0, 0x21
"""Time and date of the first day of 1980 (4.4.6): equal folders give equal archives."""

UNSUPPORTED = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF}


@dataclass(frozen=True, slots=True)
class Part:
    """An entry to be written, and where its bytes are.

    Attributes
    ----------
    name
        UTF-8 with ``/``.
    length
        Bytes as they are stored.
    source
        File that has them; or its path, and it is opened when it is its turn.
    start
        Where in `source` they begin.
    crc
        Of the bytes before compression; None to compute it, where there is none.
    method
        Of compression (4.4.5): 0 is none.
    size
        Bytes before compression; None where there is none.
    stamp
        Time and date of the last change (4.4.6).
    mode
        External attributes (4.4.15).
    packed
        Bytes in `source` that are inflated to `length` ones; None to copy them.
    """

    name: bytes
    length: int
    source: PositionFile | str
    start: int = 0
    crc: int | None = None
    method: int = 0
    size: int | None = None
    stamp: tuple[int, int] = MIDNIGHT
    mode: int = 0o644 << 16
    packed: int | None = None

    @property
    def flags(self) -> int:
        """General purpose flags (4.4.4)."""
        return 0 if self.name.isascii() else UTF8

    @property
    def full(self) -> int:
        """Bytes before compression."""
        return self.length if self.size is None else self.size

    @property
    def room(self) -> int:
        """Bytes in the archive, without those in its directory."""
        return HEADER.size + len(self.name) + HEADER64.size + self.length

    def header(self, crc: int) -> bytes:
        """Bytes before those of the entry."""
        head = HEADER.pack(
            LOCAL_SIGNATURE, VERSION, self.flags, self.method, *self.stamp, crc,
            MAX32, MAX32, len(self.name), HEADER64.size,
        )  # fmt: skip
        return head + self.name + HEADER64.pack(1, 16, self.full, self.length)

    def listed(self, crc: int, offset: int) -> bytes:
        """Bytes in the directory."""
        numbers = self.full, self.length, offset
        large = [n for n in numbers if n >= MAX32]
        extra = b""
        if large:
            extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large)
        size, length, place = (min(n, MAX32) for n in numbers)
        head = CENTRAL.pack(
            ENTRY_SIGNATURE, UNIX | VERSION, VERSION, self.flags, self.method,
            *self.stamp, crc, length, size, len(self.name), len(extra), 0, 0, 0,
            self.mode, place,
        )  # fmt: skip
        return head + self.name + extra


class _StoppedError(Exception):
    """Raised in all threads when the caller does not want to go on."""


def size_of_archive(parts: Iterable[Part], comment: bytes) -> int:
    """Bytes that an archive needs at most."""
    entries = sum(
        one.room + CENTRAL.size + len(one.name) + HEADER64.size + 8 for one in parts
    )
    return entries + END64.size + LOCATOR.size + END.size + len(comment)


def write_archive(
    handle: int, parts: Sequence[Part], comment: bytes, goes_on: GoesOn | None = None
) -> bool:
    """Write an archive into an empty file.

    Memory: `BATCH` for each thread, and some 200 bytes for each entry.

    Parameters
    ----------
    handle
        Of the file, open for writing.
    parts
        In the order of the archive.
    comment
        Of the archive, at most 65535 bytes.
    goes_on
        See `GoesOn`; called now and then, one call at a time.

    Returns
    -------
    bool
        False where `goes_on` has said so; the file is of no use then.

    Raises
    ------
    CorruptDataError
        Where a source is shorter than it was.
    InflatingError
        Where an entry that is to be inflated is damaged.
    OSError
        Where reading or writing fails.
    """
    writer = _Writer(handle, parts, goes_on)
    try:
        share_work(writer.batches(), writer.write, len(parts), CORES)
    except _StoppedError:
        return False
    writer.finish(comment)
    return True


class _Writer:
    def __init__(
        self, handle: int, parts: Sequence[Part], goes_on: GoesOn | None
    ) -> None:
        self.handle, self.parts, self.goes_on = handle, parts, goes_on
        self.offsets: list[int] = []
        at = 0
        for part in parts:
            self.offsets.append(at)
            at += part.room
        self.end = at
        self.crcs = [part.crc or 0 for part in parts]
        self._done = 0
        self._lock = threading.Lock()
        self._own = threading.local()
        self._copies = hasattr(os, "copy_file_range")

    def batches(self) -> Iterator[range]:
        """Cut the parts into runs of about `BATCH`, or of one that is larger."""
        first = size = 0
        for number, part in enumerate(self.parts):
            if size and size + part.room > BATCH:
                yield range(first, number)
                first, size = number, 0
            size += part.room
        if first < len(self.parts):
            yield range(first, len(self.parts))

    def write(self, batch: range) -> None:
        """Write a run of parts."""
        if not hasattr(self._own, "buffer"):
            self._own.buffer = memoryview(bytearray(BATCH))
        first = self.parts[batch[0]]
        if first.room > BATCH:
            self._write_large(batch[0], first)
            return
        end = 0
        for number in batch:
            part = self.parts[number]
            data = self._own.buffer[end + part.room - part.length : end + part.room]
            with _opened(part) as source:
                source.fill(part, 0, data)
            if part.crc is None:
                self.crcs[number] = zlib.crc32(data)
            head = part.header(self.crcs[number])
            self._own.buffer[end : end + len(head)] = head
            end += part.room
        write_at(self.handle, self._own.buffer[:end], self.offsets[batch[0]])
        self._tell(end)

    def _write_large(self, number: int, part: Part) -> None:
        at = self.offsets[number] + part.room - part.length
        done = crc = 0
        with _opened(part) as source:
            while done < part.length:
                left = part.length - done
                step = 0
                if part.crc is not None and part.packed is None and self._copies:
                    step = self._copy(source.number, part.start + done, at, left)
                if not step:
                    data = self._own.buffer[: min(BATCH, left)]
                    source.fill(part, done, data)
                    if part.crc is None:
                        crc = zlib.crc32(data, crc)
                    write_at(self.handle, data, at)
                    step = len(data)
                done, at = done + step, at + step
                self._tell(step)
        if part.crc is None:
            self.crcs[number] = crc
        head = part.header(self.crcs[number])
        write_at(self.handle, head, self.offsets[number])
        self._tell(len(head))

    def _copy(self, source: int, start: int, at: int, length: int) -> int:
        """Let the system copy; 0 where it cannot between these two files."""
        try:
            return os.copy_file_range(
                source, self.handle, min(length, COPIED), start, at
            )
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            self._copies = False
            return 0

    def _tell(self, written: int) -> None:
        if self.goes_on is None:
            return
        with self._lock:
            self._done += written
            if not self.goes_on(self._done, self.end):
                raise _StoppedError

    def finish(self, comment: bytes) -> None:
        """Write the directory and what comes after it."""
        listed = map(Part.listed, self.parts, self.crcs, self.offsets)
        directory = b"".join(listed)
        count, length, start = len(self.parts), len(directory), self.end
        where = start + length
        # The record counts from behind its own size on.
        most = END64.size - 12
        tail = [
            END64.pack(
                END64_SIGNATURE, most, UNIX | VERSION, VERSION, 0, 0, count, count,
                length, start,
            ),
            LOCATOR.pack(LOCATOR_SIGNATURE, 0, where, 1),
            END.pack(
                END_SIGNATURE, 0, 0, min(count, 0xFFFF), min(count, 0xFFFF),
                min(length, MAX32), min(start, MAX32), len(comment),
            ),
            comment,
        ]  # fmt: skip
        write_at(self.handle, directory + b"".join(tail), start)


@dataclass(frozen=True, slots=True)
class _Source:
    """A file that parts come from: number of its handle, and how to read it."""

    number: int
    read_into: Callable[[int, memoryview], int]

    def fill(self, part: Part, start: int, buffer: memoryview) -> None:
        """Read bytes of a part, as many as fit."""
        done = self.read_into(part.start + start, buffer)
        grown = isinstance(part.source, str) and (
            os.fstat(self.number).st_size != part.length
        )
        if done < len(buffer) or grown:
            where = part.source if isinstance(part.source, str) else part.source.name
            name = part.name.decode(errors="replace")
            raise CorruptDataError(
                f"{where} changed while {name} was copied from it.",
                remedy="Try again when no program writes to it.",
            )


class InflatingError(CorruptDataError):
    """A deflated entry that is damaged, and can only be copied as it is."""


class _Deflated:
    """A deflated entry, inflated in the order of its bytes."""

    number = -1

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        self._taken = self._crc = 0

    def fill(self, part: Part, start: int, buffer: memoryview) -> None:
        """Inflate the next bytes of a part, as many as fit."""
        done = 0
        try:
            while done < len(buffer):
                data = self._stream.unconsumed_tail or self._more(part)
                some = self._stream.decompress(data, len(buffer) - done)
                if not some and not self._stream.unconsumed_tail and not data:
                    raise InflatingError("cut off")
                buffer[done : done + len(some)] = some
                done += len(some)
            self._crc = zlib.crc32(buffer, self._crc)
            if start + done == part.length:
                self._finish(part)
        except zlib.error as error:
            raise InflatingError(str(error)) from error

    def _more(self, part: Part) -> bytes:
        assert isinstance(part.source, PositionFile)
        assert part.packed is not None
        length = min(BATCH, part.packed - self._taken)
        data = part.source.read(part.start + self._taken, length)
        self._taken += len(data)
        return data

    def _finish(self, part: Part) -> None:
        """Compare all with what the archive says."""
        rest = self._stream.unconsumed_tail or self._more(part)
        more = self._stream.decompress(rest, 1)
        if more or not self._stream.eof or self._crc != part.crc:
            raise InflatingError("other bytes than its size or checksum")


@contextmanager
def _opened(part: Part) -> Iterator[_Source | _Deflated]:
    if part.packed is not None:
        yield _Deflated()
        return
    if not isinstance(part.source, str):
        yield _Source(part.source.fileno(), part.source.read_into)
        return
    handle = os.open(part.source, READING)
    try:
        yield _Source(handle, partial(read_into, handle))
    finally:
        os.close(handle)


_seeking = threading.Lock()


def write_at(handle: int, data: bytes | memoryview, at: int) -> None:
    """Write all of `data` at a position, from any thread."""
    left = memoryview(data)
    while left:
        if hasattr(os, "pwrite"):
            step = os.pwrite(handle, left, at)
        else:  # Windows
            with _seeking:
                os.lseek(handle, at, os.SEEK_SET)
                step = os.write(handle, left)
        left, at = left[step:], at + step
