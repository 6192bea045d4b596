"""Writes a zip archive in several threads.

All sizes are known beforehand, and so are the positions of the entries. There are ZIP64
records whatever the size ("The ZIP64 format extension SHOULD be used", RFC-9). Numbers
in comments are sections of PKWARE's APPNOTE.TXT.
"""

from __future__ import annotations

import errno
import os
import struct
import threading
import zlib
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.sources.file_bytes import PositionFile, write_at
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
)
from napari_ngff.store.threads import CORES, share_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from napari_ngff.store.store import GoesOn

HEADER = struct.Struct("<4sHHHHHIIIHH")  # 4.3.7
HEADER64 = struct.Struct("<HHQQ")  # 4.5.3
CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")  # 4.3.12

VERSION, UNIX = 45, 3 << 8
"""First version of the format with ZIP64 (4.4.3.2); attributes as in UNIX (4.4.2.2)."""

BATCH = 1 << 19
"""Bytes that are read and written at once: they fit into the cache of a core."""

COPIED = 8 << 20
"""Bytes that the system copies by one call."""

MIDNIGHT = 0, 0x21
"""Time and date of the first day of 1980 (4.4.6): equal folders give equal archives."""

UNSUPPORTED = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF}


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """An entry that is to be written, and where its bytes are.

    Attributes
    ----------
    name
        UTF-8 with ``/``.
    length
        Bytes as they are stored.
    size
        Bytes before compression.
    source
        File that has the bytes, or a path, which is opened only to copy it.
    start
        Where the bytes begin in `source`.
    crc
        CRC-32 of the bytes before compression; None to compute it, if uncompressed.
    method
        Method of compression (4.4.5): 0 is none.
    stamp
        Time and date of the last change (4.4.6).
    mode
        External attributes (4.4.15).
    """

    name: bytes
    length: int
    size: int
    source: PositionFile | str
    start: int = 0
    crc: int | None = None
    method: int = 0
    stamp: tuple[int, int] = MIDNIGHT
    mode: int = 0o644 << 16

    @property
    def flags(self) -> int:
        """General purpose flags (4.4.4)."""
        return 0 if self.name.isascii() else UTF8

    @property
    def archive_size(self) -> int:
        """Bytes in the archive, without those in its directory."""
        return HEADER.size + len(self.name) + HEADER64.size + self.length

    def make_header(self, crc: int) -> bytes:
        """Return the local header (4.3.7), which is before the bytes of the entry."""
        head = HEADER.pack(
            LOCAL_SIGNATURE, VERSION, self.flags, self.method, *self.stamp, crc,
            MAX32, MAX32, len(self.name), HEADER64.size,
        )  # fmt: skip
        # Always with ZIP64, so that the length of a header is known before the entry is
        # read.
        return head + self.name + HEADER64.pack(1, 16, self.size, self.length)

    def make_record(self, crc: int, offset: int) -> bytes:
        """Return the record of the entry in the directory (4.3.12)."""
        numbers = self.size, self.length, offset
        # Only those that do not fit, in this order (4.5.3).
        large = [n for n in numbers if n >= MAX32]
        extra = b""
        if large:
            extra = struct.pack(f"<HH{len(large)}Q", 1, 8 * len(large), *large)
        size, length, start = (min(n, MAX32) for n in numbers)
        head = CENTRAL.pack(
            ENTRY_SIGNATURE, UNIX | VERSION, VERSION, self.flags, self.method,
            *self.stamp, crc, length, size, len(self.name), len(extra), 0, 0, 0,
            self.mode, start,
        )  # fmt: skip
        return head + self.name + extra


class _StoppedError(Exception):
    """The caller stops the writing; raised in all threads."""


def size_of_archive(parts: Iterable[ArchiveEntry], comment: bytes) -> int:
    """Return the most bytes that an archive needs."""
    # 8 more than a ZIP64 field of two sizes: in the directory it may have the offset.
    entries = sum(
        part.archive_size + CENTRAL.size + len(part.name) + HEADER64.size + 8
        for part in parts
    )
    return entries + END64.size + LOCATOR.size + END.size + len(comment)


