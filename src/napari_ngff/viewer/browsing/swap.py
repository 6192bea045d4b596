"""Lets a layer show something else, in one picture.

The private names relied on are those of napari 0.9, and without them it is only
slower: ``_block_refresh`` of layers, and those of `NEEDLESS`.
"""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.viewer.painting.painted import exchange
from napari_ngff.viewer.picture import KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.layers import Layer

    from napari_ngff.viewer.picture import LayerData

__all__ = ["swap"]

PLACEMENT = ("scale", "translate", "axis_labels", "units")

NEEDLESS = {
    "_on_colormap_change": "compiles the shader of labels again",
    "_on_layers_change": "looks for the extent and the sliders of all layers",
    "_update_level_labels": "lays out the controls again",
}
"""What napari does when the data of a layer change, though nothing comes of it where
they are as large and of the type of those before."""


def swap(layer: Layer, data: LayerData) -> bool:
    """Let a layer show something else; False where it cannot.

    What is as large is shown in the part and at the level of what was there before:
    napari begins with the coarsest level each time, and draws twice.
    """
    levels, keywords, _ = data
    levels = levels if isinstance(levels, list) else [levels]
    if layer.ndim != levels[0].ndim or (not layer.multiscale and len(levels) > 1):
        return False
    sizes = [_size(level) for level in levels]
    alike = sizes == [_size(level) for level in _levels(layer)]
    corners, level = layer.corner_pixels, getattr(layer, "data_level", 0)
    locked = getattr(layer, "locked_data_level", None)
    # Each change would read, scale and upload the picture again.
    with getattr(layer, "_block_refresh", nullcontext)():
        with _unheard(layer) if alike else nullcontext():
            if not _exchanged(layer, data, levels):
                return False
        moved = _placed(layer, keywords)
        if locked is not None:
            layer.locked_data_level = locked
        elif alike and layer.multiscale:
            layer.corner_pixels = corners
            layer.data_level = level
    stays = alike and not moved
    layer.refresh(extent=not stays)
    if not (layer.visible or stays):
        # What is hidden keeps its old extent, and with it the home of the camera,
        # until it is placed anew (napari 0.9, unless it slices asynchronously).
        layer.scale = layer.scale
    return True


def _exchanged(layer: Layer, data: LayerData, levels: Sequence[Any]) -> bool:
    if layer._type_string == "labels":
        return exchange(layer, data)
    layer.metadata[KEY] = data[1]["metadata"][KEY]
    layer.data = levels if layer.multiscale else levels[0]
    return True


def _levels(layer: Layer) -> Sequence[Any]:
    found: Sequence[Any] = layer.data if layer.multiscale else [layer.data]
    return found


def _size(level: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return tuple(level.shape), np.dtype(level.dtype)


def _unheard(layer: Layer) -> ExitStack:
    """Let nobody do what is needless when the data of a layer change."""
    changed = layer.events.data
    stack = ExitStack()
    for callback in changed.callbacks:
        if isinstance(callback, tuple) and callback[1] in NEEDLESS:
            method = getattr(callback[0](), callback[1], None)
            if method is not None:
                stack.enter_context(changed.blocker(method))
    return stack


def _placed(layer: Layer, keywords: dict[str, Any]) -> bool:
    """Put a layer where it belongs; tells whether it was elsewhere."""
    moved = False
    for name in PLACEMENT:
        value = keywords.get(name)
        if value is not None and not _equal(getattr(layer, name), value):
            setattr(layer, name, value)
            moved = True
    affine = keywords.get("affine", np.eye(layer.ndim + 1))
    if not np.array_equal(layer.affine.affine_matrix, affine):
        layer.affine = affine
        moved = True
    return moved


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray):
        return bool(np.array_equal(first, np.asarray(second, float)))
    return tuple(map(str, first)) == tuple(map(str, second))
