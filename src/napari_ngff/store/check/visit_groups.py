"""Checks a hierarchy group by group: each alone, and against what names it."""

from __future__ import annotations

import json
import math
import shlex
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from napari_ngff.errors import NodeNotFoundError, OMEZarrError
from napari_ngff.metadata.model import JSON, Consequence, GroupKind, Problem, Severity
from napari_ngff.metadata.parse import parse_attributes
from napari_ngff.metadata.rules import check_attributes, stated_version
from napari_ngff.metadata.version import V0_6, Version
from napari_ngff.store.arrays.array_document import shard_shape
from napari_ngff.store.check.branches import (
    OPTIONAL,
    NamedBranch,
    branches_of,
    check_group,
    parameters_of,
)
from napari_ngff.store.check.images import (
    arrays_of,
    check_ids,
    check_label,
    check_pyramid,
    open_pyramids,
)
from napari_ngff.store.limits import LONG_LIST, limit_alike, parse_json
from napari_ngff.store.sources.archive_rules import EMBEDDED
from napari_ngff.store.sources.read_ahead import call_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.hierarchy.node import Node
    from napari_ngff.store.pyramids.pyramid import Pyramid


OF_FILE = (LONG_LIST, "zarr-metadata")
"""Problems that opening finds in the file around the attributes."""

Finding = tuple[str, Problem]
"""Path of a group or an array from the root, and a problem whose place is in it."""


@dataclass(frozen=True, slots=True)
class CheckState:
    """What is the same for all groups of one check.

    Attributes
    ----------
    version
        That the hierarchy's first group states, or None.
    zarr_format
        Of that group.
    cancel
        Asked before each group whether to stop.
    pixels
        Whether to read the ids of labels.
    """

    version: str | None
    zarr_format: int
    cancel: Callable[[], bool]
    pixels: bool


def check_hierarchy(
    node: Node,
    *,
    cancel: Callable[[], bool] | None = None,
    pixels: bool = False,
) -> Iterator[Finding]:
    """Check a group and everything that its metadata names, lazily.

    Reads the metadata document of each group and array once, and where a source can be
    listed the names in ``labels`` groups; of a remote source several at once.

    Parameters
    ----------
    node
        Where to begin: a root, or any group in it.
    cancel
        Asked before each group, from another thread where the source is remote; nothing
        more is yielded once it is True.
    pixels
        Whether to read all label images, too, and to compare the ids of their levels.

    Yields
    ------
    path, problem
        Path of the group or array from the root of the hierarchy, and a problem whose
        `where` is a place in its metadata. Valid is what has no error.
    """
    tour = CheckState(
        stated_version(node.attributes, node.zarr_format),
        node.zarr_format,
        cancel or (lambda: False),
        pixels,
    )
    # RFC-9 has rules for the root only: from a group inside, the archive is not in
    # question.
    if not node.location.path:
        found = node.location.source.check_container(tour.version)
        yield from (("", problem) for problem in found)
    # One group may have the same flaw thousands of times, as a plate in its wells.
    findings = visit_group(node, tour, None)
    yield from limit_alike(join_shard_findings(node, findings))


def visit_group(
    node: Node, tour: CheckState, image: Pyramid | None
) -> Iterator[Finding]:
    """Check a group and the groups below it.

    `image` is the image that a labels group or a label image belongs to.
    """
    if tour.cancel():
        return
    path = node.location.path
    # First the document, then its place, then what it names, then arrays: the order in
    # which a reader meets them.
    document = document_of(node, tour.version)
    minor = document.minor
    # Codes found so far in this group, since opening finds some problems again.
    known = set()
    for problem in (
        *document.problems,
        *check_place(node, tour, document),
        *check_group(node, minor, document.parameters),
        *check_embedded(node),
    ):
        known.add(problem.code)
        yield path, problem
    pyramids, findings = open_pyramids(node, minor)
    # The document is judged with the same rule of axes that opening has.
    yield from (
        f for f in findings if f[1].code != "axes-space" or f[1].code not in known
    )
    for pyramid in pyramids:
        yield from check_pyramid(node, pyramid, minor)
        yield from check_shards(node, arrays_of(pyramid))
        if image is not None:
            yield from check_label(node, pyramid, image)
        if tour.pixels and node.metadata.kind is GroupKind.LABEL:
            yield from check_ids(node, pyramid, tour.cancel)
    # Labels are compared with the first multiscale, which is what readers show by
    # default.
    below = pyramids[0] if pyramids else image
    yield from in_order(
        [(node, branch, below) for branch in branches_of(node, document.parameters)],
        tour,
    )


Task = tuple["Node", NamedBranch, "Pyramid | None"]


def in_order(tasks: list[Task], tour: CheckState) -> Iterator[Finding]:
    """Check branches, several at once on a server; yield in the order of the tasks."""
    if not tasks:
        return

    def list_findings(task: Task) -> list[Finding]:
        return list(check_branch(*task, tour))

    calls = [partial(list_findings, task) for task in tasks]
    for found in call_at_once(tasks[0][0].location.source, calls):
        yield from found


