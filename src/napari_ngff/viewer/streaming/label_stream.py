"""Labels below their edits, drawn while they come in.

napari slices labels in the main thread. Of a `Canvas`, a `LabelStream` gives what is
there for drawing; code, and edits that ask for labels, get true ones.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from napari_ngff.store.arrays.boxes import Box, Cell, array_box, order_block, order_box
from napari_ngff.store.arrays.lazy_array import ArraySource, ArrayWindow, BlankArray
from napari_ngff.store.pyramids.pyramid import LevelSource, OnError, innermost_source
from napari_ngff.viewer.streaming.streamed_levels import ImageStream, is_drawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.labels.canvas import Canvas

Pixels = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LabelLevel(LevelSource):
    """A level of labels below its edits, in one state of the file.

    Attributes
    ----------
    below
        Its labels with the axes of the canvas, read from `array`.
    dtype
        Of the canvas.
    saved_count
        How many edits the file contains.
    """

    below: ArraySource
    dtype: np.dtype[Any]
    saved_count: int

    @property
    @override
    def shape(self) -> tuple[int, ...]:
        return tuple(self.below.shape)

    @property
    @override
    def chunks(self) -> tuple[int, ...]:
        return tuple(self.below.chunks)

    @property
    @override
    def token(self) -> object:
        return self.saved_count, self.below, self.dtype, self.array.token

    @override
    def read_stored(
        self,
        box: Box,
        on_error: OnError | None,
        keep: bool = True,
        stops: Callable[[], bool] | None = None,
    ) -> Pixels:
        stored = LevelSource(self.array, on_error, keep=keep, stops=stops)
        labels: Pixels = _exchange_level(self.below, stored).read(box)
        return labels.astype(self.dtype, copy=False)

    @override
    def cached_chunk(self, cell: Cell) -> Pixels | None:
        window = self.below
        if not isinstance(window, ArrayWindow) or window.dtype != self.dtype:
            return None
        if not isinstance(window.source, LevelSource):
            return None
        spans = array_box(tuple((i, i) for i in cell), window.order, self.array.ndim)
        chunk = self.array.cached_chunk(tuple(start for start, _ in spans))
        return None if chunk is None else order_block(chunk, window.order)


class LabelStream(ImageStream):
    """The labels of a canvas below its edits; see `DrawnLevels`.

    Parameters
    ----------
    canvas
        Over levels of files, or over blank ones until its first save.
    """

    def __init__(self, canvas: Canvas) -> None:
        super().__init__(len(canvas.levels), canvas.ndim)
        self._canvas = weakref.ref(canvas)

    def read(self, number: int, box: Box) -> Pixels | None:
        """Read what is there, if napari draws; None where true labels are needed."""
        level = self._level_of(number) if is_drawn(box) else None
        return None if level is None else self.get_view(level, number, box)

    @override
    def is_true(self, number: int, box: Box) -> bool:
        return self._level_of(number) is None or super().is_true(number, box)

    def _level_of(self, number: int) -> LabelLevel | None:
        """Find what a level is read from now; None where it is in no file."""
        canvas = self._canvas()
        if canvas is None:
            return None
        level = canvas.levels[number]
        count = canvas.saved_count(level)
        below: Any = level.saved if count else level.source
        stored = innermost_source(below)
        if not isinstance(stored, LevelSource):
            return None
        return LabelLevel(
            stored.array, stored.on_error,
            below=below, dtype=level.dtype, saved_count=count,
        )  # fmt: skip


def stream_canvas(canvas: Canvas) -> None:
    """Let a canvas over labels of files be drawn while they come in."""
    stored = [innermost_source(level.source) for level in canvas.levels]
    if all(isinstance(source, LevelSource | BlankArray) for source in stored):
        canvas.drawn = LabelStream(canvas)


def drawn_box(level: LevelSource, box: Box) -> Box:
    """Convert a box of the array of a level to one of the level as it is drawn."""
    window = level.below if isinstance(level, LabelLevel) else None
    return order_box(box, window.order) if isinstance(window, ArrayWindow) else box


def _exchange_level(source: Any, level: LevelSource) -> Any:
    """Show another level in the same way."""
    if isinstance(source, LevelSource):
        return level
    return replace(source, source=_exchange_level(source.source, level))
