"""Opens groups of a hierarchy with their metadata, and the groups related to them.

>>> node = open_node("cells.ome.zarr")  # doctest: +SKIP
>>> node.kind, [label.name for label in node.labels().nodes]  # doctest: +SKIP
(<GroupKind.IMAGE: 'image'>, ['nuclei'])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Any

from napari_ngff.errors import (
    CorruptDataError,
    NodeNotFoundError,
    NotOMEZarrError,
    OMEZarrError,
    UnsupportedError,
)
from napari_ngff.metadata.model import (
    JSON,
    Consequence,
    GroupKind,
    GroupMetadata,
    Problem,
    Severity,
)
from napari_ngff.metadata.parse import image_names, parse_attributes
from napari_ngff.metadata.version import UNSTATED, Version
from napari_ngff.store.arrays.parse_array import unknown_key, unknown_keys
from napari_ngff.store.hierarchy.group_documents import (
    FIRST,
    CopiedDocuments,
    GroupDocuments,
)
from napari_ngff.store.hierarchy.location import (
    Location,
    find_location,
)
from napari_ngff.store.limits import cut_long_lists
from napari_ngff.store.sources.folder_store import FolderStore
from napari_ngff.store.sources.read_ahead import call_at_once

NO_METADATA = (
    "There is no OME-Zarr metadata at {}. Open the folder whose zarr.json or .zattrs"
    " holds 'multiscales', 'plate', 'well' or 'labels'."
)
MOST_INSIDE = 256
"""Most groups that are searched for images, in a group that is not an image."""

MOST_NAMED = 6
"""Most paths of images that a message names."""

BIOFORMATS2RAW = "bioformats2raw.layout"
CLAIMS = frozenset(
    ("ome", "multiscales", "plate", "well", "omero", "image-label", BIOFORMATS2RAW)
)
"""Keys by which attributes claim to be OME-Zarr, even if their values are broken."""

GROUP_KEYS = frozenset(
    ("zarr_format", "node_type", "attributes", "consolidated_metadata")
)
"""Keys of a group's document that Zarr v3, or all of its readers, know."""

XML_KEY = "OME/METADATA.ome.xml"

