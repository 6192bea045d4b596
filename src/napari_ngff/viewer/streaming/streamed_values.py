"""Keeps values and screenshots true while the pixels of a layer come in."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.store.arrays.boxes import Cell, cells_in
from napari_ngff.viewer.private.napari_layers import (
    drawn_values,
    replace_values,
    shown_axes,
    tile_transform,
)
from napari_ngff.viewer.private.napari_window import qt_viewer_of, wrap_screenshots
from napari_ngff.viewer.streaming.regions import ray_in_part
from napari_ngff.viewer.streaming.streamed_levels import stream_of
from napari_ngff.viewer.streaming.volume_slicing import prepared_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Image

    from napari_ngff.viewer.streaming.streamed_view import StreamedView

PATIENCE = 10.0
"""Seconds that a screenshot waits at most for the pixels of one layer."""


@dataclass(frozen=True, slots=True)
class DrawnPicture:
    """The picture of a layer, and what is known of its pixels.

    Attributes
    ----------
    raw
        The picture itself: another one is not known yet.
    parts
        Views that it and the thumbnail were made of, and their chunks of then that had
        pixels of a coarser level.
    """

    raw: weakref.ref[Any]
    parts: tuple[tuple[StreamedView, frozenset[Cell]], ...]

    @property
    def is_true(self) -> bool:
        """Return whether all of it are pixels of the file."""
        return not any(absent for _, absent in self.parts)


class ValueGuard:
    """Gives the values of an image layer, and none where they are of a coarser level.

    napari looks them up in a thread of its own, while the layer may be drawn anew.
    """

    def __init__(self, layer: Image) -> None:
        self._layer = weakref.ref(layer)
        self._picture: DrawnPicture | None = None
        self.note_picture()

    def note_picture(self, event: Any = None) -> None:
        """Note what the picture is made of that was just drawn."""
        layer = self._layer()
        if layer is not None:
            stream = stream_of(layer)
            views: Sequence[StreamedView] = stream.take_asked() if stream else ()
            parts = tuple((view, view.absent) for view in views)
            self._picture = DrawnPicture(weakref.ref(drawn_values(layer)), parts)

    def get_value(self, usual: Any, position: Any) -> Any:
        """Give napari's answer for a place in 2D, or no value."""
        layer = self._layer()
        if layer is None:
            return None
        before = self._picture
        found = usual(layer, position)
        if before is self._picture and not self._is_coming(layer, before, position):
            return found
        return (found[0], None) if layer.multiscale else None

    def get_ray_value(
        self, usual: Any, start_point: Any, end_point: Any, dims_displayed: Any
    ) -> Any:
        """Give napari's answer for a ray in 3D, or no value."""
        layer = self._layer()
        if layer is None:
            return None
        before, volume = self._picture, prepared_of(layer)
        if volume is not None and start_point is not None and end_point is not None:
            ray = ray_in_part(layer, volume.place, start_point, end_point)
            if ray is None:
                return None
            start_point, end_point = ray
        found = usual(layer, start_point, end_point, dims_displayed)
        is_same = before is not None and before.raw() is drawn_values(layer)
        return found if is_same and before is not None and before.is_true else None

    def _is_coming(
        self, layer: Image, picture: DrawnPicture | None, position: Any
    ) -> bool:
        """Return whether a pixel of the picture is not known to be true."""
        raw = drawn_values(layer)
        shape = raw.shape
        if picture is None or picture.raw() is not raw:
            return True  # just being drawn anew
        if picture.is_true:
            return False
        transform = tile_transform(layer)
        at = transform.inverse(position) if layer.multiscale else position
        level = layer.data[layer.data_level] if layer.multiscale else layer.data
        for part, absent in picture.parts:
            box = list(part.box)
            sizes = []
            for axis in shown_axes(layer):
                below = level.window.order[axis]
                if below is not None:
                    start, stop = part.box[below]
                    sizes.append(stop - start)
                    start += round(float(at[axis]))
                    box[below] = start, start + 1
            is_shown = part.number == layer.data_level and tuple(sizes) == shape
            if is_shown:
                cells = cells_in(tuple(box), part.chunks)
                return any(cell in absent for cell in cells)
        return True


def guard_values(layer: Image) -> None:
    """Let a layer give no value of a coarser level, by the mouse or to code."""
    guard = ValueGuard(layer)
    layer.events.set_data.connect(guard.note_picture, position="first")
    replace_values(layer, guard.get_value, guard.get_ray_value)


def guard_screenshots(viewer: ViewerModel) -> None:
    """Let screenshots of a window show true pixels; they wait for them, to a limit."""
    if qt_viewer_of(viewer) is not None:
        wrap_screenshots(viewer, partial(_finish_picture, weakref.ref(viewer)))


def _finish_picture(reference: weakref.ref[ViewerModel]) -> None:
    viewer = reference()
    for layer in viewer.layers if viewer is not None else ():
        stream = stream_of(layer) if layer.visible else None
        if stream is not None:
            stream.finish_views(PATIENCE)
