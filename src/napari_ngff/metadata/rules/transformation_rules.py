"""Rules of coordinate transformations as JSON: their keys, types and lengths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.metadata.rules.rule import (
    MUST,
    SHOULD,
    FormatRule,
    apply_rules,
    find_absent,
    find_other_values,
    is_index,
    is_number,
    is_text,
)
from napari_ngff.metadata.transform_parse import MAX_NESTING
from napari_ngff.metadata.vector_field import INTERPOLATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from napari_ngff.metadata.cursor import Cursor

TOLERANCE = 1e-3
"""Of a rotation matrix, whose entries files round to a few digits."""

KEYS: dict[str, tuple[str, ...]] = {
    "identity": (),
    "scale": ("scale",),
    "translation": ("translation",),
    "mapAxis": ("mapAxis",),
    "projectAxis": (),
    "affine": ("affine",),
    "rotation": ("rotation",),
    "sequence": ("transformations",),
    "byDimension": ("transformations",),
    "bijection": ("forward", "inverse"),
    "displacements": ("path",),
    "coordinates": ("path",),
}
"""Type of a transformation -> the fields it must have."""

MATRICES = ("affine", "rotation")


@dataclass(frozen=True, slots=True)
class TransformPlace:
    """What is known about the place of a transformation.

    Attributes
    ----------
    minor
        4 for version 0.4.
    inputs, outputs
        Number of axes of its input and output; None where unknown.
    lenient
        Whether a wrong length is a warning: a valid case of the specification has one.
    depth
        How many transformations it is inside of.
    """

    minor: int
    inputs: int | None = None
    outputs: int | None = None
    lenient: bool = False
    depth: int = 0


def read_kind(transform: Cursor) -> str:
    """Return the type, "" if it has none or an unknown one."""
    stated = transform.at("type").value
    return stated if isinstance(stated, str) and stated in KEYS else ""


def find_incomplete(transform: Cursor) -> Iterator[Cursor]:
    """Find missing fields that the type needs."""
    kind = read_kind(transform)
    # "path" takes the place of an inline matrix.
    if kind in MATRICES and transform.at("path").is_present:
        return
    yield from find_absent(*KEYS.get(kind, ()))(transform)


def is_positive(value: object) -> bool:
    """Return whether a value is a number over 0."""
    return is_number(value) and value > 0  # type: ignore[operator]


def find_unreadable(transform: Cursor) -> Iterator[Cursor]:
    """Find parameters of another form than the type demands."""
    kind = read_kind(transform)
    value = transform.at(kind)
    if kind in ("scale", "translation") and value.is_present:
        right = is_positive if kind == "scale" else is_number
        numbers = [number.value for number in value.children()]
        if not isinstance(value.value, list) or not all(map(right, numbers)):
            yield value
    elif kind in MATRICES and value.is_present:
        if read_matrix(value) is None:
            yield value
    elif kind == "sequence":
        yield from find_other_values(
            lambda v: isinstance(v, list) and v != [], "transformations"
        )(transform)
    elif kind == "byDimension":
        yield from find_other_values(lambda v: isinstance(v, list), "transformations")(
            transform
        )
    elif kind in ("displacements", "coordinates", *MATRICES):
        yield from find_other_values(is_text, "path")(transform)


def read_indices(value: Cursor) -> list[int] | None:
    """Read a list of integers from 0 on; None if it is not one."""
    numbers = [index.value for index in value.children()]
    if not isinstance(value.value, list) or not all(map(is_index, numbers)):
        return None
    # 1.0 is 1 in JSON; by its text, since mypy knows only `object` here.
    return [int(str(number).removesuffix(".0")) for number in numbers]


def read_matrix(
    value: Cursor,
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]] | None:
    """Read a list of rows of equal length; None if it is not one."""
    rows = [row.children() for row in value.children()]
    if not rows or not rows[0] or len({len(row) for row in rows}) != 1:
        return None
    if not all(is_number(number.value) for row in rows for number in row):
        return None
    read = [[float(str(number.value)) for number in row] for row in rows]
    return np.array(read)


def find_skewed(transform: Cursor) -> Iterator[Cursor]:
    """Find rotation matrices that are not rotations."""
    value = transform.at("rotation")
    matrix = read_matrix(value) if read_kind(transform) == "rotation" else None
    if matrix is None:
        return
    size = len(matrix)
    if not (
        size == matrix.shape[1]
        and np.allclose(matrix @ matrix.T, np.eye(size), atol=TOLERANCE)
        # -1 is a reflection.
        and np.linalg.det(matrix) > 0
    ):
        yield value


def not_permuted(transform: Cursor) -> Iterator[Cursor]:
    """Find a mapAxis that does not have each index exactly once."""
    value = transform.at("mapAxis")
    if read_kind(transform) == "mapAxis" and value.is_present:
        order = read_indices(value)
        size = len(order or ())
        # As many as axes are allowed.
        if not 2 <= size <= 5 or sorted(order or ()) != list(range(size)):
            yield value


def wrongly_projected(transform: Cursor) -> Iterator[Cursor]:
    """Find a projectAxis whose indices are missing or unusable."""
    if read_kind(transform) != "projectAxis":
        return
    keys = ("droppedInputs", "createdOutputs")
    if not any(transform.at(key).is_present for key in keys):
        yield transform
    for value in (transform.at(key) for key in keys if transform.at(key).is_present):
        indices = read_indices(value) or []
        if not 1 <= len(set(indices)) == len(indices) <= 3 or max(indices) > 4:
            yield value


def find_unwrapped(transform: Cursor) -> Iterator[Cursor]:
    """Find items of a byDimension without their three fields."""
    if read_kind(transform) != "byDimension":
        return
    for item in transform.at("transformations").children():
        yield from find_absent("transformation", "inputAxes", "outputAxes")(item)
        for key in ("inputAxes", "outputAxes"):
            if item.at(key).is_present and read_indices(item.at(key)) is None:
                yield item.at(key)


def repeated_outputs(transform: Cursor) -> Iterator[Cursor]:
    """Find outputs of a byDimension that an earlier item has, too."""
    seen: set[int] = set()
    if read_kind(transform) == "byDimension":
        for item in transform.at("transformations").children():
            outputs = read_indices(item.at("outputAxes")) or []
            if seen & set(outputs):
                yield item.at("outputAxes")
            seen |= set(outputs)


TRANSFORMATION = (
    FormatRule(
        "transform-type-missing",
        MUST,
        "Each entry describes a single transformation and MUST contain the field type.",
        find_absent("type"),
        since=4,
    ),
    FormatRule(
        "transform-type-unknown",
        MUST,
        "The value of type MUST be one of the elements of the type column.",
        find_other_values(lambda value: is_text(value) and value in KEYS, "type"),
        since=4,
        consequence="It is not applied.",
    ),
    FormatRule(
        "transform-name-type",
        MUST,
        "MAY contain the field name (string).",
        find_other_values(is_text, "name"),
        since=6,
    ),
    FormatRule(
        "transform-field-missing",
        MUST,
        "MUST contain any other fields required by the given type.",
        find_incomplete,
        since=6,
        consequence="It is not applied.",
    ),
    FormatRule(
        "transform-value",
        MUST,
        "Parameters are arrays of numbers, those of a scale greater than 0; matrices "
        "MUST be stored as 2D nested array (an array of arrays of numbers); sequences "
        "are a non-empty array of transformations; a path is a string.",
        find_unreadable,
        since=6,
        consequence="It is not applied.",
    ),
    FormatRule(
        "rotation-not-orthonormal",
        MUST,
        "Rotations are stored as NxN matrices and MUST have determinant equal to one, "
        "with orthonormal rows and columns.",
        find_skewed,
        since=6,
        consequence="It is applied as an affine.",
    ),
    FormatRule(
        "map-axis-indices",
        MUST,
        "Each integer in the array MUST be a valid zero-based index into the input "
        "coordinate system's axes. Each index MUST appear exactly once in the array.",
        not_permuted,
        since=6,
        consequence="It is not applied.",
    ),
    FormatRule(
        "project-axis-indices",
        MUST,
        "At least one of droppedInputs and createdOutputs, each of 1 to 3 unique "
        "integers from 0 to 4.",
        wrongly_projected,
        since=6,
        consequence="It is not applied.",
    ),
    FormatRule(
        "by-dimension-item",
        MUST,
        "Each item MUST contain inputAxes, outputAxes and transformation fields. The "
        "values of inputAxes and outputAxes are arrays of integers.",
        find_unwrapped,
        since=6,
        consequence="It is not applied.",
    ),
    FormatRule(
        "by-dimension-output-twice",
        MUST,
        "Every axis index in the parent byDimension's output coordinate system MUST "
        "appear in exactly one child transformation's outputAxes array.",
        repeated_outputs,
        since=6,
        consequence="It is not applied.",
    ),
    FormatRule(
        "interpolation-unknown",
        SHOULD,
        "interpolation: one of nearest, linear, cubic (the schema; the text has "
        "bspline-cubic).",
        find_other_values(lambda value: value in [*INTERPOLATIONS], "interpolation"),
        since=6,
        consequence="Linear is used.",
    ),
)


def check_transformation(transform: Cursor, frame: TransformPlace) -> None:
    """Check a transformation and those inside of it, up to `MAX_NESTING` deep."""
    if not transform.is_object() or frame.depth > MAX_NESTING:
        return
    apply_rules(TRANSFORMATION, transform, frame.minor)
    check_lengths(transform, frame)
    for wrapped, inputs, outputs in wrapped_by(transform, frame):
        inner = replace(frame, inputs=inputs, outputs=outputs, depth=frame.depth + 1)
        check_transformation(wrapped, inner)


def wrapped_by(
    transform: Cursor, frame: TransformPlace
) -> Iterator[tuple[Cursor, int | None, int | None]]:
    """Yield the transformations inside of one, with their numbers of axes."""
    items = transform.at("transformations").children()
    if read_kind(transform) == "sequence":
        for index, step in enumerate(items):
            last = index == len(items) - 1
            yield (
                step,
                None if index else frame.inputs,
                frame.outputs if last else None,
            )
    elif read_kind(transform) == "bijection":
        yield transform.at("forward"), frame.inputs, frame.outputs
        yield transform.at("inverse"), frame.outputs, frame.inputs
    elif read_kind(transform) == "byDimension":
        for item in items:
            inputs, outputs = (
                len(item.at(key).children()) or None
                for key in ("inputAxes", "outputAxes")
            )
            yield item.at("transformation"), inputs, outputs


def check_lengths(transform: Cursor, frame: TransformPlace) -> None:
    """Report parameters whose length is not the number of axes."""
    for key, rows, columns in list_lengths(transform):
        sides = ((rows, frame.outputs, "output"), (columns, frame.inputs, "input"))
        for length, axes, side in sides:
            if axes is not None and length != axes:
                text = (
                    '"Parameter values MUST be compatible with input and output space '
                    f'dimensionality." Here it is {length} for {axes} {side} axes.'
                )
                # A single number for several axes is in no valid case.
                severity = SHOULD if frame.lenient and length > 1 else MUST
                consequence = "Missing ones are neutral, surplus ones are ignored."
                transform.at(key).add_problem(
                    severity, "transform-length", text, consequence
                )
                # One side is enough: a square matrix of a wrong size has both wrong.
                break
    if read_kind(transform) == "byDimension" and frame.outputs is not None:
        check_outputs(transform, frame.outputs)


def list_lengths(transform: Cursor) -> Iterator[tuple[str, int, int]]:
    """Yield the key of the parameters, and their numbers of outputs and inputs."""
    kind = read_kind(transform)
    value = transform.at(kind)
    if kind in ("scale", "translation", "mapAxis") and isinstance(value.value, list):
        yield kind, len(value.value), len(value.value)
    elif kind in MATRICES and (read := read_matrix(value)) is not None:
        # An affine has one more column, the translation.
        yield kind, len(read), read.shape[1] - (kind == "affine")


def check_outputs(transform: Cursor, outputs: int) -> None:
    """Report outputs that no item of a byDimension has, and those that do not exist."""
    stated = {
        index
        for item in transform.at("transformations").children()
        for index in read_indices(item.at("outputAxes")) or []
    }
    missing = sorted(set(range(outputs)) - stated)
    sentence = (
        "\"Every axis index in the parent byDimension's output coordinate system MUST "
        "appear in exactly one child transformation's outputAxes array.\""
    )
    if any(index >= outputs for index in stated):
        text = f"{sentence} Here {max(stated)} is beyond the {outputs} axes."
        transform.report_error(
            "by-dimension-output-unknown", text, "It is not applied."
        )
    if missing:
        # A valid case of the specification breaks this MUST.
        text = f"{sentence} Here {missing[0]} does not."
        transform.report_warning(
            "by-dimension-output-missing", text, "That axis stays as it is."
        )
