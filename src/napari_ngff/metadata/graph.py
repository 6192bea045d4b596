"""All coordinate systems of a hierarchy, and the way from any one to any other."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from napari_ngff.metadata.compound import composed
from napari_ngff.metadata.transform import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.metadata.systems import Axis, Link, Reference
    from napari_ngff.metadata.transform import Transformation

__all__ = ["SystemGraph"]

FIELD_COST = 10_000
LOSS_COST = 100
"""A way of matrices is better than one with a field, and one that keeps all axes
better than one that drops some; of equal ones, the shortest.
"""


@dataclass(frozen=True, slots=True)
class SystemGraph:
    """Systems, and links between them; here all paths begin at the hierarchy's root.

    Attributes
    ----------
    systems
        Axes by name and place.
    links
        Loaded, both ends among the systems, numbers of axes checked.
    """

    systems: dict[Reference, tuple[Axis, ...]] = field(default_factory=dict)
    links: tuple[Link, ...] = ()

    def way(self, start: Reference, goal: Reference) -> Transformation | None:
        """Find the transformation from one system to another, in either direction of
        each link that has one: as stated, else the closed form of the inverse.

        Returns
        -------
        Transformation or None
            None where there is no way, or one of the systems is not known.
        """
        return self.ways(start).get(goal)

    def ways(self, start: Reference) -> dict[Reference, Transformation]:
        """Find the transformations from one system to all that can be reached."""
        if start not in self.systems:
            return {}
        found: dict[Reference, Transformation] = {}
        number = itertools.count()  # makes entries of equal cost comparable
        queue: list[tuple[int, int, Reference, Transformation]] = []
        heapq.heappush(queue, (0, next(number), start, Identity()))
        while queue:
            cost, _, here, way = heapq.heappop(queue)
            if here in found:
                continue
            found[here] = way
            for there, step in self.steps(here):
                price = cost + self.cost(here, there, step)
                heapq.heappush(queue, (price, next(number), there, composed(way, step)))
        return found

    def steps(self, here: Reference) -> Iterator[tuple[Reference, Transformation]]:
        """Yield the neighbours of a system, and how to get there."""
        for link in self.links:
            if link.input == here:
                yield link.output, link.transformation
            if link.output == here:
                opposite = link.transformation.inverse()
                if opposite is not None:
                    yield link.input, opposite

    def cost(self, here: Reference, there: Reference, step: Transformation) -> int:
        """Rate a step; the lower the better."""
        loses = len(self.systems[there]) < len(self.systems[here])
        return 1 + (not step.linear) * FIELD_COST + loses * LOSS_COST
