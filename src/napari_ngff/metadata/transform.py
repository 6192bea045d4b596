"""Coordinate transformations as values that can be applied, inverted, or made matrices.

A transformation is a function "from input points to output points" (0.6) by position;
the names of axes do not matter to it. Points are rows of an array (points, axes). A
matrix is homogeneous: (M + 1, N + 1) from N axes to M, the translation its last column.

Transformations made of others, or of a vector field, are in `compound_transform`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from typing_extensions import override

Matrix = npt.NDArray[np.float64]
"""Homogeneous, shape (M + 1, N + 1)."""

Points = npt.NDArray[np.float64]
"""Coordinates, shape (points, axes)."""

Rows = tuple[tuple[float, ...], ...]

ORTHONORMAL = 1e-6
"""Largest entry of ``R R^T - 1`` for which the transpose is taken for the inverse."""


class Transformation(ABC):
    """Base class; not all are linear: those override `is_linear` and `apply`."""

    __slots__ = ()

    @abstractmethod
    def count_outputs(self, ndim: int) -> int:
        """Return the number of output axes for `ndim` input axes.

        Raises
        ------
        ValueError
            Where it takes another number of axes, or is not loaded.
        """

    @property
    def is_linear(self) -> bool:
        """Return whether it can be written as a matrix: it contains no field."""
        return True

    @abstractmethod
    def matrix(self, ndim: int) -> Matrix:
        """Return the homogeneous matrix for `ndim` input axes.

        Raises
        ------
        ValueError
            Where it is not linear, or takes another number of axes.
        """

    def apply(self, points: Points) -> Points:
        """Transform points.

        Parameters
        ----------
        points
            In input coordinates, (points, N).

        Returns
        -------
        ndarray
            In output coordinates, (points, M). NaN where the inverse of a field has
            no solution.

        Raises
        ------
        ValueError
            Where it takes another number of axes.
        """
        # Points are rows, so the matrix is transposed.
        whole = self.matrix(points.shape[1])
        return points @ whole[:-1, :-1].T + whole[:-1, -1]

    def inverse(self) -> Transformation | None:
        """Return the inverse in closed form, or None where there is none.

        It maps each output back to its input. Where the output has more axes than the
        input, it maps all other points as well, along the shortest way.
        """
        return None


@dataclass(frozen=True, slots=True)
class Identity(Transformation):
    """y = x, of any number of axes."""

    @override
    def count_outputs(self, ndim: int) -> int:
        return ndim

    @override
    def matrix(self, ndim: int) -> Matrix:
        return np.eye(ndim + 1)

    @override
    def inverse(self) -> Identity:
        return self


@dataclass(frozen=True, slots=True)
class Scale(Transformation):
    """y[i] = factors[i] x[i]; no factor is 0."""

    factors: tuple[float, ...]

    @override
    def count_outputs(self, ndim: int) -> int:
        return check_ndim(self, len(self.factors), ndim)

    @override
    def matrix(self, ndim: int) -> Matrix:
        self.count_outputs(ndim)
        return np.diag((*self.factors, 1.0))

    @override
    def inverse(self) -> Scale:
        return Scale(tuple(1 / factor for factor in self.factors))


@dataclass(frozen=True, slots=True)
class Translation(Transformation):
    """y = x + offsets."""

    offsets: tuple[float, ...]

    @override
    def count_outputs(self, ndim: int) -> int:
        return check_ndim(self, len(self.offsets), ndim)

    @override
    def matrix(self, ndim: int) -> Matrix:
        return join_matrix(np.eye(self.count_outputs(ndim)), np.array(self.offsets))

    @override
    def inverse(self) -> Translation:
        return Translation(tuple(-offset for offset in self.offsets))


@dataclass(frozen=True, slots=True)
class MapAxis(Transformation):
    """y[i] = x[order[i]]; `order` is a permutation."""

    order: tuple[int, ...]

    @override
    def count_outputs(self, ndim: int) -> int:
        return check_ndim(self, len(self.order), ndim)

    @override
    def matrix(self, ndim: int) -> Matrix:
        # Rows of the unit matrix in that order; -1 keeps the homogeneous row last.
        return np.eye(self.count_outputs(ndim) + 1)[[*self.order, -1]]

    @override
    def inverse(self) -> MapAxis:
        # Output `order[i]` of the inverse is input i.
        return MapAxis(tuple(self.order.index(i) for i in range(len(self.order))))


@dataclass(frozen=True, slots=True)
class ProjectAxis(Transformation):
    """Leaves the `dropped` inputs out, then inserts 0 as the `created` outputs."""

    dropped: tuple[int, ...] = ()
    created: tuple[int, ...] = ()

    @override
    def count_outputs(self, ndim: int) -> int:
        # Indices of dropped axes count inputs, those of created ones outputs.
        count = ndim - len(self.dropped) + len(self.created)
        if max(self.dropped, default=-1) >= ndim or count <= max((0, *self.created)):
            raise ValueError(f"{self} does not fit {ndim} axes.")
        return count

    @override
    def matrix(self, ndim: int) -> Matrix:
        count = self.count_outputs(ndim)
        kept = [i for i in range(ndim) if i not in self.dropped]
        filled = [i for i in range(count) if i not in self.created]
        linear = np.zeros((count, ndim))
        # Each output that was not created is the next input that was not dropped.
        linear[filled, kept] = 1
        return join_matrix(linear, np.zeros(count))

    @override
    def inverse(self) -> ProjectAxis | None:
        return None if self.dropped else ProjectAxis(dropped=self.created)


@dataclass(frozen=True, slots=True)
class Affine(Transformation):
    """y = A x + b; `rows` are M rows of N + 1 numbers, of which b is the last one."""

    rows: Rows

    @classmethod
    def from_matrix(cls, whole: Matrix) -> Affine:
        """Make an affine of a homogeneous matrix."""
        return cls(rows_of(whole[:-1]))

    @override
    def count_outputs(self, ndim: int) -> int:
        # Less the column of the translation.
        check_ndim(self, len(self.rows[0]) - 1, ndim)
        return len(self.rows)

    @override
    def matrix(self, ndim: int) -> Matrix:
        self.count_outputs(ndim)
        return np.array([*self.rows, (0.0,) * ndim + (1.0,)])

    @override
    def inverse(self) -> Affine | None:
        # The pseudoinverse where A has more rows than columns: of a point that no input
        # maps to, it gives the input whose output is nearest.
        ndim = len(self.rows[0]) - 1
        whole = self.matrix(ndim)
        linear = whole[:-1, :-1]
        if np.linalg.matrix_rank(linear) < ndim:
            return None
        square = linear.shape[0] == ndim
        solve = np.linalg.inv if square else np.linalg.pinv
        back = solve(linear).astype(np.float64)
        # x = A⁺ (y - b)
        return Affine.from_matrix(join_matrix(back, -back @ whole[:-1, -1]))


@dataclass(frozen=True, slots=True)
class Rotation(Transformation):
    """y = R x; N `rows` of N numbers."""

    rows: Rows

    @override
    def count_outputs(self, ndim: int) -> int:
        return check_ndim(self, len(self.rows), ndim)

    @override
    def matrix(self, ndim: int) -> Matrix:
        return join_matrix(np.array(self.rows), np.zeros(self.count_outputs(ndim)))

    @override
    def inverse(self) -> Transformation | None:
        linear = np.array(self.rows)
        # Files round the entries, and some state other matrices as rotations.
        if np.abs(linear @ linear.T - np.eye(len(linear))).max() < ORTHONORMAL:
            return Rotation(rows_of(linear.T))
        return Affine.from_matrix(self.matrix(len(linear))).inverse()


@dataclass(frozen=True, slots=True)
class Stored(Transformation):
    """Parameters in an array at `path` that is not loaded; `kind` is "affine",
    "rotation" or, in drafts, "scale" or "translation".
    """

    kind: str
    path: str

    is_linear = False

    @override
    def count_outputs(self, ndim: int) -> int:
        raise ValueError(f"The numbers at {self.path} are not loaded.")

    @override
    def matrix(self, ndim: int) -> Matrix:
        raise ValueError(f"The numbers at {self.path} are not loaded.")


def check_ndim(transformation: Transformation, takes: int, ndim: int) -> int:
    """Return `ndim`, or raise if the transformation takes another number of axes."""
    if takes != ndim:
        name = type(transformation).__name__
        raise ValueError(f"{name} takes {takes} axes, not {ndim}.")
    return ndim


def join_matrix(linear: Matrix, offset: Points) -> Matrix:
    """Return the homogeneous matrix of A x + b."""
    whole = np.zeros((linear.shape[0] + 1, linear.shape[1] + 1))
    whole[:-1, :-1] = linear
    whole[:-1, -1] = offset
    whole[-1, -1] = 1
    return whole


def rows_of(numbers: Matrix) -> Rows:
    """Return a matrix as tuples of floats."""
    return tuple(tuple(row) for row in numbers.tolist())
