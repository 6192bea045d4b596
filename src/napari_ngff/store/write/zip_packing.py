"""Packing a folder into single-file OME-Zarr (RFC-9, ``.ozx``)."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.store.write.write_file import written_aside
from napari_ngff.store.write.zip_writer import Part, write_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["pack", "rank"]


def pack(
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
    ZIP64 records. The archive is written aside and renamed, so that `file` is never
    half-written.

    Parameters
    ----------
    folder
        Root of an OME-Zarr 0.5 or newer.
    file
        The archive; its folder must exist.
    overwrite
        Whether to replace `file` if it is there.
    progress
        Told how many bytes are written, and of how many. What it raises ends the
        packing, and nothing is left of it.
    flush
        Whether to wait until the archive is on the disk before it gets its name.

    Returns
    -------
    Path
        `file`.

    Raises
    ------
    FileExistsError
        Where `file` is there and `overwrite` is False.
    ValueError
        Where `folder` has no ``zarr.json`` with an OME version: RFC-9 needs Zarr v3;
        or `file` is inside `folder`.
    CorruptDataError
        Where a file changes while it is copied.
    OSError
        Where reading or writing fails.
    """
    folder, file = Path(folder), Path(file)
    if file.exists() and not overwrite:
        raise FileExistsError(f"{file} already exists; remove it or overwrite it.")
    if file.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{file} would be inside of what it packs; put it elsewhere.")
    comment = describe(folder)
    found = sorted(files(str(folder)), key=lambda one: (*rank(one[0]), one[0]))
    parts = [Part(key.encode(), size, path) for key, path, size in found]

    def goes_on(done: int, total: int) -> bool:
        if progress is not None:
            progress(done, total)
        return True

    with written_aside(file, flush=flush) as aside:
        with open(aside, "x+b", buffering=0) as stream:
            write_archive(stream.fileno(), parts, comment, goes_on)
        shutil.copymode(folder / "zarr.json", aside)
    return file


def describe(folder: Path) -> bytes:
    """Return the archive's comment."""
    try:
        document = json.loads((folder / "zarr.json").read_bytes())
        version = document["attributes"]["ome"]["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{folder} cannot become an .ozx file: RFC-9 needs a root zarr.json with "
            "attributes.ome.version, as OME-Zarr 0.5 and newer have."
        ) from error
    ome = {"version": version, "zipFile": {"centralDirectory": {"jsonFirst": True}}}
    return json.dumps({"ome": ome}).encode()


def files(folder: str, prefix: str = "") -> Iterator[tuple[str, str, int]]:
    """Yield key, path and size in bytes of all files below a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from files(entry.path, f"{prefix}{entry.name}/")
            elif entry.is_file():
                yield f"{prefix}{entry.name}", entry.path, entry.stat().st_size


def rank(key: str) -> tuple[bool, int]:
    """Sort metadata before the rest, and it by depth."""
    metadata = key.rpartition("/")[2] == "zarr.json"
    return not metadata, key.count("/") if metadata else 0
