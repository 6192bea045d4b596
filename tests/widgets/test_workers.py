"""Work in threads: what it gives arrives, whatever it is."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
import warnings
from asyncio import CancelledError
from functools import partial

import pytest
from napari._qt.qthreading import wait_for_workers_to_quit
from qtpy.QtCore import QObject, Signal

from napari_ngff.viewer.samples import write_image
from napari_ngff.viewer.services.window import Window
from napari_ngff.widgets.workers import main_calls, run_in_worker, run_when_calm


@pytest.mark.parametrize("given", [None, 3, OSError("returned"), RuntimeError("too")])
def test_what_is_returned_arrives_in_the_main_thread(qtbot, given):
    found, threads = [], []

    def work():
        threads.append(threading.current_thread())
        return given

    def done(result):
        threads.append(threading.current_thread())
        found.append(result)

    run_in_worker(work, done)
    qtbot.waitUntil(lambda: found == [given], timeout=20_000)
    main = threading.main_thread()
    assert [thread is main for thread in threads] == [False, True]


@pytest.fixture
def workers(qtbot, monkeypatch):
    monkeypatch.setattr(Window.current, "has_workers", True)
    monkeypatch.setattr(Window.current, "run", run_in_worker)


@pytest.mark.parametrize(
    "raised", [OSError("raised"), CancelledError("raised"), SystemExit("raised")]
)
def test_what_is_raised_is_answered(qtbot, workers, raised):
    reported = []

    def work():
        raise raised

    Window.current.run_work(work, pytest.fail, reported.append)
    qtbot.waitUntil(lambda: len(reported) == 1, timeout=20_000)
    assert isinstance(reported[0], Exception)
    assert "raised" in str(reported[0])


def test_work_is_answered_though_the_application_quits(qtbot, workers):
    """In a process that goes on, as of IPython, somebody may wait for it."""
    began, answers = threading.Event(), []

    def work():
        began.set()
        time.sleep(0.2)
        return "done"

    Window.current.run_work(work, answers.append)
    assert began.wait(20)
    wait_for_workers_to_quit()  # which napari connects to `aboutToQuit`
    qtbot.waitUntil(lambda: answers == ["done"], timeout=20_000)


def test_an_answer_that_fails_stops_no_other(qtbot, workers, unexpected):
    answers = []
    Window.current.run_work(int, lambda result: 1 / result)
    Window.current.run_work(int, answers.append)
    qtbot.waitUntil(lambda: answers == [0] and len(unexpected) == 1, timeout=20_000)
    assert isinstance(unexpected.pop(), ZeroDivisionError)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("raised"), "raised"),
        (KeyError("x"), "Unexpected KeyError: 'x'"),
        (AssertionError(), "Unexpected AssertionError"),
        (MemoryError(), "There is not enough memory."),
    ],
)
def test_an_error_that_nobody_awaits_is_shown_once(
    qtbot, workers, monkeypatch, error, text
):
    shown = []
    monkeypatch.setattr(Window.current, "notify", shown.append)

    def work():
        raise error

    Window.current.run_work(work, pytest.fail)
    qtbot.waitUntil(lambda: len(shown) == 1, timeout=20_000)
    assert text in shown[0]


def test_what_nobody_waits_for_comes_after_what_is_asked_for(qtbot, workers):
    threads, order = [], []

    def work(name):
        threads.append(threading.current_thread())
        order.append(name)

    run_when_calm(lambda: work("later"))
    assert not order
    run_in_worker(lambda: work("now"), lambda _: None)
    qtbot.waitUntil(lambda: len(order) == 2, timeout=20_000)
    assert threading.main_thread() not in threads


class Told(QObject):
    """Something of a window that a worker knows."""

    reported = Signal(int)


@pytest.mark.parametrize(
    "touch",
    [
        lambda widget: widget.objectName(),
        lambda widget: widget.reported.emit(1),
        lambda widget: threading.Thread(target=lambda: widget.objectName()).start(),
    ],
    ids=["a method", "a signal", "from another thread"],
)
def test_a_worker_that_touches_a_widget_is_found(qtbot, worker_watch, touch):
    widget, done = Told(), []
    run_in_worker(lambda: touch(widget), done.append)
    qtbot.waitUntil(lambda: bool(done and worker_watch.found), timeout=20_000)
    worker_watch.found.clear()


def test_the_newest_that_a_worker_reports_arrives(qtbot):
    """A worker that tells much neither fills the event loop nor hides its last word."""
    calls, heard, threads, ended = main_calls(), [], set(), []

    def hear(number):
        heard.append(number)
        threads.add(threading.current_thread())

    def work():
        for number in range(20_000):
            calls.call_newest("progress", partial(hear, number))
        calls.call_newest("another", partial(hear, -1))

    run_in_worker(work, ended.append)
    qtbot.waitUntil(lambda: bool(ended) and -1 in heard, timeout=20_000)
    qtbot.waitUntil(lambda: 19_999 in heard, timeout=20_000)
    numbers = [number for number in heard if number >= 0]
    assert numbers == sorted(numbers)
    assert len(numbers) < 1000
    assert threads == {threading.main_thread()}


def test_what_fails_keeps_nothing_else(qtbot, unexpected):
    calls, heard = main_calls(), []

    def work():
        calls.call_newest("a", lambda: 1 / 0)
        calls.call_newest("b", lambda: heard.append("b"))

    run_in_worker(work, lambda _: None)
    qtbot.waitUntil(lambda: heard == ["b"], timeout=20_000)
    assert isinstance(unexpected.pop(), ZeroDivisionError)


def test_a_worker_calls_in_the_main_thread(qtbot):
    calls, threads = main_calls(), []

    def note():
        threads.append(threading.current_thread())

    calls.call_in_main(note)
    assert threads == [threading.main_thread()]  # at once
    run_in_worker(lambda: calls.call_in_main(note), lambda _: None)
    qtbot.waitUntil(lambda: threads == [threading.main_thread()] * 2, timeout=20_000)


def test_filters_of_warnings_hold_while_a_worker_runs(qtbot):
    began, end, ended = threading.Event(), threading.Event(), []

    def work():
        began.set()
        end.wait(20)

    before = list(warnings.filters)
    run_in_worker(work, ended.append)
    assert began.wait(20)
    assert warnings.filters == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        during = list(warnings.filters)
        end.set()
        qtbot.waitUntil(lambda: len(ended) == 1, timeout=20_000)
        assert warnings.filters == during


END_WHILE_WORKING = """
import time
from qtpy.QtWidgets import QApplication
from napari_ngff.widgets import workers
from napari_ngff.widgets.notifications import show_notice

