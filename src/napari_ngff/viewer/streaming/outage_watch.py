"""Asks again for what a server did not give, while it is on screen.

After an outage that is now and then; where the server refuses, after a login.

napari slices again only where the view leaves what it has sliced: a pan within that,
or a step of the wheel, asks for nothing.
"""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Protocol

from napari_ngff.errors import OMEZarrError
from napari_ngff.store.sources.server_logins import call_after_login, server_of
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.streaming.pixel_fetcher import stream_signals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from napari_ngff.errors import ChunkError
    from napari_ngff.store.arrays.boxes import Cell
    from napari_ngff.store.pyramids.pyramid import LevelSource
    from napari_ngff.viewer.streaming.streamed_view import StreamedView

FIRST_PAUSE = 5.0
"""Seconds after which a server is asked again; each time twice as long."""

LONGEST_PAUSE = 20.0
"""Seconds between two questions at most."""


def pause_after(count: int) -> float:
    """Return the seconds until a server is asked again, after a number of times."""
    return min(FIRST_PAUSE * float(2**count), LONGEST_PAUSE)


class WatchedStream(Protocol):
    """What is looked after; see `ImageStream`."""

    @property
    def levels(self) -> Sequence[LevelSource]:
        """Levels from the finest to the coarsest."""

    @property
    def drawn_views(self) -> tuple[StreamedView, ...]:
        """Views that are on screen."""

    @property
    def kept_views(self) -> tuple[StreamedView, ...]:
        """These, and others that were on screen."""


class OutageWatch:
    """Asks for one failed chunk now and then; once it comes, for all others.

    Used in the main thread only.

    Parameters
    ----------
    stream
        Whose chunks failed.
    """

    def __init__(self, stream: WatchedStream) -> None:
        self._stream = weakref.ref(stream)
        self._count = 0
        self._is_waiting = False
        follow_logins(self)

    def watch_views(self) -> None:
        """Ask again after a pause where chunks on screen failed."""
        stream = self._stream()
        if stream is None or self._is_waiting:
            return
        if any(view.passing for view in stream.drawn_views):
            self._is_waiting = True
            pause = pause_after(self._count)
            self._count = min(self._count + 1, 16)
            # Not the method itself, which would keep the watch for so long.
            ask = partial(_ask_in_main, weakref.ref(self))
            timer = threading.Timer(pause, ask)
            timer.daemon = True
            timer.start()
        elif all(view.is_whole for view in stream.drawn_views):
            self._count = 0

    def ask_again(self) -> None:
        """Ask for one of the failed chunks, in a worker."""
        stream = self._stream()
        views = stream.drawn_views if stream is not None else ()
        failed = [(view, cell) for view in views for cell in view.passing]
        if not failed or not len(stream_signals.arrived):
            self._is_waiting = False
            self._count = 0
            return
        # Another one each time: a single one may be damaged for good.
        view, cell = failed[self._count % len(failed)]
        Window.current.run_work(partial(can_read_chunk, view, cell), self._end_asking)

    def _end_asking(self, is_read: bool) -> None:
        self._is_waiting = False
        stream = self._stream()
        if is_read and stream is not None:
            stream_signals.arrived.emit(stream)  # drawn anew, which asks for the rest
        else:
            self.watch_views()

    def follow_login(self, server: str) -> None:
        """Ask for all that a server refused, if it has images of the stream."""
        stream = self._stream()
        if stream is None or not any(
            server_of(level.array.source.name) == server for level in stream.levels
        ):
            return
        refused = [view for view in stream.kept_views if view.unlock_refused()]
        if any(view in stream.drawn_views for view in refused):
            stream_signals.arrived.emit(stream)


class LoginFollower(Protocol):
    """What is called after logins."""

    def follow_login(self, server: str) -> None:
        """Ask again for what this server refused; called in the main thread."""


_followers: weakref.WeakSet[LoginFollower] = weakref.WeakSet()
_changing = threading.Lock()


def follow_logins(follower: LoginFollower) -> None:
    """Call an object after each login to a server, as long as it exists."""
    with _changing:
        _followers.add(follower)


def _follow_login(server: str) -> None:
    with _changing:
        followers = tuple(_followers)
    for follower in followers:
        Window.current.run_in_main(partial(follower.follow_login, server))


call_after_login(_follow_login)


def _ask_in_main(reference: weakref.ref[OutageWatch]) -> None:
    watch = reference()
    if watch is not None:
        Window.current.run_in_main(watch.ask_again)


def can_read_chunk(view: StreamedView, cell: Cell) -> bool:
    """Read a chunk of a view without a notice; return whether that went well."""
    errors: list[ChunkError] = []
    try:
        view.level.array.read(view.area_of(cell), errors.append, keep=view.keeps)
    except (OMEZarrError, OSError):
        return False
    return not errors
