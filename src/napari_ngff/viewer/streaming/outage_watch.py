"""Asks again for what a server did not give, while it is on screen.

After an outage that is now and then; where the server refuses, after a login.

napari slices again only where the view leaves what it has sliced: a pan within that,
or a step of the wheel, asks for nothing.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Protocol

from napari_ngff.store.sources.server_logins import call_after_login
from napari_ngff.viewer.services.window import GuardedSignal, Window, report_unexpected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.store.arrays.boxes import Box
    from napari_ngff.store.pyramids.pyramid import LevelSource

FIRST_PAUSE = 5.0
"""Seconds after which a server is asked again; each time twice as long."""

LONGEST_PAUSE = 20.0
"""Seconds between two questions at most."""


class MissingPixels(Protocol):
    """Pixels on the screen that a server did not give."""

    def list_failed(self) -> Sequence[tuple[LevelSource, Box]]:
        """List the chunks that failed and may come, each by a part of it."""

    def read_again(self) -> None:
        """Ask for all of them: one has come."""


class OutageWatch:
    """Asks for one failed chunk now and then; once it comes, all are read again.

    Used in the main thread only.

    Parameters
    ----------
    pixels
        What is looked after.
    """

    def __init__(self, pixels: MissingPixels) -> None:
        # Weak, and so are waiting calls: they would keep it for so long.
        self._pixels = weakref.ref(pixels)
        self._count = 0
        self._is_waiting = False

    def watch(self) -> None:
        """Ask again after a pause where chunks failed; to be called again and again."""
        pixels = self._pixels()
        if pixels is None or self._is_waiting:
            return
        if not pixels.list_failed():
            self._count = 0
            return
        self._is_waiting = True
        pause = min(FIRST_PAUSE * float(2**self._count), LONGEST_PAUSE)
        self._count = min(self._count + 1, 16)
        Window.current.run_after(pause, partial(_ask_again, weakref.ref(self)))

    def ask_again(self) -> None:
        """Ask for one of the failed chunks, in a worker."""
        self._is_waiting = False
        pixels = self._pixels()
        failed = pixels.list_failed() if pixels is not None else ()
        if not failed:
            self._end_asking(False)
            return
        # Another one each time: a single one may be damaged for good.
        level, box = failed[self._count % len(failed)]
        self._is_waiting = True
        Window.current.run_work(
            partial(level.try_reading, box),
            self._end_asking,
            self._fail_asking,
        )

    def _fail_asking(self, error: Exception) -> None:
        report_unexpected(error)
        self._end_asking(False)

    def _end_asking(self, is_read: bool) -> None:
        self._is_waiting = False
        pixels = self._pixels()
        if is_read and pixels is not None:
            pixels.read_again()
        else:
            self.watch()


def _ask_again(reference: weakref.ref[OutageWatch]) -> None:
    watch = reference()
    if watch is not None:
        watch.ask_again()


logged_in = GuardedSignal((str,), name="logged_in")
"""Emitted in the main thread with a server for which there is another login."""

call_after_login(
    lambda server: Window.current.run_in_main(partial(logged_in.emit, server))
)
