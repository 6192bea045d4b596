"""Drawn planes of mosaics, kept in memory: small ones whole, a part of larger ones."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from napari_ngff.store.arrays.boxes import Box, box_shape, intersect_boxes, slice_inside
from napari_ngff.store.lru_cache import ByteCache

Pixels = np.ndarray[Any, Any]

Lead = tuple[int, ...]
"""Indices of a plane on the axes before y and x."""

tokens = itertools.count()

PLANE_BYTES = 32 * 2**20
"""Bytes up to which a plane is kept whole: napari reads the coarsest level whole."""

PART_BYTES = 4 * PLANE_BYTES
"""Most bytes that are kept of a larger plane: more than a canvas of 4K shows."""

MOST_PLANES = 32
"""Number of planes of `PLANE_BYTES` for which there is room at most: 1 GiB."""


@dataclass(slots=True, eq=False)
class KeptPlane:
    """The kept part of a level's plane, and which tiles have been drawn into it.

    Attributes
    ----------
    box
        Rows and columns of the level.
    drawn
        Tiles whose part of `box` is complete, or cannot be read at all.
    failed
        Other tiles, which may come later -> the attempt in which they failed.
    """

    box: Box
    pixels: Pixels
    drawn: set[int] = field(default_factory=set)
    failed: dict[int, int] = field(default_factory=dict)
    locks: dict[int, threading.Lock] = field(default_factory=dict)

    @classmethod
    def of_box(cls, box: Box, dtype: np.dtype[Any]) -> KeptPlane:
        """Make an empty plane for a box."""
        return cls(box, np.zeros(box_shape(box), dtype))

    def holds_box(self, box: Box) -> bool:
        """Return whether a box lies inside."""
        return intersect_boxes(self.box, box) == box

    def tiles_left(self, numbers: Iterable[int], attempt: int) -> list[int]:
        """List the tiles still to draw, without those that failed in this attempt."""
        return [
            number
            for number in numbers
            if number not in self.drawn and self.failed.get(number) != attempt
        ]

    def view_box(self, box: Box) -> Pixels:
        """Return a view of the pixels of a box that lies inside."""
        return self.pixels[slice_inside(box, self.box)]

    def move_to(self, box: Box, meeting: Callable[[Box], Iterable[int]]) -> KeptPlane:
        """Make a plane for another box, with the pixels that both have in common.

        Parameters
        ----------
        meeting
            Lists the tiles that a rectangle meets.
        """
        new = KeptPlane.of_box(box, self.pixels.dtype)
        common = intersect_boxes(self.box, box)
        if any(stop <= start for start, stop in common):
            return new
        # Copied before the pixels: a tile that another thread is just drawing may be
        # copied by half, so it must not count as drawn.
        drawn = self.drawn.copy()
        new.view_box(common)[...] = self.view_box(common)
        # Tiles that reach into what is new (up to four strips around `common`) are
        # drawn again.
        rows, columns = box
        for axis, (start, stop) in enumerate(common):
            low, high = box[axis]
            for strip in (low, start), (stop, high):
                if strip[0] < strip[1]:
                    beside = (strip, columns) if axis == 0 else (rows, strip)
                    drawn.difference_update(meeting(beside))
        new.drawn = drawn
        return new


kept: ByteCache[KeptPlane] = ByteCache(8 * PLANE_BYTES, least=2)
"""The planes of all mosaics, by the token of the level and the plane's indices in it.
256 MiB at first; see `make_room`."""


def make_room(channels: int, nbytes: int = PLANE_BYTES) -> None:
    """Raise the limit so that two planes fit per channel: on screen and coarsest."""
    # It only grows: another mosaic of the same window may be on screen.
    most = MOST_PLANES * PLANE_BYTES
    kept.limit = max(kept.limit, min(2 * channels * nbytes, most))


@dataclass(frozen=True, slots=True, eq=False)
class LevelPlanes:
    """The kept planes of one level.

    Attributes
    ----------
    shape, dtype
        Of the level.
    channels
        How many of its planes are looked at together.
    factors
        Voxels of level 0 of the images per voxel, along y and x.
    coarser
        What is kept of the next level.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    channels: int
    factors: tuple[float, float]
    coarser: LevelPlanes | None = None
    _token: int = field(default_factory=lambda: next(tokens))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def keeps_whole(self) -> bool:
        """Return whether planes are kept whole."""
        return self._plane_bytes(self.shape) <= PLANE_BYTES

    def is_small_enough(self, box: Box) -> bool:
        """Return whether a rectangle is small enough to be kept."""
        return self._plane_bytes(box_shape(box)) <= PART_BYTES

    def _plane_bytes(self, shape: Sequence[int]) -> int:
        return math.prod(shape[-2:]) * self.dtype.itemsize

    def known_plane(self, lead: Lead) -> KeptPlane | None:
        """Return what is kept of a plane, or None."""
        return kept.get((self._token, lead))

    def plane_at(
        self, lead: Lead, area: Box, meeting: Callable[[Box], Iterable[int]]
    ) -> KeptPlane:
        """Return what is kept of a plane, or a new plane for a box of it.

        Parameters
        ----------
        meeting
            See `KeptPlane.move_to`.
        """
        # One thread makes the plane of a place, else two would draw into two of them.
        with self._lock:
            plane = self.known_plane(lead)
            if plane is not None and plane.holds_box(area):
                return plane
            if self.keeps_whole:
                height, width = self.shape[-2:]
                area = (0, height), (0, width)
            if plane is None:
                plane = KeptPlane.of_box(area, self.dtype)
            else:
                plane = plane.move_to(area, meeting)
            make_room(self.channels, plane.pixels.nbytes)
            kept.put((self._token, lead), plane, plane.pixels.nbytes)
            return plane

    def stand_in(self, lead: Lead, number: int, area: Box) -> Pixels | None:
        """Enlarge a part of a tile from coarser levels; None if none of them has it."""
        # From the next coarser level on: the finest one that has the tile.
        level = self.coarser
        while level is not None:
            sizes = zip(lead, level.shape, self.shape, strict=False)
            plane = level.known_plane(tuple(i * n // full for i, n, full in sizes))
            if plane is not None and number in plane.drawn:
                # The coarser voxel below the centre of each voxel of the part.
                rows, columns = (
                    np.minimum((np.arange(*span) + 0.5) * fine / coarse, n - 1)
                    for span, fine, coarse, n in zip(
                        area, self.factors, level.factors, level.shape[-2:], strict=True
                    )
                )
                y, x = rows.astype(int), columns.astype(int)
                box = (int(y[0]), int(y[-1]) + 1), (int(x[0]), int(x[-1]) + 1)
                if plane.holds_box(box):
                    # `take` along each axis enlarges by repeating; it copies, since the
                    # plane may be drawn into meanwhile.
                    part: Pixels = plane.view_box(box).take(x - x[0], 1)
                    enlarged: Pixels = part.take(y - y[0], 0)
                    return enlarged
            level = level.coarser
        return None
