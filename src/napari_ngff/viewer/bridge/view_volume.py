"""Shows a region of lazy layers in 3D: at a chosen level, as plain layers in memory.

napari shows volumes of a pyramid as a whole, and so at a coarse level; of a region the
finest one may fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from napari.layers import Image, Labels, Layer

from napari_ngff.store.arrays.boxes import Box, box_shape
from napari_ngff.viewer.bridge.handover import (
    RegionHandover,
    RegionKind,
    hand_over,
    region_of,
)
from napari_ngff.viewer.bridge.work_region import WORK, work_size
from napari_ngff.viewer.layers.volume_layers import (
    VOLUME,
    is_volume,
    note_copies,
    remove_copies,
    set_aside,
)
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streaming.prepared_volume import budget_of
from napari_ngff.viewer.streaming.regions import layer_point, level_shapes, whole_region

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel


MARGIN = 1.1
"""Size of the canvas relative to the volume that is shown in it."""


def view_in_3d(
    viewer: ViewerModel,
    layers: Sequence[Layer],
    region: Box | None = None,
    level: int = 0,
) -> list[Image | Labels]:
    """Show a region of layers in 3D; back in 2D the layers themselves are shown again.

    The region is removed then, unless its pixels or its name were changed.

    Parameters
    ----------
    viewer
        Viewer of the layers. Its sliders choose the place along axes not in view.
    layers
        Images and labels of ours.
    region
        ``(start, stop)`` per axis of the first layer, in voxels of its level 0; all by
        default. Through the whole depth where it is of one plane only.
    level
        Of the first layer; of the others that of the nearest size of voxels.

    Returns
    -------
    list of Image and Labels
        The plain layers that are shown; labels among them cannot be painted on.

    Raises
    ------
    ValueError
        Where there is no depth, or a layer takes more memory than is shown in 3D.
    """
    box = _add_depth(viewer, layers[0], region or whole_region(layers[0]))
    handover = _check_size(viewer, hand_over(layers, box, level))
    return show_volume(viewer, handover.read_region())


def plan_volume(
    viewer: ViewerModel, layers: Sequence[Layer], kind: RegionKind, level: int
) -> RegionHandover:
    """Plan what is to be read for `view_in_3d`, like `handover.plan_handover`.

    Raises
    ------
    ValueError
        Also as `view_in_3d`.
    """
    if viewer.dims.ndisplay == 3 and any(map(is_volume, viewer.layers)):
        raise ValueError("Switch back to 2D to choose another region.")
    region = region_of(viewer, layers, kind)
    box = _add_depth(viewer, layers[0], region)
    return _check_size(viewer, hand_over(layers, box, level))


def show_volume(
    viewer: ViewerModel, plain: Sequence[Image | Labels]
) -> list[Image | Labels]:
    """Replace the volumes of the last region by new ones, and switch to 3D."""
    session_of(viewer)  # brings back what is hidden here
    remove_copies(viewer)
    # Else napari reads them as a whole, too.
    set_aside(viewer, [x for x in viewer.layers if x.visible and x.multiscale])
    for layer in plain:
        work = layer.metadata.pop(WORK)
        layer.metadata[VOLUME] = work
        layer.name = f"{work.name} (3D, level {work.level})"
        viewer.add_layer(layer)
    # After the layers were added: before, napari would show the pyramids in 3D for a
    # moment.
    viewer.dims.ndisplay = 3
    _look_at(viewer, plain[0])
    for layer in plain:
        if isinstance(layer, Labels):
            # After `ndisplay` was changed, at which napari sets `editable` of labels
            # again.
            layer.editable = False
    note_copies(plain)
    return list(plain)


def _look_at(viewer: ViewerModel, layer: Layer) -> None:
    """Move the camera so that a volume fills the window."""
    # `reset_view` of layers with fewer axes than the viewer fails (napari 0.9).
    low, high = layer.extent.world[:, -3:]
    camera = viewer.scene.camera
    camera.angles = (0, 0, 0)
    camera.center = tuple((low + high) / 2)
    # Not 0, for a volume of one voxel along an axis.
    sizes = np.maximum(high - low, 1e-9)[-2:] * MARGIN
    camera.zoom = float(np.min(np.array(viewer.canvas.size) / sizes))


def _check_size(viewer: ViewerModel, handover: RegionHandover) -> RegionHandover:
    """Return a plan, or raise where a layer is too large to be shown in 3D."""
    budget = budget_of(viewer)
    parts = zip(handover.layers, handover.regions, handover.levels, strict=True)
    for layer, box, level in parts:
        size = work_size([layer], box, level)
        shapes = level_shapes(layer)
        factor = np.divide(shapes[0], shapes[level])
        side = max(np.ceil(box_shape(box) / factor))
        if size > budget.memory:
            msg = (
                f"{layer.name} takes {size / 2**20:.0f} MiB; up to"
                f" {budget.memory >> 20} MiB are shown in 3D. Choose a coarser level or"
                " a smaller region."
            )
            raise ValueError(msg)
        if side > budget.side:
            msg = (
                f"{layer.name} is {side:.0f} voxels long; up to {budget.side} are shown"
                " in 3D. Choose a coarser level or a smaller region."
            )
            raise ValueError(msg)
    return handover


def _add_depth(viewer: ViewerModel, layer: Layer, region: Box) -> Box:
    """Extend a region of one plane in depth; one index along axes not shown in 3D."""
    # Axes of the layer are the last ones of the viewer.
    missing = viewer.dims.ndim - layer.ndim
    axes = [axis - missing for axis in viewer.dims.order[-3:] if axis >= missing]
    sizes = level_shapes(layer)[0]
    if len(axes) < 3 or sizes[axes[0]] == 1:
        raise ValueError(f"{layer.name} is flat: there is nothing to see in 3D.")
    centre = np.round(layer_point(layer, viewer.dims.point)).astype(int)
    box = list(region)
    for axis, size in enumerate(sizes):
        start, stop = box[axis]
        if axis not in axes:
            middle = int(np.clip(centre[axis], 0, size - 1))
            box[axis] = (middle, middle + 1)
        elif axis == axes[0] and stop - start <= 1:
            box[axis] = (0, size)
    return tuple(box)
