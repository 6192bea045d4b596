"""Runs work that reads data in worker threads."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject, Qt, QThreadPool, QTimer
from qtpy.QtCore import Signal as QtSignal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QApplication

from napari_ngff.errors import error_text
from napari_ngff.store.remote import resume, stop
from napari_ngff.viewer.frontend import set_runner, show

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "MainCalls",
    "install_runner",
    "main_calls",
    "run_in_worker",
    "run_when_calm",
]

CALM = 100
"""Milliseconds after which the window has drawn what was changed."""

PAUSE = 40
"""Milliseconds between two deliveries of what workers tell: each draws anew."""

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
    calls = main_calls()
    set_runner(run_in_worker, run_when_calm, calls.call, calls.tell)
    resume()
    if not app.property(KNOWN):
        app.setProperty(KNOWN, True)
        app.lastWindowClosed.connect(_stop_for_a_while)
        app.aboutToQuit.connect(resume)  # after napari, which has connected before


class MainCalls(QObject):
    """Calls in the main thread what workers ask for: their only way to a widget.

    A widget may go at any moment while a worker runs. Only the main thread can find
    out whether it is there, so no worker calls a widget or emits its signals. This
    object lives as long as the application.
    """

    _asked = QtSignal(object)

    _told = QtSignal()

    def __init__(self, application: QApplication) -> None:
        super().__init__()
        self.moveToThread(application.thread())
        self._lock = threading.Lock()
        self._newest: dict[object, Callable[[], Any]] = {}
        self._asked.connect(_make_call, Qt.ConnectionType.QueuedConnection)
        self._told.connect(self._wait, Qt.ConnectionType.QueuedConnection)

    def call(self, call: Callable[[], Any]) -> None:
        """Call something: soon, or at once where this is the main thread."""
        if _is_main_thread():
            call()
        else:
            self._asked.emit(call)

    def tell(self, key: object, call: Callable[[], Any]) -> None:
        """Call the newest of what is told with the same key, some times a second.

        At once where this is the main thread.
        """
        if _is_main_thread():
            call()
            return
        with self._lock:
            waiting = bool(self._newest)
            self._newest[key] = call
        if not waiting:
            self._told.emit()

    def _wait(self) -> None:
        QTimer.singleShot(PAUSE, self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            newest, self._newest = self._newest, {}
        for call in newest.values():
            self._asked.emit(call)  # one that fails must not keep the others


def _make_call(call: Callable[[], Any]) -> None:
    call()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


_calls: list[MainCalls] = []


def main_calls() -> MainCalls:
    """Return the way from workers to the main thread; there must be an application."""
    if not _calls:
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        _calls.append(MainCalls(application))
    return _calls[0]


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
    # Neither napari's workers, which show the error once more and live as long as the
    # window, nor superqt's, which lift filters of warnings in all threads meanwhile.
    main_calls()
    task = WorkerTask(work, done, failed or _show_failure)
    pool = QThreadPool.globalInstance()
    assert pool is not None
    pool.start(task.run)


def _show_failure(error: Exception) -> None:
    show((error_text(error),), "Something failed in the background.")


class WorkerTask:
    """Work for a thread, and what to do in the main thread with its result.

    What the functions hold, widgets among it, is let go of in the main thread: the
    worker knows the task alone.
    """

    __slots__ = ("_answer", "_done", "_failed", "_work")

    def __init__(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._work: Callable[[], Any] | None = work
        self._done: Callable[[Any], None] | None = done
        self._failed: Callable[[Exception], None] | None = failed
        self._answer: Callable[[], None] | None = None

    def run(self) -> None:
        """Do the work, in a worker thread."""
        work = self._work
        assert work is not None
        self._answer = self._attempt(work)
        del work
        main_calls().call(self._end)

    def _attempt(self, work: Callable[[], Any]) -> Callable[[], None]:
        done, failed = self._done, self._failed
        assert done is not None
        assert failed is not None
        try:
            return partial(done, work())
        except Exception as error:  # noqa: BLE001
            # Whatever fails: the main thread waits for an answer.
            return partial(failed, error)

    def _end(self) -> None:
        """Answer, in the main thread."""
        answer, self._answer = self._answer, None
        self._work = self._done = self._failed = None
        if answer is not None:
            answer()


def run_when_calm(work: Callable[[], Any]) -> None:
    """Run `work` in a thread, but not while the window draws what was just changed.

    Of two threads that compute, Python lets the other wait for some milliseconds each
    time, which would be seen.
    """
    QTimer.singleShot(CALM, lambda: run_in_worker(work, lambda _: None))
