"""A zip archive's directory, indexed by name, and its entries, read by position.

Follows PKWARE's APPNOTE.TXT; numbers in comments are its sections.
"""

from __future__ import annotations

import os
import struct
import threading
import weakref
import zlib
from functools import cached_property
from typing import Any, NamedTuple

from napari_ngff.errors import (
    AccessError,
    CorruptDataError,
    NodeNotFoundError,
    UnsupportedError,
)
from napari_ngff.store.compression import DECODING_ERRORS, inflate
from napari_ngff.store.sources.revision import Revision

__all__ = ["Archive", "File", "ZipEntry"]

STORED, DEFLATED = 0, 8
ENCRYPTED, UTF8 = 0x1, 0x800
MAX32 = 0xFFFF_FFFF

END = struct.Struct("<4sHHHHIIH")  # 4.3.16
LOCATOR = struct.Struct("<4sIQI")  # 4.3.15
END64 = struct.Struct("<4sQHHIIQQQQ")  # 4.3.14
ENTRY = struct.Struct("<10xH16xHHH12x")  # 4.3.12
ENTRY_SIZES = struct.Struct("<4s4xH6xIII14xI")
LOCAL = struct.Struct("<4s22xHH")  # 4.3.7
END_SIGNATURE, END64_SIGNATURE = b"PK\x05\x06", b"PK\x06\x06"
LOCATOR_SIGNATURE, LOCAL_SIGNATURE = b"PK\x06\x07", b"PK\x03\x04"
ENTRY_SIGNATURE = b"PK\x01\x02"

LARGEST_DIRECTORY = 256 << 20
"""Bytes of an archive's directory: more than two million entries."""

MOST_INFLATED, MOST_RATIO = 2**30, 1000
"""A deflated entry above both is refused: deflate reaches 1032 at best, for zeros."""


class ZipEntry(NamedTuple):
    """One file: compression method, flags, CRC-32, sizes in bytes, where it starts."""

    method: int
    flags: int
    crc: int
    stored: int
    size: int
    offset: int


