"""Has the chunks read again that are missing on the screen.

Streams ask for theirs by themselves, see `outage_watch`. Here is what the user asks
for, and what no stream watches: chunks of volumes in 3D.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from napari_ngff.errors import OMEZarrError
from napari_ngff.store.threads import share_work
from napari_ngff.viewer.services.notices import FailureKind, kind_of
from napari_ngff.viewer.services.unexpected import attempt_work
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming.missing_parts import is_volume_shown, list_lost
from napari_ngff.viewer.streaming.outage_watch import pause_after
from napari_ngff.viewer.streaming.pixel_fetcher import stream_signals
from napari_ngff.viewer.streaming.streamed_levels import stream_of
from napari_ngff.viewer.streaming.volume_fit import reread_volume
from napari_ngff.viewer.streaming.well_stream import reread_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.errors import ChunkError
    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunked_array import ChunkedArray
    from napari_ngff.viewer.streaming.missing_parts import ArrayPart, LostChunk


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
        self._count = 0
        self._next: float | None = None
        self._is_asking = False

    def ask_sometimes(self) -> None:
        """Ask for one chunk of a volume if it is time; to be called again and again."""
        if self._is_asking:
            return
        lost = [
            one
            for one in list_lost(self._viewer)
            if kind_of(one.error) is FailureKind.UNREACHED
            and is_volume_shown(one.layer)
        ]
        if not lost:
            self._next, self._count = None, 0
            return
        now = time.monotonic()
        if self._next is None:
            self._next = now + pause_after(self._count)
        if now >= self._next:
            # Another one each time: a single one may be damaged for good.
            chosen = lost[self._count % len(lost)]
            self._next, self._count = None, min(self._count + 1, 16)

            def end(count: int) -> None:
                if count:
                    self._ask_for(lost)

            self._read([chosen], end)

    def ask_now(self) -> None:
        """Ask for all chunks that are listed, except damaged ones."""
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
            stream_signals.arrived.emit(stream)
        self._ask_for([one for one in lost if not is_streamed(one.layer)])

    def _ask_for(self, lost: Sequence[LostChunk]) -> None:
        """Have those read that nobody read meanwhile, and draw what has come."""

        def end(_: int) -> None:
            layers = {id(one.layer): one.layer for one in lost if not is_lost(one)}
            for layer in layers.values():
                self._draw_again(layer)

        self._read([one for one in lost if is_lost(one)], end)

    def _read(self, lost: Sequence[LostChunk], done: Callable[[int], None]) -> None:
        """Read chunks in a worker, then call a function with how many were answered."""
        # Layers of one image share arrays.
        parts = {(id(one.array), one.box): (one.array, one.box) for one in lost}
        self._is_asking = True

        def end(count: int | str) -> None:
            self._is_asking = False
            if isinstance(count, str):
                Window.current.show_messages((count,), "Image incomplete.")
            else:
                done(count)

        work = partial(read_parts, list(parts.values()))
        Window.current.run_work(partial(attempt_work, work), end)

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


def read_parts(parts: Sequence[ArrayPart]) -> int:
    """Read chunks in a worker, without a notice; return how many were answered."""
    answered: list[ArrayPart] = []

    def read(part: ArrayPart) -> None:
        if can_read(*part):
            answered.append(part)

    concurrency = max((array.source.concurrency for array, _ in parts), default=1)
    share_work(iter(parts), read, len(parts), concurrency)
    return len(answered)


def can_read(array: ChunkedArray, box: Box) -> bool:
    """Read a chunk, and return whether that went well."""
    errors: list[ChunkError] = []
    # One voxel: the whole chunk is read for it, and of a shard no other one.
    voxel = tuple((start, start + 1) for start, _ in box)
    try:
        array.read(voxel, errors.append)
    except (OMEZarrError, OSError):
        return False
    return not errors
