"""Coordinate systems, and the transformations between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from napari_ngff.metadata.transform import Transformation

__all__ = ["Axis", "CoordinateSystem", "Reference", "Scene", "SystemLink"]


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of a multiscale.

    Attributes
    ----------
    name
        Non-empty, unique among the axes ("t", "c", "z", "y", "x" or any other).
    type
        "space", "time", "channel" (inferred from the name where the file has none),
        any other type as written, or None.
    unit
        As written in the file, or None; a UDUNITS name when valid.
    discrete
        True where values between two positions have no meaning (0.6).
    """

    name: str
    type: str | None = None
    unit: str | None = None
    discrete: bool = False


@dataclass(frozen=True, slots=True)
class CoordinateSystem:
    """Named axes; a system of the same name in another group is another system."""

    name: str
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """The name of a coordinate system.

    Attributes
    ----------
    path
        Of the group, or array, that has it, relative to the group that refers to it;
        "" for that group itself.
    name
        Of the system; "" for the intrinsic one of an image, and for an array. In drafts
        also a path, or a path and a name.
    """

    path: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class SystemLink:
    """A transformation between two systems, from input points to output points.

    Attributes
    ----------
    name
        As written, "" where there is none.
    """

    input: Reference
    output: Reference
    transformation: Transformation
    name: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """Images in common systems (0.6 ``scene``; drafts: at a parent group itself).

    Attributes
    ----------
    systems
        Systems of the scene; the first is "recommended" to be shown.
    links
        The readable ones.
    """

    systems: tuple[CoordinateSystem, ...] = ()
    links: tuple[SystemLink, ...] = ()
