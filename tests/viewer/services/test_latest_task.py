"""Tasks of which the newest counts; layers change one task after another."""

from __future__ import annotations

import pytest

from napari_ngff.viewer.services import latest_task
from napari_ngff.viewer.services.latest_task import LatestTask, LayerTask
from napari_ngff.viewer.services.window import Window


@pytest.fixture
def waiting(monkeypatch):
    """Work that has not come to its turn; every step is as long as it may be."""
    jobs = []
    monkeypatch.setattr(Window.current, "run", lambda *job: jobs.append(job))
    monkeypatch.setattr(latest_task, "STEP_SECONDS", -1)
    return jobs


def turn(waiting):
    work, done = waiting.pop(0)
    done(work())


@pytest.fixture
def acting():
    made = LayerTask(lambda busy: made.reported.append(busy))
    made.reported, made.log = [], []
    return made


def act(acting, name):
    def steps(found):
        for number in (1, 2, 3):
            acting.log.append(f"{found}{number}")
            yield

    acting.start(change(acting, lambda _: name, steps))


def change(acting, read, steps, wait=None):
    """Wait for something, read, then change layers."""
    if wait is not None:
        yield wait
    found, error = yield acting.in_worker(read)
    return acting.log.append(str(error)) if error else steps(found)


def test_what_has_begun_ends_before_the_next(waiting, acting):
    act(acting, "a")
    turn(waiting)
    assert acting.log == ["a1"]
    act(acting, "b")
    while waiting:
        turn(waiting)
    assert acting.log == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert acting.reported == [True, True, False]


@pytest.mark.parametrize("begun", [True, False])
def test_what_has_begun_ends_though_it_is_given_up(waiting, acting, begun):
    act(acting, "a")
    if begun:
        turn(waiting)
    acting.cancel()
    while waiting:
        turn(waiting)
    assert acting.log == (["a1", "a2", "a3"] if begun else [])


def test_a_failure_stops_nothing_that_has_begun(waiting, acting):
    act(acting, "a")
    turn(waiting)

    def fail(_):
        raise OSError("no such well")

    acting.start(change(acting, fail, lambda _: iter(())))
    while waiting:
        turn(waiting)
    assert acting.log == ["a1", "a2", "no such well", "a3"]
    assert acting.reported[-1] is False


def test_what_fails_is_over(waiting, acting):
    def steps(found):
        yield
        raise ZeroDivisionError

    acting.start(change(acting, lambda _: "a", steps))
    turn(waiting)
    with pytest.raises(ZeroDivisionError):
        turn(waiting)
    assert acting.reported == [True, False]
    act(acting, "b")
    while waiting:
        turn(waiting)
    assert acting.log == ["b1", "b2", "b3"]
    assert acting.reported == [True, False, True, False]


@pytest.mark.parametrize("begun", [True, False])
def test_nothing_changes_after_the_window_was_closed(waiting, begun):
    is_open = [True]
    acting = LayerTask(lambda busy: None, is_open=lambda: is_open[0])
    acting.log = []
    act(acting, "a")
    if begun:
        turn(waiting)
    is_open[0] = False
    while waiting:
        turn(waiting)
    assert acting.log == ["a1"] * begun


@pytest.fixture
def task():
    made = LatestTask(on_progress=lambda *counts: made.log.append(counts))
    made.log = []
    return made


def start(task, work):
    task.start(work, task.log.append, lambda reason: task.log.append(f"no: {reason}"))


def test_only_the_newest_task_is_answered(waiting, task):
    start(task, lambda _: 1)
    start(task, lambda _: 2)
    while waiting:
        turn(waiting)
    assert task.log == [2]


def test_a_task_that_had_to_wait_too_long_reads_nothing(waiting, task):
    reads = []
    start(task, lambda _: reads.append(1))
    start(task, lambda _: reads.append(2))
    while waiting:
        turn(waiting)
    assert reads == [2]


def test_a_cancelled_task_is_not_answered(waiting, task):
    start(task, lambda _: 1)
    task.cancel()
    turn(waiting)
    assert task.log == []


def test_a_failed_task_gives_its_reason(waiting, task):
    def fail(_):
        raise OSError("no such well")

    start(task, fail)
    turn(waiting)
    assert task.log == ["no: no such well"]


def test_progress_is_shown_until_the_answer_or_a_cancel(waiting, task):
    turns = []

    def work(own):
        turns.append(own)
        return own.report_progress(1, 2)

    start(task, work)
    turn(waiting)
    assert task.log == [(1, 2), True]
    assert turns[0].report_progress(2, 2) is False  # it comes after the result
    start(task, work)
    task.cancel()
    turn(waiting)
    assert task.log == [(1, 2), True]


def test_a_task_whose_owner_is_gone_is_not_answered(waiting):
    is_alive = [True]
    log = []
    task = LatestTask(lambda: is_alive[0])
    task.start(lambda _: 1, log.append, log.append)
    is_alive[0] = False
    turn(waiting)
    assert log == []


def test_what_fails_with_an_answer_has_failed(waiting):
    task, reasons = LatestTask(), []
    task.start(lambda _: 0, lambda number: 1 / number, reasons.append)
    turn(waiting)
    assert reasons == ["Unexpected ZeroDivisionError: division by zero"]


@pytest.mark.parametrize("where", ["leave", "steps", "later"])
def test_a_task_ends_where_something_fails(waiting, acting, where):
    def leave(answer):
        answers.append(answer)
        if where == "leave":
            raise LookupError(where)
        answer(None)

    def steps(_):
        yield
        raise LookupError(where)

    def fail(_):
        raise LookupError(where)

    answers = []
    try:
        acting.start(
            change(acting, lambda _: 0, fail if where == "later" else steps, leave)
        )
    except LookupError:
        assert where == "leave"
        answers[0](None)  # an answer comes all the same
    while waiting:
        try:
            turn(waiting)
        except LookupError:
            assert not waiting
    assert set(acting.reported[1:]) == {False}
    act(acting, "a")
    while waiting:
        turn(waiting)
    assert acting.log == ["a1", "a2", "a3"]
