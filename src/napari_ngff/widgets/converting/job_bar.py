"""A bar for a long job: in a form, and in napari's activity dock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils import cancelable_progress
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QWidget

from napari_ngff.viewer.private.napari_window import qt_window_of

if TYPE_CHECKING:
    from napari_ngff.store.convert.conversion import ConversionStep
    from napari_ngff.viewer.converting.long_job import LongJob

PATIENCE = 300
"""Milliseconds after which a job gets a bar in the activity dock."""

WHOLE = 1000
"""Steps of a bar: Qt counts in 32 bits, files have more bytes."""


class JobBar(QWidget):
    """A progress bar with a button that cancels."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.progress = QProgressBar(self)
        self.cancel = QPushButton("Cancel", self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.progress, 1)
        layout.addWidget(self.cancel)

    def showJob(self, job: LongJob | None) -> None:
        """Show how far a job is; None hides the bar."""
        self.setVisible(job is not None)
        # Enter presses it when it has the focus; the dialog took that from all others.
        self.cancel.setAutoDefault(job is not None)
        if job is None:
            return
        self.cancel.setEnabled(not job.is_cancelled)
        step = job.step
        if step is None or not step.total:
            self.progress.setRange(0, 0)  # moves, without an end
            return
        self.progress.setRange(0, WHOLE)
        self.progress.setValue(WHOLE * step.done // step.total)


def watch_job(viewer: Any, job: LongJob) -> None:
    """Show a job in the activity dock, and stop it with the window."""
    window = qt_window_of(viewer)
    if window is not None:
        # Else it would go on in a process that nobody sees.
        window.destroyed.connect(job.cancel)
    QTimer.singleShot(PATIENCE, partial(_begin_bar, job))


def _begin_bar(job: LongJob) -> None:
    if job.is_running:
        bar = _ActivityBar(job)
        job.stepped.connect(bar.show_step)
        job.ended.connect(bar.end)
        # To make a bar, napari handles events, and the job may end in them.
        bar.end_if_over()


class _ActivityBar(cancelable_progress):  # type: ignore[misc]
    """The bar of one job in napari's activity dock; its button cancels it."""

    def __init__(self, job: LongJob) -> None:
        super().__init__(total=WHOLE, desc=job.title)
        self._job = job
        self._phase = ""

    def cancel(self) -> None:
        """Stop the job."""
        super().cancel()
        self._job.cancel()

    def show_step(self, step: ConversionStep) -> None:
        """Show how much of a phase is done; each phase begins again."""
        # Packing counts bytes: they are shown as a share, since they are long numbers.
        total = WHOLE if step.phase == "pack" else step.total
        if step.phase != self._phase and step.total:
            self._phase = step.phase
            self.reset(total=total)
        done = total * step.done // step.total if step.total else 0
        # tqdm counts up from where it is; `n` is how far it has come.
        more = done - self.n
        # Each update lets napari draw the window again: none for less than a percent.
        if more > 0 and (more >= total // 100 or done == total):
            self.update(more)

    def end_if_over(self) -> None:
        """Close it if the job has ended meanwhile."""
        if not self._job.is_running:
            self.end()

    def end(self, _: object = None) -> None:
        """Close it."""
        self._job.stepped.disconnect(self.show_step)
        self._job.ended.disconnect(self.end)
        self.close()
