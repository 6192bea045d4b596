"""Collects the coordinate systems of a hierarchy, and loads their transformations.

It opens the fields of vectors of ``displacements`` and ``coordinates``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import (
    CorruptDataError,
    NodeNotFoundError,
    OMEZarrError,
    UnsupportedError,
)
from napari_ngff.metadata.compound_transform import (
    Bijection,
    ByDimension,
    FieldTransformation,
    Inverse,
    Sequence,
    compose_steps,
)
from napari_ngff.metadata.cursor import Cursor
from napari_ngff.metadata.model import (
    Axis,
    Consequence,
    Level,
    Problem,
    Reference,
    Severity,
    SystemLink,
)
from napari_ngff.metadata.systems import SystemGraph
from napari_ngff.metadata.systems_parse import parse_systems
from napari_ngff.metadata.transform import (
    Affine,
    Identity,
    Matrix,
    Rotation,
    Scale,
    Stored,
    Transformation,
    Translation,
)
from napari_ngff.metadata.transform_parse import parse_transformation
from napari_ngff.metadata.vector_field import VectorField
from napari_ngff.store.arrays.boxes import whole_box
from napari_ngff.store.arrays.chunked_array import open_array
from napari_ngff.store.hierarchy.location import Location, normal_path
from napari_ngff.store.limits import ATTRIBUTES_IN, parse_json

if TYPE_CHECKING:
    from napari_ngff.store.hierarchy.node import Node

VECTOR_TYPES = ("displacement", "coordinate")


def open_field(node: Node, path: str, ndim: int) -> VectorField:
    """Open a field of vectors; reads only metadata.

    Parameters
    ----------
    node
        The group that refers to it.
    path
        Relative to `node`: a multiscale group (0.6) or an array with the metadata of
        one in its own attributes (drafts). Of a group, the first level is used.
    ndim
        Number of axes of its input points.

    Returns
    -------
    VectorField
        Its axis of components is the one of type displacement or coordinate; without
        such a type "the last axis"; none if the array has as many axes as the points.

    Raises
    ------
    NodeNotFoundError, CorruptDataError, UnsupportedError
        Where there is no field, or its grid is not regular.
    """
    location = node.location.join_path(path)
    ome = _read_attributes(location)
    multiscale = next(iter(ome.at("multiscales").children()), None)
    array_location = location
    home = ome
    if multiscale is not None:
        dataset = next(iter(multiscale.at("datasets").children()), None)
        if dataset is None:
            msg = f"{location} has no level: 'datasets' is empty."
            raise UnsupportedError(msg)
        array_location, home = (
            location.join_path(dataset.at("path").read_path() or "."),
            multiscale,
        )
        # From the array to the system in which the input points are given.
        stated = dataset.at("coordinateTransformations").children()
    else:
        stated = ome.at("coordinateTransformations").children()
    array = open_array(array_location.source, array_location.path)
    systems = parse_systems(home.at("coordinateSystems"))
    # By their number: a field has systems of its points, too, which have one axis less.
    axes = next((s.axes for s in systems if len(s.axes) == array.ndim), ())
    # The type decides, wherever the axis is; without types the last axis has the
    # components.
    typed = [i for i, axis in enumerate(axes) if axis.type in VECTOR_TYPES]
    usual = None if array.ndim == ndim else array.ndim - 1
    vector_axis = typed[0] if typed else usual
    # Axes of the array, in its order, without that of the components.
    grid = [i for i in range(array.ndim) if i != vector_axis]
    if len(grid) != ndim:
        msg = f"{array} has a grid of {len(grid)} axes, its input has {ndim}."
        raise UnsupportedError(msg)
    to_input = parse_transformation(stated[0]) if stated else Identity()
    whole = _on_grid(to_input or Identity(), grid, array.ndim)
    scale = np.diag(whole)[:-1]
    # One entry per row, all on the diagonal: interpolation needs a grid along the axes.
    if np.count_nonzero(whole[:-1, :-1]) != len(grid) or not scale.all():
        msg = f"{location}: the grid of a field must be scaled and shifted only."
        raise UnsupportedError(msg)
    return VectorField(
        array, vector_axis, tuple(scale.tolist()), tuple(whole[:-1, -1].tolist())
    )


def _read_attributes(location: Location) -> Cursor:
    """Read the attributes of a group or an array, those of OME-Zarr."""
    for name in ATTRIBUTES_IN.values():
        raw = location.source.get(location.object_key(name))
        if raw is None:
            continue
        try:
            document: Any = parse_json(raw)
        except (ValueError, RecursionError):
            continue  # the error comes when the array is opened
        attributes = Cursor(document, "", [])
        if name == "zarr.json":
            attributes = attributes.at("attributes")
        return attributes.at("ome") if attributes.at("ome").is_present else attributes
    if location.source.get(location.object_key(".zarray")) is None:
        msg = f"There is no field of vectors at {location}."
        raise NodeNotFoundError(msg, remedy="Check the path.")
    return Cursor({}, "", [])


def _on_grid(to_input: Transformation, grid: list[int], ndim: int) -> Matrix:
    """Return the part of a transformation for the axes of the grid."""
    # The axis of components may have an entry or not: examples of the specification
    # have two scales for three axes.
    try:
        whole = to_input.matrix(ndim)
    except ValueError:
        try:
            return to_input.matrix(len(grid))
        except ValueError as error:
            msg = f"The grid of a field does not fit its array: {error}"
            raise UnsupportedError(msg) from error
    return whole[np.ix_([*grid, -1], [*grid, -1])]


@dataclass(frozen=True, slots=True)
class OpenedSystems:
    """The graph of coordinate systems, and what is missing in it.

    Attributes
    ----------
    graph
        Its references have paths from the hierarchy's root.
    problems
        Of links that cannot be used.
    """

    graph: SystemGraph
    problems: tuple[Problem, ...] = ()


def intrinsic_of(node: Node) -> Reference:
    """Return the intrinsic system of an image or label image."""
    image = node.metadata.image
    name = image.multiscales[0].intrinsic if image is not None else ""
    return Reference(node.location.path, name)


def scene_paths(node: Node) -> tuple[str, ...]:
    """Return the paths of the groups that a scene refers to, relative to it.

    Drafts may refer by the name of a system only: then all groups inside.
    """
    scene = node.metadata.scene
    links = scene.links if scene is not None else ()
    paths = [end.path for link in links for end in (link.input, link.output)]
    # Reading some documents more is the price for names without a path.
    if not any(paths) and scene is not None:
        paths = [p for p in node.location.list_groups() if node.find_child(p)]
    # Once each, in the order of the links; "" is the scene itself.
    return tuple(dict.fromkeys(path for path in paths if path))


def level_transformation(level: Level) -> Transformation:
    """Return the transformation of a level's index coordinates to the intrinsic
    system.
    """
    # 0.6 may give a level any transformation; earlier versions a scale and a
    # translation.
    if level.transformation is not None:
        return level.transformation
    return compose_steps(Scale(level.scale), Translation(level.translation))


def open_systems(nodes: Iterable[Node]) -> OpenedSystems:
    """Collect the systems and links of groups, and of all groups they refer to.

    Parameters
    ----------
    nodes
        Of one hierarchy: scenes, images, label images. Of several multiscales the first
        is used. Parameters at a ``path`` are read, fields are opened.
    """
    survey = _SystemSurvey()
    for node in nodes:
        survey.add_group(node)
    links: list[SystemLink] = []
    # The list grows in this loop: a link may name a group that has links itself.
    for node, link in survey.links:
        resolved = survey.resolve_link(node, link)
        if resolved is not None:
            links.append(resolved)
    return OpenedSystems(
        SystemGraph(survey.systems, tuple(links)), tuple(survey.problems)
    )


class _SystemSurvey:
    """Groups that were visited, their systems, and their links as they are written."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node | None] = {}
        self.systems: dict[Reference, tuple[Axis, ...]] = {}
        self.links: list[tuple[Node, SystemLink]] = []
        self.problems: list[Problem] = []

    def add_group(self, node: Node) -> None:
        """Add the systems and links of a group, once."""
        # A path identifies a group: all groups here are of one hierarchy.
        path = node.location.path
        if path in self.nodes:
            return
        self.nodes[path] = node
        if node.metadata.scene is not None:
            for system in node.metadata.scene.systems:
                self.systems[Reference(path, system.name)] = system.axes
            self.links += [(node, link) for link in node.metadata.scene.links]
        if node.metadata.image is None:
            return
        multiscale = node.metadata.image.multiscales[0]
        self.systems[intrinsic_of(node)] = multiscale.axes
        for system in multiscale.systems:
            self.systems[Reference(path, system.name)] = system.axes
        for level in multiscale.levels:
            level_system = Reference(node.location.object_key(level.path))
            if level_system in self.systems:
                continue  # two levels of one array
            # As 0.6 names the system of an array: its axes have the type "array".
            axes = tuple(Axis(f"dim_{i}", "array") for i in range(len(level.scale)))
            self.systems[level_system] = axes
            whole = SystemLink(
                Reference(level.path), Reference(), level_transformation(level)
            )
            # A level is a link, too: a scene may refer to the array of a level instead
            # of its image.
            self.links.append((node, whole))
        self.links += [(node, link) for link in multiscale.links]

    def resolve_link(self, node: Node, link: SystemLink) -> SystemLink | None:
        """Find both ends of a link and load its parameters, or add a problem."""
        where = f"{node.location.path}:{link.name or 'coordinateTransformations'}"
        ends = [self._find_end(node, end) for end in (link.input, link.output)]
        for end, stated in zip(ends, (link.input, link.output), strict=True):
            if end is None:
                name = "/".join(part for part in (stated.path, stated.name) if part)
                text = f'There is no coordinate system "{name}".'
                self._add_problem("system-unknown", where, text)
                return None
        assert ends[0] is not None
        assert ends[1] is not None
        # Numbers of axes, which the parameters have to fit; wrong ones would fail far
        # from here, when drawn.
        takes, gives = (len(self.systems[end]) for end in ends if end is not None)
        try:
            loaded = load_transformation(link.transformation, node, takes)
            outputs = loaded.count_outputs(takes)
            if outputs != gives:
                msg = f"It makes {outputs} axes; its output has {gives}."
                raise ValueError(msg)
        except (OMEZarrError, OSError, ValueError) as error:
            text = f"A transformation cannot be used: {error}"
            self._add_problem("transform-unusable", where, text)
            return None
        return SystemLink(ends[0], ends[1], loaded, link.name)

    def _add_problem(self, code: str, where: str, text: str) -> None:
        self.problems.append(
            Problem(code, Severity.ERROR, where, text, Consequence.SYSTEMS_LEFT_OUT)
        )

    def _find_end(self, node: Node, end: Reference) -> Reference | None:
        """Find the system at one end of a group's link."""
        group = node.location.path
        # First the systems of the group itself, as 0.6 has it; other groups only for
        # texts of drafts.
        if not end.path and Reference(group, end.name) in self.systems:
            return Reference(group, end.name)
        if end == Reference():
            intrinsic = intrinsic_of(node)
            return intrinsic if intrinsic in self.systems else None
        if not end.path:
            return self._find_by_text(node, end.name)
        return self._find_system(node, end.path, end.name)

    def _find_system(self, node: Node, path: str, name: str) -> Reference | None:
        """Find a system of another group, its intrinsic one, or that of an array."""
        try:
            location = normal_path(node.location.object_key(path), str(node))
        except OMEZarrError:
            return None
        # The array of a level, whose system has no name.
        if not name and Reference(location) in self.systems:
            return Reference(location)
        if location not in self.nodes:
            # From the root, since `location` is a path below it.
            root = replace(node, location=type(node.location)(node.location.source, ""))
            try:
                self.add_group(root.child(location))
            except (OMEZarrError, OSError):
                # Kept, too: each missing group is asked for once.
                self.nodes[location] = None
        other = self.nodes.get(location)
        if other is None:
            return None
        reference = Reference(location, name) if name else intrinsic_of(other)
        return reference if reference in self.systems else None

    def _find_by_text(self, node: Node, text: str) -> Reference | None:
        """Find the system that a plain string of the drafts names.

        It may be a group, a system in a group, an array, or the only system of a name.
        """
        # In drafts "a/b" may be the group "a/b" or the system "b" of the group "a".
        path, _, name = text.strip("/").rpartition("/")
        reference = self._find_system(node, text.strip("/"), "")
        if reference is None and path:
            reference = self._find_system(node, path, name)
        if reference is None:
            same = [system for system in self.systems if system.name == text]
            reference = same[0] if len(same) == 1 else None
        return reference


