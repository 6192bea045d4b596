"""Real mouse events of Qt on napari's canvas, and waiting for what they do."""

from __future__ import annotations

import warnings

from qtpy.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt, QThreadPool, QUrl
from qtpy.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QMouseEvent,
    QWheelEvent,
)
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

import patience
from patience import PATIENCE

LEFT = Qt.MouseButton.LeftButton
RIGHT = Qt.MouseButton.RightButton
NONE = Qt.MouseButton.NoButton
PLAIN = Qt.KeyboardModifier.NoModifier
CONTROL = Qt.KeyboardModifier.ControlModifier


def canvas(viewer):
    return viewer.window._qt_viewer.canvas


def camera(viewer):
    # napari 0.8 has no scene in between.
    return getattr(viewer, "scene", viewer).camera


def pump(milliseconds=20):
    QTest.qWait(milliseconds)


def until(condition):
    """Let Qt work until a condition holds and asserts nothing false."""
    patience.until(condition, pump)


def on_canvas(viewer, point):
    """Pixel of the canvas at a world position (y, x) of a 2D view."""
    x, y, _, w = canvas(viewer).view.scene.transform.map([point[1], point[0], 0, 1])
    return QPointF(float(x / w), float(y / w))


def send(viewer, kind, at, button, buttons, modifiers=PLAIN):
    native = canvas(viewer).native
    place = QPointF(native.mapToGlobal(at.toPoint()))
    event = QMouseEvent(kind, at, place, button, buttons, modifiers)
    QApplication.sendEvent(native, event)


def drag(viewer, points, *, button=LEFT, modifiers=PLAIN, pause=8, release=True):
    """Press at the first point, move along the others, release at the last."""
    places = [on_canvas(viewer, point) for point in points]
    send(viewer, QEvent.Type.MouseMove, places[0], NONE, NONE, modifiers)
    pump(pause)
    send(viewer, QEvent.Type.MouseButtonPress, places[0], button, button, modifiers)
    for place in places[1:]:
        send(viewer, QEvent.Type.MouseMove, place, NONE, button, modifiers)
        if pause:
            pump(pause)
    if release:
        last = places[-1]
        send(viewer, QEvent.Type.MouseButtonRelease, last, button, NONE, modifiers)
    pump()


def click(viewer, point, *, button=LEFT, modifiers=PLAIN, double=False):
    drag(viewer, [point], button=button, modifiers=modifiers)
    if double:
        at = on_canvas(viewer, point)
        kind = QEvent.Type.MouseButtonDblClick
        send(viewer, kind, at, button, button, modifiers)
        send(viewer, QEvent.Type.MouseButtonRelease, at, button, NONE, modifiers)
        pump()


def drop(widget, *paths):
    """Drop files, or addresses, on a widget, as from a file manager."""
    # napari asks in a dialog, for good, where a drop comes with Alt held.
    assert QGuiApplication.keyboardModifiers() == PLAIN, "a key is held"
    urls = [QUrl(p) if "://" in str(p) else QUrl.fromLocalFile(str(p)) for p in paths]
    data, at = QMimeData(), widget.rect().center()
    data.setUrls(urls)
    data.setText("\n".join(url.toString() for url in urls))  # as file managers do
    rest = Qt.DropAction.CopyAction, data, LEFT, PLAIN
    with warnings.catch_warnings():
        # Qt 6.12 wants a QPointF here, which earlier releases refuse.
        warnings.simplefilter("ignore", DeprecationWarning)
        over = QDragEnterEvent(at, *rest)
    QApplication.sendEvent(widget, over)
    assert over.isAccepted()
    QApplication.sendEvent(widget, QDropEvent(QPointF(at), *rest))


def drop_on_canvas(viewer, *paths):
    drop(viewer.window._qt_viewer, *paths)


def press_save(viewer, layer):
    """Press Ctrl+S on the canvas, and wait until a layer is saved."""
    viewer.window.activate()
    native = canvas(viewer).native
    native.setFocus()
    pump(50)
    QTest.keyClick(native, Qt.Key.Key_S, CONTROL)
    until(lambda: not layer.saver.running and not layer.unsaved)
    assert QThreadPool.globalInstance().waitForDone(1000 * PATIENCE)
    pump(50)


def move(viewer, point, modifiers=PLAIN):
    at = on_canvas(viewer, point)
    send(viewer, QEvent.Type.MouseMove, at, NONE, NONE, modifiers)
    pump()


def turn_wheel(viewer, point, notches=1):
    """Turn the wheel at a world position (y, x): away from the user is closer."""
    native, at = canvas(viewer).native, on_canvas(viewer, point)
    place = QPointF(native.mapToGlobal(at.toPoint()))
    turned = QPoint(0, 120 if notches > 0 else -120)
    phase = Qt.ScrollPhase.NoScrollPhase
    for _ in range(abs(notches)):
        event = QWheelEvent(at, place, QPoint(), turned, NONE, PLAIN, phase, False)
        QApplication.sendEvent(native, event)
    pump()
