"""What people made in a window and is in no file yet, of every kind: annotations."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Labels, Points, Shapes

from napari_ngff.viewer.layer_plan import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari.layers import Layer

    from napari_ngff.viewer.saving.layer_saver import LayerSaver
    from napari_ngff.viewer.saving.measured_tables import MeasuredTable

__all__ = [
    "Annotation",
    "follow_layer",
    "list_in_memory",
    "list_unsaved_labels",
    "note_saved",
]

MOST_LOOKED_AT = 1 << 22
"""Voxels that are looked at to find out whether a layer of labels is empty."""


@dataclass(frozen=True, slots=True, eq=False)
class Annotation:
    """Work of a person that is not saved, or not as it is now.

    Attributes
    ----------
    layer
        What it is in; None for a table.
    saver
        Of labels that are saved into their image; None for all else.
    table
        A measured table; None for all else.
    """

    layer: Any = None
    saver: LayerSaver | None = None
    table: MeasuredTable | None = None


def list_unsaved_labels(layers: Iterable[Any]) -> dict[Any, LayerSaver]:
    """List the layers with unsaved labels of images, with their savers."""
    savers = {layer: getattr(layer, "saver", None) for layer in layers}
    return {layer: saver for layer, saver in savers.items() if saver and layer.unsaved}


# Layers that hold what no file has; whether that came after they were added.
_in_memory: weakref.WeakKeyDictionary[Layer, bool] = weakref.WeakKeyDictionary()


def list_in_memory(layers: Iterable[Layer]) -> list[Layer]:
    """List points, shapes and napari's own labels that are only in memory."""
    return [layer for layer in layers if layer in _in_memory and not _is_empty(layer)]


def follow_layer(layer: Layer) -> None:
    """Follow the changes of points, shapes, or labels of napari's own.

    What was opened from a file, or made by this package of something that is in one,
    counts from its first change on.
    """
    if not isinstance(layer, Labels | Points | Shapes) or hasattr(layer, "saver"):
        return
    is_ours = any(str(key).startswith(KEY) for key in layer.metadata)
    if not (is_ours or layer.source.path or layer.source.sample):
        _in_memory.setdefault(layer, False)
    for name in ("data", "features", "paint"):
        if hasattr(layer.events, name):
            layer.events[name].connect(_note_change)


def _note_change(event: Any) -> None:
    _in_memory[event.source] = True


def note_saved(layers: Iterable[Layer]) -> None:
    """Note that layers were written, or handed on, as they are now."""
    for layer in layers:
        _in_memory.pop(layer, None)


def _is_empty(layer: Any) -> bool:
    """Return whether a layer has no points, shapes or labels; reads no file."""
    if not isinstance(layer, Labels):
        return not len(layer.data)
    data = layer.data[-1] if layer.multiscale else layer.data
    if not isinstance(data, np.ndarray):
        return False
    # Of a large layer, such as those of napari's button, every few voxels along each
    # axis: a result has larger objects. A stroke may be smaller.
    step = int(np.ceil((data.size / MOST_LOOKED_AT) ** (1 / data.ndim)))
    if step > 1 and _in_memory[layer]:
        return False
    return not data[(slice(None, None, max(step, 1)),) * data.ndim].any()
