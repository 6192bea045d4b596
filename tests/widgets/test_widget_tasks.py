"""What a widget asks workers."""

from __future__ import annotations

import gc
import weakref

import pytest
from qtpy.QtWidgets import QWidget

from napari_ngff.errors import NodeNotFoundError
from napari_ngff.viewer.services.window import Window
from napari_ngff.widgets.connections import WidgetTasks


class Asker(QWidget):
    def __init__(self):
        super().__init__()
        self.tasks = WidgetTasks(self)
        self.heard = []

    def hear(self, found):
        self.heard.append(found)


@pytest.fixture
def workers(monkeypatch):
    """What was given to workers, who have not begun."""
    given = []
    monkeypatch.setattr(Window.current, "run", lambda *one: given.append(one))
    return given


@pytest.fixture
def asker(qtbot):
    widget = Asker()
    qtbot.addWidget(widget)
    return widget


def end(task):
    work, done = task
    done(work())


def test_the_later_question_is_answered(asker, workers):
    asker.tasks.start_task("a", lambda: 1, asker.hear)
    asker.tasks.start_task("a", lambda: 2, asker.hear)
    asker.tasks.start_task("b", lambda: 3, asker.hear)
    for task in reversed(workers):
        end(task)
    assert asker.heard == [3, 2]


def test_what_failed_is_reported(asker, workers):
    def fail():
        raise NodeNotFoundError("gone")

    asker.tasks.start_task("a", fail, asker.hear)
    end(workers[0])
    assert asker.heard == ["gone"]


def test_what_was_dropped_is_not_answered(asker, workers):
    asker.tasks.start_task("a", lambda: 1, asker.hear)
    asker.tasks.start_task("b", lambda: 2, asker.hear)
    asker.tasks.cancel_others("b")
    for task in workers:
        end(task)
    assert asker.heard == [2]


def test_a_question_does_not_keep_its_widget(qapp, workers):
    widget = Asker()
    widget.tasks.start_task("a", lambda: 1, widget.hear)
    there = weakref.ref(widget)
    del widget
    gc.collect()
    assert there() is None
    end(workers[0])
