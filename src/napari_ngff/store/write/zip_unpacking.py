"""Unpacks a single-file OME-Zarr (RFC-9, ``.ozx``) into a folder."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from napari_ngff.errors import CorruptDataError
from napari_ngff.store.sources.archive_store import ArchiveStore, open_zip
from napari_ngff.store.sources.zip_directory import DEFLATED
from napari_ngff.store.threads import CORES, share_work
from napari_ngff.store.write.new_hierarchy import NewHierarchy, is_single

PART = 2**24
"""Bytes of a stored entry that are in memory at once; a shard may have gigabytes."""


def unpack_hierarchy(
    file: str | Path,
    folder: str | Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write what an archive holds as a folder.

    Each entry is compared with its checksum. The folder is written aside and renamed,
    so that `folder` is always complete.

    Parameters
    ----------
    file
        An ``.ozx``, or a zip file with one OME-Zarr.
    folder
        The folder to make; its parents are made.
    overwrite
        Whether to replace `folder` if it is a zarr hierarchy.
    progress
        Called with the bytes that are written, and their total, from several threads
        but never at once. An error that it raises ends the unpacking, and nothing is
        left.

    Returns
    -------
    Path
        `folder`.

    Raises
    ------
    FileExistsError
        Where `folder` exists and `overwrite` is False, or it is not a zarr hierarchy.
    CorruptDataError
        Where the archive is damaged, or an entry would be written outside of `folder`.
    NodeNotFoundError, AccessError, UnsupportedError
        As `ArchiveStore`.
    ValueError
        Where `folder` has the name of an archive.
    OSError
        Where reading or writing fails.
    """
    folder = Path(folder)
    if is_single(folder):
        raise ValueError(f"{folder} is the name of an archive; choose another one.")
    source = open_zip(file)
    try:
        keys = list(source.list_keys(""))
        for key in keys:
            parts = key.split("/")
            # Out of the folder, or to a drive of Windows.
            if ".." in parts or "" in parts or "." in parts or ":" in parts[0]:
                raise CorruptDataError(
                    f"{source.path} has an entry {key!r}, which leads out of the"
                    " folder.",
                    remedy="Get the archive from a source that you trust.",
                )
        revisions = ((key, source.find_revision(key)) for key in keys)
        sizes = {key: known.size for key, known in revisions if known is not None}
        done, total = 0, sum(sizes.values())
        turn = threading.Lock()
        with NewHierarchy(folder, overwrite=overwrite) as new:

            def copy_entry(key: str) -> None:
                nonlocal done
                new.put_parts(key, _read_parts(source, key))
                with turn:
                    done += sizes[key]
                    if progress is not None:
                        progress(done, total)

            share_work(iter(keys), copy_entry, len(keys), CORES)
    finally:
        source.close()
    return folder


def _read_parts(source: ArchiveStore, key: str) -> Iterator[bytes]:
    """Yield the bytes of an entry; raises at the end if its checksum is wrong."""
    name = source.entry_name(key)
    archive = source.archive
    entry = archive.find_entry(name)
    if entry is None:
        raise archive.damage_error(f"no longer holds {name}")
    # Deflated entries are inflated as a whole, up to a limit of size.
    if entry.method == DEFLATED or entry.stored <= PART:
        yield archive.read(name, entry, verify=True)
        return
    checksum = 0
    for start in range(0, entry.stored, PART):
        part = slice(start, min(start + PART, entry.stored))
        data = archive.read_part(name, entry, part)
        checksum = zlib.crc32(data, checksum)
        yield data
    if checksum != entry.crc:
        raise archive.damage_error(f"has a wrong checksum at {name}")
