"""Plans one image: which voxels of which levels are kept, and where they are then.

A crop that begins and ends between voxels of the coarser levels cannot be cut out of
these: they are made again from the finest level that is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from napari_ngff.errors import OptionError, UnsupportedError, error_text
from napari_ngff.metadata.axes import AXES_BEFORE_0_3
from napari_ngff.metadata.version import Version
from napari_ngff.store.convert.array_plan import ArrayRegion, PlannedLevel
from napari_ngff.store.convert.new_attributes import GroupChange, NewMultiscale
from napari_ngff.store.pyramids.level_reduction import method_named
from napari_ngff.store.pyramids.pyramid import open_arrays
from napari_ngff.store.pyramids.pyramid_writer import coarser_shape

if TYPE_CHECKING:
    from napari_ngff.metadata.model import Axis, Level, Multiscale
    from napari_ngff.store.arrays.chunk_layout import Shape
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.store.convert.request import ConversionRequest
    from napari_ngff.store.hierarchy.node import Node

EDGE = 1e-6
"""Voxels by which a border between voxels may be off by rounding."""

Arrays = dict[str, "ChunkedArray"]
"""The levels that can be opened, by their paths."""


@dataclass(frozen=True, slots=True)
class CroppedImage:
    """Which voxels of an image are kept, for its labels.

    Attributes
    ----------
    axes
        Start, stop and size in voxels of level 0, by the names of the axes.
    scale, corner
        Of level 0, by the names of the axes.
    channels
        Number of all, and the indices of those that are kept; None without channels.
    """

    axes: dict[str, tuple[int, int, int]]
    scale: dict[str, float]
    corner: dict[str, float]
    channels: tuple[int, tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """What is to be done for one image.

    Attributes
    ----------
    change
        Of its attributes.
    cropped
        What is kept, for its labels.
    levels
        Its arrays.
    claimed
        Paths of all its arrays, also of those that are not kept.
    problems
        Levels that cannot be read.
    """

    change: GroupChange
    cropped: CroppedImage
    levels: tuple[PlannedLevel, ...]
    claimed: tuple[str, ...]
    problems: tuple[str, ...]


def plan_image(
    node: Node, request: ConversionRequest, image: CroppedImage | None
) -> ImagePlan:
    """Plan an image or a label image.

    Parameters
    ----------
    node
        Its group.
    request
        What is kept.
    image
        Of labels, what is kept of their image.

    Raises
    ------
    OptionError
        Where nothing is left, or it has no such axis, level or channel.
    UnsupportedError
        Where no level can be read.
    """
    assert node.metadata.image is not None
    problems: list[str] = []
    claimed: list[str] = []
    levels: dict[str, PlannedLevel] = {}
    multiscales: list[NewMultiscale] = []
    cropped: CroppedImage | None = None
    for stated in node.metadata.image.multiscales:
        arrays = _open_levels(node, stated, problems)
        multiscale = _complete_multiscale(node, stated, arrays)
        claimed += [level.path for level in multiscale.levels]
        crop = _crop_image(node, multiscale, arrays, request, image)
        kept = _choose_levels(node, multiscale, request, image is not None)
        is_label = node.metadata.image.label is not None
        planned = _plan_levels(multiscale, (kept, arrays), crop, is_label)
        shifts = {}
        for level, shift in planned:
            levels.setdefault(level.path, level)
            shifts[level.path] = shift
        shown = replace(multiscale, levels=tuple(kept))
        multiscales.append(NewMultiscale(shown, shifts))
        cropped = cropped or crop
    assert cropped is not None
    channels = None
    if cropped.channels is not None:
        count, chosen = cropped.channels
        channels = None if chosen == tuple(range(count)) else chosen
    starts = tuple(
        (name, start) for name, (start, _, _) in cropped.axes.items() if name in "tz"
    )
    change = GroupChange(tuple(multiscales), channels, starts)
    return ImagePlan(
        change, cropped, tuple(levels.values()), tuple(claimed), tuple(problems)
    )


def _open_levels(node: Node, multiscale: Multiscale, problems: list[str]) -> Arrays:
    opened = open_arrays(node, multiscale, {})
    errors = [each for each in opened.values() if isinstance(each, Exception)]
    problems += map(error_text, errors)
    arrays: Arrays = {}
    for level in multiscale.levels:
        array = opened[node.location.object_key(level.path)]
        if not isinstance(array, Exception):
            arrays[level.path] = array
    if not arrays:
        msg = f"{node} has no level that can be read: {'; '.join(problems)}"
        raise UnsupportedError(msg)
    return arrays


def _first_level(multiscale: Multiscale, arrays: Arrays) -> Level:
    return next(level for level in multiscale.levels if level.path in arrays)


def _complete_multiscale(
    node: Node, multiscale: Multiscale, arrays: Arrays
) -> Multiscale:
    """Add axes, scales and translations that older versions leave to the arrays."""
    ndim = next(iter(arrays.values())).ndim
    axes: tuple[Axis, ...] = multiscale.axes
    known = node.metadata.version or Version()
    if len(axes) != ndim:
        if (axes and known.has_axes) or ndim > len(AXES_BEFORE_0_3):
            raise UnsupportedError(f"{node} has other axes than its arrays.")
        axes = AXES_BEFORE_0_3[-ndim:]
    levels: list[Level] = []
    first = _first_level(multiscale, arrays)
    for level in multiscale.levels:
        scale = ((1.0,) * ndim + level.scale)[-ndim:]
        corner = ((0.0,) * ndim + level.translation)[-ndim:]
        if not known.may_have_transformations and level.path in arrays:
            pairs = zip(arrays[first.path].shape, arrays[level.path].shape, strict=True)
            scale = tuple(_whole_factor(n, m) for n, m in pairs)
            corner = tuple((factor - 1) / 2 for factor in scale)
        levels.append(replace(level, scale=scale, translation=corner))
    return replace(multiscale, axes=axes, levels=tuple(levels))


def _whole_factor(fine: int, coarse: int) -> float:
    """Return how many voxels one of a coarser level covers, whole if that fits."""
    near = max(1, round(fine / coarse))
    return float(near) if coarse in (fine // near, -(-fine // near)) else fine / coarse


def _channel_axis(multiscale: Multiscale) -> int | None:
    axis = multiscale.channel_axis
    if axis is None and "c" in multiscale.axis_names:
        axis = multiscale.axis_names.index("c")
    return axis


def _choose_levels(
    node: Node, multiscale: Multiscale, request: ConversionRequest, is_label: bool
) -> list[Level]:
    kept = [v for i, v in enumerate(multiscale.levels) if request.has_level(i)]
    if kept:
        return kept
    if is_label:
        # Labels may have fewer levels than their image.
        return [multiscale.levels[-1]]
    text = f"{node} has {len(multiscale.levels)} levels, none of these."
    raise OptionError(text, "levels")


# --- the crop


def _crop_image(
    node: Node,
    multiscale: Multiscale,
    arrays: Arrays,
    request: ConversionRequest,
    image: CroppedImage | None,
) -> CroppedImage:
    """Find which voxels of level 0 are kept."""
    names = multiscale.axis_names
    level = _first_level(multiscale, arrays)
    shape = arrays[level.path].shape
    scale = dict(zip(names, level.scale, strict=True))
    corner = dict(zip(names, level.translation, strict=True))
    spans = {n: (0, size, size) for n, size in zip(names, shape, strict=True)}
    if image is None:
        _apply_crop(node, spans, request)
    else:
        for name, span in spans.items():
            placed = scale[name], corner[name]
            spans[name] = _matching_span(name, span, placed, image)
    picked = _pick_channels(node, multiscale, shape, request, image)
    return CroppedImage(spans, scale, corner, picked)


def _apply_crop(
    node: Node, spans: dict[str, tuple[int, int, int]], request: ConversionRequest
) -> None:
    for name, start, stop in request.crop:
        if name not in spans:
            text = f"{node} has no axis {name!r}, only {', '.join(spans)}."
            raise OptionError(text, "crop")
        size = spans[name][2]
        if start >= size:
            raise OptionError(
                f"{node} has {size} voxels along {name}: nothing is left of"
                f" {name}={start}:{'' if stop is None else stop}.",
                "crop",
            )
        spans[name] = start, min(stop or size, size), size


def _matching_span(
    name: str,
    span: tuple[int, int, int],
    placed: tuple[float, float],
    image: CroppedImage,
) -> tuple[int, int, int]:
    """Find the voxels of labels over the voxels of their image that are kept."""
    size, (scale, corner) = span[2], placed
    if name not in image.axes:
        return span
    start, stop, full = image.axes[name]
    # One voxel that stands for all of the axis stays.
    if (start, stop) == (0, full) or (size == 1 and full > 1):
        return span
    step, origin = image.scale[name], image.corner[name]
    edges = (origin + (edge - 0.5) * step for edge in (start, stop))
    low, high = ((edge - corner) / scale + 0.5 for edge in edges)
    first = max(0, math.floor(low + EDGE))
    last = min(size, math.ceil(high - EDGE))
    if first >= last:
        raise OptionError(f"Nothing is left of labels along {name}.", "crop")
    return first, last, size


def _pick_channels(
    node: Node,
    multiscale: Multiscale,
    shape: Shape,
    request: ConversionRequest,
    image: CroppedImage | None,
) -> tuple[int, tuple[int, ...]] | None:
    axis = _channel_axis(multiscale)
    if axis is None:
        if request.channels is not None and image is None:
            raise OptionError(f"{node} has no axis of channels.", "channels")
        return None
    count = shape[axis]
    if image is not None:
        same = image.channels is not None and image.channels[0] == count
        return image.channels if same else (count, tuple(range(count)))
    omero = node.metadata.image.omero if node.metadata.image else None
    labels = [channel.label for channel in omero.channels] if omero else []
    chosen = request.find_channels(labels, count)
    crop = {name: (start, stop) for name, start, stop in request.crop}
    start, stop = crop.get(multiscale.axis_names[axis], (0, None))
    chosen = [i for i in chosen if start <= i < (stop or count)]
    if not chosen:
        text = f"{node} has none of these channels in the crop."
        raise OptionError(text, "channels")
    return count, tuple(chosen)


# --- levels


def _plan_levels(
    multiscale: Multiscale,
    chosen: tuple[list[Level], Arrays],
    crop: CroppedImage,
    is_label: bool,
) -> list[tuple[PlannedLevel, tuple[float, ...]]]:
    """Plan the levels that are kept; each with its first voxel per axis."""
    kept, arrays = chosen
    names = multiscale.axis_names
    usable = [level for level in kept if level.path in arrays]
    full = arrays[_first_level(multiscale, arrays).path].shape
    cuts = [_cut_level(multiscale, full, arrays[v.path].shape, crop) for v in usable]
    cut = [
        PlannedLevel(level.path, arrays[level.path], names, is_label, region)
        for level, (region, _) in zip(usable, cuts, strict=True)
    ]
    channels = _channel_axis(multiscale)
    shifts = [
        tuple(
            # The number of a channel is no position.
            0.0 if axis == channels else float(start)
            for axis, (start, _) in enumerate(level.region.spans)
        )
        for level in cut
    ]
    factors = [
        whole_factors(fine.array.shape, coarse.array.shape)
        for fine, coarse in pairwise(cut)
    ]
    if not all(factors) or all(is_whole for _, is_whole in cuts[1:]):
        return list(zip(cut, shifts, strict=True))
    method = method_named(multiscale.method) if is_label else "mean"
    planned = [(cut[0], shifts[0])]
    for number, (level, steps) in enumerate(zip(cut[1:], factors, strict=True), 1):
        finer, before = planned[-1]
        shape = coarser_shape(finer.region.shape, steps)
        new = replace(
            level,
            region=ArrayRegion(tuple((0, n) for n in shape)),
            finer=finer.path,
            method=method,
            factors=steps,
            stage=number,
        )
        shift = tuple(s / f for s, f in zip(before, steps, strict=True))
        planned.append((new, shift))
    return planned


def whole_factors(fine: Shape, coarse: Shape) -> Shape:
    """Return how many voxels one of the coarser level covers; () if not whole ones."""
    factors = [_whole_factor(n, m) for n, m in zip(fine, coarse, strict=True)]
    whole = all(factor == int(factor) for factor in factors)
    return tuple(int(factor) for factor in factors) if whole else ()


def _cut_level(
    multiscale: Multiscale, full: Shape, shape: Shape, crop: CroppedImage
) -> tuple[ArrayRegion, bool]:
    """Find the voxels of a level that are kept, rounded outwards.

    `full` is the shape of level 0.

    Returns
    -------
    region, is_whole
        The voxels, and whether the crop begins and ends at voxels of this level.
    """
    spans: list[tuple[int, int]] = []
    is_whole = True
    for name, size, coarse in zip(multiscale.axis_names, full, shape, strict=True):
        start, stop, _ = crop.axes[name]
        factor = _whole_factor(size, coarse)
        if start % factor or (stop % factor and stop != size):
            is_whole = False
        low = min(int(start / factor), coarse - 1)
        high = min(coarse, max(low + 1, math.ceil(stop / factor)))
        spans.append((low, coarse if stop == size else high))
    axis = _channel_axis(multiscale)
    if axis is None or crop.channels is None:
        return ArrayRegion(tuple(spans)), is_whole
    count, chosen = crop.channels
    if chosen == tuple(range(chosen[0], chosen[-1] + 1)):
        spans[axis] = chosen[0], chosen[-1] + 1
        return ArrayRegion(tuple(spans)), is_whole
    spans[axis] = 0, count
    return ArrayRegion(tuple(spans), axis, chosen), is_whole
