"""Fills an object between its sections, and copies it to the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.edits import Edit
from napari_ngff.labels.runs import mask_runs
from napari_ngff.labels.section_fill import fill_between, find_in_sections
from napari_ngff.labels.shapes import Everywhere, Mask
from napari_ngff.viewer.painting.object_edits import ObjectEdits, check_changeable
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.private.napari_layers import (
    shown_axes,
    slicing_of,
    world_transform,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel


def section_on_screen(
    viewer: ViewerModel, *, by_slider: bool
) -> tuple[int, ObjectEdits]:
    """Find the axis along which sections follow each other, and the section on screen.

    Parameters
    ----------
    by_slider
        Whether the axis is that of the slider that was moved last, if there are
        sections along it. Otherwise it is z, or time where there is no z: the last axis
        that is not on screen.

    Returns
    -------
    int
        The axis of the selected labels.
    ObjectEdits
        One edit, of the whole section with the selected label; it replaces background
        or the class that *Draw over* names.

    Raises
    ------
    ValueError
        Where no labels are selected, the label is locked or hidden, or there is one
        section.
    """
    layer = viewer.layers.selection.active
    if not isinstance(layer, OMEZarrLabels) or not layer.selected_label:
        raise ValueError("Select labels of an OME-Zarr, and a label other than 0.")
    if layer.refusal:
        raise ValueError(f"{layer.name} cannot be edited: {layer.refusal}")
    if by_slider and layer.ndim_shown == 3:
        raise ValueError("Show the labels in 2D: the section on screen is copied.")
    canvas, label = layer.canvas, int(layer.selected_label)
    check_changeable(layer, label)
    planes = tuple(sorted(shown_axes(layer)[-2:]))
    at = np.round(layer.world_to_data(viewer.dims.point)).astype(int).tolist()
    fixed = tuple((axis, index) for axis, index in enumerate(at) if axis not in planes)
    if not all(0 <= index < canvas.shape[axis] for axis, index in fixed):
        raise ValueError(f"{layer.name} has no labels at this place.")
    axes = [
        axis
        for axis, _ in fixed
        if canvas.shape[axis] > 1
        and layer.axis_labels[axis].lower() not in ("c", "channel")
    ]
    if not axes:
        raise ValueError(f"{layer.name} has one section: there is no other.")
    every = Everywhere(tuple(canvas.shape[axis] for axis in planes))
    # In sections that nobody sees, nothing is replaced that was not named.
    source = layer.only_source(label) or 0
    edit = Edit(every, planes, fixed, label, source, True, layer.list_spared())
    moved = viewer.dims.last_used + layer.ndim - viewer.dims.ndim
    axis = moved if by_slider and moved in axes else axes[-1]
    return axis, ObjectEdits(layer, canvas, (edit,), (label,), canvas.version)


def edit_sections(
    viewer: ViewerModel, report: Callable[[int, int], bool], step: int = 0
) -> ObjectEdits:
    """Prepare to fill the sections that lack the selected object between those with it.

    Slow, so in a worker; changes no label.

    Parameters
    ----------
    report
        Called with how many parts of the present work are done, and of how many;
        returns whether to continue.
    step
        If not 0, the object is copied instead, from the section on screen so many
        further.

    Returns
    -------
    ObjectEdits
        An edit of each section.

    Raises
    ------
    ValueError
        Where nothing can be painted, or the object is too large.
    """
    axis, here = section_on_screen(viewer, by_slider=step != 0)
    (whole,), sizes, level = here.edits, here.canvas.shape, here.canvas.levels[0]
    spans, axes = dict(enumerate(whole.bbox)), (axis, *whole.axes)
    if not step:
        spans[axis] = 0, sizes[axis]
    box, sections = tuple(spans.values()), range(sizes[axis])
    found = find_in_sections(level, box, axes, whole.label, report)
    if step:
        filled = {i + step: runs for i, runs in found.items() if i + step in sections}
    else:
        # Distances are in the unit of the axes: pixels need not be square.
        weights = [float(abs(here.layer.scale[a])) for a in whole.axes]
        filled = fill_between(found, [sizes[a] for a in whole.axes], weights, report)
    edits = []
    for index, runs in filled.items():
        place = dict(whole.fixed) | {axis: index}
        edit = replace(whole, shape=Mask(runs), fixed=tuple(place.items()))
        labels = level.read(edit.bbox)
        mask = edit.replaced_mask(labels) & edit.covered_voxels(level.grid, edit.bbox)
        if mask.any():
            starts = [start for start, _ in edit.shape.bbox]
            changed = mask_runs(mask.squeeze(tuple(place)), starts)
            edits.append(replace(edit, shape=Mask(changed)))
    if not edits:
        raise ValueError(
            f"There is no pixel of label {whole.label} here."
            if not found
            else "There is no section beyond this one, or between two with the object."
            if not filled
            else "All pixels there have this label, or one that Draw over keeps."
        )
    return replace(here, edits=tuple(edits))


def show_section(viewer: ViewerModel, edits: ObjectEdits) -> None:
    """Apply a copy of an object, and move the sliders to where it is."""
    edits.apply_edits()
    layer, dims = edits.layer, viewer.dims
    fixed = dict(edits.edits[0].fixed)
    voxel = layer.world_to_data(dims.point)
    voxel[list(fixed)] = list(fixed.values())
    world = layer.data_to_world(voxel)
    dims.set_point(
        [axis + dims.ndim - layer.ndim for axis in fixed],
        [float(world[axis]) for axis in fixed],
    )


def hatch_section(viewer: ViewerModel, edits: ObjectEdits | None) -> Any:
    """Return a line along each row of pixels that edits change on the section shown.

    Returns
    -------
    ndarray
        Both ends of each line, x and y of the world; axes (end, axis). Without any, and
        where the labels are others by now, one of no length.
    """
    if (
        edits is None
        or edits.layer.canvas is not edits.canvas
        or edits.version != edits.canvas.version
    ):
        return np.zeros((2, 2))
    layer, points = edits.layer, np.zeros((2, edits.layer.ndim))
    for edit in edits.edits:
        if dict(edit.fixed) == slicing_of(layer).planes:
            shape: Any = edit.shape
            rows, *ends = shape.runs.T
            points = np.tile([float(a) for a, _ in edit.bbox], (2 * len(rows), 1))
            points[:, edit.axes[0]] = np.repeat(rows, 2)
            points[:, edit.axes[1]] = np.stack(ends, axis=1).ravel() - 0.5
    return world_transform(layer)(points)[:, shown_axes(layer)[-2:][::-1]]
