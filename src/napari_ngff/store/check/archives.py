"""Archives against RFC-9, as far as reading does not compare them already."""

from __future__ import annotations

import math
import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.metadata.model import Problem, Severity
from napari_ngff.store.arrays.new_array import shard_shape
from napari_ngff.store.limits import GROUP_DOCUMENTS, V2_DOCUMENTS
from napari_ngff.store.sources.folder_source import FolderSource
from napari_ngff.store.sources.zip_source import ZipSource

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.hierarchy.node import Node

EMBEDDED = "Zipped OME-Zarr files SHALL NOT be embedded in a parent OME-Zarr hierarchy"
LARGE_CHUNKS = "Its chunks are too large to be joined."
LOCATOR = b"PK\x06\x07"
TAIL = 65535 + 22 + 20
"""Bytes at most from the locator of the ZIP64 directory to the end of a file."""


def check_archive(node: Node, stated: str | None) -> Iterator[Problem]:
    """Compare the archive of a root group with RFC-9; nothing outside of archives.

    `stated` is the version of the root's metadata.
    """
    source = node.location.source
    # Found when the source was opened; of a folder or a server there are none.
    yield from source.problems
    if not isinstance(source, ZipSource):
        return
    # One byte, to learn whether it exists. RFC-9 allows Zarr v3 only, so `.zgroup` does
    # not count.
    if source.get("zarr.json", 0, 1) is None:
        text = (
            '"The root of the ZIP archive MUST correspond to the root of the OME-Zarr '
            "hierarchy, and it MUST contain the the OME-Zarr's root-level zarr.json.\""
        )
        yield Problem("ozx-zarr-json-missing", Severity.ERROR, "", text, "It is read.")
    yield from check_entries(source)
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
    if LOCATOR not in file.read(file.size - length, length):
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


def check_entries(source: ZipSource) -> Iterator[Problem]:
    """Report what an archive has beside its one hierarchy."""
    names = [name.decode(errors="replace") for name in source.archive.names]
    # The first one stands for all: a list of them would say no more.
    inner = next((name for name in names if name.lower().endswith(".ozx")), None)
    if inner is not None:
        text = f'"{EMBEDDED}": {inner[:80]}.'
        yield Problem("ozx-embedded", Severity.ERROR, "", text, "It is not read.")
    groups = {group_above(name) for name in names if name.endswith("zarr.json")}
    others = [path for path in groups - {source.root} if not is_reached(path, groups)]
    # Groups of Zarr v2 cannot be part of a hierarchy of Zarr v3, wherever they are.
    if source.root in groups:
        others += [group_above(name) for name in names if name.endswith(V2_DOCUMENTS)]
    # The smallest path, so that the same archive always gives the same message.
    other = min(others, default=None)
    if other is not None:
        text = (
            f'The group "{other[:80]}" is not below the root: the archive holds another'
            " hierarchy, or the group above has no zarr.json."
        )
        yield Problem("ozx-second-hierarchy", Severity.ERROR, "", text)


def is_reached(group: str, groups: Container[str]) -> bool:
    """Return whether a group has a parent group, or plain folders up to ``labels``."""
    parent = group_above(group)
    while parent and parent not in groups:
        parent = group_above(parent)
    # OME-Zarr 0.5 allows plain folders between "labels" and a label image, nowhere
    # else.
    return parent == group_above(group) or parent.rpartition("/")[2] == "labels"


def group_above(path: str) -> str:
    """Return the path of the group that contains a group or a document."""
    return path.rpartition("/")[0]


def check_embedded(node: Node) -> Iterator[Problem]:
    """Report archives in a folder of a hierarchy."""
    source = node.location.source
    if isinstance(source, FolderSource):
        names: Sequence[str] = ()
        with suppress(OMEZarrError):  # what may not be listed may still be read
            names = source.list_names(node.location.path) or ()
        inner = next((name for name in names if name.lower().endswith(".ozx")), None)
        if inner is not None:
            text = f'"{EMBEDDED}": {inner[:80]}.'
            yield Problem("ozx-embedded", Severity.ERROR, "", text, "It is not read.")


def check_shards(
    node: Node, arrays: Iterable[ChunkedArray]
) -> Iterator[tuple[str, Problem]]:
    """Report arrays without shards, whose chunks are many entries of the archive.

    Yields the path of each array, and the problem; `join_shard_findings` joins them.
    """
    if not isinstance(node.location.source, ZipSource):
        return
    for array in arrays:
        # An array of a single chunk is one entry with or without shards.
        grid = (-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True))
        if array.shards is None and math.prod(grid) > 1:
            shards = shard_shape(array.shape, array.chunks, array.dtype.itemsize)
            text = LARGE_CHUNKS if shards is None else ""
            yield array.path, Problem("ozx-not-sharded", Severity.WARNING, "", text)


def join_shard_findings(
    node: Node, findings: Iterable[tuple[str, Problem]]
) -> Iterator[tuple[str, Problem]]:
    """Replace what `check_shards` found by one problem at the end, with what to do.

    Parameters
    ----------
    node
        The group that is checked.
    findings
        Of it and of all groups below.
    """
    count, first, too_large = 0, "", False
    for path, problem in findings:
        if problem.code != "ozx-not-sharded":
            yield path, problem
            continue
        count, first = count + 1, first or path
        too_large = too_large or problem.text == LARGE_CHUNKS
    if not count:
        return
    file = Path(node.location.source.name)
    names = shlex.join((file.name, f"{file.stem}-sharded.ozx"))
    arrays = "1 array has" if count == 1 else f"{count:,} arrays have"
    text = (
        '"The sharding codec SHOULD be used to reduce the number of entries within the '
        f'ZIP archive." {arrays} no shards, such as {first[:80]}. To write a copy with '
        f"shards: napari-ngff convert {names} --shards auto"
        f"{' --chunks y=1024,x=1024' if too_large else ''}"
    )
    yield node.location.path, Problem("ozx-not-sharded", Severity.WARNING, "", text)