NUMBERED = 8
"""Number of images of a collection without a list that a server is asked for at once.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A group with its parsed metadata.

    Attributes
    ----------
    location
        Where it is.
    zarr_format
        2 or 3; its arrays and children have the same.
    attributes
        As the file has them (0.5 and later: the whole ``attributes`` object).
    metadata
        The parsed attributes.
    copied
        The documents below it that a server is known to have; a list that may be
        outdated.
    """

    location: Location
    zarr_format: int
    attributes: JSON
    metadata: GroupMetadata
    copied: CopiedDocuments = field(
        default=CopiedDocuments(), compare=False, repr=False
    )

    def __str__(self) -> str:
        return str(self.location)

    @property
    def name(self) -> str:
        """Name of the folder, without ``.ome.zarr`` for a root."""
        return self.location.name

    @property
    def kind(self) -> GroupKind | None:
        """First kind of the group; None without OME metadata."""
        return self.metadata.kind

    @property
    def claims_ome_zarr(self) -> bool:
        """Return whether it is OME-Zarr or claims to be: its errors are reported."""
        return self.kind is not None or not CLAIMS.isdisjoint(self.attributes)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems of the metadata, and at the root those of the archive."""
        path = self.location.path
        # An archive's problems belong to its root alone: else each group would repeat
        # them.
        container = () if path else self.location.source.problems
        return container + prefix_places(self.metadata.problems, path)

    def child(self, path: str) -> Node:
        """Open the group at `path`, relative to this one and inside the hierarchy.

        Raises
        ------
        NodeNotFoundError
            Where there is no group.
        CorruptDataError
            Where its metadata document cannot be read.
        """
        # In the format of this group: one hierarchy has one, so most groups take one
        # request.
        return read_node(self.location.join_path(path), self.zarr_format)

    def find_child(self, path: str) -> Node | None:
        """Open the group at `path`; None where there is none that can be read."""
        try:
            return self.child(path)
        except (OMEZarrError, OSError):
            return None

    def children(
        self, paths: Iterable[str], opened: Mapping[str, Node] | None = None
    ) -> OpenedGroups:
        """Open several groups; a group that cannot be opened becomes a problem.

        `opened` has those that were opened already, by their path.
        """
        listed, known = tuple(paths), opened or {}
        calls = [partial(self._try_child, path) for path in listed if path not in known]
        found = iter(call_at_once(self.location.source, calls))
        nodes, problems = [], []
        for path in listed:
            node = known[path] if path in known else next(found)
            if isinstance(node, Node):
                nodes.append(node)
            else:
                problems.append(
                    unreadable_problem(self.location.object_key(path), node)
                )
        return OpenedGroups(tuple(nodes), tuple(problems))

    def _try_child(self, path: str) -> Node | Exception:
        """Open the group at `path`, or return why not."""
        try:
            return self.child(path)
        except NodeNotFoundError as error:
            if path not in (self.metadata.labels or ()):
                return error
            msg = f"{path} is listed in {self.location} but does not exist."
            remedy = "Remove it from the list, or restore it."
            return NodeNotFoundError(msg, remedy=remedy)
        except (OMEZarrError, OSError) as error:
            return error

    def parent(self) -> Node | None:
        """Open the group above; None at the root or where there is none."""
        if not self.location.path:
            return None
        try:
            return self.child("..")
        except NodeNotFoundError:
            return None

    def labels(self) -> OpenedGroups:
        """Open the label images of this image.

        Those of the ``labels`` list; in 0.1 to 0.3 also unlisted ones, which these
        versions allow, where the source can be listed.
        """
        # Only in the format of the image: most images have no labels, and each missing
        # document of a remote one takes a request.
        read = _read_v3 if self.zarr_format == 3 else _read_v2
        try:
            group = read(GroupDocuments(self.location.join_path("labels")))
        except (OMEZarrError, OSError) as error:
            problem = unreadable_problem(self.location.object_key("labels"), error)
            return OpenedGroups((), (problem,))
        if group is None:
            return OpenedGroups((), ())
        # The problem below is about this list; the paths also come from a listing of
        # the folder.
        listed = group.metadata.labels
        opened = group.children(group.label_paths(self.metadata.version))
        problems = list(group.problems + opened.problems)
        if listed is None:
            problems.append(
                Problem(
                    "labels-list-missing",
                    Severity.ERROR,
                    f"{group.location.path}:labels",
                    "The labels group has no list of its labels: 'The value of the"
                    " labels key MUST be a JSON array of paths'.",
                    "All label images found in the group are shown.",
                )
            )
        return OpenedGroups(opened.label_images, tuple(problems))

    def label_paths(self, version: Version | None) -> tuple[str, ...]:
        """List the paths of the label images of a ``labels`` group, relative to it.

        `version` is that of the image above: the group itself states none before 0.5.
        """
        listed = self.metadata.labels
        # From 0.4 on the list is complete: "All label images SHOULD be listed". Before,
        # a list was optional.
        if listed is not None and (version or UNSTATED).has_complete_label_list:
            return listed
        return tuple(dict.fromkeys([*(listed or ()), *self.location.list_groups()]))

    def series(self) -> tuple[str, ...]:
        """List the paths of the images of a collection, relative to it."""
        return self.find_series()[0]

    def find_series(self) -> tuple[tuple[str, ...], dict[str, Node]]:
        """List the images of a collection.

        The ``OME`` group's ``series`` if it has one, else the groups 0, 1, 2...
        (transitional bioformats2raw.layout).

        Returns
        -------
        paths
            Relative to it.
        opened
            Those that had to be opened to find them, by path.
        """
        listing = self.find_child("OME")
        if listing is not None and listing.metadata.series is not None:
            return listing.metadata.series, {}
        # By their numbers: a server over HTTP has no listing.
        nodes: list[Node] = []
        step = NUMBERED if self.location.source.traits.is_remote else 1
        while True:
            calls = [
                partial(self._read_alike, str(len(nodes) + i)) for i in range(step)
            ]
            found = call_at_once(self.location.source, calls)
            nodes += [node for node in takewhile(bool, found) if node]
            if None in found:
                other = self._read_alike(str(len(nodes)), 5 - self.zarr_format)
                if other is None:
                    break
                nodes.append(other)
        return tuple(map(str, range(len(nodes)))), dict(
            zip(map(str, range(len(nodes))), nodes, strict=True)
        )

    def _read_alike(self, path: str, zarr_format: int | None = None) -> Node | None:
        """Read a group in one format, by default this one's; None where it cannot
        be.
        """
        read = _read_v3 if (zarr_format or self.zarr_format) == 3 else _read_v2
        try:
            return read(GroupDocuments(self.location.join_path(path)))
        except (OMEZarrError, OSError):
            return None

    def series_names(self) -> tuple[str | None, ...]:
        """Read the names of a collection's images from its OME-XML; () without one."""
        try:
            text = self.location.source.get(self.location.object_key(XML_KEY))
        except (OMEZarrError, OSError):
            return ()
        return image_names(text) if text is not None else ()


