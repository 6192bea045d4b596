"""Lazy dask arrays, which open in the same time whatever their number of chunks.

A `LazyArray` *is* a `dask.array.Array`. A plain slice is another one, on a smaller
window; `numpy.asarray` reads the window from its source; every other operation makes
the usual graph of dask first. (dask's own arrays handle each chunk of the whole array
at every slice: dask#8570.)
"""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import dask.array as da
import numpy as np
from dask.array.core import Array as DaskArray

from napari_ngff.store.arrays.boxes import box_shape, order_block, whole_box

if TYPE_CHECKING:
    from napari_ngff.store.arrays.boxes import AxisOrder, Box

__all__ = ["ArraySource", "ArrayWindow", "BlankArray", "LazyArray"]

# bool is an int for Python, but a mask for numpy.
NOT_PLAIN = (np.ndarray, list, DaskArray, bool)
"""Types of indices that are left to dask."""


class ArraySource(Protocol):
    """An n-dimensional array that can be read by boxes, from any thread."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element, native byte order."""

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of a chunk."""

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a box; the shape of the result is ``stop - start`` per axis."""


@dataclass(frozen=True, slots=True)
class ArrayWindow:
    """A box of a source, its axes dropped, kept, moved or new.

    Itself an `ArraySource`.

    Attributes
    ----------
    order
        Per axis of the window: the axis of the source, or None for a new one of
        length 1.
    box
        Per axis of the source; one element long where the axis is dropped. All of it
        by default.
    steps
        Per axis of the source: 2 for every second element of the box. 1 by default.
    """

    source: ArraySource
    order: AxisOrder
    box: Box = ()
    steps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        shape = self.source.shape
        # Defaults that depend on the source; the way of a frozen dataclass.
        object.__setattr__(self, "box", self.box or whole_box(shape))
        object.__setattr__(self, "steps", self.steps or (1,) * len(shape))
        dropped = set(range(len(shape))) - set(self.order)
        if any(self.box[axis][1] - self.box[axis][0] != 1 for axis in dropped):
            msg = f"Only an axis of one element can be dropped: {self}."
            raise ValueError(msg)

    @classmethod
    def whole_source(cls, source: ArraySource) -> ArrayWindow:
        """Make the window of a whole source, as it is."""
        return cls(source, tuple(range(len(source.shape))))

    @property
    def is_plain(self) -> bool:
        """Whether a box of the window is the same box of the source."""
        begins = not any(start for start, _ in self.box)
        kept = self.order == tuple(range(len(self.box)))
        return begins and kept and all(step == 1 for step in self.steps)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis of the window."""
        pairs = zip(self.box, self.steps, strict=True)
        sizes = [-(-(stop - start) // step) for (start, stop), step in pairs]
        return tuple(1 if axis is None else sizes[axis] for axis in self.order)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        return self.source.dtype

    @property
    def ndim(self) -> int:
        """Number of axes of the window."""
        return len(self.order)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of a chunk."""
        sizes = self.source.chunks
        return tuple(1 if axis is None else sizes[axis] for axis in self.order)

    def chunk_lengths(self) -> tuple[tuple[int, ...], ...]:
        """List the lengths of the source's chunks inside the window, as dask does."""
        return tuple(
            (1,)
            if axis is None
            else _cut_lengths(*self.box[axis], max(1, self.source.chunks[axis]))
            for axis in self.order
        )

    def select_index(self, index: Any) -> ArrayWindow | None:
        """Narrow the window by integers, unit steps, Ellipsis or None.

        Returns None for any other index: dask then applies numpy's rules.

        Raises
        ------
        IndexError
            For an integer out of bounds, or too many of them.
        """
        parts = _expand_index(index, len(self.order))
        if parts is None:
            return None
        box = list(self.box)
        order: list[int | None] = []
        axes = zip(self.order, self.shape, strict=True)
        for part in parts:
            if part is None:
                order.append(None)
                continue
            axis, size = next(axes)
            # Indices are relative to the window; `_span_below` turns them into those of
            # the source.
            span = _index_span(part, size)
            if span is None or (axis is None and span[:2] != (0, 1)):
                return None
            start, stop, kept = span
            if axis is not None:
                box[axis] = self._span_below(axis, start, stop)
            if kept:
                order.append(axis)
        return replace(self, order=tuple(order), box=tuple(box))

    def _span_below(self, axis: int, start: int, stop: int) -> tuple[int, int]:
        first, step = self.box[axis][0], self.steps[axis]
        # Up to the last element that is taken, not a whole step further: the source may
        # end there.
        return first + start * step, first + (stop - 1) * step + 1

    def permute_axes(self, order: tuple[int, ...]) -> ArrayWindow:
        """Return the window with its axes in another order."""
        return replace(self, order=tuple(self.order[i] for i in order))

    def read(self, box: Box | None = None) -> np.ndarray[Any, Any]:
        """Read a box of the window; all of it by default."""
        if box is None:
            box = whole_box(self.shape)
        picks = [slice(None)] * len(self.box)
        for axis in self.order:
            if axis is not None:
                picks[axis] = slice(None, None, self.steps[axis])
        block = self.source.read(self.box_below(box))
        return order_block(block[tuple(picks)], self.order)

    def box_below(self, box: Box) -> Box:
        """Return the box of the source that a box of the window shows."""
        # Dropped axes are read at their one element; the loop sets the others.
        spans = [(start, start + 1) for start, _ in self.box]
        for axis, (start, stop) in zip(self.order, box, strict=True):
            if axis is not None:
                spans[axis] = self._span_below(axis, start, stop)
        return tuple(spans)

    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        window = self.select_index(index)
        return self.read()[index] if window is None else window.read()