def write_archive(
    handle: int,
    parts: Sequence[ArchiveEntry],
    comment: bytes,
    goes_on: GoesOn | None = None,
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
        False if `goes_on` stopped it; the file is incomplete then.

    Raises
    ------
    CorruptDataError
        Where a source became shorter meanwhile.
    OSError
        Where reading or writing fails.
    """
    writer = _EntryWriter(handle, parts, goes_on)
    try:
        share_work(writer.cut_batches(), writer.write_batch, len(parts), CORES)
    except _StoppedError:
        return False
    writer.write_directory(comment)
    return True


class _EntryWriter:
    def __init__(
        self, handle: int, parts: Sequence[ArchiveEntry], goes_on: GoesOn | None
    ) -> None:
        self.handle, self.parts, self.goes_on = handle, parts, goes_on
        self.offsets: list[int] = []
        offset = 0
        for part in parts:
            self.offsets.append(offset)
            # Positions are fixed before anything is written, so threads need no order.
            offset += part.archive_size
        self.end = offset
        self.crcs = [part.crc or 0 for part in parts]
        self._done = 0
        self._lock = threading.Lock()
        self._local = threading.local()
        self._copies = hasattr(os, "copy_file_range")

    def cut_batches(self) -> Iterator[range]:
        """Group the entries into batches of about `BATCH` bytes, or of one larger
        entry.
        """
        first = size = 0
        for number, part in enumerate(self.parts):
            # Small entries are joined: one write for many chunks.
            if size and size + part.archive_size > BATCH:
                yield range(first, number)
                first, size = number, 0
            size += part.archive_size
        if first < len(self.parts):
            yield range(first, len(self.parts))

    def write_batch(self, batch: range) -> None:
        """Write a batch of entries."""
        if not hasattr(self._local, "buffer"):
            # One per thread, used again for each batch.
            self._local.buffer = memoryview(bytearray(BATCH))
        # A batch with an entry larger than the buffer has only that entry.
        first = self.parts[batch[0]]
        if first.archive_size > BATCH:
            self._write_large(batch[0], first)
            return
        end = 0
        for number in batch:
            part = self.parts[number]
            data = self._local.buffer[
                end + part.archive_size - part.length : end + part.archive_size
            ]
            with _open_source(part) as source:
                _read_entry(source, part, 0, data)
            if part.crc is None:
                self.crcs[number] = zlib.crc32(data)
            # After the bytes, since the checksum is computed of them.
            head = part.make_header(self.crcs[number])
            self._local.buffer[end : end + len(head)] = head
            end += part.archive_size
        write_at(self.handle, self._local.buffer[:end], self.offsets[batch[0]])
        self._report_progress(end)

    def _write_large(self, number: int, part: ArchiveEntry) -> None:
        offset = self.offsets[number] + part.archive_size - part.length
        done = crc = 0
        with _open_source(part) as source:
            while done < part.length:
                remaining = part.length - done
                step = 0
                # By the system where no byte has to be seen: the checksum is known.
                if part.crc is not None and self._copies:
                    step = self._copy_by_system(
                        source.fileno(), part.start + done, offset, remaining
                    )
                if not step:
                    data = self._local.buffer[: min(BATCH, remaining)]
                    _read_entry(source, part, done, data)
                    if part.crc is None:
                        crc = zlib.crc32(data, crc)
                    write_at(self.handle, data, offset)
                    step = len(data)
                done, offset = done + step, offset + step
                self._report_progress(step)
        if part.crc is None:
            self.crcs[number] = crc
        head = part.make_header(self.crcs[number])
        write_at(self.handle, head, self.offsets[number])
        self._report_progress(len(head))

    def _copy_by_system(self, source: int, start: int, offset: int, length: int) -> int:
        """Copy bytes by the system; return how many, 0 if it cannot copy these
        files.
        """
        try:
            return os.copy_file_range(
                source, self.handle, min(length, COPIED), start, offset
            )
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            # Not tried again: it depends on the file systems, which stay the same.
            self._copies = False
            return 0

    def _report_progress(self, written: int) -> None:
        if self.goes_on is None:
            return
        # `goes_on` is the caller's: it must not run in two threads at once.
        with self._lock:
            self._done += written
            if not self.goes_on(self._done, self.end):
                raise _StoppedError

    def write_directory(self, comment: bytes) -> None:
        """Write the directory and the records behind it."""
        listed = map(ArchiveEntry.make_record, self.parts, self.crcs, self.offsets)
        directory = b"".join(listed)
        count, length, start = len(self.parts), len(directory), self.end
        where = start + length
        # The size of this record does not count its first 12 bytes (4.3.14.1).
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
        # Last: an archive without its directory cannot be taken for a complete one.
        write_at(self.handle, directory + b"".join(tail), start)


def _open_source(part: ArchiveEntry) -> AbstractContextManager[PositionFile]:
    """Open the file that has the bytes of an entry, unless it is open."""
    if isinstance(part.source, str):
        return closing(PositionFile(part.source))
    return nullcontext(part.source)


def _read_entry(
    file: PositionFile, part: ArchiveEntry, start: int, buffer: memoryview
) -> None:
    """Fill a buffer with bytes of an entry, from `start` on."""
    done = file.read_into(part.start + start, buffer)
    # Only files of a folder change their size: what waits, and the old archive, do not.
    changed = isinstance(part.source, str) and (
        os.fstat(file.fileno()).st_size != part.length
    )
    if done < len(buffer) or changed:
        name = part.name.decode(errors="replace")
        raise CorruptDataError(
            f"{file.name} changed while {name} was copied from it.",
            remedy="Try again when no program writes to it.",
        )
