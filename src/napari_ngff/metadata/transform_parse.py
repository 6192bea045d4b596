"""Transformations of JSON: 0.6 exactly, and the spellings of its drafts; lenient.

Drafts (0.6.dev1 to dev4) differ in: ``transforms`` for ``transformations``,
``input_axes`` and names in place of ``inputAxes`` and indices, ``mapAxis`` as an object
of names, scale and translation by ``path``, ``inverseOf``, input and output as strings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from napari_ngff.metadata.compound import (
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

__all__ = ["ParseScope", "parse_transformation"]

MAX_NESTING = 16
"""Of transformations inside transformations, which no version bounds."""

MAX_AXES = 16
"""No array has more; larger indices are nonsense."""


INTERPOLATIONS = {
    "nearest": "nearest",
    "linear": "linear",
    "cubic": "cubic",  # the schema
    "bspline-cubic": "cubic",  # the text
}


@dataclass(frozen=True, slots=True)
class ParseScope:
    """What is known where a transformation stands.

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
    place: Cursor, scope: ParseScope | None = None
) -> Transformation | None:
    """Read a transformation of any type without its ends.

    Returns
    -------
    Transformation or None
        None where it is unusable; a problem says why.
    """
    scope = scope or ParseScope()
    if not place.is_object():
        return None
    stated = place.at("type").value
    kind = stated if isinstance(stated, str) else type_by_parameters(place)
    parser = PARSERS.get(kind or "")
    if parser is None or scope.depth > MAX_NESTING:
        stated = place.at("type").describe_value()
        text = f"A transformation has a known type, not {stated}"
        if parser is not None:
            text = f"Transformations are nested more than {MAX_NESTING} deep."
        place.report_error(
            "transform-type-unknown", text, Consequence.TRANSFORM_LEFT_OUT
        )
        return None
    return parser(place, replace(scope, depth=scope.depth + 1))


def type_by_parameters(place: Cursor) -> str | None:
    """Tell a type that is not stated by the field that it needs."""
    return next((k for k in PARSERS if place.at(k).is_present), None)


def report_unusable(place: Cursor, text: str) -> None:
    place.report_error("transform-parameters", text, Consequence.TRANSFORM_LEFT_OUT)


def report_draft(place: Cursor, text: str) -> None:
    place.report_warning("transform-spelling", text, "It is read anyway.")


def read_numbers(place: Cursor) -> tuple[float, ...] | None:
    """Read a list of finite numbers; None unless all are."""
    values = tuple(
        n for item in place.list_items() if (n := item.read_number()) is not None
    )
    return values if values and len(values) == len(place.children()) else None


def read_indices(place: Cursor) -> tuple[int, ...] | None:
    """Read a list of different axes; None unless all are."""
    values = [
        n for item in place.list_items() if (n := item.read_integer()) is not None
    ]
    good = all(0 <= n < MAX_AXES for n in values) and len(set(values)) == len(values)
    if good and values and len(values) == len(place.children()):
        return tuple(values)
    return None


def read_stored(place: Cursor, kind: str) -> Stored | None:
    """Read ``path``, which wins where parameters are inline, too."""
    if not place.at("path").is_present:
        return None
    path = place.at("path").read_text() or ""
    if not path.strip("/"):
        return None
    if kind in ("scale", "translation"):
        report_draft(place.at("path"), f"A {kind} is stated inline.")
    return Stored(kind, path.strip("/"))


def parse_vector(place: Cursor, scope: ParseScope, kind: str) -> Transformation | None:
    """Read a scale or a translation."""
    elsewhere = read_stored(place, kind)
    if elsewhere is not None:
        return elsewhere
    values = read_numbers(place.at(kind))
    if values is None:
        report_unusable(
            place, f'A {kind} MUST contain the field "{kind}", a list of numbers.'
        )
        return None
    if kind == "translation":
        return Translation(values)
    if 0.0 in values:
        place.report_error("scale-zero", "A scale MUST NOT be 0.", "It is read as 1.")
    return Scale(tuple(value or 1.0 for value in values))


