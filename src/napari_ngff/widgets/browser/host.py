"""Opens the browser beside what is walked."""

from __future__ import annotations

from typing import Any

from qtpy.compat import isalive
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication
from superqt.utils import ensure_main_thread

from napari_ngff.viewer.browsing.camera import is_fitted
from napari_ngff.viewer.frontend import set_browser_host
from napari_ngff.widgets.browser.dock import TITLE, BrowserDock
from napari_ngff.widgets.docking import bring_forward, full_name

__all__ = ["browser_of", "install_browser", "show_browser"]

NAME = full_name(TITLE)


def install_browser() -> None:
    """Open the browser in every window where a plate, well or collection is opened."""
    set_browser_host(open_in_window)


def open_in_window(viewer: Any) -> None:
    """Open the browser in the main thread, if there is an application."""
    if QApplication.instance() is not None:
        ensure_main_thread(open_soon)(viewer)


def open_soon(viewer: Any) -> None:
    """Open the browser when what goes on now is done, if there is a window."""
    window = getattr(viewer, "window", None)
    if window is not None:
        QTimer.singleShot(0, lambda: open_beside(viewer))


def open_beside(viewer: Any) -> None:
    """Open the browser; what is in view as a whole stays so in less room."""
    if not window_alive(viewer):
        return
    fitted = browser_of(viewer) is None and is_fitted(viewer)
    show_browser(viewer)
    if fitted:
        QTimer.singleShot(0, lambda: window_alive(viewer) and viewer.reset_view())


def window_alive(viewer: Any) -> bool:
    """Tell whether a viewer's window was not closed meanwhile."""
    window = getattr(viewer.window, "_qt_window", None)
    return window is not None and bool(isalive(window))  # type: ignore[no-untyped-call]


def browser_of(viewer: Any) -> BrowserDock | None:
    """Return the browser of a window that is there."""
    docks = viewer.window.dock_widgets.values() if hasattr(viewer, "window") else ()
    return next((one for one in docks if isinstance(one, BrowserDock)), None)


def show_browser(viewer: Any) -> BrowserDock:
    """Show the browser of a window; the one that is there, if there is one."""
    dock = browser_of(viewer)
    if dock is not None:
        bring_forward(dock)
        return dock
    dock = BrowserDock(viewer)
    viewer.window.add_dock_widget(dock, name=NAME, area="right")
    return dock
