"""Joins reads of neighbouring bytes that threads ask for at about the same time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING

from napari_ngff.store.threads import share_work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from napari_ngff.store.sources.file_bytes import Span

__all__ = ["JoinedReads"]

GATHER = 0.003
"""Seconds that a read waits for others; none where nothing else is read."""

GAP = 32 << 10
"""Bytes between two parts that are read along, rather than by another request."""

MOST_JOINED = 1 << 20
"""Bytes of a joined read: larger ones arrive sooner by several requests."""


class AskedSpan:
    """Bytes that one read asks for, and the joined read that brings them."""

    __slots__ = ("batch", "joined", "start", "stop")

    def __init__(self, span: Span, batch: threading.Event) -> None:
        self.start, self.stop = span[0], span[0] + span[1]
        self.batch = batch
        self.joined = JoinedSpan(self)

    def cut(self) -> bytes:
        """Wait for the bytes.

        Raises
        ------
        Exception
            Of the joined read.
        """
        data = self.joined.data.result()
        start = self.start - self.joined.start
        return data[start : start + self.stop - self.start]


class JoinedSpan:
    """A read that brings the bytes of several; the thread of the first one reads."""

    __slots__ = ("data", "first", "start", "stop")

    def __init__(self, first: AskedSpan) -> None:
        self.first = first
        self.start, self.stop = first.start, first.stop
        self.data: Future[bytes] = Future()

    def takes(self, other: AskedSpan) -> bool:
        """Return whether another part, which does not begin before, is read along."""
        if other.start > self.stop + GAP:
            return False
        stop = max(self.stop, other.stop)
        # A header before the bytes of a large entry costs nothing.
        small = self.stop - self.start <= GAP
        return small or stop == self.stop or stop - self.start <= MOST_JOINED


class JoinedReads:
    """Reads parts of one file from many threads, by as few requests as is useful.

    Parameters
    ----------
    fetch
        Reads the bytes from a position to another.
    concurrency
        How many requests at once are of use.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], concurrency: int) -> None:
        self._fetch = fetch
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._waiting: list[AskedSpan] = []
        self._gathering = False
        self._readers = 0

    def read(self, spans: Sequence[Span]) -> list[bytes]:
        """Read parts of the file.

        Raises
        ------
        Exception
            Of `fetch`.
        """
        batch = threading.Event()
        asked = [AskedSpan(span, batch) for span in spans]
        with self._lock:
            self._waiting += asked
            gathers = not self._gathering
            self._gathering = True
            alone = not self._readers
            self._readers += 1
        try:
            if gathers:
                self._gather(0 if alone else GATHER)
            batch.wait()
            led = [one.joined for one in asked if one.joined.first is one]
            share_work(iter(led), self._fetch_joined, len(led), self._concurrency)
            return [one.cut() for one in asked]
        finally:
            with self._lock:
                self._readers -= 1

    def _gather(self, seconds: float) -> None:
        """Let other threads ask, and join what they asked for."""
        try:
            if seconds:
                time.sleep(seconds)
        finally:
            # Also after Ctrl+C: the other threads wait for it.
            with self._lock:
                asked, self._waiting = self._waiting, []
                self._gathering = False
            join_spans(asked)
            for one in asked:
                one.batch.set()

    def _fetch_joined(self, joined: JoinedSpan) -> None:
        # Nothing is raised here: other threads wait for the other parts.
        try:
            joined.data.set_result(self._fetch(joined.start, joined.stop))
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            joined.data.set_exception(error)


def join_spans(asked: Sequence[AskedSpan]) -> None:
    """Give parts that are close to each other the same joined read."""
    last: JoinedSpan | None = None
    for one in sorted(asked, key=lambda one: (one.start, one.stop)):
        if last is not None and last.takes(one):
            last.stop = max(last.stop, one.stop)
            one.joined = last
        else:
            last = one.joined