def parse_rows(place: Cursor, scope: ParseScope, kind: str) -> Transformation | None:
    """Read an affine or a rotation."""
    elsewhere = read_stored(place, kind)
    if elsewhere is not None:
        return elsewhere
    rows = [read_numbers(row) for row in place.at(kind).list_items()]
    whole = tuple(row for row in rows if row is not None)
    rectangular = bool(whole) and len({len(row) for row in whole}) == 1
    if len(whole) != len(rows) or not rectangular:
        report_unusable(
            place, f'A {kind} MUST contain the field "{kind}", rows of numbers.'
        )
        return None
    if kind == "affine":
        if len(whole[0]) < 2:
            report_unusable(
                place, "A row of an affine has a number per axis and one more."
            )
            return None
        return Affine(whole)
    if len(whole) != len(whole[0]):
        report_unusable(
            place, f"A rotation is square, not {len(whole)} x {len(whole[0])}."
        )
        return None
    return Rotation(whole)


def parse_map_axis(place: Cursor, scope: ParseScope) -> Transformation | None:
    """Read ``mapAxis``: indices, or in drafts names of inputs by output."""
    stated = place.at("mapAxis")
    if isinstance(stated.value, dict):
        report_draft(stated, "mapAxis is a list of indices.")
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


def axis_index(place: Cursor, names: tuple[str, ...] | None) -> int | None:
    """Find an axis by index or, as in drafts, by name ("dim_0" for one of an array)."""
    if not isinstance(place.value, str):
        return place.read_integer()
    if names is not None and place.value in names:
        return names.index(place.value)
    array = re.fullmatch(r"dim_([0-9]{1,2})", place.value)
    return int(array[1]) if array else None


def parse_project_axis(place: Cursor, scope: ParseScope) -> Transformation | None:
    """Read ``projectAxis``: axes to leave out and to make, one of them at least."""
    found: dict[str, tuple[int, ...]] = {}
    for key in ("droppedInputs", "createdOutputs"):
        if place.at(key).is_present:
            axes = read_indices(place.at(key))
            if axes is None or len(axes) > 3 or max(axes) > 4:
                report_unusable(
                    place.at(key), f'"{key}" are 1 to 3 different axes of 0 to 4.'
                )
                return None
            found[key] = axes
    if found:
        return ProjectAxis(
            found.get("droppedInputs", ()), found.get("createdOutputs", ())
        )
    report_unusable(place, 'MUST contain "droppedInputs" or "createdOutputs".')
    return None


def inner_list(place: Cursor) -> Cursor:
    """Go to what a transformation consists of."""
    if place.at("transforms").is_present:  # up to 0.6.dev2
        report_draft(
            place.at("transforms"), '"transformations" is the name of this field.'
        )
        return place.at("transforms")
    return place.at("transformations")


def parse_sequence(place: Cursor, scope: ParseScope) -> Transformation | None:
    """Read a ``sequence``."""
    items = inner_list(place).list_items()
    whole: list[Transformation] = []
    for i, item in enumerate(items):
        inputs = scope.inputs if i == 0 else None
        outputs = scope.outputs if i == len(items) - 1 else None
        step = parse_transformation(item, ParseScope(inputs, outputs, scope.depth))
        whole += [] if step is None else [step]
    if not whole or len(whole) < len(items):
        report_unusable(
            place, "A sequence MUST contain one or more valid transformations."
        )
        return None
    return Sequence(tuple(whole))


def parse_by_dimension(place: Cursor, scope: ParseScope) -> Transformation | None:
    """Read ``byDimension``."""
    items = inner_list(place).list_items()
    whole = tuple(p for item in items if (p := parse_part(item, scope)) is not None)
    if not whole or len(whole) < len(items):
        report_unusable(place, 'byDimension MUST contain valid "transformations".')
        return None
    outputs = [axis for part in whole for axis in part.outputs]
    if len(set(outputs)) < len(outputs):
        report_unusable(
            place, "Each output axis MUST be made by one transformation only."
        )
        return None
    return ByDimension(whole)


