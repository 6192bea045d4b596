"""Our docks in napari's window: tabs beside each other, found and shown by name."""

from __future__ import annotations

from functools import partial
from typing import Any

from npe2 import PluginManager
from qtpy.compat import isalive
from qtpy.QtCore import QSize, Qt, QTimer
from qtpy.QtWidgets import QDockWidget, QMainWindow, QWidget

from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.viewer.services import settings
from napari_ngff.viewer.session import viewer_of

ANNOTATE = "Annotate"
BROWSER = "Plate browser"
INSPECTOR = "Inspector"
RESULTS = "Results"
# A dock is made by its command, so that one dock can show another without importing it.
COMMANDS = {
    ANNOTATE: "napari-ngff.annotate",
    BROWSER: "napari-ngff.browser",
    INSPECTOR: "napari-ngff.inspector",
    RESULTS: "napari-ngff.results",
}
"""Docks by their names in the manifest, and the commands there that make them."""

BELOW = 0.45
"""Share of the window's height that a dock below the canvas gets at first."""


def place_dock(viewer: Any, widget: QWidget, *, is_below: bool = False) -> None:
    """Place a new dock, once napari has added it: a tab beside another one of ours.

    After that it stays where the user moves it.

    Parameters
    ----------
    widget
        What the dock holds.
    is_below
        Whether it goes below the canvas instead, so that the map stays in view.
    """
    window = qt_window_of(viewer)
    if window is not None:
        place = partial(_place_dock, viewer, widget, window.size(), is_below)
        QTimer.singleShot(0, place)


def _place_dock(viewer: Any, widget: QWidget, size: QSize, is_below: bool) -> None:
    dock = widget.parent() if isalive(widget) else None  # type: ignore[no-untyped-call]
    window = dock.parent() if isinstance(dock, QDockWidget) else None
    if not isinstance(dock, QDockWidget) or not isinstance(window, QMainWindow):
        return
    # With the least size that napari sets (0.9), Qt keeps the largest one that it had.
    dock.setMinimumSize(0, 0)
    # Qt lets keys such as Alt+U press buttons of a dock that is behind another tab.
    dock.visibilityChanged.connect(widget.setEnabled)
    if is_below:
        area, corner = Qt.DockWidgetArea, Qt.Corner
        # Else its height would be what the docks at the sides need least leave of it.
        window.setCorner(corner.BottomLeftCorner, area.LeftDockWidgetArea)
        window.setCorner(corner.BottomRightCorner, area.RightDockWidgetArea)
        window.addDockWidget(area.BottomDockWidgetArea, dock)
        height = round(size.height() * BELOW)
        window.resizeDocks([dock], [height], Qt.Orientation.Vertical)
        QTimer.singleShot(0, partial(window.resize, size))
    else:
        _join_tabs(viewer, dock, window, size)


def _join_tabs(
    viewer: Any, dock: QDockWidget, window: QMainWindow, size: QSize
) -> None:
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
