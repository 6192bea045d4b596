"""Long jobs of the window that wait at a step, so that a test is never too late."""

from __future__ import annotations

import threading

from napari_ngff.viewer.converting import conversion_task
from patience import PATIENCE


class HeldJobs:
    """Jobs run in this process, and wait once a phase has done a piece.

    Parameters
    ----------
    monkeypatch
        Of the test.
    phase
        See `ConversionStep`.
    """

    def __init__(self, monkeypatch, phase):
        self.phase = phase
        self.reached, self.released = threading.Event(), threading.Event()
        monkeypatch.setattr(conversion_task, "run_in_child", self._run)

    def _run(self, work, arguments, follow):
        def hold(step):
            follow(step)
            if step.phase == self.phase and step.done and not self.released.is_set():
                self.reached.set()
                assert self.released.wait(PATIENCE)
                follow(step)

        return work(*arguments, hold)

    def wait(self):
        """Wait until a job waits."""
        assert self.reached.wait(PATIENCE)

    def release(self):
        """Let it, and all others, go on."""
        self.released.set()
