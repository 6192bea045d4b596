"""How long a window does not answer, by a timer of 5 ms; and who holds it."""

from __future__ import annotations

import statistics
import sys
import threading
import time
import traceback
from contextlib import contextmanager

from qtpy.QtCore import Qt, QTimer

INTERVAL = 5
"""Milliseconds."""

LONG = 0.03
"""Seconds after which the main thread's calls are noted."""


class Heartbeat:
    """Gaps between two answers of the window, in milliseconds.

    Attributes
    ----------
    gaps
        All of them.
    busy
        Of these, what the main thread computed; the rest it waited, for a server or
        for a processor.
    stacks
        Of gaps longer than `LONG`: how long, and the calls of the main thread then.
    """

    def __init__(self):
        self.gaps, self.busy, self.stacks = [], [], []
        self._last, self._computed = time.perf_counter(), time.thread_time()
        self._noted = None
        self._over = threading.Event()
        self._timer = QTimer()
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)

    @property
    def longest(self):
        return max(self.gaps)

    @property
    def median(self):
        return statistics.median(self.gaps)

    def start(self):
        self._last, self._computed = time.perf_counter(), time.thread_time()
        self._timer.start(INTERVAL)
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()

    def stop(self):
        self._beat()
        self._timer.stop()
        self._over.set()

    def _beat(self):
        now = time.perf_counter()
        gap, noted = now - self._last, self._noted
        computed = time.thread_time()
        self.busy.append((computed - self._computed) * 1000)
        self._last, self._noted, self._computed = now, None, computed
        self.gaps.append(gap * 1000)
        if noted is not None:
            self.stacks.append((gap * 1000, noted))

    def _watch(self):
        main = threading.main_thread().ident
        while not self._over.wait(0.005):
            if time.perf_counter() - self._last > LONG:
                frame = sys._current_frames().get(main)
                lines = traceback.extract_stack(frame)
                text = [f"{one.filename}:{one.lineno} {one.name}" for one in lines]
                self._noted = [*(self._noted or []), text]


@contextmanager
def beating():
    """Measure the window while something is done that lets it answer."""
    heartbeat = Heartbeat()
    heartbeat.start()
    try:
        yield heartbeat
    finally:
        heartbeat.stop()
