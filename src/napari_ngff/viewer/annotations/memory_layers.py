"""Points, shapes and labels of napari's own that are only in memory."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Labels, Points, Shapes
from typing_extensions import override

from napari_ngff.viewer.annotations.annotations import Annotation, AnnotationState
from napari_ngff.viewer.plans.layer_plan import KEY, layer_kind
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari.layers import Layer

    from napari_ngff.viewer.annotations.annotations import Annotations

MOST_LOOKED_AT = 1 << 22
"""Voxels that are looked at to find out whether a layer of labels is empty."""


class MemoryAnnotation(Annotation):
    """A layer that is in no file; napari's dialog saves it.

    Only a window that has an image of ours asks about it, when it closes.
    """

    asks_for_file = True

    @classmethod
    @override
    def attach(cls, owner: Annotations, layer: Layer) -> None:
        is_drawn = isinstance(layer, Labels | Points | Shapes)
        if not is_drawn or owner.of_layer(layer) is not None:
            return
        is_ours = any(str(key).startswith(KEY) for key in layer.metadata)
        if not (is_ours or layer.source.path or layer.source.sample):
            _in_memory.setdefault(layer, False)
        for name in ("data", "features", "paint"):
            if hasattr(layer.events, name):
                layer.events[name].connect(_note_change)
        owner.add(cls(owner, layer))

    @property
    @override
    def title(self) -> str:
        field = self.owner.title_of(self.layer)
        of_field = f" of {field}" if field else ""
        return f"{layer_kind(self.layer)} '{self.name}'{of_field}"

    @property
    @override
    def state(self) -> AnnotationState:
        is_known = self.owner.has_images and self.layer in _in_memory
        return AnnotationState(is_known and not _is_empty(self.layer))

    def goes_with(self, layers: Iterable[Any]) -> bool:
        """Return False: nothing is asked when only layers are removed."""
        return False

    @override
    def save(self, *, quiet: bool = False) -> None:
        viewer = self.owner.viewer
        viewer.layers.selection.active = self.layer
        Window.current.ask_layer_file(viewer)

    @override
    def note_written(self) -> None:
        note_saved([self.layer])


# Layers that hold what no file has; whether that came after they were added.
_in_memory: weakref.WeakKeyDictionary[Layer, bool] = weakref.WeakKeyDictionary()


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
