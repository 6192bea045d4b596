"""Content of the inspector: rows of a tree, and the details of one place; no Qt.

Reads only metadata: the document of a place, those of its arrays, and documents that
checking it needs. Never lists or reads chunks.
"""

from __future__ import annotations

import itertools
import weakref
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.metadata.model import JSON, Consequence, GroupKind, Problem, Severity
from napari_ngff.metadata.version import Version
from napari_ngff.plate.mosaic_level import MosaicLevel
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.check.repair import REPAIRS, put_back, repair_problems
from napari_ngff.store.check.visit_groups import Finding, check_hierarchy
from napari_ngff.store.hierarchy.location import Location
from napari_ngff.store.hierarchy.node import Node, open_node, read_node
from napari_ngff.store.hierarchy.summary import list_branches
from napari_ngff.store.write.label_list_watch import watch_lists
from napari_ngff.viewer.inspecting.describe_node import (
    facts_of,
    facts_of_array,
    sentences_of,
)
from napari_ngff.viewer.plans.layer_plan import origin_of
from napari_ngff.viewer.services.notices import count_noun
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari.layers import Layer


SMALL = (GroupKind.IMAGE, GroupKind.LABEL, GroupKind.LABELS)
"""Kinds with few groups below them, which are checked together with these."""

MOST_ITEMS = 2000
"""Most entries of one JSON list or object that are shown."""

WORDS = {
    GroupKind.PLATE: "well",
    GroupKind.COLLECTION: "image",
    GroupKind.SCENE: "image",
    GroupKind.WELL: "field",
    GroupKind.LABELS: "label",
}


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A row of the tree: a group or an array, not read yet.

    Attributes
    ----------
    location
        Path of the group or array.
    zarr_format
        2 or 3, as the group that names it.
    name
        Path relative to the group that names it.
    kind
        Its role in that group: "well", "field", "image", "label", "labels" or "array".
    """

    location: Location
    zarr_format: int
    name: str
    kind: str

    @property
    def is_array(self) -> bool:
        """Return whether it is an array, which has nothing below it."""
        return self.kind == "array"

    def read_node(self) -> Node:
        """Read the group, or the group of the array; raises what `read_node` does."""
        location = self.location
        if self.is_array:
            location = location.join_path("/".join(".." for _ in self.name.split("/")))
        return read_node(location, self.zarr_format)


@dataclass(frozen=True, slots=True)
class PlaceDetails:
    """The details of one place, as the inspector shows them.

    Attributes
    ----------
    path
        Its address, to be copied.
    facts
        Name and value of each fact.
    transformations
        A sentence for each transformation.
    document
        The attributes as in the file; None for an array.
    findings
        Its problems, as from `check_group`.
    error
        Reason why the place cannot be read, or "".
    kept
        After a repair: paths of the old files and folders.
    """

    path: str
    facts: tuple[tuple[str, str], ...] = ()
    transformations: tuple[str, ...] = ()
    document: JSON | None = None
    findings: tuple[Finding, ...] = ()
    error: str = ""
    kept: tuple[str, ...] = ()


class SavedLists:
    """Calls a method of a widget after a list of labels was saved, in the main thread.

    Parameters
    ----------
    call
        A method, called with the location of the hierarchy and the path of the list;
        it is kept weakly.
    """

    def __init__(self, call: Callable[[str, str], Any]) -> None:
        self._call = weakref.WeakMethod(call)
        watch_lists(self._on_saved)

    def _on_saved(self, root: str, group: str) -> None:
        # In any thread: a widget must not be touched here, nor be let go.
        Window.current.run_in_main(partial(self._report_list, root, group))

    def _report_list(self, root: str, group: str) -> None:
        call = self._call()
        if call is not None:
            call(root, group)


def node_of(layer: Layer | None) -> Node | None:
    """Return the group that a layer shows; the plate or well of a joined one."""
    origin = origin_of(layer)
    if origin is None:
        return None
    levels = origin.picture.pyramid.levels if origin.picture is not None else ()
    if levels and isinstance(levels[0], MosaicLevel):
        return levels[0].tiles.arrangements.screen.node
    return origin.node


def root_of(node: Node) -> TreeEntry:
    """Return the root of a node's hierarchy; the node if the root is no OME-Zarr."""
    if node.location.path:
        with suppress(OMEZarrError, OSError):
            above = read_node(Location(node.location.source), node.zarr_format)
            node = above if above.claims_ome_zarr else node
    return TreeEntry(
        node.location, node.zarr_format, node.name, str(node.kind or "group")
    )


