"""Single-file OME-Zarr (RFC-9): a zip archive read in place, also on a server.

Stored entries are read by position, without a lock and without unpacking anything to
disk.
"""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Container, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from typing_extensions import override

from napari_ngff.errors import NotOMEZarrError
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.store.limits import (
    GROUP_DOCUMENTS,
    NODE_DOCUMENTS,
    V2_DOCUMENTS,
    check_document_size,
    parse_json,
)
from napari_ngff.store.lru_cache import ByteCache
from napari_ngff.store.sources.blob import Blob, Revision, Traits
from napari_ngff.store.sources.remote_file import RemoteFile
from napari_ngff.store.sources.zip_directory import (
    DEFLATED,
    EMBEDDED,
    LOCATOR_SIGNATURE,
    ZipArchive,
)
from napari_ngff.store.store import Store

TAIL = 65535 + 22 + 20
"""Bytes at most from the locator of the ZIP64 directory to the end of a file."""

VERIFIED = (".json", ".zattrs", ".zgroup", ".zarray", ".zmetadata")


class ArchiveStore(Store):
    """The objects of a hierarchy inside a zip archive; see `Store`.

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
        self.traits = Traits(self.archive.file.concurrency, has_directory=True)
        self.root = root.strip("/")
        if self._remote is not None:
            self._remote.read_ahead(self.archive.find_documents_end())
        # Other tools compress all entries: a shard in it is then read in many parts,
        # and each part would inflate it again.
        self._inflated: ByteCache[bytes] = ByteCache(256 * 2**20, least=1)
        with _listing:
            _opened.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return ArchiveStore, (self._remote or self.path, self.root)

    def __repr__(self) -> str:
        return f"ArchiveStore({self.path!r}, {self.root!r})"

    @property
    @override
    def name(self) -> str:
        """The archive's path or address, and the root's inside where it is nested."""
        return f"{self.path}/{self.root}" if self.root else self.path

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

    @override
    def check_container(self, stated: str | None) -> Iterator[Problem]:
        return check_archive(self, stated)

    @override
    def find_file(self, before: Revision | None) -> Revision | None:
        file = self.archive.file
        if before is None or isinstance(file, RemoteFile):
            if isinstance(file, RemoteFile) and before is not None:
                file.require_same()
            return file.revision
        return Revision.of_file(self.path)

    @override
    def close(self) -> None:
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


def open_zip(file: str | os.PathLike[str] | RemoteFile) -> ArchiveStore:
    """Open an archive at the root of its hierarchy, nested in a folder or not.

    Raises
    ------
    NotOMEZarrError
        Where no hierarchy is inside, or several are.
    NodeNotFoundError, AccessError, CorruptDataError, UnsupportedError
        As `ArchiveStore`.
    """
    source = ArchiveStore(file)
    try:
        source.root = source.find_root()
    except NotOMEZarrError:
        source.close()
        raise
    return source


# A save replaces the file: every source of this process then has to open the new one.
_opened: weakref.WeakSet[ArchiveStore] = weakref.WeakSet()
_listing = threading.Lock()


def list_open_sources(path: str) -> list[ArchiveStore]:
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
    """Return the bytes that `Store.read` is to read of an object of `size`."""
    low = min(start, size) if start >= 0 else max(0, size + start)
    high = size if length is None else min(size, low + length)
    return slice(low, max(low, high))


def check_archive(source: ArchiveStore, stated: str | None) -> Iterator[Problem]:
    """Compare an archive with RFC-9; see `Store.check_container`."""
    yield from source.problems
    # One byte, to learn whether it exists. RFC-9 allows Zarr v3 only, so `.zgroup` does
    # not count.
    if source.get("zarr.json", 0, 1) is None:
        text = (
            '"The root of the ZIP archive MUST correspond to the root of the OME-Zarr '
            "hierarchy, and it MUST contain the the OME-Zarr's root-level zarr.json.\""
        )
        yield Problem("ozx-zarr-json-missing", Severity.ERROR, "", text, "It is read.")
    yield from _check_entries(source)
    # Upwards as well: an archive inside a hierarchy is not named by any group, so only
    # its own path shows it.
    parents = Path(source.path).resolve().parents if source.is_local else ()
    if any((folder / name).is_file() for folder in parents for name in GROUP_DOCUMENTS):
        text = f'"{EMBEDDED} (as a sub-hierarchy or otherwise)."'
        yield Problem("ozx-embedded", Severity.ERROR, "", text, "It is read.")
    if not source.path.lower().endswith(".ozx"):
        text = '"The name of zipped OME-Zarr files SHOULD end with .ozx."'
        yield Problem("ozx-name", Severity.WARNING, "", text)
    # An archive of less than 4 GiB needs no ZIP64 records; RFC-9 wants them there
    # anyway.
    file = source.archive.file
    length = min(TAIL, file.size)
    if LOCATOR_SIGNATURE not in file.read(file.size - length, length):
        text = (
            '"The ZIP64 format extension SHOULD be used to allow for files larger than '
            '4 GiB."'
        )
        yield Problem("ozx-zip64-missing", Severity.WARNING, "", text)
    comment = source.comment_version
    if comment is not None and stated is not None and comment != stated:
        text = (
            "The comment SHOULD hold the OME-Zarr version; it is "
            f"{comment[:20]}, the metadata {stated[:20]}."
        )
        consequence = "The metadata count."
        yield Problem("ozx-version-differs", Severity.WARNING, "", text, consequence)


def _check_entries(source: ArchiveStore) -> Iterator[Problem]:
    """Report what an archive has beside its one hierarchy."""
    names = [name.decode(errors="replace") for name in source.archive.names]
    # The first one stands for all: a list of them would say no more.
    inner = next((name for name in names if name.lower().endswith(".ozx")), None)
    if inner is not None:
        text = f'"{EMBEDDED}": {inner[:80]}.'
        yield Problem("ozx-embedded", Severity.ERROR, "", text, "It is not read.")
    groups = {_group_above(name) for name in names if name.endswith("zarr.json")}
    others = [path for path in groups - {source.root} if not _is_reached(path, groups)]
    # Groups of Zarr v2 cannot be part of a hierarchy of Zarr v3, wherever they are.
    if source.root in groups:
        others += [_group_above(name) for name in names if name.endswith(V2_DOCUMENTS)]
    # The smallest path, so that the same archive always gives the same message.
    other = min(others, default=None)
    if other is not None:
        text = (
            f'The group "{other[:80]}" is not below the root: the archive holds another'
            " hierarchy, or the group above has no zarr.json."
        )
        yield Problem("ozx-second-hierarchy", Severity.ERROR, "", text)


def _is_reached(group: str, groups: Container[str]) -> bool:
    """Return whether a group has a parent group, or plain folders up to ``labels``."""
    parent = _group_above(group)
    while parent and parent not in groups:
        parent = _group_above(parent)
    # OME-Zarr 0.5 allows plain folders between "labels" and a label image, nowhere
    # else.
    return parent == _group_above(group) or parent.rpartition("/")[2] == "labels"


def _group_above(path: str) -> str:
    """Return the path of the group that contains a group or a document."""
    return path.rpartition("/")[0]
