"""Writes transformations as JSON of 0.6; strict where the parser is lenient."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from napari_ngff.metadata.compound_transform import (
    Bijection,
    ByDimension,
    Displacements,
    FieldTransformation,
    Sequence,
)
from napari_ngff.metadata.transform import (
    Affine,
    MapAxis,
    ProjectAxis,
    Rotation,
    Scale,
    Stored,
    Translation,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari_ngff.metadata.model import JSON
    from napari_ngff.metadata.transform import Transformation

__all__ = ["dump_transformation"]


def dump_transformation(transformation: Transformation) -> JSON:
    """Return a transformation without its ends.

    Raises
    ------
    ValueError
        Where 0.6 has no such type (`Inverse`, a stored scale), a number is not
        finite, a scale not over 0, or a sequence empty.
    """
    # Classes are named like types of the format, but for the case: "Scale" is "scale".
    # Types of two words are set below.
    content: JSON = {"type": type(transformation).__name__.lower()}
    match transformation:
        case Scale(factors):
            # 0.6: "greater than 0"; a flip needs an affine.
            if min(factors) <= 0:
                raise ValueError(f"A scale must be over 0, not {factors}.")
            content["scale"] = finite_numbers(factors)
        case Translation(offsets):
            content["translation"] = finite_numbers(offsets)
        case Affine(rows) | Rotation(rows):
            content[content["type"]] = [finite_numbers(row) for row in rows]
        case MapAxis(order):
            content |= {"type": "mapAxis", "mapAxis": list(order)}
        case ProjectAxis():
            content |= {"type": "projectAxis"} | dump_projection(transformation)
        # Drafts also stored scales and translations; 0.6 does not.
        case Stored(kind, path) if kind in ("affine", "rotation"):
            content = {"type": kind, "path": path}
        case FieldTransformation():
            kind = "displacements"
            if not isinstance(transformation, Displacements):
                kind = "coordinates"
            how = transformation.interpolation
            content = {"type": kind, "path": transformation.path, "interpolation": how}
        case _:
            return dump_compound(transformation)
    return content


def dump_projection(transformation: ProjectAxis) -> JSON:
    """Return the dropped and the created axes."""
    axes = {
        "droppedInputs": list(transformation.dropped),
        "createdOutputs": list(transformation.created),
    }
    return {key: indices for key, indices in axes.items() if indices}


def dump_compound(transformation: Transformation) -> JSON:
    """Return a transformation that consists of others, or the identity."""
    match transformation:
        case Sequence(steps):
            if not steps:
                raise ValueError("A sequence must contain a transformation.")
            inner = [dump_transformation(step) for step in steps]
            return {"type": "sequence", "transformations": inner}
        case ByDimension(parts):
            dumped = [
                {
                    "transformation": dump_transformation(part.transformation),
                    "inputAxes": list(part.inputs),
                    "outputAxes": list(part.outputs),
                }
                for part in parts
            ]
            return {"type": "byDimension", "transformations": dumped}
        case Bijection(forward, backward):
            return {
                "type": "bijection",
                "forward": dump_transformation(forward),
                "inverse": dump_transformation(backward),
            }
    name = type(transformation).__name__
    if name != "Identity":
        raise ValueError(f"OME-Zarr 0.6 cannot state {name}.")
    return {"type": "identity"}


def finite_numbers(numbers: Iterable[float]) -> list[float]:
    """Return plain numbers; refuse those that JSON cannot state."""
    plain = [float(number) for number in numbers]
    if not all(map(math.isfinite, plain)):
        raise ValueError(f"JSON has no numbers such as these: {plain}.")
    return plain
