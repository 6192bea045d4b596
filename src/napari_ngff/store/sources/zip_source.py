"""Single-file OME-Zarr (RFC-9): a zip archive read in place, also on a server.

Stored entries are read by position, without a lock and without unpacking anything to
disk.
"""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from typing_extensions import override

from napari_ngff.errors import NotOMEZarrError
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.store.limits import NODE_DOCUMENTS, check_document_size, parse_json
from napari_ngff.store.lru_cache import ByteCache
from napari_ngff.store.sources.remote_file import RemoteFile
from napari_ngff.store.sources.source import Blob, Revision, Source
from napari_ngff.store.sources.zip_directory import DEFLATED, ZipArchive

VERIFIED = (".json", ".zattrs", ".zgroup", ".zarray", ".zmetadata")


class ZipSource(Source):
    """The objects of a hierarchy inside a zip archive; see `Source`.

    The checksum is verified for metadata and for deflated entries, not for stored
    chunks: they would take a sixth longer to read, a part of a shard has no checksum of
    its own here, and in a folder there is none at all. On a server that cannot say
    whether a file changes, it is verified for all, and parts are cut out of whole
    entries.

    Parameters
    ----------
    file
        Path of the archive, or the archive on a server.
    root
        Folder inside that is the root of the hierarchy, "" for the archive's own.

    Raises
    ------
    NodeNotFoundError, AccessError, CorruptDataError, UnsupportedError
        As `ZipArchive`.
    """

    def __init__(
        self, file: str | os.PathLike[str] | RemoteFile, root: str = ""
    ) -> None:
        self._remote = file if isinstance(file, RemoteFile) else None
        self.archive = ZipArchive(
            file if isinstance(file, RemoteFile) else os.fspath(file)
        )
        self.path = self.archive.path
        self.root = root.strip("/")
        if self._remote is not None:
            self._remote.read_ahead(self.archive.find_documents_end())
        # Other tools compress all entries: a shard in it is then read in many parts,
        # and each part would inflate it again.
        self._inflated: ByteCache[bytes] = ByteCache(256 * 2**20, least=1)
        with _listing:
            _opened.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return ZipSource, (self._remote or self.path, self.root)

    def __repr__(self) -> str:
        return f"ZipSource({self.path!r}, {self.root!r})"

    @property
    @override
    def name(self) -> str:
        """The archive's path or address, and the root's inside where it is nested."""
        return f"{self.path}/{self.root}" if self.root else self.path

    @property
    @override
    def concurrency(self) -> int:
        return self.archive.file.concurrency

    @property
    def is_local(self) -> bool:
        """Return whether the archive is a file of this computer."""
        return self._remote is None

    def reload(self) -> None:
        """Open the local file that has this path now; reads that have begun end in the
        old one.

        Raises
        ------
        NodeNotFoundError, AccessError, CorruptDataError, UnsupportedError
            As `ZipArchive`; nothing has changed then.
        """
        # Opened before it is assigned: an error leaves the old archive in use.
        archive = ZipArchive(self.path)
        self.archive = archive
        # `cached_property` keeps its value there; the new file may have other
        # deviations.
        self.__dict__.pop("problems", None)

    @property
    def comment(self) -> bytes:
        """The archive's comment."""
        return self.archive.comment

    @property
    def comment_version(self) -> str | None:
        """OME-Zarr version that the archive's comment states, or None."""
        try:
            # Earlier drafts of RFC-9 ended it with a null.
            version = parse_json(self.comment.rstrip(b"\0"))["ome"]["version"]
        except (ValueError, KeyError, TypeError):
            return None
        return version if isinstance(version, str) else None

    @cached_property
    @override
    def problems(self) -> tuple[Problem, ...]:
        """Deviations of the archive from RFC-9, found when first used."""
        return tuple(find_deviations(self.archive, self.root, self.comment_version))

    def close(self) -> None:
        """Close the file; also done when the object is no longer used."""
        self.archive.close()

    @override
    def read(
        self, key: str, start: int | None = None, length: int | None = None
    ) -> Blob | None:
        # Taken once: `reload` may put another archive there while this one is read.
        archive = self.archive
        name = self.entry_name(key)
        entry = archive.find_entry(name)
        if entry is None:
            return None
        pinned = archive.file.is_pinned
        whole = entry.method == DEFLATED or not (pinned or start is None)
        if start is None or whole:
            check_document_size(f"{self.name}/{key}", entry.size)
        if whole:
            cache_key = archive.file.revision, entry.offset
            data = self._inflated.get(cache_key)
            if data is None:
                data = archive.read(name, entry, verify=True)
                self._inflated.put(cache_key, data, len(data))
            if start is not None:
                data = data[clip_range(start, length, len(data))]
        elif start is None:
            verified = name.endswith(VERIFIED) or not pinned
            data = archive.read(name, entry, verify=verified)
        else:
            part = clip_range(start, length, entry.stored)
            data = archive.read_part(name, entry, part)
        return Blob(data, Revision(entry.size, entry.crc))

    @override
    def find_revision(self, key: str) -> Revision | None:
        # By CRC-32: the times in an archive that this package writes are all equal.
        entry = self.archive.find_entry(self.entry_name(key))
        return None if entry is None else Revision(entry.size, entry.crc)

    @override
    def list_names(self, prefix: str) -> tuple[str, ...]:
        parent = "/".join(part for part in (self.root, prefix.strip("/")) if part)
        base = f"{parent}/".encode() if parent else b""
        entries = self.archive.names
        names: set[bytes] = set()
        position = bisect_left(entries, base)
        # By bisection from child to child: a folder of a million chunks takes no
        # longer.
        while position < len(entries) and entries[position].startswith(base):
            child, slash, _ = entries[position][len(base) :].partition(b"/")
            names.add(child)
            # "0" comes after "/": the first name that is not in this folder.
            position = (
                bisect_left(entries, base + child + b"0", position)
                if slash
                else position + 1
            )
        names.discard(b"")  # the folder itself, where the archive lists folders
        return tuple(sorted(name.decode(errors="replace") for name in names))

    def find_root(self) -> str:
        """Find the folder of the archive that is the root of the hierarchy.

        Returns
        -------
        str
            "" as RFC-9 demands, or the one top folder that holds a hierarchy.

        Raises
        ------
        NotOMEZarrError
            Where there is none, or more than one.
        """
        index = self.archive.index
        if any(name.encode() in index for name in NODE_DOCUMENTS):
            return ""
        documents = tuple(f"/{name}".encode() for name in NODE_DOCUMENTS)
        folders = sorted(
            {
                name.rpartition(b"/")[0].decode(errors="replace")
                for name in index
                if name.endswith(documents)
            }
        )
        top = [folder for folder in folders if "/" not in folder]
        if len(top) == 1:
            return top[0]
        candidates = top or folders
        text = f"{self.path} has no zarr.json at its root"
        if candidates:
            more = ", ..." if len(candidates) > 5 else ""
            text += f", but in folders inside: {', '.join(candidates[:5])}{more}"
        raise NotOMEZarrError(
            f"{text}.",
            remedy="Pack the content of one OME-Zarr folder, without that folder.",
        )

    def entry_name(self, key: str) -> str:
        """Return the name of an object in the archive."""
        return f"{self.root}/{key}" if self.root else key

    @override
    def list_keys(self, prefix: str) -> Iterator[str]:
        entries = self.archive.names
        base = self.entry_name(f"{prefix}/" if prefix else "").encode()
        root_length = len(self.root) + 1 if self.root else 0
        position = bisect_left(entries, base)
        while position < len(entries) and entries[position].startswith(base):
            if not entries[position].endswith(b"/"):
                yield entries[position].decode(errors="replace")[root_length:]
            position += 1


