"""Single-file OME-Zarr (RFC-9): a zip archive read in place.

Stored entries are read by position from one file handle, without a lock and without
unpacking; an own index of the central directory opens 10^5 entries in milliseconds.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import weakref
import zlib
from bisect import bisect_left
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from napari_ngff.errors import (
    AccessError,
    CorruptDataError,
    NodeNotFoundError,
    NotOMEZarrError,
    UnsupportedError,
)
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.store.cache import ByteCache
from napari_ngff.store.compression import DECODING_ERRORS, inflate

if TYPE_CHECKING:
    from zarr.abc.store import Store

__all__ = ["ZipSource", "open_zip"]

STORED, DEFLATED = 0, 8
ENCRYPTED, UTF8 = 0x1, 0x800
MAX32 = 0xFFFF_FFFF

# APPNOTE.TXT 4.3.16, 4.3.15, 4.3.14, 4.3.12 and 4.3.7
END = struct.Struct("<4sHHHHIIH")
LOCATOR = struct.Struct("<4sIQI")
END64 = struct.Struct("<4sQHHIIQQQQ")
ENTRY = struct.Struct("<I4xHH16xHHH12x")
ENTRY_SIZES = struct.Struct("<16xIII14xI")
LOCAL = struct.Struct("<4s22xHH")
END_SIGNATURE, END64_SIGNATURE = b"PK\x05\x06", b"PK\x06\x06"
LOCATOR_SIGNATURE, LOCAL_SIGNATURE = b"PK\x06\x07", b"PK\x03\x04"
ENTRY_SIGNATURE = 0x02014B50

MOST_INFLATED = 2**30
MOST_RATIO = 1000
"""A deflated entry above both is refused: deflate itself reaches 1032, for zeros."""

DOCUMENTS = ("zarr.json", ".zattrs", ".zgroup", ".zarray")
VERIFIED = (*DOCUMENTS, ".zmetadata", ".json")


class Entry(NamedTuple):
    """One file of the archive: method, flags, checksum, sizes in bytes, place."""

    method: int
    flags: int
    crc: int
    stored: int
    size: int
    offset: int


class ZipSource:
    """The objects of a hierarchy inside a zip archive; see `Source`.

    Names are read as UTF-8 where the archive says so, else as CP437; backslashes
    become ``/`` and a leading ``./`` goes. Of entries of one name the last counts, as
    for every unzip. The checksum is verified for metadata and for deflated entries;
    not for stored chunks, where it would cost a third of the time to read them, and
    where a folder has none either.

    Parameters
    ----------
    path
        Of the archive.
    root
        Folder inside that is the root of the hierarchy, "" for the archive's own.

    Raises
    ------
    NodeNotFoundError
        Where there is no such file.
    AccessError
        Where the system refuses to read it.
    CorruptDataError
        Where it is no zip archive, or cut off.
    UnsupportedError
        Where it is one of several parts.
    """

    def __init__(self, path: str | os.PathLike[str], root: str = "") -> None:
        self.path = os.fspath(path)
        self.root = root.strip("/")
        self._file = File(self.path)
        try:
            self._directory, self._shift, self.comment, count = self._read_end()
            self._index, self._compressed = self._parse(count)
        except BaseException:
            self._file.close()
            raise
        self._count = count
        self._starts: dict[int, int] = {}
        # Shards of a carelessly made archive are deflated, and read in many parts.
        self._inflated: ByteCache[bytes] = ByteCache(256 * 2**20)

    def __reduce__(self) -> tuple[Any, ...]:
        return ZipSource, (self.path, self.root)

    def __repr__(self) -> str:
        return f"ZipSource({self.path!r}, {self.root!r})"

    @property
    def name(self) -> str:
        """The archive's path, and the root's inside where it is nested."""
        return f"{self.path}/{self.root}" if self.root else self.path

    @property
    def concurrency(self) -> int:
        """One reader per core: more only fight for the interpreter."""
        return os.cpu_count() or 1

    def close(self) -> None:
        """Close the file; happens by itself when the object is no longer used."""
        self._file.close()

    def get(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> bytes | None:
        """Read an object or a part of it; see `Source.get`.

        Raises
        ------
        CorruptDataError
            Where the entry is damaged, cut off or larger than it says.
        UnsupportedError
            Where it is encrypted, or compressed by something other than deflate.
        """
        name = f"{self.root}/{key}" if self.root else key
        position = self._index.get(name.encode())
        if position is None:
            return None
        entry = self._entry(position)
        if entry.flags & ENCRYPTED:
            raise UnsupportedError(self._say(name, "is encrypted: decrypt the archive"))
        if entry.method == STORED:
            return self._read_stored(name, position, entry, start, length)
        if entry.method != DEFLATED:
            method = f"is compressed by method {entry.method}: pack it without"
            raise UnsupportedError(self._say(name, method))
        data = self._inflated.get(position)
        if data is None:
            data = self._inflate(name, position, entry)
            self._inflated.put(position, data, len(data))
        return data if start is None else data[clip(start, length, len(data))]

    def names(self, prefix: str) -> tuple[str, ...]:
        """Names directly below `prefix`, sorted; see `Source.names`."""
        parent = "/".join(part for part in (self.root, prefix.strip("/")) if part)
        base = f"{parent}/".encode() if parent else b""
        entries = self._sorted
        found: set[bytes] = set()
        at = bisect_left(entries, base)
        while at < len(entries) and entries[at].startswith(base):
            child, slash, _ = entries[at][len(base) :].partition(b"/")
            found.add(child)
            # "0" follows "/" in the alphabet: the first name behind this folder.
            at = bisect_left(entries, base + child + b"0", at) if slash else at + 1
        return tuple(sorted(name.decode() for name in found))

    def store(self) -> Store:
        """Open the same objects as a read-only zarr store."""
        from napari_ngff.store.bridge import SourceStore

        return SourceStore(self)

    def find_root(self) -> str:
        """Folder inside the archive that is the root of the hierarchy.

        Returns
        -------
        str
            "" as RFC-9 demands, or the one top folder that holds a hierarchy.

        Raises
        ------
        NotOMEZarrError
            Where there is none, or more than one.
        """
        if any(name.encode() in self._index for name in DOCUMENTS):
            return ""
        folders = {
            parts[0].decode()
            for parts in (name.split(b"/") for name in self._index)
            if len(parts) == 2 and parts[1].decode() in DOCUMENTS
        }
        if len(folders) == 1:
            return folders.pop()
        deeper = sorted(folders) or sorted(
            {
                folder.decode() or "/"
                for folder, _, leaf in (n.rpartition(b"/") for n in self._index)
                if leaf.decode() in DOCUMENTS
            }
        )
        inside = ", ".join(deeper[:5]) + (", ..." if len(deeper) > 5 else "")
        raise NotOMEZarrError(
            f"{self.path} has no zarr.json at its root. "
            + (f"These folders inside have one: {inside}." if deeper else "")
            + " Unpack it, or pack the content of the OME-Zarr folder itself."
        )

    @property
    def comment_version(self) -> str | None:
        """OME-Zarr version that the archive's comment tells, or None."""
        try:
            version = json.loads(self.comment.rstrip(b"\0"))["ome"]["version"]
        except (ValueError, KeyError, TypeError):
            return None
        return version if isinstance(version, str) else None

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """How the archive deviates from RFC-9; found out when first asked for."""
        return tuple(self._find_problems())

    @cached_property
    def _sorted(self) -> list[bytes]:
        return sorted(self._index)

    def _find_problems(self) -> list[Problem]:
        found: list[Problem] = []

        def warn(code: str, where: str, text: str, consequence: str = "") -> None:
            found.append(Problem(code, Severity.WARNING, where, text, consequence))

        if self.root:
            text = (
                f'The hierarchy is in the folder {self.root!r} of the archive. "The '
                "root of the ZIP archive MUST correspond to the root of the OME-Zarr "
                'hierarchy."'
            )
            found.append(
                Problem(
                    "ozx-root-nested",
                    Severity.ERROR,
                    self.root,
                    text,
                    "Read from that folder.",
                )
            )
        if self.comment_version is None:
            warn(
                "ozx-comment-missing",
                "",
                'The archive has no comment that tells the OME-Zarr version: "its ZIP '
                "archive comment SHOULD contain null-terminated UTF-8-encoded JSON "
                'with an `ome` attribute".',
            )
        if self._compressed:
            warn(
                "ozx-entry-compressed",
                self._compressed[0].decode(errors="replace"),
                f"{len(self._compressed)} of {self._count} entries are compressed. "
                '"ZIP-level compression SHOULD be disabled in favor of Zarr-level '
                'compression codecs."',
                "Slower to read, above all where sharded.",
            )
        if not self._json_first():
            warn(
                "ozx-json-not-first",
                "zarr.json",
                '"The root-level `zarr.json` file SHOULD be the first ZIP file entry '
                "and the first entry in the central directory header; other "
                '`zarr.json` files SHOULD follow immediately afterwards".',
            )
        return found

    def _json_first(self) -> bool:
        last = 0
        for number, (name, position) in enumerate(self._index.items()):
            if not name.endswith(b"zarr.json"):
                return number > 0 and self._directory.find(b"zarr.json", position) < 0
            if number == 0 and name != f"{self.root}/zarr.json".strip("/").encode():
                return False
            last = position
        return last >= 0

    def _say(self, name: str, what: str) -> str:
        return f"{name} in {self.path} {what}."

    def _damaged(self, what: str) -> CorruptDataError:
        return CorruptDataError(
            f"{self.path} {what}. Copy or download it again: it may be incomplete."
        )

    def _read_end(self) -> tuple[bytes, int, bytes, int]:
        """Central directory, bytes before the archive, comment, number of entries."""
        size = self._file.size
        reach = min(size, END.size + 0xFFFF + LOCATOR.size)
        tail = self._file.read(size - reach, reach)
        at = tail.rfind(END_SIGNATURE)
        while at >= 0:
            if len(tail) >= at + END.size:
                end = END.unpack_from(tail, at)
                if at + END.size + end[7] <= len(tail):
                    break
            at = tail.rfind(END_SIGNATURE, 0, at)
        else:
            raise self._damaged("is not a zip archive, or its end is missing")
        _, disk, first, _, count, length, offset, comment_length = end
        start = at + END.size
        comment = tail[start : start + comment_length]
        stop = size - reach + at
        mark = at - LOCATOR.size
        if mark >= 0 and tail[mark : mark + 4] == LOCATOR_SIGNATURE:
            _, _, where, disks = LOCATOR.unpack_from(tail, mark)
            disk = first = 0 if disks <= 1 else 1
            stop, count, length, offset = self._read_end64(where, stop)
        if disk or first:
            raise UnsupportedError(
                f'{self.path} is one part of a split archive; "Zipped OME-Zarr files '
                'SHALL NOT be split into multiple parts" (RFC-9). Join the parts.'
            )
        shift = stop - length - offset
        if shift < 0:
            raise self._damaged("is cut off: its directory is larger than the file")
        directory = self._file.read(offset + shift, length)
        if len(directory) < length:
            raise self._damaged("is cut off")
        return directory, shift, comment, count

    def _read_end64(self, where: int, stop: int) -> tuple[int, int, int, int]:
        # Right before its locator unless it carries extensible data; `where` does not
        # count bytes before the archive.
        for place in (where, stop - LOCATOR.size - END64.size):
            data = self._file.read(place, END64.size) if place >= 0 else b""
            if len(data) == END64.size and data[:4] == END64_SIGNATURE:
                count, length, offset = END64.unpack(data)[7:]
                return place, count, length, offset
        raise self._damaged("has a ZIP64 locator that points nowhere")

    def _parse(self, count: int) -> tuple[dict[bytes, int], list[bytes]]:
        """Name -> where its entry starts in the directory; names of compressed ones."""
        directory = self._directory
        index: dict[bytes, int] = {}
        compressed: list[bytes] = []
        unpack, fixed, end = ENTRY.unpack_from, ENTRY.size, len(directory)
        odd = b"\\" in directory or b"./" in directory
        position = found = 0
        try:
            while position < end:
                signature, flags, method, length, extra, remark = unpack(
                    directory, position
                )
                if signature != ENTRY_SIGNATURE:
                    break
                start = position + fixed
                name = directory[start : start + length]
                if odd or not (flags & UTF8 or name.isascii()):
                    name = normal_name(name, flags)
                if name[-1:] != b"/":
                    index[name] = position
                    if method:
                        compressed.append(name)
                position = start + length + extra + remark
                found += 1
        except struct.error as error:
            raise self._damaged("has a damaged directory") from error
        # Without ZIP64 the count is kept modulo 65536.
        if (found - count) % 65536 or position > end:
            raise self._damaged(f"lists {found} of {count} entries")
        return index, compressed

    def _entry(self, position: int) -> Entry:
        directory = self._directory
        _, flags, method, length, extra, _ = ENTRY.unpack_from(directory, position)
        crc, stored, size, offset = ENTRY_SIZES.unpack_from(directory, position)
        if MAX32 in (stored, size, offset):
            start = position + ENTRY.size + length
            field = zip64_field(directory[start : start + extra])
            values = iter(struct.unpack(f"<{len(field) // 8}Q", field))
            try:
                size = next(values) if size == MAX32 else size
                stored = next(values) if stored == MAX32 else stored
                offset = next(values) if offset == MAX32 else offset
            except StopIteration:
                raise self._damaged("has a damaged ZIP64 entry") from None
        return Entry(method, flags, crc, stored, size, offset + self._shift)

    def _start(self, name: str, position: int, entry: Entry) -> int:
        """Where an entry's bytes begin; its local header has a length of its own."""
        start = self._starts.get(position)
        if start is None:
            header = self._file.read(entry.offset, LOCAL.size)
            start = entry.offset + self._local_length(name, header)
            self._starts[position] = start
        return start

    def _local_length(self, name: str, header: bytes) -> int:
        if len(header) < LOCAL.size or header[:4] != LOCAL_SIGNATURE:
            raise self._damaged(f"does not hold {name} where it says")
        _, length, extra = LOCAL.unpack_from(header)
        return LOCAL.size + int(length) + int(extra)

    def _read_stored(
        self,
        name: str,
        position: int,
        entry: Entry,
        start: int | None,
        length: int | None,
    ) -> bytes:
        if start is not None:
            part = clip(start, length, entry.stored)
            begin = self._start(name, position, entry) + part.start
            data = self._file.read(begin, part.stop - part.start)
            if len(data) < part.stop - part.start:
                raise self._damaged(f"is cut off inside {name}")
            return data
        data = self._read_whole(name, position, entry)
        if name.endswith(VERIFIED) and zlib.crc32(data) != entry.crc:
            raise self._damaged(f"has a wrong checksum at {name}")
        return data

    def _read_whole(self, name: str, position: int, entry: Entry) -> bytes:
        begin = self._start(name, position, entry)
        data = self._file.read(begin, entry.stored)
        if len(data) < entry.stored:
            raise self._damaged(f"is cut off inside {name}")
        return data

    def _inflate(self, name: str, position: int, entry: Entry) -> bytes:
        if entry.size > max(MOST_INFLATED, MOST_RATIO * entry.stored):
            raise self._damaged(f"claims {entry.size} bytes in {name}")
        try:
            data = inflate(self._read_whole(name, position, entry), entry.size)
        except DECODING_ERRORS as error:
            raise self._damaged(f"is damaged at {name}: {error}") from error
        if zlib.crc32(data) != entry.crc:
            raise self._damaged(f"has a wrong checksum at {name}")
        return data


