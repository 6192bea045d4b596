"""Work in a process of its own, which can be cancelled."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from napari_ngff.store.convert.child_process import run_in_child
from napari_ngff.viewer.services.unexpected import Signal
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.store.convert.conversion import ConversionStep


class LongJob:
    """Work that reports its steps.

    Parameters
    ----------
    title
        For the bar in the window.
    work, arguments
        See `run_in_child`.

    Attributes
    ----------
    step
        The newest step that was reported; None before the first.
    is_running
        Whether it has begun and not ended.
    is_cancelled
        Whether it was cancelled.
    outcome
        What `work` returned, or the error that it raised.
    """

    stepped = Signal(object)
    """Emitted in the main thread with the newest step, some times a second."""

    ended = Signal(object)
    """Emitted in the main thread with `outcome`."""

    def __init__(
        self,
        title: str,
        work: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> None:
        self.title = title
        self.step: ConversionStep | None = None
        self.is_running = False
        self.outcome: Any = None
        self._work, self._arguments = work, arguments
        self._stop = threading.Event()

    @property
    def is_cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._stop.is_set()

    def start(self) -> None:
        """Begin."""
        self.is_running = True
        try:
            # Not one of the window's threads, which are few: it may take hours.
            threading.Thread(
                target=self._run, name="napari-ngff-job", daemon=True
            ).start()
        # A form waits for the end.
        except Exception as error:  # noqa: BLE001
            self._finish(error)

    def cancel(self) -> None:
        """Stop it; it ends soon, with an error as its outcome."""
        self._stop.set()

    def _run(self) -> None:
        try:
            outcome = run_in_child(self._work, self._arguments, self._follow)
        except Exception as error:  # noqa: BLE001  shown in the main thread
            outcome = error
        Window.current.run_in_main(lambda: self._finish(outcome))

    def _follow(self, step: ConversionStep | None) -> None:
        if self._stop.is_set():
            msg = "It was cancelled."
            raise InterruptedError(msg)
        if step is not None:
            Window.current.report_to_main(self, lambda: self._show_step(step))

    def _show_step(self, step: ConversionStep) -> None:
        # What was reported before the end may arrive after it.
        if self.is_running:
            self.step = step
            self.stepped.emit(step)

    def _finish(self, outcome: Any) -> None:
        self.is_running = False
        self.outcome = outcome
        self.ended.emit(outcome)
