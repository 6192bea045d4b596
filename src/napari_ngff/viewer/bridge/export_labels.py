"""Exports labels of a layer as files for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_ngff.labels.object_export import (
    axis_letters,
    save_boxes,
    save_outlines,
    unit_of_boxes,
)
from napari_ngff.metadata.units import to_micrometers
from napari_ngff.viewer.painting.layer_classes import classes_of_layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.labels.canvas_level import CanvasLevel
    from napari_ngff.viewer.painting.paint import OMEZarrLabels


def export_outlines(
    layer: OMEZarrLabels,
    path: str,
    level: int = 0,
    cancel: Callable[[], bool] | None = None,
) -> str:
    """Write the outlines of all objects, with unsaved edits, as GeoJSON for QuPath.

    Slow: in a worker. Return what was written. See
    `napari_ngff.labels.object_export.save_outlines`.
    """
    classes = classes_of_layer(layer).items
    count = save_outlines(
        path,
        _export_level(layer, level),
        axis_letters(layer.axis_labels),
        classes,
        cancel,
    )
    return f"Objects written to {path}: {count}."


def export_boxes(
    layer: OMEZarrLabels,
    path: str,
    level: int = 0,
    cancel: Callable[[], bool] | None = None,
) -> str:
    """Write the bounding boxes of all labels, with unsaved edits, as CSV.

    They count from the first voxel. Slow: in a worker. Return what was written, in
    which unit. See `napari_ngff.labels.object_export.save_boxes`.
    """
    # From scale and unit of napari; its "pixel" is no length.
    pixel = [*map(to_micrometers, layer.scale.tolist(), map(str, layer.units))]
    axes = axis_letters(layer.axis_labels)
    count = save_boxes(path, _export_level(layer, level), axes, pixel, cancel)
    return f"Objects written to {path}: {count}, in {unit_of_boxes(axes, pixel)}s."


def _export_level(layer: OMEZarrLabels, number: int) -> CanvasLevel:
    levels = layer.canvas.levels
    if not 0 <= number < len(levels):
        msg = f"{layer.name} has no level {number}, only 0 to {len(levels) - 1}."
        raise ValueError(msg)
    return levels[number]
