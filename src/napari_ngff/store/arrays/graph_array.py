"""Arrays of dask itself over a window, for what `LazyArray` leaves to dask.

A plain slice is another one, on a smaller window; `numpy.asarray` reads the window from
its source; every other operation makes the usual graph of dask first. (dask's own
arrays handle each chunk of the whole array at every slice: dask#8570.)
"""

from __future__ import annotations

from typing import Any, Self

import dask.array as da
import numpy as np
from dask.array.core import Array as DaskArray


class GraphArray(DaskArray):
    """A dask array over an `ArrayWindow`, whose graph is made when it is first used.

    Made by `LazyArray.as_dask`. Relies on how `dask.array.Array` keeps its name,
    chunks and meta (2025.1 to 2026.8, pinned by a test); the graph is a property here.
    """

    __slots__ = ("_graph", "_token", "_window")

    _graph: Any
    _token: str
    _window: Any

    @classmethod
    def of_window(cls, window: Any, token: str) -> Self:
        """Make the array of a window; see `LazyArray.of_window`."""
        # Not by dask's `__new__`: it would ask for a graph, which is what this class
        # avoids.
        self = object.__new__(cls)
        self._graph = None
        self._window = window
        self._token = token
        # What dask computes types with: an empty array of the right type and number of
        # axes.
        self._meta = np.empty((0,) * window.ndim, dtype=window.dtype)
        # napari's cache of dask results goes by names: other windows of a source need
        # other names.
        self._name = f"{token}-{window.box}-{window.order}"
        self._chunks = window.chunk_lengths()
        return self

    @property
    def window(self) -> Any:
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
