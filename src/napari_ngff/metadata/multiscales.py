"""Parses multiscales of any version: levels with one scale and translation each.

Transformations are applied to a point in index coordinates of a level, in the order of
their list ("applied sequentially and in order", 0.4). Up to 0.5 these are the dataset's
and then the multiscale's. From 0.6 on they are the dataset's only: the multiscale's
lead to other coordinate systems, and are its links.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from napari_ngff.metadata.axes import AXES_BEFORE_0_3, parse_axes
from napari_ngff.metadata.model import (
    Axis,
    Consequence,
    CoordinateSystem,
    Level,
    Multiscale,
)
from napari_ngff.metadata.systems_parse import parse_links, parse_systems
from napari_ngff.metadata.transform_parse import (
    MAX_NESTING,
    ParseScope,
    parse_transformation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ngff.metadata.cursor import Cursor
    from napari_ngff.metadata.transform import Transformation

SIMPLE = ("scale", "translation", "identity")


def parse_multiscales(multiscales: Cursor, minor: int) -> tuple[Multiscale, ...]:
    """Read the list of multiscales, without those that have no usable level.

    Parameters
    ----------
    multiscales
        At the list.
    minor
        4 for version 0.4.
    """
    items = multiscales.list_items()
    if multiscales.is_present and not items:
        text = '"multiscales" contains at least one multiscale.'
        multiscales.report_error("multiscales-empty", text, "There is no image.")
    found = []
    for index, item in enumerate(items):
        parsed = parse_multiscale(item, minor)
        if parsed is None:
            continue
        # "metadata" is free: whatever else is there is no problem.
        software = item.at("metadata").at("software").value
        stated = software if isinstance(software, str) else None
        found.append(replace(parsed, software=stated, index=index))
    return tuple(found)


def parse_multiscale(multiscale: Cursor, minor: int) -> Multiscale | None:
    """Read one multiscale; None where no dataset has a usable path."""
    if not multiscale.is_object():
        return None
    # A level without a usable path is left out; the others still make a pyramid.
    datasets = [
        (path, dataset_transforms(dataset, minor))
        for dataset in multiscale.at("datasets").list_items()
        if dataset.is_object() and (path := dataset.at("path").read_path()) is not None
    ]
    if not datasets:
        text = 'MUST contain the field "datasets" with the path of each level.'
        multiscale.report_error(
            "multiscale-unusable", text, Consequence.MULTISCALE_LEFT_OUT
        )
        return None
    name = multiscale.at("name").read_text() or ""
    method = multiscale.at("type").read_text()
    # By the form more than by the version: systems are read whatever is stated.
    links = multiscale.at("coordinateTransformations")
    if minor < 6 and not multiscale.at("coordinateSystems").is_present:
        axes = stated_axes(multiscale, minor)
        shared = links.list_items()
        if not are_alternatives(shared):
            levels = parse_levels(multiscale, datasets, shared, axes)
            return Multiscale(name, axes, levels, method)
        # They lead away from the levels' system, so levels do not apply them.
        systems = alternative_systems(shared, axes)
        intrinsic = systems[0]
    else:
        systems = parse_systems(multiscale.at("coordinateSystems"))
        given = [transforms for _, transforms in datasets]
        intrinsic = intrinsic_system(multiscale, given, systems, minor)
    return Multiscale(
        name,
        intrinsic.axes,
        parse_levels(multiscale, datasets, [], intrinsic.axes),
        method,
        intrinsic.name,
        systems,
        parse_links(links, {system.name: system for system in systems}),
    )


def are_alternatives(shared: Sequence[Cursor]) -> bool:
    """Return whether transformations lead to different systems; else they are steps.

    SpatialData lists them so, with versions such as "0.5-dev-spatialdata": each leads
    from the system of the levels to another one. A single one that only scales and
    shifts is taken for the size of a voxel, as in 0.4.
    """
    ends = [item.at(key).at("name") for item in shared for key in ("input", "output")]
    if not ends or not all(isinstance(end.value, str) for end in ends):
        return False
    simple = (type_of(step) in SIMPLE for step in flatten_transforms(shared))
    return len(shared) > 1 or not all(simple)


def alternative_systems(
    shared: Sequence[Cursor], axes: tuple[Axis, ...]
) -> tuple[CoordinateSystem, ...]:
    """List the system of the levels and those of `are_alternatives`, each once."""
    intrinsic = str(shared[0].at("input").at("name").value)
    systems = {intrinsic: CoordinateSystem(intrinsic, axes)}
    for item in shared:
        output = item.at("output")
        name = str(output.at("name").value)
        if name not in systems:
            stated = parse_axes(output.at("axes"), 6) or axes
            systems[name] = CoordinateSystem(name, stated)
    return tuple(systems.values())


def parse_levels(
    multiscale: Cursor,
    datasets: Sequence[tuple[str, list[Cursor]]],
    shared: Sequence[Cursor],
    axes: Sequence[Axis],
) -> tuple[Level, ...]:
    """Read the levels: paths, own transformations, and those `shared` by all."""
    chains = [list(flatten_transforms(given)) for _, given in datasets]
    last = list(flatten_transforms(shared))
    # Without axes the longest vector shows how many there are at least.
    steps = itertools.chain(*chains, last)
    vectors = (step.at(key) for step in steps for key in ("scale", "translation"))
    lengths = [len(vector.children()) for vector in vectors]
    ndim = len(axes) or max(lengths, default=0)
    for chain in chains:
        types = [kind for kind in map(type_of, chain) if kind != "identity"]
        known = all(kind in ("scale", "translation") for kind in types)
        if types and known and types not in (["scale"], ["scale", "translation"]):
            text = '"MUST contain exactly one scale", then at most one translation.'
            chain[0].report_error(
                "transforms-order", text, "They are applied in their order."
            )
    # Once for all levels, so that its problems are reported once.
    after = compose_chain(last, ndim)
    levels: list[Level] = []
    for (path, given), chain in zip(datasets, chains, strict=True):
        whole = other_transformation(given, chain, axes)
        if whole is not None:
            neutral = (1.0,) * ndim, (0.0,) * ndim
            levels.append(Level(path, *neutral, whole))
            continue
        placement = compose_pair(compose_chain(chain, ndim), after, multiscale)
        levels.append(Level(path, *placement))
    return tuple(levels)


def other_transformation(
    given: Sequence[Cursor], chain: Sequence[Cursor], axes: Sequence[Axis]
) -> Transformation | None:
    """Read a dataset's transformation that is more than scale and translation.

    None where it is simple, unusable, or of a version without output systems.
    """
    if not given or not given[0].at("output").is_present:
        return None
    # A scale or translation in an array at `path` (drafts) has to be loaded.
    others = [
        step
        for step in chain
        if type_of(step) not in ("scale", "translation", "identity")
        or (step.at("path").is_present and not step.at(str(type_of(step))).is_present)
    ]
    if not others:
        return None
    names = tuple(axis.name for axis in axes)
    transformation = parse_transformation(given[0], ParseScope(outputs=names))
    # Applied all the same: the file says where its pixels are.
    if transformation is not None:
        stated_type = others[0].at("type").describe_value()
        text = (
            f"Only scale, translation and their sequence apply here, not {stated_type}"
        )
        consequence = "The transformation is applied anyway."
        others[0].report_error("transform-level-type", text, consequence)
    return transformation


def stated_axes(multiscale: Cursor, minor: int) -> tuple[Axis, ...]:
    """Read ``axes`` of 0.3 to 0.5; () where the arrays decide."""
    axes = parse_axes(multiscale.at("axes"), minor)
    if axes:
        return axes
    if minor <= 2:
        return AXES_BEFORE_0_3
    text = 'Each multiscale MUST contain the field "axes".'
    multiscale.report_error(
        "axes-missing", text, "The dimensions of the arrays decide."
    )
    return ()


def intrinsic_system(
    multiscale: Cursor,
    given: Sequence[Sequence[Cursor]],
    systems: Sequence[CoordinateSystem],
    minor: int,
) -> CoordinateSystem:
    """Find the system that the datasets' transformations lead to (0.6).

    `given` has the transformations of each dataset. The axes are () where the arrays
    decide.
    """
    if not systems:
        text = 'MUST contain the field "coordinateSystems".'
        multiscale.report_error(
            "coordinate-systems-missing", text, '"axes" takes its place.'
        )
        return CoordinateSystem("", stated_axes(multiscale, minor))
    outputs = [output_name(transforms[0]) for transforms in given if transforms]
    names = [name for name in outputs if name is not None]
    if len(set(names)) > 1:
        text = "The output of every dataset's transformation MUST be the same system."
        multiscale.report_error(
            "intrinsic-system-differs", text, "The first one is used."
        )
    # By what the levels say; its position in the list means nothing.
    intrinsic = next((s for s in systems if names and s.name == names[0]), None)
    if intrinsic is None:
        text = "The output of a dataset's transformation MUST name a coordinate system."
        consequence = "The first coordinate system is used."
        multiscale.report_error("intrinsic-system-unknown", text, consequence)
        return systems[0]
    return intrinsic


def output_name(transform: Cursor) -> str | None:
    """Read the name of the output system: an object's, or a string as in drafts."""
    output = transform.at("output")
    if isinstance(output.value, str):
        output.report_expected("an object", "It is used as the name of the system.")
        return output.value
    return output.at("name").read_text() if output.is_object() else None