@dataclass(frozen=True, slots=True)
class OpenedGroups:
    """Groups that could be opened, and a problem for each that could not."""

    nodes: tuple[Node, ...]
    problems: tuple[Problem, ...]

    @property
    def label_images(self) -> tuple[Node, ...]:
        """The groups that may be label images."""
        return tuple(
            # Some writers leave "image-label" out, so an image among labels counts as
            # one.
            n
            for n in self.nodes
            if n.kind in (GroupKind.LABEL, GroupKind.IMAGE)
        )


def open_node(where: Any, **options: Any) -> Node:
    """Open the group that `where` names; an array stands for its group.

    Parameters
    ----------
    where
        Anything that `napari_ngff.store.hierarchy.location.find_location` accepts.
    **options
        Of an address.

    Raises
    ------
    NotOMEZarrError
        Where there is no zarr group, or neither it nor the group above has OME
        metadata.
    NodeNotFoundError
        Where nothing is there, as far as a server says.
    AccessError, CorruptDataError, UnsupportedError
        As their names say.
    """
    location = find_location(where, **options)
    try:
        node = read_node(location)
        if node.claims_ome_zarr:
            return node
    except NodeNotFoundError:
        node = None
    if location.path:
        # Only then above: a level was given (its image is meant), or a group that needs
        # no metadata.
        above = location.join_path("..")
        if is_array(location):
            node = read_node(above)
            if not node.claims_ome_zarr:
                raise NotOMEZarrError(NO_METADATA.format(above))
            return node
        with suppress(OMEZarrError, OSError):
            parent = read_node(above)
            if _is_part_of(parent, location.name):
                # Rows of a plate may have no document at all.
                bare = Node(location, parent.zarr_format, {}, GroupMetadata())
                return node or bare
    raise _explain_unopened(location, is_group=node is not None)


def _explain_unopened(location: Location, *, is_group: bool) -> OMEZarrError:
    """Say why a place cannot be opened, and which images in it can."""
    inside = find_images_inside(location)
    if inside:
        listed = ", ".join(inside[:MOST_NAMED])
        listed += " ..." if len(inside) > MOST_NAMED else ""
        msg = f"{location} is not an image."
        return NotOMEZarrError(msg, remedy=f"Open one of those in it: {listed}.")
    if not is_group and (location.path or not is_array(location)):
        missing = location.source.explain_missing(location.path)
        if missing is not None:
            return missing
    return NotOMEZarrError(NO_METADATA.format(location))


def find_images_inside(location: Location) -> tuple[str, ...]:
    """List the images, plates and collections in a group without OME metadata.

    As in a store of SpatialData ("images/a", "labels/b"), or in a dataset of webknossos
    ("color"): one and two groups down, `MOST_INSIDE` groups at most.

    Returns
    -------
    tuple
        Paths relative to the place, sorted; () where it cannot be listed.
    """
    paths: list[str] = []
    count = 0
    pending = [(name, 1) for name in _list_folders(location, "")]
    while pending and count < MOST_INSIDE:
        # From the front: all groups of the first depth before any of the second, should
        # the limit be reached.
        path, depth = pending.pop(0)
        count += 1
        try:
            node = read_node(location.join_path(path))
        except (OMEZarrError, OSError):
            continue
        if node.metadata.image or node.metadata.plate or node.metadata.collection:
            paths.append(path)
        elif depth == 1:
            pending += [(f"{path}/{name}", 2) for name in _list_folders(location, path)]
    return tuple(sorted(paths))


def _list_folders(location: Location, path: str) -> list[str]:
    """List the names in a group that may be groups."""
    with suppress(OMEZarrError, OSError):
        return location.join_path(path or ".").list_groups()
    return []


def _is_part_of(parent: Node, name: str) -> bool:
    """Return whether a group without metadata is a row of a plate, or a labels
    group.
    """
    if parent.metadata.plate is not None:
        wells = parent.metadata.plate.wells
        return any(well.path.startswith(f"{name}/") for well in wells)
    return name == "labels" and parent.metadata.image is not None


