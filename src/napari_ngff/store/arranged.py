"""An array with its axes in another order, some dropped, some new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from napari_ngff.store.lazy import ArraySource, Box

__all__ = ["Arranged"]


@dataclass(frozen=True, slots=True, eq=False)
class Arranged:
    """A source on the axes of something else; itself an `ArraySource`.

    Attributes
    ----------
    source
        Axes that are not in `order` have one element.
    order
        Per axis: the axis of the source, or None for a new one of length 1.
    """

    source: ArraySource
    order: tuple[int | None, ...]

    def __post_init__(self) -> None:
        dropped = set(range(len(self.source.shape))) - set(self.order)
        if any(self.source.shape[axis] != 1 for axis in dropped):
            msg = f"Only an axis of one element can be dropped: {self}."
            raise ValueError(msg)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis."""
        return self._per_axis(self.source.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        return self.source.dtype

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of what is read at once."""
        return self._per_axis(self.source.chunks)

    def _per_axis(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(1 if axis is None else sizes[axis] for axis in self.order)

    def own_box(self, box: Box) -> Box:
        """Turn a rectangle of the new axes into one of the source's."""
        own = [(0, 1)] * len(self.source.shape)
        for axis, span in zip(self.order, box, strict=True):
            if axis is not None:
                own[axis] = span
        return tuple(own)

    def own_block(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Turn an array on the new axes into one on the source's: to write it."""
        new = tuple(i for i, axis in enumerate(self.order) if axis is None)
        kept = [axis for axis in self.order if axis is not None]
        block = block.squeeze(axis=new)
        block = block.transpose(sorted(range(len(kept)), key=kept.__getitem__))
        dropped = sorted(set(range(len(self.source.shape))) - set(kept))
        for axis in dropped:
            block = block.reshape((*block.shape[:axis], 1, *block.shape[axis:]))
        return block

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a rectangle of the new axes."""
        block = self.source.read(self.own_box(box))
        kept = [axis for axis in self.order if axis is not None]
        dropped = [axis for axis in range(block.ndim) if axis not in kept]
        shape = tuple(stop - start for start, stop in box)
        return block.transpose((*kept, *dropped)).reshape(shape)
