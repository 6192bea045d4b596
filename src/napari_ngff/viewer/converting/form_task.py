"""What forms for long work share: mistakes, a status, a job, and who shows its end."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Self

from psygnal import Signal

from napari_ngff.errors import error_text
from napari_ngff.store.convert.child_process import GRACE
from napari_ngff.store.convert.conversion_preview import find_option
from napari_ngff.store.limits import size_text
from napari_ngff.viewer import window_services
from napari_ngff.viewer.converting.long_job import LongJob
from napari_ngff.viewer.notices import shorten_message, shorten_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari.components import ViewerModel

    from napari_ngff.store.convert.conversion import ConversionStep

__all__ = ["FormTask", "step_text"]

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
