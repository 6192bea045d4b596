"""An image with its labels, ready to be measured block by block."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import NodeNotFoundError, UnsupportedError
from napari_ngff.metadata.model import CLASS_NAME, MOST_CLASSES, Axis, LabelKind
from napari_ngff.metadata.units import MICROMETER, drop_noise, unit_factor
from napari_ngff.plate.tables.statistics import (
    LabelStatistics,
    add_up,
    statistics_of_block,
)
from napari_ngff.store.arrays.boxes import Box, box_shape, whole_box
from napari_ngff.store.arrays.lazy_array import ArraySource, ArrayWindow
from napari_ngff.store.hierarchy.coordinate_systems import intrinsic_of, open_systems
from napari_ngff.store.pyramids.pyramid import Pyramid, open_pyramid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from napari_ngff.store.hierarchy.node import Node

BLOCK = 1 << 20
"""Most voxels that are measured at once, unless one chunk has more."""

JOINED = 64
"""Blocks whose statistics are added up at once: each time all labels are sorted."""

VOXELS = "voxels"
"""Column of the number of voxels, the first that was measured; before it are ids."""

CLASS = "class"
"""Column of the names of classes, behind the ids, where the labels have some."""

AREA, VOLUME = "area", "volume"
"""Columns of the size: of labels in a plane, and of labels in several."""

SIZE_NOTE = "size note"
"""Key of a sentence on lengths and sizes in the ``attrs`` of a table."""

COARSER = "Coarser levels are not measured: sizes differ, and small labels are missing."
"""Part of a message. A picture of a coarser level looks coarse; a number does not."""

Outer = tuple[int, ...]
"""Index on the axes that are not of space, such as the time point."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImage:
    """A level of an image, and level 0 of its labels, which has the same size.

    Attributes
    ----------
    image, labels
        The arrays.
    axes
        Of the image, less the channel.
    order
        Index of each of them in the image.
    matched
        Index of each of them in the labels, or None for an axis that they lack. Along
        such an axis, or one of length 1, the labels are the same everywhere.
    channel
        Axis of the image, or None.
    names
        Of the channels, no two alike; "" for an image without any.
    scale, translation
        Of a voxel, per axis, in the unit of the axis.
    class_names
        Of labels that are classes.
    """

    image: ArraySource
    labels: ArraySource
    axes: tuple[Axis, ...]
    order: tuple[int, ...]
    matched: tuple[int | None, ...]
    channel: int | None
    names: tuple[str, ...]
    scale: tuple[float, ...]
    translation: tuple[float, ...]
    class_names: Mapping[int, str] = field(default_factory=dict)

    @property
    def outer_axes(self) -> tuple[int, ...]:
        """Axes that are not of space: along them labels are other objects."""
        return tuple(
            i for i, a in enumerate(self.axes) if a.type not in (None, "space")
        )

    @property
    def inner_axes(self) -> tuple[int, ...]:
        """Axes of space."""
        return tuple(i for i in range(len(self.axes)) if i not in self.outer_axes)

    def list_blocks(self) -> Iterator[Box]:
        """Cut the image into blocks of whole chunks, one index on each outer axis.

        Yields
        ------
        tuple
            Start and stop per axis.
        """
        sizes = [self.image.shape[i] for i in self.order]
        # Whole chunks of the labels, so that each is read once.
        sides = [
            self.image.chunks[i] if m is None else self.labels.chunks[m]
            for i, m in zip(self.order, self.matched, strict=True)
        ]
        for axis in self.outer_axes:
            sides[axis] = 1
        # Along x first: rows of a block then stay in one piece for longer.
        for axis in reversed(self.inner_axes):
            while sides[axis] < sizes[axis] and 2 * math.prod(sides) <= BLOCK:
                sides[axis] *= 2
        spans = [
            [(start, min(start + side, size)) for start in range(0, size, side)]
            for size, side in zip(sizes, sides, strict=True)
        ]
        yield from itertools.product(*spans)

    def measure_block(self, box: Box) -> tuple[Outer, LabelStatistics]:
        """Measure one of `list_blocks`; also return its index on the outer axes.

        Raises
        ------
        OMEZarrError, OSError
            Where a chunk cannot be read.
        """
        labels = self.read_labels(box)
        # Background alone: the image need not be read, and no value of it counts.
        channels: Any = [labels] * len(self.names)
        if labels.any():
            channels = self.read_channels(box)
        statistics = statistics_of_block(labels, channels, [start for start, _ in box])
        return tuple(box[i][0] for i in self.outer_axes), statistics

    def read_labels(self, box: Box) -> Any:
        """Read the labels of a box of the image."""
        window = ArrayWindow(self.labels, self.matched)
        pairs = zip(box, window.shape, strict=True)
        data = window.read(tuple(span if n > 1 else (0, 1) for span, n in pairs))
        # The same labels for all z or t of the image, without copying them.
        return np.broadcast_to(data, box_shape(box))

    def read_channels(self, box: Box) -> Iterator[Any]:
        """Read the intensities of a box, one channel after the other."""
        for number in range(len(self.names)):
            spans = list(whole_box(self.image.shape))
            if self.channel is not None:
                spans[self.channel] = number, number + 1
            yield ArrayWindow(self.image, self.order, tuple(spans)).read(box)

    def tabulate_blocks(self, blocks: Iterable[tuple[Outer, LabelStatistics]]) -> Any:
        """Make a table of what `measure_block` gave.

        Returns
        -------
        pandas.DataFrame
            A row per label, and per index on the outer axes that have several: their
            columns, "label", `CLASS` where labels are classes, "voxels", "area" or, in
            3D, "volume", "centroid_<axis>" (from the origin of the image's own
            coordinates; not along z where there is one section), and for each channel
            "mean_<name>", "min_<name>" and "max_<name>"; without the name where there
            is none. Lengths are micrometres, or as the image states them where an axis
            of space has no unit of length; the ``attrs`` have a sentence on that.
        """
        import pandas as pd

        found = add_blocks(blocks)
        frames = [self._make_rows(outer, found[outer]) for outer in sorted(found)]
        frame = pd.concat(frames, ignore_index=True)
        frame.attrs[SIZE_NOTE] = self._describe_size()
        return frame

    def _size_along(self, axis: int) -> int:
        return self.image.shape[self.order[axis]]

    @property
    def sized_axes(self) -> tuple[int, ...]:
        """Axes of space without those of one section: the last two, and longer ones."""
        inner = self.inner_axes
        return tuple(i for i in inner if i in inner[-2:] or self._size_along(i) > 1)

    @property
    def _units(self) -> dict[int, float]:
        """Micrometres of the units of `sized_axes`; {} where one is no length."""
        sized = self.sized_axes
        factors = [unit_factor(self.axes[axis].unit, MICROMETER) for axis in sized]
        known = [factor for factor in factors if factor is not None]
        return dict(zip(sized, known, strict=True)) if known == factors else {}

    @property
    def voxel_size(self) -> tuple[float, ...]:
        """Size of a voxel along `sized_axes`, in the unit of the table."""
        units = self._units
        return tuple(abs(self.scale[i] * units.get(i, 1.0)) for i in self.sized_axes)

    def find_index(self, axis: int, centroid: float) -> float:
        """Return the index on an axis of space that a centroid of the table is at."""
        place = centroid / self._units.get(axis, 1.0)
        return (place - self.translation[axis]) / self.scale[axis]

    def _describe_size(self) -> str:
        """Return a sentence on sizes that are not in micrometres; "" for these."""
        units = [self.axes[axis].unit or "no unit" for axis in self.sized_axes]
        names = ", ".join(dict.fromkeys(units))
        return "" if self._units else f"Sizes are as the image states them: {names}."

    def _make_rows(self, outer: Outer, statistics: LabelStatistics) -> Any:
        import pandas as pd

        columns: dict[str, Any] = {"label": statistics.labels}
        if self.class_names:
            names = (self.class_names.get(i) for i in statistics.labels.tolist())
            columns[CLASS] = pd.array(list(names), dtype=object)
        for axis, index in zip(self.outer_axes, outer, strict=True):
            # No column of zeros where there is one time point.
            if self._size_along(axis) > 1:
                columns[self.axes[axis].name] = np.full(len(statistics.labels), index)
        counts, units = statistics.counts, self._units
        columns[VOXELS], sides = counts, self.voxel_size
        size = VOLUME if len(sides) > 2 else AREA
        columns[size] = drop_noise(counts * math.prod(sides))
        for axis in self.sized_axes:
            means = statistics.moments[:, axis] / counts
            # The mean of indices is in voxels, whose centres are at whole numbers.
            coordinates = means * self.scale[axis] + self.translation[axis]
            name = f"centroid_{self.axes[axis].name}"
            columns[name] = drop_noise(coordinates * units.get(axis, 1.0))
        for i, name in enumerate(self.names):
            end = f"_{name}" if name else ""
            columns[f"mean{end}"] = drop_noise(statistics.sums[:, i] / counts)
            columns[f"min{end}"] = statistics.lows[:, i]
            columns[f"max{end}"] = statistics.highs[:, i]
        return pd.DataFrame(columns)

    def count_labels(self) -> Any:
        """Count the labels: a pandas.DataFrame of one row, its column "labels"."""
        import pandas as pd

        ids = {0}
        for box in self.list_blocks():
            ids.update(pd.unique(self.read_labels(box).ravel()).tolist())
        return pd.DataFrame({"labels": [len(ids) - 1]})


