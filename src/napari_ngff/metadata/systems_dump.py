"""Writes coordinate systems and transformations as JSON of 0.6.

It is strict where the parser is lenient.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from napari_ngff.metadata.compound_transform import (
    Bijection,
    ByDimension,
    Displacements,
    FieldTransformation,
    Sequence,
)
from napari_ngff.metadata.transform import (
    Affine,
    MapAxis,
    ProjectAxis,
    Rotation,
    Scale,
    Stored,
    Transformation,
    Translation,
)
from napari_ngff.metadata.version import V0_6, Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.metadata.model import JSON, Axis, Multiscale
    from napari_ngff.metadata.systems import CoordinateSystem, Reference, SystemLink


def dump_transformation(transformation: Transformation) -> JSON:
    """Return a transformation without its ends.

    Raises
    ------
    ValueError
        Where 0.6 has no such type (`Inverse`, a stored scale), a number is not
        finite, a scale not over 0, or a sequence empty.
    """
    # Classes are named like types of the format, but for the case: "Scale" is "scale".
    # Types of two words are set below.
    content: JSON = {"type": type(transformation).__name__.lower()}
    match transformation:
        case Scale(factors):
            # 0.6: "greater than 0"; a flip needs an affine.
            if min(factors) <= 0:
                raise ValueError(f"A scale must be over 0, not {factors}.")
            content["scale"] = finite_numbers(factors)
        case Translation(offsets):
            content["translation"] = finite_numbers(offsets)
        case Affine(rows) | Rotation(rows):
            content[content["type"]] = [finite_numbers(row) for row in rows]
        case MapAxis(order):
            content |= {"type": "mapAxis", "mapAxis": list(order)}
        case ProjectAxis(dropped, created):
            content["type"] = "projectAxis"
            axes = {"droppedInputs": list(dropped), "createdOutputs": list(created)}
            content |= {key: indices for key, indices in axes.items() if indices}
        # Drafts also stored scales and translations; 0.6 does not.
        case Stored(kind, path) if kind in ("affine", "rotation"):
            content = {"type": kind, "path": path}
        case FieldTransformation():
            kind = "displacements"
            if not isinstance(transformation, Displacements):
                kind = "coordinates"
            how = transformation.interpolation
            content = {"type": kind, "path": transformation.path, "interpolation": how}
        case _:
            return dump_compound(transformation)
    return content


def dump_compound(transformation: Transformation) -> JSON:
    """Return a transformation that consists of others, or the identity."""
    match transformation:
        case Sequence(steps):
            if not steps:
                raise ValueError("A sequence must contain a transformation.")
            inner = [dump_transformation(step) for step in steps]
            return {"type": "sequence", "transformations": inner}
        case ByDimension(parts):
            dumped = [
                {
                    "transformation": dump_transformation(part.transformation),
                    "inputAxes": list(part.inputs),
                    "outputAxes": list(part.outputs),
                }
                for part in parts
            ]
            return {"type": "byDimension", "transformations": dumped}
        case Bijection(forward, backward):
            return {
                "type": "bijection",
                "forward": dump_transformation(forward),
                "inverse": dump_transformation(backward),
            }
    name = type(transformation).__name__
    if name != "Identity":
        raise ValueError(f"OME-Zarr 0.6 cannot state {name}.")
    return {"type": "identity"}


def finite_numbers(numbers: Iterable[float]) -> list[float]:
    """Return plain numbers; refuse those that JSON cannot state."""
    plain = [float(number) for number in numbers]
    if not all(map(math.isfinite, plain)):
        raise ValueError(f"JSON has no numbers such as these: {plain}.")
    return plain


INTRINSIC = "intrinsic"
"""Name of the coordinate system that every level of a 0.6 multiscale maps to, where
the model gives none.
"""


def dump_systems(multiscale: Multiscale) -> JSON:
    """Return the systems of a multiscale, the intrinsic one among them, and the links.

    Raises
    ------
    ValueError
        Where 0.6 cannot state a link.
    """
    name = multiscale.intrinsic or INTRINSIC
    systems = [s for s in multiscale.systems if s.name != name]
    # At its old place in the list, since the order may mean something to other
    # programs; first where it is new.
    position = next((i for i, s in enumerate(multiscale.systems) if s.name == name), 0)
    dumped = [dump_system(system) for system in systems]
    axes = [dump_axis(axis, V0_6) for axis in multiscale.axes]
    dumped.insert(position, {"name": name, "axes": axes})
    content: JSON = {"coordinateSystems": dumped}
    if multiscale.links:
        links = [dump_link(link) for link in multiscale.links]
        content["coordinateTransformations"] = links
    return content


def dump_system(system: CoordinateSystem) -> JSON:
    """Return one coordinate system."""
    if not system.name or not system.axes:
        raise ValueError(f"A coordinate system needs a name and axes: {system}.")
    return {"name": system.name, "axes": [dump_axis(a, V0_6) for a in system.axes]}


def dump_axis(axis: Axis, version: Version) -> JSON:
    """Return one axis as 0.4 and newer state it."""
    # Earlier versions imply it for channels.
    discrete = axis.discrete and version.has_systems
    stated = {"type": axis.type, "unit": axis.unit, "discrete": discrete or None}
    return {"name": axis.name} | known_values(stated)


def known_values(content: JSON) -> JSON:
    """Leave out what is not known."""
    return {key: value for key, value in content.items() if value is not None}


def dump_link(link: SystemLink) -> JSON:
    """Return a link with its ends.

    Raises
    ------
    ValueError
        Where 0.6 cannot state it; see `dump_transformation`.
    """
    content = dump_transformation(link.transformation)
    if link.name:
        content["name"] = link.name
    content["input"] = dump_reference(link.input)
    content["output"] = dump_reference(link.output)
    return content


def dump_reference(reference: Reference) -> JSON:
    """Return an ``input`` or ``output``."""
    if not reference.name:
        raise ValueError(f"{reference} needs the name of a coordinate system.")
    # Without a path it is a system of the same document.
    path = {"path": reference.path} if reference.path else {}
    return path | {"name": reference.name}
