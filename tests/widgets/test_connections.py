"""A widget is called by nothing once it is deleted, and held by nothing."""

from __future__ import annotations

import gc
import re
import weakref
from functools import partial
from pathlib import Path

import psygnal
import pytest
from napari.utils.events import EventEmitter
from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QRect, QTimer
from qtpy.QtWidgets import QApplication, QWidget

import napari_ngff.widgets
from mouse import pump
from napari_ngff.viewer.services.window import Signal
from napari_ngff.widgets.connections import (
    Connections,
    choice_box,
    connect_while_alive,
    while_alive,
    wrapping_row,
)


class Source:
    """What outlives a widget; it has the kinds of signals that there are."""

    sent, guarded = psygnal.Signal(int), Signal(int)

    def __init__(self):
        self.event = EventEmitter(source=self, type_name="event")

    def signals(self):
        return self.sent, self.guarded, self.event

    def emit(self):
        self.sent.emit(1)
        self.guarded.emit(1)
        self.event(value=1)


class Child(QWidget):
    """Notes what it is called with, in Qt's object, which goes before Python's."""

    def __init__(self, parent=None):
        super().__init__(parent)
        self.calls = 0

    def take(self, _=None):
        self.calls += 1
        self.setObjectName("called")  # raises once Qt has deleted it


def delete(widget):
    widget.deleteLater()
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


WAYS = {
    "alone": lambda widget, signal: connect_while_alive(signal, widget, widget.take),
    "together": lambda widget, signal: widget.links.connect(signal, widget.take),
    "function": lambda widget, signal: signal.connect(while_alive(widget.take)),
}


@pytest.fixture
def widget(qapp):
    parent = QWidget()
    child = Child(parent)
    child.links = Connections(child)
    yield child
    if isalive(parent):
        delete(parent)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_deleted_widget_is_not_called(widget, way):
    source = Source()
    for signal in source.signals():
        way(widget, signal)
    source.emit()
    assert widget.calls == 3
    delete(widget.parentWidget())
    assert not isalive(widget)
    source.emit()
    assert widget.calls == 3


def test_what_is_followed_ends_together(widget):
    source, other = Source(), Source()
    for signal in source.signals():
        widget.links.connect(signal, widget.take)
    widget.links.end()
    widget.links.connect(other.sent, widget.take)
    source.emit()
    assert widget.calls == 0
    other.emit()
    assert widget.calls == 1


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_widget_is_not_kept(qapp, way):
    source, widget = Source(), Child()
    widget.links = Connections(widget)
    reference = weakref.ref(widget)
    for signal in source.signals():
        way(widget, signal)
    del widget
    assert reference() is None
    source.emit()


def test_what_is_followed_is_not_kept(widget):
    source = Source()
    reference = weakref.ref(source)
    for signal in source.signals():
        widget.links.connect(signal, widget.take)
        connect_while_alive(signal, widget, widget.take)
    del source, signal
    assert reference() is None


def test_a_deleted_widget_is_not_called_by_a_timer(widget):
    """Qt's own: so a method may be given to it as it is."""
    QTimer.singleShot(0, widget.take)
    QTimer.singleShot(0, partial(while_alive(widget.take), 1))
    delete(widget.parentWidget())
    pump(50)
    assert widget.calls == 0


def test_events_of_napari_are_followed_while_a_widget_is_alive():
    """Other ways to connect would call it when Qt has deleted it."""
    folder = Path(napari_ngff.widgets.__file__).parent
    connects = re.compile(r"(?:\bevents\b.*|\b(?:event|emitter))\.connect\(").findall
    apart = {"browser/names_visual.py", "painting_outlines.py"}  # of vispy
    assert [
        path.name
        for path in sorted(folder.rglob("*.py"))
        if path.relative_to(folder).as_posix() not in apart
        and connects(path.read_text("utf-8"))
    ] == []


class Holder:
    """Has a widget in a circle, so that both are garbage at once."""

    def __init__(self, widget):
        self.held = widget, self
        widget.holder = self


def test_widgets_that_python_collects_as_garbage_end_their_connections(qtbot):
    """Python may empty what Qt calls before it lets go of the widget."""
    source, widgets = Source(), []
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            parent = Child()
            child = Child(parent)
            connect_while_alive(source.sent, child, child.take)
            # It is emptied last, and has the widget until then.
            Holder(parent)
            widgets += [weakref.ref(parent), weakref.ref(child)]
            del parent, child
        gc.collect()
    finally:
        gc.enable()
    assert not any(widget() for widget in widgets)
    source.emit()


def test_boxes_without_choices_have_places_of_their_own(widget):
    boxes = [choice_box(widget, name, "") for name in "ab"]
    row = wrapping_row(*boxes)
    widget.setLayout(row)
    for width in (600, 60):
        row.setGeometry(QRect(0, 0, width, 90))
        assert not boxes[0].geometry().intersects(boxes[1].geometry())
