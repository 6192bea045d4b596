"""Packs a folder into a single-file OME-Zarr (RFC-9, ``.ozx``)."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from napari_ngff.errors import TargetExistsError
from napari_ngff.store.limits import parse_json
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.write.replace_file import replace_when_done
from napari_ngff.store.write.writer_token import is_aside
from napari_ngff.store.write.zip_writer import ArchiveEntry, write_archive


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
    files = sorted(list_files(source), key=lambda f: (*rank_key(f[0]), f[0]))
    parts = [ArchiveEntry(key.encode(), size, path) for key, path, size in files]

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


def list_files(source: FolderStore, prefix: str = "") -> Iterator[tuple[str, str, int]]:
    """Yield key, path and size in bytes of all files below a folder."""
    with os.scandir(source.find_path(prefix)) as entries:
        for entry in entries:
            # What an unfinished save left is no part of the hierarchy.
            if is_aside(entry.name):
                continue
            key = f"{prefix}{entry.name}"
            if entry.is_dir():
                yield from list_files(source, f"{key}/")
            elif entry.is_file():
                path = source.find_path(key) if entry.is_symlink() else entry.path
                yield key, path, entry.stat().st_size


def rank_key(key: str) -> tuple[bool, int]:
    """Return a sort key: metadata before the rest, ordered by depth."""
    metadata = key.rpartition("/")[2] == "zarr.json"
    # RFC-9 wants all `zarr.json` first, breadth-first; False sorts before True.
    return not metadata, key.count("/") if metadata else 0
