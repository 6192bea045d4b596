"""Levels of remote images whose pixels come in while the window goes on.

napari slices a layer in the main thread and waits for the pixels. A `StreamedLevel`
gives it at once what is in memory, with pixels of a coarser level where some are
missing, and has the missing chunks read by workers. Code that asks for the data gets
true pixels.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from psygnal import Signal, SignalGroup

from napari_ngff.errors import AGAIN, ChunkError, OMEZarrError, error_text
from napari_ngff.store.arrays.boxes import (
    box_of,
    box_shape,
    cells_in,
    intersect_boxes,
    slice_inside,
)
from napari_ngff.store.arrays.drawable_pixels import DrawablePixels, RoundedLabels
from napari_ngff.store.arrays.lazy_array import ArrayWindow
from napari_ngff.store.pyramids.pyramid import LevelSource
from napari_ngff.store.threads import LOCAL_CONCURRENCY, share_work
from napari_ngff.viewer import window_services
from napari_ngff.viewer.browsing.streaming import at_once, is_slicing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.store.arrays.boxes import Box, Cell
    from napari_ngff.store.arrays.lazy_array import ArraySource

__all__ = [
    "ImageStream",
    "StreamedCanvas",
    "StreamedLevel",
    "drawing",
    "stream_canvas",
    "stream_levels",
    "stream_of",
    "stream_signals",
]

KEPT_VIEWS = 6
"""Views that a stream remembers: of some levels, the last and the next."""

DRAWN_VIEWS = 2
"""Views that napari draws each time: the part in view, and the thumbnail."""

MOST_KEPT = 2**25
"""Bytes that remembered views of one stream take, beside those that are drawn."""

RETRY_AFTER = 3.0
"""Seconds after which chunks that a server did not give are asked for again, when
they are looked at."""

REDRAW_INTERVAL = 0.05
"""Seconds between two redraws while pixels come in."""

Pixels = np.ndarray[Any, Any]


class StreamSignals(SignalGroup):
    """Signals of all streams."""

    arrived = Signal(object)
    """Emitted in the main thread with an `ImageStream` of which more can be shown."""


stream_signals = StreamSignals()


class StreamedView:
    """A rectangle of one level while its pixels come in.

    Attributes
    ----------
    level
        The level.
    box
        Rectangle of the level.
    pixels
        What is known of it: true pixels, and pixels of a coarser level.
    missing
        Chunks whose true pixels are not here, and their rectangles; those nearest to
        the centre first.
    todo
        Of these, those that no worker reads yet.
    failed
        Chunks that a server did not give, and when that was.
    absent
        Chunks of these when the view was drawn last.
    """

    __slots__ = ("absent", "box", "failed", "level", "missing", "pixels", "todo")

    def __init__(self, level: StreamedLevel, box: Box) -> None:
        self.level, self.box = level, box
        self.pixels = np.full(box_shape(box), level.array.fill_value, level.dtype)
        self.missing = cells_from_centre(box, level)
        self.todo: list[Cell] = []
        self.failed: dict[Cell, float] = {}
        self.absent: frozenset[Cell] = frozenset()

    def take_coarser(self, other: StreamedView) -> bool:
        """Fill all from a coarser view, by nearest pixels; False if it is too small."""
        indices = []
        for (start, stop), size, coarse, (low, high) in zip(
            self.box, self.level.shape, other.level.shape, other.box, strict=True
        ):
            index = np.arange(start, stop) * coarse // size
            if index[0] < low or index[-1] >= high:
                return False
            indices.append(index - low)
        # Axis by axis: several times as fast as `numpy.ix_`.
        block = other.pixels
        for axis, index in enumerate(indices[:-1]):
            block = np.take(block, index, axis)
        np.take(block, indices[-1], len(indices) - 1, out=self.pixels, mode="clip")
        return True

    def take_seen(self, other: StreamedView) -> None:
        """Show what another view of the same level shows of this rectangle."""
        common = intersect_boxes(self.box, other.box)
        if all(start < stop for start, stop in common):
            seen = other.pixels[slice_inside(common, other.box)]
            self.pixels[slice_inside(common, self.box)] = seen

    def take_chunks(self, other: StreamedView) -> None:
        """Take the chunks whose true pixels another view of the same level has."""
        absent = set(other.missing)  # before its pixels, which a worker goes on to fill
        for cell, area in tuple(self.missing.items()):
            if cell not in absent and intersect_boxes(area, other.box) == area:
                if cell in other.failed:
                    self.failed[cell] = other.failed[cell]
                self.put_chunk(cell, other.pixels[slice_inside(area, other.box)])

    def put_chunk(self, cell: Cell, pixels: Pixels) -> None:
        """Put the true pixels of a chunk."""
        area = self.missing.get(cell)
        if area is not None:
            self.pixels[slice_inside(area, self.box)] = pixels
            del self.missing[cell]  # last: another view copies what is not missing

    def take_cached(self) -> None:
        """Take the chunks whose pixels are in memory, however they got there."""
        for cell, area in tuple(self.missing.items()):
            chunk = self.level.array.cached_chunk(cell)
            if chunk is not None:
                whole = tuple(
                    (at * size, (at + 1) * size)
                    for at, size in zip(cell, self.level.chunks, strict=True)
                )
                self.put_chunk(cell, chunk[slice_inside(area, whole)])

    def retry_failed(self) -> None:
        """Let chunks be missing again that failed a while ago."""
        before = time.monotonic() - RETRY_AFTER
        again = [cell for cell, at in tuple(self.failed.items()) if at < before]
        if again:
            areas = cells_from_centre(self.box, self.level)
            for cell in again:
                del self.failed[cell]
                self.missing[cell] = areas[cell]


class ImageStream:
    """The levels of one image layer, and the views of them that were asked for last.

    Parameters
    ----------
    sources
        Levels from the finest to the coarsest.
    """

    def __init__(self, sources: Sequence[LevelSource]) -> None:
        self.levels = tuple(
            StreamedLevel(source.array, source.on_error, number, self)
            for number, source in enumerate(sources)
        )
        self._views: OrderedDict[tuple[int, Box], StreamedView] = OrderedDict()

    def get_view(self, level: StreamedLevel, box: Box) -> Pixels:
        """Give what can be shown of a rectangle now, and have the rest read."""
        key = level.number, box
        view = self._views.pop(key, None) or self._begin_view(level, box)
        self._views[key] = view
        self._forget_old()
        if not fetcher.is_showing:
            view.retry_failed()
        if view.missing:
            fetcher.fetch_view(self, view)
        view.absent = frozenset(view.missing) | frozenset(view.failed)  # before pixels
        return view.pixels.copy() if view.missing else view.pixels

    def _begin_view(self, level: StreamedLevel, box: Box) -> StreamedView:
        view = StreamedView(level, box)
        others = sorted(self._views.values(), key=lambda other: other.level.number)
        coarser = (other for other in others if other.level.number > level.number)
        # The finest that covers the view: a thumbnail covers all of it.
        any(view.take_coarser(other) for other in coarser)
        same = [other for other in self._views.values() if other.level is level]
        for other in same:
            view.take_seen(other)
        for other in same:
            view.take_chunks(other)
        view.take_cached()
        return view

    def is_true(self, number: int, box: Box) -> bool:
        """Tell whether what was drawn last of a rectangle of a level is all true."""
        holding = [
            view
            for view in tuple(self._views.values())[-DRAWN_VIEWS:]
            if view.level.number == number and intersect_boxes(view.box, box) == box
        ]
        return bool(holding) and not any(
            cell in view.absent
            for view in holding
            for cell in cells_in(box, view.level.chunks)
        )

    def _forget_old(self) -> None:
        sizes = [view.pixels.nbytes for view in self._views.values()]
        while len(sizes) > KEPT_VIEWS or sum(sizes[:-DRAWN_VIEWS]) > MOST_KEPT:
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
        if self.stream is not None and is_drawn():
            return self.stream.get_view(self, box)
        return self.array.read(box, self.on_error)

    def __reduce__(self) -> tuple[Any, ...]:
        return LevelSource, (self.array,)


@dataclass(frozen=True, slots=True, eq=False)
class StreamedCanvas:
    """What can be drawn at once of the levels below a canvas; see `DrawnLevels`.

    Attributes
    ----------
    stream
        The levels as they are stored.
    windows
        The same with the axes and the type of the canvas.
    """

    stream: ImageStream
    windows: tuple[ArraySource, ...]

    def read(self, number: int, box: Box) -> Pixels | None:
        """Read what is there, if napari draws."""
        return self.windows[number].read(box) if is_drawn() else None

    def is_true(self, number: int, box: Box) -> bool:
        """Tell whether what was drawn of a box of the canvas is all true."""
        return self.stream.is_true(number, _stored_box(self.windows[number], box))


class PixelFetcher:
    """Reads what streams miss, in one worker with its helpers.

    Of one stream and level only what was asked for last is read.

    Attributes
    ----------
    is_showing
        Whether napari draws what has come in.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[tuple[int, int, bool], tuple[ImageStream, StreamedView]] = {}
        self._running = False
        self._shown = 0.0
        self.is_showing = False

    @property
    def is_busy(self) -> bool:
        """Whether pixels are still to come."""
        return self._running

    def fetch_view(self, stream: ImageStream, view: StreamedView) -> None:
        """Have the missing pixels of a view read; called in the main thread."""
        number, coarsest = view.level.number, len(stream.levels) - 1
        whole = box_shape(view.box)[-2:] == view.level.shape[-2:]
        key = id(stream), number, whole
        with self._lock:
            known = self._wanted.get(key)
            if known is not None and known[1] is view:
                return
            for other in list(self._wanted) if number != coarsest else ():
                # The view has changed: what was left is not read any more.
                if other[0] == key[0] and other[1] not in (number, coarsest):
                    del self._wanted[other]
            view.todo = list(view.missing)
            self._wanted[key] = stream, view
        if not self._running:
            self._running = True
            self._run_loop()

    def _run_loop(self) -> None:
        window_services.run_work(
            lambda: window_services.attempt_work(self._fetch_view), self._end_view
        )

    def _fetch_view(self) -> None:
        concurrency = max(
            (v.level.array.source.concurrency for _, v in list(self._wanted.values())),
            default=1,
        )
        share_work(self._next_cells(), self._read_cell, concurrency, concurrency)

    def _next_cells(self) -> Iterator[tuple[ImageStream, StreamedView, Cell]]:
        while True:
            with self._lock:
                # Coarse levels first: they are a picture of all soonest.
                wanted = sorted(self._wanted.items(), key=lambda item: -item[0][1])
                found = next((pair for _, pair in wanted if pair[1].todo), None)
                if found is None:
                    return
                cell = found[1].todo.pop(0)
            yield *found, cell

    def _read_cell(self, asked: tuple[ImageStream, StreamedView, Cell]) -> None:
        stream, view, cell = asked
        area = view.missing.get(cell)
        if area is None:
            return

        def report(error: ChunkError) -> None:
            if error.remedy == AGAIN:
                view.failed[cell] = time.monotonic()
            on_error = view.level.on_error
            if on_error is None:
                raise error
            on_error(error)

        try:
            view.put_chunk(cell, view.level.array.read(area, report))
        except (OMEZarrError, OSError) as error:
            # Shown empty, and reported once; or it would be asked for without an end.
            view.failed[cell] = time.monotonic()
            view.missing.pop(cell, None)
            text = error_text(error)
            window_services.run_in_main(
                lambda: window_services.show_messages((text,), "Image incomplete.")
            )
        now = time.monotonic()
        if now - self._shown > REDRAW_INTERVAL:
            self._shown = now
            window_services.tell_main(
                (self, id(stream)), lambda: self._show_pixels(stream)
            )

    def _show_pixels(self, stream: ImageStream) -> None:
        # Nobody looks anew: a server that is down would be asked without an end.
        self.is_showing = True
        try:
            stream_signals.arrived.emit(stream)
        finally:
            self.is_showing = False

    def _end_view(self, failed: str | None) -> None:
        with self._lock:
            ended = {id(stream): stream for stream, _ in self._wanted.values()}
            todo = any(view.todo for _, view in self._wanted.values())
            if failed is None and todo:
                ended = {}
            else:
                self._wanted.clear()
                self._running = False
        if failed is not None:
            window_services.show_messages((failed,), "Image incomplete.")
            return
        if not ended:
            self._run_loop()
        for stream in ended.values():
            self._show_pixels(stream)


