"""Describes a group, an array or a transformation in words, from metadata alone."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
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
    Rows,
    Scale,
    Stored,
    Transformation,
    Translation,
)
from napari_ngff.metadata.units import unit_symbol
from napari_ngff.store.hierarchy.coordinate_systems import level_transformation
from napari_ngff.store.limits import size_text
from napari_ngff.store.pyramids.pyramid import LevelSource, open_pyramid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Sequence as Items

    from napari_ngff.metadata.model import Acquisition, Axis, Reference, SystemLink
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.hierarchy.node import Node

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
            changes = [
                (i, f"{'+' if o > 0 else MINUS} {abs(o):g}")
                for i, o in enumerate(offsets)
                if o
            ]
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


OWN_SYSTEM = "image"
"""In place of the name of an image's own coordinate system, which few files state."""

MOST_SECONDS = 100_000_000_000
"""Largest number that is taken for seconds since 1970; it is in the year 5138."""


def facts_of(node: Node) -> Iterator[tuple[str, str]]:
    """Describe a group: yield the name and the value of each fact."""
    metadata = node.metadata
    version = f"OME-Zarr {metadata.version}" if metadata.version else "OME-Zarr"
    kind = str(node.kind or "group")
    yield "Kind", f"{kind}, {version}, Zarr {node.zarr_format}"
    if metadata.plate is not None:
        plate = metadata.plate
        grid = f"{len(plate.rows)} rows {TIMES} {len(plate.columns)} columns"
        yield "Plate", f"{plate.name or 'unnamed'}: {grid}, {len(plate.wells)} wells"
        if plate.acquisitions:
            names = (a.name or str(a.id) for a in plate.acquisitions)
            yield "Acquisitions", ", ".join(names)
        yield from _times_of(plate.acquisitions)
    if metadata.well is not None:
        yield "Fields", ", ".join(f.path for f in metadata.well.fields)
    if metadata.labels is not None:
        yield "Labels", ", ".join(metadata.labels) or "none"
    if metadata.scene is not None:
        names = (system.name for system in metadata.scene.systems)
        yield "Coordinate systems", ", ".join(names) or "none of its own"
    if metadata.image is not None:
        yield from _describe_image(node)


def _times_of(runs: Items[Acquisition]) -> Iterator[tuple[str, str]]:
    """Describe when the acquisitions of a plate began and ended."""
    texts = []
    for run in runs:
        times = [_date_text(time) for time in (run.start, run.end) if time is not None]
        name = f"{run.name or run.id}: " if len(runs) > 1 else ""
        if any(times):
            texts.append(name + " to ".join(filter(None, times)))
    if texts:
        yield "Acquired", ", ".join(texts)


def _date_text(seconds: int) -> str:
    """Write a time in UTC; "" for a number that is no time."""
    # The text says seconds since the epoch, but some writers state milliseconds.
    if seconds > MOST_SECONDS:
        seconds //= 1000
    try:
        then = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{then:%Y-%m-%d %H:%M} UTC"


def _describe_image(node: Node) -> Iterator[tuple[str, str]]:
    try:
        pyramid = open_pyramid(node)
    except OMEZarrError as error:
        yield "Levels", str(error)
        return
    multiscale = pyramid.multiscale
    arrays = [s.array for s in pyramid.levels if isinstance(s, LevelSource)]
    count = len(node.metadata.image.multiscales) if node.metadata.image else 1
    if count > 1:
        yield "Multiscales", f"{count}; this is the first"
    if multiscale.name:
        yield "Name", multiscale.name
    yield "Axes", ", ".join(multiscale.axis_names)
    sizes = (
        _extent_text(axis, abs(scale), count)
        for axis, scale, count in zip(
            multiscale.axes, multiscale.levels[0].scale, arrays[0].shape, strict=True
        )
        # Channels have no size.
        if axis.type != "channel"
    )
    yield "Physical size", ", ".join(sizes)
    omero = node.metadata.image.omero if node.metadata.image else None
    if omero is not None and omero.channels:
        labels = (c.label or f"channel {i}" for i, c in enumerate(omero.channels))
        yield "Channels", ", ".join(labels)
    if len(multiscale.systems) > 1:
        yield "Coordinate systems", ", ".join(s.name for s in multiscale.systems)
    yield "Size", _on_disk(arrays)
    for level, array in zip(multiscale.levels, arrays, strict=True):
        # The shape without its name, and without the size: that of all levels is given
        # above.
        (_, shape), *rest, _ = facts_of_array(array)
        texts = (f"{name.lower()} {value}" for name, value in rest)
        yield f"Level {level.path}", "; ".join((shape, *texts))


def _extent_text(axis: Axis, step: float, count: int) -> str:
    """Describe the extent of an axis; of time points their number and distance."""
    unit = unit_symbol(axis.unit)
    # Time points have a distance, and no duration that would add up.
    if axis.type == "time":
        return f"{axis.name} {count:,} {TIMES} {step:,g} {unit}".rstrip()
    return f"{axis.name} {step * count:,g} {unit}".rstrip()


def facts_of_array(array: ChunkedArray) -> list[tuple[str, str]]:
    """Describe an array by facts; the last one is its size."""
    shards = array.shards
    facts = [
        ("Shape", f"{_sizes_text(array.shape)} {array.dtype}"),
        ("Chunks", _sizes_text(array.chunks)),
    ]
    if shards is not None:
        facts.append(("Shards", _sizes_text(shards)))
    facts.append(("Codecs", ", ".join(array.layout.codecs) or "none"))
    facts.append(("Size", _on_disk([array])))
    return facts


def _sizes_text(sizes: Items[int]) -> str:
    return f" {TIMES} ".join(map(str, sizes))


def _on_disk(arrays: Items[ChunkedArray]) -> str:
    """Estimate the size on disk from shapes; the true one would need a listing."""
    size = sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)
    return f"{size_text(size)} uncompressed, less on disk (estimate)"


def sentences_of(node: Node) -> Iterator[str]:
    """Describe each transformation of a group, with the systems it connects."""
    metadata = node.metadata
    links: list[SystemLink] = []
    if metadata.image is not None:
        multiscale = metadata.image.multiscales[0]
        goal = multiscale.intrinsic or OWN_SYSTEM
        for level in multiscale.levels:
            text = describe_transformation(
                level_transformation(level), multiscale.axis_names
            )
            yield f"Level {level.path} → {goal}: {text}"
        links += multiscale.links
    if metadata.scene is not None:
        links += metadata.scene.links
    axes: dict[Reference, Items[str]] = {}
    for link in links:
        if link.input not in axes:
            axes[link.input] = _axis_names(node, link.input)
        ends = (
            " in ".join(part for part in (end.name, end.path) if part) or OWN_SYSTEM
            for end in (link.input, link.output)
        )
        text = describe_transformation(link.transformation, axes[link.input])
        yield f"{' → '.join(ends)}: {text}"


def _axis_names(node: Node, end: Reference) -> Items[str]:
    """Return the axes' names of a system that a group refers to; () if not found."""
    try:
        metadata = (node.child(end.path) if end.path else node).metadata
    except (OMEZarrError, OSError):
        return ()
    systems = list(metadata.scene.systems if metadata.scene is not None else ())
    if metadata.image is not None:
        multiscale = metadata.image.multiscales[0]
        systems += multiscale.systems
        if end.name in ("", multiscale.intrinsic):
            return multiscale.axis_names
    return next(([a.name for a in s.axes] for s in systems if s.name == end.name), ())
