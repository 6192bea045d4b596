"""Actions one after another: reading in a worker, then short steps in the window."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError
from napari_ngff.viewer import frontend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Actions"]

SHORT = 0.03
"""Seconds of changing layers after which napari may draw and answer in between."""


class Actions:
    """Runs actions; of two, only the later one counts.

    But what has begun to change layers is brought to its end: half of an image and half
    of another would be seen.

    Parameters
    ----------
    busy
        Told of the beginning and of the end.
    """

    def __init__(self, busy: Callable[[bool], Any]) -> None:
        self._busy = busy
        self._generation = 0
        self._steps: Iterator[None] | None = None
        self._inside = False

    def stop(self) -> None:
        """Let what is still being read come to nothing."""
        self._generation += 1

    def since(self) -> Callable[[], bool]:
        """Begin to tell whether nothing else was asked for meanwhile."""
        mine = self._generation
        return lambda: mine == self._generation

    def do(
        self,
        work: Callable[[], Any],
        steps: Callable[[Any], Iterator[None]],
    ) -> None:
        """Do something.

        Parameters
        ----------
        work
            Reads, in a worker. What it raises of ours is told to the user.
        steps
            Changes layers with what `work` returned, in the main thread.
        """
        self._generation += 1
        mine = self._generation
        self._busy(True)

        def safely() -> Any:
            if mine != self._generation:
                return None  # it had to wait for its turn too long
            try:
                return work()
            except (OMEZarrError, OSError) as error:
                return error
            except Exception as error:  # noqa: BLE001
                # Codecs raise whatever they like; nobody else would tell of the end.
                return RuntimeError(f"It cannot be shown: {error!r}")

        def done(found: Any) -> None:
            if mine != self._generation:
                return
            if isinstance(found, Exception):
                frontend.show((str(found),))
                self._busy(False)
                return
            begun = self._steps
            if begun is not None and not self._inside:
                self._walk(begun, math.inf)
            self._steps = steps(found)
            self._go_on(mine, self._steps)

        frontend.run(safely, done)

    def _go_on(self, mine: int, steps: Iterator[None]) -> None:
        if steps is not self._steps:
            return
        ended = True
        try:
            ended = self._walk(steps, SHORT)
        finally:  # also where napari fails: the next action has to begin
            if ended:
                self._end(mine, steps)
        if not ended:
            frontend.run(lambda: None, lambda _: self._go_on(mine, steps))

    def _end(self, mine: int, steps: Iterator[None]) -> None:
        if steps is self._steps:
            self._steps = None
        if mine == self._generation:
            self._busy(False)

    def _walk(self, steps: Iterator[None], seconds: float) -> bool:
        """Do steps for some time; tells whether all are done."""
        before, self._inside = self._inside, True
        start = time.perf_counter()
        try:
            return all(time.perf_counter() - start <= seconds for _ in steps)
        finally:
            self._inside = before
