"""Actions one after another: reading in a worker, then short steps in the window."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import OMEZarrError
from napari_ngff.viewer import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Acting"]

SHORT = 0.02
"""Seconds of changing layers after which napari may draw and answer in between."""


class Acting:
    """Runs actions; of two, only the later one counts.

    Parameters
    ----------
    busy
        Told of the beginning and of the end.
    """

    def __init__(self, busy: Callable[[bool], Any]) -> None:
        self._busy = busy
        self._generation = 0

    def stop(self) -> None:
        """Let what goes on come to nothing."""
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
            try:
                return work()
            except (OMEZarrError, OSError) as error:
                return error

        def done(found: Any) -> None:
            if mine != self._generation:
                return
            if isinstance(found, Exception):
                session.show((str(found),))
                self._busy(False)
            else:
                self._go_on(mine, steps(found))

        session.run(safely, done)

    def _go_on(self, mine: int, steps: Iterator[None]) -> None:
        if mine != self._generation:
            return
        start = time.perf_counter()
        for _ in steps:
            if time.perf_counter() - start > SHORT:
                session.run(lambda: None, lambda _: self._go_on(mine, steps))
                return
        if mine == self._generation:
            self._busy(False)