def read_node(
    location: Location,
    zarr_format: int | None = None,
    known: Mapping[str, bytes] | None = None,
) -> Node:
    """Read the metadata of one group.

    Where a group has metadata of 0.4 and 0.5, that of 0.5 is used (RFC-2), unless its
    ``zarr.json`` is damaged or has no OME metadata and the ``.zattrs`` has.

    Parameters
    ----------
    location
        Of the group.
    zarr_format
        2 or 3 if it is known.
    known
        Documents of the group that were read already, by name.

    Raises
    ------
    NodeNotFoundError
        Where there is no group.
    CorruptDataError
        Where a metadata document is not a JSON object.
    """
    documents = GroupDocuments(location, known)
    # One request where the format is known and right: the fields of a plate.
    documents.ask(FIRST[zarr_format])
    node = _read_group(documents, zarr_format)
    if node is None:
        msg = f"There is no zarr group at {location}."
        raise NodeNotFoundError(msg, remedy="Check the path.")
    return node


def without_links(node: Node) -> Node:
    """Read a group again, so that links do not lead out of its hierarchy from it.

    Raises
    ------
    UnsupportedError
        Where the group is only found by such a link.
    """
    root = node.location.source.traits.folder
    if root is None:
        return node
    source = FolderStore(root, follows_links=False)
    return read_node(Location(source, node.location.path), node.zarr_format)


def _read_group(documents: GroupDocuments, zarr_format: int | None) -> Node | None:
    """Choose the metadata of a group as `read_node` says; None where there is none."""
    node, damage = None, None
    if zarr_format != 2:
        try:
            node = _read_v3(documents)
        except CorruptDataError as error:
            damage = error
        # Where the format is known, an empty `zarr.json` is the answer; else a
        # `.zattrs` may have more.
        if node is not None and (zarr_format == 3 or node.claims_ome_zarr):
            return node
    older = _read_v2(documents, at_once=zarr_format != 2)
    if older is not None and (older.kind or (node is None and damage is None)):
        return replace(older, copied=documents.list_copies())
    # Only now: older metadata beside a damaged document are better than an error.
    if damage is not None:
        raise damage
    return _read_v3(documents) if zarr_format == 2 else node


def is_array(location: Location) -> bool:
    """Return whether there is a zarr array."""
    documents = GroupDocuments(location)
    documents.ask((".zarray", "zarr.json"))
    if documents.get(".zarray") is not None:
        return True
    document = documents.read("zarr.json")
    return document is not None and document.get("node_type") == "array"


def _read_v3(documents: GroupDocuments) -> Node | None:
    document = documents.read("zarr.json")
    if document is None or document.get("node_type", "group") != "group":
        return None
    flaws = tuple(map(unknown_key, unknown_keys(document, GROUP_KEYS)))
    flaws += documents.flaws
    attributes = document.get("attributes", {})
    node = _make_node(documents.location, 3, attributes, flaws)
    if node.location.source.traits.is_remote:
        return replace(node, copied=CopiedDocuments.of_document(document, "zarr.json"))
    return node


def _read_v2(documents: GroupDocuments, *, at_once: bool = True) -> Node | None:
    """Read a group of Zarr v2; `at_once` where it may well be none."""
    if at_once:
        documents.ask((".zattrs", ".zgroup"))
    attributes = documents.read(".zattrs")
    if attributes is None:
        if not at_once:
            documents.ask((".zgroup", "zarr.json"))
        # A group of Zarr v2 may have no attributes, but it has this document.
        if documents.get(".zgroup") is None:
            return None
        attributes = {}
    return _make_node(documents.location, 2, attributes, documents.flaws)


def _make_node(
    location: Location,
    zarr_format: int,
    attributes: Any,
    flaws: tuple[str, ...],
) -> Node:
    # Before they are parsed: a list of a million entries would take seconds.
    cut = cut_long_lists(attributes)
    cut += tuple(
        Problem("zarr-metadata", Severity.ERROR, "", flaw, "It is read.")
        for flaw in flaws
    )
    metadata = parse_attributes(attributes, zarr_format)
    for problem in metadata.problems:
        if problem.code == "version-unsupported":
            msg = f"{location} cannot be read. {problem.text}"
            raise UnsupportedError(msg, remedy="Open an image of 0.1 to 0.6 in it.")
    if cut:
        metadata = replace(metadata, problems=(*cut, *metadata.problems))
    kept = attributes if isinstance(attributes, dict) else {}
    return Node(location, zarr_format, kept, metadata)


def unreadable_problem(path: str, error: Exception) -> Problem:
    """Make the problem of a group that cannot be opened."""
    return Problem(
        "node-unreadable",
        Severity.ERROR,
        f"{path}:",
        str(error),
        Consequence.PART_LEFT_OUT,
    )


def prefix_places(problems: Iterable[Problem], path: str) -> tuple[Problem, ...]:
    """Put the group's path in front of the places of problems."""
    return tuple(replace(p, where=f"{path}:{p.where}") for p in problems)
