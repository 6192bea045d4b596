"""One level of a canvas: stored labels, and the current edits on top of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from napari_ngff.labels.level_grid import LevelGrid
from napari_ngff.store.arrays.boxes import (
    Box,
    box_of,
    box_shape,
    cells_in,
    enclose_boxes,
    intersect_boxes,
    slice_inside,
)
from napari_ngff.store.arrays.lazy_array import ArraySource, ArrayWindow, LazyArray

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ngff.labels.edits import Edit

LARGEST = 1 << 31
"""A level of more bytes is not handed over as one array."""

Chunk = tuple[int, ...]
"""Index of a chunk, per axis."""


class LevelOwner(Protocol):
    """What a level needs of its canvas, which has the edits.

    Attributes
    ----------
    token, version, reversals
        Equal ones of all mean equal labels.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    levels: tuple[CanvasLevel, ...]
    token: str
    version: int
    reversals: int

    def saved_count(self, level: CanvasLevel) -> int:
        """Return how many of the edits the source of a level contains already."""

    def copy(self) -> LevelOwner:
        """Copy the canvas with its edits."""

    def read(self, number: int, box: Box) -> np.ndarray[Any, Any]:
        """Read a box of a level with its edits."""


class DrawnLevels(Protocol):
    """What a viewer can draw at once of slow levels, before any edit."""

    def read(self, number: int, box: Box) -> np.ndarray[Any, Any] | None:
        """Return what is there of a box of a level; None where true labels are needed.

        What is missing may be labels of a coarser level.
        """

    def is_true(self, number: int, box: Box) -> bool:
        """Return whether what was drawn of a box has only labels of the level."""


