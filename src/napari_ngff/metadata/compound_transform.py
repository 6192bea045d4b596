"""Transformations that consist of others, or use a field of vectors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.metadata.transform import Identity, Transformation
from napari_ngff.metadata.vector_field import make_lattice, solve_points

if TYPE_CHECKING:
    from napari_ngff.metadata.transform import Matrix, Points
    from napari_ngff.metadata.vector_field import VectorField


@dataclass(frozen=True, slots=True)
class Sequence(Transformation):
    """Several steps; the first of `steps` is applied first."""

    steps: tuple[Transformation, ...]

    def count_outputs(self, ndim: int) -> int:
        """Return the number of outputs of the last step."""
        for step in self.steps:
            ndim = step.count_outputs(ndim)
        return ndim

    @property
    def is_linear(self) -> bool:
        """Return whether all steps are linear."""
        return all(step.is_linear for step in self.steps)

    def matrix(self, ndim: int) -> Matrix:
        """Return the product of the steps' matrices."""
        # The first step is the factor farthest to the right. A step may change the
        # number of axes, so each is asked for the number that the last one made.
        whole = np.eye(ndim + 1)
        for step in self.steps:
            whole = step.matrix(len(whole) - 1) @ whole
        return whole

    def apply(self, points: Points) -> Points:
        """Transform points, step by step."""
        for step in self.steps:
            points = step.apply(points)
        return points

    def inverse(self) -> Sequence | None:
        """Return the inverse steps in the opposite order."""
        steps = _invert_all(self.steps[::-1])
        return None if steps is None else Sequence(steps)


@dataclass(frozen=True, slots=True)
class DimensionPart:
    """A part of a `ByDimension`; `inputs` and `outputs` are indices of axes."""

    transformation: Transformation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ByDimension(Transformation):
    """Transformations of separate axes; each output axis belongs to one part."""

    parts: tuple[DimensionPart, ...]

    def count_outputs(self, ndim: int) -> int:
        """Return the number of outputs of all parts."""
        # "MUST appear in exactly one child transformation's outputAxes" (0.6).
        outputs = sorted(i for part in self.parts for i in part.outputs)
        if outputs != list(range(len(outputs))):
            raise ValueError(f"Not every output axis is made once: {outputs}.")
        for part in self.parts:
            if not all(0 <= i < ndim for i in part.inputs):
                raise ValueError(f"There are {ndim} input axes, not {part.inputs}.")
            if part.transformation.count_outputs(len(part.inputs)) != len(part.outputs):
                raise ValueError(f"A part does not make {len(part.outputs)} axes.")
        return len(outputs)

    @property
    def is_linear(self) -> bool:
        """Return whether all parts are linear."""
        return all(part.transformation.is_linear for part in self.parts)

    def matrix(self, ndim: int) -> Matrix:
        """Return the matrices of the parts at their rows and columns."""
        # A row per output and a column per input; the last column has the translations.
        whole = np.zeros((self.count_outputs(ndim) + 1, ndim + 1))
        whole[-1, -1] = 1
        for part in self.parts:
            block = part.transformation.matrix(len(part.inputs))
            whole[np.ix_(part.outputs, (*part.inputs, -1))] = block[:-1]
        return whole

    def apply(self, points: Points) -> Points:
        """Transform points, part by part."""
        result = np.empty((len(points), self.count_outputs(points.shape[1])))
        for part in self.parts:
            made = part.transformation.apply(points[:, list(part.inputs)])
            result[:, list(part.outputs)] = made
        return result

    def inverse(self) -> ByDimension | None:
        """Invert each part; None where an input is used by several parts or none."""
        # An input of two parts would get two values, and an unused one none.
        used = sorted(i for part in self.parts for i in part.inputs)
        inner = _invert_all(tuple(part.transformation for part in self.parts))
        if used != list(range(len(used))) or inner is None:
            return None
        pairs = zip(self.parts, inner, strict=True)
        return ByDimension(
            tuple(DimensionPart(t, p.outputs, p.inputs) for p, t in pairs)
        )


@dataclass(frozen=True, slots=True)
class Bijection(Transformation):
    """A transformation with its inverse `backward`, as the file states it."""

    forward: Transformation
    backward: Transformation

    def count_outputs(self, ndim: int) -> int:
        """Return the number of outputs of `forward`; `backward` must fit."""
        count = self.forward.count_outputs(ndim)
        if self.backward.count_outputs(count) != ndim:
            raise ValueError("The inverse of a bijection has another number of axes.")
        return count

    @property
    def is_linear(self) -> bool:
        """Return whether `forward` is linear."""
        return self.forward.is_linear

    def matrix(self, ndim: int) -> Matrix:
        """Return the matrix of `forward`."""
        return self.forward.matrix(ndim)

    def apply(self, points: Points) -> Points:
        """Transform points by `forward`."""
        return self.forward.apply(points)

    def inverse(self) -> Bijection:
        """Exchange `forward` and `backward`."""
        return Bijection(self.backward, self.forward)


