"""Finds, joins and cuts single objects of a layer of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from napari_ngff.labels.edits import Edit
from napari_ngff.labels.label_objects import FILL_BUDGET, flood_region, split_object
from napari_ngff.labels.shapes import Mask
from napari_ngff.store.arrays.boxes import whole_box
from napari_ngff.viewer.private.napari_layers import painted_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.level_grid import Indices
    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.viewer.painting.canvas_labels import CanvasLabels
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

SEARCHED = 1 << 26
"""Voxels of the finest level that is searched for a label."""

MARGIN = 3.0
"""Size of the view relative to the object that is shown in it: with its neighbours."""


def label_at(layer: OMEZarrLabels, voxel: Sequence[int]) -> int:
    """Return the label of a voxel of level 0; 0 outside."""
    return _label_in(layer.canvas, voxel)


def _label_in(canvas: Canvas, voxel: Sequence[int]) -> int:
    if any(not 0 <= i < size for i, size in zip(voxel, canvas.shape, strict=True)):
        return 0
    return int(canvas.levels[0].read_points([[int(i)] for i in voxel])[0])


def neighbour_id(ids: Indices, label: int, step: int) -> int | None:
    """Return the next or the previous id of a sorted list; cyclic at its ends."""
    if not len(ids):
        return None
    if step > 0:
        index = int(np.searchsorted(ids, label, side="right"))
    else:
        index = int(np.searchsorted(ids, label, side="left")) - 1
    return int(ids[index % len(ids)])


def show_region(viewer: ViewerModel, layer: OMEZarrLabels, region: Box) -> None:
    """Centre the view on a region of level 0, and zoom so that it fits."""
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
    sizes = (high - low)[displayed][-2:] * MARGIN
    camera.zoom = float(np.min(np.array(viewer.canvas.size) / np.maximum(sizes, 1e-9)))


@dataclass(frozen=True, slots=True)
class ObjectRegrouping:
    """Prepared edits that join or cut objects.

    Attributes
    ----------
    canvas
        What the layer showed when the objects were looked for.
    labels
        For `join_objects` the label that the object had; for `cut_object` the label at
        each seed.
    """

    layer: OMEZarrLabels
    canvas: Canvas
    edits: tuple[Edit, ...]
    labels: tuple[int, ...]

    def apply_edits(self) -> tuple[int, ...]:
        """Apply the edits, in the main thread, as one step of undo; return `labels`.

        Raises
        ------
        ValueError
            Where the layer shows another field by now; nothing is changed then.
        """
        self.layer.apply_edits(self.edits, self.canvas)
        return self.labels


def join_objects(
    layer: OMEZarrLabels,
    voxel: Sequence[int],
    label: int,
    canvas: Canvas | None = None,
) -> ObjectRegrouping:
    """Prepare to give the connected object at a voxel another label.

    Slow, so in a worker; changes no label. `canvas` is what the layer showed when the
    user clicked: browsing may exchange it.

    Raises
    ------
    ValueError
        Where there is no object, or it has that label already, is locked or too large.
    """
    canvas = canvas or layer.canvas
    old = _label_in(canvas, voxel)
    if old in (0, label):
        raise ValueError("Click an object with another label.")
    _check_unlocked(layer, old)
    runs = flood_region(canvas.levels[0], voxel, _painted_axes(layer))
    if runs is None:
        msg = f"The object is larger than {FILL_BUDGET >> 20} million pixels."
        raise ValueError(msg)
    edit = _make_edit(layer, runs, voxel, label, old)
    return ObjectRegrouping(layer, canvas, (edit,), (old,))


def cut_object(
    layer: OMEZarrLabels,
    seeds: Sequence[Sequence[int]],
    canvas: Canvas | None = None,
) -> ObjectRegrouping:
    """Prepare to cut an object where it is narrowest between some of its voxels.

    The part at the first voxel keeps the label, the others get new ones. Slow, so in a
    worker; changes no label. `canvas` is as for `join_objects`.

    Raises
    ------
    ValueError
        See `napari_ngff.labels.label_objects.split_object`.
    """
    canvas = canvas or layer.canvas
    old = _label_in(canvas, seeds[0])
    if old == 0 or len(seeds) < 2:
        raise ValueError("Click two places of one object.")
    _check_unlocked(layer, old)
    axes = _painted_axes(layer)
    # Distances are in the unit of the axes: "narrowest" must not depend on the shape of
    # voxels.
    weights = [float(abs(layer.scale[axis])) for axis in axes]
    parts = split_object(canvas.levels[0], seeds, axes, weights)
    first = find_new_id(layer, canvas)
    labels = (old, *range(first, first + len(seeds) - 1))
    pairs = zip(parts[1:], labels[1:], strict=True)
    edits = tuple(_make_edit(layer, runs, seeds[0], new, old) for runs, new in pairs)
    return ObjectRegrouping(layer, canvas, edits, labels)


def find_new_id(layer: CanvasLabels, canvas: Canvas) -> int:
    """Return the first id above those of all pixels, classes and rows.

    Slow, so in a worker; `canvas` is as for `join_objects`.
    """
    classes = (item.value for item in layer.classes or ())
    return canvas.used.find_next((canvas.highest, *classes))


def _check_unlocked(layer: OMEZarrLabels, label: int) -> None:
    if label in layer.spared:
        raise ValueError(f"Label {label} is locked. Unlock it first.")


def _painted_axes(layer: OMEZarrLabels) -> tuple[int, ...]:
    """Return the axes that the tools paint on."""
    return tuple(painted_axes(layer))


def _make_edit(
    layer: OMEZarrLabels, runs: Indices, voxel: Sequence[int], label: int, old: int
) -> Edit:
    axes = _painted_axes(layer)
    fixed = tuple((i, int(voxel[i])) for i in range(layer.ndim) if i not in axes)
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
    canvas = layer.canvas
    levels = [level for level in canvas.levels if level.size <= SEARCHED]
    level = levels[0] if levels else canvas.levels[-1]
    low = np.array(level.shape)
    high = np.zeros(level.ndim, np.int64)
    whole = whole_box(level.shape)
    # Chunk by chunk, so that memory is that of one chunk.
    for chunk in level.chunks_in(whole):
        box = level.chunk_box(chunk)
        voxels = np.nonzero(level.read(box) == label)
        if len(voxels[0]):
            start = [a for a, _ in box]
            low = np.minimum(low, start + np.min(voxels, axis=1))
            high = np.maximum(high, start + np.max(voxels, axis=1) + 1)
    if (low >= high).any():
        raise ValueError(f"There is no voxel of label {label} in {layer.name}.")
    if level.number:
        # A voxel of a coarser level may leave out the outermost voxels of an object.
        low = np.maximum(low - 1, 0)
        high = np.minimum(high + 1, level.shape)
    return tuple(
        (int(level.grid.block_start(axis, a)), int(level.grid.block_start(axis, b)))
        for axis, (a, b) in enumerate(zip(low, high, strict=True))
    )
