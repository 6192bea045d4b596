"""Merges labels that another plugin has made into the labels of an OME-Zarr.

One edit of any size, which can be undone; only blocks that differ are saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from napari_ngff.labels.edits import Edit
from napari_ngff.labels.raster import Raster
from napari_ngff.store.arrays.boxes import intersect_boxes, whole_box
from napari_ngff.viewer.annotations.memory_layers import note_saved
from napari_ngff.viewer.bridge.work_region import WORK, WorkRegion
from napari_ngff.viewer.layers.move_layers import world_matrix
from napari_ngff.viewer.painting.object_edits import find_new_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari.layers import Labels, Layer

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

How = Literal["untouched", "overwrite", "background", "extend", "add", "replace"]

HOW: dict[How, str] = {
    "untouched": "only objects that touch no label",
    "overwrite": "replace everything in the region",
    "background": "its objects, with their ids, where no label is yet",
    "extend": "its objects, with new ids, where no label is yet",
    "add": "its objects, with new ids, over existing labels",
    "replace": "replace one class by its objects",
}
"""Way of merging -> its name for the user."""

ROUND = 1e-3
"""Part of a voxel: positions that are nearer to a whole or half voxel are rounded."""


def worked_on(result: Layer, layers: Iterable[Layer]) -> Layer | None:
    """Return the plain layer that labels were made from, by shape and position.

    Some plugins copy scale and translation to their results; others return an array
    of the same shape. Of several plain layers that fit, the last added is returned.
    """
    if WORK in result.metadata:
        return result
    place, nowhere = world_matrix(result), np.eye(result.ndim + 1)
    fits = [
        layer
        for layer in layers
        if WORK in layer.metadata
        and tuple(layer.data.shape[: layer.ndim]) == tuple(result.data.shape)
        and layer.ndim == result.ndim
        and any(np.allclose(place, at) for at in (nowhere, world_matrix(layer)))
    ]
    return fits[-1] if fits else None


def merge(
    result: Labels,
    into: OMEZarrLabels,
    how: How = "untouched",
    *,
    value: int | None = None,
    like: Layer | None = None,
) -> int:
    """Merge labels into those of an OME-Zarr, as one edit that can be undone.

    Parameters
    ----------
    result
        Of one level, in memory; at any scale that the other's axes can follow. Of a
        coarser one each voxel of level 0 takes the nearest.
    into
        Editable labels; those that are locked stay.
    how
        "untouched": its objects with ids of their own, after the largest that is there;
        one that shares a voxel with a label is left out whole.
        "overwrite": all of the region becomes the result, its background too.
        "background": its objects with their ids, where there is no label yet.
        "extend": the same, with ids of their own.
        "add": its objects with ids of their own, over existing labels.
        "replace": what was `value` becomes background, and then its objects become
        `value` where there is background; other labels stay.
    like
        Layer of `work_here` with the position of the result; by default that of
        `result` itself.

    Returns
    -------
    int
        How much was added to the ids of the result; 0 where they stay.

    Raises
    ------
    ValueError
        Where the result has other values than whole numbers from 0 on, is outside of
        the labels or rotated against them, `value` is missing, or each object touches
        a label; nothing is changed.
    """
    return prepare_merge(result, into, how, value=value, like=like).apply_merge()


@dataclass(frozen=True, slots=True)
class PreparedMerge:
    """The edits of a merge, ready to be applied.

    Attributes
    ----------
    canvas
        What `into` showed when the merge was begun.
    shift
        How much was added to the ids of the result.
    left_out
        Number of objects that are left out.
    """

    result: Labels
    into: OMEZarrLabels
    canvas: Canvas
    edits: tuple[Edit, ...]
    shift: int = 0
    left_out: int = 0

    @property
    def place(self) -> str:
        """The plane that is changed, such as "t 0, z 3"; "" where there is no other."""
        planes = self.edits[0].fixed if self.edits else ()
        names, shape = self.into.axis_labels, self.canvas.shape
        return ", ".join(f"{names[axis]} {n}" for axis, n in planes if shape[axis] > 1)

    def apply_merge(self) -> int:
        """Apply the edits, in the main thread; return `shift`.

        Raises
        ------
        ValueError
            Where ids of the result were painted since, or the layer shows another
            field; nothing is changed then.
        """
        # Ids of the result were chosen in a worker; strokes since then may have taken
        # the same.
        if self.shift and self.canvas.highest > self.shift:
            msg = f"New labels were painted in {self.into.name} meanwhile. Merge again."
            raise ValueError(msg)
        self.into.apply_edits(self.edits, self.canvas)
        if not self.left_out:
            note_saved([self.result])
        return self.shift


def prepare_merge(
    result: Labels,
    into: OMEZarrLabels,
    how: How = "untouched",
    *,
    value: int | None = None,
    like: Layer | None = None,
    canvas: Canvas | None = None,
) -> PreparedMerge:
    """Do the slow part of `merge`, in a worker; changes no layer.

    `canvas` is what `into` showed when the user asked: browsing may exchange it.
    """
    canvas = canvas or into.canvas
    if into.refusal:
        raise ValueError(f"{into.name} cannot be edited: {into.refusal}")
    values = np.asarray(result.data)
    if values.dtype.kind == "b":
        # Masks of plugins: True becomes label 1.
        values = values.astype(np.uint8)
    if values.dtype.kind not in "iu" or (values.size and values.min() < 0):
        raise ValueError(f"{result.name} does not hold whole numbers from 0 on.")
    if how == "replace" and not value:
        raise ValueError("Choose the class to replace.")
    result_place = _find_place(result, into, like or result)
    shift = left_out = 0
    if how == "untouched":
        values, left_out = _leave_out_touching(values, result_place, into, canvas)
    if how == "overwrite" or how == "background":
        # The plugin may go on with its array, and an edit never changes.
        values = values.copy()
    elif how in ("untouched", "extend", "add"):
        shift = find_new_id(into, canvas) - 1
        top = int(values.max(initial=0)) + shift
        # In 64 bits, since the sum may not fit into the type of the result.
        values = np.where(values, values.astype(np.uint64) + np.uint64(shift), 0)
        # As small as possible: the values stay in memory, and in the journal, for as
        # long as the edit.
        values = values.astype(np.min_scalar_type(top))
    else:
        values = np.where(values, np.asarray(value), 0)
    edits = tuple(_make_edits(values, how, value, result_place, into))
    return PreparedMerge(result, into, canvas, edits, shift, left_out)


def _leave_out_touching(
    values: Any, place: _ResultPlace, into: OMEZarrLabels, canvas: Canvas
) -> tuple[Any, int]:
    """Clear the objects that share a voxel with a label; return how many that are."""
    (edit,) = _make_edits(values, "add", None, place, into)
    level, touching = canvas.levels[0], {0}
    region = intersect_boxes(edit.bbox, whole_box(level.shape))
    for chunk in level.chunks_in(region):
        box = intersect_boxes(region, level.chunk_box(chunk))
        there = level.read(box) != into.colormap.background_value
        if there.any():
            _, objects = edit.cover_and_values(level.grid, box)
            touching.update(np.unique(objects[there]).tolist())
    kept = np.where(np.isin(values, list(touching)), 0, values)
    if not kept.any():
        raise ValueError("The result has no object that touches no label.")
    return kept, len(touching) - 1


@dataclass(frozen=True, slots=True)
class _ResultPlace:
    """Position of a result in voxels of level 0, as in `Raster`.

    Attributes
    ----------
    origin, step
        Per axis of the result: edge of its first voxel, and size of a voxel.
    fixed
        Axis of the labels and index, for each axis that the result lacks.
    """

    origin: tuple[float, ...]
    step: tuple[float, ...]
    fixed: tuple[tuple[int, int], ...]


def _find_place(result: Labels, into: OMEZarrLabels, like: Layer) -> _ResultPlace:
    """Return the position of a result on the axes of labels."""
    work = like.metadata.get(WORK)
    before = np.array(work.before if isinstance(work, WorkRegion) else ())
    ndim, result_ndim = into.ndim, result.ndim
    missing = ndim - result_ndim
    if missing != len(before) and missing > 0:
        msg = (
            f"{result.name} has {result_ndim} axes and {into.name} {ndim}: give the"
            " plane with `like`."
        )
        raise ValueError(msg)
    if missing < 0 or like.ndim != result_ndim:
        raise ValueError(f"{result.name} has other axes than {into.name}.")
    # The origin and one voxel along each axis, then the matrix between both.
    points = np.vstack([np.zeros(result_ndim), np.eye(result_ndim)])
    corners = np.array(
        [into.world_to_data([*before, *like.data_to_world(point)]) for point in points]
    )
    first, linear = corners[0], (corners[1:] - corners[0]).T
    # Voxels of level 0 in one voxel of the result; off the diagonal there must be
    # nothing.
    step = np.diagonal(linear[missing:]).copy()
    rest = np.abs(linear).sum() - np.abs(step).sum()
    if (step <= 0).any() or rest > ROUND * np.abs(step).min():
        msg = (
            f"{result.name} is rotated or mirrored against {into.name}. Show both in"
            " one coordinate system, without rotation between them."
        )
        raise ValueError(msg)
    step = _round_values(step)
    # From the centre of the first voxel, where napari has its position, to its edge.
    origin = _round_values(first[missing:] - (step - 1) / 2)
    planes = np.round(first[:missing]).astype(int)
    return _ResultPlace(
        tuple(origin.tolist()),
        tuple(step.tolist()),
        tuple((axis, int(plane)) for axis, plane in enumerate(planes)),
    )


def _round_values(values: Any) -> Any:
    # Halves occur where an even number of voxels becomes one.
    halves = np.round(values * 2) / 2
    return np.where(np.abs(values - halves) < ROUND, halves, values)


def _make_edits(
    values: Any, how: How, value: int | None, place: _ResultPlace, into: OMEZarrLabels
) -> list[Edit]:
    """Make the edits of one merge."""
    offset, spared = len(place.fixed), into.list_spared()
    whole = Raster(values, place.origin, place.step)
    fixed = dict(place.fixed)
    kept = []
    shape = into.canvas.shape
    for axis, (start, stop) in enumerate(whole.bbox):
        size = shape[axis + offset]
        if start >= size or stop <= 0:
            raise ValueError(f"Nothing merged: the result is outside of {into.name}.")
        # One plane: an edit has fewer axes, and touches only the chunks of that plane.
        if stop - start == 1 and values.shape[axis] == 1:
            fixed[axis + offset] = start
        else:
            kept.append(axis)
    index = tuple(slice(None) if a in kept else 0 for a in range(values.ndim))
    if any(not 0 <= plane < shape[axis] for axis, plane in fixed.items()):
        raise ValueError(f"Nothing merged: the result is outside of {into.name}.")
    origin = tuple(place.origin[axis] for axis in kept)
    step = tuple(place.step[axis] for axis in kept)
    axes = tuple(axis + offset for axis in kept)

    def edit(pixels: Any, clear: int | None, source: int | None) -> Edit:
        raster = Raster(pixels[index], origin, step, clear)
        top = int(pixels.max(initial=0))
        planes = tuple(sorted(fixed.items()))
        return Edit(raster, axes, planes, top, source, False, spared)

    background = int(into.colormap.background_value)
    if how == "overwrite":
        return [edit(values, None, None)]
    if how == "add":
        return [edit(values, 0, None)]
    if how in ("untouched", "background", "extend"):
        return [edit(values, 0, background)]
    nothing = np.full((1,) * values.ndim, background, values.dtype)
    # A view of one value: an array of that size would double the memory.
    nothing = np.broadcast_to(nothing, values.shape)
    return [edit(nothing, None, value), edit(values, 0, background)]