def add_blocks(
    blocks: Iterable[tuple[Outer, LabelStatistics]],
) -> dict[Outer, LabelStatistics]:
    """Add up what `LabelledImage.measure_block` gave, by the index on the outer axes.

    A label of the same id at another time point is another object.
    """
    parts: dict[Outer, list[LabelStatistics]] = {}
    for outer, statistics in blocks:
        known = parts.setdefault(outer, [])
        known.append(statistics)
        if len(known) == JOINED:
            known[:] = [add_up(known)]
    return {outer: add_up(known) for outer, known in parts.items()}


def open_labelled(node: Node, label: str | Node) -> LabelledImage:
    """Open an image and its labels.

    Parameters
    ----------
    node
        The image.
    label
        Name of the labels; or themselves, where they are in a file of their own.

    Raises
    ------
    NodeNotFoundError
        Where it has no such labels.
    UnsupportedError
        Where no level of the image has their size, they do not lie on it voxel for
        voxel, or one of the two cannot be read; nor are labels measured whose finest
        level cannot be read.
    """
    labels_node = labels_of(node, label) if isinstance(label, str) else label
    if labels_node is None:
        msg = f"{node} has no labels {label!r}."
        raise NodeNotFoundError(msg)
    image, labels = open_pyramid(node), _open_labels(labels_node)
    axes = image.multiscale.axes
    channel = image.multiscale.channel_axis
    order = tuple(i for i in range(len(axes)) if i != channel)
    matched = _match_axes(image, labels, order, labels_node)
    level = _find_level(node, image, labels_node, labels, order, matched)
    _check_place(
        node, image, labels_node, labels, tuple(zip(order, matched, strict=True))
    )
    source, level_metadata = image.levels[level], image.multiscale.levels[level]
    return LabelledImage(
        source,
        labels.levels[0],
        tuple(axes[i] for i in order),
        order,
        matched,
        channel,
        _name_channels(node, 1 if channel is None else source.shape[channel], channel),
        tuple(level_metadata.scale[i] for i in order),
        tuple(level_metadata.translation[i] for i in order),
        _name_classes(labels_node),
    )


