"""Fields of vectors on a regular grid: interpolation, and inversion by points.

Points are rows: n points of N axes are an array (n, N). "The pixel/voxel center is the
origin of the continuous coordinate system" (0.6), so element ``i`` of a grid lies at
index coordinate ``i``.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.metadata.transform import Points

INTERPOLATIONS = {"nearest": 0, "linear": 1, "cubic": 3}
"""Name in the format -> degree of the spline."""

SPLINE_REACH = 12
"""Voxels around a block that a cubic spline in it needs: the influence of a value falls
by the factor 0.27 with each voxel, and is below 2e-7 beyond that."""

WHOLE = 1e-6
"""Index coordinates this near to an integer are rounded, so that less data is read."""

MAX_ELEMENTS = 1 << 24
"""Elements of an array that are read at once, for points that are far apart."""

MAX_STEPS = 50
"""Steps of Newton's method after which a point counts as not found."""

DIFFERENCE = 1e-4
"""Step of the difference quotient, relative to the spread of the targets."""


class FieldArray(Protocol):
    """An array that is read by boxes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements per axis."""

    def read(self, box: tuple[tuple[int, int], ...]) -> npt.NDArray[Any]:
        """Read ``start..stop`` per axis."""


def interpolate_array(
    read: Callable[[tuple[tuple[int, int], ...]], npt.NDArray[Any]],
    shape: tuple[int, ...],
    index: Points,
    order: int,
) -> npt.NDArray[Any]:
    """Interpolate an array at points; only the box around them is read.

    Parameters
    ----------
    read
        Reads a box of the array, ``start..stop`` per axis. It may have one more axis
        behind those of `shape`, of components that are interpolated alike.
    shape
        Of the array.
    index
        Points in index coordinates, (points, axes); outside of the array, its edge is
        used.
    order
        Degree of the spline: 0 nearest (halves go up), 1 linear, 3 cubic.

    Returns
    -------
    ndarray
        One entry, or row, per point; of the array's type for order 0, else float64.
    """
    if order == 1 and (lines := find_mesh_lines(index)):
        values = interpolate_mesh(read, shape, lines)
        if values is not None:
            return values
    # Imported here: most images have no field, and scipy takes time to load.
    from scipy.ndimage import map_coordinates

    # Axes (axis, point), and axis by axis: NumPy reduces long columns of short rows ten
    # times slower.
    coordinates = np.empty(index.shape[::-1])
    low, high = np.zeros((2, len(shape)), dtype=int)
    reach = SPLINE_REACH if order > 1 else 0
    for axis, size in enumerate(shape):
        line = np.clip(index[:, axis], 0, size - 1, out=coordinates[axis])
        near = line + 0.5
        np.floor(near, out=near)
        away = line - near
        np.abs(away, out=away)
        # On a grid point nothing is interpolated, and its neighbour need not be read.
        np.copyto(line, near, where=(away < WHOLE) | (order == 0))
        low[axis] = max(0, math.floor(line.min()) - reach)
        high[axis] = min(size, math.ceil(line.max()) + reach + 1)
    spread = high - low
    # Points far apart: a box around each half of them, cut along the longest axis.
    if math.prod(spread.tolist()) > MAX_ELEMENTS and len(index) > 1:
        middle = np.argsort(coordinates[spread.argmax()], kind="stable")
        halves = np.array_split(middle, 2)
        parts = [interpolate_array(read, shape, index[half], order) for half in halves]
        whole = np.empty((len(index), *parts[0].shape[1:]), parts[0].dtype)
        for half, part in zip(halves, parts, strict=True):
            whole[half] = part
        return whole
    block = read(tuple(zip(low.tolist(), high.tolist(), strict=True)))
    # From here on relative to the block.
    coordinates -= low[:, None]
    if order == 0:
        flat = np.ravel_multi_index(tuple(coordinates.astype(np.intp)), tuple(spread))
        return np.asarray(block.reshape(-1, *block.shape[len(shape) :])[flat])
    block = block.astype(np.float64, copy=False)
    # Components last, also where there is only one.
    columns = block[..., None] if block.ndim == len(shape) else block
    values = columns_of(len(index), columns.shape[-1])
    for i in range(columns.shape[-1]):
        map_coordinates(
            columns[..., i], coordinates, values[:, i], order=order, mode="nearest"
        )
    return values[:, 0] if columns.ndim > block.ndim else values


def find_mesh_lines(index: Points) -> list[npt.NDArray[np.float64]]:
    """Return the coordinates along each axis of points that are a mesh, else nothing.

    A mesh has all combinations of them, and the last axis changes first.
    """
    lines = []
    run = len(index)
    for line in index.T:
        # Points that share their place along all axes before this one.
        shared = run
        first = line[:shared]
        run = int((first != first[0]).argmax()) or shared
        if shared % run:
            return []
        values = first[::run]
        if (line.reshape(-1, len(values), run) != values[:, None]).any():
            return []
        lines.append(values)
    return lines if run == 1 else []


