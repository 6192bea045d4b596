"""The coordinate systems of a hierarchy: finds them and loads what leads to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ngff.errors import CorruptDataError, OMEZarrError
from napari_ngff.metadata.compound import (
    Bijection,
    ByDimension,
    FieldTransformation,
    Inverse,
    Sequence,
    composed,
)
from napari_ngff.metadata.graph import SystemGraph
from napari_ngff.metadata.model import Consequence, Link, Problem, Reference, Severity
from napari_ngff.metadata.systems import Axis
from napari_ngff.metadata.transform import (
    Affine,
    Rotation,
    Scale,
    Stored,
    Transformation,
    Translation,
)
from napari_ngff.store.arrays.boxes import whole_box
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.hierarchy.field_arrays import open_field
from napari_ngff.store.hierarchy.location import normal_path
from napari_ngff.store.hierarchy.node import has_group

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.metadata.model import Level, Multiscale
    from napari_ngff.store.hierarchy.node import Node

__all__ = [
    "OpenedSystems",
    "intrinsic_of",
    "level_transformation",
    "open_systems",
    "scene_paths",
]


@dataclass(frozen=True, slots=True)
class OpenedSystems:
    """What `open_systems` found.

    Attributes
    ----------
    graph
        References have paths from the hierarchy's root.
    problems
        Of links that cannot be followed.
    """

    graph: SystemGraph
    problems: tuple[Problem, ...] = ()


def intrinsic_of(node: Node) -> Reference:
    """Name the intrinsic system of an image, or label image."""
    image = node.metadata.image
    name = image.multiscales[0].intrinsic if image is not None else ""
    return Reference(node.location.path, name)


def scene_paths(node: Node) -> tuple[str, ...]:
    """Return the paths of the groups that a scene refers to, relative to it.

    Drafts may refer by the name of a system alone: then all groups that are found.
    """
    scene = node.metadata.scene
    links = scene.links if scene is not None else ()
    paths = [end.path for link in links for end in (link.input, link.output)]
    if not any(paths) and scene is not None:
        names = node.location.source.names(node.location.path) or ()
        found = [name for name in names if not name.startswith((".", "zarr.json"))]
        paths = [p for p in found if has_group(node.location.joined(p))]
    return tuple(dict.fromkeys(path for path in paths if path))


def level_transformation(level: Level) -> Transformation:
    """Return what leads from a level's index coordinates to the intrinsic system."""
    if level.transformation is not None:
        return level.transformation
    return composed(Scale(level.scale), Translation(level.translation))


def open_systems(nodes: Iterable[Node]) -> OpenedSystems:
    """Collect the systems and the links of groups, and of all that these refer to.

    Parameters
    ----------
    nodes
        Of one hierarchy: scenes, images, label images. Of several multiscales the
        first counts. Parameters at a ``path`` are read, fields opened.
    """
    survey = _SystemSurvey()
    for node in nodes:
        survey.add(node)
    links: list[Link] = []
    # Links may name groups with links of their own.
    for node, link in survey.links:
        found = survey.resolved(node, link)
        if found is not None:
            links.append(found)
    return OpenedSystems(
        SystemGraph(survey.systems, tuple(links)), tuple(survey.problems)
    )


