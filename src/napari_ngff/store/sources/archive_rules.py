"""The rules of RFC-9 for zip archives, which reading and checking find broken."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path

from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.store.limits import GROUP_DOCUMENTS, V2_DOCUMENTS
from napari_ngff.store.sources.zip_directory import LOCATOR_SIGNATURE, ZipArchive

EMBEDDED = "Zipped OME-Zarr files SHALL NOT be embedded in a parent OME-Zarr hierarchy"
"""A rule; some of its words are left out."""

TAIL = 65535 + 22 + 20
"""Bytes at most from the locator of the ZIP64 directory to the end of a file."""


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


def check_archive(
    archive: ZipArchive, root: str, *, is_local: bool
) -> Iterator[Problem]:
    """Compare all that an archive has with RFC-9; `find_deviations` does the rest."""
    # RFC-9 allows Zarr v3 only, so `.zgroup` does not count.
    if archive.find_entry(f"{root}/zarr.json" if root else "zarr.json") is None:
        text = (
            '"The root of the ZIP archive MUST correspond to the root of the OME-Zarr '
            "hierarchy, and it MUST contain the the OME-Zarr's root-level zarr.json.\""
        )
        yield Problem("ozx-zarr-json-missing", Severity.ERROR, "", text, "It is read.")
    yield from _check_entries(archive, root)
    # Upwards as well: an archive inside a hierarchy is not named by any group, so only
    # its own path shows it.
    parents = Path(archive.path).resolve().parents if is_local else ()
    if any((folder / name).is_file() for folder in parents for name in GROUP_DOCUMENTS):
        text = f'"{EMBEDDED} (as a sub-hierarchy or otherwise)."'
        yield Problem("ozx-embedded", Severity.ERROR, "", text, "It is read.")
    if not archive.path.lower().endswith(".ozx"):
        text = '"The name of zipped OME-Zarr files SHOULD end with .ozx."'
        yield Problem("ozx-name", Severity.WARNING, "", text)
    # An archive of less than 4 GiB needs no ZIP64 records; RFC-9 wants them there
    # anyway.
    file = archive.file
    length = min(TAIL, file.size)
    if LOCATOR_SIGNATURE not in file.read(file.size - length, length):
        text = (
            '"The ZIP64 format extension SHOULD be used to allow for files larger than '
            '4 GiB."'
        )
        yield Problem("ozx-zip64-missing", Severity.WARNING, "", text)


def _check_entries(archive: ZipArchive, root: str) -> Iterator[Problem]:
    """Report what an archive has beside its one hierarchy."""
    names = [name.decode(errors="replace") for name in archive.names]
    # The first one stands for all: a list of them would say no more.
    inner = next((name for name in names if name.lower().endswith(".ozx")), None)
    if inner is not None:
        text = f'"{EMBEDDED}": {inner[:80]}.'
        yield Problem("ozx-embedded", Severity.ERROR, "", text, "It is not read.")
    groups = {_group_above(name) for name in names if name.endswith("zarr.json")}
    others = [path for path in groups - {root} if not _is_reached(path, groups)]
    # Groups of Zarr v2 cannot be part of a hierarchy of Zarr v3, wherever they are.
    if root in groups:
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
