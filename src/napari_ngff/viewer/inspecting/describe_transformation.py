"""Describes coordinate transformations in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from napari_ngff.metadata.compound_transform import (
    Bijection,
    ByDimension,
    Coordinates,
    FieldTransformation,
    Inverse,
    Sequence,
)
from napari_ngff.metadata.transform import (
    Affine,
    Identity,
    MapAxis,
    ProjectAxis,
    Rotation,
    Scale,
    Stored,
    Transformation,
    Translation,
)

if TYPE_CHECKING:
    from collections.abc import Sequence as Items

    from napari_ngff.metadata.transform import Rows

__all__ = ["TIMES", "describe_transformation"]

TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
UNCHANGED = "unchanged"


def describe_transformation(transformation: Transformation, names: Items[str]) -> str:
    """Describe a transformation.

    Parameters
    ----------
    transformation
        As parsed; numbers and fields that are stored elsewhere are named, not read.
    names
        Of its input axes; numbers stand for those that have none.

    Returns
    -------
    str
        Such as "y times 0.5, x times 0.5, then y + 10", with signs for times and minus.
    """
    if isinstance(transformation, Sequence):
        return _join_steps(transformation.steps, names)
    if isinstance(transformation, ByDimension):
        parts = (
            f"of ({', '.join(_axis_name(names, i) for i in part.inputs)}): "
            + describe_transformation(
                part.transformation, [_axis_name(names, i) for i in part.inputs]
            )
            for part in transformation.parts
        )
        return "; ".join(parts)
    if isinstance(transformation, Bijection):
        forward = describe_transformation(transformation.forward, names)
        return f"{forward} (its inverse is given as well)"
    if isinstance(transformation, Inverse):
        # Without names: the input of what is inverted is another system.
        return f"the inverse of: {describe_transformation(transformation.of, ())}"
    return _describe_plain(transformation, names)


def _join_steps(steps: Items[Transformation], names: Items[str]) -> str:
    """Join steps, leaving out those that change nothing."""
    texts = []
    for step in steps:
        text = describe_transformation(step, names)
        if text != UNCHANGED:
            texts.append(text)
        if isinstance(step, MapAxis):
            names = [_axis_name(names, i) for i in step.order]
        elif not isinstance(step, Identity | Scale | Translation | Rotation):
            names = ()  # what comes out has no names before the end
    return ", then ".join(texts) or UNCHANGED


def _describe_plain(transformation: Transformation, names: Items[str]) -> str:
    match transformation:
        case Scale(factors):
            changes = [(i, f"{TIMES} {f:g}") for i, f in enumerate(factors) if f != 1]
            return _list_names(changes, names)
        case Translation(offsets):
            changes = [(i, _describe_shift(o)) for i, o in enumerate(offsets) if o]
            return _list_names(changes, names)
        case MapAxis(order):
            return f"axes in the order {', '.join(_axis_name(names, i) for i in order)}"
        case ProjectAxis(dropped, created):
            return _describe_projection(dropped, created, names)
        case Affine(rows) | Rotation(rows):
            return _describe_matrix(rows, isinstance(transformation, Rotation))
        case Stored(kind, path):
            return f'{kind} by the numbers at "{path}"'
        case FieldTransformation(path, interpolation):
            looked_up = isinstance(transformation, Coordinates)
            verb = "looked up in" if looked_up else "displaced by"
            return f'{verb} the field at "{path}" ({interpolation})'
    return UNCHANGED


def _list_names(changes: list[tuple[int, str]], names: Items[str]) -> str:
    texts = (f"{_axis_name(names, i)} {change}" for i, change in changes)
    return ", ".join(texts) or UNCHANGED


def _describe_shift(offset: float) -> str:
    return f"{'+' if offset > 0 else MINUS} {abs(offset):g}"


def _axis_name(names: Items[str], index: int) -> str:
    return names[index] if index < len(names) else f"axis {index}"


def _describe_projection(
    dropped: Items[int], created: Items[int], names: Items[str]
) -> str:
    texts = []
    if dropped:
        texts.append(f"without {', '.join(_axis_name(names, i) for i in dropped)}")
    if created:
        texts.append(f"with new axes at {', '.join(map(str, created))}")
    return ", ".join(texts) or UNCHANGED


def _describe_matrix(rows: Rows, rotation: bool) -> str:
    if rotation and len(rows) == 2:
        # The first column is the image of the first axis, (cos, sin).
        angle = math.degrees(math.atan2(rows[1][0], rows[0][0]))
        return f"turned by {angle:.4g}°"
    numbers = "; ".join(" ".join(f"{value:g}" for value in row) for row in rows)
    return f"{'rotation' if rotation else 'affine'} [{numbers}]"
