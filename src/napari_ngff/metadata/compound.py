"""Transformations made of others, and those that a field of vectors makes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.metadata.field import lattice, solved
from napari_ngff.metadata.transform import Identity, Transformation

if TYPE_CHECKING:
    from napari_ngff.metadata.field import VectorField
    from napari_ngff.metadata.transform import Matrix, Points

__all__ = [
    "Bijection",
    "ByDimension",
    "Coordinates",
    "DimensionPart",
    "Displacements",
    "FieldTransformation",
    "Inverse",
    "Sequence",
    "composed",
    "smoothed",
]


@dataclass(frozen=True, slots=True)
class Sequence(Transformation):
    """The first of `steps` is applied first."""

    steps: tuple[Transformation, ...]

    def gives(self, ndim: int) -> int:
        """Return what the last step gives."""
        for step in self.steps:
            ndim = step.gives(ndim)
        return ndim

    @property
    def linear(self) -> bool:
        """Whether all steps are."""
        return all(step.linear for step in self.steps)

    def matrix(self, ndim: int) -> Matrix:
        """Return the product."""
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
        steps = _inverses(self.steps[::-1])
        return None if steps is None else Sequence(steps)


@dataclass(frozen=True, slots=True)
class DimensionPart:
    """What makes the `outputs` of a `ByDimension` of its `inputs`; indices of axes."""

    transformation: Transformation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ByDimension(Transformation):
    """Each output axis is made by one of the `parts`."""

    parts: tuple[DimensionPart, ...]

    def gives(self, ndim: int) -> int:
        """Return the number of outputs of all parts."""
        outputs = sorted(i for part in self.parts for i in part.outputs)
        if outputs != list(range(len(outputs))):
            raise ValueError(f"Not every output axis is made once: {outputs}.")
        for part in self.parts:
            if not all(0 <= i < ndim for i in part.inputs):
                raise ValueError(f"There are {ndim} input axes, not {part.inputs}.")
            if part.transformation.gives(len(part.inputs)) != len(part.outputs):
                raise ValueError(f"A part does not make {len(part.outputs)} axes.")
        return len(outputs)

    @property
    def linear(self) -> bool:
        """Whether all parts are."""
        return all(part.transformation.linear for part in self.parts)

    def matrix(self, ndim: int) -> Matrix:
        """Return the matrices of the parts at their rows and columns."""
        whole = np.zeros((self.gives(ndim) + 1, ndim + 1))
        whole[-1, -1] = 1
        for part in self.parts:
            block = part.transformation.matrix(len(part.inputs))
            whole[np.ix_(part.outputs, (*part.inputs, -1))] = block[:-1]
        return whole

    def apply(self, points: Points) -> Points:
        """Transform points, part by part."""
        result = np.empty((len(points), self.gives(points.shape[1])))
        for part in self.parts:
            made = part.transformation.apply(points[:, list(part.inputs)])
            result[:, list(part.outputs)] = made
        return result

    def inverse(self) -> ByDimension | None:
        """Invert each part; None where an input is used by several parts or none."""
        used = sorted(i for part in self.parts for i in part.inputs)
        inner = _inverses(tuple(part.transformation for part in self.parts))
        if used != list(range(len(used))) or inner is None:
            return None
        pairs = zip(self.parts, inner, strict=True)
        return ByDimension(
            tuple(DimensionPart(t, p.outputs, p.inputs) for p, t in pairs)
        )


@dataclass(frozen=True, slots=True)
class Bijection(Transformation):
    """`forward`, and `backward`, its inverse as the file states it."""

    forward: Transformation
    backward: Transformation

    def gives(self, ndim: int) -> int:
        """Return what `forward` gives; `backward` must take it back."""
        count = self.forward.gives(ndim)
        if self.backward.gives(count) != ndim:
            raise ValueError("The inverse of a bijection has another number of axes.")
        return count

    @property
    def linear(self) -> bool:
        """Whether `forward` is."""
        return self.forward.linear

    def matrix(self, ndim: int) -> Matrix:
        """Return the matrix of `forward`."""
        return self.forward.matrix(ndim)

    def apply(self, points: Points) -> Points:
        """Transform points by `forward`."""
        return self.forward.apply(points)

    def inverse(self) -> Bijection:
        """Change the roles."""
        return Bijection(self.backward, self.forward)


@dataclass(frozen=True, slots=True)
class FieldTransformation(Transformation):
    """What a field of vectors does.

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
    field: VectorField | None = field(default=None, compare=False)

    @property
    def vectors(self) -> VectorField:
        """The field; `ValueError` where it is not opened."""
        if self.field is None:
            raise ValueError(f"The vectors at {self.path} are not opened.")
        return self.field

    def gives(self, ndim: int) -> int:
        """Return the number of components of the vectors."""
        takes = len(self.vectors.grid)
        if takes != ndim:
            raise ValueError(f"The vectors at {self.path} have {takes}, not {ndim}.")
        return self.vectors.components

    @property
    def linear(self) -> bool:
        """Not a field."""
        return False

    def matrix(self, ndim: int) -> Matrix:
        """Fail: a field has no matrix."""
        raise ValueError(f"The field at {self.path} is not a matrix.")

    def inverse(self) -> Transformation | None:
        """Return None: there is no closed form."""
        return None