@dataclass(frozen=True, slots=True)
class BelowEdits:
    """Labels of a level below the edits, which were read for edits that ask for them.

    Attributes
    ----------
    box
        Of the level.
    state
        How many edits were in the file, and how often the canvas was taken back: then
        other labels may be below.
    values
        Shape of the box.
    """

    box: Box
    state: tuple[int, int]
    values: np.ndarray[Any, Any]

    def has(self, box: Box, state: tuple[int, int]) -> bool:
        """Return whether these are all labels of a box, in a state of the canvas."""
        return self.state == state and intersect_boxes(self.box, box) == box

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Return the labels of a part."""
        return self.values[slice_inside(box, self.box)]


class LevelArray(LazyArray):
    """A level of a canvas as a dask array: it shows the edits when it is computed."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        """Slice lazily; integer arrays, one per axis, are read at once."""
        window = self.window
        parts = index if isinstance(index, tuple) else (index,)
        # napari's tools read single voxels as from NumPy, by an array of indices per
        # axis. dask has no such indexing.
        points = len(parts) == self.ndim and all(map(_is_points, parts))
        if (
            window is None
            or not points
            or window != ArrayWindow.whole_source(window.source)
        ):
            return super().__getitem__(index)
        level: Any = window.source
        return level.read_points([np.asarray(part) for part in parts])

    def __setitem__(self, index: Any, value: Any) -> None:
        msg = "Set values with layer.data_setitem(indices, values): it can be undone."
        raise TypeError(msg)


def _is_points(part: Any) -> bool:
    if not isinstance(part, np.ndarray | list) or not np.ndim(part):
        return False
    # Not "b": a mask of booleans is left to dask.
    return np.asarray(part).dtype.kind in "iu"


def _level_of(canvas: LevelOwner, number: int) -> CanvasLevel:
    return canvas.levels[number]


class CanvasLevel:
    """One level with its edits, an `ArraySource` in voxels of this level.

    Attributes
    ----------
    source
        The level before any edit.
    saved
        The level as it is in the file after a save (see `Canvas.show_saved`); None
        before the first one.
    """

    def __init__(self, canvas: LevelOwner, number: int, source: ArraySource) -> None:
        self.canvas = canvas
        self.number = number
        self.source = source
        self.saved: ArraySource | None = None
        self.shape = tuple(source.shape)
        self.chunks = tuple(source.chunks)
        self.grid = LevelGrid(canvas.shape, self.shape)

    def __repr__(self) -> str:
        return f"<CanvasLevel {self.number} {self.shape} {self.dtype}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> CanvasLevel:
        # A layer copies its levels one by one; all of them must belong to one new
        # canvas.
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

    # Pickled with its whole canvas, since the edits are there.
    def __reduce__(self) -> tuple[Any, ...]:
        return _level_of, (self.canvas, self.number)

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a box with its edits.

        Raises
        ------
        MemoryError
            For one of more than `LARGEST` bytes.
        """
        count = math.prod(box_shape(box))
        if count * self.dtype.itemsize > LARGEST:
            msg = (
                f"Too large for one array: {count * self.dtype.itemsize / 2**30:.0f}"
                " GiB of labels. Take a part of them or a coarser level, compute with"
                " dask, or save them as OME-Zarr."
            )
            raise MemoryError(msg)
        # By the canvas, which has the lock and the patches of all levels.
        return self.canvas.read(self.number, box)

    def read_below(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a box without edits, except those that the file contains."""
        source = self.saved if self.canvas.saved_count(self) else self.source
        assert source is not None
        return source.read(box).astype(self.dtype, copy=False)

    def as_dask(self) -> LevelArray:
        """Give the level as a dask array."""
        # dask caches by name: the name must change with each edit, undo or reread.
        changes = f"{self.canvas.version}-{self.canvas.reversals}"
        token = f"canvas-{self.canvas.token}-{changes}-{self.number}"
        return LevelArray.of_window(ArrayWindow.whole_source(self), token)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return self.as_dask()[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        # Always new memory, so `copy` makes no difference.
        return self.as_dask().__array__(dtype)

    def astype(self, dtype: Any, **keywords: Any) -> Any:
        """Give a lazy dask array of another type."""
        return self.as_dask().astype(dtype, **keywords)

    def read_points(self, index: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Read single voxels, chunk by chunk.

        Parameters
        ----------
        index
            One array of indices per axis; they are broadcast.
        """
        arrays = np.broadcast_arrays(*index)
        shape = arrays[0].shape
        sizes = np.array(self.shape)
        indices = np.stack([np.asarray(a, np.int64).ravel() for a in arrays], axis=1)
        if ((indices < -sizes) | (indices >= sizes)).any():
            msg = f"Index outside of an array of shape {self.shape}."
            raise IndexError(msg)
        # Negative indices count from the end, as in NumPy.
        indices %= sizes
        out = np.empty(len(indices), self.dtype)
        # Each chunk is read once, however many of the points lie in it.
        chunks, which = np.unique(indices // self.chunks, axis=0, return_inverse=True)
        for number, chunk in enumerate(chunks):
            # NumPy 2.0, alone, returns the inverse with a second axis.
            in_chunk = which.ravel() == number
            box = self.chunk_box(tuple(int(c) for c in chunk))
            block = self.read(box)
            out[in_chunk] = block[tuple((indices[in_chunk] - [a for a, _ in box]).T)]
        return out.reshape(shape)

    def chunk_box(self, chunk: Chunk) -> Box:
        """Return the box of a chunk."""
        return box_of(chunk, self.chunks, self.shape)

    def edit_reach(self, box: Box) -> Box:
        """Return the box of level 0 in which an edit must lie to change a box here.

        One voxel of this level wider: planes are rounded otherwise than blocks.
        """
        full = self.grid.full
        return tuple(
            (
                self.grid.block_start(axis, max(start - 1, 0)),
                min(self.grid.block_start(axis, stop + 1), full[axis]),
            )
            for axis, (start, stop) in enumerate(box)
        )

    def asked_box(self, box: Box, edits: Sequence[Edit]) -> Box | None:
        """Return the part of a box for whose labels edits ask; None for none."""
        asked = [e.region_in(self.grid, box) for e in edits if e.depends_on_labels]
        regions = [region for region in asked if region is not None]
        return enclose_boxes(regions) if regions else None

    def chunks_in(self, box: Box) -> Iterator[Chunk]:
        """List the chunks that a box meets."""
        return cells_in(box, self.chunks)

    def split_at_chunks(self, box: Box) -> Iterator[tuple[Chunk, Any, Any]]:
        """Split a box at the chunks: chunk, slices of the box, slices of the chunk."""
        for chunk in self.chunks_in(box):
            cut = intersect_boxes(box, self.chunk_box(chunk))
            inner = slice_inside(cut, self.chunk_box(chunk))
            yield chunk, slice_inside(cut, box), inner
