"""Calls of a widget's methods by what outlives it, and events of other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from napari.utils.events import EventEmitter
from qtpy.compat import isalive
from qtpy.QtCore import QObject

if TYPE_CHECKING:
    from collections.abc import Callable

    from qtpy.QtCore import QEvent


Links = list[tuple[Any, "WeakMethod[Callable[..., Any]]"]]
"""Signals of psygnal or napari, and the methods that are connected to them."""


class Connections:
    """Connections to what a widget follows for a while, until `end` or its own end.

    Qt deletes a widget while Python still has it, with methods that would then fail.
    """

    def __init__(self, widget: QObject) -> None:
        self._links: Links = []
        widget.destroyed.connect(self)

    def connect(self, signal: Any, slot: Callable[..., Any]) -> None:
        """Call a method at each signal of psygnal or napari."""
        signal.connect(slot)
        self._links.append((signal, WeakMethod(slot)))

    def __call__(self, _: QObject | None = None) -> None:
        """Disconnect all, since Qt deletes the widget."""
        # Python may have emptied this before, as part of the same garbage: a function
        # or a `partial` of which nothing is left would end the process here.
        if hasattr(self, "_links"):
            self.end()

    def end(self) -> None:
        """Disconnect all."""
        for signal, method in self._links:
            slot = method()
            if slot is not None:
                signal.disconnect(slot)
            elif isinstance(signal, EventEmitter):
                # Of any object, napari disconnects those that are gone as well.
                signal.disconnect(object())
        self._links.clear()


def connect_while_alive(signal: Any, widget: QObject, slot: Callable[..., Any]) -> None:
    """Call a method at each signal of psygnal or napari, until a widget is deleted."""
    Connections(widget).connect(signal, slot)


def while_alive(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a method of a widget, as long as that is there.

    It does not keep the widget alive.
    """
    reference = WeakMethod(method)

    def call(*values: Any) -> Any:
        bound: Any = reference()
        if bound is not None and isalive(bound.__self__):  # type: ignore[no-untyped-call]
            return bound(*values)
        return None

    return call


class EventWatcher(QObject):
    """Sees the events of other objects first; installed with `installEventFilter`."""

    def watchEvent(self, watched: QObject, event: QEvent) -> bool:
        """Handle an event; return whether the watched object does not get it."""
        raise NotImplementedError

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:
        """Pass an event on to `watchEvent`, as long as this object is whole."""
        # While a dock is closed, PySide6 (6.12) asks objects that have lost all of
        # their attributes; napari would show each error.
        if watched is None or event is None or not vars(self):
            return False
        return self.watchEvent(watched, event)
