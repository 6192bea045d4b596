"""Exports labels of a layer as files for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from napari_ngff.labels.object_export import save_boxes, save_outlines
from napari_ngff.viewer.painting.layer_classes import classes_of_layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.labels.canvas_level import CanvasLevel
    from napari_ngff.viewer.painting.paint import OMEZarrLabels

__all__ = ["export_boxes", "export_outlines"]

MICROMETER = "micrometer"


def export_outlines(
    layer: OMEZarrLabels,
    path: str,
    level: int = 0,
    cancel: Callable[[], bool] | None = None,
) -> int:
    """Write the outlines of all objects, with unsaved edits, as GeoJSON for QuPath.

    Slow: in a worker. See `napari_ngff.labels.object_export.save_outlines`.
    """
    classes = classes_of_layer(layer).items
    return save_outlines(
        path, _export_level(layer, level), _axis_letters(layer), classes, cancel
    )


def export_boxes(
    layer: OMEZarrLabels,
    path: str,
    level: int = 0,
    cancel: Callable[[], bool] | None = None,
) -> int:
    """Write the bounding boxes of all labels, with unsaved edits, as CSV.

    Micrometres count from the first voxel. Slow: in a worker. See
    `napari_ngff.labels.object_export.save_boxes`.
    """
    pixel = [
        # Per axis of the layer, from scale and unit of napari; a flip does not change a
        # length.
        _to_micrometers(abs(float(scale)), unit)
        for scale, unit in zip(layer.scale, layer.units, strict=True)
    ]
    return save_boxes(
        path, _export_level(layer, level), _axis_letters(layer), pixel, cancel
    )


def _export_level(layer: OMEZarrLabels, number: int) -> CanvasLevel:
    levels = layer.canvas.levels
    if not 0 <= number < len(levels):
        msg = f"{layer.name} has no level {number}, only 0 to {len(levels) - 1}."
        raise ValueError(msg)
    return levels[number]


def _axis_letters(layer: OMEZarrLabels) -> str:
    """Return a letter for each axis: its own name, or a usual one if that is longer."""
    names = [str(name).lower() for name in layer.axis_labels]
    plain = all(len(name) == 1 for name in names) and len(set(names)) == len(names)
    return "".join(names) if plain else "uvwtzyx"[-layer.ndim :]


def _to_micrometers(size: float, unit: Any) -> float:
    length = size * unit
    compatible = length.check("[length]")
    # Pixels stay pixels: there is no length to convert.
    return float(length.to(MICROMETER).magnitude) if compatible else size
