"""Runs a session's work in napari's worker threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtWidgets import QApplication

from napari_ngff.viewer.session import set_runner, show

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["install_runner", "run_in_worker"]


def install_runner() -> None:
    """Let sessions read in worker threads from now on, if there is an application."""
    if QApplication.instance() is not None:
        set_runner(run_in_worker)


def run_in_worker(
    work: Callable[[], Any],
    done: Callable[[Any], None],
    failed: Callable[[Exception], None] | None = None,
) -> None:
    """Run `work` in a thread, then `done` or `failed` in the main thread."""
    from napari.qt.threading import create_worker

    worker = create_worker(work, _start_thread=False)
    worker.returned.connect(done)
    worker.errored.connect(failed or (lambda error: show((str(error),))))
    worker.start()