def list_children(entry: TreeEntry) -> tuple[TreeEntry, ...]:
    """List the groups and arrays that the metadata of a group names; reads none.

    Raises
    ------
    OMEZarrError, OSError
        Where the group cannot be read.
    """
    if entry.is_array:
        return ()
    node = entry.read_node()
    return tuple(
        TreeEntry(node.location.join_path(path), node.zarr_format, path, kind)
        for path, kind in _list_named(node)
    )


def _list_named(node: Node) -> Iterator[tuple[str, str]]:
    metadata = node.metadata
    is_image = metadata.kind in (GroupKind.IMAGE, GroupKind.LABEL)
    if metadata.image is not None:
        for level in metadata.image.multiscales[0].levels:
            yield level.path, "array"
    if is_image:
        if node.find_child("labels") is not None:
            yield "labels", "labels"
        return
    word = WORDS.get(metadata.kind, "group") if metadata.kind else "group"
    paths: Sequence[str] = list_branches(node)
    if metadata.labels is not None:
        above = node.parent()
        paths = node.label_paths(above.metadata.version if above else None)
    for path in dict.fromkeys(paths):
        yield path, word


def describe_entry(entry: TreeEntry, known: Sequence[Problem] = ()) -> PlaceDetails:
    """Return the details of one place; errors become part of them.

    `known` are problems that opening found; see `check_group`.
    """
    path = str(entry.location)
    try:
        if entry.is_array:
            array = open_array(
                entry.location.source, entry.location.path, entry.zarr_format
            )
            facts = [
                ("Kind", f"array, Zarr {array.zarr_format}"),
                *facts_of_array(array),
            ]
            return PlaceDetails(path, tuple(facts))
        node = entry.read_node()
        return PlaceDetails(
            path,
            tuple(facts_of(node)),
            tuple(sentences_of(node)),
            node.attributes,
            check_group(node, known=known),
        )
    except Exception as error:  # noqa: BLE001
        # The inspector is for broken files: it shows any error.
        text = error_text(error)
        return PlaceDetails(
            path, findings=(describe_unreadable(entry.location.path, text),), error=text
        )


def describe_unreadable(path: str, text: str) -> Finding:
    """Return the problem of a place that cannot be read."""
    return path, Problem(
        "node-unreadable", Severity.ERROR, "", text, Consequence.LEFT_OUT
    )


def check_group(
    node: Node,
    cancel: Callable[[], bool] | None = None,
    known: Sequence[Problem] = (),
) -> tuple[Finding, ...]:
    """Find the problems of a group; of an image also those of its labels.

    Parameters
    ----------
    node
        Of any kind.
    cancel
        If given, all groups below the node are checked, until it returns True.
    known
        Problems that opening found, below this group or elsewhere: groups below it
        that have one are checked as well.
    """
    if cancel is not None or node.kind in SMALL:
        return tuple(check_hierarchy(node, cancel=cancel))
    # Asked before each group: True from the second on leaves all groups below out.
    asked = itertools.count()
    all_findings = [*check_hierarchy(node, cancel=lambda: next(asked) > 0)]
    for _, findings in judge_below(node, known):
        all_findings += findings
    return tuple(dict.fromkeys(all_findings))


def judge_below(
    node: Node, known: Sequence[Problem]
) -> Iterator[tuple[str, Sequence[Finding]]]:
    """Check the groups below one that have known problems.

    Yields
    ------
    str
        Address of the group; "" where it cannot be opened.
    sequence of Finding
        Its problems.
    """
    start = node.location.path
    places = {problem.where.partition(":")[0]: problem for problem in known}
    judged: set[str] = set()
    for path, problem in places.items():
        if path == start or not path.startswith(f"{start}/" if start else ""):
            continue
        group = _group_at(node, path)
        if group is None:
            yield "", [describe_unreadable(path, problem.text)]
        elif group.location.path not in judged | {start}:
            judged.add(group.location.path)
            # Some known problems are not found again by the rules, such as impossible
            # places of the fields of a well.
            fallback = [] if group.kind in SMALL else [(path, problem)]
            yield str(group.location), check_group(group) or fallback


def _group_at(node: Node, group_path: str) -> Node | None:
    """Open the group at a path of the hierarchy, or the image whose level it is."""
    top = Location(node.location.source)
    for path in (group_path, group_path.rpartition("/")[0]):
        with suppress(OMEZarrError, OSError):
            group = read_node(top.join_path(path), node.zarr_format)
            if group.kind is not None and (path == group_path or group.kind in SMALL):
                return group
    return None


