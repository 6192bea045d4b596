"""One level of a canvas: an array with edits that reads itself when sliced."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.grid import Grid
from napari_ngff.store.lazy import LazyArray, Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.grid import Box
    from napari_ngff.store.lazy import ArraySource

__all__ = ["CanvasLevel", "Chunk"]

LARGEST = 1 << 31
"""A level of more bytes is not handed over as one array."""

Chunk = tuple[int, ...]
"""Index of a chunk, per axis."""


class CanvasLevel:
    """One level with its edits: an array that reads itself when sliced.

    Slices are lazy dask arrays and show the edits of the moment they are read. It is
    also an `ArraySource`, in voxels of this level.
    """

    def __init__(self, canvas: Canvas, number: int, source: ArraySource) -> None:
        self.canvas = canvas
        self.number = number
        self.source = source
        self.shape = tuple(source.shape)
        self.chunks = tuple(source.chunks)
        self.grid = Grid(canvas.shape, self.shape)

    def __repr__(self) -> str:
        return f"<CanvasLevel {self.number} {self.shape} {self.dtype}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> CanvasLevel:
        twin = memo.get(id(self.canvas)) or self.canvas.copy()
        memo[id(self.canvas)] = twin
        return twin.levels[self.number]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a voxel."""
        return self.canvas.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of voxels."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole level, if it were read."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a box with its edits."""
        return self.canvas.read(self.number, box)

    def below(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a box without the edits."""
        return self.source.read(box).astype(self.dtype, copy=False)

    def lazy(self) -> LazyArray:
        """Give the level as a dask array."""
        token = f"canvas-{id(self.canvas)}-{self.canvas.version}-{self.number}"
        return LazyArray.of(Window.whole(self), token)

    def __getitem__(self, index: Any) -> Any:
        """Slice lazily; integer arrays, one per axis, are read at once."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) == self.ndim and any(
            isinstance(part, np.ndarray | list) and np.ndim(part) for part in parts
        ):
            arrays = [np.asarray(part) for part in parts if not isinstance(part, slice)]
            if len(arrays) == self.ndim and all(a.dtype.kind in "iu" for a in arrays):
                return self.points(arrays)
        return self.lazy()[index]

    def points(self, index: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Read single voxels, chunk by chunk.

        Parameters
        ----------
        index
            One array of indices per axis; they are broadcast.
        """
        arrays = np.broadcast_arrays(*index)
        shape = arrays[0].shape
        sizes = np.array(self.shape)
        at = np.stack([np.asarray(a, np.int64).ravel() for a in arrays], axis=1)
        if ((at < -sizes) | (at >= sizes)).any():
            msg = f"An index lies outside of an array of shape {self.shape}."
            raise IndexError(msg)
        at %= sizes
        out = np.empty(len(at), self.dtype)
        chunks, which = np.unique(at // self.chunks, axis=0, return_inverse=True)
        for number, chunk in enumerate(chunks):
            here = which.ravel() == number
            box = self.box(tuple(int(c) for c in chunk))
            block = self.read(box)
            out[here] = block[tuple((at[here] - [a for a, _ in box]).T)]
        return out.reshape(shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            msg = "A level of a canvas cannot be viewed without copying it."
            raise ValueError(msg)
        if self.nbytes > LARGEST:
            msg = (
                f"This level, {self.shape} of {self.dtype}, would take"
                f" {self.nbytes / 2**30:.0f} GiB as one array. Slice it, take a"
                " coarser level, or save it as OME-Zarr."
            )
            raise MemoryError(msg)
        whole = self.read(tuple((0, size) for size in self.shape))
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def astype(self, dtype: Any, **keywords: Any) -> Any:
        """Give a lazy dask array of another type."""
        return self.lazy().astype(dtype, **keywords)  # type: ignore[no-untyped-call]

    def box(self, chunk: Chunk) -> Box:
        """Rectangle of a chunk."""
        return tuple(
            (i * step, min((i + 1) * step, size))
            for i, step, size in zip(chunk, self.chunks, self.shape, strict=True)
        )

    def reach(self, box: Box) -> Box:
        """Rectangle of level 0 in which an edit must lie to change a box of this level.

        One voxel of this level wider: planes are rounded otherwise than blocks.
        """
        full = self.grid.full
        return tuple(
            (
                self.grid.first(axis, max(start - 1, 0)),
                min(self.grid.first(axis, stop + 1), full[axis]),
            )
            for axis, (start, stop) in enumerate(box)
        )

    def chunks_in(self, box: Box) -> Iterator[Chunk]:
        """List the chunks that a box meets."""
        return itertools.product(
            *(
                range(start // step, -(-stop // step))
                for (start, stop), step in zip(box, self.chunks, strict=True)
            )
        )

    def parts(self, box: Box) -> Iterator[tuple[Chunk, Any, Any]]:
        """Cut a box at the chunks: each with its part of the box and of the chunk."""
        for chunk in self.chunks_in(box):
            both = list(zip(box, self.box(chunk), strict=True))
            cut = [(max(b[0], c[0]), min(b[1], c[1])) for b, c in both]
            part = tuple(
                slice(a - b[0], z - b[0])
                for (a, z), (b, _) in zip(cut, both, strict=True)
            )
            inside = tuple(
                slice(a - c[0], z - c[0])
                for (a, z), (_, c) in zip(cut, both, strict=True)
            )
            yield chunk, part, inside


def _moved(inside: Any, box: Box) -> Box:
    """Turn a part of a chunk back into a rectangle of its level."""
    return tuple(
        (part.start + start, part.stop + start)
        for part, (start, _) in zip(inside, box, strict=True)
    )
