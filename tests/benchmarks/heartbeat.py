"""How long a window does not answer, by a timer of 5 ms; and who holds it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from qtpy.QtCore import Qt, QTimer

__all__ = ["Heartbeat", "beating"]

INTERVAL = 5
"""Milliseconds."""

LONG = 0.03
"""Seconds after which the main thread's calls are noted."""


class Heartbeat:
    """Gaps between two answers of the window, in milliseconds.

    Attributes
    ----------
    gaps
        All of them, each with the time at which it ended.
    stacks
        Of gaps longer than `LONG`: how long, the time at the end, and the calls of the
        main thread meanwhile.
    """

    def __init__(self) -> None:
        self.gaps: list[tuple[float, float]] = []
        self.stacks: list[tuple[float, float, list[list[str]]]] = []
        self._last = time.perf_counter()
        self._noted: list[list[str]] = []
        self._over = threading.Event()
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)

    def start(self, *, sampled: bool = False) -> None:
        """Begin; `sampled` also notes who holds the window, which costs some time."""
        self._last = time.perf_counter()
        self._timer.start(INTERVAL)
        if sampled:
            threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """End; the time since the last beat counts as a gap."""
        self._beat()
        self._timer.stop()
        self._over.set()

    def until(self, end: float) -> list[float]:
        """List the gaps that began before a moment."""
        return [gap for gap, at in self.gaps if at - gap / 1000 < end]

    def _beat(self) -> None:
        now = time.perf_counter()
        gap, noted = (now - self._last) * 1000, self._noted
        self._last, self._noted = now, []
        self.gaps.append((gap, now))
        if noted:
            self.stacks.append((gap, now, noted))

    def _watch(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while not self._over.wait(0.005):
            if time.perf_counter() - self._last > LONG:
                self._noted.append(calls_of(sys._current_frames()[main]))


def calls_of(frame: FrameType | None) -> list[str]:
    """List the calls that a thread is in, the innermost last."""
    calls = []
    while frame is not None:
        code = frame.f_code
        calls.append(f"{code.co_filename}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return calls[::-1]


@contextmanager
def beating(*, sampled: bool = False) -> Iterator[Heartbeat]:
    """Measure the window while something is done that lets it answer."""
    heartbeat = Heartbeat()
    heartbeat.start(sampled=sampled)
    try:
        yield heartbeat
    finally:
        heartbeat.stop()
