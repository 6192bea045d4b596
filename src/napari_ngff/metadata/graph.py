"""The graph of the coordinate systems of a hierarchy."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from napari_ngff.metadata.compound_transform import compose_steps
from napari_ngff.metadata.transform import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.metadata.systems import Axis, Reference, SystemLink
    from napari_ngff.metadata.transform import Transformation

__all__ = ["SystemGraph"]

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
                price = cost + self.rate_step(system, target, step)
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

    def rate_step(
        self, system: Reference, target: Reference, step: Transformation
    ) -> int:
        """Return the cost of a step."""
        loses = len(self.systems[target]) < len(self.systems[system])
        return 1 + (not step.is_linear) * FIELD_COST + loses * LOSS_COST
