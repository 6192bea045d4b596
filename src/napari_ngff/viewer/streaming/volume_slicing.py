"""Lets napari's slicing take volumes, and thick slices, that a worker has prepared."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.utils.transforms import Affine

from napari_ngff.store.arrays.boxes import box_shape, order_block, whole_box
from napari_ngff.store.arrays.drawable_pixels import DrawablePixels
from napari_ngff.viewer.plans.layer_plan import layer_kind
from napari_ngff.viewer.private.lost import relies_on, tells_missing
from napari_ngff.viewer.private.napari_layers import (
    choose_level_unseen,
    replace_requests,
    texture_type_of,
    whole_corners,
)
from napari_ngff.viewer.private.slicing import (
    READS,
    ImageRequest,
    LabelsRequest,
    Picture,
    SliceAnswer,
)
from napari_ngff.viewer.services.window import GuardedSignal, Window
from napari_ngff.viewer.streaming.prepared_volume import (
    LabelLook,
    PreparedVolume,
    VolumePlace,
)
from napari_ngff.viewer.streaming.streamed_levels import StreamedLevel, is_drawn
from napari_ngff.viewer.streaming.streamed_view import FUNCTIONS, SectionJoin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.layers import Layer


READ_AT_ONCE = 1 << 19
"""Voxels that napari may read and colour in its main thread: some 30 ms for labels."""

DRAWN_AT_ONCE = 1 << 23
"""The same of images, whose pixels are not waited for, nor coloured."""

MOST_PATCHED = 1 << 22
"""Voxels that edits change at most for a volume to be patched; else it is read anew."""


volume_needed = GuardedSignal((object,), name="volume_needed")
"""Emitted in the main thread, while napari slices, with a layer of which a volume is
shown or awaited that has to be read anew."""

_prepared: weakref.WeakKeyDictionary[Any, PreparedVolume] = weakref.WeakKeyDictionary()


def put_prepared(layer: Layer, volume: PreparedVolume) -> None:
    """Have a volume shown, at its level, when napari asks for its place."""
    _prepared[layer] = volume


def drop_prepared(layer: Layer) -> bool:
    """Forget the volume of a layer; return whether its level is still locked for it."""
    volume = _prepared.pop(layer, None)
    # Another level was chosen by the user meanwhile.
    return (
        volume is not None
        and volume.locks
        and bool(layer.locked_data_level == volume.place.level)
    )


def prepared_of(layer: Layer) -> PreparedVolume | None:
    """Return the volume that was prepared for a layer last."""
    return _prepared.get(layer)


def answer_requests(layer: Layer) -> None:
    """Have napari's requests for slices of a layer answered by prepared volumes."""
    reference = weakref.ref(layer)

    def choose(usual: Any) -> Any:
        ours = REQUESTS.get(usual)
        if ours is None or tells_missing(READS, ours, ThickRequest):
            return usual
        return partial(make_request, reference, usual)

    replace_requests(layer, choose)


def make_request(reference: weakref.ref[Layer], usual: Any, **asked: Any) -> Any:
    """Make a request as napari does, or one that reads nothing in the main thread."""
    layer = reference()
    displayed = asked["slice_input"].displayed
    thick = is_thick(asked["projection_mode"], asked["data_slice"], displayed)
    if thick and usual is ImageRequest:
        usual = ThickRequest
    if layer is None or asked["rgb"]:
        return usual(**asked)
    volume = prepared_of(layer)
    if volume is not None:
        if is_asked(volume, asked) and holds_volume(layer, volume):
            # By these napari finds out how far the picture is from the first voxel.
            layer.corner_pixels = corners_of(volume.place)
            look = LabelLook.of_layer(layer)
            return REQUESTS[usual](**asked, volume=volume, look=look)
        if drop_prepared(layer):
            unlock_level(layer)
            coarsest, data = len(layer.data) - 1, asked["data_at_thumbnail_level"]
            asked.update(data_level=coarsest, data_at_data_level=data)
            asked["corner_pixels"] = layer.corner_pixels
    if volume is None and layer.locked_data_level is not None:
        # A locked level is shown whole. When other axes are displayed, napari 0.9.2
        # slices it by the corners along those before, and not again when it draws.
        layer.corner_pixels = asked["corner_pixels"] = whole_corners(layer)
    if asked["slice_input"].ndisplay != 3 or thick:
        return usual(**asked)
    waits = is_awaited(layer, asked["data_level"], displayed)
    if volume is not None or waits:
        volume_needed.emit(layer)
    if waits:
        return REQUESTS[usual](**asked, view_type=texture_type_of(layer))
    return usual(**asked)


def unlock_level(layer: Layer) -> None:
    """Choose the coarsest level, as napari does in 3D, without slicing it."""
    choose_level_unseen(layer, len(layer.data) - 1)
    layer.corner_pixels = whole_corners(layer)
    layer.events.locked_data_level()


def release_volume(layer: Layer) -> None:
    """Show the coarsest level in place of a volume; other events follow later."""
    if prepared_of(layer) is None:
        return
    if drop_prepared(layer):
        with layer.events.locked_data_level.blocker():
            unlock_level(layer)
    layer.refresh(extent=False)


def corners_of(place: VolumePlace) -> Any:
    """Return the first and the last voxel of a volume; 0 along axes not displayed."""
    corners = np.zeros((2, len(place.box)), int)
    for axis in place.displayed:
        corners[:, axis] = place.box[axis][0], place.box[axis][1] - 1
    return corners


