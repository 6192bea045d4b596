"""Actions one after another: reading in a worker, then short steps in the window."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import error_text
from napari_ngff.viewer import frontend
from napari_ngff.viewer.notices import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Actions", "Leave"]

Leave = Callable[[Any, Callable[[bool], None]], None]
"""Saves, or asks about, what an action would take away; see `Actions.do`."""

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
    hold
        Called before layers are changed; what it returns, when all are, so that one
        frame shows all changes.
    is_open
        Whether the window is still there; layers do not change after it was closed.
    """

    def __init__(
        self,
        busy: Callable[[bool], Any],
        hold: Callable[[], Callable[[], None]] = lambda: lambda: None,
        is_open: Callable[[], bool] = lambda: True,
    ) -> None:
        self._busy = busy
        self._is_open = is_open
        self._hold = hold
        self._release: Callable[[], None] | None = None
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
        leave: Leave | None = None,
        name: Callable[[], str] = lambda: "an image",
    ) -> None:
        """Do something.

        Parameters
        ----------
        work
            Reads, in a worker. What it raises of ours is told to the user.
        steps
            Changes layers with what `work` returned, in the main thread.
        leave
            Called before with that, and with a function to call, at once or later,
            with whether what is shown may go. If another action was asked for
            meanwhile, that function does nothing.
        name
            Names what is to be shown, for the user; called when `work` has ended.
        """
        self._generation += 1
        mine = self._generation
        self._busy(True)

        def attempt() -> Any:
            # It may have had to wait for its turn too long.
            return None if mine != self._generation else _attempt(work)

        def change(found: Any, may_go: bool) -> None:
            if mine == self._generation and may_go:
                self._begin(mine, steps(found))
            elif mine == self._generation:
                self._busy(False)

        def done(found: Any) -> None:
            if mine != self._generation or not self._is_open():
                return
            if isinstance(found, Exception):
                frontend.show((error_text(found),), f"Not shown: {shorten(name())}")
                self._busy(False)
            elif leave is None:
                change(found, True)
            else:
                leave(found, lambda may_go: change(found, may_go))

        frontend.run(attempt, done)

    def _begin(self, mine: int, steps: Iterator[None]) -> None:
        begun = self._steps
        if begun is not None and not self._inside:
            self._walk(begun, math.inf)
        self._steps = steps
        if self._release is None:
            self._release = self._hold()
        self._go_on(mine, steps)

    def _go_on(self, mine: int, steps: Iterator[None]) -> None:
        if steps is not self._steps:
            return
        if not self._is_open():
            self._steps = self._release = None
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
            release, self._release = self._release, None
            if release is not None:
                release()
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


def _attempt(work: Callable[[], Any]) -> Any:
    """Do some work; return what it raises."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001
        # Codecs raise whatever they like; nobody else would tell of the end.
        return error