@dataclass(frozen=True, slots=True)
class FieldTransformation(Transformation):
    """Base class of transformations by a field of vectors.

    Attributes
    ----------
    path
        Of the vectors, relative to the group that states the transformation.
    interpolation
        "nearest", "linear" or "cubic".
    field
        The vectors, once they are opened.
    """

    path: str
    interpolation: str = "linear"
    # Not compared: the same transformation is equal whether its field is open or not.
    field: VectorField | None = field(default=None, compare=False)
    is_linear = False  # a field has no matrix

    @property
    def vectors(self) -> VectorField:
        """The field; `ValueError` where it is not opened."""
        if self.field is None:
            raise ValueError(f"The vectors at {self.path} are not opened.")
        return self.field

    def count_outputs(self, ndim: int) -> int:
        """Return the number of components of the vectors."""
        takes = len(self.vectors.grid)
        if takes != ndim:
            raise ValueError(f"The vectors at {self.path} have {takes}, not {ndim}.")
        return self.vectors.components

    def matrix(self, ndim: int) -> Matrix:
        """Raise: a field has no matrix."""
        raise ValueError(f"The field at {self.path} is not a matrix.")


@dataclass(frozen=True, slots=True)
class Displacements(FieldTransformation):
    """y = x + d(x)."""

    def count_outputs(self, ndim: int) -> int:
        """Return `ndim`: there is one displacement for each axis."""
        count = FieldTransformation.count_outputs(self, ndim)
        if count != ndim:
            raise ValueError(f"{self.path}: {count} displacements for {ndim} axes.")
        return count

    def apply(self, points: Points) -> Points:
        """Add the displacements to points."""
        self.count_outputs(points.shape[1])
        return points + self.vectors.sample_vectors(points, self.interpolation)


@dataclass(frozen=True, slots=True)
class Coordinates(FieldTransformation):
    """y = c(x)."""

    def apply(self, points: Points) -> Points:
        """Return the coordinates at points."""
        self.count_outputs(points.shape[1])
        return self.vectors.sample_vectors(points, self.interpolation)


@dataclass(frozen=True, slots=True)
class Inverse(Transformation):
    """The inverse of a transformation: ``inverseOf`` of drafts before 0.6.dev3.

    Computed by Newton's method where there is no closed form.
    """

    of: Transformation

    def count_outputs(self, ndim: int) -> int:
        """Return the number of outputs of the closed form, else `ndim`."""
        closed = self.of.inverse()
        if closed is not None:
            return closed.count_outputs(ndim)
        if self.of.count_outputs(ndim) != ndim:
            raise ValueError("Only as many axes as before can be solved for.")
        return ndim

    @property
    def is_linear(self) -> bool:
        """Return whether there is a closed form that is linear."""
        closed = self.of.inverse()
        return closed is not None and closed.is_linear

    def matrix(self, ndim: int) -> Matrix:
        """Return the matrix of the closed form."""
        closed = self.of.inverse()
        if closed is None:
            raise ValueError("The inverse has no closed form.")
        return closed.matrix(ndim)

    def apply(self, points: Points) -> Points:
        """Find the points that `of` maps to these."""
        closed = self.of.inverse()
        if closed is not None:
            return closed.apply(points)
        # Newton's method for each step by itself: smaller problems, some in closed
        # form.
        match self.of:
            case Sequence(steps):
                for step in reversed(steps):
                    points = Inverse(step).apply(points)
                return points
            case ByDimension(parts):
                # NaN stays where no part uses an input: its value cannot be known.
                result = np.full(
                    (len(points), self.count_outputs(points.shape[1])), np.nan
                )
                for part in parts:
                    made = Inverse(part.transformation)
                    result[:, list(part.inputs)] = made.apply(
                        points[:, list(part.outputs)]
                    )
                return result
        self.count_outputs(points.shape[1])
        # Displacements are small, so a point itself is near its solution.
        if not isinstance(self.of, Coordinates):
            return solve_points(self.of.apply, points, points)
        # Coordinates may lead anywhere: start where the field comes nearest to the
        # point, among 9 points per axis of its domain.
        known = make_lattice(*self.of.vectors.domain, 9)
        values = self.of.apply(known)
        nearest = [np.linalg.norm(values - p, axis=1).argmin() for p in points]
        return solve_points(self.of.apply, points, known[nearest])

    def inverse(self) -> Transformation:
        """Return the transformation itself."""
        return self.of


def compose_steps(*steps: Transformation) -> Transformation:
    """Join steps, the first applied first, without nested sequences and identities."""
    flat: list[Transformation] = []
    for step in steps:
        whole = compose_steps(*step.steps) if isinstance(step, Sequence) else step
        flat += whole.steps if isinstance(whole, Sequence) else (whole,)
    flat = [step for step in flat if not isinstance(step, Identity)]
    if len(flat) == 1:
        return flat[0]
    return Sequence(tuple(flat)) if flat else Identity()


def smooth_fields(transformation: Transformation) -> Transformation:
    """Replace nearest by linear interpolation in all fields of a transformation."""
    # A field of nearest vectors has no slope, and maps to few points only: Newton's
    # method cannot invert it.
    match transformation:
        case FieldTransformation(interpolation="nearest"):
            return replace(transformation, interpolation="linear")
        case Sequence(steps):
            return Sequence(tuple(map(smooth_fields, steps)))
        case ByDimension(parts):
            inner = [smooth_fields(part.transformation) for part in parts]
            pairs = zip(parts, inner, strict=True)
            return ByDimension(tuple(replace(p, transformation=t) for p, t in pairs))
        case Bijection(forward, backward):
            return Bijection(smooth_fields(forward), smooth_fields(backward))
        case Inverse(of):
            return Inverse(smooth_fields(of))
    return transformation


def _invert_all(
    transformations: tuple[Transformation, ...],
) -> tuple[Transformation, ...] | None:
    inverses = [transformation.inverse() for transformation in transformations]
    known = tuple(inverse for inverse in inverses if inverse is not None)
    return known if len(known) == len(inverses) else None
