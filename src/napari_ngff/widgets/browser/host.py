"""Opens the browser dock when a plate, a well or a collection is opened."""

from __future__ import annotations

from functools import partial
from typing import Any

from qtpy.QtCore import QObject, QTimer
from qtpy.QtWidgets import QApplication

from napari_ngff.viewer.browsing.camera import MARGIN, OVERVIEW_MARGIN, is_fitted
from napari_ngff.viewer.services.window import Window
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.connections import call_soon, connect_while_alive
from napari_ngff.widgets.docking import BROWSER, find_dock, show_dock
from napari_ngff.widgets.form_dialog import is_window_open

SETTLING = 3000
"""Milliseconds in which a new dock gets its width: styles and pages widen it."""


def open_in_window(viewer: Any) -> None:
    """Open the browser after the current event, if there is a window."""
    if QApplication.instance() is not None and hasattr(viewer, "window"):
        soon = partial(QTimer.singleShot, 0, partial(open_beside, viewer))
        Window.current.run_in_main(soon)


def open_beside(viewer: Any) -> None:
    """Open the browser; a view that shows everything keeps doing so in less room."""
    if not is_window_open(viewer):
        return
    fitted = browser_of(viewer) is None and is_fitted(viewer)
    dock = show_browser(viewer)
    if fitted:
        ViewRefitting(viewer, dock)


class ViewRefitting(QObject):
    """Keeps everything in view while a new dock takes room from the canvas."""

    def __init__(self, viewer: Any, dock: QObject) -> None:
        super().__init__(dock)
        self._viewer = viewer
        connect_while_alive(viewer.canvas.events.size, self, self._on_resized)
        call_soon(self._fit_view)
        QTimer.singleShot(SETTLING, self.deleteLater)

    def _on_resized(self) -> None:
        # Later: the camera gets the new size only after this signal.
        call_soon(self._fit_view)

    def _fit_view(self) -> None:
        if is_window_open(self._viewer) and is_fitted(self._viewer):
            self._viewer.reset_view(margin=margin_of(self._viewer))


def margin_of(viewer: Any) -> float:
    """Return the part of the canvas that stays free: more around an overview."""
    browser = session_of(viewer).browser
    many = browser is not None and len(browser.layers.well_cells()) > 1
    return OVERVIEW_MARGIN if many else MARGIN


def browser_of(viewer: Any) -> Any:
    """Return the `BrowserDock` of a window that is there; None for none."""
    return find_dock(viewer, BROWSER)


def show_browser(viewer: Any) -> Any:
    """Show the `BrowserDock` of a window; the one that is there, if there is one."""
    return show_dock(viewer, BROWSER)
