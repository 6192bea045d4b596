"""The sliders of a viewer: they reach every plane, and stay while fields change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from napari_ngff.viewer.plans.placement import MOST_STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import Dims, ViewerModel
    from napari.layers import Layer

SLACK = 1e-6
"""Part of a step that does not count: a rounding error of scales and translations."""


def reach_last_planes(dims: Dims) -> None:
    """Extend the ranges of sliders by a step to the last plane, where that is missing.

    napari (0.9) counts whole steps: three planes at 6.65, 6.95 and 7.25 are 1.9999999
    steps apart, so that it gives a slider of two planes. Steps that are finer than a
    slider of Qt can have, beside a layer that is much larger, become coarser.
    """
    ranges = []
    for start, stop, finest in dims.range:
        is_long = stop - start > MOST_STEPS * finest
        step = (stop - start) / (MOST_STEPS / 2) if is_long else finest
        steps = (stop - start) / step
        # Half a step from the last plane, the slider still shows it.
        most = math.ceil(steps - 0.5 + SLACK) if math.isfinite(steps) else 0
        ranges.append((start, max(stop, start + (most + SLACK) * step), step))
        if int(steps) >= most:
            ranges[-1] = start, stop, step
    if ranges != [tuple(each) for each in dims.range]:
        dims.range = tuple(ranges)


class KeptSliders:
    """Keeps the plane at which the user looks while fields are exchanged.

    Where a field has fewer planes, napari moves the slider to its last one. The slider
    goes back in the next field that has the plane, unless the user has moved it.
    """

    def __init__(self) -> None:
        # By the name of an axis: world coordinates that the user chose, and that were
        # set last.
        self._chosen: dict[str, float] = {}
        self._set: dict[str, float] = {}
        self._start: dict[str, float] = {}

    def note(self, viewer: ViewerModel, field: Sequence[Layer]) -> None:
        """Note the sliders before another field, or an overview, is shown.

        Parameters
        ----------
        field
            Layers of the image on screen; none for an overview.
        """
        moved = _places(viewer).items() - self._set.items()
        self._chosen.update(moved)
        self._start = _start_of(field)

    def restore(self, viewer: ViewerModel, field: Sequence[Layer]) -> None:
        """Move the sliders to the same place of the field that is shown now."""
        start = _start_of(field)
        for name in start.keys() & self._start.keys() & self._chosen.keys():
            self._chosen[name] += start[name] - self._start[name]
        dims = viewer.dims
        hidden = {dims.axis_labels[axis] for axis in dims.order[:-2]}
        point = tuple(
            self._chosen.get(name, at) if name in hidden else at
            for name, at in zip(dims.axis_labels, dims.point, strict=True)
        )
        # Setting what there is would let napari check all of the dimensions again.
        if point != dims.point:
            dims.point = point
        self._set = _places(viewer)


def _places(viewer: ViewerModel) -> dict[str, float]:
    return dict(zip(viewer.dims.axis_labels, viewer.dims.point, strict=True))


def _start_of(layers: Sequence[Layer]) -> dict[str, float]:
    """Return the world coordinates at which an image begins, by axis."""
    if not layers:
        return {}
    return dict(zip(layers[0].axis_labels, layers[0].extent.world[0], strict=True))