def labels_of(node: Node, name: str) -> Node | None:
    """Open labels of an image; None if it has none of that name.

    Raises
    ------
    OMEZarrError, OSError
        Where they cannot be read.
    """
    try:
        return node.child(f"labels/{name}")
    except NodeNotFoundError:
        return None


def _open_labels(node: Node) -> Pyramid:
    """Open labels that can be measured: integers, with their finest level."""
    labels = open_pyramid(node)
    lost = _why_lost(node, labels)
    if lost:
        msg = f"{node}: the finest level cannot be read: {lost} {COARSER}"
        raise UnsupportedError(msg)
    # Some programs store labels as true and false.
    if labels.levels[0].dtype.kind not in "iub":
        msg = f"{node}: labels hold integers, not {labels.levels[0].dtype}."
        raise UnsupportedError(msg)
    return labels


def _match_axes(
    image: Pyramid, labels: Pyramid, order: tuple[int, ...], node: Node
) -> tuple[int | None, ...]:
    """Find the axis of the labels for each axis of the image."""
    names = [axis.name.lower() for axis in labels.multiscale.axes]
    theirs = [image.multiscale.axes[i].name.lower() for i in order]
    for name, size in zip(names, labels.levels[0].shape, strict=True):
        # Length 1: an axis that says nothing.
        if name not in theirs and size > 1:
            msg = f"{node} has {size} elements along {name}; its image has no {name}."
            raise UnsupportedError(msg)
    return tuple(names.index(name) if name in names else None for name in theirs)


def _why_lost(node: Node, pyramid: Pyramid) -> str:
    """Say why the finest level of an image is left out; "" if it is not.

    The finest level has the smallest voxels; of equal ones it is the first, as levels
    are listed from the highest resolution on.
    """
    assert node.metadata.image is not None
    listed = node.metadata.image.multiscales[0].levels
    finest = min(listed, key=lambda level: abs(math.prod(level.scale)))
    where = f"{node.location.object_key(finest.path)}:"
    left_out = finest.path not in [each.path for each in pyramid.multiscale.levels]
    reasons = [each.text for each in pyramid.problems if each.where == where]
    return " ".join(reasons) if left_out else ""


