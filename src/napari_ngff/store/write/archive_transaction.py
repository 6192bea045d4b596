"""Changes a zip archive: objects wait, and `commit` writes a new archive.

It is written beside the old one. Entries that stay are copied as they are, verified,
and the archive is renamed.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from typing_extensions import override

from napari_ngff.errors import (
    NodeNotFoundError,
    OMEZarrError,
    UnsupportedError,
    name_errors,
)
from napari_ngff.store.limits import size_text
from napari_ngff.store.sources.archive_store import ArchiveStore, close_all, reload_all
from napari_ngff.store.sources.blob import Revision
from napari_ngff.store.sources.file_bytes import PositionFile
from napari_ngff.store.sources.zip_directory import (
    ENCRYPTED,
    ZipArchive,
)
from napari_ngff.store.write.file_lock import lock_open_file, turn_lock
from napari_ngff.store.write.fsync import flush_folder, flush_open_file
from napari_ngff.store.write.replace_file import rename_aside, rename_over
from napari_ngff.store.write.waiting_transaction import WaitingTransaction
from napari_ngff.store.write.writer_token import aside_name, new_token, remove_left
from napari_ngff.store.write.zip_packing import rank_key, update_comment
from napari_ngff.store.write.zip_writer import (
    ArchiveEntry,
    size_of_archive,
    write_archive,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from napari_ngff.store.store import GoesOn
    from napari_ngff.store.write.waiting_transaction import StagedObject

ATTRIBUTES = struct.Struct("<12xHH22xI4x")  # 4.3.12: time, date, external attributes


def rewrite_archive(
    path: str,
    old: ZipArchive,
    staged: Mapping[str, StagedObject | None],
    root: bytes | None,
    goes_on: GoesOn | None = None,
) -> bool | None:
    """Replace an archive by a new one with changed entries.

    Entries are in the order of RFC-9, with ZIP64 records. Memory: some 400 bytes for
    each entry, and a few MiB.

    Parameters
    ----------
    path
        Of the archive, without links.
    old
        The archive as it is.
    staged
        Name -> new object; None to leave it out.
    root
        The document at the root of the hierarchy, for the comment.
    goes_on
        See `GoesOn`.

    Returns
    -------
    bool or None
        False if `goes_on` stopped it; None if another program replaced the archive
        meanwhile. Then the file is as it was.

    Raises
    ------
    CorruptDataError, UnsupportedError
        Where the archive is damaged, or has encrypted entries.
    AccessError
        Where the folder cannot be written.
    OSError
        Where the disk has no room for a second archive, with the numbers, or where
        writing fails.
    """
    remove_left(os.path.dirname(path))
    comment = update_comment(old.comment, root)
    parts = plan_entries(old, staged)
    require_room(path, size_of_archive(parts, comment))
    aside = aside_name(path, new_token())
    try:
        with name_errors(path), open(aside, "x+b", buffering=0) as file:
            # Another process must not take it for a file that is left over.
            lock_open_file(file.fileno())
            if not write_archive(file.fileno(), parts, comment, goes_on):
                return False
            flush_open_file(file)
            # Flushed, then verified, then named: an archive that cannot be read never
            # replaces one that can.
            verify_archive(aside, parts, staged)
            if sys.platform == "win32":
                file.close()
            return True if replace_archive(aside, path, old) else None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(aside)


def plan_entries(
    old: ZipArchive, staged: Mapping[str, StagedObject | None]
) -> list[ArchiveEntry]:
    """List all entries in the order of RFC-9."""
    added = sorted(name.encode() for name in staged if name.encode() not in old.index)
    parts = []
    for name in sorted([*old.index, *added], key=lambda name: rank_key(name.decode())):
        text = name.decode()
        if text not in staged:
            parts.append(plan_copy(old, name))
        elif (new := staged[text]) is not None:
            crc = new.revision.stamp
            parts.append(ArchiveEntry(name, new.length, new.file, new.start, crc))
    return parts


def verify_archive(
    path: str, parts: list[ArchiveEntry], staged: Mapping[str, StagedObject | None]
) -> None:
    """Open a written archive, and compare its entries with the plan.

    Raises
    ------
    CorruptDataError
    """
    new = ZipArchive(path)
    try:
        if len(new.index) != len(parts):
            raise new.damage_error(f"lists {len(new.index)} of {len(parts)} entries")
        for part, (name, position) in zip(parts, new.index.items(), strict=True):
            entry, text = new.entry_at(position), name.decode()
            written = name, entry.method, entry.stored, entry.size, entry.crc
            if written != (
                part.name,
                part.method,
                part.length,
                part.full_size,
                part.crc,
            ):
                raise new.damage_error(f"does not list {text} as it was written")
            # Reads the local header: directory and headers have to agree.
            new.find_start(text, entry)
            if text in staged:
                new.read(text, entry, verify=True)
    finally:
        new.close()


def plan_copy(archive: ZipArchive, name: bytes) -> ArchiveEntry:
    """Plan an entry that is copied as it is."""
    position = archive.index[name]
    entry = archive.entry_at(position)
    if entry.flags & ENCRYPTED:
        raise UnsupportedError(
            f"{name.decode()} in {archive.path} is encrypted, and the archive"
            " cannot be rewritten.",
            remedy="Pack it again without a password.",
        )
    # Kept as they are, so that the archive differs only in what was changed.
    time, date, mode = ATTRIBUTES.unpack_from(archive.directory, position)
    start = archive.find_start(name.decode(), entry)
    if start + entry.stored > archive.file.size:
        raise archive.damage_error(f"is cut off inside {name.decode()}")
    assert isinstance(archive.file, PositionFile)
    return ArchiveEntry(
        name, entry.stored, archive.file, start, entry.crc, entry.method, entry.size,
        (time, date), mode,
    )  # fmt: skip


def require_room(path: str, needed: int) -> None:
    """Raise if the disk has too little room beside a file.

    Raises
    ------
    OSError
    """
    folder = os.path.dirname(path)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            errno.ENOSPC,
            f"No room to rewrite {path}: {folder} has {size_text(free)} free, and"
            f" {size_text(needed)} are needed for the new file beside the old one",
        )


def replace_archive(aside: str, path: str, old: ZipArchive) -> bool:
    """Rename a new archive into its place, unless another program replaced the old
    one.
    """
    if sys.platform == "win32":
        return replace_closed(aside, path, old)
    with open(path, "rb") as file:
        # Another process that saves into it waits here, and then finds a new file.
        lock_open_file(file.fileno(), wait=True)
        now = Revision.of_stat(os.fstat(file.fileno()))
        # The lock is on the old file: after the rename, a process that waited holds a
        # file without a name, and compares.
        if now != old.file.revision or not rename_over(aside, path, now):
            return False
    flush_folder(os.path.dirname(path))
    return True


def replace_closed(aside: str, path: str, old: ZipArchive) -> bool:
    """Replace the archive on Windows, where it must not be open."""
    if Revision.of_file(path) != old.file.revision:
        return False
    # All sources of this process; another process that has it open makes the rename
    # fail.
    close_all(path)
    try:
        rename_aside(aside, path)
    finally:
        reload_all(path)
    return True


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
        """Write the archive with all that waits; see `Transaction.commit`.

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
        # With what waits: the version in the comment has to be that of the new
        # document.
        root = self.source.get("zarr.json")
        done = rewrite_archive(self.path, self.archive.archive, staged, root, goes_on)
        if not done:
            return done
        try:
            reload_all(self.path)
        finally:
            # After the reload: until then only the waiting objects are readable.
            self._forget_saved()
        return True