fetcher = PixelFetcher()


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


def is_drawn() -> bool:
    """Tell whether pixels are asked for to be drawn, and workers can read them."""
    main = threading.current_thread() is threading.main_thread()
    return main and (bool(_drawing) or is_slicing()) and not at_once()


def stream_levels(sources: Sequence[ArraySource]) -> Sequence[ArraySource]:
    """Let the levels of a remote image be streamed; others are given as they are."""
    plain = [source for source in sources if type(source) is LevelSource]
    if len(plain) < len(sources) or not all(is_remote(source) for source in plain):
        return sources
    return ImageStream(plain).levels


def stream_canvas(canvas: Canvas) -> None:
    """Let a canvas over remote labels be drawn at once."""
    windows = [level.source for level in canvas.levels]
    stored = [_stored_source(window) for window in windows]
    levels = stream_levels(stored)
    first = levels[0]
    if isinstance(first, StreamedLevel) and first.stream is not None:
        pairs = zip(windows, levels, strict=True)
        streamed = tuple(_exchange_source(window, level) for window, level in pairs)
        canvas.drawn = StreamedCanvas(first.stream, streamed)


WRAPPERS = ArrayWindow, DrawablePixels, RoundedLabels
"""Sources that show another one."""


def _stored_source(source: ArraySource) -> ArraySource:
    """Find the level of the file that a source shows."""
    while isinstance(source, WRAPPERS):
        source = source.source
    return source