def holds_volume(layer: Layer, volume: PreparedVolume) -> bool:
    """Return whether a volume has its layer's values and colours, or soon has them.

    The edits of a few strokes are put onto it when it is shown.
    """
    canvas, mark = getattr(layer, "canvas", None), volume.mark
    if volume.raw.dtype != layer.dtype or layer.data is not volume.data:
        return False
    if canvas is not None and mark is not None:
        if mark.reversals != canvas.reversals:
            return False
        grid, box = canvas.levels[volume.place.level].grid, volume.place.box
        parts = [edit.region_in(grid, box) for edit in mark.edits_since(canvas)]
        sizes = (math.prod(box_shape(part)) for part in parts if part is not None)
        if sum(sizes) > MOST_PATCHED:
            return False
    if volume.look is None or volume.raw.size <= READ_AT_ONCE:
        return True
    return volume.look.is_same(LabelLook.of_layer(layer))


def is_awaited(layer: Layer, level: int, displayed: Any) -> bool:
    """Return whether reading a level in 3D would hold the window: a worker reads it."""
    if not Window.current.has_workers:
        return False
    most = READ_AT_ONCE if layer_kind(layer) == "labels" else DRAWN_AT_ONCE
    shape = layer.level_shapes[level]
    return math.prod(int(shape[axis]) for axis in displayed) > most


def is_thick(projection: Any, thick: Any, displayed: Any) -> bool:
    """Return whether several places of other axes are projected onto the picture.

    Parameters
    ----------
    projection
        Of the layer.
    thick
        Has a margin per axis on both sides.
    """
    margins = zip(thick.margin_left, thick.margin_right, strict=True)
    return str(projection) != "none" and any(
        axis not in displayed and (before > 0 or after > 0)
        for axis, (before, after) in enumerate(margins)
    )


def is_asked(volume: PreparedVolume, asked: dict[str, Any]) -> bool:
    """Return whether a volume is what a request asks for."""
    place, shown = volume.place, asked["slice_input"]
    if asked["data_level"] != place.level or tuple(shown.displayed) != place.displayed:
        return False
    if is_thick(asked["projection_mode"], asked["data_slice"], place.displayed):
        return False
    factors = asked["downsample_factors"][place.level]
    last = np.asarray(asked["level_shapes"][place.level]) - 1
    point = np.clip(np.asarray(asked["data_slice"].point) / factors, 0, last)
    return all(
        axis in place.displayed or round(float(point[axis])) == place.box[axis][0]
        for axis in range(len(place.box))
    )


@dataclass(frozen=True)
class VolumeResponse(SliceAnswer):  # type: ignore[misc]
    """A slice whose picture was prepared; its thumbnail is napari's."""

    volume: PreparedVolume | None = field(default=None, repr=False)
    look: LabelLook | None = field(default=None, repr=False)

    def to_displayed(self, converter: Any) -> Any:
        """Take what was prepared, unless it was coloured otherwise."""
        volume, image = self.volume, self.image
        assert volume is not None
        if self.look is None:
            drawn = converter(image.raw)
            # napari rescales pixels beyond what the graphics card knows.
            if drawn is not image.raw:
                image = Picture(raw=image.raw, view=drawn)
        elif not self.look.is_same(volume.look):
            volume.view, volume.look = converter(image.raw), self.look
            image = Picture(raw=image.raw, view=volume.view)
        thumbnail = Picture.from_raw(raw=self.thumbnail.raw, converter=converter)
        # mypy knows no fields of napari's class.
        return replace(self, image=image, thumbnail=thumbnail)  # type: ignore[call-arg]


OF_REQUESTS = (
    "_get_order _project_thick_slice _slice_out_of_bounds _thick_slice_at_level"
)


@dataclass(frozen=True)
class VolumeAnswer:
    """What requests for prepared volumes have in common."""

    volume: PreparedVolume | None = field(default=None, repr=False)
    look: LabelLook | None = field(default=None, repr=False)
    view_type: Any = None

    def __call__(self: Any) -> Any:
        """Give the volume; without one, nothing until a worker has read it."""
        if self.volume is None or self._slice_out_of_bounds():
            return SliceAnswer.make_empty(
                slice_input=self.slice_input,
                rgb=self.rgb,
                request_id=self.id,
                dtype=self.dtype if self.view_type is None else self.view_type,
            )
        place = self.volume.place
        ndim = self.slice_input.ndim
        scale, translate = np.ones(ndim), np.zeros(ndim)
        for axis in place.displayed:
            scale[axis] = self.downsample_factors[place.level][axis]
            translate[axis] = place.box[axis][0] * scale[axis]
        thumbnail = self._project_thick_slice(
            self.data_at_thumbnail_level,
            self._thick_slice_at_level(self.thumbnail_level),
        )
        return VolumeResponse(
            image=Picture(raw=self.volume.raw, view=self.volume.view),
            thumbnail=Picture.from_view(np.transpose(thumbnail, self._get_order())),
            tile_to_data=Affine(
                name="tile2data", scale=scale, translate=translate, ndim=ndim
            ),
            slice_input=self.slice_input,
            request_id=self.id,
            volume=self.volume,
            look=self.look,
        )


@relies_on(OF_REQUESTS)
@dataclass(frozen=True)
class ImageVolumeRequest(VolumeAnswer, ImageRequest):  # type: ignore[misc]
    """A request for a slice of an image, see `VolumeAnswer`."""


@relies_on(OF_REQUESTS)
@dataclass(frozen=True)
class LabelsVolumeRequest(VolumeAnswer, LabelsRequest):  # type: ignore[misc]
    """The same for labels."""


REQUESTS = {
    ImageRequest: ImageVolumeRequest,
    LabelsRequest: LabelsVolumeRequest,
}


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
