"""Finds, joins, cuts and deletes single objects of a layer of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.edits import Edit
from napari_ngff.labels.label_objects import ONE_PLACE, find_object, split_object
from napari_ngff.labels.shapes import Mask
from napari_ngff.metadata.units import TIME_UNITS
from napari_ngff.store.arrays.boxes import Box, box_shape, intersect_boxes
from napari_ngff.viewer.painting.line_of_sight import is_drawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.canvas_level import CanvasLevel
    from napari_ngff.labels.level_grid import Indices
    from napari_ngff.viewer.painting.canvas_labels import CanvasLabels
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

SEARCHED = 1 << 26
"""Voxels of the finest level that is searched for a label."""

MARGIN = 3.0
HIDDEN = "These labels are hidden. Show them first."
"""Widths of an object that are left on each side of it: with its neighbours."""

NOT_FOUND = "There is no voxel of label {} in {}."

# Names of axes along which an object does not go.
NO_SPACE = ("t", "time", "c", "channel")


def label_at(layer: OMEZarrLabels, voxel: Sequence[int]) -> int:
    """Return the label of a voxel of level 0; 0 outside."""
    return _label_in(layer.canvas, voxel)


def _label_in(canvas: Canvas, voxel: Sequence[int]) -> int:
    if any(not 0 <= i < size for i, size in zip(voxel, canvas.shape, strict=True)):
        return 0
    return int(canvas.levels[0].read_points([[int(i)] for i in voxel])[0])


def show_region(
    viewer: ViewerModel, layer: Layer, region: Any, margin: float = MARGIN
) -> None:
    """Centre the view on a region of level 0, and zoom so that it fits with a margin.

    The view is not made larger than the labels for that.
    """
    # From the outer edge of the first voxel to that of the last; (2, axes).
    ends = np.array(region, float).T - 0.5
    low, high = (np.array(layer.data_to_world(end)) for end in ends)
    # A flipped layer has its ends the other way round.
    low, high = np.minimum(low, high), np.maximum(low, high)
    missing = viewer.dims.ndim - layer.ndim
    middle = (low + high) / 2
    viewer_axes = list(viewer.dims.displayed)
    for axis, coordinate in enumerate(middle, missing):
        if axis not in viewer_axes:
            viewer.dims.set_point(axis, coordinate)
    displayed = [axis - missing for axis in viewer_axes if axis >= missing]
    camera = viewer.scene.camera
    center = list(camera.center)
    center[-len(displayed) :] = middle[displayed]
    camera.center = tuple(center)
    whole = np.diff(layer.extent.world, axis=0)[0]
    sizes = np.minimum((high - low) * (1 + 2 * margin), whole)[displayed][-2:]
    camera.zoom = float(np.min(np.array(viewer.canvas.size) / np.maximum(sizes, 1e-9)))


@dataclass(frozen=True, slots=True)
class ObjectEdits:
    """Prepared edits that join, cut, delete or fill objects.

    Attributes
    ----------
    canvas
        What the layer showed when the objects were looked for.
    labels
        For `cut_object` the label at each seed; for the others the label that the
        object had.
    version
        Of the canvas, if edits made since then would be painted over.
    """

    layer: OMEZarrLabels
    canvas: Canvas
    edits: tuple[Edit, ...]
    labels: tuple[int, ...]
    version: int | None = None

    def apply_edits(self) -> tuple[int, ...]:
        """Apply the edits, in the main thread, as one step of undo; return `labels`.

        Raises
        ------
        ValueError
            Where the layer shows another field by now, was edited since `version`, or
            cannot be edited; nothing is changed then.
        """
        if self.version not in (None, self.canvas.version):
            raise ValueError(f"{self.layer.name} was changed meanwhile. Begin again.")
        self.layer.apply_edits(self.edits, self.canvas)
        return self.labels


def join_objects(
    layer: OMEZarrLabels,
    voxel: Sequence[int],
    label: int,
    canvas: Canvas | None = None,
) -> ObjectEdits:
    """Prepare to give the object at a voxel another label, as `delete_object` gives 0.

    Slow, so in a worker; changes no label. `canvas` is what the layer showed when the
    user clicked: browsing may exchange it.

    Raises
    ------
    ValueError
        Where there is no object, or it has that label already, is locked, hidden or
        too large.
    """
    canvas = canvas or layer.canvas
    old = _label_in(canvas, voxel)
    if old in (0, label):
        raise ValueError("Click an object with another label.")
    _check_unlocked(layer, label)
    return _replace_object(layer, canvas, voxel, (old, label), voxel)


def delete_object(
    layer: OMEZarrLabels,
    voxel: Sequence[int],
    label: int | None = None,
    canvas: Canvas | None = None,
) -> ObjectEdits:
    """Prepare to remove all voxels of a label, in all planes of one time point.

    Slow, so in a worker; changes no label. `canvas` is as for `join_objects`.

    Parameters
    ----------
    voxel
        Index on all axes: of the time point, and of the object without a `label`.

    Raises
    ------
    ValueError
        Where there is no such object, or it is locked, hidden or too large.
    """
    canvas = canvas or layer.canvas
    old = _label_in(canvas, voxel) if label is None else label
    if old == 0:
        raise ValueError("Click or choose an object: 0 is the background.")
    seen = voxel if label is None else None
    return _replace_object(layer, canvas, voxel, (old, 0), seen)


def _replace_object(
    layer: OMEZarrLabels,
    canvas: Canvas,
    voxel: Sequence[int],
    labels: tuple[int, int],
    seen: Sequence[int] | None,
) -> ObjectEdits:
    """Prepare to replace all voxels of a label at the time point of a voxel.

    Parameters
    ----------
    labels
        That of the object, and the one that its voxels get.
    seen
        A voxel of the object; None where it is to be looked for.
    """
    old, new = labels
    check_changeable(layer, old)
    axes, level = space_axes(layer), canvas.levels[0]
    planes = {a: int(i) for a, i in enumerate(voxel) if a not in axes}
    if not all(0 <= i < level.shape[a] for a, i in planes.items()):
        raise ValueError(f"{layer.name} has no labels at this time point.")
    region = _find_region(layer, canvas, old, planes, seen)
    spans = dict(enumerate(region)) | {a: (i, i + 1) for a, i in planes.items()}
    runs = find_object(level, voxel, axes, old, level.chunks_in(tuple(spans.values())))
    if not len(runs):
        raise ValueError(NOT_FOUND.format(old, layer.name))
    edit = _make_edit(runs, axes, voxel, new, old)
    return ObjectEdits(layer, canvas, (edit,), (old,))


def cut_object(
    layer: OMEZarrLabels,
    seeds: Sequence[Sequence[int]],
    canvas: Canvas | None = None,
) -> ObjectEdits:
    """Prepare to cut an object where it is narrowest between some of its voxels.

    It is cut in all planes of the time point. The part at the first voxel keeps the
    label, the others get new ones. Slow, so in a worker; changes no label. `canvas` is
    as for `join_objects`.

    Raises
    ------
    ValueError
        Where the object is locked or hidden; see
        `napari_ngff.labels.label_objects.split_object` for others.
    """
    canvas = canvas or layer.canvas
    old = _label_in(canvas, seeds[0])
    if old == 0 or len(seeds) < 2:
        raise ValueError("Click two places of one object.")
    if any(_label_in(canvas, seed) != old for seed in seeds):
        raise ValueError(ONE_PLACE)
    check_changeable(layer, old)
    axes = space_axes(layer)
    # Distances are in the unit of the axes: "narrowest" must not depend on the shape of
    # voxels.
    weights = [float(abs(layer.scale[axis])) for axis in axes]
    parts = split_object(canvas.levels[0], seeds, axes, weights)
    first = find_new_id(layer, canvas)
    labels = (old, *range(first, first + len(seeds) - 1))
    pairs = zip(parts[1:], labels[1:], strict=True)
    edits = tuple(_make_edit(runs, axes, seeds[0], new, old) for runs, new in pairs)
    return ObjectEdits(layer, canvas, edits, labels)


def find_new_id(layer: OMEZarrLabels, canvas: Canvas) -> int:
    """Return the first id above those of all pixels, classes and rows.

    Slow, so in a worker; `canvas` is as for `join_objects`.
    """
    classes = (item.value for item in layer.classes or ())
    classified = layer.object_classes().highest
    return canvas.used.find_next((canvas.highest, *classes, classified))


def check_changeable(layer: OMEZarrLabels, label: int) -> None:
    """Raise ValueError where a label, or its class, is locked or hidden."""
    _check_unlocked(layer, label)
    if not layer.visible:
        raise ValueError(HIDDEN)
    if not is_drawn(label, layer.colormap):
        raise ValueError(f"Label {label} is hidden. Show it first.")


def _check_unlocked(layer: OMEZarrLabels, label: int) -> None:
    if label in layer.spared:
        raise ValueError(f"Label {label} is locked. Unlock it first.")
    layer.object_classes().check_unlocked(np.array([label]))


def space_axes(layer: OMEZarrLabels) -> tuple[int, ...]:
    """Return the axes of one object: at each time point it is another."""
    named = zip(layer.axis_labels, map(str, layer.units), strict=True)
    return tuple(
        axis
        for axis, (name, unit) in enumerate(named)
        if name.lower() not in NO_SPACE and unit not in TIME_UNITS
    )[-3:]


def is_same_time(
    layer: OMEZarrLabels, voxel: Sequence[int], other: Sequence[int]
) -> bool:
    """Return whether two voxels are at one time point: they differ in space alone."""
    differing = {axis for axis in range(layer.ndim) if voxel[axis] != other[axis]}
    return differing.issubset(space_axes(layer))


def _make_edit(
    runs: Indices, axes: tuple[int, ...], voxel: Sequence[int], label: int, old: int
) -> Edit:
    fixed = tuple((i, int(at)) for i, at in enumerate(voxel) if i not in axes)
    return Edit(Mask(runs), axes, fixed, label, old, True)


def label_region(layer: CanvasLabels, label: int) -> Box:
    """Return the bounding box of a label.

    Exact where level 0 has at most `SEARCHED` voxels. Otherwise the finest level with
    at most that many is searched, and the box is one voxel of that level wider:
    objects that this level does not show are not found.

    Raises
    ------
    ValueError
        Where it is not found.
    """
    return _find_region(layer, layer.canvas, label, {})


def _find_region(
    layer: CanvasLabels,
    canvas: Canvas,
    label: int,
    planes: Mapping[int, int],
    seen: Sequence[int] | None = None,
) -> Box:
    """Return the bounding box of a label in some planes, and of a voxel seen there."""
    level, cut = searched_level(canvas, planes)
    low, high = np.array(level.shape), np.zeros(level.ndim, np.int64)
    if seen is not None:
        low = np.array([level.grid.holder_index(*place) for place in enumerate(seen)])
        high = low + 1
    # Chunk by chunk, so that memory is that of one chunk.
    for chunk in level.chunks_in(cut):
        box = intersect_boxes(cut, level.chunk_box(chunk))
        voxels = np.nonzero(level.read(box) == label)
        if len(voxels[0]):
            start = [a for a, _ in box]
            low = np.minimum(low, start + np.min(voxels, axis=1))
            high = np.maximum(high, start + np.max(voxels, axis=1) + 1)
    if (low >= high).any():
        raise ValueError(NOT_FOUND.format(label, layer.name))
    return widen_box(level, low, high)


def searched_level(
    canvas: Canvas, planes: Mapping[int, int]
) -> tuple[CanvasLevel, Box]:
    """Find the finest level that can be searched, and the part in some planes of it.

    Parameters
    ----------
    planes
        Index on level 0, by axis.
    """
    for level in canvas.levels:
        cut = tuple(
            (at := level.grid.plane_index(axis, planes[axis]), at + 1)
            if axis in planes
            else (0, size)
            for axis, size in enumerate(level.shape)
        )
        # Levels go from fine to coarse; the last one is searched at any size.
        if math.prod(box_shape(cut)) <= SEARCHED:
            break
    return level, cut


def widen_box(level: CanvasLevel, low: Any, high: Any) -> Box:
    """Return the box of level 0 of an object that goes from `low` to before `high`."""
    if level.number:
        # A voxel of a coarser level may leave out the outermost voxels of an object.
        low = np.maximum(low - 1, 0)
        high = np.minimum(high + 1, level.shape)
    return tuple(
        (int(level.grid.block_start(axis, a)), int(level.grid.block_start(axis, b)))
        for axis, (a, b) in enumerate(zip(low, high, strict=True))
    )
