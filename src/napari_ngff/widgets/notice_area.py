"""Where notices of a window are: one stack in the corner of the canvas.

The newest is on top, each goes by its own time, and one of the same kind takes the
place of the one before it. napari alone puts all of them in the same place, and lets
only the newest go by itself, and that only in the active window.
"""

from __future__ import annotations

import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from napari._qt.dialogs.qt_notification import NapariQtNotification
from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, QPropertyAnimation, QRect, Qt, QThread, QTimer
from qtpy.QtWidgets import QApplication, QMainWindow, QWidget

from napari_ngff.viewer.napari_private import qt_window_of
from napari_ngff.viewer.notices import notice_kind
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.window_services import run_in_main, show_notification
from napari_ngff.widgets.event_watcher import EventWatcher
from napari_ngff.widgets.workers import has_application_ended

if TYPE_CHECKING:
    from napari_ngff.viewer.browsing.browser import Browser

__all__ = [
    "NoticeArea",
    "install_notice_area",
    "is_event_loop_running",
    "is_window_shown",
    "show_notice",
]

SETTLED = 500
"""Milliseconds after which a new window is drawn."""

SHOWN = 8000
"""Milliseconds for which a notice is shown."""

READ = 2
"""Seconds for which it is shown although another image is being opened."""

MOST = 4
"""Notices that are shown at once."""

MARGIN, GAP = 8, 4
"""Pixels between notices and the edges of the canvas, and between two notices."""

BESIDE_TEXT = 110
"""Pixels of a notice that its icon, its buttons and its edges take."""

AROUND_TEXT = 24
"""Pixels of height that its edges take."""

UNASKED_SENTENCES = 2
"""Sentences that are shown without a click: the result, and its reason."""

MOST_LINES = 4
"""Lines that they may take."""

# napari's own, whatever is installed later.
_show = NapariQtNotification.show


def install_notice_area() -> None:
    """Let all notices of napari's windows be shown in an area; this may be repeated."""
    NapariQtNotification.show = show_in_area


def show_in_area(notice: NapariQtNotification) -> None:
    """Show a notice in the area of its canvas, in place of `show`."""
    # napari keeps those of windows that were closed.
    known = NapariQtNotification._instances
    known[:] = [one for one in known if isalive(one)]  # type: ignore[no-untyped-call]
    canvas = notice.parent()
    if canvas is None:
        _show(notice)
        return
    area = canvas.findChild(NoticeArea) or NoticeArea(canvas)
    area.addNotice(notice)


class NoticeArea(EventWatcher):
    """The notices of one canvas."""

    def __init__(self, canvas: QWidget) -> None:
        super().__init__(canvas)
        self._canvas = canvas
        self._notices: list[NapariQtNotification] = []
        canvas.installEventFilter(self)

    @property
    def notices(self) -> list[NapariQtNotification]:
        """Those that are shown, the newest last."""
        self._notices = [one for one in self._notices if isalive(one)]  # type: ignore[no-untyped-call]
        return list(self._notices)

    def addNotice(self, notice: NapariQtNotification) -> None:
        """Show a notice on top of the others."""
        kind = notice_kind(notice.message.text())
        for known in self.notices:
            if notice_kind(known.message.text()) == kind and not is_read(known):
                known.close()
        for known in self.notices[: 1 - MOST]:
            known.close()
        # For this one only: napari's timers run for the newest alone.
        notice.DISMISS_AFTER = 0
        notice.close = partial(close_notice, weakref.ref(notice))
        self._notices.append(notice)
        self._fit_notice(notice)
        notice.installEventFilter(self)
        self.placeNotices()
        _show(notice)
        PassingNotice(notice)

    def watchEvent(self, watched: QObject, event: QEvent) -> bool:
        """Keep the notices where they belong."""
        kind = event.type()
        if kind == QEvent.Type.Resize and watched is self._canvas:
            for notice in self.notices:
                self._fit_notice(notice)
        if kind == QEvent.Type.Hide:
            # Of a window that is hidden, too; what is in it is not hidden itself then.
            self._notices = [one for one in self.notices if not one.isHidden()]
        if kind in (QEvent.Type.Resize, QEvent.Type.Hide):
            # Later: napari itself moves them when the canvas changes.
            self._place_soon()
        return False

    def _place_soon(self) -> None:
        QTimer.singleShot(0, self.placeNotices)

    def placeNotices(self) -> None:
        """Put the oldest into the lower right corner, the others above it."""
        if not isalive(self):  # type: ignore[no-untyped-call]
            return
        right = self._canvas.width() - MARGIN
        bottom = self._canvas.height() - MARGIN
        for notice in self.notices:
            place = QRect(0, 0, notice.width(), notice.height())
            place.moveBottomRight(QRect(0, 0, right, bottom).bottomRight())
            if notice.geom_anim.state() == QPropertyAnimation.State.Running:
                # It slides in, or grows: its lower edge is where it will be.
                bottom = notice.geom_anim.endValue().top() - GAP
                continue
            notice.move(place.topLeft())
            bottom = place.top() - GAP

    def _fit_notice(self, notice: NapariQtNotification) -> None:
        """Let a notice fit into the canvas, with its first sentences in whole lines."""
        width = min(notice.MIN_WIDTH, self._canvas.width() - 2 * MARGIN)
        inside = max(width - BESIDE_TEXT, 1)
        notice.message.setMinimumWidth(inside)
        notice.setFixedWidth(max(width, 1))
        for widget in (notice, notice.message):
            widget.ensurePolished()  # else the font is another one
        first = "\n".join(notice.message.text().splitlines()[:UNASKED_SENTENCES])
        metrics, wrapped = notice.message.fontMetrics(), Qt.TextFlag.TextWordWrap
        needed = metrics.boundingRect(QRect(0, 0, inside, 1 << 12), wrapped, first)
        lines = min(round(needed.height() / metrics.lineSpacing()), MOST_LINES)
        actions = notice.row2_widget.maximumHeight() if has_actions(notice) else 0
        # Each line is drawn one pixel higher than the font states.
        height = AROUND_TEXT + lines * (metrics.lineSpacing() + 1) + actions
        most = max(self._canvas.height() - 2 * MARGIN, height)
        notice.setMinimumHeight(height)
        notice.setMaximumHeight(most)
        if not notice.property("expanded"):
            notice.resize(notice.width(), height)


