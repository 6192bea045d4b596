"""Planes of mosaics, kept once they are drawn: small ones whole, of others a part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.cache import ByteCache

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

    from napari_ngff.store.lazy import Box

__all__ = ["PART_BYTES", "PLANE_BYTES", "Plane", "kept", "make_room"]

PLANE_BYTES = 32 * 2**20
"""Planes of a level of at most so many bytes are kept whole."""

PART_BYTES = 4 * PLANE_BYTES
"""Of others at most so many are kept: what a canvas of 4K needs is less."""

MOST_PLANES = 32
"""So many are kept at most, of plates of many channels."""


@dataclass(slots=True, eq=False)
class Plane:
    """What is kept of a plane of a level, and which tiles have been drawn into it.

    Attributes
    ----------
    box
        Rows and columns of the level.
    drawn
        Tiles of which all that lies in `box` is there.
    """

    box: Box
    pixels: np.ndarray[Any, Any]
    drawn: set[int] = field(default_factory=set)
    locks: dict[int, threading.Lock] = field(default_factory=dict)

    @classmethod
    def empty(cls, box: Box, dtype: np.dtype[Any]) -> Plane:
        """Make room for a rectangle."""
        return cls(box, np.zeros([stop - start for start, stop in box], dtype))

    def holds(self, box: Box) -> bool:
        """Tell whether a rectangle lies inside."""
        return _common(self.box, box) == box

    def part(self, box: Box) -> np.ndarray[Any, Any]:
        """View the pixels of a rectangle that lies inside."""
        pairs = zip(self.box, box, strict=True)
        return self.pixels[tuple(slice(a - at, b - at) for (at, _), (a, b) in pairs)]

    def moved(self, box: Box, meeting: Callable[[Box], Iterable[int]]) -> Plane:
        """Make room for another rectangle; what both have in common is there.

        Parameters
        ----------
        meeting
            Lists the tiles that a rectangle meets.
        """
        new = Plane.empty(box, self.pixels.dtype)
        common = _common(self.box, box)
        if any(stop <= start for start, stop in common):
            return new
        # Before the pixels: what is just being drawn is copied, but does not count.
        drawn = self.drawn.copy()
        new.part(common)[...] = self.part(common)
        rows, columns = box
        for axis, (start, stop) in enumerate(common):
            low, high = box[axis]
            for strip in (low, start), (stop, high):
                if strip[0] < strip[1]:
                    beside = (strip, columns) if axis == 0 else (rows, strip)
                    drawn.difference_update(meeting(beside))
        new.drawn = drawn
        return new


kept: ByteCache[Plane] = ByteCache(8 * PLANE_BYTES, least=2)
"""By the token of the level, and the indices of the plane in it."""


def make_room(channels: int, nbytes: int = PLANE_BYTES) -> None:
    """Keep planes of all channels: that of the level on the screen and the coarsest."""
    most = MOST_PLANES * PLANE_BYTES
    kept.limit = max(kept.limit, min(2 * channels * nbytes, most))


def _common(one: Box, other: Box) -> Box:
    pairs = zip(one, other, strict=True)
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in pairs)
