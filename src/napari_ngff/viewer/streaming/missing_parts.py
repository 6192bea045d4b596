"""Lists the chunks that are missing on the screen, and has them read again.

Streams ask for theirs by themselves, see `outage_watch`. Here is what the user asks
for, and what no stream watches: chunks of volumes in 3D.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.store.arrays.boxes import Box, whole_box
from napari_ngff.store.arrays.lazy_array import ArraySource, ArrayWindow
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.threads import share_work
from napari_ngff.viewer.plans.layer_plan import KEY, origin_of
from napari_ngff.viewer.private.napari_layers import shown_axes, slicing_of
from napari_ngff.viewer.services.notices import (
    FailureKind,
    count_noun,
    failure_text,
    kind_of,
)
from napari_ngff.viewer.services.window import Window, going_on, report_unexpected
from napari_ngff.viewer.streaming.label_stream import drawn_box
from napari_ngff.viewer.streaming.outage_watch import OutageWatch
from napari_ngff.viewer.streaming.streamed_levels import ImageStream, stream_of
from napari_ngff.viewer.streaming.volume_fit import reread_volume
from napari_ngff.viewer.streaming.volume_slicing import prepared_of
from napari_ngff.viewer.streaming.well_stream import reread_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.errors import ChunkError
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.viewer.streaming.streamed_view import StreamedView


ArrayPart = tuple["ChunkedArray", "Box"]


@dataclass(frozen=True, slots=True)
class MissingPart:
    """The chunks of one image that are missing on the screen for one reason.

    Attributes
    ----------
    name
        Of the image.
    count
        Number of chunks.
    kind
        Why they are missing.
    error
        Of one of them.
    """

    name: str
    count: int
    kind: FailureKind
    error: ChunkError

    @property
    def text(self) -> str:
        """One or two sentences that name the image and its server."""
        return failure_text(self.name, self.count, self.kind, self.error.source_name)

    @property
    def is_damaged(self) -> bool:
        """Return whether asking again does not help."""
        return self.kind is FailureKind.DAMAGED


def missing_text(parts: Sequence[MissingPart]) -> str:
    """Write "3 chunks missing", "1 chunk damaged", or both; "" for nothing."""
    damaged = sum(part.count for part in parts if part.is_damaged)
    absent = sum(part.count for part in parts) - damaged
    if not damaged:
        return f"{count_noun(absent, 'chunk')} missing" if absent else ""
    if not absent:
        return f"{count_noun(damaged, 'chunk')} damaged"
    return f"{count_noun(absent, 'chunk')} missing, {damaged} damaged"


@dataclass(frozen=True, slots=True, eq=False)
class LostChunk:
    """A chunk, or shard, that a layer shows and that could not be read.

    Attributes
    ----------
    layer, array
        The layer, and the array that has the chunk.
    box
        Of the array.
    error
        Why it could not be read.
    """

    layer: Layer
    array: ChunkedArray
    box: Box
    error: ChunkError


def list_lost(viewer: ViewerModel) -> Iterator[LostChunk]:
    """Give the chunks that layers on the screen lack; reads nothing."""
    for layer in viewer.layers:
        if not layer.visible or not layer.opacity or KEY not in layer.metadata:
            continue
        stream = stream_of(layer)
        is_watched = (
            stream is not None and not stream.is_local and not is_volume_shown(layer)
        )
        for array, box in drawn_parts(layer):
            for failed, error in array.failed_parts(box).items():
                # What another reader was refused may be on the screen all the same.
                if is_watched and kind_of(error) in COMING:
                    assert stream is not None
                    views = screen_views(layer, stream)
                    if not is_lacking(views, array, failed):
                        continue
                yield LostChunk(layer, array, failed, error)


COMING = FailureKind.UNREACHED, FailureKind.REFUSED
"""Failures after which streamed views go on to wait for a chunk."""


def is_lacking(views: Sequence[StreamedView], array: ChunkedArray, box: Box) -> bool:
    """Return whether any view lacks pixels of a box of an array."""
    return any(
        view.level.array is array and view.lacks_any(drawn_box(view.level, box))
        for view in views
    )


def is_volume_shown(layer: Layer) -> bool:
    """Return whether a layer shows a volume that was prepared."""
    is_3d: bool = len(shown_axes(layer)) == 3
    return is_3d and prepared_of(layer) is not None


def list_missing(
    viewer: ViewerModel, name_image: Callable[[Layer], str]
) -> list[MissingPart]:
    """List what is missing on the screen; reads nothing.

    Parameters
    ----------
    name_image
        Names the image of a layer.
    """
    found: dict[tuple[str, FailureKind, str], dict[int, ChunkError]] = {}
    for lost in list_lost(viewer):
        error = lost.error
        group = name_image(lost.layer), kind_of(error), error.source_name
        # Layers of one image share arrays.
        found.setdefault(group, {})[id(error)] = error
    return [
        MissingPart(name, len(errors), kind, next(iter(errors.values())))
        for (name, kind, _), errors in found.items()
    ]


def has_failed(viewer: ViewerModel) -> bool:
    """Return whether any chunk of the images of a viewer could not be read."""
    return any(
        array.has_failed
        for layer in viewer.layers
        if KEY in layer.metadata
        for array, _ in all_parts(layer)
    )


def drawn_parts(layer: Layer) -> Iterator[ArrayPart]:
    """Give the arrays that a layer shows, and which boxes of them."""
    volume, canvas = prepared_of(layer), getattr(layer, "canvas", None)
    stream = stream_of(layer)
    if volume is not None and is_volume_shown(layer):
        place = volume.place
        yield from stored_parts(source_of(layer, place.level), place.box)
    elif stream is not None:
        for view in screen_views(layer, stream):
            # Labels are drawn in other axes than those of their array.
            below = getattr(view.level, "below", view.level)
            yield from stored_parts(below, view.box)
    elif canvas is not None:
        part = slicing_of(layer).screen_part()
        if part is not None:
            yield from stored_parts(source_of(layer, part.level.number), part.box)
    else:
        yield from all_parts(layer)


def screen_views(layer: Layer, stream: ImageStream) -> list[StreamedView]:
    """List the views of a stream that a layer shows, without those of other planes."""
    level = getattr(layer, "data_level", 0)
    views = [view for view in stream.drawn_views if view.number == level]
    if not views:
        return list(stream.drawn_views)
    newest = views[-1].box
    return [view for view in views if is_same_place(view.box, newest)]


def is_same_place(box: Box, other: Box) -> bool:
    """Return whether two boxes are of one plane, or of one volume."""
    return all(
        one == two or min(one[1] - one[0], two[1] - two[0]) > 1
        for one, two in zip(box, other, strict=True)
    )


def all_parts(layer: Layer) -> Iterator[ArrayPart]:
    """Give all arrays of a layer, whole."""
    canvas, origin = getattr(layer, "canvas", None), origin_of(layer)
    levels: Sequence[ArraySource] = ()
    if canvas is not None:
        levels = [source_of(layer, n) for n in range(len(canvas.levels))]
    elif origin is not None and origin.picture is not None:
        levels = origin.picture.pyramid.levels
    for source in levels:
        yield from stored_parts(source, whole_box(source.shape))


def source_of(layer: Layer, number: int) -> Any:
    """Give what a level of a layer is read from; labels also as they were saved."""
    canvas: Any = getattr(layer, "canvas", None)
    if canvas is not None:
        level = canvas.levels[number]
        return level.saved or level.source
    data = layer.data[number] if layer.multiscale else layer.data
    return getattr(data, "window", None)


def stored_parts(source: Any, box: Box) -> Iterator[ArrayPart]:
    """Give the array below a source, if there is one, and the box of it."""
    while source is not None and not isinstance(source, LevelSource):
        if isinstance(source, ArrayWindow):
            box = source.box_below(box)
        source = getattr(source, "source", None)
    if source is not None:
        yield source.array, box


class MissingRetry:
    """Asks again for the chunks that a viewer lists as missing.

    For one of those of volumes now and then, and for all others once it comes. Used in
    the main thread only.

    Parameters
    ----------
    viewer
        Whose chunks are missing.
    """

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = viewer
        self._lost: list[LostChunk] = []
        self._watch = OutageWatch(self)
        # Layers whose chunks have come, until they are drawn.
        self._stale: weakref.WeakSet[Layer] = weakref.WeakSet()

    def ask_sometimes(self) -> None:
        """Ask for one chunk of a volume if it is time; to be called again and again."""
        self._watch.watch()

    def list_failed(self) -> list[tuple[LevelSource, Box]]:
        """List the chunks of volumes that a server did not give; see `OutageWatch`."""
        self._lost = [
            one
            for one in list_lost(self._viewer)
            if kind_of(one.error) is FailureKind.UNREACHED
            and is_volume_shown(one.layer)
        ]
        return [(LevelSource(one.array), first_voxel(one.box)) for one in self._lost]

    def read_again(self) -> None:
        """Have the chunks read that were listed last, and the volumes drawn."""
        self._ask_for(self._lost)

    def ask_now(self) -> None:
        """Ask for all chunks that are listed, except damaged ones."""
        self._draw_stale()
        lost = [
            one
            for one in list_lost(self._viewer)
            if kind_of(one.error) is not FailureKind.DAMAGED
        ]
        streamed = [one for one in lost if is_streamed(one.layer)]
        for stream in {stream_of(one.layer) for one in streamed}:
            assert stream is not None
            for view in stream.kept_views:
                view.unlock_failed()
            stream.read_again()
        self._ask_for([one for one in lost if not is_streamed(one.layer)])

    def _ask_for(self, lost: Sequence[LostChunk]) -> None:
        """Have those read that nobody read meanwhile, and draw what has come."""

        def end(_: Any) -> None:
            self._stale.update(one.layer for one in lost if not is_lost(one))
            self._draw_stale()

        def fail(error: Exception) -> None:
            report_unexpected(error)
            end(None)

        # Layers of one image share arrays.
        parts = {(id(one.array), one.box): one for one in lost if is_lost(one)}
        work = partial(read_chunks, list(parts.values()))
        Window.current.run_work(work, end, fail)

    def _draw_stale(self) -> None:
        for layer in tuple(self._stale):
            with going_on():
                self._draw_again(layer)
                self._stale.discard(layer)

    def _draw_again(self, layer: Layer) -> None:
        viewer = self._viewer
        if not Window.current.is_open(viewer):
            return
        if layer in viewer.layers and is_volume_shown(layer):
            reread_volume(viewer, layer)
        elif layer in viewer.layers:
            reread_layer(layer)


def is_streamed(layer: Layer) -> bool:
    """Return whether a layer on the screen asks for its chunks by itself."""
    return stream_of(layer) is not None and not is_volume_shown(layer)


def is_lost(chunk: LostChunk) -> bool:
    """Return whether a chunk was not read since it was listed."""
    return chunk.box in chunk.array.failed_parts(chunk.box)


def first_voxel(box: Box) -> Box:
    """Give one voxel of a chunk: all of it is read for it, and no other of a shard."""
    return tuple((start, start + 1) for start, _ in box)


def read_chunks(lost: Sequence[LostChunk]) -> None:
    """Read chunks in a worker, without a notice."""

    def read(one: LostChunk) -> None:
        LevelSource(one.array).try_reading(first_voxel(one.box))

    concurrency = max((one.array.source.traits.at_once for one in lost), default=1)
    share_work(iter(lost), read, len(lost), concurrency)
