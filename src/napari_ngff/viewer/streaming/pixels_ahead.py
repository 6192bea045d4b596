"""Reads the pixels beside those on screen while a server has nothing else to send.

First the planes that a slider shows next, coarse ones before fine ones, then a ring of
chunks around the part in view. Decoded chunks stay in the cache of all images.
"""

from __future__ import annotations

import math
import weakref
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from napari_ngff.store.arrays.boxes import box_of, box_shape, cells_in
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.store.threads import share_work
from napari_ngff.viewer.services.unexpected import attempt_work
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming.streamed_view import centre_distance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari_ngff.store.arrays.boxes import Box, Cell
    from napari_ngff.store.pyramids.pyramid import LevelSource
    from napari_ngff.viewer.streaming.streamed_view import PixelStream, StreamedView

REQUESTS = 8
"""Requests at once: a view that is opened meanwhile does not wait behind many."""

LARGEST_VIEW = 32 << 20
"""Bytes of a view above which nothing is read beside it: of volumes."""

MOST_TRIED = 20_000
"""Chunks that are remembered so that empty ones are not asked for again."""


ViewsAtRest = tuple[tuple["StreamedView", ...], frozenset[int]]
"""Views on screen, and the axes that a slider moves along."""


class ChunkAhead(NamedTuple):
    """A chunk beside what is on screen.

    Attributes
    ----------
    order
        Which is read first: the lowest.
    level, cell
        The level, and the position of the chunk.
    """

    order: tuple[int, float]
    level: LevelSource
    cell: Cell

    def read(self) -> None:
        """Read it into the cache, without a notice if it cannot be read."""
        self.level.try_reading(box_of(self.cell, self.level.chunks, self.level.shape))


class AheadReader:
    """Reads chunks that will be looked at next, in one worker with its helpers.

    Used in the main thread.

    Parameters
    ----------
    is_busy
        Whether pixels are missing on screen: nothing is read ahead then.

    Attributes
    ----------
    is_running
        Whether a worker reads ahead.
    """

    def __init__(self, is_busy: Callable[[], bool]) -> None:
        self._is_busy = is_busy
        self._waiting: dict[int, weakref.ref[PixelStream]] = {}
        self.is_running = False
        self._tried: dict[tuple[object, Cell], None] = {}

    def read_around(self, stream: PixelStream) -> None:
        """Read what is beside the views of a stream, of which nothing is missing."""
        self._waiting[id(stream)] = weakref.ref(stream)
        self._start()

    def _start(self) -> None:
        if self.is_running or not self._waiting or self._is_busy():
            return
        streams = [reference() for reference in self._waiting.values()]
        self._waiting = {}
        beside = [
            (stream.drawn_views, stream.stepped_axes)
            for stream in streams
            if stream is not None
        ]
        self.is_running = True
        work = partial(self._read_chunks, beside)
        Window.current.run_work(partial(attempt_work, work), self._end)

    def _end(self, _: str | None) -> None:
        # A failure is not reported: whoever looks at the chunk meets it again.
        self.is_running = False
        self._start()

    def _read_chunks(self, beside: Sequence[ViewsAtRest]) -> None:
        chunks = [
            chunk for views, axes in beside for chunk in list_chunks_ahead(views, axes)
        ]
        ordered = sorted(chunks, key=lambda chunk: chunk.order)
        share_work(self._next_chunks(ordered), ChunkAhead.read, REQUESTS, REQUESTS)

    def _next_chunks(self, chunks: Sequence[ChunkAhead]) -> Iterator[ChunkAhead]:
        left = cache.limit // 4
        for chunk in chunks:
            # Another place is looked at.
            if self._is_busy() or self._waiting:
                return
            level = chunk.level
            # Not the token of the level, which may hold the level itself.
            key = level.array.token, chunk.cell
            if key in self._tried or level.cached_chunk(chunk.cell) is not None:
                continue
            left -= math.prod(level.chunks) * level.dtype.itemsize
            if left < 0:
                return
            if len(self._tried) >= MOST_TRIED:
                self._tried.clear()
            self._tried[key] = None
            yield chunk


def list_chunks_ahead(
    views: Sequence[StreamedView], stepped_axes: frozenset[int]
) -> list[ChunkAhead]:
    """List the chunks that a step of a slider, or a pan, will show.

    Parameters
    ----------
    views
        On screen.
    stepped_axes
        Axes of the levels that a slider moves along.
    """
    chunks = []
    finest = min((view.number for view in views), default=0)
    for view in views:
        level = view.level
        nbytes = math.prod(box_shape(view.box)) * level.dtype.itemsize
        if nbytes > LARGEST_VIEW:
            continue
        seen = set(cells_in(view.box, level.chunks))
        # The coarsest first: it stands where a finer one is still missing.
        order = 2 if view.number == finest and len(views) > 1 else 0
        beside = [
            (box, order + later) for box, later in shifted_boxes(view, stepped_axes)
        ]
        if view.number == finest:
            beside.append((widen_box(view.box, level.shape, level.chunks), 4))
        for box, order in beside:
            for cell in cells_in(box, level.chunks):
                if cell not in seen:
                    seen.add(cell)
                    area = box_of(cell, level.chunks, level.shape)
                    distance = centre_distance(area, view.box)
                    chunks.append(ChunkAhead((order, distance), level, cell))
    return chunks


def shifted_boxes(
    view: StreamedView, stepped_axes: frozenset[int]
) -> Iterator[tuple[Box, int]]:
    """Give the boxes of the next planes, each with 0, and of those before, with 1.

    A plane of the next chunk: the planes in the same chunk are read with the view.
    """
    box, shape, chunks = view.box, view.level.shape, view.level.chunks
    for later, step in enumerate((1, -1)):
        for axis in sorted(stepped_axes):
            start, stop = box[axis]
            place = (start // chunks[axis] + step) * chunks[axis]
            if stop - start == 1 and 0 <= place < shape[axis]:
                yield (*box[:axis], (place, place + 1), *box[axis + 1 :]), later


def widen_box(box: Box, shape: Sequence[int], chunks: Sequence[int]) -> Box:
    """Widen a box by one chunk along the axes that are displayed."""
    return tuple(
        (max(0, start - chunk), min(size, stop + chunk))
        if stop - start > 1
        else (start, stop)
        for (start, stop), size, chunk in zip(box, shape, chunks, strict=True)
    )
