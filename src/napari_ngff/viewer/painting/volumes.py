"""Hides layers while an extracted region is shown in 3D, and shows them again."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari.components import ViewerModel
    from napari.layers import Layer

__all__ = [
    "VOLUME",
    "bring_back",
    "is_volume",
    "set_aside",
]

VOLUME = "ome-zarr-volume"
"""Key of the ``metadata`` of a region in 3D, under which its `WorkRegion` is."""


def is_volume(layer: Layer) -> bool:
    """Return whether a layer is a region that was extracted to be shown in 3D."""
    return VOLUME in layer.metadata


def set_aside(viewer: ViewerModel, layers: Iterable[Layer]) -> None:
    """Hide layers, and note the selected one, until the viewer is switched to 2D."""
    hidden = _aside[viewer] = weakref.WeakSet(layers)
    active = viewer.layers.selection.active
    _selected[viewer] = weakref.WeakSet([] if active is None else [active])
    for layer in hidden:
        layer.visible = False


def bring_back(viewer: ViewerModel) -> None:
    """Show and select the layers of `set_aside` again in 2D; hide extracted regions."""
    if viewer.dims.ndisplay != 2:
        return
    hidden = _aside.pop(viewer, ())
    for layer in [*hidden, *(filter(is_volume, viewer.layers) if hidden else ())]:
        layer.visible = not is_volume(layer)
    selection = viewer.layers.selection
    for layer in _selected.pop(viewer, ()):
        # Another layer that the user has selected meanwhile stays selected.
        if layer in viewer.layers and (
            selection.active is None or is_volume(selection.active)
        ):
            selection.active = layer


_aside: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Any]] = (
    weakref.WeakKeyDictionary()
)
_selected: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Any]] = (
    weakref.WeakKeyDictionary()
)
