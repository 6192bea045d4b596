"""Runs work in worker threads, and brings results to the main thread."""

from __future__ import annotations

import atexit
import itertools
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any

from qtpy.QtCore import (
    QObject,
    QRunnable,
    Qt,
    QThread,
    QThreadPool,
    QTimer,
)
from qtpy.QtCore import Signal as QtSignal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QApplication

from napari_ngff.store.sources.server_access import resume_reading, stop_reading
from napari_ngff.viewer.services.window import Window, going_on, report_unexpected

CALM = 100
"""Milliseconds after which the window has drawn what was changed."""

PAUSE = 40
"""Milliseconds between two deliveries from workers: each makes widgets draw again."""

ENDING = 100
"""Milliseconds after the last window closed, in which a program that ends does so."""

KNOWN = "napari-ngff-ends"
"""Property of an application whose end is followed."""


def follow_application(app: QApplication) -> None:
    """Let workers read until an application ends; this may be repeated.

    napari then waits for workers; so they stop waiting for servers.
    """
    _report_errors_of_slots()
    resume_reading()
    if not app.property(KNOWN):
        app.setProperty(KNOWN, True)
        app.lastWindowClosed.connect(_stop_for_a_while)
        # After napari, which connected before, and waits for the workers there.
        app.aboutToQuit.connect(resume_reading)


def _report_errors_of_slots() -> None:
    """Show errors that leave a slot, an event or a timer, and let work go on.

    PyQt6 ends the process after one where nobody has chosen what becomes of them.
    napari has, but only while its event loop runs: not while a script opens files.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _report_error


def _report_error(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Show an error in the window; print that of a script, which ends by it."""
    is_of_script = trace is None or trace.tb_frame.f_back is None
    if is_of_script or not isinstance(error, Exception):
        sys.__excepthook__(kind, error, trace)
    else:
        report_unexpected(error)


_emitting = threading.RLock()
_program_ends = threading.Event()


def emit_signal(signal: Any, *values: Any) -> None:
    """Emit a signal of a worker, unless the program ends.

    Python then deletes the application and all receivers in the main thread, while Qt
    delivers in this one: the process would crash about once in 300 ends.
    """
    with _emitting:
        if not _program_ends.is_set():
            with suppress(RuntimeError):  # Qt has deleted it
                signal.emit(*values)


@atexit.register
def _end_program() -> None:
    """Let no worker emit any more, and close the windows that a script left open.

    Else PyQt6 (6.11) deletes them while it goes through a table of all its objects.
    Python code that is called then may enlarge the table, and the process crashes:
    about one end in 20, where images of ours were open.
    """
    # Waits for the one that is being emitted.
    with _emitting:
        _program_ends.set()
    napari_viewer = sys.modules.get("napari.viewer")
    if napari_viewer is not None:
        with suppress(RuntimeError):  # the user has closed it
            napari_viewer.Viewer.close_all()


class MainCalls(QObject):
    """Calls functions in the main thread for workers: their only way to a widget.

    A widget may be deleted at any moment while a worker runs. Only the main thread can
    find out whether it still exists, so no worker calls a widget or emits its signals.
    This object lives as long as the application.
    """

    _call_wanted = QtSignal(object)

    _news_waiting = QtSignal()

    _answered = QtSignal(int, object)

    def __init__(self, application: QApplication) -> None:
        super().__init__()
        # A worker may be the first to ask for this object.
        self.moveToThread(application.thread())
        self._lock = threading.Lock()
        self._newest: dict[object, Callable[[], Any]] = {}
        # Held here for workers: none may be the last to let go of a widget.
        self._awaiting: dict[int, Callable[[Any], Any]] = {}
        self._numbers = itertools.count()
        self._answered.connect(self._give_answer, Qt.ConnectionType.QueuedConnection)
        self._call_wanted.connect(_make_call, Qt.ConnectionType.QueuedConnection)
        self._news_waiting.connect(
            self._deliver_soon, Qt.ConnectionType.QueuedConnection
        )

    def call_in_main(self, call: Callable[[], Any]) -> None:
        """Call a function soon; in the main thread at once."""
        if _is_main_thread():
            call()
            return
        emit_signal(self._call_wanted, call)

    def call_newest(self, key: object, call: Callable[[], Any]) -> None:
        """Call the newest function given with a key, some times a second.

        In the main thread at once.
        """
        if _is_main_thread():
            call()
            return
        with self._lock:
            # One signal for all that are delivered together: Qt would queue every one.
            waiting = bool(self._newest)
            self._newest[key] = call
        if not waiting:
            emit_signal(self._news_waiting)

    def await_answer(self, done: Callable[[Any], Any]) -> Callable[[Any], None]:
        """Return how a worker has a function called in the main thread with a result.

        Also where napari has asked the worker to quit: who waits gets an answer.
        """
        number = next(self._numbers)
        self._awaiting[number] = done
        return partial(emit_signal, self._answered, number)

    def _give_answer(self, number: int, result: Any) -> None:
        with going_on():
            self._awaiting.pop(number)(result)

    def _deliver_soon(self) -> None:
        QTimer.singleShot(PAUSE, self._deliver_newest)

    def _deliver_newest(self) -> None:
        with self._lock:
            newest, self._newest = self._newest, {}
        for call in newest.values():
            self._call_wanted.emit(call)  # each on its own, as one may fail


def _make_call(call: Callable[[], Any]) -> None:
    with going_on():
        call()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def run_after(seconds: float, call: Callable[[], Any]) -> None:
    """Call a function in the main thread after some time; called in any thread."""
    start = partial(QTimer.singleShot, round(1000 * seconds), partial(_make_call, call))
    main_calls().call_in_main(start)


_calls: list[MainCalls] = []


def main_calls() -> MainCalls:
    """Return the way from workers to the main thread; there must be an application."""
    if not _calls:
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        _calls.append(MainCalls(application))
    return _calls[0]


def has_application_ended() -> bool:
    """Return whether there was an application, and is none any more."""
    return bool(_calls) and QApplication.instance() is None


def _stop_for_a_while() -> None:
    """Stop reading from servers; a program that continues may read again soon."""
    stop_reading()
    QTimer.singleShot(ENDING, resume_reading)


class WorkerTask(QRunnable):
    """Work in a thread of Qt's pool, for which napari waits when it ends.

    Not a worker of superqt, which lifts the filters of warnings in all threads while it
    runs, nor one of napari, which shows an error once more, and is kept, with all that
    its callbacks hold, for as long as the window is open.
    """

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__()
        self._work = work

    def run(self) -> None:
        """Do the work; an error that leaves this method would end the process."""
        # Where Qt has deleted the signals, the program ends.
        with suppress(RuntimeError):
            self._work()


def run_in_worker(work: Callable[[], Any], done: Callable[[Any], Any]) -> None:
    """Run `work`, which raises nothing, in a thread; then `done` in the main thread."""
    answer = main_calls().await_answer(done)
    task = WorkerTask(lambda: answer(work()))
    pool, thread = QThreadPool.globalInstance(), QThread.currentThread()
    assert pool is not None
    if thread is not None and thread.loopLevel():
        # After what the window does now, which else shares the processor with it.
        QTimer.singleShot(1, partial(pool.start, task))
    else:
        pool.start(task)


def run_when_calm(work: Callable[[], Any]) -> None:
    """Run `work` in a thread, but not while the window draws what was just changed.

    While two threads compute, each waits some milliseconds for the other, again and
    again (Python's GIL), which would be visible.
    """
    QTimer.singleShot(CALM, lambda: Window.current.run_work(work, lambda _: None))
