"""Lazy arrays, which open in the same time whatever their number of chunks.

A `LazyArray` counts as a `dask.array.Array`. A plain slice is another one, on a smaller
window; `numpy.asarray` reads the window from its source; every other operation is left
to dask. `dask.array` is imported only then: it takes longer than opening an image.
"""

from __future__ import annotations

import itertools
import math
import operator
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from typing_extensions import override

from napari_ngff.store.arrays.boxes import (
    AxisOrder,
    Box,
    box_shape,
    order_block,
    whole_box,
)

if TYPE_CHECKING:
    from dask.array.core import Array as DaskArray


# bool is an int for Python, but a mask for numpy.
NOT_PLAIN = (np.ndarray, list, bool)
"""Types of indices that are left to dask, beside its own arrays."""

NOT_THERE = frozenset({"expr"})
"""What dask looks for in any object, to see whether it is one of dask's."""


class ArraySource(Protocol):
    """An n-dimensional array that can be read by boxes, from any thread."""

    __slots__ = ()

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
class ArrayWindow(ArraySource):
    """A box of a source, its axes dropped, kept, moved or new.

    Attributes
    ----------
    order
        Per axis of the window: the axis of the source, or None for a new one of
        length 1.
    box
        Per axis of the source; one element long where the axis is dropped. All of it
        by default.
    steps
        Per axis of the source: 2 for every second element of the box, -1 for all from
        the last one on. 1 by default.
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
        if self.order == tuple(range(len(shape))):
            return
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
        """Return whether a box of the window is the same box of the source."""
        ndim = len(self.box)
        kept = self.order == tuple(range(ndim)) and self.steps == (1,) * ndim
        return kept and not any(start for start, _ in self.box)

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        pairs = zip(self.box, self.steps, strict=True)
        sizes = [-(-(stop - start) // abs(step)) for (start, stop), step in pairs]
        return tuple(1 if axis is None else sizes[axis] for axis in self.order)

    @property
    @override
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    @property
    def ndim(self) -> int:
        """Number of axes of the window."""
        return len(self.order)

    @property
    @override
    def chunks(self) -> tuple[int, ...]:
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
        return ArrayWindow(self.source, tuple(order), tuple(box), self.steps)

    def _span_below(self, axis: int, start: int, stop: int) -> tuple[int, int]:
        (first, end), step = self.box[axis], self.steps[axis]
        if step < 0:
            return end - 1 + (stop - 1) * step, end + start * step
        # Up to the last element that is taken, not a whole step further: the source may
        # end there.
        return first + start * step, first + (stop - 1) * step + 1

    def read(self, box: Box | None = None) -> np.ndarray[Any, Any]:
        """Read a box of the window; all of it by default."""
        if box is None:
            box = whole_box(self.shape)
        picks = tuple(slice(None, None, step) for step in self.steps)
        return order_block(self.source.read(self.box_below(box))[picks], self.order)

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


@dataclass(frozen=True, slots=True, eq=False)
class PlainSource(ArraySource):
    """An array of numpy, dask, zarr, or alike."""

    array: Any

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.array.shape)

    @property
    @override
    def dtype(self) -> np.dtype[Any]:
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

    @override
    def read(self, box: Box) -> np.ndarray[Any, Any]:
        # Of dask and zarr this computes and reads only the box.
        return np.asarray(self.array[tuple(slice(*span) for span in box)])


class LazyArray:
    """An array over an `ArrayWindow` that counts as one of dask.

    Made by `LazyArray.of_window`. What is not here is done by an array of dask of the
    same window, which is made when it is first needed. (dask's own arrays handle each
    chunk of the whole array at every slice: dask#8570.)
    """

    __slots__ = ("__weakref__", "_made", "_shape", "_token", "_window")

    _made: DaskArray | None
    _shape: tuple[int, ...]
    _token: str
    _window: ArrayWindow

    __array_priority__ = 11  # as dask's
    __hash__ = None  # type: ignore[assignment]  # comparing makes an array

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
        self = object.__new__(cls)
        self._made = None
        self._window = window
        self._shape = window.shape
        self._token = token or f"ome-zarr-{next(_counter)}-{_SESSION}"
        return self

    # `isinstance` looks here, too. Who asks for dask's class has imported it.
    @property
    def __class__(self) -> Any:
        return dask_array_type() or type(self)

    @__class__.setter
    def __class__(self, other: Any) -> None:
        msg = "The class of a lazy array stays."
        raise TypeError(msg)

    def as_dask(self) -> DaskArray:
        """Return the array of dask, made when it is first needed."""
        if self._made is None:
            from dask.array import from_array

            window = self._window
            # `inline_array`: the window is in each task, so that no task of its own has
            # to pass it on; `name`: hashing the source would read it. What dask
            # computes types with is an empty array.
            self._made = from_array(
                window,
                chunks=window.chunk_lengths(),
                name=self._name,
                inline_array=True,
                fancy=False,
                meta=np.empty((0,) * window.ndim, dtype=window.dtype),
            )
        return self._made

    @property
    def _name(self) -> str:
        # napari's cache of dask results goes by names: other windows of a source need
        # other names.
        return f"{self._token}-{self._window.box}-{self._window.order}"

    @property
    def window(self) -> ArrayWindow | None:
        """The window; None once dask has changed the array in place."""
        made = self._made
        return self._window if made is None or made.name == self._name else None

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis."""
        return self._shape if self._made is None else self._made.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        return self._window.dtype if self._made is None else self._made.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of the chunks along each axis."""
        made = self._made
        return self._window.chunk_lengths() if made is None else made.chunks

    def __getattr__(self, name: str) -> Any:
        # numpy and others look for many names in any object; dask's own are methods.
        if name in NOT_THERE or (name.startswith("__") and name not in DASK_NAMES):
            raise AttributeError(name)
        return getattr(self.as_dask(), name)

    def __dir__(self) -> Any:
        return sorted({*object.__dir__(self), *dir(self.as_dask())})

    def __dask_graph__(self) -> Mapping[Any, Any]:
        # napari asks each layer for one, to see whether it is one of dask.
        if self._made is None and dask_array_type() is None:
            return PendingGraph(self)
        return self.as_dask().__dask_graph__()

    # Pickled as dask's own array, so that a worker on a cluster does not need this
    # class.
    def __reduce__(self) -> Any:
        return self.as_dask().__reduce__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.as_dask().__deepcopy__(memo)

    def __getitem__(self, index: Any) -> Any:
        window = self.window
        part = None if window is None else window.select_index(index)
        if part is None:
            return self.as_dask()[_plain_dask(index)]
        # Nothing was narrowed: the same array, with the graph that it may have made
        # already.
        return self if part == window else self.of_window(part, self._token)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.as_dask()[_plain_dask(index)] = _plain_dask(value)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def transpose(self, *axes: Any) -> Any:
        """Reorder the axes, lazily and without a graph."""
        order = axes[0] if axes and isinstance(axes[0], tuple | list) else axes
        order = tuple(order) if order else tuple(reversed(range(self.ndim)))
        window = self.window
        if window is None or sorted(order) != list(range(self.ndim)):
            return self.as_dask().transpose(*axes)
        moved = replace(window, order=tuple(window.order[i] for i in order))
        return self.of_window(moved, self._token)

    @property
    def T(self) -> Any:  # noqa: N802  numpy's name
        """The axes in reversed order."""
        return self.transpose()

    def __array__(self, dtype: Any = None, copy: Any = None, **kwargs: Any) -> Any:
        window = self.window
        if window is None:
            return self.as_dask().__array__(dtype, copy=copy, **kwargs)
        # One read of the source: dask would make a task for each chunk.
        data = window.read()
        return data if dtype is None else data.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kw: Any) -> Any:
        return getattr(ufunc, method)(*_plain_dask(inputs), **_plain_dask(kw))

    def __array_function__(self, func: Any, types: Any, args: Any, kw: Any) -> Any:
        return func(*_plain_dask(args), **_plain_dask(kw))


COLLECTION = "keys layers tokenize postcompute postpersist optimize scheduler"
DASK_NAMES = frozenset(f"__dask_{name}__" for name in COLLECTION.split())
"""Of dask's protocol of collections, beside the graph."""

OPERATORS = (
    "abs add and bool complex divmod eq float floordiv ge gt index int invert le lshift"
    " lt matmul mod mul ne neg or pos pow radd rand rdivmod repr rfloordiv rlshift"
    " rmatmul rmod rmul ror rpow rrshift rshift rsub rtruediv rxor str sub truediv xor"
)
"""Python looks for these in the class alone."""


def _add_operator(name: str) -> None:
    def call(self: LazyArray, *others: Any) -> Any:
        return getattr(self.as_dask(), name)(*map(_plain_dask, others))

    call.__name__ = name
    setattr(LazyArray, name, call)


for _name in OPERATORS.split():
    _add_operator(f"__{_name}__")


class PendingGraph(Mapping[Any, Any]):
    """The graph of a lazy array before anybody used `dask.array`.

    Parameters
    ----------
    array
        Its graph is made when something of it is asked for.
    """

    def __init__(self, array: LazyArray) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Any:
        return self._array.as_dask().dask[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array.as_dask().dask)

    def __len__(self) -> int:
        return len(self._array.as_dask().dask)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._array.as_dask().dask, name)


def dask_array_type() -> Any:
    """Return dask's class of arrays; None while it is not imported."""
    return getattr(sys.modules.get("dask.array.core"), "Array", None)


def _plain_dask(value: Any) -> Any:
    """Put dask's own arrays in place of lazy ones, also inside of tuples and such."""
    kind = type(value)
    if issubclass(kind, LazyArray):
        return value.as_dask()
    if kind in (tuple, list):
        return kind(map(_plain_dask, value))
    if kind is dict:
        return {key: _plain_dask(part) for key, part in value.items()}
    return value


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
    dask_array = dask_array_type()
    not_plain = NOT_PLAIN if dask_array is None else (*NOT_PLAIN, dask_array)
    if any(isinstance(part, not_plain) for part in parts):
        return None
    dots = [i for i, part in enumerate(parts) if part is Ellipsis]
    given = sum(part is not None for part in parts) - len(dots)
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
