"""Lists the groups that the metadata of a group names, and what each has to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_ngff.errors import NodeNotFoundError, OMEZarrError
from napari_ngff.metadata.model import JSON, PlateMetadata, Problem, Severity
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.hierarchy.node import XML_KEY, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from napari_ngff.metadata.systems import SystemLink

FIELDS = ("displacements", "coordinates")
MATRICES = ("affine", "rotation")


@dataclass(frozen=True, slots=True)
class NamedPart:
    """The role of a group for the group that names it.

    Attributes
    ----------
    code
        Of the problem that the group is missing.
    sentence
        The rule of the specification that demands the group.
    has
        Returns whether a group is of the right kind.
    kind
        The key that metadata of that kind have.
    """

    code: str
    sentence: str
    kind: str = ""
    has: Callable[[Node], bool] = lambda node: True


def is_image(node: Node) -> bool:
    """Return whether a group is an image."""
    return node.metadata.image is not None


ROW = NamedPart("group-missing", "Three groups MUST be defined above the images.")
WELL = NamedPart(
    "group-missing",
    "The group above the images defines the well and MUST implement the well "
    "specification.",
    "well",
    lambda node: node.metadata.well is not None,
)
FIELD = NamedPart(
    "group-missing",
    "Each image object MUST contain a path key whose value MUST be a string specifying "
    "the path to the field of view.",
    "multiscales",
    is_image,
)
LABEL = NamedPart(
    "label-missing",
    "The key labels, whose value is a JSON array of paths to the labeled multiscale "
    "image(s).",
    "multiscales",
    is_image,
)
SERIES = NamedPart(
    "group-missing",
    "series MUST be an array of string objects, each of which is a path to an image "
    "group.",
    "multiscales",
    is_image,
)
TARGET = NamedPart(
    "group-missing",
    "path: Refers to the path of a multiscale image subgroup in the Zarr hierarchy.",
    "multiscales",
    is_image,
)
VECTORS = NamedPart(
    "parameters-missing",
    "path: The location of the coordinate array in this (or another) container.",
    "multiscales",
    is_image,
)
OPTIONAL = NamedPart("", "")


@dataclass(frozen=True, slots=True)
class NamedBranch:
    """A group below another.

    Attributes
    ----------
    path
        Relative to the other.
    part
        Its role.
    look
        Compares it with the group that names it.
    """

    path: str
    part: NamedPart
    look: Callable[[Node], Iterable[Problem]] = lambda node: ()


def branches_of(node: Node, parameters: Iterable[JSON]) -> list[NamedBranch]:
    """List the groups that the metadata of a group names, each once.

    `parameters` are the group's `parameters_of`.
    """
    metadata = node.metadata
    branches = [*below_screen(node)]
    if metadata.image is not None:
        for multiscale in metadata.image.multiscales:
            branches += link_targets(multiscale.links)
        if metadata.image.label is None:
            branches.append(NamedBranch("labels", OPTIONAL))
    if metadata.labels is not None:
        branches += [NamedBranch(path, LABEL) for path in metadata.labels]
    if metadata.scene is not None:
        branches += link_targets(metadata.scene.links)
    branches += [
        NamedBranch(stored["path"].strip("/"), VECTORS)
        for stored in parameters
        if stored["type"] in FIELDS
    ]
    # A group may be named by several transformations; each role of it is checked once.
    unique = {(branch.path, branch.part.code): branch for branch in branches}
    return list(unique.values())


def below_screen(node: Node) -> Iterator[NamedBranch]:
    """List rows, wells and fields, or the images of a collection."""
    metadata = node.metadata
    if metadata.plate is not None:
        wells = metadata.plate.wells
        # Rows once each, in the order of the wells.
        rows = dict.fromkeys(well.path.rpartition("/")[0] for well in wells)
        yield from (NamedBranch(row, ROW) for row in rows if row)
        look = well_of(metadata.plate)
        yield from (NamedBranch(well.path, WELL, look) for well in wells)
    elif metadata.collection is not None:
        yield NamedBranch("OME", OPTIONAL)
        yield from (NamedBranch(path, SERIES) for path in node.series())
    if metadata.well is not None:
        yield from (NamedBranch(field.path, FIELD) for field in metadata.well.fields)


def well_of(plate: PlateMetadata) -> Callable[[Node], Iterator[Problem]]:
    """Make the check of a well that needs its plate."""
    runs = {run.id for run in plate.acquisitions}

    def look(node: Node) -> Iterator[Problem]:
        fields = node.metadata.well.fields if node.metadata.well else ()
        # A maximum: wells with fewer fields are as they should be.
        if plate.field_count is not None and len(fields) > plate.field_count:
            text = (
                '"field_count ... defining the maximum number of fields per view '
                f'across all wells", {plate.field_count}. Here they are {len(fields)}.'
            )
            yield Problem("field-count", Severity.WARNING, "well/images", text)
        for index, field in enumerate(fields):
            where = f"well/images/{index}"
            # With one acquisition there is nothing to distinguish, so the key may be
            # missing.
            if field.acquisition is None and len(runs) > 1:
                text = (
                    '"If multiple acquisitions were performed in the plate, it MUST '
                    'contain an acquisition key."'
                )
                yield Problem("field-acquisition", Severity.ERROR, where, text)
            elif runs and field.acquisition not in (None, *runs):
                text = (
                    '"... identifying the acquisition which MUST match one of the '
                    'acquisition JSON objects defined in the plate metadata." Here it '
                    f"is {field.acquisition}."
                )
                yield Problem("field-acquisition", Severity.ERROR, where, text)

    return look


def link_targets(links: Iterable[SystemLink]) -> list[NamedBranch]:
    """List the images that transformations refer to."""
    names: dict[str, set[str]] = {}
    for link in links:
        for end in (link.input, link.output):
            if end.path:
                names.setdefault(end.path, set()).add(end.name)
    return [NamedBranch(path, TARGET, system_of(names[path])) for path in names]


def system_of(names: set[str]) -> Callable[[Node], Iterator[Problem]]:
    """Make the check that an image has coordinate systems of some names."""

    def look(node: Node) -> Iterator[Problem]:
        image = node.metadata.image
        known = {
            system.name
            for multiscale in (image.multiscales if image else ())
            for system in multiscale.systems
        }
        # "" means that the link names the image and leaves the system open.
        for name in sorted(names - known - {""}):
            text = (
                '"name: Refers to the name of a coordinateSystem in the multiscale '
                'image subgroup specified by the path." Here none is called '
                f'"{name[:40]}".'
            )
            consequence = "The transformation to it is not used."
            yield Problem("system-missing", Severity.ERROR, "", text, consequence)

    return look


def parameters_of(value: object) -> Iterator[JSON]:
    """Find the transformations of a document whose parameters are elsewhere."""
    waiting = [value]  # not by recursion: a document may be nested ever so deeply
    while waiting:
        content = waiting.pop()
        if isinstance(content, list):
            waiting += reversed(content)
        elif isinstance(content, dict):
            stored = isinstance(content.get("path"), str) and content["path"].strip("/")
            if stored and content.get("type") in (*FIELDS, *MATRICES):
                yield content
            waiting += reversed(content.values())


def check_group(
    node: Node, minor: int, parameters: Iterable[JSON]
) -> Iterator[Problem]:
    """Report problems of a group that need more than its document and its branches.

    These are labels that are not listed, missing series and unusable matrices.
    """
    metadata = node.metadata
    if metadata.labels is not None:
        # 0.1 to 0.3 do not demand that all are listed.
        for path in label_paths(node, metadata.labels) if minor >= 4 else ():
            text = (
                f'"All label images SHOULD be listed within this metadata file." Here '
                f'"{path}" is not.'
            )
            yield Problem(
                "label-unlisted", Severity.WARNING, "labels", text, "It is not shown."
            )
        yield from talking_groups(node, metadata.labels, minor)
    elif node.name == "labels" and metadata.kind is None:
        text = (
            '"The OME-Zarr Metadata ... associated with the labels group MUST contain '
            'a JSON object with the key labels."'
        )
        consequence = "All label images found in the group are shown."
        yield Problem("labels-list-missing", Severity.ERROR, "", text, consequence)
    if metadata.collection is not None:
        yield from incomplete_collection(node)
    for stored in parameters:
        if stored["type"] in MATRICES:
            yield from unusable_matrix(node, stored["path"].strip("/"))


def label_paths(node: Node, listed: Iterable[str]) -> Iterator[str]:
    """Find images in a labels group, or in a group in it, that are not `listed`."""
    known = set(listed)
    parents = {path.partition("/")[0] for path in known if "/" in path}
    for folder in ("", *sorted(parents)):
        for name in node.location.join_path(folder or ".").list_groups():
            path = f"{folder}/{name}" if folder else name
            # `parents` are folders between labels and listed images, which are no
            # labels themselves.
            if path in known or path in parents:
                continue
            child = node.find_child(path)
            if child is not None and is_image(child):
                yield path


def talking_groups(
    node: Node, listed: tuple[str, ...], minor: int
) -> Iterator[Problem]:
    """Report groups between the labels group and a label that have metadata."""
    folders = {
        "/".join(parts[:count])
        for parts in (path.strip("/").split("/") for path in listed)
        # Each path above the label, not the label itself.
        for count in range(1, len(parts))
    }
    # The sentence is new in 0.5.
    for folder in sorted(folders if minor >= 5 else ()):
        between = node.find_child(folder)
        if between is not None and between.attributes:
            text = (
                '"Intermediate groups between labels and the images within it are '
                f'allowed, but these MUST NOT contain metadata." Here "{folder}" does.'
            )
            yield Problem("labels-between", Severity.ERROR, "labels", text)


def incomplete_collection(node: Node) -> Iterator[Problem]:
    """Report what a collection of bioformats2raw lacks."""
    series = node.series()
    if node.metadata.plate is not None:
        # Not by `Node.series`, which looks for numbered groups where no list is.
        listing = node.find_child("OME")
        listed = listing is not None and listing.metadata.series is not None
        if not node.metadata.plate.wells or not listed:
            text = (
                '"Matching series metadata SHOULD be provided for tools that are '
                'unaware of the plate specification."'
            )
            yield Problem("series-missing", Severity.WARNING, "", text)
    elif not series:
        text = (
            '"Separate multiscales images MUST be stored in consecutively numbered '
            'groups starting from 0."'
        )
        yield Problem("series-missing", Severity.ERROR, "", text, "Nothing is shown.")
    if node.location.source.get(node.location.object_key(XML_KEY), 0, 1) is None:
        text = (
            '"SHOULD have OME metadata representing the entire collection of images in '
            'a file named OME/METADATA.ome.xml."'
        )
        consequence = "The images have no names of their own."
        yield Problem("ome-xml-missing", Severity.WARNING, "", text, consequence)


def unusable_matrix(node: Node, path: str) -> Iterator[Problem]:
    """Report parameters of an affine or a rotation that are not a matrix."""
    try:
        array_path = node.location.join_path(path).path
        array = open_array(node.location.source, array_path, node.zarr_format)
    except NodeNotFoundError as error:
        consequence = "The transformation is not applied."
        yield Problem("parameters-missing", Severity.ERROR, "", str(error), consequence)
    except (OMEZarrError, OSError) as error:
        yield Problem("parameters-unusable", Severity.ERROR, "", str(error))
    else:
        if array.ndim != 2:
            text = (
                f'"The array at this path MUST be 2D." Here "{path}" is {array.ndim}D.'
            )
            yield Problem("parameters-unusable", Severity.ERROR, "", text)