class Archive:
    """The files of an archive, by name.

    Names are UTF-8 with ``/``: those that the archive has in CP437 are converted,
    backslashes too, and a leading ``./`` goes. Of files of one name the last counts,
    as it does for every unzip. A folder, where listed, ends in ``/``.

    Parameters
    ----------
    path
        Of the archive.

    Attributes
    ----------
    index
        Name -> where its entry starts in `directory`, in the order of the directory.
    count
        Number of entries, replaced ones included.
    compressed
        Names of what is not merely stored.

    Raises
    ------
    NodeNotFoundError, AccessError
        Where the file is not there, or may not be read.
    CorruptDataError
        Where it is no zip archive, or cut off.
    UnsupportedError
        Where it is one of several parts.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.file = File(path)
        try:
            self.directory, self._shift, self.comment, self.count = self._read_end()
            self.index, self.compressed = self._parse()
        except BaseException:
            self.file.close()
            raise
        self._starts: dict[int, int] = {}

    def close(self) -> None:
        """Close the file; happens by itself when the object is no longer used."""
        self.file.close()

    @cached_property
    def names(self) -> list[bytes]:
        """Names of all files, sorted."""
        return sorted(self.index)

    def damaged(self, what: str) -> CorruptDataError:
        """Make the error that says what is wrong with the archive."""
        return CorruptDataError(
            f"{self.path} {what}.",
            remedy="Copy or download it again: it may be incomplete.",
        )

    def entry(self, name: str) -> ZipEntry | None:
        """Describe the file of that name, None where there is none.

        Raises
        ------
        UnsupportedError
            Where it is encrypted, or compressed by something other than deflate.
        """
        position = self.index.get(name.encode())
        if position is None:
            return None
        entry = self.entry_at(position)
        if entry.flags & ENCRYPTED:
            raise UnsupportedError(
                f"{name} in {self.path} is encrypted.",
                remedy="Pack it again without a password.",
            )
        if entry.method not in (STORED, DEFLATED):
            raise UnsupportedError(
                f"{name} in {self.path} is compressed by method {entry.method}.",
                remedy="Pack it again without compression.",
            )
        return entry

    def read(self, name: str, entry: ZipEntry, verify: bool) -> bytes:
        """Read a whole file; `verify` its checksum.

        Raises
        ------
        CorruptDataError
            Where it is damaged, cut off, or not as large as it says.
        """
        if entry.method == STORED:
            data = self.read_part(name, entry, slice(0, entry.stored))
        else:
            data = self._inflate(name, entry)
        if verify and zlib.crc32(data) != entry.crc:
            raise self.damaged(f"has a wrong checksum at {name}")
        return data

    def read_part(self, name: str, entry: ZipEntry, part: slice) -> bytes:
        """Read bytes of a file as they are stored."""
        length: int = part.stop - part.start
        place = self.start(name, entry) + part.start
        fits = place + length <= self.file.size  # or no system could be asked for it
        data = self.file.read(place, length) if fits else b""
        if len(data) < length:
            raise self.damaged(f"is cut off inside {name}")
        return data

    def _inflate(self, name: str, entry: ZipEntry) -> bytes:
        if entry.size > max(MOST_INFLATED, MOST_RATIO * entry.stored):
            raise self.damaged(f"claims {entry.size} bytes in {name}")
        data = self.read_part(name, entry, slice(0, entry.stored))
        try:
            return inflate(data, entry.size)
        except DECODING_ERRORS as error:
            raise self.damaged(f"is damaged at {name}: {error}") from error

    def start(self, name: str, entry: ZipEntry) -> int:
        """Find where a file's bytes begin: behind a header with a length of its own.

        Raises
        ------
        CorruptDataError
            Where something else is there than the directory says.
        """
        start = self._starts.get(entry.offset)
        if start is None:
            inside = 0 <= entry.offset < self.file.size
            header = self.file.read(entry.offset, LOCAL.size) if inside else b""
            if len(header) < LOCAL.size or header[:4] != LOCAL_SIGNATURE:
                raise self.damaged(f"does not hold {name} at the stated place")
            _, length, extra = LOCAL.unpack(header)
            start = entry.offset + LOCAL.size + length + extra
            self._starts[entry.offset] = start
        return start

    def _read_end(self) -> tuple[bytes, int, bytes, int]:
        """Directory, number of bytes before the archive, comment, number of entries."""
        size = self.file.size
        reach = min(size, END.size + 0xFFFF + LOCATOR.size)
        tail = self.file.read(size - reach, reach)
        position = tail.rfind(END_SIGNATURE)
        # The comment, too, may hold these four bytes: the record has to fit.
        while position >= 0 and end_length(tail, position) > len(tail) - position:
            position = tail.rfind(END_SIGNATURE, 0, position)
        if position < 0:
            raise self.damaged("is not a zip archive, or its end is missing")
        _, disk, _, _, count, length, offset, _ = END.unpack_from(tail, position)
        comment = tail[position + END.size : position + end_length(tail, position)]
        stop = size - reach + position
        mark = position - LOCATOR.size
        if mark >= 0 and tail.startswith(LOCATOR_SIGNATURE, mark):
            _, _, where, disks = LOCATOR.unpack_from(tail, mark)
            disk = max(disks - 1, 0)
            stop, count, length, offset = self._read_end64(where, stop)
        if disk:
            raise UnsupportedError(
                f"{self.path} is one part of several.",
                remedy=(
                    'Join the parts: "Zipped OME-Zarr files SHALL NOT be split into'
                    ' multiple parts" (RFC-9).'
                ),
            )
        if length > LARGEST_DIRECTORY:
            raise self.damaged(f"claims a directory of {length >> 20} MB")
        shift = stop - length - offset
        directory = self.file.read(offset + shift, length) if shift >= 0 else b""
        if len(directory) < length:
            raise self.damaged("is cut off: its directory is longer than the file")
        return directory, shift, comment, count

    def _read_end64(self, where: int, stop: int) -> tuple[int, int, int, int]:
        # `where` does not count what stands before the archive; then the record is
        # right before its locator.
        for place in (where, stop - LOCATOR.size - END64.size):
            data = self.file.read(place, END64.size) if place >= 0 else b""
            if len(data) == END64.size and data.startswith(END64_SIGNATURE):
                count, length, offset = END64.unpack(data)[7:]
                return place, count, length, offset
        raise self.damaged("has a ZIP64 locator that points nowhere")

    def _parse(self) -> tuple[dict[bytes, int], list[bytes]]:
        """Find where each entry starts; what it says is read when it is asked for."""
        index, compressed = self._scan()
        names = b"/".join(index)
        if names.isascii() and b"\\" not in names and b"./" not in names:
            return index, compressed
        flags = {
            name: ENTRY_SIZES.unpack_from(self.directory, position)[1]
            for name, position in index.items()
        }
        return (
            {normal_name(name, flags[name]): at for name, at in index.items()},
            [normal_name(name, flags[name]) for name in compressed],
        )

    def _scan(self) -> tuple[dict[bytes, int], list[bytes]]:
        # The one loop over all entries: everything that can wait is left to `entry_at`.
        directory = self.directory
        index: dict[bytes, int] = {}
        compressed: list[bytes] = []
        unpack, fixed, end = ENTRY.unpack_from, ENTRY.size, len(directory)
        position = found = 0
        try:
            while position < end:
                method, length, extra, remark = unpack(directory, position)
                start = position + fixed
                stop = start + length
                name = directory[start:stop]
                index[name] = position
                if method:
                    compressed.append(name)
                position = stop + extra + remark
                found += 1
        except struct.error as error:
            raise self.damaged("has a directory that is cut off") from error
        # Without ZIP64 the count is kept modulo 65536.
        if (found - self.count) % 65536 or position > end:
            raise self.damaged(f"lists {found} of {self.count} entries")
        return index, compressed

    def entry_at(self, position: int) -> ZipEntry:
        """Describe the file whose entry is there in `directory`, whatever it is."""
        directory = self.directory
        method, length, extra, _ = ENTRY.unpack_from(directory, position)
        mark, flags, crc, stored, size, offset = ENTRY_SIZES.unpack_from(
            directory, position
        )
        if mark != ENTRY_SIGNATURE:
            raise self.damaged("has a damaged directory")
        if MAX32 in (stored, size, offset):
            start = position + ENTRY.size + length
            large = iter(zip64_numbers(directory[start : start + extra]))
            try:
                size = next(large) if size == MAX32 else size
                stored = next(large) if stored == MAX32 else stored
                offset = next(large) if offset == MAX32 else offset
            except StopIteration:
                raise self.damaged("has a damaged ZIP64 entry") from None
        return ZipEntry(method, flags, crc, stored, size, offset + self._shift)


class File:
    """A file read by position, from many threads at once.

    Parameters
    ----------
    path
        Of the file.
    handle
        Of the file if it is open.
    """

    def __init__(self, path: str, handle: Any = None) -> None:
        self.name = path
        try:
            # Closed by finalize.
            handle = handle or open(path, "rb", buffering=0)  # noqa: SIM115
        except FileNotFoundError as error:
            raise NodeNotFoundError(f"There is no file {path}.") from error
        except PermissionError as error:
            msg = f"No permission to read {path}."
            raise AccessError(msg, remedy="Ask its owner, or copy the data.") from error
        self._handle = handle
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, handle.close)
        status = os.fstat(handle.fileno())
        self.size = status.st_size
        self.revision = Revision.of_stat(status)

    def fileno(self) -> int:
        """Return the number that the system gave to the open file."""
        number: int = self._handle.fileno()
        return number

    def read(self, start: int, length: int) -> bytes:
        """Read `length` bytes from `start`; fewer only at the end of the file."""
        data = self._read_some(start, length)
        # One call gives 2 GiB at most on Linux.
        while 0 < len(data) < length:
            more = self._read_some(start + len(data), length - len(data))
            if not more:
                break
            data += more
        return data

    def read_into(self, start: int, buffer: memoryview) -> int:
        """Read bytes from `start` into a buffer; return how many."""
        if hasattr(os, "preadv"):
            return read_into(self.fileno(), start, buffer)
        data = self.read(start, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _read_at(self, start: int, length: int) -> bytes:
        return os.pread(self._handle.fileno(), length, start)

    def _read_locked(self, start: int, length: int) -> bytes:
        with self._lock:
            self._handle.seek(start)
            return self._handle.read(length) or b""

    # Windows has no read that leaves the position of the file alone.
    _read_some = _read_at if hasattr(os, "pread") else _read_locked


def read_into(handle: int, start: int, buffer: memoryview) -> int:
    """Read bytes of an open file into a buffer; return how many, fewer at its end."""
    done = 0
    while done < len(buffer):
        if hasattr(os, "preadv"):
            step = os.preadv(handle, [buffer[done:]], start + done)
        else:  # of a file that nobody else reads
            os.lseek(handle, start + done, os.SEEK_SET)
            data = os.read(handle, len(buffer) - done)
            step = len(data)
            buffer[done : done + step] = data
        if not step:
            break
        done += step
    return done


def end_length(tail: bytes, at: int) -> int:
    """Size in bytes of the end record at `at` with its comment."""
    if len(tail) < at + END.size:
        return END.size
    comment: int = END.unpack_from(tail, at)[-1]
    return END.size + comment


def normal_name(name: bytes, flags: int) -> bytes:
    """Name of an entry as UTF-8 with ``/`` and no leading ``./``."""
    text = name.decode("utf-8" if flags & UTF8 else "cp437", errors="replace")
    text = text.replace("\\", "/")
    while text.startswith("./"):
        text = text[2:]
    return text.encode()


def zip64_numbers(extra: bytes) -> tuple[int, ...]:
    """Numbers of the ZIP64 extra field (4.5.3), () where there is none."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        if kind == 1:
            field = extra[position + 4 : position + 4 + length]
            return tuple(
                n for (n,) in struct.iter_unpack("<Q", field[: len(field) & ~7])
            )
        position += 4 + length
    return ()