def interpolate_mesh(
    read: Callable[[tuple[tuple[int, int], ...]], npt.NDArray[Any]],
    shape: tuple[int, ...],
    lines: list[npt.NDArray[np.float64]],
) -> npt.NDArray[np.float64] | None:
    """Interpolate an array linearly at all combinations of coordinates along its axes.

    One axis after another takes far fewer steps than one point after another.

    Returns
    -------
    ndarray or None
        As of `interpolate_array`; None for coordinates so far apart that too much
        would be read.
    """
    box, places = [], []
    for line, size in zip(lines, shape, strict=True):
        place = np.clip(line, 0, size - 1)
        near = np.floor(place + 0.5)
        place = np.where(abs(place - near) < WHOLE, near, place)
        start = math.floor(place.min())
        box.append((start, math.ceil(place.max()) + 1))
        places.append(place - start)
    if math.prod(stop - start for start, stop in box) > MAX_ELEMENTS:
        return None
    # Components first, if there are any: long rows are computed faster than short ones.
    block = read(tuple(box)).astype(np.float64, copy=False)
    has_components = block.ndim > len(shape)
    values = np.moveaxis(block, -1, 0) if has_components else block[None]
    for axis, place in enumerate(places, start=1):
        low = place.astype(np.intp)
        high = np.minimum(low + 1, values.shape[axis] - 1)
        part = (place - low).reshape(-1, *(1,) * (values.ndim - 1 - axis))
        first = values.take(low, axis)
        values = values.take(high, axis)
        values -= first
        values *= part
        values += first
    flat = values.reshape(len(values), -1).T
    return flat if has_components else flat[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class VectorField:
    """Vectors at the points of a grid, for ``displacements`` and ``coordinates``.

    Attributes
    ----------
    array
        The grid's axes in the order of the input's, and the one with the components,
        in the order of the output's.
    vector_axis
        Index of the axis of components; None for an array without it (one component).
    scale, translation
        Of the grid's axes: index coordinates -> input coordinates.
    """

    array: FieldArray
    vector_axis: int | None
    scale: tuple[float, ...]
    translation: tuple[float, ...]

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of points along each axis of the input."""
        shape = self.array.shape
        return tuple(n for i, n in enumerate(shape) if i != self.vector_axis)

    @property
    def components(self) -> int:
        """Number of axes of the vectors."""
        return 1 if self.vector_axis is None else self.array.shape[self.vector_axis]

    @property
    def domain(self) -> tuple[Points, Points]:
        """Lowest and highest input coordinate of the grid's points, per axis."""
        first = np.array(self.translation)
        last = first + np.array(self.scale) * (np.array(self.grid) - 1)
        return np.minimum(first, last), np.maximum(first, last)

    def sample_vectors(self, points: Points, interpolation: str) -> Points:
        """Return the vectors at input coordinates, (points, components).

        Points that are NaN stay so: an earlier field did not reach them.
        """
        # Outside of the grid, its edge is used: the format does not define that.
        index = points - np.array(self.translation)
        index /= np.array(self.scale)
        order = INTERPOLATIONS[interpolation]
        # Set to a valid index for the interpolation, and to NaN again after it.
        lost = np.isnan(index)
        if lost.any():
            index[lost] = 0
        vectors = interpolate_array(self._read_box, self.grid, index, order)
        vectors = vectors.astype(np.float64, copy=False)
        if lost.any():
            vectors[lost.any(axis=1)] = np.nan
        return vectors

    def _read_box(self, box: tuple[tuple[int, int], ...]) -> npt.NDArray[Any]:
        if self.vector_axis is None:
            return self.array.read(box)[..., None]
        axis = self.vector_axis
        # All components of the box, which are moved behind the axes of the grid.
        block = self.array.read((*box[:axis], (0, self.components), *box[axis:]))
        return np.moveaxis(block, axis, -1)


def columns_of(count: int, width: int) -> Points:
    """Make an array of zeros, (count, width), each column of which is contiguous.

    NumPy computes with it several times as fast as with short rows.
    """
    return np.zeros((width, count)).T


def make_lattice(low: Points, high: Points, count: int) -> Points:
    """Return a lattice of `count` points per axis; one where `low` is `high`."""
    lines = [
        np.linspace(a, b, count if b > a else 1) for a, b in zip(low, high, strict=True)
    ]
    return np.array(list(itertools.product(*lines)))


def solve_points(
    function: Callable[[Points], Points],
    targets: Points,
    guesses: Points,
    tolerance: float = 1e-8,
) -> Points:
    """Find where a function takes given values, by Newton's method.

    Parameters
    ----------
    function
        From N axes to N axes.
    targets
        Its values, (points, N).
    guesses
        Points to start from, of the same shape.
    tolerance
        Largest distance from the target, relative to the spread of all targets.

    Returns
    -------
    ndarray
        Like `targets`; NaN where no point was found.
    """
    x = np.array(guesses, dtype=np.float64)
    ndim = x.shape[1]
    # Tolerance and step are relative to this, whatever the unit of the axes.
    size = max(1.0, float(np.ptp(targets, axis=0).max(initial=0.0)))
    step = DIFFERENCE * size
    missing = function(x) - targets
    for _ in range(MAX_STEPS):
        away = np.linalg.norm(missing, axis=1)
        # Points still to be solved. Those that went to NaN or infinity are given up.
        open_ = np.flatnonzero((away > tolerance * size) & (away < np.inf))
        if not open_.size:
            break
        points_left = x[open_]
        # The derivative by central differences, axes (point, output, input).
        slopes = np.empty((len(points_left), ndim, ndim))
        for axis in range(ndim):
            move = step * np.eye(ndim)[axis]
            slopes[:, :, axis] = (
                function(points_left + move) - function(points_left - move)
            ) / (2 * step)
        # The pseudoinverse, since slopes are singular where a field is constant.
        moved = points_left - np.einsum(
            "nij,nj->ni", np.linalg.pinv(slopes), missing[open_]
        )
        rest = function(moved) - targets[open_]
        worse = np.linalg.norm(rest, axis=1) > away[open_]
        # A half step where a full one overshoots, as at the kinks of a linear field.
        moved[worse] = (moved[worse] + points_left[worse]) / 2
        x[open_] = moved
        missing[open_] = function(moved) - targets[open_]
    # A point that stopped just short of the tolerance still counts.
    is_solved = np.linalg.norm(missing, axis=1) <= 100 * tolerance * size
    x[~is_solved] = np.nan
    return x
