"""Reads the pixels that streamed levels miss, in workers."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_ngff.errors import AGAIN, LOG_IN, ChunkError, error_text, remedy_of
from napari_ngff.store.arrays.boxes import Box, Cell, box_shape
from napari_ngff.store.threads import CORES, MOST
from napari_ngff.viewer.services.window import (
    GuardedSignal,
    Window,
    catch_error,
    going_on,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.pyramids.pyramid import LevelSource
    from napari_ngff.viewer.streaming.streamed_view import (
        PixelStream,
        SectionJoin,
        StreamedView,
    )

REDRAW_INTERVAL = 0.05
"""Seconds between two redraws while pixels come in."""

REDRAWN = 1 << 24
"""Bytes of a view above which it is drawn again only when all of it is there: sending
it to the graphics takes longer than its pixels."""

WAIT = 0.02
"""Seconds for which napari's main thread waits for pixels of local files: what arrives
by then is in the first picture."""

WAIT_TOGETHER = 0.03
"""The same for all layers that are drawn before the window answers."""

LATE_FOR = 10.0
"""Seconds in which the main thread does not wait for pixels of a server, after it has
waited in vain."""

APART = 0.00025
"""Seconds between the starts of two readers; see docs/design/011."""

ASKED_AGAIN = 0.005
"""Seconds between two looks whether the pixels of a screenshot are there."""

UNANSWERED = 1.0
"""Seconds without a wait after which the main thread may wait again in any case."""


Pixels = np.ndarray[Any, Any]

Asked = tuple["PixelStream", "StreamedView"]


pixels_arrived = GuardedSignal((object,), name="pixels_arrived")
"""Emitted in the main thread with an `ImageStream` of which more can be shown."""


class PixelFetcher:
    """Reads what streams miss, in threads.

    Of one stream and level only what was asked for last is read.

    Parameters
    ----------
    most
        Most chunks that are read at once.
    name
        Begin of the names of the threads.

    Attributes
    ----------
    is_showing
        Whether napari draws what has come in.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._threads = ThreadPoolExecutor(most, name)
        # One thread: asking it never starts another one, for which the main thread
        # would wait while many threads want Python's lock.
        self._starter = ThreadPoolExecutor(1, f"{name}-starter")
        self._lock = threading.Lock()
        self._wanted: dict[tuple[int, int, bool], Asked] = {}
        self._readers = 0
        # Streams of which pixels came that are not drawn yet.
        self._late: dict[int, PixelStream] = {}
        self._shown = 0.0
        # Kinds of errors that were shown since nothing was read.
        self._told: set[type[Exception]] = set()
        self.is_showing = False

    @property
    def is_busy(self) -> bool:
        """Return whether pixels are still to come."""
        return self._readers > 0 or bool(self._late)

    def fetch_view(self, stream: PixelStream, view: StreamedView) -> None:
        """Have the missing pixels of a view read; called in the main thread."""
        number, coarsest = view.number, stream.coarsest
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
        self._start_readers()

    def _start_readers(self) -> None:
        """Start a reader for each chunk, up to the limit; the layers ask one by one."""
        with self._lock:
            views = [view for _, view in self._wanted.values()]
            most = max((v.level.array.source.traits.at_once for v in views), default=1)
            free = min(self._most, most) - self._readers
            count = max(0, min(free, sum(len(view.todo) for view in views)))
            self._readers += count
        if count:
            self._start(self._starter, count, self._begin_reading, count)

    def _start(
        self, threads: ThreadPoolExecutor, readers: int, work: Any, *arguments: Any
    ) -> None:
        """Have work done in a thread; if there is none for it, its readers are none."""
        with going_on():
            try:
                threads.submit(work, *arguments)
            except BaseException:
                with self._lock:
                    self._readers -= readers
                Window.current.run_in_main(self._show_late)
                raise

    def _begin_reading(self, readers: int) -> None:
        # In a thread, one after the other: making a request takes Python's lock for a
        # while, and of many threads that want it the main thread would be one.
        for _ in range(readers):
            self._start(self._threads, 1, self._read_on)
            time.sleep(APART)

    def _read_on(self) -> None:
        while True:
            with self._lock:
                found = self._next_cell()
                if found is None:
                    self._readers -= 1
                    break
            with going_on():
                self._read_cell(found)
        if not self._readers:
            Window.current.run_in_main(self._show_late)

    def _next_cell(self) -> tuple[PixelStream, StreamedView, Cell] | None:
        waiting = [item for item in self._wanted.items() if item[1][1].todo]
        if not waiting:
            return None
        # Coarse levels first: they are a picture of all soonest. Layers of one level
        # get the middle of the screen together, not one layer after the other.
        _, (stream, view) = max(
            waiting, key=lambda item: (item[0][1], len(item[1][1].todo))
        )
        return stream, view, view.todo.pop(0)

    def _read_cell(self, asked: tuple[PixelStream, StreamedView, Cell]) -> None:
        stream, view, cell = asked
        if cell not in view.missing:
            return

        remedies: set[str] = set()

        def report(error: ChunkError) -> None:
            remedies.add(error.remedy)
            on_error = view.level.on_error
            if on_error is None:
                raise error
            on_error(error)

        def read() -> None:
            pixels = view.read_chunk(cell, report)
            if remedies & {AGAIN, LOG_IN}:
                # Coarser pixels are more than an empty square.
                view.give_up(cell, until_login=LOG_IN in remedies)
            else:
                view.put_chunk(cell, pixels)

        _, error = catch_error(read)
        if error is not None:
            self._show_failure(view, cell, error)
        self._note_arrival(stream, view)

    def _show_failure(self, view: StreamedView, cell: Cell, error: Exception) -> None:
        # Reported once; asked for at once it would be asked for without an end.
        view.give_up(cell, until_login=remedy_of(error) == LOG_IN)
        if type(error) in self._told:
            return  # of another chunk
        self._told.add(type(error))
        text = error_text(error)
        Window.current.run_in_main(
            lambda: Window.current.show_messages((text,), "Not all pixels are shown.")
        )

    def _note_arrival(self, stream: PixelStream, view: StreamedView) -> None:
        self._late[id(stream)] = stream
        now = time.monotonic()
        is_drawn = view.pixels.nbytes <= REDRAWN or not view.missing
        if is_drawn and now - self._shown > REDRAW_INTERVAL:
            self._shown = now
            Window.current.report_to_main(
                (self, id(stream)), lambda: self._show_pixels(stream)
            )

    def finish_views(
        self, stream: PixelStream, views: Sequence[StreamedView], seconds: float
    ) -> None:
        """Wait for all that views miss, to a limit, and show it; in the main thread."""
        end = time.monotonic() + seconds
        for view in filter(lambda view: view.missing, views):
            self.fetch_view(stream, view)
        # A chunk that failed a moment ago is missing without a reader.
        while (
            self._readers
            and any(view.missing for view in views)
            and time.monotonic() < end
        ):
            time.sleep(ASKED_AGAIN)
        self._late.pop(id(stream), None)
        self._show_now(stream)

    def _show_pixels(self, stream: PixelStream) -> None:
        if self._late.pop(id(stream), None) is not None:
            self._show_now(stream)

    def _show_late(self) -> None:
        with self._lock:
            if not self._readers:
                self._wanted.clear()
                self._told.clear()
        for stream in tuple(self._late.values()):
            self._show_pixels(stream)

    def _show_now(self, stream: PixelStream) -> None:
        # Nobody looks anew: a server that is down would be asked without an end.
        self.is_showing = True
        try:
            pixels_arrived.emit(stream)
        finally:
            self.is_showing = False


