"""Levels of images whose pixels come in while the window goes on.

napari slices a layer in the main thread and waits for the pixels. A `StreamedLevel`
gives it at once what is in memory, with pixels of a coarser level where some are
missing, and has the missing chunks read by workers. Code that asks for the data gets
true pixels. While nothing is missing, what may be shown next is read ahead.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from napari_ngff.store.arrays.boxes import (
    Box,
    Cell,
    box_of,
    box_shape,
    cells_in,
    intersect_boxes,
)
from napari_ngff.store.arrays.region_read import cache
from napari_ngff.store.pyramids.pyramid import LevelSource, innermost_source
from napari_ngff.store.sources.server_logins import server_of
from napari_ngff.store.threads import share_work
from napari_ngff.viewer.private.slicing import is_slicing
from napari_ngff.viewer.services.window import Window, attempt_work, call_guarded
from napari_ngff.viewer.streaming.outage_watch import OutageWatch, logged_in
from napari_ngff.viewer.streaming.pixel_fetcher import (
    LATE_FOR,
    PixelFetcher,
    fetcher,
    local_fetcher,
    pixels_arrived,
)
from napari_ngff.viewer.streaming.streamed_view import (
    UNTIL_LOGIN,
    PixelStream,
    SectionJoin,
    StreamedView,
    centre_distance,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from napari_ngff.store.arrays.lazy_array import ArraySource


KEPT_VIEWS = 6
"""Views that a stream remembers: of some levels, the last and the next."""

DRAWN_VIEWS = 2
"""Views that napari draws each time: the part in view, and the thumbnail."""

MOST_KEPT = 2**25
"""Bytes that remembered views of one stream take, beside those that are drawn."""

MOST_KEPT_LOCAL = 2**22
"""The same for files of this computer, whose chunks are in memory or soon read."""

Pixels = np.ndarray[Any, Any]

ViewKey = tuple[int, "Box", "SectionJoin | None"]
"""Number of a level, rectangle of it, and how its sections are drawn as one."""


class CameraWait:
    """Whether napari adds a first layer and has not set the camera on it yet.

    Until then it slices a corner of the finest level, which nobody will see
    (napari 0.9).
    """

    def __init__(self) -> None:
        self.is_on = False

    def begin(self) -> None:
        """Wait until `end`, or until the window answers where that is not called."""
        self.is_on = True
        Window.current.run_after(0, self.end)

    def end(self) -> None:
        """Let pixels be read."""
        self.is_on = False


camera_wait = CameraWait()


class ImageStream:
    """The views of the levels of one layer that were asked for last.

    Parameters
    ----------
    count, ndim
        Number of its levels, and of their axes.
    channel_axis
        Axis that no slider moves along; None for none.

    Attributes
    ----------
    coarsest
        Number of the coarsest level; 0 is the finest.
    is_local
        Whether the level that was asked for last is in a file of this computer.
    stepped_axes
        Axes that a slider moves along, where they are not displayed.
    """

    def __init__(self, count: int, ndim: int, channel_axis: int | None = None) -> None:
        self.coarsest, self.is_local = count - 1, True
        self.stepped_axes = frozenset(range(ndim)) - {channel_axis}
        self._views: OrderedDict[ViewKey, StreamedView] = OrderedDict()
        self._asked: list[StreamedView] = []
        # When reading at once took too long last; zarr cannot be stopped.
        self._late = -LATE_FOR
        self._outage = OutageWatch(self)
        self._is_begun = False

    def get_view(
        self,
        level: LevelSource,
        number: int,
        box: Box,
        join: SectionJoin | None = None,
    ) -> Pixels:
        """Give what can be shown of a rectangle now, and have the rest read."""
        is_local = not level.array.source.traits.is_remote
        if self.is_local and not is_local:
            # Only what is read of a server waits for a login.
            logged_in.connect(self.follow_login, unique=True)
        self.is_local = is_local
        key = number, box, join
        if not self._is_begun and number < self.coarsest:
            if camera_wait.is_on:
                unread = StreamedView(level, *key)
                unread.fill_missing(self._views.values())
                return unread.pixels
            self._is_begun = True
        known = self._views.pop(key, None)
        others = [*self._views.values(), *([known] if known is not None else [])]
        if known is not None and self._is_current(known, level):
            view = known
        else:
            view = self._begin_view(level, key, others)
        if not self.fetcher.is_showing:
            view.retry_failed()
        if view.missing:
            self.fetcher.fetch_view(self, view)
        view.fill_missing(others)
        self._views[key] = view
        self._forget_old()
        # Before pixels are taken, of which more may come meanwhile.
        view.absent = frozenset(view.missing) | frozenset(view.failed)
        self._asked = [*self._asked, view][-DRAWN_VIEWS:]
        if not self.is_local:
            # A picture is drawn, even if nothing can be asked for again.
            call_guarded(self._outage.watch)
        if (
            not self.is_local
            and view.is_whole
            and (known is not view or self.fetcher.is_showing)
        ):
            ahead_reader.read_around(self)
        return view.pixels.copy() if view.missing else view.pixels

    def _is_current(self, view: StreamedView, level: LevelSource) -> bool:
        """Return whether a view need not be read again."""
        if view.token != level.token:
            return False
        is_coming = bool(view.missing) or self.fetcher.is_showing
        # Chunks of local files are soon found, and a shard may have been replaced.
        return is_coming or not self.is_local

    def _begin_view(
        self, level: LevelSource, key: ViewKey, others: Sequence[StreamedView]
    ) -> StreamedView:
        """Take what is in memory, and what can be read in time."""
        _, box, join = key
        pixels = None
        is_near = self.is_local or (join is not None and holds_chunks(level, box))
        waits = is_near and not self.fetcher.is_showing
        if waits and (self.is_local or time.monotonic() > self._late + LATE_FOR):
            pixels = local_fetcher.read_soon(level, box, join)
            self._late = self._late if pixels is not None else time.monotonic()
        view = StreamedView(level, *key, pixels)
        for other in others if not self.is_local else ():
            if other.number == view.number and other.token == view.token:
                view.take_chunks(other)
        if view.missing:
            view.take_cached()
        return view

    @property
    def fetcher(self) -> PixelFetcher:
        """What reads the pixels of this stream."""
        return local_fetcher if self.is_local else fetcher

    @property
    def drawn_views(self) -> tuple[StreamedView, ...]:
        """Views that were asked for last: those on screen."""
        return tuple(self._views.values())[-DRAWN_VIEWS:]

    @property
    def kept_views(self) -> tuple[StreamedView, ...]:
        """Views that are remembered: these, and some from before."""
        return tuple(self._views.values())

    def take_asked(self) -> list[StreamedView]:
        """Give the views that were asked for since the last call, the last ones."""
        asked, self._asked = self._asked, []
        return asked

    def list_failed(self) -> Sequence[tuple[LevelSource, Box]]:
        """List the chunks on screen that failed and may come; see `OutageWatch`."""
        views = self.drawn_views if len(pixels_arrived) else ()
        return [(view.level, view.area_of(at)) for view in views for at in view.passing]

    def read_again(self) -> None:
        """Have it drawn anew, which asks for the chunks that failed a while ago."""
        pixels_arrived.emit(self)

    def follow_login(self, server: str) -> None:
        """Ask for all that a server refused before a login."""
        refused = [
            view
            for view in self.kept_views
            if server_of(view.level.array.source.name) == server
            and view.unlock_failed(UNTIL_LOGIN)
        ]
        if any(view in self.drawn_views for view in refused):
            self.read_again()

    def finish_views(self, seconds: float) -> None:
        """Read what is missing in the last picture, and have it drawn; wait for it."""
        views = self.drawn_views
        if any(view.absent for view in views):
            self.fetcher.finish_views(self, views, seconds)

    def is_true(self, number: int, box: Box) -> bool:
        """Return whether what was drawn last of a rectangle of a level is all true."""
        holding = [
            view
            for view in self.drawn_views
            if view.number == number and intersect_boxes(view.box, box) == box
        ]
        if not holding:  # drawn otherwise
            return not camera_wait.is_on
        return not any(
            cell in view.absent
            for view in holding
            for cell in cells_in(box, view.chunks)
        )

    def _forget_old(self) -> None:
        sizes = [view.pixels.nbytes for view in self._views.values()]
        most = MOST_KEPT_LOCAL if self.is_local else MOST_KEPT
        while len(sizes) > KEPT_VIEWS or sum(sizes[:-DRAWN_VIEWS]) > most:
            self._views.popitem(last=False)
            sizes.pop(0)


@dataclass(frozen=True, slots=True, eq=False)
class StreamedLevel(LevelSource):
    """One level; see the module's text.

    Attributes
    ----------
    number
        0 for the finest.
    stream
        The levels that it is one of.
    """

    number: int = 0
    stream: ImageStream | None = None

    def read(self, box: Box) -> Pixels:
        """Read a rectangle; of what napari draws, what is there."""
        if self.stream is not None and is_drawn(box):
            return self.stream.get_view(self, self.number, box)
        return self.array.read(box, self.on_error)

    def __reduce__(self) -> tuple[Any, ...]:
        return LevelSource, (self.array,)


_drawing: list[bool] = []
"""Not empty while `drawing` lasts; in the main thread."""


@contextmanager
def drawing() -> Iterator[None]:
    """Read what can be drawn at once meanwhile, as napari does where it slices."""
    _drawing.append(True)
    try:
        yield
    finally:
        _drawing.pop()


def holds_chunks(level: LevelSource, box: Box) -> bool:
    """Return whether all chunks of a rectangle are in memory."""
    return all(
        level.cached_chunk(cell) is not None for cell in cells_in(box, level.chunks)
    )


def is_drawn(box: Box) -> bool:
    """Return whether a box is asked for to be drawn, and workers can read it."""
    return (
        threading.current_thread() is threading.main_thread()
        and (bool(_drawing) or is_slicing())
        and Window.current.has_workers
        and len(pixels_arrived) > 0  # somebody draws what comes in
        and all(start < stop for start, stop in box)
    )


def stream_levels(
    sources: Sequence[ArraySource], channel_axis: int | None = None
) -> Sequence[ArraySource]:
    """Let the levels of an image be streamed; those of a mosaic are given as they are.

    One stream is remote or local: levels of both kinds stay as they are, too.

    Parameters
    ----------
    sources
        Levels from the finest to the coarsest.
    channel_axis
        Axis of which each layer shows one place; None for none.
    """
    plain = [source for source in sources if type(source) is LevelSource]
    remote = {source.array.source.traits.is_remote for source in plain}
    if len(plain) < len(sources) or len(remote) != 1:
        return sources
    stream = ImageStream(len(plain), plain[0].array.ndim, channel_axis)
    return [
        StreamedLevel(source.array, source.on_error, number, stream)
        for number, source in enumerate(plain)
    ]


def stream_of(layer: Any) -> ImageStream | None:
    """Find the stream of a layer; None where its pixels are not streamed."""
    drawn = getattr(getattr(layer, "canvas", None), "drawn", None)
    if isinstance(drawn, ImageStream):
        return drawn
    level = layer.data[0] if layer.multiscale else layer.data
    source = innermost_source(getattr(level, "window", None))
    return source.stream if isinstance(source, StreamedLevel) else None


def are_pixels_coming() -> bool:
    """Return whether workers read pixels that are still to be drawn."""
    return fetcher.is_busy or local_fetcher.is_busy


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


ahead_reader = AheadReader(lambda: fetcher.is_busy)


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
