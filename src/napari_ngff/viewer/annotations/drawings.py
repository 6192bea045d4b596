"""Paints the shapes of a shapes layer into labels of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.labels.edits import Edit
from napari_ngff.labels.shapes import Polygon, Stroke

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Shapes

    from napari_ngff.viewer.painting.paint import OMEZarrLabels

FLAT = 0.5
"""Voxels by which the corners of one shape may differ along other axes."""


def shapes_to_labels(
    viewer: ViewerModel, shapes: Shapes, into: OMEZarrLabels, label: int | None = None
) -> int:
    """Paint the selected shapes, or all of them, as one step of undo.

    While a drawing tool is in hand all are painted: napari selects the last one drawn.

    Rectangles, ellipses and polygons are filled as by the polygon tool, which counts
    the outline; lines and paths are drawn as wide as their edge.

    Parameters
    ----------
    viewer
        Its sliders give the plane of shapes with fewer axes.
    shapes
        On the labels' axes, or on the last of them.
    into
        Editable labels. Locked labels stay, and those that tools may not draw over.
    label
        Label for all shapes; by default each gets a new one.

    Returns
    -------
    int
        Number of painted shapes.

    Raises
    ------
    ValueError
        Where the labels are read-only, there is no shape, or one lies in no plane of
        the labels; nothing is painted then.
    """
    if into.refusal:
        raise ValueError(f"{into.name} cannot be edited: {into.refusal}")
    # All edits are made before the first is applied: an error leaves the labels
    # unchanged.
    edits = _make_edits(viewer, shapes, into, label)
    if not edits:
        raise ValueError(f"{shapes.name} has no shapes. Draw some.")
    into.apply_edits(edits, into.canvas)
    return len(edits)


def _make_edits(
    viewer: ViewerModel, shapes: Shapes, into: OMEZarrLabels, label: int | None
) -> list[Edit]:
    """Make the edits that paint the shapes that `shapes_to_labels` describes."""
    is_drawing = str(shapes.mode).startswith("add_")
    selected = [] if is_drawing else sorted(shapes.selected_data)
    chosen = selected or range(len(shapes.data))
    first = into.next_label() if label is None else label
    edits = []
    for number, index in enumerate(chosen):
        value = first + number if label is None else first
        edits.append(_make_edit(viewer, shapes, index, into, value))
    return edits


def _make_edit(
    viewer: ViewerModel, shapes: Shapes, index: int, into: OMEZarrLabels, label: int
) -> Edit:
    point = viewer.dims.point
    corners = []
    for corner in np.asarray(shapes.data[index]):
        world = tuple(shapes.data_to_world(corner))
        corners.append(into.world_to_data((*point[: len(point) - len(world)], *world)))
    # (corners, axes of the labels), in voxels of level 0.
    voxels = np.array(corners, float)
    axes, fixed = _find_plane(viewer, shapes, into, voxels)
    flat = voxels[:, axes]
    kind = shapes.shape_type[index]
    shape: Polygon | Stroke
    if kind in ("path", "line"):
        scale = np.abs(np.asarray(into.scale)[axes])
        # napari's edge width is in pixels of the shapes layer.
        width = shapes.edge_width[index] * np.abs(shapes.scale[-2:]).min()
        shape = _make_stroke(flat, max(width / scale.min(), 1.0), scale / scale.min())
    else:
        outline = ellipse_outline(flat) if kind == "ellipse" else flat
        points = tuple((int(y), int(x)) for y, x in np.round(outline))
        height, width = (into.canvas.shape[axis] for axis in axes)
        shape = Polygon(points, (height, width))
    source = into.only_over
    return Edit(shape, tuple(axes), fixed, label, source, True, into.list_spared())


def _find_plane(
    viewer: ViewerModel, shapes: Shapes, into: OMEZarrLabels, voxels: Any
) -> tuple[list[int], tuple[tuple[int, int], ...]]:
    """Return the painted axes of corners, and their index along the other axes."""
    missing = viewer.dims.ndim - into.ndim
    axes = sorted(axis - missing for axis in viewer.dims.displayed[-2:])
    others = [axis for axis in range(into.ndim) if axis not in axes]
    spread = np.ptp(voxels[:, others], axis=0)
    planes = np.round(voxels[0, others])
    sizes = np.take(into.canvas.shape, others)
    if (spread > FLAT).any() or (planes < 0).any() or (planes >= sizes).any():
        msg = (
            f"A shape of {shapes.name} is in no visible plane of {into.name}."
            " Draw it in one plane."
        )
        raise ValueError(msg)
    pairs = zip(others, planes, strict=True)
    return axes, tuple((axis, int(plane)) for axis, plane in pairs)


def ellipse_outline(corners: Any, count: int = 0) -> Any:
    """Return the outline of the ellipse in a box of four corners, turned or not.

    Parameters
    ----------
    count
        Number of its corners; by default so many that no edge is seen.
    """
    middle = corners.mean(axis=0)
    # Half axes of the ellipse: from the middle to the middles of two sides.
    first, second = (corners[1] - corners[0]) / 2, (corners[3] - corners[0]) / 2
    # One corner for each voxel of the circumference.
    around = 2 * np.pi * max(np.linalg.norm(first), np.linalg.norm(second))
    angle = np.linspace(0, 2 * np.pi, count or max(16, round(around)), endpoint=False)
    return middle + np.outer(np.cos(angle), first) + np.outer(np.sin(angle), second)


def _make_stroke(points: Any, width: float, weights: Any) -> Stroke:
    steps = np.abs(np.diff(points, axis=0)).max(axis=1) / width * 4
    return Stroke(
        tuple((float(y), float(x)) for y, x in points),
        tuple(max(1, round(float(step))) for step in steps),
        width / 2,
        tuple(float(weight) for weight in weights),
    )
