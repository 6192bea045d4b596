"""Writes layers as OME-Zarr, with a question, a progress bar and a Stop button."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from qtpy.QtCore import QEventLoop, Qt, QThread, QTimer
from qtpy.QtWidgets import (
    QApplication,
    QMainWindow,
    QMessageBox,
    QProgressDialog,
    QWidget,
)

from napari_ngff.viewer.write_layers import complete_path, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from napari_ngff.viewer.layer_plan import LayerData

__all__ = ["write_in_window"]

SOON = 400
"""Milliseconds without a dialog, in which input waits."""

STEP = 50
"""Milliseconds between two checks of the worker."""

WHOLE = 1000
"""Steps of the progress bar."""


def write_in_window(path: str, layers: Sequence[LayerData]) -> Path:
    """Write layers in a worker; return when it is done, as napari's writers must.

    A modal dialog shows the progress and can stop it, so that layers do not change
    while they are written. If something exists at `path`, the user is asked; a script
    is not, and gets the error of `write`.

    Raises
    ------
    InterruptedError
        If the user stopped it, or does not want to replace what exists.
    UnsupportedError, FileExistsError, OSError
        See `write`.
    """
    application = QApplication.instance()
    if application is None or QThread.currentThread() is not application.thread():
        return write(path, layers)
    target = complete_path(path)
    overwrite = target.exists() and _is_asked_by_user() and _may_replace(target)
    progress = _WriteProgress(target.name)

    def write_in_worker(report: Callable[[int, int], None]) -> Path:
        stopped = progress.stopped.is_set
        return write(path, layers, overwrite=overwrite, progress=report, cancel=stopped)

    return progress.run_write(write_in_worker)


def _is_asked_by_user() -> bool:
    """Return whether a user acts: a script runs outside of the event loop."""
    thread = QThread.currentThread()
    return thread is not None and thread.loopLevel() > 0


def _may_replace(target: Path) -> bool:
    question = f"Replace {target.name}?\n\n{target} already exists."
    answer = QMessageBox.question(_main_window(), "OME-Zarr", question)
    if answer != QMessageBox.StandardButton.Yes:
        msg = f"{target} stays unchanged, and nothing was written."
        raise InterruptedError(msg)
    return True


def _main_window() -> QWidget | None:
    """Return the window in front of which a dialog opens, and whose style it gets."""
    windows = QApplication.topLevelWidgets()
    windows_shown = (w for w in windows if isinstance(w, QMainWindow) and w.isVisible())
    return QApplication.activeWindow() or next(windows_shown, None)


class _WriteProgress:
    """One write while it runs, with its dialog."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopped = threading.Event()
        self.part = 0.0

    def run_write(self, work: Callable[[Callable[[int, int], None]], Path]) -> Path:
        """Write in a thread, and handle events until it ends."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="napari-ngff-write")
        future = pool.submit(work, self._note_progress)
        # The thread still ends its one task; waiting would block the window.
        pool.shutdown(wait=False)
        inputs = QEventLoop.ProcessEventsFlag
        # Clicks wait: a layer must not change before the dialog is there to block them.
        if not self._wait_for_write(future, inputs.ExcludeUserInputEvents, SOON):
            dialog = QProgressDialog(
                f"Writing {self.name}…", "Stop", 0, WHOLE, _main_window()
            )
            dialog.setWindowTitle("OME-Zarr")
            dialog.setWindowModality(Qt.WindowModality.ApplicationModal)
            # Qt would wait four seconds more.
            dialog.setMinimumDuration(0)
            dialog.setAutoClose(False)
            dialog.canceled.connect(self.stopped.set)
            dialog.show()
            self._wait_for_write(future, inputs.AllEvents, None, dialog)
            # `close` emits `canceled`, and a write that is done is not stopped.
            dialog.canceled.disconnect()
            dialog.close()
            dialog.deleteLater()
        return future.result()

    def _note_progress(self, done: int, total: int) -> None:
        self.part = done / total

    def _wait_for_write(
        self,
        future: Future[Path],
        inputs: QEventLoop.ProcessEventsFlag,
        longest: int | None,
        dialog: QProgressDialog | None = None,
    ) -> bool:
        """Handle events until the write is done, or for `longest` milliseconds."""
        loop = QEventLoop()
        timer = QTimer()
        remaining = [longest]

        def show_part() -> None:
            if dialog is not None and not self.stopped.is_set():
                dialog.setValue(int(WHOLE * self.part))
            if remaining[0] is not None:
                remaining[0] -= STEP
            if future.done() or (remaining[0] is not None and remaining[0] <= 0):
                loop.quit()

        timer.timeout.connect(show_part)
        timer.start(STEP)
        loop.exec(inputs)
        timer.stop()
        return future.done()
