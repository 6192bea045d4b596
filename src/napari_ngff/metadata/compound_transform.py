"""Transformations that consist of others, or use a field of vectors."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from typing_extensions import override

from napari_ngff.metadata.transform import Identity, Matrix, Points, Transformation
from napari_ngff.metadata.vector_field import VectorField, make_lattice, solve_points


@dataclass(frozen=True, slots=True)
class Sequence(Transformation):
    """Several steps; the first of `steps` is applied first."""

    steps: tuple[Transformation, ...]

    @override
    def count_outputs(self, ndim: int) -> int:
        for step in self.steps:
            ndim = step.count_outputs(ndim)
        return ndim

    @property
    @override
    def is_linear(self) -> bool:
        return all(step.is_linear for step in self.steps)

    @override
    def matrix(self, ndim: int) -> Matrix:
        # The first step is the factor farthest to the right. A step may change the
        # number of axes, so each is asked for the number that the last one made.
        whole = np.eye(ndim + 1)
        for step in self.steps:
            whole = step.matrix(len(whole) - 1) @ whole
        return whole

    @override
    def apply(self, points: Points) -> Points:
        for step in self.steps:
            points = step.apply(points)
        return points

    @override
    def inverse(self) -> Sequence | None:
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

    @override
    def count_outputs(self, ndim: int) -> int:
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
    @override
    def is_linear(self) -> bool:
        return all(part.transformation.is_linear for part in self.parts)

    @override
    def matrix(self, ndim: int) -> Matrix:
        # A row per output and a column per input; the last column has the translations.
        whole = np.zeros((self.count_outputs(ndim) + 1, ndim + 1))
        whole[-1, -1] = 1
        for part in self.parts:
            block = part.transformation.matrix(len(part.inputs))
            whole[np.ix_(part.outputs, (*part.inputs, -1))] = block[:-1]
        return whole

    @override
    def apply(self, points: Points) -> Points:
        result = np.empty((len(points), self.count_outputs(points.shape[1])))
        for part in self.parts:
            made = part.transformation.apply(points[:, list(part.inputs)])
            result[:, list(part.outputs)] = made
        return result

    @override
    def inverse(self) -> ByDimension | None:
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

    @override
    def count_outputs(self, ndim: int) -> int:
        count = self.forward.count_outputs(ndim)
        if self.backward.count_outputs(count) != ndim:
            raise ValueError("The inverse of a bijection has another number of axes.")
        return count

    @property
    @override
    def is_linear(self) -> bool:
        return self.forward.is_linear

    @override
    def matrix(self, ndim: int) -> Matrix:
        return self.forward.matrix(ndim)

    @override
    def apply(self, points: Points) -> Points:
        return self.forward.apply(points)

    @override
    def inverse(self) -> Bijection:
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

    @override
    def count_outputs(self, ndim: int) -> int:
        takes = len(self.vectors.grid)
        if takes != ndim:
            raise ValueError(f"The vectors at {self.path} have {takes}, not {ndim}.")
        return self.vectors.components

    @override
    def matrix(self, ndim: int) -> Matrix:
        raise ValueError(f"The field at {self.path} is not a matrix.")


@dataclass(frozen=True, slots=True)
class Displacements(FieldTransformation):
    """y = x + d(x)."""

    @override
    def count_outputs(self, ndim: int) -> int:
        count = FieldTransformation.count_outputs(self, ndim)
        if count != ndim:
            raise ValueError(f"{self.path}: {count} displacements for {ndim} axes.")
        return count

    @override
    def apply(self, points: Points) -> Points:
        self.count_outputs(points.shape[1])
        return points + self.vectors.sample_vectors(points, self.interpolation)


@dataclass(frozen=True, slots=True)
class Coordinates(FieldTransformation):
    """y = c(x)."""

    @override
    def apply(self, points: Points) -> Points:
        self.count_outputs(points.shape[1])
        return self.vectors.sample_vectors(points, self.interpolation)


@dataclass(frozen=True, slots=True)
class Inverse(Transformation):
    """The inverse of a transformation: ``inverseOf`` of drafts before 0.6.dev3.

    Computed by Newton's method where there is no closed form.
    """

    of: Transformation

    @override
    def count_outputs(self, ndim: int) -> int:
        closed = self.of.inverse()
        if closed is not None:
            return closed.count_outputs(ndim)
        if self.of.count_outputs(ndim) != ndim:
            raise ValueError("Only as many axes as before can be solved for.")
        return ndim

    @property
    @override
    def is_linear(self) -> bool:
        closed = self.of.inverse()
        return closed is not None and closed.is_linear

    @override
    def matrix(self, ndim: int) -> Matrix:
        closed = self.of.inverse()
        if closed is None:
            raise ValueError("The inverse has no closed form.")
        return closed.matrix(ndim)

    @override
    def apply(self, points: Points) -> Points:
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

    @override
    def inverse(self) -> Transformation:
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