class _SystemSurvey:
    """Groups that were seen, their systems, and their links as they are written."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node | None] = {}
        self.systems: dict[Reference, tuple[Axis, ...]] = {}
        self.links: list[tuple[Node, Link]] = []
        self.problems: list[Problem] = []

    def add(self, node: Node) -> None:
        """Take over a group's systems and links, once."""
        path = node.location.path
        if path in self.nodes:
            return
        self.nodes[path] = node
        if node.metadata.scene is not None:
            for system in node.metadata.scene.systems:
                self.systems[Reference(path, system.name)] = system.axes
            self.links += [(node, link) for link in node.metadata.scene.links]
        if node.metadata.image is not None:
            self._add_multiscale(node, node.metadata.image.multiscales[0])

    def _add_multiscale(self, node: Node, multiscale: Multiscale) -> None:
        path = node.location.path
        intrinsic = intrinsic_of(node)
        self.systems[intrinsic] = multiscale.axes
        for system in multiscale.systems:
            self.systems[Reference(path, system.name)] = system.axes
        for level in multiscale.levels:
            level_system = Reference(node.location.key(level.path))
            if level_system in self.systems:
                continue  # two levels of one array
            axes = tuple(Axis(f"dim_{i}", "array") for i in range(len(level.scale)))
            self.systems[level_system] = axes
            whole = Link(
                Reference(level.path), Reference(), level_transformation(level)
            )
            self.links.append((node, whole))
        self.links += [(node, link) for link in multiscale.links]

    def resolved(self, node: Node, link: Link) -> Link | None:
        """Find both ends of a link and load its parameters, or note why not."""
        where = f"{node.location.path}:{link.name or 'coordinateTransformations'}"
        ends = [self._end(node, end) for end in (link.input, link.output)]
        for end, stated in zip(ends, (link.input, link.output), strict=True):
            if end is None:
                shown = "/".join(part for part in (stated.path, stated.name) if part)
                text = f'There is no coordinate system "{shown}".'
                self._note("system-unknown", where, text)
                return None
        assert ends[0] is not None
        assert ends[1] is not None
        takes, gives = (len(self.systems[end]) for end in ends if end is not None)
        try:
            loaded = load(link.transformation, node, takes)
            if loaded.gives(takes) != gives:
                msg = f"It makes {loaded.gives(takes)} axes; its output has {gives}."
                raise ValueError(msg)
        except (OMEZarrError, OSError, ValueError) as error:
            text = f"A transformation cannot be used: {error}"
            self._note("transform-unusable", where, text)
            return None
        return Link(ends[0], ends[1], loaded, link.name)

    def _note(self, code: str, where: str, text: str) -> None:
        self.problems.append(
            Problem(code, Severity.ERROR, where, text, Consequence.SYSTEMS_LEFT_OUT)
        )

    def _end(self, node: Node, end: Reference) -> Reference | None:
        """Find the system that a group's link names."""
        group = node.location.path
        if not end.path and Reference(group, end.name) in self.systems:
            return Reference(group, end.name)
        if end == Reference():
            intrinsic = intrinsic_of(node)
            return intrinsic if intrinsic in self.systems else None
        if not end.path:
            return self._named(node, end.name)
        return self._at(node, end.path, end.name)

    def _at(self, node: Node, path: str, name: str) -> Reference | None:
        """Find a system of another group, or the intrinsic one, or an array's."""
        try:
            location = normal_path(node.location.key(path), str(node))
        except OMEZarrError:
            return None
        if not name and Reference(location) in self.systems:
            return Reference(location)
        self._open(node, location)
        other = self.nodes.get(location)
        if other is None:
            return None
        reference = Reference(location, name) if name else intrinsic_of(other)
        return reference if reference in self.systems else None

    def _open(self, node: Node, place: str) -> None:
        if place in self.nodes:
            return
        root = replace(node, location=type(node.location)(node.location.source, ""))
        try:
            self.add(root.child(place))
        except (OMEZarrError, OSError):
            self.nodes[place] = None

    def _named(self, node: Node, text: str) -> Reference | None:
        """Find what a plain string of the drafts names: a group, a system in one, an
        array, or the only system of that name.
        """
        path, _, name = text.strip("/").rpartition("/")
        reference = self._at(node, text.strip("/"), "")
        if reference is None and path:
            reference = self._at(node, path, name)
        if reference is None:
            same = [system for system in self.systems if system.name == text]
            reference = same[0] if len(same) == 1 else None
        return reference


def load(transformation: Transformation, node: Node, ndim: int) -> Transformation:
    """Read the parameters and open the fields of a transformation.

    Parameters
    ----------
    transformation
        As parsed.
    node
        The group that states it: paths are relative to that.
    ndim
        Number of its input axes.

    Raises
    ------
    OMEZarrError, OSError, ValueError
        Where something is missing or does not fit.
    """
    match transformation:
        case Stored(kind, path):
            return load_parameters(node, kind, path)
        case FieldTransformation(path=path):
            return replace(transformation, field=open_field(node, path, ndim))
        case Sequence(steps):
            loaded: list[Transformation] = []
            for step in steps:
                loaded.append(load(step, node, ndim))
                ndim = loaded[-1].gives(ndim)
            return Sequence(tuple(loaded))
        case ByDimension(parts):
            return ByDimension(
                tuple(
                    replace(
                        p, transformation=load(p.transformation, node, len(p.inputs))
                    )
                    for p in parts
                )
            )
        case Bijection(forward, backward):
            forward = load(forward, node, ndim)
            return Bijection(forward, load(backward, node, forward.gives(ndim)))
        case Inverse(of):
            of = load(of, node, ndim)
            return of.inverse() or Inverse(of)
    return transformation


def load_parameters(node: Node, kind: str, path: str) -> Transformation:
    """Read the numbers of a transformation from an array.

    Raises
    ------
    CorruptDataError
        Where the array is no list, or matrix, of finite numbers.
    """
    array = open_array(node.location.source, node.location.joined(path).path)
    flat = kind in ("scale", "translation")
    values = array.read(whole_box(array.shape)).astype(float)
    fits = values.ndim == (1 if flat else 2)
    if not fits or not 1 <= values.size <= 64 or not (abs(values) < 1e300).all():
        msg = f"{array} does not hold the numbers of a transformation ({kind})."
        raise CorruptDataError(msg)
    if kind == "scale" and (values == 0).any():
        msg = f"{array} holds a scale of 0."
        raise CorruptDataError(msg)
    if flat:
        numbers = tuple(values.tolist())
        return Scale(numbers) if kind == "scale" else Translation(numbers)
    rows = tuple(map(tuple, values.tolist()))
    return Affine(rows) if kind == "affine" else Rotation(rows)
