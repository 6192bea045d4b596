"""Actions of the browser: one after another, none by halves."""

from __future__ import annotations

import pytest

from napari_ngff.viewer import frontend
from napari_ngff.viewer.browsing import actions
from napari_ngff.viewer.browsing.actions import Actions


@pytest.fixture
def waiting(monkeypatch):
    """Work that has not come to its turn; every step is as long as it may be."""
    jobs = []
    monkeypatch.setattr(frontend, "_runner", [lambda *job: jobs.append(job)])
    monkeypatch.setattr(actions, "SHORT", -1)
    return jobs


def turn(waiting):
    work, done = waiting.pop(0)
    done(work())


@pytest.fixture
def acting():
    made = Actions(lambda busy: made.told.append(busy))
    made.told, made.log = [], []
    return made


def act(acting, name):
    def steps(found):
        for number in (1, 2, 3):
            acting.log.append(f"{found}{number}")
            yield

    acting.do(lambda: name, steps)


def test_what_has_begun_ends_before_the_next(waiting, acting):
    act(acting, "a")
    turn(waiting)
    assert acting.log == ["a1"]
    act(acting, "b")
    while waiting:
        turn(waiting)
    assert acting.log == ["a1", "a2", "a3", "b1", "b2", "b3"]
    assert acting.told == [True, True, False]


@pytest.mark.parametrize("begun", [True, False])
def test_what_has_begun_ends_though_it_is_given_up(waiting, acting, begun):
    act(acting, "a")
    if begun:
        turn(waiting)
    acting.stop()
    while waiting:
        turn(waiting)
    assert acting.log == (["a1", "a2", "a3"] if begun else [])


def test_a_failure_stops_nothing_that_has_begun(waiting, acting, monkeypatch):
    shown = []
    monkeypatch.setattr(frontend, "show", lambda found, _: shown.extend(found))
    act(acting, "a")
    turn(waiting)

    def fail():
        raise OSError("no such well")

    acting.do(fail, lambda _: iter(()))
    while waiting:
        turn(waiting)
    assert acting.log == ["a1", "a2", "a3"]
    assert shown == ["no such well"]
    assert acting.told[-1] is False


def test_what_fails_is_over(waiting, acting):
    def steps(found):
        yield
        raise ZeroDivisionError

    acting.do(lambda: "a", steps)
    turn(waiting)
    with pytest.raises(ZeroDivisionError):
        turn(waiting)
    assert acting.told == [True, False]
    act(acting, "b")
    while waiting:
        turn(waiting)
    assert acting.log == ["b1", "b2", "b3"]
    assert acting.told == [True, False, True, False]


@pytest.mark.parametrize("begun", [True, False])
def test_nothing_changes_after_the_window_was_closed(waiting, begun):
    is_open = [True]
    acting = Actions(lambda busy: None, is_open=lambda: is_open[0])
    acting.log = []
    act(acting, "a")
    if begun:
        turn(waiting)
    is_open[0] = False
    while waiting:
        turn(waiting)
    assert acting.log == ["a1"] * begun
