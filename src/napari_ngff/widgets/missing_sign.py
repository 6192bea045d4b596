"""A sign in the status bar while chunks on the screen are missing."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from qtpy.compat import isalive
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QMainWindow, QMenu, QPushButton

from napari_ngff.viewer.napari_private import qt_window_of
from napari_ngff.viewer.session import all_viewers
from napari_ngff.viewer.streaming.missing_parts import (
    has_failed,
    list_missing,
    missing_text,
)
from napari_ngff.viewer.streaming.missing_retry import MissingRetry
from napari_ngff.viewer.window_services import set_missing_host

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from napari_ngff.viewer.streaming.missing_parts import MissingPart

__all__ = ["MissingSign", "install_missing_sign", "missing_sign_of"]

INTERVAL = 500
"""Milliseconds between two looks at what is missing."""

TRY_AGAIN = "Try again now"


def install_missing_sign() -> None:
    """Show in all windows, while that is so, that chunks on the screen are missing."""
    set_missing_host(watch_windows)


def watch_windows() -> None:
    """Look in all windows whether chunks are missing, until none is."""
    for viewer in all_viewers():
        window = qt_window_of(viewer)
        if window is not None and isalive(window):  # type: ignore[no-untyped-call]
            sign = missing_sign_of(viewer) or MissingSign(viewer, window)
            sign.watch()


def missing_sign_of(viewer: Any) -> MissingSign | None:
    """Find the sign of a viewer's window."""
    window = qt_window_of(viewer)
    sign: MissingSign | None = None if window is None else window.findChild(MissingSign)
    return sign


class MissingSign(QPushButton):
    """Counts the chunks that are missing on the screen; a click lists them."""

    def __init__(self, viewer: ViewerModel, window: QMainWindow) -> None:
        super().__init__(window)
        self._viewer = weakref.ref(viewer)
        self._retry = MissingRetry(viewer)
        self._menu = QMenu(self)
        self._menu.setToolTipsVisible(True)
        self._menu.aboutToShow.connect(self._fill_menu)
        self.setFlat(True)
        self.setMenu(self._menu)
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL)
        self._timer.timeout.connect(self.showMissing)
        bar = window.statusBar()
        assert bar is not None
        bar.addPermanentWidget(self)
        self.hide()

    def watch(self) -> None:
        """Look now and then, until all chunks are there."""
        if not self._timer.isActive():
            self._timer.start()

    def showMissing(self) -> None:
        """Count what is missing now."""
        viewer = self._viewer()
        # Before the list: a worker may read the last chunk while that is shown.
        goes_on = viewer is not None and has_failed(viewer)
        parts = [] if viewer is None else list_missing(viewer)
        text = missing_text(parts)
        self.setText(text)
        self.setToolTip("\n".join(part.text for part in parts))
        self.setVisible(bool(text))
        self._retry.ask_sometimes()
        if not goes_on:
            self._timer.stop()

    def retry(self) -> None:
        """Have it read again now."""
        self._retry.ask_now()

    def _fill_menu(self) -> None:
        viewer = self._viewer()
        parts = [] if viewer is None else list_missing(viewer)
        self._menu.clear()
        for part in parts:
            self._list_part(part)
        if not all(part.is_damaged for part in parts):
            self._menu.addSeparator()
            again = self._menu.addAction(TRY_AGAIN)
            if again is not None:
                again.triggered.connect(self.retry)

    def _list_part(self, part: MissingPart) -> None:
        action = self._menu.addAction(part.text.replace("&", "&&"))
        if action is not None:
            action.setEnabled(False)
            action.setToolTip(str(part.error))
