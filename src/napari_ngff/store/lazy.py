"""Lazy dask arrays: opening costs nothing per chunk, slicing only what it shows.

A `LazyArray` *is* a `dask.array.Array`. Plain slicing gives another one on the
window alone, `numpy.asarray` reads that window straight from its source, and every
other operation makes the ordinary graph, then and only then. (dask's own arrays pay
for each chunk of the whole at every slice: dask#8570.)
"""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass
from typing import Any, Protocol

import dask.array as da
import numpy as np
from dask.array.core import Array as DaskArray

__all__ = ["ArraySource", "LazyArray", "Window"]

NOT_PLAIN = (np.ndarray, list, DaskArray, bool)
"""Types of indices that are left to dask."""

Box = tuple[tuple[int, int], ...]
"""A rectangle of indices, ``(start, stop)`` per axis."""


class ArraySource(Protocol):
    """An n-dimensional array that can be read by rectangles, from any thread."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element, native byte order."""

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of what is read at once."""

    def read(self, box: Box) -> np.ndarray[Any, Any]:
        """Read a rectangle; its shape is ``stop - start`` per axis."""


@dataclass(frozen=True, slots=True)
class Window:
    """A rectangle of a source, its axes dropped, kept, moved or new.

    Attributes
    ----------
    box
        Per axis of the source; one element long where the axis is dropped.
    axes
        Per axis of the window: the axis of the source, or None for a new one of
        length 1.
    """

    source: ArraySource
    box: Box
    axes: tuple[int | None, ...]

    @classmethod
    def whole(cls, source: ArraySource) -> Window:
        """All of a source, as it is."""
        box = tuple((0, size) for size in source.shape)
        return cls(source, box, tuple(range(len(box))))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis of the window."""
        return tuple(
            1 if axis is None else self.box[axis][1] - self.box[axis][0]
            for axis in self.axes
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        return self.source.dtype

    @property
    def ndim(self) -> int:
        """Number of axes of the window."""
        return len(self.axes)

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of the source's chunks inside the window, per axis, as dask's."""
        return tuple(
            (1,)
            if axis is None
            else _pieces(*self.box[axis], max(1, self.source.chunks[axis]))
            for axis in self.axes
        )

    def select(self, index: Any) -> Window | None:
        """Narrow the window by integers, unit steps, Ellipsis or None.

        Returns None for any other index, which numpy's rules would have to decide.

        Raises
        ------
        IndexError
            For an integer out of bounds, or too many of them.
        """
        parts = _expanded(index, len(self.axes))
        if parts is None:
            return None
        box = list(self.box)
        axes: list[int | None] = []
        mine = iter(self.axes)
        for part in parts:
            if part is None:
                axes.append(None)
                continue
            axis = next(mine)
            first, behind = (0, 1) if axis is None else self.box[axis]
            span = _span(part, behind - first)
            if span is None or (axis is None and span[:2] != (0, 1)):
                return None
            start, stop, kept = span
            if axis is not None:
                box[axis] = (first + start, first + stop)
            if kept:
                axes.append(axis)
        return Window(self.source, tuple(box), tuple(axes))

    def permuted(self, order: tuple[int, ...]) -> Window:
        """Put the axes in another order."""
        return Window(self.source, self.box, tuple(self.axes[i] for i in order))

    def read(self) -> np.ndarray[Any, Any]:
        """Read the whole window."""
        block = self.source.read(self.box)
        kept = [axis for axis in self.axes if axis is not None]
        dropped = tuple(i for i in range(block.ndim) if i not in kept)
        return block.transpose((*kept, *dropped)).reshape(self.shape)

    def __getitem__(self, index: Any) -> np.ndarray[Any, Any]:
        window = self.select(index)
        return self.read()[index] if window is None else window.read()


class LazyArray(DaskArray):
    """A dask array over a `Window`; see the module's text.

    Built with `LazyArray.of`. Relies on how `dask.array.Array` keeps its name, chunks
    and meta (2025.1 to 2026.8, pinned by a test); the graph is a property here.
    """

    __slots__ = ("_graph", "_token", "_window")

    _graph: Any
    _token: str
    _window: Window | None

    @classmethod
    def of(cls, window: Window, token: str | None = None) -> LazyArray:
        """Wrap a window.

        Parameters
        ----------
        window
            What to show.
        token
            Names the source's content; arrays of equal token and window are equal.
            Caches of task results go by it, so it must change when the content does.
            A new one by default.
        """
        self = object.__new__(cls)
        self._graph = None
        self._window = window
        self._token = token or f"ome-zarr-{next(_counter)}-{_SESSION}"
        self._meta = np.empty((0,) * window.ndim, dtype=window.dtype)
        self._name = f"{self._token}-{window.box}-{window.axes}"
        self._chunks = window.chunks
        return self

    @property
    def window(self) -> Window | None:
        """What it shows; None once it was changed through dask in place."""
        return self._window

    @property
    def dask(self) -> Any:
        """The graph, made when first asked for."""
        if self._graph is None:
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
        # Assignment into a dask array replaces its graph: the source no longer tells.
        self._graph = graph
        self._window = None

    def __reduce__(self) -> tuple[Any, ...]:
        return DaskArray, (self.dask, self.name, self.chunks, self.dtype, self._meta)

    def __getitem__(self, index: Any) -> Any:
        window = None if self._window is None else self._window.select(index)
        if window is None:
            return super().__getitem__(index)  # type: ignore[no-untyped-call]
        return self if window == self._window else self.of(window, self._token)

    def transpose(self, *axes: Any) -> Any:
        """Reorder the axes, lazily and without a graph."""
        order = axes[0] if axes and isinstance(axes[0], tuple | list) else axes
        order = tuple(order) if order else tuple(reversed(range(self.ndim)))
        if self._window is None or sorted(order) != list(range(self.ndim)):
            return super().transpose(*axes)  # type: ignore[no-untyped-call]
        return self.of(self._window.permuted(order), self._token)

    def __array__(self, dtype: Any = None, copy: Any = None, **kwargs: Any) -> Any:
        if self._window is None:
            return super().__array__(dtype, copy=copy, **kwargs)  # type: ignore[no-untyped-call]
        data = self._window.read()
        return data if dtype is None else data.astype(dtype, copy=False)


_counter = itertools.count()
_SESSION = f"{np.random.SeedSequence().entropy:x}"[:12]


def _pieces(start: int, stop: int, step: int) -> tuple[int, ...]:
    """Cut ``start..stop`` at the multiples of `step`; lengths of the pieces."""
    size = stop - start
    first = min(step - start % step, size)
    full, last = divmod(size - first, step)
    return (first,) + (step,) * full + ((last,) if last else ())


def _expanded(index: Any, ndim: int) -> tuple[Any, ...] | None:
    """Write an index out to one part per axis, plus the new axes; None if not plain."""
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
    at = dots[0] if dots else len(parts)
    return (*parts[:at], *(slice(None),) * (ndim - given), *parts[at + 1 :])


def _span(part: Any, size: int) -> tuple[int, int, bool] | None:
    """Start, stop and whether the axis stays; None if not plain."""
    if isinstance(part, slice):
        try:
            start, stop, step = part.indices(size)
        except TypeError:
            return None
        return (start, max(start, stop), True) if step == 1 else None
    try:
        at = operator.index(part)
    except TypeError:
        return None
    if not -size <= at < size:
        msg = f"index {at} is out of bounds for an axis of {size}"
        raise IndexError(msg)
    at %= size
    return at, at + 1, False
