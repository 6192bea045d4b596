"""Parses transformations: 0.6 exactly, and the spellings of its drafts; lenient.

Drafts (0.6.dev1 to dev4) differ in: ``transforms`` for ``transformations``,
``input_axes`` and names in place of ``inputAxes`` and indices, ``mapAxis`` as an object
of names, scale and translation by ``path``, ``inverseOf``, input and output as strings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ngff.metadata.compound_transform import (
    Bijection,
    ByDimension,
    Coordinates,
    DimensionPart,
    Displacements,
    Inverse,
    Sequence,
)
from napari_ngff.metadata.model import Consequence
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
    from collections.abc import Callable

    from napari_ngff.metadata.cursor import Cursor

__all__ = ["MAX_NESTING", "ParseScope", "parse_transformation"]

MAX_NESTING = 16
"""Depth of transformations inside transformations; no version limits it, but Python
limits recursion."""

MAX_AXES = 16
"""Number of axes from which on an index is taken for an error."""


INTERPOLATIONS = {
    "nearest": "nearest",
    "linear": "linear",
    "cubic": "cubic",  # the schema
    "bspline-cubic": "cubic",  # the text
}


@dataclass(frozen=True, slots=True)
class ParseScope:
    """What is known about the place of a transformation.

    Attributes
    ----------
    inputs, outputs
        Names of the axes, by which drafts refer to them; None where not known.
    depth
        How many transformations it is inside of.
    """

    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] | None = None
    depth: int = 0


def parse_transformation(
    transform: Cursor, scope: ParseScope | None = None
) -> Transformation | None:
    """Read a transformation of any type without its ends.

    Returns
    -------
    Transformation or None
        None where it is unusable; a problem says why.
    """
    scope = scope or ParseScope()
    if not transform.is_object():
        return None
    kind = transform.at("type").value
    # A missing type follows from the parameters; a wrong one is not guessed.
    if not isinstance(kind, str):
        kind = next((k for k in PARSERS if transform.at(k).is_present), "")
    parser = PARSERS.get(kind)
    if parser is None or scope.depth > MAX_NESTING:
        stated = transform.at("type").describe_value()
        text = f"A transformation has a known type, not {stated}"
        if parser is not None:
            text = f"Transformations are nested more than {MAX_NESTING} deep."
        transform.report_error(
            "transform-type-unknown", text, Consequence.TRANSFORM_LEFT_OUT
        )
        return None
    # Each level of nesting counts, whatever its type.
    return parser(transform, replace(scope, depth=scope.depth + 1))


def report_unusable(value: Cursor, text: str) -> None:
    value.report_error("transform-parameters", text, Consequence.TRANSFORM_LEFT_OUT)


def report_draft(value: Cursor, text: str) -> None:
    value.report_warning("transform-spelling", text, "It is read anyway.")


def read_numbers(value: Cursor) -> tuple[float, ...] | None:
    """Read a list of finite numbers; None unless all are."""
    values = tuple(
        n for item in value.list_items() if (n := item.read_number()) is not None
    )
    return values if values and len(values) == len(value.children()) else None


def read_indices(value: Cursor) -> tuple[int, ...] | None:
    """Read a list of different axes; None unless all are."""
    values = [
        n for item in value.list_items() if (n := item.read_integer()) is not None
    ]
    good = all(0 <= n < MAX_AXES for n in values) and len(set(values)) == len(values)
    if good and values and len(values) == len(value.children()):
        return tuple(values)
    # All or nothing: a list without its bad entries would mean other axes.
    return None


def read_stored(transform: Cursor, kind: str) -> Stored | None:
    """Read ``path``, which counts more than parameters that are stated inline."""
    if not transform.at("path").is_present:
        return None
    path = transform.at("path").read_text() or ""
    if not path.strip("/"):
        return None
    if kind in ("scale", "translation"):
        report_draft(transform.at("path"), f"A {kind} is stated inline.")
    return Stored(kind, path.strip("/"))


def parse_vector(transform: Cursor, kind: str) -> Transformation | None:
    """Read a scale or a translation."""
    elsewhere = read_stored(transform, kind)
    if elsewhere is not None:
        return elsewhere
    values = read_numbers(transform.at(kind))
    if values is None:
        report_unusable(
            transform, f'A {kind} MUST contain the field "{kind}", a list of numbers.'
        )
        return None
    if kind == "translation":
        return Translation(values)
    if 0.0 in values:
        transform.report_error(
            "scale-zero", "A scale MUST NOT be 0.", "It is read as 1."
        )
    return Scale(tuple(value or 1.0 for value in values))


def parse_rows(transform: Cursor, kind: str) -> Transformation | None:
    """Read an affine or a rotation."""
    elsewhere = read_stored(transform, kind)
    if elsewhere is not None:
        return elsewhere
    rows = [read_numbers(row) for row in transform.at(kind).list_items()]
    whole = tuple(row for row in rows if row is not None)
    rectangular = bool(whole) and len({len(row) for row in whole}) == 1
    if len(whole) != len(rows) or not rectangular:
        report_unusable(
            transform, f'A {kind} MUST contain the field "{kind}", rows of numbers.'
        )
        return None
    if kind == "affine":
        if len(whole[0]) < 2:
            report_unusable(
                transform, "A row of an affine has a number per axis and one more."
            )
            return None
        return Affine(whole)
    if len(whole) != len(whole[0]):
        report_unusable(
            transform, f"A rotation is square, not {len(whole)} x {len(whole[0])}."
        )
        return None
    return Rotation(whole)


def parse_map_axis(transform: Cursor, scope: ParseScope) -> Transformation | None:
    """Read ``mapAxis``: indices, or in drafts names of inputs by output."""
    stated = transform.at("mapAxis")
    if isinstance(stated.value, dict):
        report_draft(stated, "mapAxis is a list of indices.")
        # Without the names of the outputs their order in the object is all there is.
        names = scope.outputs or tuple(map(str, stated.value))
        items = [axis_index(stated.at(name), scope.inputs) for name in names]
        order = tuple(i for i in items if i is not None)
    else:
        order = read_indices(stated) or ()
    if not order or sorted(order) != list(range(len(order))):
        report_unusable(
            stated, '"mapAxis" MUST be a permutation of the indices of the axes.'
        )
        return None
    return MapAxis(order)


def axis_index(value: Cursor, names: tuple[str, ...] | None) -> int | None:
    """Find an axis by index or, as in drafts, by name ("dim_0" for one of an array)."""
    if not isinstance(value.value, str):
        return value.read_integer()
    if names is not None and value.value in names:
        return names.index(value.value)
    array = re.fullmatch(r"dim_([0-9]{1,2})", value.value)
    return int(array[1]) if array else None


def parse_project_axis(transform: Cursor, scope: ParseScope) -> Transformation | None:
    """Read ``projectAxis``: axes that are dropped and created, at least one."""
    axes_by_key: dict[str, tuple[int, ...]] = {}
    for key in ("droppedInputs", "createdOutputs"):
        if transform.at(key).is_present:
            axes = read_indices(transform.at(key))
            # The schema of 0.6 limits them so.
            if axes is None or len(axes) > 3 or max(axes) > 4:
                report_unusable(
                    transform.at(key), f'"{key}" are 1 to 3 different axes of 0 to 4.'
                )
                return None
            axes_by_key[key] = axes
    if axes_by_key:
        return ProjectAxis(
            axes_by_key.get("droppedInputs", ()), axes_by_key.get("createdOutputs", ())
        )
    report_unusable(transform, 'MUST contain "droppedInputs" or "createdOutputs".')
    return None


def inner_list(transform: Cursor) -> Cursor:
    """Go to the list of transformations inside of one."""
    if transform.at("transforms").is_present:  # up to 0.6.dev2
        report_draft(
            transform.at("transforms"), '"transformations" is the name of this field.'
        )
        return transform.at("transforms")
    return transform.at("transformations")


def parse_sequence(transform: Cursor, scope: ParseScope) -> Transformation | None:
    """Read a ``sequence``."""
    items = inner_list(transform).list_items()
    whole: list[Transformation] = []
    for i, item in enumerate(items):
        # Names are known at the ends only: steps between have no system.
        inputs = scope.inputs if i == 0 else None
        outputs = scope.outputs if i == len(items) - 1 else None
        step = parse_transformation(item, ParseScope(inputs, outputs, scope.depth))
        whole += [] if step is None else [step]
    # Without one of its steps a sequence leads elsewhere.
    if not whole or len(whole) < len(items):
        report_unusable(
            transform, "A sequence MUST contain one or more valid transformations."
        )
        return None
    return Sequence(tuple(whole))


def parse_by_dimension(transform: Cursor, scope: ParseScope) -> Transformation | None:
    """Read ``byDimension``."""
    items = inner_list(transform).list_items()
    whole = tuple(p for item in items if (p := parse_part(item, scope)) is not None)
    if not whole or len(whole) < len(items):
        report_unusable(transform, 'byDimension MUST contain valid "transformations".')
        return None
    outputs = [axis for part in whole for axis in part.outputs]
    if len(set(outputs)) < len(outputs):
        report_unusable(
            transform, "Each output axis MUST be made by one transformation only."
        )
        return None
    return ByDimension(whole)


def parse_part(transform: Cursor, scope: ParseScope) -> DimensionPart | None:
    """Read one part of ``byDimension``."""
    if not transform.is_object():
        return None
    inner = transform.at("transformation")
    if not inner.is_present:
        report_draft(
            transform, "A part has its transformation in a field of this name."
        )
        inner = transform
    inputs = part_axes(transform, inner, "input", scope.inputs)
    outputs = part_axes(transform, inner, "output", scope.outputs)
    transformation = parse_transformation(inner, ParseScope(depth=scope.depth))
    if not inputs or not outputs or transformation is None:
        return None
    return DimensionPart(transformation, inputs, outputs)


def part_axes(
    transform: Cursor, inner: Cursor, end: str, names: tuple[str, ...] | None
) -> tuple[int, ...] | None:
    """Read the axes of a part: ``inputAxes``, or what drafts have in its place."""
    stated = transform.at(f"{end}Axes")
    if not stated.is_present:
        # dev1 to dev4: beside the transformation, or in it.
        older = (transform.at(f"{end}_axes"), transform.at(end), inner.at(end))
        stated = next((c for c in older if isinstance(c.value, list)), stated)
        if not stated.is_present:
            report_unusable(transform, f'MUST contain the field "{end}Axes".')
            return None
        report_draft(stated, f'"{end}Axes" is the name of this field.')
    indices = [axis_index(item, names) for item in stated.list_items()]
    axes = tuple(i for i in indices if i is not None and 0 <= i < MAX_AXES)
    if not axes or len(axes) < len(indices) or len(set(axes)) < len(axes):
        report_unusable(stated, f'"{end}Axes" MUST be indices of different axes.')
        return None
    return axes


def parse_bijection(transform: Cursor, scope: ParseScope) -> Transformation | None:
    """Read ``bijection``."""
    there = parse_transformation(transform.at("forward"), scope)
    # In the opposite direction, also for names of axes.
    back = ParseScope(scope.outputs, scope.inputs, scope.depth)
    backward = parse_transformation(transform.at("inverse"), back)
    if there is None or backward is None:
        report_unusable(transform, 'MUST contain the fields "forward" and "inverse".')
        return None
    return Bijection(there, backward)


def parse_field(transform: Cursor, kind: str) -> Transformation | None:
    """Read ``displacements`` or ``coordinates``; the field is opened later."""
    path = (transform.at("path").read_text() or "").strip("/")
    if not path:
        report_unusable(transform, f'{kind} MUST contain the field "path".')
        return None
    stated = transform.at("interpolation")
    interpolation = INTERPOLATIONS.get(stated.read_text() or "linear")
    if interpolation is None:
        text = f"SHOULD be one of {list(INTERPOLATIONS)}, is {stated.describe_value()}"
        stated.report_warning("interpolation-unknown", text, "It is read as linear.")
    made = Displacements if kind == "displacements" else Coordinates
    return made(path, interpolation or "linear")


def parse_inverse(transform: Cursor, scope: ParseScope) -> Transformation | None:
    """Read ``inverseOf`` of the drafts."""
    report_draft(
        transform, "inverseOf is not a type of 0.6; a bijection states an inverse."
    )
    inner = transform.at("transformation")
    inner = inner if inner.is_present else transform.at("transform")
    back = ParseScope(scope.outputs, scope.inputs, scope.depth)
    of = parse_transformation(inner, back)
    if of is None:
        report_unusable(transform, 'inverseOf MUST contain the field "transformation".')
        return None
    # The closed form where there is one, which 0.6 can state when it is written.
    return of.inverse() or Inverse(of)


PARSERS: dict[str, Callable[[Cursor, ParseScope], Transformation | None]] = {
    "identity": lambda transform, scope: Identity(),
    "scale": lambda transform, scope: parse_vector(transform, "scale"),
    "translation": lambda transform, scope: parse_vector(transform, "translation"),
    "mapAxis": parse_map_axis,
    "projectAxis": parse_project_axis,
    "affine": lambda transform, scope: parse_rows(transform, "affine"),
    "rotation": lambda transform, scope: parse_rows(transform, "rotation"),
    "sequence": parse_sequence,
    "byDimension": parse_by_dimension,
    "bijection": parse_bijection,
    "displacements": lambda transform, scope: parse_field(transform, "displacements"),
    "coordinates": lambda transform, scope: parse_field(transform, "coordinates"),
    "inverseOf": parse_inverse,
}