def parse_part(place: Cursor, scope: ParseScope) -> DimensionPart | None:
    """Read one part of ``byDimension``."""
    if not place.is_object():
        return None
    inner = place.at("transformation")
    if not inner.is_present:
        report_draft(place, "A part has its transformation in a field of this name.")
        inner = place
    inputs = part_axes(place, inner, "input", scope.inputs)
    outputs = part_axes(place, inner, "output", scope.outputs)
    transformation = parse_transformation(inner, ParseScope(depth=scope.depth))
    if not inputs or not outputs or transformation is None:
        return None
    return DimensionPart(transformation, inputs, outputs)


def part_axes(
    place: Cursor, inner: Cursor, end: str, names: tuple[str, ...] | None
) -> tuple[int, ...] | None:
    """Read the axes of a part: ``inputAxes``, or as one of the drafts has them."""
    stated = place.at(f"{end}Axes")
    if not stated.is_present:
        older = (place.at(f"{end}_axes"), place.at(end), inner.at(end))
        stated = next((c for c in older if isinstance(c.value, list)), stated)
        if not stated.is_present:
            report_unusable(place, f'MUST contain the field "{end}Axes".')
            return None
        report_draft(stated, f'"{end}Axes" is the name of this field.')
    found = [axis_index(item, names) for item in stated.list_items()]
    axes = tuple(i for i in found if i is not None and 0 <= i < MAX_AXES)
    if not axes or len(axes) < len(found) or len(set(axes)) < len(axes):
        report_unusable(stated, f'"{end}Axes" MUST be indices of different axes.')
        return None
    return axes


def parse_bijection(place: Cursor, scope: ParseScope) -> Transformation | None:
    """Read ``bijection``."""
    there = parse_transformation(place.at("forward"), scope)
    back = ParseScope(scope.outputs, scope.inputs, scope.depth)
    backward = parse_transformation(place.at("inverse"), back)
    if there is None or backward is None:
        report_unusable(place, 'MUST contain the fields "forward" and "inverse".')
        return None
    return Bijection(there, backward)


def parse_field(place: Cursor, scope: ParseScope, kind: str) -> Transformation | None:
    """Read ``displacements`` or ``coordinates``; the field is opened later."""
    path = (place.at("path").read_text() or "").strip("/")
    if not path:
        report_unusable(place, f'{kind} MUST contain the field "path".')
        return None
    stated = place.at("interpolation")
    interpolation = INTERPOLATIONS.get(stated.read_text() or "linear")
    if interpolation is None:
        text = f"SHOULD be one of {list(INTERPOLATIONS)}, is {stated.describe_value()}"
        stated.report_warning("interpolation-unknown", text, "It is read as linear.")
    made = Displacements if kind == "displacements" else Coordinates
    return made(path, interpolation or "linear")


def parse_inverse(place: Cursor, scope: ParseScope) -> Transformation | None:
    """Read ``inverseOf`` of the drafts."""
    report_draft(
        place, "inverseOf is not a type of 0.6; a bijection states an inverse."
    )
    inner = place.at("transformation")
    inner = inner if inner.is_present else place.at("transform")
    back = ParseScope(scope.outputs, scope.inputs, scope.depth)
    of = parse_transformation(inner, back)
    if of is None:
        report_unusable(place, 'inverseOf MUST contain the field "transformation".')
        return None
    return of.inverse() or Inverse(of)


PARSERS: dict[str, Callable[[Cursor, ParseScope], Transformation | None]] = {
    "identity": lambda place, scope: Identity(),
    "scale": lambda place, scope: parse_vector(place, scope, "scale"),
    "translation": lambda place, scope: parse_vector(place, scope, "translation"),
    "mapAxis": parse_map_axis,
    "projectAxis": parse_project_axis,
    "affine": lambda place, scope: parse_rows(place, scope, "affine"),
    "rotation": lambda place, scope: parse_rows(place, scope, "rotation"),
    "sequence": parse_sequence,
    "byDimension": parse_by_dimension,
    "bijection": parse_bijection,
    "displacements": lambda place, scope: parse_field(place, scope, "displacements"),
    "coordinates": lambda place, scope: parse_field(place, scope, "coordinates"),
    "inverseOf": parse_inverse,
}