def load_transformation(
    transformation: Transformation, node: Node, ndim: int
) -> Transformation:
    """Read the parameters and open the fields of a transformation.

    Parameters
    ----------
    transformation
        As parsed.
    node
        The group that states it: its paths are relative to that.
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
                # A step may change the number of axes, and the next one takes what it
                # gives.
                loaded.append(load_transformation(step, node, ndim))
                ndim = loaded[-1].count_outputs(ndim)
            return Sequence(tuple(loaded))
        case ByDimension(parts):
            return ByDimension(
                tuple(
                    replace(
                        p,
                        transformation=load_transformation(
                            p.transformation, node, len(p.inputs)
                        ),
                    )
                    for p in parts
                )
            )
        case Bijection(forward, backward):
            forward = load_transformation(forward, node, ndim)
            return Bijection(
                forward,
                load_transformation(backward, node, forward.count_outputs(ndim)),
            )
        case Inverse(of):
            # The closed form if there is one: others are inverted point by point.
            of = load_transformation(of, node, ndim)
            return of.inverse() or Inverse(of)
    return transformation


def load_parameters(node: Node, kind: str, path: str) -> Transformation:
    """Read the numbers of a transformation from an array.

    Raises
    ------
    CorruptDataError
        Where the array is not a list, or matrix, of finite numbers.
    """
    array = open_array(node.location.source, node.location.join_path(path).path)
    flat = kind in ("scale", "translation")
    values = array.read(whole_box(array.shape)).astype(float)
    fits = values.ndim == (1 if flat else 2)
    # 64: more than any matrix of 5 axes has (5 x 6). The comparison is False for NaN,
    # and keeps products finite.
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