def _exchange_source(source: ArraySource, level: ArraySource) -> ArraySource:
    """Show another level in the same way."""
    if not isinstance(source, WRAPPERS):
        return level
    return replace(source, source=_exchange_source(source.source, level))


def _stored_box(source: ArraySource, box: Box) -> Box:
    """Convert a box of a source to one of the level of the file."""
    while isinstance(source, WRAPPERS):
        if isinstance(source, ArrayWindow):
            box = source.box_below(box)
        source = source.source
    return box


def is_remote(source: LevelSource) -> bool:
    """Tell whether reading a level waits for a server."""
    return source.array.source.concurrency > LOCAL_CONCURRENCY


def stream_of(layer: Any) -> ImageStream | None:
    """Find the stream of a layer; None where its pixels are not streamed."""
    drawn = getattr(getattr(layer, "canvas", None), "drawn", None)
    if isinstance(drawn, StreamedCanvas):
        return drawn.stream
    level = layer.data[0] if layer.multiscale else layer.data
    source = getattr(getattr(level, "window", None), "source", None)
    source = source.source if isinstance(source, DrawablePixels) else source
    return source.stream if isinstance(source, StreamedLevel) else None


def cells_from_centre(box: Box, level: LevelSource) -> dict[Cell, Box]:
    """List the chunks that a rectangle meets, those nearest to its centre first."""
    centre = [(start + stop) / 2 for start, stop in box[-2:]]

    def distance(area: Box) -> float:
        return math.dist([(start + stop) / 2 for start, stop in area[-2:]], centre)

    areas = {
        cell: intersect_boxes(box_of(cell, level.chunks, level.shape), box)
        for cell in cells_in(box, level.chunks)
    }
    return dict(sorted(areas.items(), key=lambda item: distance(item[1])))