@dataclass(frozen=True, slots=True)
class FileProblems:
    """The problems of a file that was opened, and the place to show them at.

    Attributes
    ----------
    findings
        As the inspector lists them at `place`.
    place
        Address of the group that has all of the errors, else of the file.
    """

    findings: tuple[Finding, ...]
    place: str

    @property
    def error_count(self) -> int:
        """Number of errors; with warnings alone, everything is shown."""
        return len(errors_of(self.findings))


def errors_of(findings: Iterable[Finding]) -> list[Finding]:
    """Return the errors among findings."""
    return [finding for finding in findings if finding[1].severity is Severity.ERROR]


def count_text(findings: Sequence[Finding]) -> str:
    """Count errors and warnings: "2 errors, 1 warning"; "no problems"."""
    errors = len(errors_of(findings))
    warnings = len(findings) - errors
    texts = [count_noun(errors, "error")] * bool(errors)
    texts += [count_noun(warnings, "warning")] * bool(warnings)
    return ", ".join(texts) or "no problems"


def find_problems(path: str, known: Sequence[Problem]) -> FileProblems:
    """Check a file that was opened, and the groups below it with known problems."""
    try:
        node = open_node(path)
        findings = check_group(node, known=known)
        groups = [] if node.kind in SMALL else [*judge_below(node, known)]
    except Exception as error:  # noqa: BLE001
        # Any error is a problem of the file.
        return FileProblems((describe_unreadable("", error_text(error)),), path)
    errors = errors_of(findings)
    for address, below in groups:
        if address and errors == errors_of(below):
            return FileProblems(findings, address)
    return FileProblems(findings, path)


def repair_all(entry: TreeEntry, code: str) -> PlaceDetails:
    """Repair all problems of a code in a group and below it, and check it again.

    Returns
    -------
    PlaceDetails
        With the problems that remain, also below the group. `PlaceDetails.kept` has
        the old files, if an error remains; otherwise they were deleted.

    Raises
    ------
    OMEZarrError, OSError
        As `napari_ngff.store.check.repair.repair_problems`.
    """
    repaired = repair_problems(entry.read_node(), code)
    findings = tuple(check_hierarchy(entry.read_node()))
    invalid = any(problem.severity is Severity.ERROR for _, problem in findings)
    if not invalid:
        for file in repaired:
            file.delete_old()
    kept = tuple(file.kept for file in repaired) if invalid else ()
    return replace(describe_entry(entry), findings=findings, kept=kept)


def undo_repair(entry: TreeEntry, kept: Iterable[str]) -> tuple[str, ...]:
    """Put back the files that a repair of a group replaced; return their paths.

    Parameters
    ----------
    kept
        As `PlaceDetails.kept`.

    Raises
    ------
    OMEZarrError, OSError
        Where the folder cannot be read or written any more.
    """
    node = entry.read_node()
    return tuple(put_back(node, path) for path in kept)


def homes_of(layer: Layer) -> dict[str, Node | None]:
    """List the groups in which the position of a layer can be saved.

    Returns
    -------
    dict
        Text for the user -> the scene, None for the image itself; scenes first, since
        they are made for positions.
    """
    node = node_of(layer)
    if node is None:
        return {}
    homes: dict[str, Node | None] = {}
    above = node.parent()
    while above is not None:
        if above.metadata.scene is not None:
            homes[f'scene "{above.name}"'] = above
        above = above.parent()
    return {**homes, f'image "{node.location.full_name}"': None}


def is_named(layer: Layer) -> bool:
    """Return whether the version of a layer's image names coordinate systems."""
    node = node_of(layer)
    return node is not None and (node.metadata.version or Version()).has_systems


# --- texts to show


def shorten_document(value: Any) -> Any:
    """Cut lists and objects of a document to `MOST_ITEMS` entries."""
    if isinstance(value, dict):
        kept = dict(itertools.islice(value.items(), MOST_ITEMS))
        result = {key: shorten_document(entry) for key, entry in kept.items()}
        if len(value) > MOST_ITEMS:
            result["…"] = f"{len(value) - MOST_ITEMS} more"
        return result
    if isinstance(value, list):
        rest = [f"… {len(value) - MOST_ITEMS} more"] if len(value) > MOST_ITEMS else []
        return [shorten_document(entry) for entry in value[:MOST_ITEMS]] + rest
    return value


def describe_place(path: str, problem: Problem) -> str:
    """Return the place of a problem as a sentence."""
    place = f"In {path}" if path else "In the top group"
    return f"{place}, at {problem.where}." if problem.where else f"{place}."


def list_repairs(findings: Sequence[Finding]) -> dict[str, str]:
    """Return the codes that have a repair, with a description of the repair."""
    return {p.code: REPAIRS[p.code] for _, p in findings if p.code in REPAIRS}