def _find_level(
    node: Node,
    image: Pyramid,
    labels_node: Node,
    labels: Pyramid,
    order: tuple[int, ...],
    matched: tuple[int | None, ...],
) -> int:
    """Find the level of the image that has the same size as the labels."""
    shape = labels.levels[0].shape
    for number, source in enumerate(image.levels):
        sizes = (source.shape[i] for i in order)
        fits = all(
            label_axis is None or shape[label_axis] in (1, size)
            for label_axis, size in zip(matched, sizes, strict=True)
        )
        # With a rotation or a field voxels of both do not lie over each other.
        if fits and image.multiscale.levels[number].transformation is None:
            return number
    shapes = [source.shape for source in image.levels]
    reason = f"which no level of its image has: {shapes}."
    lost = _why_lost(node, image)
    if lost:
        reason += f" The finest level of the image cannot be read: {lost}"
    raise UnsupportedError(f"{labels_node} has the shape {shape}, {reason}")


def _check_place(
    node: Node,
    image: Pyramid,
    labels_node: Node,
    labels: Pyramid,
    pairs: tuple[tuple[int, int | None], ...],
) -> None:
    """Refuse labels that do not lie on their image, voxel for voxel.

    `pairs` has the axes of the image, each with that of the labels.
    """
    first, axes = image.multiscale.levels[0], image.multiscale.axes
    scale, translation = _place_in_image(node, image, labels_node, labels)
    for i, j in pairs:
        if j is None:
            continue
        size, count = image.levels[0].shape[i], labels.levels[0].shape[j]
        # 1 where one of the units is unknown: then the numbers are all there is.
        factor = unit_factor(labels.multiscale.axes[j].unit, axes[i].unit) or 1.0
        # Outer edges of the first voxel and of the last, in voxels of the labels.
        voxel = first.scale[i] * size / count
        start = first.translation[i] - first.scale[i] / 2
        step, corner = scale[j] * factor, translation[j] * factor
        away = (corner - step / 2 - start) / voxel
        too_long = (step / voxel - 1) * count
        # Coarser levels are rounded up or down by a voxel, and may not state that their
        # first voxel is moved by half of one.
        most = 0.5 if count in (1, size) else 1.25
        if count == 1 and size > 1 and corner == first.translation[i]:
            continue  # the same everywhere
        if not (abs(away) <= 0.5 + 1e-6 and abs(too_long) <= most):
            name, unit = axes[i].name, axes[i].unit or ""
            msg = (
                f"{labels_node} is not aligned with its image: along {name} its voxels"
                f" are {step:g} {unit} long from {corner:g} on, those of the image"
                f" {voxel:g} from {start + voxel / 2:g} on."
            )
            remedy = "Correct the scale or the translation of one of them."
            raise UnsupportedError(msg, remedy=remedy)


def _place_in_image(
    node: Node, image: Pyramid, labels_node: Node, labels: Pyramid
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return scale and translation of labels in the coordinates of their image."""
    level = labels.multiscale.levels[0]
    count, is_plain = len(level.scale), level.transformation is None
    linear, links = np.eye(count + 1), image.multiscale.links + labels.multiscale.links
    if is_plain and links and labels_node.location.source is node.location.source:
        graph = open_systems([node, labels_node]).graph
        way = graph.way(intrinsic_of(labels_node), intrinsic_of(node))
        is_plain = way is None or way.is_linear
        linear = way.matrix(count) if is_plain and way is not None else linear
    inner = linear[:-1, :-1]
    if not is_plain or not np.array_equal(inner, np.diag(np.diag(inner))):
        msg = f"{labels_node} is turned or bent against its image."
        raise UnsupportedError(msg)
    factors, offset = np.diag(linear)[:-1], linear[:-1, -1]
    scale, translation = factors * level.scale, factors * level.translation + offset
    return tuple(scale.tolist()), tuple(translation.tolist())


def _name_classes(labels: Node) -> dict[int, str]:
    """Read the names of the classes of labels; none where they are objects."""
    image = labels.metadata.image
    label = None if image is None else image.label
    if label is None or label.kind is LabelKind.OBJECTS:
        return {}
    names = {value: row.get(CLASS_NAME) for value, row in label.properties.items()}
    named = {value: name for value, name in names.items() if isinstance(name, str)}
    return named if len(named) <= MOST_CLASSES else {}


def _name_channels(node: Node, count: int, channel: int | None) -> tuple[str, ...]:
    """Name channels, with numbers where names are missing or equal."""
    if channel is None:
        return ("",)
    image = node.metadata.image
    omero = image.omero if image is not None else None
    listed = [each.label or "" for each in omero.channels] if omero is not None else []
    names = [listed[i] if i < len(listed) else "" for i in range(count)]
    unlike = [name if names.count(name) == 1 else "" for name in names]
    for i, name in enumerate(names):
        # Until no other channel has the name, as one may be called "1".
        free = (f"{name}{'_' * n}{i}" for n in itertools.count())
        unlike[i] = unlike[i] or next(x for x in free if x not in unlike)
    return tuple(unlike)
