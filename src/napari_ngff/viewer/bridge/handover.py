"""Plans which layers, region and level another plugin gets; exports for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from napari.layers import Image, Labels, Layer, Shapes

from napari_ngff.labels.object_export import (
    axis_letters,
    save_boxes,
    save_outlines,
    unit_of_boxes,
)
from napari_ngff.metadata.units import to_micrometers
from napari_ngff.viewer.bridge.work_region import WORK, work_here, work_size
from napari_ngff.viewer.layers.volume_layers import is_volume
from napari_ngff.viewer.painting.canvas_labels import CanvasLabels
from napari_ngff.viewer.painting.layer_classes import classes_of_layer
from napari_ngff.viewer.painting.object_edits import label_region
from napari_ngff.viewer.plans.layer_plan import KEY
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.streaming.regions import (
    level_shapes,
    rectangle_region,
    same_region,
    view_region,
    whole_region,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari.components import ViewerModel

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

RegionKind = Literal["view", "shapes", "label", "whole"]

REGIONS: dict[RegionKind, str] = {
    "view": "visible area",
    "shapes": "around the selected shapes",
    "label": "around the selected label",
    "whole": "whole layer",
}


@dataclass(frozen=True, slots=True)
class RegionHandover:
    """Layers, and what is to be read of each.

    Attributes
    ----------
    layers
        The region was chosen on the first one.
    regions
        Of each layer, in voxels of its level 0.
    levels
        Of each layer.
    nbytes
        Bytes of all plain layers together.
    """

    layers: tuple[Layer, ...]
    regions: tuple[Box, ...]
    levels: tuple[int, ...]
    nbytes: int

    def read_region(self) -> list[Image | Labels]:
        """Read the pixels and make plain layers; slow, so in a worker."""
        parts = zip(self.layers, self.regions, self.levels, strict=True)
        return [work_here(*part) for part in parts]


def list_sources(viewer: ViewerModel) -> list[Layer]:
    """List the layers to hand over: visible images of ours, then the active labels."""
    images = [
        layer
        for layer in viewer.layers
        if isinstance(layer, Image)
        and layer.visible
        and WORK not in layer.metadata
        # Pyramids of others as well: what they need is lazy data, not our origin.
        and (KEY in layer.metadata or layer.multiscale)
    ]
    active = viewer.layers.selection.active
    return [*images, *([active] if isinstance(active, CanvasLabels) else [])]


def list_here(viewer: ViewerModel) -> list[Layer]:
    """List the layers of a viewer but those that belong to a field that was left."""
    browser = session_of(viewer).browser
    if browser is None:
        return list(viewer.layers)
    here, position_of = (None, browser.position), browser.layers.position_of
    return [layer for layer in viewer.layers if position_of(layer) in here]


def list_results(viewer: ViewerModel) -> list[Labels]:
    """List the layers that can be merged: labels of one level, the last one first."""
    labels = [
        layer
        for layer in list_here(viewer)
        if isinstance(layer, Labels) and not (layer.multiscale or is_volume(layer))
    ]
    # The last one is most likely the result that was just made.
    return labels[::-1]


def plan_handover(
    viewer: ViewerModel, layers: Sequence[Layer], kind: RegionKind, level: int
) -> RegionHandover:
    """Plan what is to be read; reads no pixels, except to find a label.

    Parameters
    ----------
    layers
        See `list_sources`.
    kind
        One of `REGIONS`.
    level
        Of the first layer; of the others that of the nearest size of voxels.

    Raises
    ------
    ValueError
        Where there is no layer, no shape, or no such label; or nothing in sight.
    """
    return hand_over(layers, region_of(viewer, layers, kind), level)


def hand_over(layers: Sequence[Layer], region: Box, level: int) -> RegionHandover:
    """Plan what is to be read of a region of the first layer; reads no pixels."""
    first = layers[0]
    regions = tuple(
        region if layer is first else same_region(first, region, layer)
        for layer in layers
    )
    levels = tuple(_level_like(layer, first, level) for layer in layers)
    sizes = [
        work_size([layer], box, number)
        for layer, box, number in zip(layers, regions, levels, strict=True)
    ]
    return RegionHandover(tuple(layers), regions, levels, sum(sizes))


def region_of(viewer: ViewerModel, layers: Sequence[Layer], kind: RegionKind) -> Box:
    """Return the chosen region, in voxels of level 0 of the first layer.

    Raises
    ------
    ValueError
        See `plan_handover`.
    """
    if not layers:
        raise ValueError("Open an image of an OME-Zarr, and make it visible.")
    first, last = layers[0], layers[-1]
    if kind == "view":
        return view_region(viewer, first)
    if kind == "whole":
        return whole_region(first)
    if kind == "label":
        if not isinstance(last, CanvasLabels):
            raise ValueError("Select the labels.")
        return same_region(last, label_region(last, int(last.selected_label)), first)
    # A selected layer of shapes first, else the topmost: often there is only one.
    drawn = [x for x in list_here(viewer)[::-1] if isinstance(x, Shapes)]
    shapes = sorted(drawn, key=lambda x: x not in viewer.layers.selection)
    if not shapes:
        raise ValueError("Add a shapes layer, and draw a rectangle.")
    return rectangle_region(viewer, first, shapes[0])


def _level_like(layer: Layer, first: Layer, level: int) -> int:
    """Return the level whose voxels are closest in size to those of another layer."""
    shapes = level_shapes(first)
    if layer is first or not layer.multiscale:
        return level if layer is first else 0
    # Size of a voxel per axis; a scale may be negative, as of a flipped image.
    wanted = np.divide(shapes[0], shapes[level]) * np.abs(first.scale)
    layer_shapes = level_shapes(layer)
    sizes = [
        np.divide(layer_shapes[0], shape) * np.abs(layer.scale)
        for shape in layer_shapes
    ]
    # By ratio along y and x: half as large is as far away as twice as large.
    away = [float(np.abs(np.log(size[-2:] / wanted[-2:])).sum()) for size in sizes]
    return int(np.argmin(away))


def export_outlines(
    layer: OMEZarrLabels,
    path: str,
    level: int = 0,
    cancel: Callable[[], bool] = lambda: False,
) -> str:
    """Write the outlines of all objects, with unsaved edits, as GeoJSON for QuPath.

    Slow: in a worker. Return what was written. See
    `napari_ngff.labels.object_export.save_outlines`.
    """
    classes, axes = classes_of_layer(layer).items, axis_letters(layer.axis_labels)
    count = save_outlines(path, layer.canvas.levels[level], axes, classes, cancel)
    return f"Objects written to {path}: {count}."


def export_boxes(
    layer: OMEZarrLabels,
    path: str,
    level: int = 0,
    cancel: Callable[[], bool] = lambda: False,
) -> str:
    """Write the bounding boxes of all labels, with unsaved edits, as CSV.

    They count from the first voxel. Slow: in a worker. Return what was written, in
    which unit. See `napari_ngff.labels.object_export.save_boxes`.
    """
    # From scale and unit of napari; its "pixel" is no length.
    pixel = [*map(to_micrometers, layer.scale.tolist(), map(str, layer.units))]
    axes = axis_letters(layer.axis_labels)
    count = save_boxes(path, layer.canvas.levels[level], axes, pixel, cancel)
    return f"Objects written to {path}: {count}, in {unit_of_boxes(axes, pixel)}s."
