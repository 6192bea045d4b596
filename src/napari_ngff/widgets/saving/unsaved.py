"""Asks before unsaved labels go away with their layer or their window."""

from __future__ import annotations

import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_warning
from qtpy.QtCore import QEvent, QObject, Qt, QTimer
from qtpy.QtWidgets import QApplication

from napari_ngff.labels.journal import read_journal
from napari_ngff.viewer import frontend
from napari_ngff.viewer.painting.new_labels import is_shown
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.saving.autosave import Autosave
from napari_ngff.widgets import dialogs
from napari_ngff.widgets.dialogs import CANCEL, DISCARD, KEEP, RECOVER, SAVE
from napari_ngff.widgets.saving.save_progress import SaveProgress, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from napari.components import ViewerModel
    from qtpy.QtGui import QKeyEvent

    from napari_ngff.errors import NameTakenError
    from napari_ngff.viewer.saving.saver import LayerSaver

__all__ = ["Guard", "install_guard"]

TITLE = "Unsaved labels"

KEY = Qt.Key.Key_S
CONTROL = Qt.KeyboardModifier.ControlModifier
DIRECT = Qt.FindChildOption.FindDirectChildrenOnly

AUTOSAVE = 5_000
"""Milliseconds between two looks at what autosave has to do."""


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
        self._autosave = Autosave(viewer)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_time)
        self._timer.start(AUTOSAVE)

    @property
    def viewer(self) -> Any:
        """The viewer; None where it is gone."""
        return self._viewer()

    def _on_time(self) -> None:
        self._autosave.look(time.monotonic())

    def close(self, quit_app: bool = False, confirm_need: bool = False) -> Any:
        """Close the window, as the menu does; ask before."""
        if confirm_need and not self._may_close():
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
            if not self._may_close():
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

    def _may_close(self) -> bool:
        """Ask; the edits stay in the journal until the window is really gone."""
        viewer = self._viewer()
        savers = _unsaved([] if viewer is None else viewer.layers)
        answer = self._ask(savers)
        if answer == SAVE:
            return self._save(savers)
        for saver in savers.values():
            if answer != CANCEL:
                saver.cancel()
            saver.wanted = answer != DISCARD
        if answer == DISCARD:
            # napari may ask once more, and the window stay.
            QTimer.singleShot(0, partial(_want_again, weakref.ref(self), savers))
        return answer != CANCEL

    def settled(self, layers: Iterable[Any]) -> bool:
        """Ask what to do with unsaved labels, and do it; False where they shall stay.

        What is not saved is let go of: see `frontend.settle`.
        """
        savers = _unsaved(layers)
        answer = self._ask(savers)
        if answer == SAVE:
            return self._save(savers)
        for saver in savers.values():
            if answer == KEEP:
                saver.keep()
            elif answer == DISCARD:
                saver.discard()
        return answer != CANCEL

    def _ask(self, savers: dict[Any, LayerSaver]) -> str:
        if not savers:
            return KEEP
        names = ", ".join(layer.name for layer in savers)
        text = [f"There are edits that are not saved in: {names}."]
        if any(saver.partial for saver in savers.values()):
            text.append("Some are in the file already; Save completes them.")
        said = [saver.description for saver in savers.values()]
        if any(one is not None and one.changed for one in said):
            text.append("Changed colours and properties can only be saved now.")
        text.append("What is kept for later is offered when the labels are opened.")
        return dialogs.ask(self.parent(), TITLE, " ".join(text), [SAVE, KEEP, DISCARD])

    def _save(self, savers: dict[Any, LayerSaver]) -> bool:
        for saver in savers.values():
            saver.save()
        wait_for(self.parent(), list(savers.values()))
        return not any(layer.unsaved for layer in savers)

    def offer(self, layer: Any) -> None:
        """Ask whether edits that a crash has left shall be recovered."""
        saver = layer.saver
        for folder in [] if saver is None or layer.canvas.log.end else saver.found():
            count = read_journal(folder).count
            text = (
                f"Recover {count} edit{'s' * (count != 1)} of {layer.name}, not saved"
                " when napari ended? Discard deletes them; Cancel asks again next time."
            )
            answer = dialogs.ask(self.parent(), TITLE, text, [RECOVER, DISCARD])
            try:
                if answer == RECOVER:
                    saver.recover(folder)
                    return
                if answer == DISCARD:
                    saver.forget(folder)
            except (BlockingIOError, FileNotFoundError):
                show_warning(
                    f"Another window has decided on the edits of {layer.name}."
                )

    def name_for(self, layer: Any, error: NameTakenError) -> str:
        """Ask how new labels shall be called whose name is taken."""
        viewer = self._viewer()
        source, path = layer.saver.journal.place
        others = [] if viewer is None else [x for x in viewer.layers if x is not layer]
        place = source, f"{path.rpartition('/')[0]}/{error.name}".lstrip("/")
        shown = is_shown(others, place)
        return dialogs.ask_name(self.parent(), error.name, error.free, shown=shown)


