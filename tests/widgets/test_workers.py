"""Work in threads: what it gives arrives, whatever it is."""

from __future__ import annotations

import threading

import pytest

from napari_ngff.widgets.workers import run_in_worker, run_when_calm


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


def test_what_is_raised_is_told(qtbot):
    told = []

    def work():
        raise OSError("raised")

    run_in_worker(work, pytest.fail, told.append)
    qtbot.waitUntil(
        lambda: [str(error) for error in told] == ["raised"], timeout=20_000
    )


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("raised"), "raised"),
        (KeyError("x"), "Unexpected KeyError: 'x'"),
        (AssertionError(), "Unexpected AssertionError"),
        (MemoryError(), "There is not enough memory."),
    ],
)
def test_an_error_that_nobody_awaits_is_shown_once(qtbot, monkeypatch, error, text):
    shown = []
    monkeypatch.setattr("napari_ngff.viewer.frontend._notifier", [shown.append])

    def work():
        raise error

    run_in_worker(work, pytest.fail)
    qtbot.waitUntil(lambda: len(shown) == 1, timeout=20_000)
    assert text in shown[0]


def test_what_nobody_waits_for_comes_after_what_is_asked_for(qtbot):
    threads, order = [], []

    def work(name):
        threads.append(threading.current_thread())
        order.append(name)

    run_when_calm(lambda: work("later"))
    assert not order
    run_in_worker(lambda: work("now"), lambda _: None)
    qtbot.waitUntil(lambda: len(order) == 2, timeout=20_000)
    assert threading.main_thread() not in threads
