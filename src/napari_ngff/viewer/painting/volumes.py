"""Chooses the level of a pyramid that is shown in 3D: the finest that fits a budget.

napari shows the coarsest; a volume has to be on the graphics card as a whole.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.viewer.bridge.regions import level_shapes
from napari_ngff.viewer.layer_plan import KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

__all__ = [
    "BUDGET",
    "SIDE",
    "VOLUME",
    "bring_back",
    "finest_fitting",
    "fit_volume",
    "fit_volumes",
    "is_volume",
    "set_aside",
]

BUDGET = 128 << 20
"""Bytes of one layer's volume. napari reads it in the main thread."""

SIDE = 2048
"""Voxels per axis that a texture of three axes holds on most machines."""

VOLUME = "ome-zarr-volume"
"""Key of the ``metadata`` of a region in 3D, under which its `WorkRegion` is."""


def finest_fitting(layer: Layer, axes: Sequence[int], budget: int = BUDGET) -> int:
    """Choose the finest level whose volume fits; the coarsest where none does.

    Parameters
    ----------
    axes
        Displayed axes of the layer.
    budget
        In bytes.
    """
    shapes = level_shapes(layer)
    # Bytes of a voxel, with its three colours.
    voxel = np.dtype(layer.dtype).itemsize * (3 if getattr(layer, "rgb", False) else 1)
    for level, shape in enumerate(shapes):
        sides = [shape[axis] for axis in axes]
        # Both are limits of the card: the length of a texture and its memory.
        if max(sides) <= SIDE and int(np.prod(sides)) * voxel <= budget:
            return level
    return len(shapes) - 1


def fit_volume(viewer: ViewerModel, layer: Layer) -> None:
    """Lock the level of a pyramid of ours in 3D; in 2D let the zoom choose again.

    A level that the user has locked stays.
    """
    if not layer.multiscale or KEY not in layer.metadata:
        return
    if viewer.dims.ndisplay == 3 and layer.locked_data_level is None:
        missing = viewer.dims.ndim - layer.ndim
        axes = [axis - missing for axis in viewer.dims.displayed if axis >= missing]
        level = finest_fitting(layer, axes)
        if axes and level < len(layer.data) - 1:
            _fitted[layer] = level
            layer.locked_data_level = level
    elif viewer.dims.ndisplay == 2:
        fitted = _fitted.pop(layer, None)
        # Only the level that was locked here; another one was chosen by the user
        # meanwhile.
        if fitted is not None and layer.locked_data_level == fitted:
            layer.locked_data_level = None


def fit_volumes(viewer: ViewerModel) -> None:
    """Call `fit_volume` for all layers, after switching between 2D and 3D."""
    for layer in viewer.layers:
        if layer._type_string in ("image", "labels"):
            fit_volume(viewer, layer)


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
_fitted: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
