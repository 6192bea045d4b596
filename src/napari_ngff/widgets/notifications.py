"""Shows notifications of napari, those from before a window is shown as well."""

from __future__ import annotations

from functools import partial
from typing import Any

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, QThread
from qtpy.QtWidgets import QApplication, QDialog, QMainWindow

from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.viewer.services.window import Window, show_notification
from napari_ngff.widgets.connections import EventWatcher, call_soon
from napari_ngff.widgets.workers import has_application_ended

SETTLED = 500
"""Milliseconds after which a new window is drawn."""


def show_notice(text: str, *, is_warning: bool = True) -> None:
    """Show a notification, in the main thread; later where no window is shown yet."""
    if QApplication.instance() is None:
        if not has_application_ended():  # then nobody sees it, and napari raises errors
            show_notification(text, is_warning=is_warning)
    else:
        Window.current.run_in_main(
            partial(notify_in_window, text, is_warning=is_warning)
        )


def notify_in_window(text: str, *, is_warning: bool = True) -> None:
    """Show a notification, once the window is shown."""
    import napari

    window = qt_window_of(napari.current_viewer())
    if window is not None and isalive(window) and not window.isVisible():  # type: ignore[no-untyped-call]
        # napari would show it nowhere.
        LaterNotice(window, text, is_warning=is_warning)
    else:
        show_notification(text, is_warning=is_warning)


def find_notices(viewer: Any, text: str) -> list[Any]:
    """Find the notifications in a window that have a text."""
    window = qt_window_of(viewer)
    found: list[Any] = [] if window is None else window.findChildren(QDialog)
    shown = [each for each in found if hasattr(each, "DISMISS_AFTER")]
    return [each for each in shown if each.message.text() == text]


def keep_notice(viewer: Any, text: str) -> None:
    """Let a notification stay that would fade after some seconds."""
    for notice in find_notices(viewer, text):
        notice.DISMISS_AFTER = 0
        notice.timer_stop()


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
            call_soon(self._show_notice, SETTLED)
        return False

    def _show_notice(self) -> None:
        show_notification(self._text, is_warning=self._is_warning)
        self.deleteLater()


def is_window_shown(viewer: Any) -> bool:
    """Return whether the window of a viewer is on the screen."""
    window = qt_window_of(viewer)
    return window is not None and bool(isalive(window)) and window.isVisible()  # type: ignore[no-untyped-call]


def is_event_loop_running() -> bool:
    """Return whether a user acts: a script runs outside of the event loop."""
    thread = QThread.currentThread()
    return thread is not None and thread.loopLevel() > 0
