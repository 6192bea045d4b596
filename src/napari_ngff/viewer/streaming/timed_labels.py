"""Labels of files that are drawn in time, however long their reading takes.

napari slices labels in the main thread. `TimedLabels` reads them in workers. What is
read in time is in the first picture. Labels that take longer are drawn coarse at first,
and once more when they are there.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from psygnal import SignalGroup

from napari_ngff.errors import error_text
from napari_ngff.store.arrays.boxes import (
    box_shape,
    cells_in,
    intersect_boxes,
    slice_inside,
)
from napari_ngff.store.threads import CORES, LOCAL_CONCURRENCY, share_work
from napari_ngff.viewer.services.unexpected import Signal
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming.pixel_fetcher import local_fetcher
from napari_ngff.viewer.streaming.streamed_view import enlarge_pixels, nearest_indices

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.labels.canvas import Canvas
    from napari_ngff.labels.canvas_level import CanvasLevel, Chunk
    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.arrays.chunked_array import ChunkedArray

KEPT_READS = 6
"""Reads that are remembered: of the part in view and the thumbnail, now and before."""

DRAWN_READS = 2
"""Of these, what napari draws each time."""

MOST_KEPT = 1 << 25
"""Bytes that the others take."""

REDRAW_INTERVAL = 0.2
"""Seconds between two pictures of labels that come in: each is coloured anew."""

Pixels = np.ndarray[Any, Any]


class LabelSignals(SignalGroup):
    """Signals of all labels that come in."""

    arrived = Signal(object)
    """Emitted in the main thread with `TimedLabels` of which more can be shown."""


label_signals = LabelSignals()

_threads = ThreadPoolExecutor(CORES, "napari-ngff-labels")

_coming: set[LabelRead] = set()
"""Reads whose labels are still to be drawn."""


def are_labels_coming() -> bool:
    """Return whether workers read labels that are still to be drawn."""
    return bool(_coming)


class LabelRead:
    """One read of a rectangle of a level, before any edit that is not in the file.

    Attributes
    ----------
    level, box
        The level, and the rectangle.
    done
        Chunks that were read.
    ended
        Set at the end.
    error
        Why it ended early; None where it did not.
    is_left
        Whether nobody needs it any more.
    is_late
        Whether a picture was drawn before its end.
    """

    def __init__(
        self,
        level: CanvasLevel,
        box: Box,
        note: Callable[[LabelRead], None],
    ) -> None:
        self.level, self.box = level, box
        self.done: set[Chunk] = set()
        self.ended = threading.Event()
        self.error: Exception | None = None
        self.is_left = self.is_late = False
        self._array = array_below(level)
        self._state = self._state_of(level)
        self._pixels: Pixels = np.empty(box_shape(box), level.dtype)
        self._base: Pixels | None = None
        self._is_based = False
        self._note = note

    @staticmethod
    def _state_of(level: CanvasLevel) -> tuple[Any, ...]:
        """Name what is below the edits: another one after a save."""
        count, array = level.canvas.saved_count(level), array_below(level)
        source = level.saved if count else level.source
        return count, source, level.dtype, None if array is None else array.token

    @property
    def nbytes(self) -> int:
        """Bytes of its labels."""
        return self._pixels.nbytes

    @property
    def holds(self) -> bool:
        """Return whether the level is still what was read."""
        return self._state == self._state_of(self.level)

    @property
    def is_whole(self) -> bool:
        """Return whether all of it was read."""
        return self.ended.is_set() and self.error is None and not self.is_left

    def run(self) -> None:
        """Read, in a worker."""
        parts = list(self.level.split_at_chunks(self.box))
        try:
            share_work(iter(parts), self._read_part, len(parts), self._concurrency)
        except Exception as error:  # noqa: BLE001  # shown or raised in the main thread
            self.error = error
        finally:
            self.ended.set()
        self._note(self)

    @property
    def _concurrency(self) -> int:
        """Useful number of threads; a local source counts more than there are cores."""
        wanted = CORES if self._array is None else self._array.source.concurrency
        return wanted if wanted > LOCAL_CONCURRENCY else CORES

    def _read_part(self, item: tuple[Chunk, Any, Any]) -> None:
        chunk, part, _ = item
        if self.is_left:
            return
        area = tuple(
            (start + inside.start, start + inside.stop)
            for (start, _), inside in zip(self.box, part, strict=True)
        )
        self._pixels[part] = self.level.read_below(area)
        self.done.add(chunk)  # last: a picture takes what is done
        if not self.ended.is_set():
            self._note(self)

    def is_true(self, box: Box) -> bool:
        """Return whether all labels of a part of it were read."""
        return self.is_whole or self.done.issuperset(cells_in(box, self.level.chunks))

    def compose_picture(self, others: Sequence[LabelRead]) -> Pixels:
        """Give what is there: true labels, and coarser ones where they are missing.

        The caller copies it.
        """
        if self.is_whole:
            return self._pixels
        done = tuple(self.done)
        if not self._is_based:
            self._find_base(others)
        picture = self._base
        assert picture is not None
        for chunk in done:
            common = intersect_boxes(self.level.chunk_box(chunk), self.box)
            part = slice_inside(common, self.box)
            picture[part] = self._pixels[part]
        return picture

    def _find_base(self, others: Sequence[LabelRead]) -> None:
        """Enlarge the finest coarser read that covers this one, and add what was seen.

        Until there is one it is looked for again.
        """
        whole = [one for one in others if one.is_whole and one is not self]
        coarser = [one for one in whole if one.level.number > self.level.number]
        base = None
        for one in sorted(coarser, key=lambda one: one.level.number):
            shapes = self.level.shape, one.level.shape
            indices = nearest_indices(self.box, shapes[0], one.box, shapes[1])
            if indices is not None:
                base = enlarge_pixels(one._pixels, indices)
                base = base.astype(self.level.dtype, copy=False)
                self._is_based = True
                break
        if base is None:
            base = np.zeros(box_shape(self.box), self.level.dtype)
        for one in whole:
            common = intersect_boxes(self.box, one.box)
            if one.level is self.level and all(a < b for a, b in common):
                seen = one._pixels[slice_inside(common, one.box)]
                base[slice_inside(common, self.box)] = seen
        self._base = base


class TimedLabels:
    """The stored labels of a canvas, as they can be drawn; see `DrawnLevels`.

    Used in the main thread.

    Parameters
    ----------
    canvas
        Over levels of files.
    is_drawn
        Whether labels are asked for to be drawn.
    """

    def __init__(self, canvas: Canvas, is_drawn: Callable[[], bool]) -> None:
        self._canvas = weakref.ref(canvas)
        self._is_drawn = is_drawn
        self._reads: OrderedDict[tuple[int, Box], LabelRead] = OrderedDict()
        self._is_showing = False
        self._shown = 0.0

    def read(self, number: int, box: Box) -> Pixels | None:
        """Read what is there in time; None for true labels, if nothing is drawn."""
        canvas = self._canvas()
        followed = len(label_signals.arrived) > 0
        if canvas is None or not followed or not self._is_drawn():
            return None
        if array_below(canvas.levels[number]) is None:
            return None  # new labels, which are not in a file: nothing to wait for
        before = self._reads.pop((number, box), None)
        others = [*self._reads.values(), *([before] if before is not None else [])]
        # Files are looked at again for each picture, as without workers; but what comes
        # in is drawn as it is, or it would be read without an end.
        is_kept = self._is_showing or (before is not None and not before.ended.is_set())
        if before is not None and before.holds and is_kept:
            read = before
        else:
            if before is not None:
                leave_read(before)
            read = self._begin_read(canvas.levels[number], box)
        self._reads[number, box] = read
        self._forget_old()
        if read.error is not None and not read.is_late:
            raise read.error
        return read.compose_picture(others)

    def _begin_read(self, level: CanvasLevel, box: Box) -> LabelRead:
        """Begin to read, and wait for as long as a picture can."""
        self._leave_others(level, box)
        read = LabelRead(level, box, self._note_arrival)
        _threads.submit(read.run)
        local_fetcher.wait_for(read.ended)
        if not read.ended.is_set():
            _coming.add(read)
            read.is_late = True
            if read.ended.is_set():
                self._note_arrival(read)  # which may have come before it was late
        return read

    def _leave_others(self, level: CanvasLevel, box: Box) -> None:
        """Stop reading what was in view before."""
        coarsest, whole = len(level.canvas.levels) - 1, is_whole_plane(level, box)
        for key, read in tuple(self._reads.items()):
            number = read.level.number
            is_same = number == level.number and whole == is_whole_plane(
                read.level, read.box
            )
            # The thumbnail is asked for beside the part in view.
            is_other = number != level.number and coarsest not in (number, level.number)
            if not read.ended.is_set() and (is_same or is_other):
                del self._reads[key]
                leave_read(read)

    def _forget_old(self) -> None:
        sizes = [read.nbytes for read in self._reads.values()]
        while len(sizes) > KEPT_READS or sum(sizes[:-DRAWN_READS]) > MOST_KEPT:
            leave_read(self._reads.popitem(last=False)[1])
            sizes.pop(0)

    def _note_arrival(self, read: LabelRead) -> None:
        """Have more of it drawn, if the main thread did not wait; in a worker."""
        if not read.is_late or read.is_left:
            return
        now = time.monotonic()
        if read.ended.is_set() or now - self._shown > REDRAW_INTERVAL:
            self._shown = now
            self.show_soon()

    def _show_labels(self) -> None:
        coming = [read for read in self._reads.values() if read in _coming]
        ended = [read for read in coming if read.ended.is_set()]
        self._is_showing = True
        try:
            label_signals.arrived.emit(self)
        finally:
            self._is_showing = False
            _coming.difference_update(ended)
        for error in {error_text(one.error) for one in ended if one.error is not None}:
            Window.current.show_messages((error,), "Labels incomplete.")

    def is_true(self, number: int, box: Box) -> bool:
        """Return whether what was drawn of a box of a level is all true."""
        holding = [
            read
            for read in tuple(self._reads.values())
            if read.level.number == number and covers_box(read.box, box)
        ]
        return not holding or any(read.is_true(box) for read in holding)

    def finish_reads(self, seconds: float) -> None:
        """Wait for the labels that are coming, to a limit, and have them drawn."""
        end = time.monotonic() + seconds
        late = [read for read in self._reads.values() if read in _coming]
        for read in late:
            read.ended.wait(max(0.0, end - time.monotonic()))
        if late:
            self._show_labels()

    def show_soon(self) -> None:
        """Have the labels drawn again; called in any thread."""
        Window.current.report_to_main(self, self._show_labels)

    def note_change(self) -> TimedLabels:
        """Go on with changed files: each read knows what it has read."""
        return self


class UnsavedLabels:
    """Labels that are in no file yet: nothing is read of them; see `DrawnLevels`.

    Parameters
    ----------
    canvas
        Over blank levels.
    is_drawn
        Whether labels are asked for to be drawn.
    """

    def __init__(self, canvas: Canvas, is_drawn: Callable[[], bool]) -> None:
        self._canvas = weakref.ref(canvas)
        self._is_drawn = is_drawn

    def read(self, number: int, box: Box) -> Pixels | None:
        """Give nothing: the labels are there at once."""
        return None

    def is_true(self, number: int, box: Box) -> bool:
        """Return that all labels are true."""
        return True

    def note_change(self) -> TimedLabels | None:
        """Go on with the file of the first save, whose coarser levels are drawn."""
        canvas = self._canvas()
        return None if canvas is None else TimedLabels(canvas, self._is_drawn)


def leave_read(read: LabelRead) -> None:
    """Stop a read that nobody needs any more; one that has ended may still be seen."""
    read.is_left = not read.ended.is_set()
    _coming.discard(read)


def array_below(level: CanvasLevel) -> ChunkedArray | None:
    """Find the array of the file that a level shows; None for none."""
    is_saved = level.canvas.saved_count(level) > 0
    source: Any = level.saved if is_saved else level.source
    while hasattr(source, "source"):
        source = source.source
    array: ChunkedArray | None = getattr(source, "array", None)
    return array


def covers_box(box: Box, part: Box) -> bool:
    """Return whether a box holds all of another one."""
    return intersect_boxes(box, part) == part


def is_whole_plane(level: CanvasLevel, box: Box) -> bool:
    """Return whether a box is as large as its level along the last two axes."""
    return box_shape(box)[-2:] == level.shape[-2:]