def _unsaved(layers: Iterable[Any]) -> dict[Any, LayerSaver]:
    return {
        layer: layer.saver
        for layer in layers
        if isinstance(layer, OMEZarrLabels) and layer.saver and layer.unsaved
    }


def _want_again(guard: weakref.ref[Guard], savers: dict[Any, LayerSaver]) -> None:
    watching = guard()
    window: Any = None if watching is None else watching.parent()
    if window is not None and window.isVisible():
        for saver in savers.values():
            saver.wanted = True


class _WindowAttendant:
    """Looks after the labels of all windows; see `frontend.Attendant`."""

    def __init__(self) -> None:
        self._progress = SaveProgress(_tell_status)

    def welcome(self, viewer: ViewerModel, layer: Any) -> None:
        """Watch a viewer's window from now on, if it has one; offer what is lost."""
        watching = _guard_of(viewer)
        if watching is not None:
            # When the file is open: nothing has to wait for the answer.
            QTimer.singleShot(0, partial(watching.offer, layer))

    def settle(self, viewer: ViewerModel, layers: Iterable[Any]) -> bool:
        """Ask what to do with unsaved edits of layers that are about to go."""
        watching = _guard_of(viewer)
        if watching is not None:
            return watching.settled(layers)
        for saver in _unsaved(layers).values():
            saver.keep()
        return True

    def watch(self, saver: LayerSaver) -> None:
        """Show how a save goes on, which begins now in a worker."""
        self._progress.watch(saver)

    def name_taken(self, layer: Any, error: NameTakenError) -> str | None:
        """Ask how new labels shall be called whose name is taken."""
        for watching in _guards():
            if watching.viewer is not None and layer in watching.viewer.layers:
                return watching.name_for(layer, error)
        return None


def _guard_of(viewer: Any) -> Guard | None:
    viewer = getattr(viewer, "__wrapped__", viewer)
    # A closed window has none; what was being read may still arrive.
    window = getattr(getattr(viewer, "window", None), "_qt_window", None)
    if window is None:
        return None
    found: Guard | None = window.findChild(Guard, options=DIRECT)
    return found or Guard(viewer)


def _guards() -> Iterator[Guard]:
    for window in QApplication.topLevelWidgets():
        yield from window.findChildren(Guard, options=DIRECT)


def _tell_status(saver: LayerSaver) -> None:
    """Let the status bar say what was saved, wherever the mouse is."""
    for watching in _guards():
        viewer = watching.viewer
        for layer in () if viewer is None else viewer.layers:
            if getattr(layer, "saver", None) is saver and saver.note:
                viewer.status = f"{layer.name}: {saver.note}"


def install_guard() -> None:
    """Watch the window of every viewer in which labels are painted."""
    frontend.set_attendant(_WindowAttendant())
