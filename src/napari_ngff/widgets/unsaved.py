"""Asks before unsaved labels go away with their layer or their window."""

from __future__ import annotations

import shutil
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QEvent, QObject, Qt, QTimer
from qtpy.QtWidgets import QMessageBox

from napari_ngff.labels.journal import read_journal
from napari_ngff.viewer import session
from napari_ngff.viewer.paint import OMEZarrLabels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from napari.components import ViewerModel
    from qtpy.QtGui import QKeyEvent

__all__ = ["Guard", "install_guard"]

KEY = Qt.Key.Key_S
CONTROL = Qt.KeyboardModifier.ControlModifier


class Guard(QObject):
    """Watches one window of napari.

    What a script does is not asked for: `viewer.close()`, `del viewer.layers[0]`.
    """

    def __init__(self, viewer: Any) -> None:
        window = viewer.window._qt_window
        super().__init__(window)
        self._viewer = weakref.ref(viewer)
        window.installEventFilter(self)
        # napari asks in these two, too, and has no event for either.
        me = weakref.proxy(self)
        window.close = partial(Guard.close, me)
        viewer.layers.remove_selected = partial(Guard.remove, me)

    def close(self, quit_app: bool = False, confirm_need: bool = False) -> Any:
        """Close the window, as the menu does; ask before."""
        if confirm_need and not self.settled(self._layers()):
            return False
        window: Any = self.parent()
        return type(window).close(window, quit_app, confirm_need)

    def remove(self) -> None:
        """Remove the selected layers, as the button does; ask before."""
        viewer = self._viewer()
        if viewer is not None and self.settled(viewer.layers.selection):
            type(viewer.layers).remove_selected(viewer.layers)

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """Ask before the window is closed; leave Ctrl+S to painted labels."""
        kind = event.type()
        if kind == QEvent.Type.Close and event.spontaneous():
            if not self.settled(self._layers()):
                event.ignore()
                return True
        elif kind == QEvent.Type.ShortcutOverride and self._is_save(event):
            # Else napari's menu takes it, and asks for the name of a new file.
            event.accept()
            return True
        return False

    def _is_save(self, event: Any) -> bool:
        key: QKeyEvent = event
        viewer = self._viewer()
        if viewer is None or key.key() != KEY or key.modifiers() != CONTROL:
            return False
        active = viewer.layers.selection.active
        return isinstance(active, OMEZarrLabels) and active.saver is not None

    def _layers(self) -> list[Any]:
        viewer = self._viewer()
        return [] if viewer is None else list(viewer.layers)

    def settled(self, layers: Iterable[Any]) -> bool:
        """Ask what to do with unsaved labels; False where they shall stay."""
        unsaved = {
            layer: layer.saver
            for layer in layers
            if isinstance(layer, OMEZarrLabels) and layer.saver and layer.unsaved
        }
        if not unsaved:
            return True
        names = ", ".join(layer.name for layer in unsaved)
        buttons = QMessageBox.StandardButton
        window: Any = self.parent()
        answer = QMessageBox.question(
            window,
            "Unsaved labels",
            f"There are edits that are not saved in: {names}.",
            buttons.Save | buttons.Discard | buttons.Cancel,
            buttons.Save,
        )
        if answer == buttons.Save:
            return all(saver.save_now() for saver in unsaved.values())
        if answer == buttons.Discard:
            for saver in unsaved.values():
                saver.discard()
        return bool(answer == buttons.Discard)

    def offer(self, layer: Any) -> None:
        """Ask whether edits that a crash has left shall be recovered."""
        saver = layer.saver
        for folder in [] if saver is None or layer.canvas.log.end else saver.found():
            count = read_journal(folder).count
            buttons = QMessageBox.StandardButton
            window: Any = self.parent()
            answer = QMessageBox.question(
                window,
                "Unsaved labels",
                f"Recover {count} edits of {layer.name}? They were not saved when"
                " napari ended. Discard deletes them; Cancel asks again next time.",
                buttons.Yes | buttons.Discard | buttons.Cancel,
                buttons.Yes,
            )
            if answer == buttons.Yes:
                saver.recover(folder)
                return
            if answer == buttons.Discard:
                shutil.rmtree(folder, ignore_errors=True)


def guard(viewer: ViewerModel, layer: Any) -> None:
    """Watch a viewer's window from now on, if it has one; offer what is lost."""
    window = getattr(viewer, "window", None)
    if window is None:
        return
    guards = window._qt_window.findChildren(Guard)
    watching = guards[0] if guards else Guard(viewer)
    # When the file is open: nothing has to wait for the answer.
    QTimer.singleShot(0, partial(watching.offer, layer))


def install_guard() -> None:
    """Watch the window of every viewer in which labels are painted."""
    session.set_guard(guard)
