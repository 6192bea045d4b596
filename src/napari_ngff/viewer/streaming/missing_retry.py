"""Has the chunks read again that are missing on the screen.

Streams ask for theirs by themselves, see `outage_watch`. Here is what the user asks
for, and what no stream watches: chunks of volumes in 3D.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.threads import share_work
from napari_ngff.viewer.services.notices import FailureKind, kind_of
from napari_ngff.viewer.services.unexpected import going_on, report_unexpected
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming.missing_parts import is_volume_shown, list_lost
from napari_ngff.viewer.streaming.outage_watch import OutageWatch
from napari_ngff.viewer.streaming.streamed_levels import stream_of
from napari_ngff.viewer.streaming.volume_fit import reread_volume
from napari_ngff.viewer.streaming.well_stream import reread_layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari.components import ViewerModel
    from napari.layers import Layer

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.viewer.streaming.missing_parts import LostChunk


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

    concurrency = max((one.array.source.concurrency for one in lost), default=1)
    share_work(iter(lost), read, len(lost), concurrency)
