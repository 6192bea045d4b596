"""Writes coordinate systems and links between them as JSON; strict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.metadata.transform_dump import dump_transformation
from napari_ngff.metadata.version import V0_6

if TYPE_CHECKING:
    from napari_ngff.metadata.model import JSON, Axis, Multiscale
    from napari_ngff.metadata.systems import CoordinateSystem, Reference, SystemLink
    from napari_ngff.metadata.version import Version

__all__ = ["INTRINSIC", "dump_axis", "dump_link", "dump_system", "dump_systems"]

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
    entry: JSON = {"name": axis.name}
    if axis.type is not None:
        entry["type"] = axis.type
    if axis.unit is not None:
        entry["unit"] = axis.unit
    if axis.discrete and version.has_systems:  # earlier versions imply it for channels
        entry["discrete"] = True
    return entry


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
