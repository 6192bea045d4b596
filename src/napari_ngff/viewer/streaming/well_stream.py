"""Draws the wells of an overview in workers, while the window stays usable."""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING

from napari_ngff.store.arrays.boxes import Box, enclose_boxes, intersect_boxes
from napari_ngff.viewer.private.napari_layers import forget_thumbnail
from napari_ngff.viewer.private.slicing import is_slicing
from napari_ngff.viewer.services.window import Window, attempt_work, going_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari.layers import Layer

    from napari_ngff.plate.mosaic_level import MosaicLevel
    from napari_ngff.plate.well_cells import WellCells

TURN = 0.4
"""Seconds of drawing after which what is there is shown."""


Asked = tuple[int, "Box"]
"""Id of a level, and a rectangle of it."""


class WellStream:
    """Draws, in workers, the parts of an overview that napari asks for.

    Parameters
    ----------
    redraw
        Called in the main thread when more can be seen; reading what is not there yet
        asks again.
    finished
        Called in the main thread when nothing is left to do.

    Attributes
    ----------
    is_busy
        Whether something is still to be drawn.
    """

    def __init__(
        self, redraw: Callable[[], None], finished: Callable[[], None]
    ) -> None:
        self._redraw = redraw
        self._finished = finished
        # By level and plane: of each, what was asked for last, see `_join_boxes`.
        self._wanted: dict[Asked, tuple[MosaicLevel, Box]] = {}
        self._tiles: weakref.WeakSet[WellCells] = weakref.WeakSet()
        self.is_busy = False
        self._end = 0.0
        # What was drawn since nothing was left to do.
        self._drawn_once: dict[int, list[Box]] = {}

    def connect_wells(self, tiles: Iterable[WellCells]) -> None:
        """Draw these wells from now on, and no others."""
        self.close()
        # Without worker threads, drawing later would not be drawing elsewhere.
        if Window.current.has_workers:
            for well_cells in tiles:
                well_cells.defer = self._defer_drawing
                self._tiles.add(well_cells)

    def close(self) -> None:
        """Stop drawing."""
        self._wanted.clear()
        self._drawn_once.clear()
        for tiles in self._tiles:
            tiles.defer = None
        self._tiles.clear()

    def _defer_drawing(self, level: MosaicLevel, box: Box) -> bool:
        if not is_slicing():
            return False  # code that asks for data gets them whole
        drawn = self._drawn_once.get(id(level), ())
        if any(intersect_boxes(one, box) == box for one in drawn):
            # There is no room for all that is in view: else this would go on for ever.
            return False
        key = id(level), box[:-2]
        sizes = zip(box[-2:], level.chunks[-2:], strict=True)
        if key in self._wanted and all(b - a <= size for (a, b), size in sizes):
            joined = _join_boxes(self._wanted[key][1], box)
            box = joined if level.planes.is_small_enough(joined[-2:]) else box
        self._wanted[key] = level, box
        if not self.is_busy:
            self.is_busy = True
            self._end = time.monotonic() + TURN
            self._start_drawing()
        return True

    def _start_drawing(self) -> None:
        Window.current.run_work(lambda: attempt_work(self._draw_wells), self._on_drawn)

    def _draw_wells(self) -> None:
        end = self._end
        # A turn ends early enough that wells appear one after the other.
        while time.monotonic() < end:
            first = next(iter(list(self._wanted.items())), None)
            if first is None:
                return
            key, asked = first
            level, box = asked
            late = lambda key=key, asked=asked: (  # noqa: E731
                time.monotonic() > end or self._wanted.get(key) != asked
            )
            if level.draw_box(box, late):
                self._wanted.pop(key, None)
                self._drawn_once.setdefault(id(level), []).append(box)

    def _on_drawn(self, failed: str | None) -> None:
        if failed is not None:
            # Drawn again at once, it would fail again, without an end.
            self.is_busy = False
            self._wanted.clear()
            with going_on():
                Window.current.show_messages((failed,), "The overview is not complete.")
            self._finished()
            return
        if self._wanted and time.monotonic() < self._end:
            # Another channel was asked for just now: one picture shows both.
            self._start_drawing()
            return
        self.is_busy = False
        # What of it is still in view is asked for again.
        self._wanted.clear()
        with going_on():
            self._redraw()
        if not self.is_busy:
            self._drawn_once.clear()
            self._finished()


def _join_boxes(whole: Box, piece: Box) -> Box:
    """Add a piece to what it touches: labels are asked for one chunk at a time.

    One that lies elsewhere is of another view, and counts alone.
    """
    touches = all(start <= stop for start, stop in intersect_boxes(whole, piece))
    return enclose_boxes([whole, piece]) if touches else piece


def reread_layer(layer: Layer) -> None:
    """Draw a layer again with what can be read now."""
    # napari colors all of a picture of labels again, which takes 40 ms.
    show_arrived = getattr(layer, "show_arrived", None)
    if show_arrived is not None and show_arrived():
        return
    forget_thumbnail(layer)
    layer.refresh(extent=False)


Misfit = tuple[int | None, str, str | None]
"""Acquisition, labels and well."""


class OversizedWells:
    """Remembers for which wells room was made: once each, so that it ends."""

    def __init__(self) -> None:
        self._tried: set[Misfit] = set()

    def try_new(self, mosaics: Sequence[WellCells]) -> bool:
        """Return whether wells need room for the first time; then they are tried."""
        new = {misfit for misfit, _ in _misfits_of(mosaics)} - self._tried
        self._tried |= new
        return bool(new)

    def list_problems(self, mosaics: Sequence[WellCells]) -> dict[str | None, str]:
        """Give the reasons why wells are not shown whole, though room was made."""
        misfits = _misfits_of(mosaics)
        return {misfit[2]: why for misfit, why in misfits if misfit in self._tried}


def _misfits_of(mosaics: Iterable[WellCells]) -> Iterator[tuple[Misfit, str]]:
    for tiles in mosaics:
        for well, why in list(tiles.misfits.items()):
            yield (tiles.choice.acquisition, tiles.choice.inside, well), why
