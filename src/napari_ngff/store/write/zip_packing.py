"""Packs a folder into a single-file OME-Zarr (RFC-9, ``.ozx``), or writes one anew.

An archive with changed entries is written beside the old one. Entries that stay are
copied as they are, the result is verified, and renamed.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import struct
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.errors import (
    TargetExistsError,
    UnsupportedError,
    name_errors,
)
from napari_ngff.store.limits import parse_json, size_text
from napari_ngff.store.sources.blob import Revision
from napari_ngff.store.sources.file_bytes import PositionFile
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.sources.zip_directory import (
    ENCRYPTED,
    ZipArchive,
)
from napari_ngff.store.write.file_lock import lock_open_file
from napari_ngff.store.write.fsync import flush_folder, flush_open_file
from napari_ngff.store.write.replace_file import (
    rename_aside,
    rename_over,
    replace_when_done,
)
from napari_ngff.store.write.writer_token import (
    aside_name,
    new_token,
    remove_left,
)
from napari_ngff.store.write.zip_writer import (
    ArchiveEntry,
    size_of_archive,
    write_archive,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from napari_ngff.store.store import GoesOn
    from napari_ngff.store.write.waiting_transaction import StagedObject


def pack_hierarchy(
    folder: str | Path,
    file: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    flush: bool = True,
) -> Path:
    """Write the hierarchy at `folder` as one archive, in the order of RFC-9.

    The root's ``zarr.json`` comes first, then all others breadth-first, then the
    rest; nothing is compressed again; the comment states version and order; there are
    ZIP64 records. The archive is written aside and renamed, so that `file` is always
    complete.

    Parameters
    ----------
    folder
        Root of an OME-Zarr 0.5 or newer.
    file
        The archive; its folder must exist.
    overwrite
        Whether to replace `file` if it exists.
    progress
        Called with the bytes that are written, and their total. An error that it raises
        ends the packing, and no file is left.
    flush
        Whether to wait until the archive is on the disk before it gets its name.

    Returns
    -------
    Path
        `file`.

    Raises
    ------
    FileExistsError
        Where `file` exists and `overwrite` is False.
    ValueError
        Where `folder` has no ``zarr.json`` with an OME version: RFC-9 needs Zarr v3;
        or `file` is inside `folder`.
    CorruptDataError
        Where a file changes while it is copied.
    UnsupportedError
        Where a link leads out of `folder`.
    OSError
        Where reading or writing fails.
    """
    folder, file = Path(folder), Path(file)
    if file.exists() and not overwrite:
        raise TargetExistsError(file)
    if file.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{file} would be inside of what it packs; put it elsewhere.")
    comment = make_comment(folder, file)
    # By name within a rank, so that equal folders give equal archives.
    source = FolderStore(str(folder), follows_links=False)
    files = sorted(source.list_files(), key=lambda f: (*rank_key(f[0]), f[0]))
    parts = [ArchiveEntry(key.encode(), size, size, path) for key, path, size in files]

    def goes_on(done: int, total: int) -> bool:
        if progress is not None:
            progress(done, total)
        return True

    with replace_when_done(file, flush=flush) as aside:
        with open(aside, "x+b", buffering=0) as stream:
            write_archive(stream.fileno(), parts, comment, goes_on)
        # As readable for others as the data that were packed.
        shutil.copymode(folder / "zarr.json", aside)
    return file


def make_comment(folder: Path, file: Path) -> bytes:
    """Return the archive's comment."""
    comment = update_comment(b"", FolderStore(str(folder)).get("zarr.json"))
    if comment:
        return comment
    text = f"{folder} is not packed: only OME-Zarr 0.5 and newer can be one file."
    if (folder / ".zgroup").exists():
        command = shlex.join(("napari-ngff", "convert", str(folder), str(file)))
        text += f" It is an older one. To write a copy in 0.5: {command}"
    raise ValueError(text)


def update_comment(comment: bytes, document: bytes | None) -> bytes:
    """Put version and order of entries into the comment of an archive (RFC-9)."""
    # All else in the comment is kept; so is a comment that is not JSON, and that of a
    # hierarchy without ``zarr.json``, which RFC-9 does not define.
    try:
        content = parse_json(comment.rstrip(b"\0") or b"{}")
        version = parse_json(document or b"")["attributes"]["ome"]["version"]
        home = content.setdefault("ome", {})
        home["version"] = version
        order = home.setdefault("zipFile", {}).setdefault("centralDirectory", {})
        # RFC-9; true, since `rank_key` puts all `zarr.json` first.
        order["jsonFirst"] = True
    except (ValueError, KeyError, TypeError, AttributeError):
        return comment
    return json.dumps(content).encode()


def rank_key(key: str) -> tuple[bool, int]:
    """Return a sort key: metadata before the rest, ordered by depth."""
    metadata = key.rpartition("/")[2] == "zarr.json"
    # RFC-9 wants all `zarr.json` first, breadth-first; False sorts before True.
    return not metadata, key.count("/") if metadata else 0


ATTRIBUTES = struct.Struct("<12xHH22xI4x")  # 4.3.12: time, date, external attributes


def rewrite_archive(
    path: str,
    old: ZipArchive,
    staged: Mapping[str, StagedObject | None],
    root: bytes | None,
    all_closed: Callable[[str], AbstractContextManager[None]],
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
    all_closed
        Closes the archive wherever this process has it open, and opens the new one.
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
            # Another process must not take it for a file that is left over. On Windows
            # nobody removes a file that is open.
            if sys.platform != "win32":
                lock_open_file(file.fileno())
            if not write_archive(file.fileno(), parts, comment, goes_on):
                return False
            flush_open_file(file)
            # Flushed, then verified, then named: an archive that cannot be read never
            # replaces one that can.
            verify_archive(aside, parts, staged)
            if sys.platform == "win32":
                file.close()
            return True if replace_archive(aside, path, old, all_closed) else None
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
            place = new.file, new.start, new.revision.stamp
            parts.append(ArchiveEntry(name, new.length, new.length, *place))
    return parts


def verify_archive(
    path: str, parts: list[ArchiveEntry], staged: Mapping[str, StagedObject | None]
) -> None:
    """Open a written archive, and compare its entries with the plan.

    Raises
    ------
    CorruptDataError
    """
    with closing(ZipArchive(path)) as new:
        if len(new.index) != len(parts):
            raise new.damage_error(f"lists {len(new.index)} of {len(parts)} entries")
        for part, (name, position) in zip(parts, new.index.items(), strict=True):
            entry, text = new.entry_at(position), name.decode()
            written = name, entry.method, entry.stored, entry.size, entry.crc
            if written != (
                part.name,
                part.method,
                part.length,
                part.size,
                part.crc,
            ):
                raise new.damage_error(f"does not list {text} as it was written")
            # Reads the local header: directory and headers have to agree.
            new.find_start(text, entry)
            if text in staged:
                new.read(text, entry, verify=True)


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
        name, entry.stored, entry.size, archive.file, start, entry.crc, entry.method,
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


def replace_archive(
    aside: str,
    path: str,
    old: ZipArchive,
    all_closed: Callable[[str], AbstractContextManager[None]],
) -> bool:
    """Rename a new archive into its place, unless another program replaced the old
    one.
    """
    if sys.platform == "win32":
        if Revision.of_file(path) != old.file.revision:
            return False
        # All sources of this process; another process that has it open makes the
        # rename fail.
        with all_closed(path):
            rename_aside(aside, path)
        return True
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