application = QApplication([])
calls = workers.main_calls()

def work():
    time.sleep(2)
    calls.call_in_main(print)
    calls.call_newest("key", print)
    show_notice("Nobody sees this.")
    return 1

workers.run_in_worker(work, print)
workers.run_in_worker(lambda: time.sleep(2), print)
time.sleep(0.5)
"""


def test_a_program_ends_while_a_worker_works():
    command = [sys.executable, "-c", END_WHILE_WORKING]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


ENDINGS = 24

END_WHILE_EMITTING = """
import time
from qtpy.QtCore import QThreadPool
from qtpy.QtWidgets import QApplication
from napari_ngff.widgets import workers

application = QApplication([])
QThreadPool.globalInstance().setMaxThreadCount(8)
calls = workers.main_calls()

def work():
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        calls.call_in_main(int)

for _ in range(6):
    workers.run_in_worker(work, lambda _: None)
time.sleep(0.1)
"""


@pytest.mark.long
def test_a_program_ends_while_workers_emit():
    # Before signals ended with the program, one of 20 crashed.
    command = [sys.executable, "-c", END_WHILE_EMITTING]
    ended = [subprocess.run(command, timeout=120).returncode for _ in range(ENDINGS)]
    assert ended == [0] * ENDINGS


FAIL_IN_SLOTS = """
import sys
import napari
from qtpy.QtCore import QEvent, QObject, QTimer, Signal
from qtpy.QtWidgets import QApplication, QWidget

class Fails(QWidget):
    sent = Signal()

    def event(self, event):
        if event.type() == QEvent.Type.User:
            raise LookupError("of an event")
        return super().event(event)

viewer = napari.Viewer()
viewer.open(sys.argv[1], plugin="napari-ngff")

def fail():
    raise LookupError("of a slot")

def end():
    print("goes on", flush=True)
    viewer.close()

widget = Fails()
widget.sent.connect(fail)
QTimer.singleShot(0, widget.sent.emit)
QTimer.singleShot(0, lambda: QApplication.sendEvent(widget, QEvent(QEvent.Type.User)))
for _ in range(100):
    QApplication.processEvents()
if sys.argv[2] == "loop":
    QTimer.singleShot(100, end)  # only now: a loop without a window would not end
    napari.run()
raise SystemError("of the script")
"""


@pytest.mark.default_cases("loop")
@pytest.mark.parametrize("how", ["script", "loop"])
def test_an_error_of_a_slot_ends_nothing(tmp_path, how):
    """PyQt6 ends the process by it, unless somebody has said what becomes of it."""
    path = str(write_image(tmp_path / "a.ome.zarr", shape=(64, 64)))
    command = [sys.executable, "-W", "ignore", "-c", FAIL_IN_SLOTS, path, how]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    plain = re.sub("\x1b[^m]*m", "", ended.stdout + ended.stderr)
    assert ended.returncode == 1  # by the error of the script
    assert [
        plain.count(text) for text in ("Error: of a slot", "Error: of an event")
    ] == [1, 1]
    assert ended.stderr.endswith("SystemError: of the script\n")
    assert ("goes on" in ended.stdout) == (how == "loop")


END_WITH_WINDOW = """
import sys
import napari
from qtpy.QtCore import QTimer

viewer = napari.Viewer()
viewer.open(sys.argv[1], plugin="napari-ngff")
if sys.argv[2] == "closed":
    QTimer.singleShot(500, viewer.window._qt_window.close)
    napari.run()
else:
    QTimer.singleShot(500, napari.qt.get_qapp().quit)
    napari.qt.get_qapp().exec()
"""


def end_with_window(path, how):
    command = [sys.executable, "-W", "ignore", "-c", END_WITH_WINDOW, path, how]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return ended.returncode, ended.stderr


def test_a_program_ends_after_its_window_was_closed(tmp_path):
    path = str(write_image(tmp_path / "a.ome.zarr", shape=(64, 64)))
    assert end_with_window(path, "closed") == (0, "")


@pytest.mark.long
def test_a_program_ends_with_an_open_window(tmp_path):
    # Before the program closed them itself, one of 20 crashed.
    path = str(write_image(tmp_path / "a.ome.zarr", shape=(300, 400)))
    endings = [end_with_window(path, "open") for _ in range(ENDINGS // 2)]
    assert endings == [(0, "")] * len(endings)