@dataclass(frozen=True, slots=True)
class Displacements(FieldTransformation):
    """y = x + d(x)."""

    def gives(self, ndim: int) -> int:
        """Return `ndim`: there is one displacement for each axis."""
        count = FieldTransformation.gives(self, ndim)
        if count != ndim:
            raise ValueError(f"{self.path}: {count} displacements for {ndim} axes.")
        return count

    def apply(self, points: Points) -> Points:
        """Displace points."""
        self.gives(points.shape[1])
        return points + self.vectors.sample(points, self.interpolation)


@dataclass(frozen=True, slots=True)
class Coordinates(FieldTransformation):
    """y = c(x)."""

    def apply(self, points: Points) -> Points:
        """Look points up."""
        self.gives(points.shape[1])
        return self.vectors.sample(points, self.interpolation)


@dataclass(frozen=True, slots=True)
class Inverse(Transformation):
    """The x with of(x) = y: ``inverseOf`` of the drafts, removed in 0.6.dev3.

    Solved by Newton's method where there is no closed form.
    """

    of: Transformation

    def gives(self, ndim: int) -> int:
        """Return what the closed form gives, else `ndim`."""
        closed = self.of.inverse()
        if closed is not None:
            return closed.gives(ndim)
        if self.of.gives(ndim) != ndim:
            raise ValueError("Only as many axes as before can be solved for.")
        return ndim

    @property
    def linear(self) -> bool:
        """Whether there is a closed form that is."""
        closed = self.of.inverse()
        return closed is not None and closed.linear

    def matrix(self, ndim: int) -> Matrix:
        """Return the matrix of the closed form."""
        closed = self.of.inverse()
        if closed is None:
            raise ValueError("The inverse has no closed form.")
        return closed.matrix(ndim)

    def apply(self, points: Points) -> Points:
        """Find the points that `of` takes to these."""
        closed = self.of.inverse()
        if closed is not None:
            return closed.apply(points)
        match self.of:
            case Sequence(steps):
                for step in reversed(steps):
                    points = Inverse(step).apply(points)
                return points
            case ByDimension(parts):
                result = np.full((len(points), self.gives(points.shape[1])), np.nan)
                for part in parts:
                    made = Inverse(part.transformation)
                    result[:, list(part.inputs)] = made.apply(
                        points[:, list(part.outputs)]
                    )
                return result
        self.gives(points.shape[1])
        if not isinstance(self.of, Coordinates):
            return solved(self.of.apply, points, points)
        # Coordinates may lie anywhere: start from the nearest of some known points.
        known = lattice(*self.of.vectors.domain, 9)
        values = self.of.apply(known)
        nearest = [np.linalg.norm(values - p, axis=1).argmin() for p in points]
        return solved(self.of.apply, points, known[nearest])

    def inverse(self) -> Transformation:
        """Return what it is the inverse of."""
        return self.of


def composed(*steps: Transformation) -> Transformation:
    """Join steps, the first applied first; sequences opened, identities left out."""
    flat: list[Transformation] = []
    for step in steps:
        whole = composed(*step.steps) if isinstance(step, Sequence) else step
        flat += whole.steps if isinstance(whole, Sequence) else (whole,)
    flat = [step for step in flat if not isinstance(step, Identity)]
    if len(flat) == 1:
        return flat[0]
    return Sequence(tuple(flat)) if flat else Identity()


def smoothed(transformation: Transformation) -> Transformation:
    """Interpolate fields linearly that take the nearest vector.

    Such a field is a flight of steps: it has no slope, and leads to few points only.
    """
    match transformation:
        case FieldTransformation(interpolation="nearest"):
            return replace(transformation, interpolation="linear")
        case Sequence(steps):
            return Sequence(tuple(map(smoothed, steps)))
        case ByDimension(parts):
            inner = [smoothed(part.transformation) for part in parts]
            pairs = zip(parts, inner, strict=True)
            return ByDimension(tuple(replace(p, transformation=t) for p, t in pairs))
        case Bijection(forward, backward):
            return Bijection(smoothed(forward), smoothed(backward))
        case Inverse(of):
            return Inverse(smoothed(of))
    return transformation


def _inverses(
    transformations: tuple[Transformation, ...],
) -> tuple[Transformation, ...] | None:
    inverses = [transformation.inverse() for transformation in transformations]
    whole = tuple(one for one in inverses if one is not None)
    return whole if len(whole) == len(inverses) else None