class File:
    """A file read by position, from many threads at once."""

    def __init__(self, path: str) -> None:
        try:
            handle = open(path, "rb", buffering=0)
        except FileNotFoundError as error:
            raise NodeNotFoundError(f"There is no file {path}.") from error
        except PermissionError as error:
            msg = f"No permission to read {path}. Ask its owner, or copy the data."
            raise AccessError(msg) from error
        self._handle = handle
        self.size = os.fstat(handle.fileno()).st_size
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, handle.close)

    def read(self, start: int, length: int) -> bytes:
        """Read `length` bytes from `start`; fewer only at the end of the file."""
        parts: list[bytes] = []
        while length > 0:
            part = self._read_once(start, length)
            if not part:
                break
            parts.append(part)
            start += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    if hasattr(os, "pread"):

        def _read_once(self, start: int, length: int) -> bytes:
            return os.pread(self._handle.fileno(), length, start)

    else:  # Windows

        def _read_once(self, start: int, length: int) -> bytes:
            with self._lock:
                self._handle.seek(start)
                return self._handle.read(length)


def open_zip(path: str | os.PathLike[str]) -> ZipSource:
    """Open an archive at the root of its hierarchy, nested in a folder or not.

    Raises
    ------
    NotOMEZarrError
        Where no hierarchy is inside, or several are.
    NodeNotFoundError, AccessError, CorruptDataError, UnsupportedError
        As `ZipSource`.
    """
    source = ZipSource(path)
    try:
        source.root = source.find_root()
    except NotOMEZarrError:
        source.close()
        raise
    return source


def normal_name(name: bytes, flags: int) -> bytes:
    """Name of an entry as UTF-8 with ``/`` and no leading ``./``."""
    text = name.decode("utf-8" if flags & UTF8 else "cp437", errors="replace")
    text = text.replace("\\", "/")
    while text.startswith("./"):
        text = text[2:]
    return text.encode()


def zip64_field(extra: bytes) -> bytes:
    """Find the ZIP64 field (APPNOTE 4.5.3) among extra fields, b"" where none is."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            return extra[at + 4 : at + 4 + length // 8 * 8]
        at += 4 + length
    return b""


def clip(start: int, length: int | None, size: int) -> slice:
    """Bytes that `Source.get` is asked for, inside an object of `size`."""
    low = min(start, size) if start >= 0 else max(0, size + start)
    high = size if length is None else min(size, low + length)
    return slice(low, max(low, high))
