"""Runs work that reads data in worker threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject, Qt, QTimer
from qtpy.QtCore import Signal as QtSignal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QApplication

from napari_ngff.errors import error_text
from napari_ngff.store.remote import resume, stop
from napari_ngff.viewer.frontend import set_runner, show

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["install_runner", "run_in_worker", "run_when_calm"]

CALM = 100
"""Milliseconds after which the window has drawn what was changed."""


ENDING = 100
"""Milliseconds after the last window in which a program that ends begins to."""

KNOWN = "napari-ngff-ends"
"""Property of an application whose end is listened to."""


def install_runner() -> None:
    """Read in worker threads from now on, if there is an application.

    When it ends, napari waits for them: servers are not waited for then.
    """
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        return
    calls = app.findChild(_Calls) or _Calls(app)
    set_runner(run_in_worker, run_when_calm, calls.asked.emit)
    resume()
    if not app.property(KNOWN):
        app.setProperty(KNOWN, True)
        app.lastWindowClosed.connect(_stop_for_a_while)
        app.aboutToQuit.connect(resume)  # after napari, which has connected before


class _Calls(QObject):
    """Calls in the thread that it was made in what other threads ask for."""

    asked = QtSignal(object)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.asked.connect(self._call, Qt.ConnectionType.QueuedConnection)

    def _call(self, call: Callable[[], Any]) -> None:
        call()


def _stop_for_a_while() -> None:
    """Give up what is being read; a program that goes on may read again."""
    stop()
    QTimer.singleShot(ENDING, resume)


def run_in_worker(
    work: Callable[[], Any],
    done: Callable[[Any], None],
    failed: Callable[[Exception], None] | None = None,
) -> None:
    """Run `work` in a thread, then `done` or `failed` in the main thread."""
    # superqt's, since napari's shows the error once more, and keeps every worker, with
    # all that its callbacks hold, for as long as the window is open.
    from superqt.utils import create_worker

    def tell(error: Exception) -> None:
        show((error_text(error),), "Something failed in the background.")

    # In a tuple: an error that is returned, superqt takes for one that was raised.
    create_worker(
        lambda: (work(),),
        _connect={
            "returned": lambda found: done(found[0]),
            "errored": failed or tell,
        },
    )


def run_when_calm(work: Callable[[], Any]) -> None:
    """Run `work` in a thread, but not while the window draws what was just changed.

    Of two threads that compute, Python lets the other wait for some milliseconds each
    time, which would be seen.
    """
    QTimer.singleShot(CALM, lambda: run_in_worker(work, lambda _: None))
