"""Writes a zip archive anew beside the old one, with some of its entries replaced.

All other entries are copied; deflated ones are inflated where that is no great growth,
since RFC-9 wants none. The result is looked at and then renamed: until then the old
archive is as it was.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import sys
from contextlib import suppress
from dataclasses import replace as replaced
from typing import TYPE_CHECKING

from napari_ngff.errors import UnsupportedError
from napari_ngff.store.limits import parse_json
from napari_ngff.store.sources.revision import Revision
from napari_ngff.store.sources.zip_directory import (
    DEFLATED,
    ENCRYPTED,
    MOST_INFLATED,
    MOST_RATIO,
    ZipArchive,
)
from napari_ngff.store.sources.zip_source import close_all, reload_all
from napari_ngff.store.write.file_lock import lock_open_file
from napari_ngff.store.write.fsync import flush_folder, flush_open_file
from napari_ngff.store.write.named_errors import permitted
from napari_ngff.store.write.write_file import rename, rename_over
from napari_ngff.store.write.writer_token import aside_name, new_token, remove_left
from napari_ngff.store.write.zip_packing import rank
from napari_ngff.store.write.zip_writer import (
    InflatingError,
    Part,
    size_of_archive,
    write_archive,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from napari_ngff.store.write.staged_objects import Staged
    from napari_ngff.store.write.transaction import GoesOn

__all__ = ["rewrite"]

ATTRIBUTES = struct.Struct("<12xHH22xI4x")  # 4.3.12: time, date, external attributes

GROWTH = 256 << 20
"""Bytes that a file may grow by without the compression of the archive, or by its own
size if that is more."""


def rewrite(
    path: str,
    old: ZipArchive,
    staged: Mapping[str, Staged | None],
    root: bytes | None,
    goes_on: GoesOn | None = None,
) -> bool | None:
    """Write an archive anew.

    Entries in the order of RFC-9, with ZIP64 records. Memory: some 400 bytes for each
    entry, and a few MiB.

    Parameters
    ----------
    path
        Of the archive, without links.
    old
        What is there.
    staged
        Name -> what replaces it, or is added; None to leave it out.
    root
        The document at the root of the hierarchy, for the comment.
    goes_on
        See `GoesOn`.

    Returns
    -------
    bool or None
        False where `goes_on` has said so; None where another archive is there by now.
        The file is as it was, then.

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
    comment = stated(old.comment, root)
    copied = planned(old, staged)
    inflated = [inflate(part) for part in copied]
    size = size_of_archive(inflated, comment)
    growth = size - size_of_archive(copied, comment)
    if growth > max(GROWTH, old.file.size) or size > free_room(path):
        inflated = copied
    require_room(path, size_of_archive(inflated, comment))
    try:
        return write(path, old, inflated, comment, staged, goes_on)
    except InflatingError:  # what is damaged stays as it is, for whoever can read it
        return write(path, old, copied, comment, staged, goes_on)


def write(
    path: str,
    old: ZipArchive,
    parts: list[Part],
    comment: bytes,
    staged: Mapping[str, Staged | None],
    goes_on: GoesOn | None,
) -> bool | None:
    """Write an archive aside, look at it, and put it in the place; see `rewrite`."""
    aside = aside_name(path, new_token())
    try:
        with permitted(path), open(aside, "x+b", buffering=0) as file:
            lock_open_file(file.fileno())
            if not write_archive(file.fileno(), parts, comment, goes_on):
                return False
            flush_open_file(file)
            verify(aside, parts, staged)
            if sys.platform == "win32":
                file.close()
            return True if replace(aside, path, old) else None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(aside)


def planned(old: ZipArchive, staged: Mapping[str, Staged | None]) -> list[Part]:
    """List all entries in the order of RFC-9."""
    added = sorted(name.encode() for name in staged if name.encode() not in old.index)
    parts = []
    for name in sorted([*old.index, *added], key=lambda name: rank(name.decode())):
        text = name.decode()
        if text not in staged:
            parts.append(unchanged(old, name))
        elif (one := staged[text]) is not None:
            parts.append(Part(name, one.length, one.file, one.start, one.crc))
    return parts


