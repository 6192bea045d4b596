"""Our docks in napari's window: tabs beside each other, found and shown by name."""

from __future__ import annotations

from functools import partial
from typing import Any

from npe2 import PluginManager
from qtpy.compat import isalive
from qtpy.QtCore import QSize, QTimer
from qtpy.QtWidgets import QDockWidget, QMainWindow, QWidget

from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.session import viewer_of

ANNOTATE = "Annotate"
BROWSER = "Plate browser"
INSPECTOR = "Inspector"
# A dock is made by its command, so that one dock can show another without importing it.
COMMANDS = {
    ANNOTATE: "napari-ngff.annotate",
    BROWSER: "napari-ngff.browser",
    INSPECTOR: "napari-ngff.inspector",
}
"""Docks by their names in the manifest, and the commands there that make them."""


def place_dock(viewer: Any, widget: QWidget) -> None:
    """Make a new dock a tab beside another one of ours, once napari has added it.

    After that it stays where the user moves it.

    Parameters
    ----------
    widget
        What the dock holds.
    """
    window = qt_window_of(viewer)
    if window is not None:
        QTimer.singleShot(0, partial(_join_tabs, viewer, widget, window.size()))


def _join_tabs(viewer: Any, widget: QWidget, size: QSize) -> None:
    dock = widget.parent() if isalive(widget) else None  # type: ignore[no-untyped-call]
    window = dock.parent() if isinstance(dock, QDockWidget) else None
    if not isinstance(dock, QDockWidget) or not isinstance(window, QMainWindow):
        return
    # With the least size that napari sets (0.9), Qt keeps the largest one that it had.
    dock.setMinimumSize(0, 0)
    # Qt lets keys such as Alt+U press buttons of a dock that is behind another tab.
    dock.visibilityChanged.connect(widget.setEnabled)
    area = window.dockWidgetArea(dock)
    for title in COMMANDS:
        other = find_dock(viewer, title)
        beside = None if other is None else other.parent()
        if (
            isinstance(beside, QDockWidget)
            and beside is not dock
            and not beside.isHidden()
            and not beside.isFloating()
            and window.dockWidgetArea(beside) == area
        ):
            window.tabifyDockWidget(beside, dock)
            # It grew for one dock above the other, and can shrink once it is laid out.
            QTimer.singleShot(0, partial(window.resize, size))
            QTimer.singleShot(0, dock.raise_)
            return


def bring_forward(widget: Any) -> None:
    """Show the dock of a widget, in front of its tabs."""
    dock = widget.parent()
    if isinstance(dock, QDockWidget):
        dock.show()
        dock.raise_()


def full_name(title: str) -> str:
    """Name a dock as napari's menu does, which then shows the same one."""
    return f"{title} (OME-Zarr)"


def find_dock(viewer: Any, title: str) -> Any:
    """Return the widget of a dock of ours in the window of a viewer; None for none."""
    docks = viewer.window.dock_widgets if hasattr(viewer, "window") else {}
    # napari puts a plugin's name behind a title: the menu the one that users read, a
    # script the one of the package.
    names = full_name(title), f"{title} ({settings.PLUGIN})"
    return next((docks[name] for name in names if name in docks), None)


def find_annotated(layer: Any) -> str:
    """Name the labels of the annotate dock in the window of a layer, maybe a tab there.

    "" without the dock; before it has labels, its request to select some.
    """
    viewer = viewer_of(layer)
    widget: Any = None if viewer is None else find_dock(viewer, ANNOTATE)
    dock = None if widget is None else widget.parent()
    action = dock.toggleViewAction() if isinstance(dock, QDockWidget) else None
    return widget.title.text() if action is not None and action.isChecked() else ""


def show_dock(viewer: Any, title: str) -> Any:
    """Show a dock of the manifest in the window of a viewer, in front of its tabs.

    Returns
    -------
    QWidget
        The widget of the dock.
    """
    widget = find_dock(viewer, title)
    if widget is None:
        commands = PluginManager.instance().commands
        widget = commands.execute(COMMANDS[title], (viewer,))
        viewer.window.add_dock_widget(widget, name=full_name(title), area="right")
    bring_forward(widget)
    return widget