def open_zip(file: str | os.PathLike[str] | RemoteFile) -> ZipSource:
    """Open an archive at the root of its hierarchy, nested in a folder or not.

    Raises
    ------
    NotOMEZarrError
        Where no hierarchy is inside, or several are.
    NodeNotFoundError, AccessError, CorruptDataError, UnsupportedError
        As `ZipSource`.
    """
    source = ZipSource(file)
    try:
        source.root = source.find_root()
    except NotOMEZarrError:
        source.close()
        raise
    return source


# A save replaces the file: every source of this process then has to open the new one.
_opened: weakref.WeakSet[ZipSource] = weakref.WeakSet()
_listing = threading.Lock()


def list_open_sources(path: str) -> list[ZipSource]:
    """List the sources of this process that read the archive at a resolved path."""
    with _listing:
        sources = list(_opened)
    return [
        source
        for source in sources
        if source.is_local and os.path.realpath(source.path) == path
    ]


def reload_all(path: str) -> None:
    """Let all sources of this process open the archive that has this path now."""
    # Sources are kept weakly: those of closed layers are gone, and open nothing again.
    for source in list_open_sources(path):
        source.reload()


def close_all(path: str) -> None:
    """Close an archive in all sources of this process, until `reload_all`."""
    # Windows does not rename over an open file.
    for source in list_open_sources(path):
        source.close()


def find_deviations(
    archive: ZipArchive, root: str, version: str | None
) -> list[Problem]:
    """Compare an archive with RFC-9."""
    problems: list[Problem] = []

    def add_warning(code: str, where: str, text: str, consequence: str = "") -> None:
        problems.append(Problem(code, Severity.WARNING, where, text, consequence))

    if root:
        text = (
            f"The hierarchy is in the folder {root!r} of the archive. "
            '"The root of the ZIP archive MUST correspond to the root of the OME-Zarr '
            'hierarchy".'
        )
        nested = "Read from that folder."
        problems.append(Problem("ozx-root-nested", Severity.ERROR, root, text, nested))
    if version is None:
        add_warning(
            "ozx-comment-missing",
            "",
            "No OME-Zarr version in the archive's comment. \"The ZIP archive comment "
            "SHOULD contain an UTF-8-encoded JSON string with an `ome` attribute that "
            'holds a `version` key".',
        )
    if archive.compressed:
        add_warning(
            "ozx-entry-compressed",
            archive.compressed[0].decode(errors="replace"),
            f"{len(archive.compressed)} of {archive.count} entries are compressed. "
            '"ZIP-level compression SHOULD be disabled in favor of Zarr-level '
            'compression codecs".',
            "Slower, above all where chunks are in shards.",
        )
    if not json_first(archive, root):
        add_warning(
            "ozx-json-not-first",
            "zarr.json",
            '"The root-level `zarr.json` file SHOULD be the first ZIP file entry and '
            "the first entry in the central directory header; other `zarr.json` files "
            'SHOULD follow immediately afterwards".',
        )
    return problems


def json_first(archive: ZipArchive, root: str) -> bool:
    """Return whether the directory begins with all zarr.json, the root's first."""
    first = f"{root}/zarr.json" if root else "zarr.json"
    names = iter(archive.index.items())
    if next(names, (b"", 0))[0] != first.encode():
        return False
    for name, position in names:
        if not name.endswith(b"zarr.json"):
            # A search in the raw directory: a loop over a million names takes long.
            return archive.directory.find(b"/zarr.json", position) < 0
    return True


def clip_range(start: int, length: int | None, size: int) -> slice:
    """Return the bytes that `Source.read` is to read of an object of `size`."""
    low = min(start, size) if start >= 0 else max(0, size + start)
    high = size if length is None else min(size, low + length)
    return slice(low, max(low, high))