def inflate(part: Part) -> Part:
    """Plan an entry of the old archive without the compression of the archive."""
    size, packed = part.full, part.length
    if part.method != DEFLATED or size > max(MOST_INFLATED, MOST_RATIO * packed):
        return part
    return replaced(part, length=size, method=0, size=None, packed=packed)


def verify(path: str, parts: list[Part], staged: Mapping[str, Staged | None]) -> None:
    """Open what was written, and compare it with what should be in it.

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
            found = name, entry.method, entry.stored, entry.size, entry.crc
            if found != (part.name, part.method, part.length, part.full, part.crc):
                raise new.damage_error(f"does not list {text} as it was written")
            new.find_start(text, entry)
            if text in staged:
                new.read(text, entry, verify=True)
    finally:
        new.close()


def unchanged(archive: ZipArchive, name: bytes) -> Part:
    """Describe an entry that is copied as it is."""
    position = archive.index[name]
    entry = archive.entry_at(position)
    if entry.flags & ENCRYPTED:
        raise UnsupportedError(
            f"{name.decode()} in {archive.path} is encrypted, and the archive"
            " cannot be rewritten.",
            remedy="Pack it again without a password.",
        )
    time, date, mode = ATTRIBUTES.unpack_from(archive.directory, position)
    start = archive.find_start(name.decode(), entry)
    if start + entry.stored > archive.file.size:
        raise archive.damage_error(f"is cut off inside {name.decode()}")
    return Part(
        name, entry.stored, archive.file, start, entry.crc, entry.method, entry.size,
        (time, date), mode,
    )  # fmt: skip


def stated(comment: bytes, document: bytes | None) -> bytes:
    """Return the comment of an archive in the order of RFC-9.

    What else a comment states is kept; so is one that is no JSON, and one of a
    hierarchy that RFC-9 does not know, without a ``zarr.json``.
    """
    try:
        content = parse_json(comment.rstrip(b"\0") or b"{}")
        version = parse_json(document or b"")["attributes"]["ome"]["version"]
        home = content.setdefault("ome", {})
        home["version"] = version
        order = home.setdefault("zipFile", {}).setdefault("centralDirectory", {})
        order["jsonFirst"] = True
    except (ValueError, KeyError, TypeError, AttributeError):
        return comment
    return json.dumps(content).encode()


def require_room(path: str, needed: int) -> None:
    """Refuse to write beside a file what does not fit there.

    Raises
    ------
    OSError
    """
    folder, free = os.path.dirname(path), free_room(path)
    if free < needed:
        raise OSError(
            errno.ENOSPC,
            f"No room to rewrite {path}: {folder} has {megabytes(free)} free, and"
            f" {megabytes(needed)} are needed for the new file beside the old one",
        )


def free_room(path: str) -> int:
    """Bytes that fit beside a file."""
    return shutil.disk_usage(os.path.dirname(path)).free


def megabytes(size: int) -> str:
    """Write a number of bytes for people."""
    return f"{-(-size // 10**6):,} MB"


def replace(aside: str, path: str, old: ZipArchive) -> bool:
    """Put a file in the place of the archive, unless that is another by now."""
    if sys.platform == "win32":
        return replace_closed(aside, path, old)
    with open(path, "rb") as file:
        # Whoever else saves into it waits here, and finds another file then.
        lock_open_file(file.fileno(), wait=True)
        now = Revision.of_stat(os.fstat(file.fileno()))
        if now != old.file.revision or not rename_over(aside, path, now):
            return False
    flush_folder(os.path.dirname(path))
    return True


def replace_closed(aside: str, path: str, old: ZipArchive) -> bool:
    """Replace the archive where nobody may have it open for that: on Windows."""
    if Revision.of_file(path) != old.file.revision:
        return False
    close_all(path)
    try:
        rename(aside, path)
    finally:
        reload_all(path)
    return True
