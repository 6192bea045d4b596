"""Arrays that napari shows, as sources that are read by boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.lazy_array import ArraySource


@dataclass(frozen=True, slots=True, eq=False)
class StackedSource:
    """Sources of one shape along a new axis; itself an `ArraySource`.

    Attributes
    ----------
    sources
        At least one.
    axis
        Index of the new axis.
    dtype
        One that holds the values of all of them.
    """

    sources: Sequence[ArraySource]
    axis: int
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis."""
        return self._insert_axis(self.sources[0].shape, len(self.sources))

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of what is read at once."""
        # One channel at a time: each is a source, and so a read, of its own.
        all_chunks = zip(*(source.chunks for source in self.sources), strict=True)
        return self._insert_axis(tuple(map(max, all_chunks)), 1)

    def _insert_axis(self, sizes: tuple[int, ...], length: int) -> tuple[int, ...]:
        return (*sizes[: self.axis], length, *sizes[self.axis :])

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a rectangle."""
        inner = (*box[: self.axis], *box[self.axis + 1 :])
        parts = [
            self.sources[i].read(inner).astype(self.dtype, copy=False)
            for i in range(*box[self.axis])
        ]
        return np.stack(parts, self.axis)