def dataset_transforms(dataset: Cursor, minor: int) -> list[Cursor]:
    """Go to the transformations of a dataset, which apply one after the other.

    Two with an ``output`` (0.6) are alternatives, of which the first is used.
    """
    transforms = dataset.at("coordinateTransformations").list_items()
    if not transforms and minor >= 4:
        text = 'MUST contain the field "coordinateTransformations".'
        dataset.report_error("transforms-missing", text, "A voxel has the size 1.")
    # Alternatives, unlike the list of steps of 0.4 and 0.5.
    if len(transforms) > 1 and transforms[0].at("output").is_present:
        text = "A dataset MUST have exactly one transformation in 0.6."
        dataset.report_error("transforms-several", text, "The first one is used.")
        return transforms[:1]
    return transforms


def flatten_transforms(
    transforms: Sequence[Cursor], depth: int = 0
) -> Iterator[Cursor]:
    """Yield transformations in order; of a sequence, those inside it."""
    for transform in transforms:
        if not transform.is_object():
            continue
        if transform.at("type").value != "sequence":
            yield transform
        elif depth == MAX_NESTING:
            text = f"Sequences are nested more than {MAX_NESTING} deep."
            transform.report_warning("transform-not-applied", text)
        else:
            draft = transform.at("transforms")  # up to 0.6.dev2
            inner = draft if draft.is_present else transform.at("transformations")
            yield from flatten_transforms(inner.list_items(), depth + 1)


