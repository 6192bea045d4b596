"""The state behind the form *Convert OME-Zarr*: its work, and how that ended."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_ngff.errors import (
    LoginNeededError,
    OMEZarrError,
    OptionError,
    error_text,
)
from napari_ngff.store.convert.conversion import (
    ConversionCall,
    discard_unfinished,
    has_unfinished,
    run_conversion,
)
from napari_ngff.store.data_folder import is_in_data_folder
from napari_ngff.store.hierarchy.location import is_url
from napari_ngff.store.limits import size_text
from napari_ngff.store.sources.server_logins import server_of
from napari_ngff.viewer.composing.write_layers import complete_path
from napari_ngff.viewer.converting.long_job import LongJob
from napari_ngff.viewer.services.notices import (
    MOST_SHOWN,
    count_noun,
    last_part,
    shorten_message,
    shorten_name,
)
from napari_ngff.viewer.services.unexpected import Signal, going_on
from napari_ngff.viewer.services.window import Window

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.store.convert.conversion import (
        ConversionResult,
        ConversionStep,
        ConvertOptions,
    )

KEPT = " Finished parts are kept, hidden beside the target: Convert continues."


class ConversionTask:
    """One conversion of a window: it goes on when its form is closed.

    Attributes
    ----------
    status
        What is going on, or how it ended.
    job
        The work that runs; None where none does.
    result
        What was made by the last conversion; None before.
    call
        What was asked for last; None before.
    is_unfinished
        Whether parts of the last conversion are there, since it was stopped.
    """

    changed = Signal()
    """Emitted in the main thread when anything that the form shows may be different."""

    login_needed = Signal(str)
    """Emitted with a server, as of `server_of`, that wants a login."""

    def __init__(self) -> None:
        self.status = ""
        self.job: LongJob | None = None
        self.result: ConversionResult | None = None
        self.call: ConversionCall | None = None
        self.is_unfinished = False

    def start(
        self, source: str, target: str, options: ConvertOptions
    ) -> LongJob | None:
        """Convert; a conversion with the same options that was stopped is continued.

        Returns
        -------
        LongJob, optional
            The work that has begun; None where it cannot begin.
        """
        if self.job is not None:
            return None
        if not source or not target:
            self.status = "Choose what to convert, and a name to save it as."
            self.changed.emit()
            return None
        target = target if is_url(target) else str(complete_path(target))
        self.call = ConversionCall.with_logins(source, target, options)
        self.result, self.is_unfinished = None, False
        job = LongJob(f"Converting {last_part(target)}", run_conversion, (self.call,))
        job.stepped.connect(self._show_step)
        job.ended.connect(self._take_outcome)
        self.job, self.status = job, "Reading metadata…"
        job.start()
        self.changed.emit()
        return job

    def cancel(self) -> None:
        """Stop the work that runs."""
        if self.job is not None:
            self.job.cancel()
            self.status = "Cancelling…"
            self.changed.emit()

    def discard(self) -> None:
        """Remove what a stopped conversion left."""
        if self.job is not None or self.call is None:
            return
        target = self.call.target

        def remove() -> str:
            try:
                discard_unfinished(target)
            except (OMEZarrError, OSError) as error:
                return error_text(error)
            return "Unfinished parts are deleted."

        def show(text: str) -> None:
            self.status, self.is_unfinished = text, False
            self.changed.emit()

        Window.current.run_work(remove, show)

    def _show_step(self, step: ConversionStep) -> None:
        if self.job is not None and not self.job.is_cancelled:
            self.status = step_text(step)
            self.changed.emit()

    def _take_outcome(self, outcome: ConversionResult | Exception) -> None:
        job, self.job = self.job, None
        self.status = "The conversion has ended."
        with going_on():
            if isinstance(outcome, Exception):
                self.status = failure_text(outcome)
                self._look_for_parts()
            else:
                self.result = outcome
                self.status = result_text(outcome)
        self.changed.emit()
        if job is not None and not len(self.changed):
            # The form was closed meanwhile.
            first = f"{shorten_name(job.title)}: ended."
            Window.current.show_messages((self.status,), first)
        if isinstance(outcome, LoginNeededError) and self.call is not None:
            self.login_needed.emit(outcome.server or server_of(self.call.source))

    def _look_for_parts(self) -> None:
        assert self.call is not None
        target = self.call.target

        def show(is_unfinished: bool) -> None:
            if self.job is None and is_unfinished:
                self.is_unfinished = True
                self.status += KEPT
                self.changed.emit()

        Window.current.run_work(lambda: has_unfinished(target), show)


_tasks: weakref.WeakKeyDictionary[Any, ConversionTask] = weakref.WeakKeyDictionary()
"""The task of each viewer: a form that is opened again shows it."""


def conversion_task_of(viewer: ViewerModel) -> ConversionTask:
    """Return the task of a viewer."""
    return _tasks.setdefault(viewer, ConversionTask())


def propose_target(source: str) -> str:
    """Return a free name beside the source, or in the home folder.

    There if the source is on a server or in the data folder. What is in an archive
    becomes a folder.
    """
    if not source:
        return ""
    path = Path(source)
    name = path.name.partition(".")[0] or "image"
    is_elsewhere = is_url(source) or is_in_data_folder(source)
    folder = Path.home() if is_elsewhere else path.absolute().parent
    while any((folder / name).exists() for name in ("zarr.json", ".zgroup")):
        folder = folder.parent
    endings = ["-converted", *(f"-converted-{number}" for number in range(2, 100))]
    names = [folder / f"{name}{ending}.ome.zarr" for ending in endings]
    free = (each for each in names if not os.path.lexists(each))
    return str(next(free, names[0]))


def step_text(step: ConversionStep) -> str:
    """Describe a step for a person."""
    if step.phase == "pack":
        return f"Packing: {size_text(step.done)} of {size_text(step.total)}"
    if step.phase == "plan":
        return f"Reading metadata: {step.done:,} arrays"
    if step.phase == "compare":
        return f"Checking the source for changes: {step.done:,} of {step.total:,}"
    return f"Piece {step.done:,} of {step.total:,}"


def result_text(result: ConversionResult) -> str:
    """Describe for a person what was made."""
    notes = [shorten_message(note) for note in result.notes]
    if result.problems:
        left = count_noun(len(result.problems), "part")
        notes.append(f"Left out, as unreadable: {left}.")
        notes += map(shorten_message, result.problems[:MOST_SHOWN])
    return " ".join([f"Done: {last_part(str(result.target))}.", *notes])


def failure_text(error: Exception) -> str:
    """Describe an error for a person, with the field that it belongs to."""
    if isinstance(error, InterruptedError):
        return "Cancelled."
    text = shorten_message(error_text(error))
    if isinstance(error, OptionError):
        return f"{error.option.capitalize()}: {text}"
    return text
