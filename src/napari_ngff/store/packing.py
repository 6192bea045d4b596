"""Packing a folder into single-file OME-Zarr (RFC-9, ``.ozx``)."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

__all__ = ["pack"]


def pack(folder: str | Path, file: str | Path, *, overwrite: bool = False) -> Path:
    """Write the hierarchy at `folder` as one archive, in the order of RFC-9.

    The root's ``zarr.json`` comes first, then all others breadth-first, then the
    rest; nothing is compressed again; the comment states version and order. The
    archive is written aside and renamed, so that `file` is never half-written.

    Parameters
    ----------
    folder
        Root of an OME-Zarr 0.5 or newer.
    file
        The archive; its folder must exist.
    overwrite
        Whether to replace `file` if it is there.

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
    """
    folder, file = Path(folder), Path(file)
    if file.exists() and not overwrite:
        raise FileExistsError(f"{file} is there already; remove it or overwrite it.")
    if file.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{file} would be inside of what it packs; put it elsewhere.")
    comment = describe(folder)
    handle, aside = tempfile.mkstemp(f"-{file.name}", ".", file.parent)
    os.close(handle)
    try:
        with ZipFile(aside, "w", ZIP_STORED) as archive:
            archive.comment = comment
            for key in order(folder):
                add(archive, folder / key, key)
        shutil.copymode(folder / "zarr.json", aside)  # mkstemp made it private
        Path(aside).replace(file)
    finally:
        Path(aside).unlink(missing_ok=True)
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


def order(folder: Path) -> list[str]:
    """Keys of all files of `folder`, metadata first and breadth-first."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    keys = [path.relative_to(folder).as_posix() for path in paths]
    return sorted(keys, key=lambda key: (*rank(key), key))


def rank(key: str) -> tuple[bool, int]:
    """Sort metadata before the rest, and it by depth."""
    metadata = key.rpartition("/")[2] == "zarr.json"
    return not metadata, key.count("/") if metadata else 0


def add(archive: ZipFile, path: Path, key: str) -> None:
    """Copy one file, without its date, so that equal folders give equal archives."""
    entry = ZipInfo(key)
    entry.file_size = path.stat().st_size  # decides on ZIP64
    entry.external_attr = 0o644 << 16
    with path.open("rb") as source, archive.open(entry, "w") as target:
        shutil.copyfileobj(source, target, 1 << 20)
