"""Which level of a pyramid is shown in 3D: the finest one that fits into a budget.

napari shows the coarsest; a volume is on the graphics card as a whole.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.viewer.bridge.regions import level_shapes
from napari_ngff.viewer.picture import KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

__all__ = ["BUDGET", "SIDE", "finest_fitting", "fit_volume", "fit_volumes"]

BUDGET = 128 << 20
"""Bytes of one layer's volume. napari reads it in the main thread."""

SIDE = 2048
"""Voxels per axis that a texture of three axes holds on most machines."""


def finest_fitting(layer: Layer, axes: Sequence[int], budget: int = BUDGET) -> int:
    """Choose the finest level whose volume fits; the coarsest where none does.

    Parameters
    ----------
    axes
        Of the layer, that are shown.
    budget
        Bytes.
    """
    shapes = level_shapes(layer)
    voxel = np.dtype(layer.dtype).itemsize * (3 if getattr(layer, "rgb", False) else 1)
    for level, shape in enumerate(shapes):
        sides = [shape[axis] for axis in axes]
        if max(sides) <= SIDE and int(np.prod(sides)) * voxel <= budget:
            return level
    return len(shapes) - 1


def fit_volume(viewer: ViewerModel, layer: Layer) -> None:
    """Show a pyramid of ours in 3D at the level that fits, in 2D as the zoom says.

    A level that the user has chosen stays.
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
        if fitted is not None and layer.locked_data_level == fitted:
            layer.locked_data_level = None


def fit_volumes(viewer: ViewerModel) -> None:
    """Do so for all layers, when the viewer was switched."""
    for layer in viewer.layers:
        if layer._type_string in ("image", "labels"):
            fit_volume(viewer, layer)


_fitted: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
