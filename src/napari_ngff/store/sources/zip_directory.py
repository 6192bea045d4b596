"""Reads the directory of a zip archive, and its entries by position.

Follows PKWARE's APPNOTE.TXT; numbers in comments are its sections. Python's zipfile
takes seconds for a million entries, and has one lock for all reads.
"""

from __future__ import annotations

import struct
import zlib
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from napari_ngff.errors import CorruptDataError, UnsupportedError
from napari_ngff.store.compression import DECODING_ERRORS, inflate_stream
from napari_ngff.store.limits import is_document
from napari_ngff.store.sources.file_bytes import PositionFile

if TYPE_CHECKING:
    from napari_ngff.store.sources.remote_file import FileBytes

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

LARGEST_EXTRA = 4096
"""Bytes between two documents that follow each other: extra fields, or alignment."""

MOST_INFLATED, MOST_RATIO = 2**30, 1000
"""Bytes, and ratio of bytes, above both of which a deflated entry is refused: deflate
reaches 1032 at best, for zeros."""


class ZipEntry(NamedTuple):
    """One file: compression method, flags, CRC-32, sizes in bytes, where it starts."""

    method: int
    flags: int
    crc: int
    stored: int
    size: int
    offset: int


class ZipArchive:
    """The files of an archive, by name.

    Names are UTF-8 with ``/``: those that the archive has in CP437 are converted,
    backslashes too, and a leading ``./`` goes. Of files of one name the last counts,
    as it does for every unzip. A folder, where listed, ends in ``/``.

    Parameters
    ----------
    file
        Path of the archive, or its bytes.

    Attributes
    ----------
    path
        Path or address of the archive.
    index
        Name -> where its entry starts in `directory`, in the order of the directory.
    count
        Number of entries, replaced ones included.
    compressed
        Names of the entries that are not simply stored.

    Raises
    ------
    NodeNotFoundError, AccessError
        Where the file is not there, or may not be read.
    CorruptDataError
        Where it is no zip archive, or cut off.
    UnsupportedError
        Where it is one of several parts.
    """

    def __init__(self, file: str | FileBytes) -> None:
        self.file: FileBytes = PositionFile(file) if isinstance(file, str) else file
        self.path = self.file.name
        try:
            self.directory, self._shift, self.comment, self.count = self._read_end()
            self.index, self.compressed = self._index_names()
        except BaseException:
            self.file.close()
            raise
        self._starts: dict[int, int] = {}
        self._extra = 0
        self._known: tuple[str, ZipEntry] | None = None

    def close(self) -> None:
        """Close the file; also done when the object is no longer used."""
        self.file.close()

    @cached_property
    def names(self) -> list[bytes]:
        """Names of all files, sorted."""
        return sorted(self.index)

    def damage_error(self, what: str) -> CorruptDataError:
        """Make the error about a damaged archive."""
        return CorruptDataError(f"{self.path} {what}.", remedy=self.file.damage_remedy)

    def find_entry(self, name: str) -> ZipEntry | None:
        """Describe the file of that name, None where there is none.

        Raises
        ------
        UnsupportedError
            Where it is encrypted, or compressed by something other than deflate.
        """
        # The chunks of one shard are read one after the other.
        known = self._known
        if known is not None and known[0] == name:
            return known[1]
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
        self._known = name, entry
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
            data = self._inflate_entry(name, entry)
        if verify and zlib.crc32(data) != entry.crc:
            raise self.damage_error(f"has a wrong checksum at {name}")
        return data

    def read_part(self, name: str, entry: ZipEntry, part: slice) -> bytes:
        """Read bytes of a file as they are stored."""
        length: int = part.stop - part.start
        start = self._starts.get(entry.offset)
        if start is None:
            # Header and bytes together, where they are if its extra field is as long as
            # the last one: a server answers each request only after a while.
            guess = entry.offset + LOCAL.size + len(name.encode()) + self._extra
            if self._is_inside(guess + part.start, length):
                spans = (entry.offset, LOCAL.size), (guess + part.start, length)
                header, data = self.file.read_spans(spans)
                start = self._parse_start(name, entry, header)
                if start == guess and len(data) == length:
                    return data
            else:
                start = self.find_start(name, entry)
        start += part.start
        # An entry may claim any length: no memory is taken for what the file lacks.
        fits = self._is_inside(start, length)
        data = self.file.read(start, length) if fits else b""
        if len(data) < length:
            raise self.damage_error(f"is cut off inside {name}")
        return data

    def _is_inside(self, start: int, length: int) -> bool:
        return start >= 0 and start + length <= self.file.size

    def _inflate_entry(self, name: str, entry: ZipEntry) -> bytes:
        if entry.size > max(MOST_INFLATED, MOST_RATIO * entry.stored):
            raise self.damage_error(f"claims {entry.size} bytes in {name}")
        data = self.read_part(name, entry, slice(0, entry.stored))
        try:
            return inflate_stream(data, entry.size)
        except DECODING_ERRORS as error:
            raise self.damage_error(f"is damaged at {name}: {error}") from error

    def find_start(self, name: str, entry: ZipEntry) -> int:
        """Find where a file's bytes begin, behind its local header.

        Raises
        ------
        CorruptDataError
            Where something else is there than the directory says.
        """
        start = self._starts.get(entry.offset)
        if start is None:
            inside = 0 <= entry.offset < self.file.size
            header = self.file.read(entry.offset, LOCAL.size) if inside else b""
            start = self._parse_start(name, entry, header)
        return start

    def _parse_start(self, name: str, entry: ZipEntry, header: bytes) -> int:
        if len(header) < LOCAL.size or header[:4] != LOCAL_SIGNATURE:
            raise self.damage_error(f"does not hold {name} at the stated place")
        # The lengths of this header: its extra field may differ from that of the
        # directory (4.4.11), and does in archives of Info-ZIP.
        _, length, extra = LOCAL.unpack(header)
        self._extra = extra
        start: int = entry.offset + LOCAL.size + length + extra
        self._starts[entry.offset] = start
        return start

    def find_documents_end(self) -> int:
        """Find where the metadata ends that an archive begins with (RFC-9).

        Returns
        -------
        int
            Position in the file; 0 where the archive begins with something else.
        """
        # By the directory itself: `jsonFirst` of the comment promises no more, and is
        # not there in archives of other tools that have the same order.
        stop = self._shift
        for name, position in self.index.items():
            entry = self.entry_at(position)
            between = entry.offset - stop
            if not is_document(name.decode(errors="replace")) or not (
                0 <= between <= LARGEST_EXTRA
            ):
                break
            stop = entry.offset + LOCAL.size + len(name) + entry.stored
        if stop == self._shift:
            return 0
        return min(stop + LARGEST_EXTRA, self.file.size)

    def _read_end(self) -> tuple[bytes, int, bytes, int]:
        """Read the directory, bytes before the archive, comment, number of entries."""
        size = self.file.size
        # A comment has at most 65535 bytes (4.3.16), so the end record is in these last
        # bytes.
        reach = min(size, END.size + 0xFFFF + LOCATOR.size)
        tail = self.file.read(size - reach, reach)
        position = tail.rfind(END_SIGNATURE)
        # The comment may contain the four bytes of the signature, too; of the true one
        # the comment ends at the end of the file.
        while position >= 0 and end_length(tail, position) > len(tail) - position:
            position = tail.rfind(END_SIGNATURE, 0, position)
        if position < 0:
            raise self.damage_error("is not a zip archive, or its end is missing")
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
            raise self.damage_error(f"claims a directory of {length >> 20} MB")
        # Offsets do not count bytes that stand before the archive, such as those of a
        # self-extracting one.
        shift = stop - length - offset
        directory = self.file.read(offset + shift, length) if shift >= 0 else b""
        if len(directory) < length:
            raise self.damage_error("is cut off: its directory is longer than the file")
        return directory, shift, comment, count

    def _read_end64(self, where: int, stop: int) -> tuple[int, int, int, int]:
        # `where` does not count what stands before the archive; then the record is
        # right before its locator.
        for position in (where, stop - LOCATOR.size - END64.size):
            data = self.file.read(position, END64.size) if position >= 0 else b""
            if len(data) == END64.size and data.startswith(END64_SIGNATURE):
                count, length, offset = END64.unpack(data)[7:]
                return position, count, length, offset
        raise self.damage_error("has a ZIP64 locator that points nowhere")

    def _index_names(self) -> tuple[dict[bytes, int], list[bytes]]:
        """Find where each entry starts; its content is parsed when it is read."""
        index, compressed = self._scan_directory()
        # One test of all names: normalising each takes long for a million.
        names = b"/".join(index)
        if names.isascii() and b"\\" not in names and b"./" not in names:
            return index, compressed
        flags = {
            name: ENTRY_SIZES.unpack_from(self.directory, position)[1]
            for name, position in index.items()
        }
        return (
            {normal_name(name, flags[name]): start for name, start in index.items()},
            [normal_name(name, flags[name]) for name in compressed],
        )

    def _scan_directory(self) -> tuple[dict[bytes, int], list[bytes]]:
        # The one loop over all entries: everything that can wait is left to `entry_at`.
        directory = self.directory
        index: dict[bytes, int] = {}
        compressed: list[bytes] = []
        unpack, fixed, end = ENTRY.unpack_from, ENTRY.size, len(directory)
        position = count = 0
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
                count += 1
        except struct.error as error:
            raise self.damage_error("has a directory that is cut off") from error
        # Without ZIP64 the count is kept modulo 65536.
        if (count - self.count) % 65536 or position > end:
            raise self.damage_error(f"lists {count} of {self.count} entries")
        return index, compressed

    def entry_at(self, position: int) -> ZipEntry:
        """Parse the entry at a position of `directory`."""
        directory = self.directory
        method, length, extra, _ = ENTRY.unpack_from(directory, position)
        mark, flags, crc, stored, size, offset = ENTRY_SIZES.unpack_from(
            directory, position
        )
        if mark != ENTRY_SIGNATURE:
            raise self.damage_error("has a damaged directory")
        if MAX32 in (stored, size, offset):
            start = position + ENTRY.size + length
            # Only those numbers follow that do not fit into 32 bits, in this order
            # (4.5.3).
            large = iter(zip64_numbers(directory[start : start + extra]))
            try:
                size = next(large) if size == MAX32 else size
                stored = next(large) if stored == MAX32 else stored
                offset = next(large) if offset == MAX32 else offset
            except StopIteration:
                raise self.damage_error("has a damaged ZIP64 entry") from None
        return ZipEntry(method, flags, crc, stored, size, offset + self._shift)


def end_length(tail: bytes, start: int) -> int:
    """Return the bytes of the end record at `start`, with its comment."""
    if len(tail) < start + END.size:
        return END.size
    comment: int = END.unpack_from(tail, start)[-1]
    return END.size + comment


def normal_name(name: bytes, flags: int) -> bytes:
    """Return the name of an entry as UTF-8 with ``/`` and no leading ``./``."""
    text = name.decode("utf-8" if flags & UTF8 else "cp437", errors="replace")
    # "All slashes MUST be forward slashes" (4.4.17.1); .NET before 4.6.1 wrote others.
    text = text.replace("\\", "/")
    while text.startswith("./"):
        text = text[2:]
    return text.encode()


def zip64_numbers(extra: bytes) -> tuple[int, ...]:
    """Return the numbers of the ZIP64 extra field (4.5.3), () where there is none."""
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