def type_of(transform: Cursor) -> object:
    """Return the type as written; if it is missing, by the parameters."""
    stated = transform.at("type")
    if stated.is_present:
        return stated.value
    known = ("scale", "translation")
    return next((key for key in known if transform.at(key).is_present), None)


def compose_chain(
    chain: Sequence[Cursor], ndim: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return scale and translation of a chain; each of `ndim` entries."""
    # y = scale x + translation, extended by one step after the other.
    scale, translation = (1.0,) * ndim, (0.0,) * ndim
    for transform in chain:
        kind = type_of(transform)
        if kind == "scale":
            factors = read_vector(transform, "scale", 1.0, ndim)
            step = factors, (0.0,) * ndim
        elif kind == "translation":
            step = (1.0,) * ndim, read_vector(transform, "translation", 0.0, ndim)
        elif kind == "identity":
            continue
        else:
            stated_type = transform.at("type").describe_value()
            text = (
                "Only scale, translation and their sequence apply here, not"
                f" {stated_type}"
            )
            consequence = "The transformation is not applied."
            transform.report_error("transform-not-applied", text, consequence)
            continue
        scale, translation = compose_pair((scale, translation), step, transform)
    return scale, translation


def compose_pair(
    first: tuple[tuple[float, ...], tuple[float, ...]],
    then: tuple[tuple[float, ...], tuple[float, ...]],
    reported: Cursor,
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compose s2 (s1 x + t1) + t2; report numbers that are too large at `reported`."""
    scale = tuple(a * b for a, b in zip(first[0], then[0], strict=True))
    translation = tuple(
        factor * t1 + t2
        for t1, factor, t2 in zip(first[1], then[0], then[1], strict=True)
    )
    if all(map(math.isfinite, scale + translation)) and all(scale):
        return scale, translation
    # Products of finite numbers may be infinite, or 0, by which nobody can divide.
    text = "The composed scale or translation is too large or too small for a number."
    reported.report_error(
        "transform-overflow", text, "The axis has scale 1 and translation 0."
    )
    good = [
        math.isfinite(s) and math.isfinite(t) and s != 0
        for s, t in zip(scale, translation, strict=True)
    ]
    return (
        tuple(s if ok else 1.0 for s, ok in zip(scale, good, strict=True)),
        tuple(t if ok else 0.0 for t, ok in zip(translation, good, strict=True)),
    )


def read_vector(
    transform: Cursor, key: str, neutral: float, ndim: int
) -> tuple[float, ...]:
    """Read a scale or a translation.

    A vector of another length is aligned with the last axes, which are the spatial
    ones in every version, and filled up or cut at its beginning.
    """
    stated = transform.at(key)
    stated.require_value(
        f'A {key} MUST contain the field "{key}".', "It is not applied."
    )
    numbers = [number.read_number() for number in stated.list_items()]
    values = [neutral if number is None else number for number in numbers]
    # 0 would put all voxels at one point, and has no inverse.
    if key == "scale" and 0.0 in values:
        stated.report_error("scale-zero", "A scale MUST NOT be 0.", "It is read as 1.")
        values = [value or 1.0 for value in values]
    if stated.is_present and len(values) != ndim:
        text = f'"MUST be the same as the length of axes", {ndim}, is {len(values)}.'
        consequence = f"The last axes take its values, others {neutral:g}."
        stated.report_warning("transform-length", text, consequence)
    # A negative count of neutral values makes an empty list.
    return tuple(
        [neutral] * (ndim - len(values)) + values[max(len(values) - ndim, 0) :]
    )
