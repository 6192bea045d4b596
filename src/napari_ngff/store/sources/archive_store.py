"""Single-file OME-Zarr (RFC-9): a zip archive read in place, also on a server.

Stored entries are read by position, without a lock and without unpacking anything to
disk. Changes wait, and `commit` writes a new archive beside the old one.
"""

from __future__ import annotations

import os
import threading
import weakref
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from napari_ngff.errors import NodeNotFoundError, NotOMEZarrError, OMEZarrError
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.store.limits import (
    NODE_DOCUMENTS,
    check_document_size,
    parse_json,
)
from napari_ngff.store.lru_cache import ByteCache
from napari_ngff.store.sources.archive_rules import check_archive, find_deviations
from napari_ngff.store.sources.blob import Blob, Revision, Traits, clip_range
from napari_ngff.store.sources.file_bytes import why_not_writable
from napari_ngff.store.sources.remote_file import RemoteFile
from napari_ngff.store.sources.zip_directory import (
    DEFLATED,
    ZipArchive,
)
from napari_ngff.store.store import Store
from napari_ngff.store.write.file_lock import turn_lock
from napari_ngff.store.write.waiting_transaction import WaitingTransaction
from napari_ngff.store.write.writer_token import remove_left
from napari_ngff.store.write.zip_packing import rewrite_archive

if TYPE_CHECKING:
    from collections.abc import Collection

    from napari_ngff.store.store import GoesOn, Transaction

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

    @override
    def why_not_written(self, path: str = "") -> str:
        if not self.is_local:
            return super().why_not_written(path)
        # The new archive is written beside the old one, and renamed.
        file = os.path.realpath(self.path)
        return why_not_writable(file, os.path.dirname(file))

    @override
    def begin(self) -> Transaction:
        return ArchiveTransaction(self) if self.is_local else super().begin()

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
        yield from self.problems
        yield from check_archive(self.archive, self.root, is_local=self.is_local)
        comment = self.comment_version
        if comment is not None and stated is not None and comment != stated:
            text = (
                "The comment SHOULD hold the OME-Zarr version; it is "
                f"{comment[:20]}, the metadata {stated[:20]}."
            )
            consequence = "The metadata count."
            yield Problem(
                "ozx-version-differs", Severity.WARNING, "", text, consequence
            )

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


@contextmanager
def all_closed(path: str) -> Iterator[None]:
    """Close an archive in all sources of this process meanwhile."""
    # Windows does not rename over an open file.
    for source in list_open_sources(path):
        source.close()
    try:
        yield
    finally:
        reload_all(path)


class ArchiveTransaction(WaitingTransaction):
    """Change the archive of a `ArchiveStore`; see `Transaction`.

    Memory: some 400 bytes for each entry of the archive while it is written, and some
    hundred for each object that waits.

    Parameters
    ----------
    archive
        It reads the newest archive of its path from now on.
    """

    def __init__(self, archive: ArchiveStore) -> None:
        # The target of a link is replaced, not the link.
        self.path = os.path.realpath(archive.path)
        super().__init__(archive, archive.name, os.path.dirname(self.path))
        self.archive = archive

    # Reading.

    @override
    def refresh(self) -> None:
        with self._lock:
            if not self._waiting:
                # The file may be missing or incomplete while another program writes it:
                # reading continues in the old one, and `commit` raises.
                with suppress(OMEZarrError):
                    self._reopen_changed()

    @override
    def find_revision(self, key: str) -> Revision | None:
        self.refresh()
        return super().find_revision(key)

    def _reopen_changed(self) -> None:
        """Open the archive again if another program replaced it.

        Raises
        ------
        NodeNotFoundError, AccessError, CorruptDataError, UnsupportedError
            As `ZipArchive`.
        """
        now = Revision.of_file(self.path)
        if now is None:
            msg = f"There is no file {self.path} any more. Put it back, and save again."
            raise NodeNotFoundError(msg)
        # By size, time and inode of the whole file: cheaper than comparing the entries.
        if now != self.archive.archive.file.revision:
            self.archive.reload()

    # Writing.

    @override
    def remove_leftovers(self, prefix: str, dead: Collection[str] = ()) -> None:
        """Remove unfinished files of killed processes beside the archive."""
        remove_left(os.path.dirname(self.path))

    @override
    def commit(self, goes_on: GoesOn | None = None) -> bool:
        """Write the archive with all objects that wait; see `Transaction.commit`.

        Raises
        ------
        ConflictError
            As of `Transaction`.
        CorruptDataError, UnsupportedError
            Where the archive is damaged, or has encrypted entries.
        AccessError, OSError
            Where the folder cannot be written, or the disk has no room for a second
            archive. Objects continue to wait.
        """
        # Threads of this process; other processes wait at the lock of the archive in
        # `replace_archive`.
        with turn_lock(self.path):
            # Again, if another program replaced the archive while the new one was
            # written.
            while self._waiting:
                self._drop_conflicts()
                self._secure_all()
                done = self._write_archive(goes_on)
                if done is not None:
                    return done
        return True

    def _drop_conflicts(self) -> None:
        """Drop objects that other programs have changed in the archive."""
        with self._lock:
            self._reopen_changed()
        replaced = self._find_replaced()
        with self._lock:
            # An object may be ours already, if an earlier commit failed after the
            # rename.
            changed = [
                key
                for key, waiting in self._waiting.items()
                if key.startswith(replaced)
                or self._stored_revision(key)
                not in (waiting.before, self.source.find_revision(key))
            ]
            for key in changed:
                del self._waiting[key]
            self._conflicts += changed
        self._raise_conflicts()

    def _write_archive(self, goes_on: GoesOn | None) -> bool | None:
        """Write the new archive; None if the old one was changed meanwhile."""
        with self._lock:
            entry_name = self.archive.entry_name
            staged = {entry_name(k): v.content for k, v in self._waiting.items()}
        # As it will be: the comment states the version of this document.
        root = self.source.get("zarr.json")
        old = self.archive.archive
        done = rewrite_archive(self.path, old, staged, root, all_closed, goes_on)
        if not done:
            return done
        try:
            reload_all(self.path)
        finally:
            # After the reload: until then only the waiting objects are readable.
            self._forget_saved()
        return True