@dataclass(frozen=True, slots=True)
class BlankArray:
    """An array of zeros that takes no memory; an `ArraySource`."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Return zeros for a box."""
        return np.zeros(box_shape(box), self.dtype)


class LazyArray(DaskArray):
    """A dask array over an `ArrayWindow`.

    Made by `LazyArray.of_window`. Relies on how `dask.array.Array` keeps its name,
    chunks and meta (2025.1 to 2026.8, pinned by a test); the graph is a property here.
    """

    __slots__ = ("_graph", "_token", "_window")

    _graph: Any
    _token: str
    _window: ArrayWindow | None

    @classmethod
    def of_window(cls, window: ArrayWindow, token: str | None = None) -> Self:
        """Make the array of a window.

        Parameters
        ----------
        window
            What to show.
        token
            Name of the source's content: arrays of equal token and window are equal.
            Caches of task results use it, so it must change with the content. A new one
            by default.
        """
        # Not by dask's `__new__`: it would ask for a graph, which is what this class
        # avoids.
        self = object.__new__(cls)
        self._graph = None
        self._window = window
        self._token = token or f"ome-zarr-{next(_counter)}-{_SESSION}"
        # What dask computes types with: an empty array of the right type and number of
        # axes.
        self._meta = np.empty((0,) * window.ndim, dtype=window.dtype)
        # napari's cache of dask results goes by names: other windows of a source need
        # other names.
        self._name = f"{self._token}-{window.box}-{window.order}"
        self._chunks = window.chunk_lengths()
        return self

    @property
    def window(self) -> ArrayWindow | None:
        """The window; None once dask has changed the array in place."""
        return self._window

    @property
    def dask(self) -> Any:
        """The graph, made when it is first used."""
        if self._graph is None:
            # `inline_array`: the window is in each task, so that no task of its own has
            # to pass it on; `name`: hashing the source would read it.
            made = da.from_array(
                self._window,
                chunks=self._chunks,
                name=self._name,
                inline_array=True,
                fancy=False,
                meta=self._meta,
            )
            self._graph = made.dask
        return self._graph

    @dask.setter
    def dask(self, graph: Any) -> None:
        # Assignment into a dask array replaces its graph; the source no longer has its
        # values.
        self._graph = graph
        self._window = None

    # Pickled as dask's own array, so that a worker on a cluster does not need this
    # class.
    def __reduce__(self) -> tuple[Any, ...]:
        return DaskArray, (self.dask, self.name, self.chunks, self.dtype, self._meta)

    def __getitem__(self, index: Any) -> Any:
        window = None if self._window is None else self._window.select_index(index)
        if window is None:
            return super().__getitem__(index)  # type: ignore[no-untyped-call]
        # Nothing was narrowed: the same array, with the graph that it may have made
        # already.
        return self if window == self._window else self.of_window(window, self._token)

    def transpose(self, *axes: Any) -> Any:
        """Reorder the axes, lazily and without a graph."""
        order = axes[0] if axes and isinstance(axes[0], tuple | list) else axes
        order = tuple(order) if order else tuple(reversed(range(self.ndim)))
        if self._window is None or sorted(order) != list(range(self.ndim)):
            return super().transpose(*axes)  # type: ignore[no-untyped-call]
        return self.of_window(self._window.permute_axes(order), self._token)

    def __array__(self, dtype: Any = None, copy: Any = None, **kwargs: Any) -> Any:
        if self._window is None:
            return super().__array__(dtype, copy=copy, **kwargs)  # type: ignore[no-untyped-call]
        # One read of the source: dask would make a task for each chunk.
        data = self._window.read()
        return data if dtype is None else data.astype(dtype, copy=False)


# Tokens of two sessions must differ: caches of dask may outlive a process.
_counter = itertools.count()
_SESSION = f"{np.random.SeedSequence().entropy:x}"[:12]


def _cut_lengths(start: int, stop: int, step: int) -> tuple[int, ...]:
    """Return the lengths of the parts of ``start..stop``, cut at multiples of
    `step`.
    """
    size = stop - start
    first = min(step - start % step, size)
    full, last = divmod(size - first, step)
    return (first,) + (step,) * full + ((last,) if last else ())


def _expand_index(index: Any, ndim: int) -> tuple[Any, ...] | None:
    """Expand an index to one part per axis, plus new axes; None if not plain."""
    parts = index if isinstance(index, tuple) else (index,)
    given, dots = 0, []
    for i, part in enumerate(parts):
        if isinstance(part, NOT_PLAIN):
            return None
        if part is Ellipsis:
            dots.append(i)
        elif part is not None:
            given += 1
    if given > ndim:
        msg = f"{given} indices for {ndim} axes"
        raise IndexError(msg)
    if len(dots) > 1:
        return None
    split = dots[0] if dots else len(parts)
    return (*parts[:split], *(slice(None),) * (ndim - given), *parts[split + 1 :])


def _index_span(part: Any, size: int) -> tuple[int, int, bool] | None:
    """Return start, stop and whether the axis stays; None if not plain."""
    if isinstance(part, slice):
        try:
            start, stop, step = part.indices(size)
        except TypeError:
            return None
        return (start, max(start, stop), True) if step == 1 else None
    try:
        position = operator.index(part)
    except TypeError:
        return None
    if not -size <= position < size:
        msg = f"index {position} is out of bounds for an axis of {size}"
        raise IndexError(msg)
    position %= size
    return position, position + 1, False