def check_branch(
    node: Node, branch: NamedBranch, image: Pyramid | None, tour: CheckState
) -> Iterator[Finding]:
    """Open a branch, test whether it is of the right kind, and check what is in it."""
    if tour.cancel():
        return
    part = branch.part
    path = node.location.object_key(branch.path)
    try:
        child = node.child(branch.path)
    except NodeNotFoundError:
        if part is not OPTIONAL:
            text = f'{branch.path} is listed but does not exist. "{part.sentence}"'
            yield (
                path,
                Problem(part.code, Severity.ERROR, "", text, Consequence.PART_LEFT_OUT),
            )
        return
    except (OMEZarrError, OSError) as error:
        yield (
            path,
            Problem(
                "node-unreadable",
                Severity.ERROR,
                "",
                str(error),
                Consequence.PART_LEFT_OUT,
            ),
        )
        return
    if not part.has(child):
        text = f'"{part.sentence}" It has no usable "{part.kind}".'
        yield (
            path,
            Problem(
                "kind-missing", Severity.ERROR, "", text, Consequence.PART_LEFT_OUT
            ),
        )
    yield from ((path, problem) for problem in branch.look(child))
    # An image belongs to its own labels only, not to fields or images of a group below
    # it.
    labelled = image if branch.path == "labels" or node.metadata.labels else None
    yield from visit_group(child, tour, labelled)


@dataclass(frozen=True, slots=True)
class JudgedDocument:
    """What the rules say about the attributes of a group.

    Attributes
    ----------
    problems
        Of the document alone.
    stated
        Its version, None where it states none.
    minor
        Number behind "0." of the version whose rules hold: 4 for 0.4.
    parameters
        Transformations whose parameters are in an array.
    """

    problems: tuple[Problem, ...]
    stated: str | None
    minor: int
    parameters: tuple[JSON, ...]


def document_of(node: Node, version: str | None) -> JudgedDocument:
    """Check the document of a group, once for all groups with the same text."""
    try:
        # As text, since a cache needs values that can be hashed.
        return judge_text(json.dumps(node.attributes), node.zarr_format, version)
    except RecursionError:  # nested too deeply to be written, not to be judged
        return judge_attributes(node.attributes, node.zarr_format, version)


@lru_cache(maxsize=1024)
def judge_text(text: str, zarr_format: int, version: str | None) -> JudgedDocument:
    """Check a document; the result is kept, since the groups of a plate are alike."""
    return judge_attributes(parse_json(text), zarr_format, version)


def judge_attributes(
    attributes: JSON, zarr_format: int, version: str | None
) -> JudgedDocument:
    """Check attributes; `version` is that of the hierarchy."""
    stated = stated_version(attributes, zarr_format)
    implied = (
        stated or version or parse_attributes(attributes, zarr_format).version or ""
    )
    return JudgedDocument(
        check_attributes(attributes, zarr_format, version),
        stated,
        Version(implied).minor or 4,
        tuple(parameters_of(attributes)),
    )


def check_place(
    node: Node, tour: CheckState, document: JudgedDocument
) -> Iterator[Problem]:
    """Report where a group deviates from the groups above it."""
    # The others are found again by the rules, in more detail.
    yield from (
        problem
        for problem in node.metadata.problems
        if not node.attributes or problem.code in OF_FILE
    )
    reserved = [name for name in node.location.path.split("/") if name[:2] == "__"]
    if node.zarr_format == 3 and reserved:
        text = (
            f'Names that begin with "__" are reserved by Zarr v3: {reserved[0][:40]}.'
        )
        yield Problem("zarr-name", Severity.ERROR, "", text, "It is read.")
    if node.zarr_format != tour.zarr_format:
        text = (
            f"Its Zarr format is {node.zarr_format}, that of the hierarchy "
            f"{tour.zarr_format}; one hierarchy has one."
        )
        yield Problem("zarr-format-differs", Severity.ERROR, "", text, "It is read.")
    stated = document.stated
    if stated and tour.version and stated != tour.version:
        text = (
            '"The OME-Zarr Metadata version MUST be consistent within a hierarchy."'
            f" Here it is {stated[:20]} below {tour.version[:20]}."
        )
        # The sentence is in the text since 0.5, and drafts of 0.6 are read alike.
        version = Version(tour.version)
        drafts = Version(stated).belongs_to(V0_6) and version.belongs_to(V0_6)
        lax = (document.minor < 5 and not version.must_be_consistent) or drafts
        severity = Severity.WARNING if lax else Severity.ERROR
        yield Problem(
            "version-differs", severity, "", text, "Each is read by its own version."
        )


LARGE_CHUNKS = "Its chunks are too large to be joined."


def check_embedded(node: Node) -> Iterator[Problem]:
    """Report archives in a folder of a hierarchy."""
    source = node.location.source
    if source.traits.folder is not None:
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
    if not node.location.source.traits.has_directory:
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
