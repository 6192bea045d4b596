"""Coordinate systems, and the transformations between them; their graph."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from napari_ngff.metadata.compound_transform import compose_steps
from napari_ngff.metadata.transform import Identity, Transformation

FIELD_COST = 10_000
LOSS_COST = 100
"""Costs in steps of 1. Ways of matrices are preferred to ways with a field, ways that
keep all axes to ways that drop some, and of equal ones the shortest.
"""


@dataclass(frozen=True, slots=True)
class SystemGraph:
    """Systems and links between them; all paths begin at the root of the hierarchy.

    Attributes
    ----------
    systems
        Axes by name and place.
    links
        Loaded, both ends among the systems, numbers of axes checked.
    """

    systems: dict[Reference, tuple[Axis, ...]] = field(default_factory=dict)
    links: tuple[SystemLink, ...] = ()

    def way(self, start: Reference, goal: Reference) -> Transformation | None:
        """Find the transformation from one system to another, in either direction of
        each link that has one: as stated, else the closed form of the inverse.

        Returns
        -------
        Transformation or None
            None where there is no way, or one of the systems is not known.
        """
        return self.find_ways(start).get(goal)

    def find_ways(self, start: Reference) -> dict[Reference, Transformation]:
        """Find the transformations from one system to all systems in reach."""
        if start not in self.systems:
            return {}
        ways: dict[Reference, Transformation] = {}
        # Dijkstra's algorithm; transformations are composed on the way.
        number = itertools.count()  # makes entries of equal cost comparable
        queue: list[tuple[int, int, Reference, Transformation]] = []
        heapq.heappush(queue, (0, next(number), start, Identity()))
        while queue:
            cost, _, system, way = heapq.heappop(queue)
            # Reached before at a lower cost.
            if system in ways:
                continue
            ways[system] = way
            for target, step in self.list_steps(system):
                loses = len(self.systems[target]) < len(self.systems[system])
                price = cost + 1 + loses * LOSS_COST
                price += (not step.is_linear) * FIELD_COST
                heapq.heappush(
                    queue, (price, next(number), target, compose_steps(way, step))
                )
        return ways

    def list_steps(
        self, system: Reference
    ) -> Iterator[tuple[Reference, Transformation]]:
        """Yield the systems linked to one, each with the transformation to it."""
        for link in self.links:
            if link.input == system:
                yield link.output, link.transformation
            # A bijection states its inverse; of other links only a closed form is
            # taken, since Newton's method is slow.
            if link.output == system:
                opposite = link.transformation.inverse()
                if opposite is not None:
                    yield link.input, opposite


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
