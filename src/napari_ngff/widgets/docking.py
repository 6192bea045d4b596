"""Places our docks: one above the other, or as tabs where the window is too low."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npe2 import PluginManager
from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, Qt, QTimer
from qtpy.QtWidgets import QDockWidget, QMainWindow, QWidget

from napari_ngff.viewer import settings
from napari_ngff.viewer.session import viewer_of
from napari_ngff.widgets.event_watcher import EventWatcher

if TYPE_CHECKING:
    from qtpy.QtCore import QSize

__all__ = [
    "ANNOTATE",
    "BROWSER",
    "INSPECTOR",
    "DockPlacement",
    "bring_forward",
    "find_dock",
    "full_name",
    "has_annotate_dock",
    "show_dock",
    "starting_width",
]

ANNOTATE = "Annotate"
BROWSER = "Plate browser"
INSPECTOR = "Inspector"
LEAST_WIDTH = 280
"""Width in pixels at which every dock of ours can be read and used."""

# A dock is made by its command, so that one dock can show another without importing it.
COMMANDS = {
    ANNOTATE: "napari-ngff.annotate",
    BROWSER: "napari-ngff.browser",
    INSPECTOR: "napari-ngff.inspector",
}
"""Docks by their names in the manifest, and the commands there that make them."""


class DockPlacement(EventWatcher):
    """Finds a place for a dock of ours when it comes into a window.

    If the docks of its side want more height than there is, it becomes a tab beside
    another one of ours. After that it stays where the user moves it. Whenever it is
    shown, it is in front of its tabs. Keys do nothing in a dock behind another tab.

    Parameters
    ----------
    widget
        What the dock holds; its `sizeHint` says how much height it wants.
    """

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._widget = widget
        self._before: QSize | None = None
        self._grown: int | None = None
        self._is_placed = False
        widget.installEventFilter(self)

    def watchEvent(self, watched: QObject, event: QEvent) -> bool:
        """Follow the widget into its dock and window, and place the dock when shown."""
        kind = event.type()
        parent = watched.parent() if isinstance(watched, QWidget) else None
        if kind == QEvent.Type.ParentChange:
            if isinstance(parent, QDockWidget):
                parent.installEventFilter(self)
                # With the least size that napari sets (0.9), Qt would keep the largest
                # one that the dock ever had.
                parent.setMinimumSize(0, 0)
            elif isinstance(parent, QMainWindow):
                # Before it grows to hold one dock above the other.
                self._before = parent.size()
        elif kind == QEvent.Type.Show and watched is self._widget:
            QTimer.singleShot(0, self._place_dock)
        elif kind == QEvent.Type.Move and isinstance(watched, QDockWidget):
            # Qt moves a dock behind another tab out of the window: its keys would work.
            window = watched.parent()
            inside = isinstance(window, QMainWindow) and window.rect().intersects(
                watched.geometry()
            )
            self._widget.setEnabled(inside or watched.isFloating())
        return False

    def _place_dock(self) -> None:
        if not isalive(self._widget):  # type: ignore[no-untyped-call]
            return
        dock = self._widget.parent()
        if not isinstance(dock, QDockWidget) or dock.isFloating():
            return
        window = dock.parent()
        if not isinstance(window, QMainWindow):
            return
        if not self._is_placed:
            self._is_placed = True
            # For the tab: the name of the plugin behind it would not fit.
            dock.setWindowTitle(dock.windowTitle().partition(" (")[0])
            self._join_tabs(window, dock)
            if not docks_beside(window, dock):
                # Qt made room for what the dock wanted before it had napari's style.
                wide = self._widget.sizeHint().width()
                window.resizeDocks([dock], [wide], Qt.Orientation.Horizontal)
        dock.raise_()

    def _join_tabs(self, window: QMainWindow, dock: QDockWidget) -> None:
        """Make the dock a tab of another one of ours, where both do not fit."""
        tabs = window.tabifiedDockWidgets(dock)
        beside = [each for each in docks_beside(window, dock) if each not in tabs]
        ours = [other for other in beside if is_ours(other)]
        center = window.centralWidget()
        if not ours or center is None:
            return
        room, high = center.height(), window.height()
        if self._before is not None and high <= window.minimumSize().height():
            # It is no higher than it must be, and so has grown if it was lower before.
            self._grown = high
            room -= max(0, high - self._before.height())
        if sum(wanted_height(other) for other in (dock, *beside)) > room:
            window.tabifyDockWidget(ours[0], dock)
            # Qt takes back its least height only when it has laid the tabs out.
            QTimer.singleShot(0, self._shrink_window)

    def _shrink_window(self) -> None:
        """Give the window its height back, if it grew for one dock above another."""
        window = self._widget.window() if isalive(self._widget) else None  # type: ignore[no-untyped-call]
        if (
            window is not None
            and self._before is not None
            and window.height() == self._grown  # nobody has resized it since
            and self._before.height() < self._grown
            and not window.isMaximized()
            and not window.isFullScreen()
        ):
            window.resize(window.width(), self._before.height())


def docks_beside(window: QMainWindow, dock: QDockWidget) -> list[QDockWidget]:
    """Return the other docks on the side of a dock, also those behind its tabs."""
    area, tabs = window.dockWidgetArea(dock), window.tabifiedDockWidgets(dock)
    return [
        other
        for other in window.findChildren(QDockWidget)
        if other is not dock
        and (other.isVisible() or other in tabs)
        and not other.isFloating()
        and window.dockWidgetArea(other) == area
    ]


def is_ours(dock: QDockWidget) -> bool:
    """Return whether a dock is one of ours, placed by `DockPlacement`."""
    widget = dock.widget()
    flat = Qt.FindChildOption.FindDirectChildrenOnly
    return (
        widget is not None and widget.findChild(DockPlacement, options=flat) is not None
    )


def wanted_height(dock: QDockWidget) -> int:
    """Return the height that a dock wants, in pixels."""
    return dock.sizeHint().height()


def starting_width(widget: QWidget, wanted: int, share: float = 1 / 3) -> int:
    """Return the width with which a dock begins: less if the window is narrow.

    Parameters
    ----------
    widget
        What the dock holds.
    wanted
        Width in pixels that shows all of it well.
    share
        Part of the window's width that is enough.
    """
    window = widget.window()
    if window is None or window is widget:
        return wanted
    return min(wanted, max(LEAST_WIDTH, int(window.width() * share)))


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


def has_annotate_dock(layer: Any) -> bool:
    """Return whether the annotate dock is in the window of a layer, maybe as a tab."""
    viewer = viewer_of(layer)
    widget = None if viewer is None else find_dock(viewer, ANNOTATE)
    dock = None if widget is None else widget.parent()
    action = dock.toggleViewAction() if isinstance(dock, QDockWidget) else None
    return action is not None and action.isChecked()


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