class LocalFetcher(PixelFetcher):
    """The same for files of this computer.

    The main thread may wait for a while; what it has waited for in vain is shown when
    it comes.
    """

    def __init__(self) -> None:
        super().__init__(CORES, "napari-ngff-pixels")
        # Others, so that nobody waits behind chunks that take their time.
        self._soon_threads = ThreadPoolExecutor(CORES, "napari-ngff-soon")
        self._budget = WaitBudget()

    def read_soon(
        self, level: LevelSource, box: Box, join: SectionJoin | None = None
    ) -> Pixels | None:
        """Read a rectangle of a level in a worker; None if that takes too long.

        At once, as without a stream: many times faster than chunk by chunk.
        """
        failed: list[ChunkError] = []
        ended, is_late = threading.Event(), threading.Event()

        def read() -> Pixels:
            pixels = level.read_stored(box, failed.append, stops=is_late.is_set)
            return pixels if join is None or is_late.is_set() else join.join(pixels)

        reading = self._soon_threads.submit(read)
        reading.add_done_callback(lambda _: ended.set())
        self._budget.wait_for(ended)
        is_there, on_error = reading.done(), level.on_error
        is_late.set()
        # Whatever a codec raises is reported where chunk by chunk is read.
        if not is_there or reading.exception() or (failed and on_error is None):
            return None
        for error in failed:
            assert on_error is not None
            on_error(error)
        return reading.result()


class WaitBudget:
    """Seconds for which the main thread may still wait, until the window has answered.

    Then some come back, as many as have passed.
    """

    def __init__(self) -> None:
        self._left, self._since = 0.0, -math.inf
        self._is_asked = False

    def wait_for(self, ended: threading.Event) -> None:
        """Wait for an event, or for as long as there is time."""
        begun = time.monotonic()
        passed = begun - self._since
        # A program may run without an event loop for long.
        if not self._is_asked or passed > UNANSWERED:
            self._left = min(WAIT_TOGETHER, self._left + passed)
            self._is_asked = True
            Window.current.run_after(0, self._note_answer)
        ended.wait(min(WAIT, self._left))
        self._since = time.monotonic()
        self._left = max(0.0, self._left - (self._since - begun))

    def _note_answer(self) -> None:
        self._is_asked = False


fetcher = PixelFetcher(MOST, "napari-ngff-far-pixels")
local_fetcher = LocalFetcher()
