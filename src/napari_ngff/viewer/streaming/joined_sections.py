"""Sections of an image that are drawn as one: the projection of a thick slice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.drawable_pixels import drawn_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.store.arrays.boxes import Box

Pixels = np.ndarray[Any, Any]

FUNCTIONS: dict[str, Callable[..., Pixels]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
}
"""Projection of napari -> function that makes it."""


@dataclass(frozen=True, slots=True)
class SectionJoin:
    """How several sections become one picture.

    Attributes
    ----------
    mode
        Projection of napari: a key of `FUNCTIONS`.
    axes
        Axes of the level along which they lie.
    is_converted
        Whether the stored pixels are first made numbers that napari can draw.
    """

    mode: str
    axes: tuple[int, ...]
    is_converted: bool = False

    def join(self, pixels: Pixels) -> Pixels:
        """Make one section of all; its axes stay, one element long."""
        numbers = drawn_numbers(pixels) if self.is_converted else pixels
        return FUNCTIONS[self.mode](numbers, axis=self.axes, keepdims=True)

    def shape_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the picture of sections."""
        return tuple(1 if i in self.axes else n for i, n in enumerate(shape))

    def coarser_indices(
        self, indices: Sequence[Pixels], box: Box, join: SectionJoin | None
    ) -> list[Pixels] | None:
        """Find the pixels of a coarser picture that stand for these sections.

        Parameters
        ----------
        indices
            Of the nearest pixels in a coarser box, per axis.
        box, join
            That box, and how its sections were joined.

        Returns
        -------
        list or None
            Indices into the joined pixels; None if they are of other sections.
        """
        found = list(indices)
        for axis in self.axes:
            start, stop = box[axis]
            taken = int(found[axis][-1] - found[axis][0]) + 1
            # napari rounds the thickness in each level: one more on each side is near.
            if stop - start > taken + 2 or (join is None and stop - start > 1):
                return None
            found[axis] = np.zeros(1, int)
        return found if join is None or join == self else None
