"""Finds the part of a level that a painted layer shows on the screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.store.arrays.boxes import Box, enclose_boxes
from napari_ngff.viewer.private.lost import relies_on
from napari_ngff.viewer.private.slicing import (
    LabelsSlicing,
    level_spans,
    read_thumbnail_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.labels.canvas_level import CanvasLevel
    from napari_ngff.labels.edits import Edit
    from napari_ngff.viewer.streaming.prepared_volume import PreparedVolume

MANY_REGIONS = 32
"""Number of regions above which the rectangle around all of them is updated."""

PENDING = 32
"""Most requests that are remembered; napari drops most when the camera moves on."""


@dataclass(frozen=True, slots=True)
class ScreenPart:
    """A rectangle of a level, as it is displayed.

    Attributes
    ----------
    box
        On the level; one voxel along axes that are not displayed.
    displayed
        The displayed axes, in the order of the axes of the picture.
    """

    level: CanvasLevel
    box: Box
    displayed: tuple[int, ...]

    def cut_to_edits(
        self, edits: Sequence[Edit], before: Edit | None = None
    ) -> Sequence[Box]:
        """Return the regions on screen that edits, one after another, may change.

        Parameters
        ----------
        before
            The edit before them, which is on screen already.
        """
        regions: list[Box] = []
        for edit in edits:
            regions += edit.regions_in(self.level.grid, self.box, before)
            before = edit
        return [enclose_boxes(regions)] if len(regions) > MANY_REGIONS else regions

    def part_of(self, region: Box) -> tuple[slice, ...]:
        """Return the slices of a region of the level in the picture."""
        return tuple(
            slice(
                region[axis][0] - self.box[axis][0], region[axis][1] - self.box[axis][0]
            )
            for axis in self.displayed
        )

    def as_block(self, picture: Any) -> Any:
        """View a part of the picture with the axes of the level."""
        order = np.argsort(self.displayed)
        hidden = set(range(len(self.box))) - set(self.displayed)
        return np.expand_dims(picture.transpose(order), tuple(sorted(hidden)))


@relies_on("_make_slice_request_internal _slice _update_slice_response")
class PaintedSlicing(LabelsSlicing):  # type: ignore[misc]
    """Remembers the request of the slice on screen, and adds later edits to the slice.

    With asynchronous slicing the layer's own `data_level` and position are those of
    the pending request, and a slice may be older than the last strokes.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        # Id of a request -> the request, and version and undo count of the canvas at
        # that time.
        self._asked: dict[int, tuple[Any, int, int]] = {}
        self._shown: Any = None
        # The request that was answered last, also where nothing of the labels is there.
        self.answered: Any = None
        super().__init__(*arguments, **keywords)

    @property
    def planes(self) -> dict[int, int]:
        """The plane on screen, by each axis that is not displayed, or one outside."""
        if self.answered is None:
            return {}
        point = self.answered.data_slice.point
        hidden = self.answered.slice_input.not_displayed
        return {axis: int(point[axis]) for axis in hidden}

    def _make_slice_request_internal(self, **keywords: Any) -> Any:
        # Rounded at level 0, so that coarser levels show where its plane is painted.
        spans = keywords["data_slice"]
        planes = tuple(np.round(spans.point))
        keywords["data_slice"] = spans.copy_with(point=planes)
        request = super()._make_slice_request_internal(**keywords)
        volume = getattr(request, "volume", None)
        # What a worker has prepared has the edits of then.
        then = self.layer.canvas if volume is None else volume.mark
        self._asked[request.id] = request, then.version, then.reversals
        for old in list(self._asked)[:-PENDING]:
            del self._asked[old]
        return request

    def _update_slice_response(self, response: Any) -> None:
        super()._update_slice_response(response)
        request, *then = self._asked.pop(response.request_id, (None, 0, 0))
        self._shown, self.answered = None if response.empty else request, request
        canvas = self.layer.canvas
        # The slice was cut before the newest strokes; drawn as it is, they would vanish
        # until the next move.
        if self._shown is None or then == [canvas.version, canvas.reversals]:
            return
        if self.volume is not None:
            self.layer.lay_edits(self.volume)
        else:
            self.layer.catch_up(again=then[1] != canvas.reversals)

    @property
    def pictures(self) -> tuple[Any, Any]:
        """The labels on the screen, and what the graphics card has of them."""
        image = self._slice.image
        return image.raw, image.view

    @property
    def volume(self) -> PreparedVolume | None:
        """The volume on screen, if a worker has prepared it."""
        volume: PreparedVolume | None = getattr(self._shown, "volume", None)
        return volume

    def forget_slices(self) -> None:
        """Forget pending requests, whose slices are of labels that were replaced."""
        self._asked.clear()
        self._shown = self.answered = None

    def screen_part(self, *, arrived: bool = False) -> ScreenPart | None:
        """Return the part on screen; None for nothing, and while a slice is read.

        Parameters
        ----------
        arrived
            True for a slice that just arrived, which napari marks as loaded later.
        """
        request = self._shown
        loaded = arrived or self.layer.loaded
        if request is None or not loaded or self._slice.empty:
            return None
        level = self.layer.canvas.levels[request.data_level]
        displayed = tuple(request.slice_input.displayed)
        if self.volume is not None:
            return ScreenPart(level, self.volume.place.box, displayed)
        planes = level_spans(request, request.data_level).point
        flat = request.slice_input.ndisplay == 2
        picture = self._slice.image.raw.shape
        box = []
        for axis in range(level.ndim):
            if axis in displayed:
                # In 2D napari slices a tile of a level, in 3D all of the level.
                first = int(request.corner_pixels[0, axis]) if flat else 0
                box.append((first, first + picture[displayed.index(axis)]))
            else:
                plane = int(np.round(planes[axis]))
                box.append((plane, plane + 1))
        return ScreenPart(level, tuple(box), displayed)

    def read_thumbnail(self) -> None:
        """Read the coarsest level again, if it is not what is on the screen."""
        request, picture = self._shown, self._slice.thumbnail.raw
        # Then it is up to date already, or napari's own.
        if picture is self._slice.image.raw or not picture.flags.writeable:
            return
        picture[...] = read_thumbnail_of(request)
