"""Calls of a widget's methods by what outlives it, and events of other objects."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from napari.utils.events import EventEmitter
from qtpy.compat import isalive
from qtpy.QtCore import (
    QEvent,
    QMargins,
    QObject,
    QSize,
    QTimer,
)
from qtpy.QtWidgets import (
    QBoxLayout,
    QComboBox,
    QHBoxLayout,
    QLabel,
    QLayout,
    QPushButton,
    QWidget,
)
from superqt.utils import QFlowLayout
from typing_extensions import override

from napari_ngff.viewer.services.latest_task import LatestTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from napari_ngff.viewer.painting.paint import OMEZarrLabels


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


def call_soon(method: Callable[[], Any], pause: int = 0) -> None:
    """Call a method of a widget so many milliseconds later, if that is there then.

    PySide6 calls what `QTimer.singleShot` got even if Qt has deleted the widget.
    """
    QTimer.singleShot(pause, while_alive(method))


def make_timer(parent: QObject, pause: int, method: Callable[[], Any]) -> QTimer:
    """Make a timer that calls a method once, so many milliseconds after a start."""
    timer = QTimer(parent)
    timer.setSingleShot(True)
    timer.setInterval(pause)
    timer.timeout.connect(method)
    return timer


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


GAP = 4
"""Pixels between two controls: in a layout inside of another one, superqt has none."""

LEAST_LETTERS = 5
"""Letters of an entry that are visible in the narrowest box."""

MOST_LETTERS = 40
"""Letters of the chosen entry that a box has room for where it can be as wide."""

NO_LABELS = "Select labels of an OME-Zarr, or make new ones."
READ_ONLY = "These labels are read-only or locked: see beside Save in their controls."


def wrapping_row(*widgets: QWidget) -> QFlowLayout:
    """Put widgets side by side, in several lines if they do not fit."""
    row = QFlowLayout()
    row.setHorizontalSpacing(GAP)
    row.setVerticalSpacing(GAP)
    row.setContentsMargins(0, 0, 0, 0)
    for widget in widgets:
        row.addWidget(widget)
    return row


def filled_row(*widgets: QWidget, wide: QWidget | None) -> QHBoxLayout:
    """Put widgets side by side; one of them gets the room that is left."""
    row = QHBoxLayout()
    fill_layout(row, *widgets, wide=wide)
    return row


def fill_layout(
    layout: QBoxLayout,
    *parts: QWidget | QLayout,
    wide: QWidget | None = None,
    margin: int | None = None,
) -> None:
    """Put widgets and layouts one after the other.

    Parameters
    ----------
    wide
        The one that takes the room that is left.
    margin
        Pixels around all of them; by default those of the window's style.
    """
    if margin is not None:
        layout.setContentsMargins(margin, margin, margin, margin)
    for part in parts:
        if isinstance(part, QLayout):
            layout.addLayout(part)
        else:
            layout.addWidget(part, int(part is wide))


def wrapping_label(parent: QWidget | None = None, text: str = "") -> QLabel:
    """Make a label whose text wraps in the width that there is."""
    label = QLabel(text, parent)
    label.setWordWrap(True)
    return label


def make_buttons(
    parent: QWidget, *actions: tuple[str, str, Callable[[], Any] | None]
) -> list[QPushButton]:
    """Make buttons of titles, tool tips and what a click does."""
    buttons = []
    for title, tip, action in actions:
        button = QPushButton(title, parent)
        button.setToolTip(tip)
        if action is not None:
            button.clicked.connect(action)
        buttons.append(button)
    return buttons


class ChoiceBox(QComboBox):
    """A box of choices as wide as the chosen one, where there is room.

    Layouts of superqt place it also while it is empty.
    """

    def __bool__(self) -> bool:
        return True

    @override
    def sizeHint(self) -> QSize:
        hint, metrics = super().sizeHint(), self.fontMetrics()
        least = metrics.horizontalAdvance("X") * self.minimumContentsLength()
        text = metrics.horizontalAdvance(self.currentText()[:MOST_LETTERS])
        return hint.grownBy(QMargins(0, 0, max(0, text - least), 0))

    @override
    def showPopup(self) -> None:
        """Show a list that is as wide as its longest entry."""
        view = self.view()
        assert view is not None
        port = view.viewport()
        assert port is not None
        beside = view.width() - port.width()
        view.setMinimumWidth(view.sizeHintForColumn(0) + beside)
        super().showPopup()


def choice_box(parent: QWidget, name: str, tip: str) -> QComboBox:
    """Make a box of choices whose width does not widen the dock."""
    box = ChoiceBox(parent)
    box.setAccessibleName(name)
    box.setToolTip(tip)
    # By default a box is as wide as its longest entry, and so would be the dock.
    policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
    box.setSizeAdjustPolicy(policy)
    box.setMinimumContentsLength(LEAST_LETTERS)
    box.currentTextChanged.connect(box.updateGeometry)
    return box


def enable_if(is_possible: bool, widget: QWidget, lack: str) -> None:
    """Enable a widget, or disable it and let its tool tip state what is lacking."""
    if widget.property("tip") is None:
        widget.setProperty("tip", widget.toolTip())
    widget.setEnabled(is_possible)
    widget.setToolTip(widget.property("tip") if is_possible else lack)


def why_fixed(layer: OMEZarrLabels | None, changes: bool = True) -> str:
    """Return why nothing can be done with labels, or nothing that changes them."""
    is_fixed = changes and layer is not None and layer.refusal
    return NO_LABELS if layer is None else READ_ONLY if is_fixed else ""


class WidgetTasks:
    """The tasks of one widget by subject, a `LatestTask` each.

    Parameters
    ----------
    widget
        Results are dropped once it is gone.
    """

    def __init__(self, widget: QWidget) -> None:
        self._is_alive = alive_check(widget)
        self._tasks: dict[str, LatestTask] = {}

    def start_task(
        self, subject: str, work: Callable[[], Any], done: Callable[[Any], None]
    ) -> None:
        """Start work in a worker; `done` gets its result, or a text why it failed."""
        if subject not in self._tasks:
            self._tasks[subject] = LatestTask(self._is_alive)
        # `done` twice: a text that says why work failed is a result like another.
        self._tasks[subject].start(lambda _: work(), done, done)

    def cancel_others(self, *kept: str) -> None:
        """Cancel all tasks, except those of the subjects `kept`."""
        for subject in self._tasks.keys() - set(kept):
            self._tasks[subject].cancel()


def alive_check(widget: QWidget) -> Callable[[], bool]:
    """Return a function that returns whether a widget is still there.

    It does not keep the widget alive.
    """
    # Two ways to go: Python may hold a widget that Qt has deleted, and the reverse.
    reference = weakref.ref(widget)

    def is_alive() -> bool:
        referent = reference()
        return referent is not None and bool(isalive(referent))  # type: ignore[no-untyped-call]

    return is_alive
