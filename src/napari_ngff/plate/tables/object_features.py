"""Columns of shape and texture of objects, which scikit-image computes."""

from __future__ import annotations

import math
from itertools import starmap
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import OptionError
from napari_ngff.metadata.units import drop_noise
from napari_ngff.plate.tables.labelled_image import (
    SIZE_NOTE,
    LabelledImage,
    Outer,
    add_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from napari_ngff.plate.tables.statistics import Floats, LabelStatistics
    from napari_ngff.store.arrays.boxes import Box

# Shapes have the names of regionprops; textures are of each channel.
COLUMNS = {
    "shape": (
        *("area_convex", "solidity", "extent", "eccentricity", "axis_major_length"),
        *("axis_minor_length", "feret_diameter_max", "perimeter", "euler_number"),
    ),
    "texture": ("std", "contrast", "homogeneity", "correlation", "energy"),
}
"""What can be measured beside size, place and intensity, by the name of its group."""

# What scikit-image does not define for volumes, and for their objects in one plane.
PLANES_ONLY = ("eccentricity", "perimeter", *COLUMNS["texture"][1:])
THICK_ONLY = ("area_convex", "solidity", "feret_diameter_max")

# Voxels of a box: the convex hull of a larger object takes minutes.
LARGEST = 1 << 22

# Into so many the intensities of an object are cut, from its least to its greatest.
GRAYS = 16


def choose_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Find columns by their names, or by those of their groups.

    Raises
    ------
    OptionError
        Where there is no such column.
    """
    every = [column for group in COLUMNS.values() for column in group]
    chosen = {column for name in names for column in COLUMNS.get(name, (name,))}
    for name in sorted(chosen.difference(every)):
        listed = ", ".join((*COLUMNS, *every))
        text = f"There is no column {name!r}; there are {listed}."
        raise OptionError(text, "columns")
    return tuple(column for column in every if column in chosen)


def columns_needed(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns to choose for a table that has columns of these names."""
    shapes, textures = COLUMNS.values()
    found = []
    for name in names:
        found += [x for x in shapes if name in (x, x.replace("area", "volume"))]
        found += [x for x in textures if name == x or name.startswith(f"{x}_")]
    return tuple(found)


def measure_image(
    image: LabelledImage,
    columns: Sequence[str] = (),
    run: Callable[..., Iterable[Any]] = starmap,
) -> Any:
    """Measure all labels of an image; see `LabelledImage.tabulate_blocks`.

    Parameters
    ----------
    columns
        Of `choose_columns`. What is not measured of them is stated by the note in the
        ``attrs``.
    run
        Calls a function with the arguments of each call, as `starmap` does.
    """
    import pandas as pd

    blocks = run(LabelledImage.measure_block, [(image, x) for x in image.list_blocks()])
    if not columns:
        return image.tabulate_blocks(blocks)
    found = add_blocks(blocks)
    frame = image.tabulate_blocks(found.items())
    shapes, textures, names, note = _plan_columns(image, columns)
    parts = [*_list_parts(image, found)]
    calls = [(image, shapes, textures, box, ids) for box, ids, _ in parts]
    values = np.full((len(frame), len(names)), np.nan)
    for (_, _, rows), part in zip(parts, run(_measure_part, calls), strict=True):
        values[rows] = part
    if sum(len(rows) for _, _, rows in parts) < len(frame):
        note += f" Objects in a box of more than {LARGEST:,} voxels have no values of"
        note += f" {', '.join((*shapes, *textures))}."
    joined = pd.concat([frame, pd.DataFrame(values, columns=names)], axis=1)
    joined.attrs[SIZE_NOTE] = f"{frame.attrs[SIZE_NOTE]} {note}".strip()
    return joined


def _plan_columns(
    image: LabelledImage, columns: Sequence[str]
) -> tuple[list[str], list[str], list[str], str]:
    """Return which shapes and textures an image has, their titles, and which not."""
    spacing, lost, reason = image.voxel_size, tuple(columns), "of such axes"
    if len(spacing) == 3:
        lost, reason = PLANES_ONLY, "of volumes"
    elif len(spacing) == 2:
        lost = ("perimeter",) if spacing[0] != spacing[1] else ()
        reason = "of pixels that are not square"
    shapes, textures = (
        [column for column in columns if column in group and column not in lost]
        for group in COLUMNS.values()
    )
    names = [x.replace("area", "volume") if len(spacing) == 3 else x for x in shapes]
    for channel in image.names:
        names += [f"{name}_{channel}" if channel else name for name in textures]
    left_out = ", ".join(column for column in columns if column in lost)
    note = f"Not measured, as scikit-image has none {reason}: {left_out}."
    return shapes, textures, names, note if left_out else ""


def _list_parts(
    image: LabelledImage, found: Mapping[Outer, LabelStatistics]
) -> Iterator[tuple[Box, Any, Any]]:
    """List boxes with whole objects, their ids, and their rows in the table.

    Objects that begin in one block are measured together, so that chunks are read about
    once; those that are longer than a block are measured alone.
    """
    sides, first = [stop - start for start, stop in next(image.list_blocks())], 0
    for _, objects in sorted(found.items()):
        sizes = objects.stops - objects.starts
        places, is_long = objects.starts // sides, (sizes > sides).any(axis=1)
        places[is_long, 0] = -1 - np.flatnonzero(is_long)
        _, groups = np.unique(places, axis=0, return_inverse=True)
        groups = np.where(sizes.prod(axis=1) > LARGEST, 0, groups.ravel() + 1)
        order = np.argsort(groups, kind="stable")
        for rows in np.split(order, np.cumsum(np.bincount(groups)))[1:]:
            if len(rows):
                ends = objects.starts[rows].min(axis=0), objects.stops[rows].max(axis=0)
                box = tuple(zip(*(end.tolist() for end in ends), strict=True))
                yield box, objects.labels[rows], first + rows
        first += len(objects.labels)


def _measure_part(
    image: LabelledImage, shapes: list[str], textures: list[str], box: Box, ids: Any
) -> Floats:
    """Measure the objects in one of `_list_parts`: a row each, a column for each name.

    Raises
    ------
    OMEZarrError, OSError
        Where a chunk cannot be read.
    """
    from skimage.measure import regionprops

    labels = image.read_labels(box)
    places = np.minimum(np.searchsorted(ids, labels), len(ids) - 1)
    # Numbers from 1 on: scikit-image looks for all numbers up to the greatest.
    numbers = np.where(ids[places] == labels, places + 1, 0)
    numbers = numbers.reshape([numbers.shape[axis] for axis in image.sized_axes])
    regions = regionprops(numbers, spacing=image.voxel_size)
    # Another program may have removed an object meanwhile.
    count = len(shapes) + len(textures) * len(image.names)
    values = np.full((len(ids), count), np.nan)
    for region in regions:
        row = _measure_shape(region, shapes, image.voxel_size)
        values[region.label - 1, : len(shapes)] = row
    at = len(shapes)
    for pixels in image.read_channels(box) if textures else ():
        channel = pixels.reshape(numbers.shape)
        for region in regions:
            row = _measure_texture(channel[region.slice], region.image, textures)
            values[region.label - 1, at : at + len(textures)] = row
        at += len(textures)
    return drop_noise(values)


def _measure_shape(
    region: Any, columns: Sequence[str], spacing: Sequence[float]
) -> list[float]:
    voxels, known = region.coords - region.coords[0], dict[str, float]()
    if len(spacing) == 3 and np.linalg.matrix_rank(voxels) < 3:
        known = dict.fromkeys(THICK_ONLY, math.nan)
    elif "feret_diameter_max" in columns:
        known["feret_diameter_max"] = _measure_feret(region.image_convex, spacing)
    return [known[name] if name in known else region[name] for name in columns]


def _measure_feret(hull: Any, spacing: Sequence[float]) -> float:
    """Measure as scikit-image does, but from the corners of the hull alone: distances
    between all points of an outline take gigabytes.
    """
    from scipy import spatial
    from skimage import measure

    if hull.ndim == 2:
        outlines = measure.find_contours(np.pad(hull, 2), 0.5, "high")
        points = np.concatenate(outlines)
    else:
        points = measure.marching_cubes(np.pad(hull, 2), 0.5)[0]
    corners = points[spatial.ConvexHull(points).vertices] * spacing
    return float(spatial.distance.pdist(corners).max())


def _measure_texture(pixels: Any, inside: Any, columns: Sequence[str]) -> list[float]:
    """Measure the texture of one object in one channel.

    Grays of neighbours are counted in all directions together, and pixels outside the
    object not at all.
    """
    from skimage import feature

    values = pixels.astype(float)
    found = {"std": np.std(values[inside])}
    low, span = values[inside].min(), np.ptp(values[inside])
    if np.isfinite(span) and columns != ["std"]:
        parts = (values - low) / (span or 1.0) * GRAYS
        grays = np.where(inside, np.clip(parts, 0, GRAYS - 1) + 1, 0).astype(np.uint8)
        angles = [math.pi / 4 * number for number in range(4)]
        counts = feature.graycomatrix(grays, [1], angles, GRAYS + 1, symmetric=True)
        # The first gray is what is outside.
        counts = counts[1:, 1:].sum(axis=3, keepdims=True)
        if counts.any():
            names = [name for name in columns if name != "std"]
            found |= {name: feature.graycoprops(counts, name)[0, 0] for name in names}
    return [found.get(name, math.nan) for name in columns]