def is_read(notice: NapariQtNotification) -> bool:
    """Return whether a user reads a notice just now."""
    return bool(notice.underMouse() or notice.property("expanded"))


def has_actions(notice: NapariQtNotification) -> bool:
    """Return whether a notice has buttons of its own."""
    return not notice.row2_widget.isHidden()


def close_notice(reference: weakref.ref[NapariQtNotification]) -> None:
    """Close a notice; the keyboard stays with what has it.

    napari gives it to the canvas, in the middle of a word that is typed elsewhere.
    """
    notice, focused = reference(), QApplication.focusWidget()
    if notice is None:
        return
    type(notice).close(notice)
    if focused is not None and isalive(focused) and not notice.isAncestorOf(focused):  # type: ignore[no-untyped-call]
        focused.setFocus()


def show_notice(text: str, *, is_warning: bool = True) -> None:
    """Show a notification, in the main thread; later where no window is shown yet."""
    if QApplication.instance() is None:
        if not has_application_ended():  # then nobody sees it, and napari raises errors
            show_notification(text, is_warning=is_warning)
    else:
        run_in_main(partial(notify_in_window, text, is_warning=is_warning))


def notify_in_window(text: str, *, is_warning: bool = True) -> None:
    """Show a notification, once the window is shown."""
    window = hidden_window()
    if window is None:
        show_passing(text, is_warning=is_warning)
    else:
        LaterNotice(window, text, is_warning=is_warning)


def show_passing(text: str, *, is_warning: bool = True) -> None:
    """Show a notification that closes soon, or when another image is opened."""
    import napari

    viewer = napari.current_viewer()
    known = set(NapariQtNotification._instances)
    show_notification(text, is_warning=is_warning)
    browser = None if viewer is None else session_of(viewer).browser
    if browser is None:
        return
    # napari returns nothing: the notification is the one that is new.
    for notice in set(NapariQtNotification._instances) - known:
        passing = notice.findChild(PassingNotice)
        if passing is not None:
            passing.followBrowser(browser)


class PassingNotice(QObject):
    """Ends one notice after its time, unless it is expanded or under the mouse."""

    def __init__(self, notice: NapariQtNotification) -> None:
        super().__init__(notice)
        self._notice = notice
        self._began = time.monotonic()
        self._timer = QTimer(self)
        # Not a single shot: one under the mouse stays, and ends some time later.
        self._timer.setInterval(SHOWN)
        self._timer.timeout.connect(self._end_notice)
        self._timer.start()

    def followBrowser(self, browser: Browser) -> None:
        """End it also when a browser opens another image."""
        browser.busy.connect(self._on_busy)

    def _on_busy(self, busy: bool) -> None:
        if busy and time.monotonic() - self._began > READ:
            self._end_notice()

    def _end_notice(self) -> None:
        if not isalive(self) or not isalive(self._notice):  # type: ignore[no-untyped-call]
            return
        if not is_read(self._notice):
            self._timer.stop()
            self._notice.close_with_fade()


def hidden_window() -> QMainWindow | None:
    """Find the window of napari that is about to be shown for the first time."""
    import napari

    viewer = napari.current_viewer()
    window = qt_window_of(viewer)
    is_hidden = window is not None and isalive(window) and not window.isVisible()  # type: ignore[no-untyped-call]
    return window if is_hidden else None


class LaterNotice(EventWatcher):
    """Shows one notification when a window has been shown."""

    def __init__(self, window: QMainWindow, text: str, *, is_warning: bool) -> None:
        super().__init__(window)
        self._text, self._is_warning = text, is_warning
        window.installEventFilter(self)

    def watchEvent(self, watched: QObject, event: QEvent) -> bool:
        """Wait for the window."""
        if event.type() == QEvent.Type.Show:
            # A window is also shown when it was minimised.
            watched.removeEventFilter(self)
            QTimer.singleShot(SETTLED, self._show_notice)
        return False

    def _show_notice(self) -> None:
        if isalive(self):  # type: ignore[no-untyped-call]
            show_passing(self._text, is_warning=self._is_warning)
            self.deleteLater()


def is_window_shown(viewer: Any) -> bool:
    """Return whether the window of a viewer is on the screen."""
    window = qt_window_of(viewer)
    return window is not None and bool(isalive(window)) and window.isVisible()  # type: ignore[no-untyped-call]


def is_event_loop_running() -> bool:
    """Return whether a user acts: a script runs outside of the event loop."""
    thread = QThread.currentThread()
    return thread is not None and thread.loopLevel() > 0
