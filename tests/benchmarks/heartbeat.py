"""How long a window does not answer, by a timer of 5 ms; and who holds it."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from qtpy.QtCore import Qt, QTimer

__all__ = ["Heartbeat", "beating"]

INTERVAL = 5
"""Milliseconds."""

LONG = 0.03
"""Seconds of a gap whose calls are kept."""

EARLY = 0.01
"""Seconds after which the main thread's calls are noted."""

Sample = tuple[float, list[str]]
"""Seconds that a sample stands for, and the calls of the main thread, the innermost
last."""


class Heartbeat:
    """Gaps between two answers of the window, in milliseconds.

    Attributes
    ----------
    gaps
        All of them, each with the time at which it ended.
    stacks
        Of gaps longer than `LONG`: how long without the time in which the processor was
        not free for it, the time at the end, and samples of the main thread.
    collections
        Start and end of each time in which Python collected garbage, in any thread:
        all others wait for it.
    """

    def __init__(self) -> None:
        self.gaps: list[tuple[float, float]] = []
        self.stacks: list[tuple[float, float, list[Sample]]] = []
        self.collections: list[tuple[float, float]] = []
        self._begun = 0.0
        self._queued = queued_of_main()
        self._last, self._waited = time.perf_counter(), self._queued()
        self._noted: list[Sample] = []
        self._over = threading.Event()
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)

    def start(self, *, sampled: bool = False) -> None:
        """Begin; `sampled` also notes who holds the window, which costs some time."""
        self._last, self._waited = time.perf_counter(), self._queued()
        self._timer.start(INTERVAL)
        gc.callbacks.append(self._note_collection)
        if sampled:
            threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """End; the time since the last beat counts as a gap."""
        self._beat()
        self._timer.stop()
        self._over.set()
        gc.callbacks.remove(self._note_collection)

    def until(self, end: float) -> list[float]:
        """List the gaps that began before a moment."""
        return [gap for gap, at in self.gaps if at - gap / 1000 < end]

    def collecting(self, begin: float, end: float) -> float:
        """Return for how many milliseconds of a time garbage was collected."""
        spans = [(max(a, begin), min(b, end)) for a, b in self.collections]
        return 1000 * sum(b - a for a, b in spans if b > a)

    def _note_collection(self, phase: str, _: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "stop":
            self.collections.append((self._begun, now))
        self._begun = now

    def _beat(self) -> None:
        now, waited = time.perf_counter(), self._queued()
        gap, noted = (now - self._last) * 1000, self._noted
        busy = gap - (waited - self._waited) * 1000
        self._last, self._waited, self._noted = now, waited, []
        self.gaps.append((gap, now))
        if noted and gap > LONG * 1000:
            self.stacks.append((max(0.0, busy), now, noted))

    def _watch(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        queued = queued_of_main()
        before = time.perf_counter() - queued()
        while not self._over.wait(0.005):
            now = time.perf_counter()
            stands = now - queued()
            if now - self._last > EARLY:
                calls = calls_of(sys._current_frames()[main])
                # Longer than 5 ms where a call let no other thread work.
                self._noted.append((max(0.0, stands - before), calls))
            before = stands


def queued_of_main() -> Callable[[], float]:
    """Return what tells for how long the main thread had to wait for a processor.

    In seconds since its start; always 0 where the system does not tell.
    """
    number = threading.main_thread().native_id
    path = Path(f"/proc/self/task/{number}/schedstat")
    if not path.exists():
        return lambda: 0.0
    return lambda: int(path.read_text().split()[1]) / 1e9


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
