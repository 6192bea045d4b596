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
class PlainSource:
    """An array of numpy, dask, zarr, or alike; itself an `ArraySource`."""

    array: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis."""
        return tuple(int(n) for n in self.array.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element, native byte order."""
        dtype: np.dtype[Any] = np.dtype(self.array.dtype).newbyteorder("=")
        return dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of what is best read at once; 1 along an axis without any."""
        stated = getattr(self.array, "chunks", None)
        if not stated:
            # 1 means "no chunks" for `PyramidPlan`, which then chooses lengths freely.
            return (1,) * len(self.shape)
        # zarr states a length per axis, dask the lengths of all chunks along it.
        return tuple(n if isinstance(n, int) else max(n, default=1) for n in stated)

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a rectangle."""
        # Of dask and zarr this computes and reads only the box.
        return np.asarray(self.array[tuple(slice(*span) for span in box)])


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
