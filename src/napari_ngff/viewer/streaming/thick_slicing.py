"""Lets napari's slicing take sections that workers have joined.

napari reads all pixels of a slice with thickness in the main thread and projects them
there. The levels of our images give the projection, which is made chunk by chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.boxes import order_block, whole_box
from napari_ngff.store.arrays.drawable_pixels import DrawablePixels
from napari_ngff.viewer.private.lost import relies_on
from napari_ngff.viewer.private.slicing import ImageRequest
from napari_ngff.viewer.streaming.joined_sections import FUNCTIONS, SectionJoin
from napari_ngff.viewer.streaming.streamed_levels import StreamedLevel, is_drawn

if TYPE_CHECKING:
    from collections.abc import Sequence

Pixels = np.ndarray[Any, Any]


@relies_on("_data_slice_to_slices _project_thick_slice")
class ThickRequest(ImageRequest):  # type: ignore[misc]
    """A request for a slice with thickness, whose sections workers join."""

    def _project_thick_slice(
        self, data: Any, data_slice: Any, disp_slice: Any = None
    ) -> Any:
        shown, cut = self.slice_input, list[Any]()
        spans = list(self._data_slice_to_slices(data_slice, shown.displayed))
        # napari 0.9 has cut the axes that are displayed before.
        if disp_slice is not None:
            cut = [disp_slice]
            for axis in shown.displayed:
                spans[axis] = disp_slice[axis]
        mode = str(self.projection_mode)
        joined = read_joined(data[tuple(spans)], tuple(shown.not_displayed), mode)
        if joined is None:
            return super()._project_thick_slice(data, data_slice, *cut)
        return joined


def read_joined(array: Any, axes: Sequence[int], mode: str) -> Pixels | None:
    """Read what is there of the projection of an array.

    Parameters
    ----------
    array
        Lazy, with all sections and no others.
    axes
        Axes of it that are projected. The result does not have them.
    mode
        Projection of napari.

    Returns
    -------
    ndarray or None
        None where the array is not streamed, or has one section only.
    """
    window = getattr(array, "window", None)
    source = getattr(window, "source", None)
    level = source.source if isinstance(source, DrawablePixels) else source
    if window is None or not isinstance(level, StreamedLevel):
        return None
    if mode not in FUNCTIONS or 0 in window.shape or set(window.steps) != {1}:
        return None
    thick = [window.order[axis] for axis in axes if window.shape[axis] > 1]
    if not thick:
        return None
    join = SectionJoin(mode, tuple(sorted(thick)), level is not source)
    box = window.box_below(whole_box(window.shape))
    if level.stream is None or not is_drawn(box):
        return None
    pixels = level.stream.get_view(level, level.number, box, join)
    block = order_block(pixels, window.order)
    return block[tuple(0 if i in axes else slice(None) for i in range(block.ndim))]
