"""What forms for long work share: mistakes, a status, a job, and who shows its end.

A `LongJob` is work in a process of its own, which can be cancelled.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Self

from psygnal import Signal

from napari_ngff.errors import error_text
from napari_ngff.store.convert.child_process import GRACE, run_in_child
from napari_ngff.store.convert.conversion_preview import find_option
from napari_ngff.store.limits import size_text
from napari_ngff.viewer import window_services
from napari_ngff.viewer.notices import shorten_message, shorten_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.store.convert.conversion import ConversionStep

__all__ = [
    "FormTask",
    "LongJob",
    "step_text",
]


class LongJob:
    """Work that reports its steps.

    Parameters
    ----------
    title
        For the bar in the window.
    work, arguments, grace
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
        grace: float = GRACE,
    ) -> None:
        self.title = title
        self.step: ConversionStep | None = None
        self.is_running = False
        self.outcome: Any = None
        self._work, self._arguments, self._grace = work, arguments, grace
        self._stop = threading.Event()

    @property
    def is_cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._stop.is_set()

    def start(self) -> None:
        """Begin."""
        self.is_running = True
        # Not one of the window's threads, which are few: it may take hours.
        thread = threading.Thread(target=self._run, name="napari-ngff-job", daemon=True)
        thread.start()

    def cancel(self) -> None:
        """Stop it; it ends soon, with an error as its outcome."""
        self._stop.set()

    def _run(self) -> None:
        try:
            outcome = run_in_child(
                self._work, self._arguments, self._follow, self._grace
            )
        except Exception as error:  # noqa: BLE001  shown in the main thread
            outcome = error
        window_services.run_in_main(lambda: self._finish(outcome))

    def _follow(self, step: ConversionStep | None) -> None:
        if self._stop.is_set():
            msg = "It was cancelled."
            raise InterruptedError(msg)
        if step is not None:
            window_services.report_to_main(self, lambda: self._show_step(step))

    def _show_step(self, step: ConversionStep) -> None:
        # What was reported before the end may arrive after it.
        if self.is_running:
            self.step = step
            self.stepped.emit(step)

    def _finish(self, outcome: Any) -> None:
        self.is_running = False
        self.outcome = outcome
        self.ended.emit(outcome)


_running: weakref.WeakKeyDictionary[Any, list[FormTask]] = weakref.WeakKeyDictionary()
"""Tasks of each viewer whose work runs: a form that is opened again shows it."""

CANCELLING = "Cancelling…"


class FormTask:
    """The state behind one form.

    Parameters
    ----------
    viewer
        In whose window it is.

    Attributes
    ----------
    mistakes
        What has to be changed: text by name of the field.
    status
        What is going on, or how it ended.
    job
        The work that runs; None where none does.
    is_busy
        Whether files are looked at.
    """

    changed = Signal()
    """Emitted in the main thread when anything that the form shows may be different."""

    job_started = Signal(object)
    """Emitted with the `LongJob` that has just begun."""

    grace = GRACE
    """Seconds in which its work may finish something after *Cancel*."""

    def __init__(self, viewer: ViewerModel) -> None:
        viewer = getattr(viewer, "__wrapped__", viewer)
        self._viewer = weakref.ref(viewer)
        self.mistakes: dict[str, str] = {}
        self.status = ""
        self.job: LongJob | None = None
        self.is_busy = False

    @property
    def viewer(self) -> Any:
        """The viewer; None if it is gone."""
        return self._viewer()

    @property
    def is_running(self) -> bool:
        """Return whether its work runs."""
        return self.job is not None

    @classmethod
    def running_in(cls, viewer: Any) -> Self | None:
        """Return the task of a viewer whose work runs; None for none."""
        viewer = getattr(viewer, "__wrapped__", viewer)
        found = _running.get(viewer, [])
        return next((task for task in found if isinstance(task, cls)), None)

    def cancel(self) -> None:
        """Stop the work that runs."""
        if self.job is not None:
            self.job.cancel()
            self.status = CANCELLING
            self.changed.emit()

    def run_job(
        self,
        title: str,
        work: Callable[..., Any],
        arguments: tuple[Any, ...],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Work in a process of its own, and then call one of two functions."""
        job = self.job = LongJob(title, work, arguments, self.grace)
        viewer = self.viewer
        if viewer is not None:
            _running.setdefault(viewer, []).append(self)

        def finish(outcome: Any) -> None:
            if isinstance(outcome, Exception):
                failed(outcome)
            else:
                done(outcome)
            tasks = _running.get(viewer, []) if viewer is not None else []
            if self in tasks:
                tasks.remove(self)
            self.job = None
            self._notify_end(title)
            self.changed.emit()

        def show_step(step: ConversionStep) -> None:
            if not job.is_cancelled:
                self.status = step_text(step)
                self.changed.emit()

        job.stepped.connect(show_step)
        job.ended.connect(finish)
        self.mistakes, self.status = {}, "Reading metadata…"
        job.start()
        self.job_started.emit(job)
        self.changed.emit()

    def show_error(self, error: Exception) -> None:
        """Show an error at its field, or as the status."""
        text, option = shorten_message(error_text(error)), find_option(error)
        self.mistakes = {option: text} if option else {}
        self.status = "" if option else text

    def _notify_end(self, title: str) -> None:
        """Show the end in the window where the form was closed meanwhile."""
        texts = [*self.mistakes.values(), self.status]
        text = next(filter(None, texts), "")
        if not len(self.changed) and text:
            first = f"{shorten_name(title)}: ended."
            window_services.show_messages((text,), first)


def step_text(step: ConversionStep) -> str:
    """Describe a step for a person."""
    if step.phase in ("pack", "unpack"):
        if not step.total:
            return "Listing files…"
        word = "Packing" if step.phase == "pack" else "Unpacking"
        return f"{word}: {size_text(step.done)} of {size_text(step.total)}"
    if step.phase == "plan":
        return f"Reading metadata: {step.done:,} arrays"
    if step.phase == "compare":
        return f"Checking the source for changes: {step.done:,} of {step.total:,}"
    if step.phase == "rebuild":
        return f"Writing: {size_text(step.done)} of {size_text(step.total)} of pixels"
    return f"Piece {step.done:,} of {step.total:,}"
