"""Asks before a layer or a window with unsaved work is closed, and what to restore.

Waits for saves, which the user may cancel meanwhile.
"""

from __future__ import annotations

import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.components import LayerList
from qtpy.QtCore import QEvent, QEventLoop, Qt, QTimer
from qtpy.QtWidgets import (
    QApplication,
    QDialog,
    QDialogButtonBox,
    QListWidget,
    QListWidgetItem,
    QProgressDialog,
    QVBoxLayout,
    QWidget,
)

from napari_ngff.viewer.annotations.leaving import AutoSaver
from napari_ngff.viewer.browsing.positions import inline_title
from napari_ngff.viewer.browsing.recovery import position_of
from napari_ngff.viewer.painting.new_labels import is_shown
from napari_ngff.viewer.private.napari_window import qt_window_of
from napari_ngff.viewer.services import window
from napari_ngff.viewer.services.notices import describe_edits
from napari_ngff.viewer.services.window import report_unexpected
from napari_ngff.viewer.session import all_viewers, session_of
from napari_ngff.widgets import dialogs
from napari_ngff.widgets.connections import EventWatcher, fill_layout, wrapping_label
from napari_ngff.widgets.dialogs import CANCEL, DISCARD, KEEP, LATER, RESTORE, SAVE
from napari_ngff.widgets.form_dialog import is_window_open
from napari_ngff.widgets.notifications import is_event_loop_running
from napari_ngff.widgets.save_as import save_as
from napari_ngff.widgets.status_signs import UnsavedSign

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from napari_ngff.errors import NameTakenError
    from napari_ngff.labels.kept_edits import KeptEdits
    from napari_ngff.viewer.annotations.annotations import Annotation
    from napari_ngff.viewer.saving.layer_saver import LayerSaver


CLOSE = "Close"

UNKNOWN = (
    "Unsaved changes could not be listed. Close the window? Labels, points and shapes"
    " of images are kept for later; tables are lost unless you save them first."
)

ASKS, WRITES = "Save asks for a file.", "Save writes the table into its images."

SAVE_KEY = Qt.Key.Key_S, Qt.KeyboardModifier.ControlModifier
DIRECT = Qt.FindChildOption.FindDirectChildrenOnly

WRITING = "A file was being written: press Ctrl+S again to save more."

MOST_LINES = 12
"""Annotations that a question lists; others are counted, so that it fits the screen."""

AUTOSAVE = 5_000
"""Milliseconds between two checks whether autosave is due."""


class WindowGuard(EventWatcher):
    """Asks about unsaved work in one window of napari, and saves labels by Ctrl+S.

    Scripts are not asked: `viewer.close()`, `del viewer.layers[0]`.
    """

    def __init__(self, viewer: Any) -> None:
        window = qt_window_of(viewer)
        super().__init__(window)
        self.viewer = viewer
        window.installEventFilter(self)
        # napari has no event before it closes a window or removes layers. A proxy, as
        # the guard belongs to the window: neither shall keep the other alive.
        me = weakref.proxy(self)
        window.close = partial(WindowGuard.close_window, me)
        viewer.layers.save = partial(WindowGuard.save_layers, me)
        viewer.layers.remove_selected = partial(WindowGuard.remove_layers, me)
        self._annotations = session_of(viewer).annotations
        self._autosave = AutoSaver(session_of(viewer).annotations)
        self._sign = UnsavedSign(viewer, window)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_time)
        self._timer.start(AUTOSAVE)

    def _on_time(self) -> None:
        self._autosave.save_due(time.monotonic())
        self._sign.showState()

    def watch_layer(self, layer: Any) -> None:
        """Follow what a layer shows now; None for no layer."""
        if layer is not None:
            self._annotations.attach(layer)

    def close_window(self, quit_app: bool = False, confirm_need: bool = False) -> Any:
        """Close the window, as the menu does; ask first, instead of napari."""
        asked = False
        try:
            unsaved = self._annotations.list_unsaved() if confirm_need else []
            asked = bool(unsaved)
            if asked and not self._may_close(unsaved):
                return False
        except Exception as error:  # noqa: BLE001  else no window could be closed
            asked = True
            report_unexpected(error)
            if dialogs.ask_question(self.parent(), TITLE, UNKNOWN, [CLOSE]) != CLOSE:
                return False
        window: Any = self.parent()
        return type(window).close(window, quit_app, confirm_need and not asked)

    def save_layers(self, path: str, *, selected: bool = False, **how: Any) -> Any:
        """Save layers, as napari's dialog does; note which ones are in a file now."""
        layers = self.viewer.layers
        saved = [x for x in layers if not selected or x in layers.selection]
        paths = LayerList.save(layers, path, selected=selected, **how)
        if paths:
            for annotation in self._annotations:
                if annotation.layer in saved:
                    annotation.note_written()
        return paths

    def remove_layers(self) -> None:
        """Remove the selected layers, as the button does; ask first."""
        viewer, layers = self.viewer, list(self.viewer.layers.selection)
        leave = self.resolve_unsaved(layers)
        if leave is None:
            return
        leave()
        # An image that was opened meanwhile has selected its own layers.
        viewer.layers.selection.clear()
        viewer.layers.selection.update(x for x in layers if x in viewer.layers)
        if viewer.layers.selection:
            type(viewer.layers).remove_selected(viewer.layers)

    def watchEvent(self, watched: Any, event: Any) -> bool:
        """Ask before the window is closed; let Ctrl+S save painted labels."""
        kind, unsaved = event.type(), self._annotations.list_unsaved
        if kind == QEvent.Type.Close and event.spontaneous() and unsaved():
            event.ignore()
            # Later, as this event would make napari ask, too.
            QTimer.singleShot(0, partial(_close_guarded, weakref.ref(self)))
            return True
        if kind != QEvent.Type.ShortcutOverride:
            return False
        is_save = (event.key(), event.modifiers()) == SAVE_KEY
        if is_save and dialogs.questions.wait_for_answer():
            self.viewer.status = WRITING
            event.accept()
            return True
        active = self.viewer.layers.selection.active
        chosen = self._annotations.choose_to_save(active) if is_save else None
        if chosen is None:
            return False
        # Else napari's menu takes it, and asks for the name of a new file.
        event.accept()
        self._begin_saves(chosen, asks=is_event_loop_running())
        return True

    def _begin_saves(self, chosen: Sequence[Annotation], asks: bool = True) -> None:
        """Begin to save; one *Save as…* writes all that are saved with their image.

        Where nobody can be asked, their own save says what to do.
        """
        states = {x: x.state for x in chosen}
        with_image = [x for x, s in states.items() if asks and s.with_image]
        with_image = [x for x in with_image if states[x].unsaved]
        if with_image:
            save_as(self.viewer, [x.layer for x in with_image])
        for annotation in chosen:
            if annotation not in with_image:
                annotation.save()

    def _may_close(self, unsaved: Sequence[Annotation]) -> bool:
        """Ask; the edits stay in the journal until the window is really gone."""
        own, others = _part_unsaved(unsaved)
        with dialogs.questions.asking():
            answer = self._ask_own(own)
            if answer != CANCEL and self._ask_others(others) == CANCEL:
                answer = CANCEL
        for annotation in own:
            if answer in (KEEP, DISCARD):
                annotation.cancel()
            # Only noted: the window may still refuse to close.
            annotation.plan_leave(keep=answer != DISCARD)
        return answer != CANCEL

    def resolve_unsaved(self, layers: Iterable[Any]) -> Callable[[], None] | None:
        """Ask what to do with unsaved annotations; None to keep the layers.

        See `Window.resolve_unsaved`.
        """
        own, others = _part_unsaved(self._annotations.list_unsaved(layers))
        with dialogs.questions.asking():
            answer = self._ask_own(own)
            if answer == CANCEL:
                return None
            # With labels that are kept, their tables are: the window asks at its end.
            if answer != KEEP and self._ask_others(others) == CANCEL:
                return None
        left = (*others, *(own if answer != SAVE else ()))

        def leave() -> None:
            for annotation in left:
                annotation.leave(keep=answer == KEEP)

        return leave

    def _ask_own(self, unsaved: Sequence[Annotation]) -> str:
        """Ask about what has a place in a file; save it. CANCEL closes nothing."""
        if not unsaved:
            return SAVE
        text = [f"Save changes to {_places_text(unsaved)}?"]
        states, answers = {x: x.state for x in unsaved}, [SAVE, DISCARD]
        if all(state.keeps for state in states.values()):
            text += dict.fromkeys(state.keeps for state in states.values())
            answers.insert(1, KEEP)
        remarks: dict[str, list[Annotation]] = {}
        for annotation, state in states.items():
            for remark in state.remarks:
                remarks.setdefault(remark, []).append(annotation)
        text += [remark.format(_quote_names(of)) for remark, of in remarks.items()]
        answer = dialogs.ask_question(self.parent(), TITLE, " ".join(text), answers)
        if answer == SAVE and not self._save_all(unsaved):
            return CANCEL
        if answer == KEEP and not self._may_keep(unsaved):
            return CANCEL
        # Another field that was shown meanwhile: its labels were not asked about.
        is_other = any(
            s.subject not in (None, x.state.subject) for x, s in states.items()
        )
        return CANCEL if is_other else answer

    def _ask_others(self, unsaved: Sequence[Annotation]) -> str:
        """Ask about tables, points, shapes and labels that are in no file; save them.

        A question of its own: who wants the labels may not want an older table. CANCEL
        where nothing may close.
        """
        if not unsaved:
            return SAVE
        lines = [x.description for x in unsaved]
        if len(lines) > MOST_LINES:
            lines[MOST_LINES:] = [f"And {len(lines) - MOST_LINES} more: not saved."]
        lines.append(ASKS if any(x.asks_for_file for x in unsaved) else WRITES)
        answers = [SAVE, DISCARD]
        answer = dialogs.ask_question(self.parent(), TITLE, "\n".join(lines), answers)
        if answer == SAVE and not all(self._save_all([x]) for x in unsaved):
            return CANCEL
        return answer

    def _save_all(self, unsaved: Sequence[Annotation]) -> bool:
        """Save and wait; False where a save failed or was cancelled."""
        self._begin_saves(unsaved)
        wait_for_saves(self.parent(), unsaved)
        return not any(x.unsaved for x in unsaved)

    def _may_keep(self, unsaved: Sequence[Annotation]) -> bool:
        for annotation in unsaved:
            annotation.prepare_keep()
        wait_for_saves(self.parent(), unsaved)
        return all(x.may_keep() for x in unsaved)

    def name_for(self, layer: Any, error: NameTakenError) -> str:
        """Ask for another name of new labels, as their name is taken."""
        source, path = layer.saver.journal.place
        others = [x for x in self.viewer.layers if x is not layer]
        older = source, f"{path.rpartition('/')[0]}/{error.name}".lstrip("/")
        return dialogs.ask_name(
            self.parent(), error.name, error.free, shown=is_shown(others, older)
        )


def _part_unsaved(
    unsaved: Sequence[Annotation],
) -> tuple[list[Annotation], list[Annotation]]:
    """Part what is asked about together from what has a question of its own."""
    apart = [x for x in unsaved if x.asks_for_file or x.asked_apart]
    return [x for x in unsaved if x not in apart], apart


def _places_text(unsaved: Sequence[Annotation]) -> str:
    """Write "'a' and 'b' of B3 - field 2, 'c' of cells.ome.zarr"."""
    images: dict[str, list[Annotation]] = {}
    for annotation in unsaved:
        images.setdefault(annotation.image, []).append(annotation)
    return ", ".join(
        f"{_quote_names(group)}{f' of {image}' if image else ''}"
        for image, group in images.items()
    )


def _quote_names(annotations: Iterable[Annotation]) -> str:
    return " and ".join(f"'{x.name}'" for x in annotations)


def _close_guarded(guard: weakref.ref[WindowGuard]) -> None:
    watching = guard()
    if watching is not None:
        watching.close_window(confirm_need=True)


def field_title(viewer: Any, kept: KeptEdits) -> str:
    """Return the name of the field of edits; "" if no plate with it is browsed."""
    browser = session_of(viewer).browser
    position = position_of(browser, kept.image)
    if browser is None or position is None:
        return ""
    return inline_title(browser.name_field(position))


def guard_of(viewer: Any) -> WindowGuard | None:
    """Return the guard of a viewer's window, made if need be; None without a window."""
    viewer = getattr(viewer, "__wrapped__", viewer)
    # The window may be closed, but layers that were being read may still arrive.
    if not is_window_open(viewer):
        return None
    window = qt_window_of(viewer)
    guard: WindowGuard | None = window.findChild(WindowGuard, options=DIRECT)
    return guard or WindowGuard(viewer)


def find_guards() -> Iterator[WindowGuard]:
    """Yield the guards of all windows."""
    for top in QApplication.topLevelWidgets():
        yield from top.findChildren(WindowGuard, options=DIRECT)


def show_save_status(saver: LayerSaver) -> None:
    """Show in the status bar what was saved, wherever the mouse is."""
    for viewer in all_viewers():
        for annotation in session_of(viewer).annotations:
            if annotation.state.subject is saver and saver.note:
                viewer.status = f"{annotation.name}: {saver.note}"


def note_save(saver: LayerSaver) -> None:
    """Note in all windows that measured tables are older than strokes of a save."""
    for viewer in all_viewers():
        annotations = session_of(viewer).annotations
        annotations.strokes_saved.emit(saver.journal.subject)
        annotations.note_change()


LOOK = 50
"""Milliseconds between two looks whether a save has ended."""

LAST_BLOCK = 5_000
"""Milliseconds in which a save that was cancelled can write its last block."""


def wait_for_saves(
    parent: Any, savers: Sequence[LayerSaver] | Sequence[Annotation]
) -> None:
    """Block a window until saves have ended; the user may only cancel them.

    One that does not end then is left to its worker, with its edits in the journal.
    """
    if not any(saver.running for saver in savers):
        return
    dialog = QProgressDialog("Saving", "Cancel", 0, 100, parent)
    dialog.setWindowModality(Qt.WindowModality.WindowModal)
    dialog.setAutoReset(False)
    dialog.show()
    loop, looking, ending = QEventLoop(dialog), QTimer(dialog), QTimer(dialog)

    def show_progress() -> None:
        running = [saver for saver in savers if saver.running]
        done = len(savers) - len(running) + sum(saver.fraction for saver in running)
        dialog.setValue(int(100 * done / len(savers)))
        if not running:
            loop.quit()

    def cancel_saves() -> None:
        for saver in savers:
            saver.cancel()
        ending.start(LAST_BLOCK)

    ending.timeout.connect(loop.quit)
    looking.timeout.connect(show_progress)
    dialog.canceled.connect(cancel_saves)
    # Not by a signal of theirs, which might not come.
    looking.start(LOOK)
    loop.exec()
    # `close` emits `canceled`, and these saves are done.
    dialog.canceled.disconnect(cancel_saves)
    dialog.close()
    dialog.deleteLater()


def may_start(parent: Any, layers: Sequence[Any], action: str) -> bool:
    """Ask whether to save painted changes first, and save them.

    Parameters
    ----------
    layers
        With unsaved changes; without any, nothing is asked.
    action
        What is about to begin, such as "convert".

    Returns
    -------
    bool
        Whether to begin: all is saved, or the user wants it without the changes.
    """
    if not layers:
        return True
    save, without = f"Save and {action}", f"{action.capitalize()} without them"
    names = ", ".join(f"'{layer.name}'" for layer in layers)
    text = f"The changes of {names} are not in the file yet. Save them first?"
    with dialogs.questions.asking():
        answer = dialogs.ask_question(parent, TITLE, text, [save, without])
        if answer != save:
            return answer == without
        savers = [layer.saver for layer in layers]
        for saver in savers:
            saver.save()
        wait_for_saves(parent, savers)
    return not any(layer.unsaved for layer in layers)


TITLE = "Unsaved changes"

ONE = "{} {} not saved. Restore {}?"

SEVERAL = "Changes of {} annotations were not saved. Restore them?"

LOST = {
    RESTORE: window.RESTORE,
    DISCARD: window.DISCARD,
    LATER: window.LATER,
}


class RestoreDialog(QDialog):
    """Lists several label images with unsaved edits; at first all are ticked.

    Attributes
    ----------
    answer
        `RESTORE`, `DISCARD` or `LATER`, when it is closed.
    """

    def __init__(self, parent: QWidget | None, rows: Sequence[str]) -> None:
        super().__init__(parent)
        self.setWindowTitle(TITLE)
        # The dialog may also be closed by its frame or by Escape: nothing is lost then.
        self.answer = LATER
        text = wrapping_label(self, SEVERAL.format(len(rows)))
        self.list = QListWidget(self)
        self.list.setAccessibleName("Label images with unsaved edits")
        for row in rows:
            item = QListWidgetItem(row, self.list)
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
            item.setToolTip(row)
            item.setCheckState(Qt.CheckState.Checked)
        hint = wrapping_label(
            self, "Edits that are not ticked are offered again later."
        )
        self.box = QDialogButtonBox(self)
        roles = QDialogButtonBox.ButtonRole
        self._buttons = {
            self.box.addButton(RESTORE, roles.AcceptRole): RESTORE,
            self.box.addButton(DISCARD, roles.DestructiveRole): DISCARD,
            self.box.addButton(LATER, roles.RejectRole): LATER,
        }
        first = next(iter(self._buttons))
        if first is not None:
            first.setDefault(True)
            first.setFocus()
        self.box.clicked.connect(self._on_click)
        fill_layout(QVBoxLayout(self), text, self.list, hint, self.box)
        # Rows end with the time of the edits, by which they are told apart.
        width = max(520, min(900, self.list.sizeHintForColumn(0) + 60))
        # Some 20 pixels a row; from 16 rows on the list scrolls.
        self.resize(width, min(480, 160 + 20 * len(rows)))

    def _on_click(self, button: Any) -> None:
        self.answer = self._buttons[button]
        self.accept()

    @property
    def chosen_rows(self) -> list[int]:
        """Numbers of the rows that are ticked."""
        items = [self.list.item(row) for row in range(self.list.count())]
        ticked = Qt.CheckState.Checked
        return [
            row
            for row, item in enumerate(items)
            if item and item.checkState() == ticked
        ]


def ask_to_restore(
    parent: Any, edits: Sequence[KeptEdits], name_of: Callable[[KeptEdits], str]
) -> tuple[str, Sequence[KeptEdits]]:
    """Ask in one dialog what to do with edits; see `Window.offer_edits`.

    `name_of` returns the name of the field of edits, or "".
    """
    # One label image fits a question; only several need a list.
    rows = [describe_edits(kept, name=name_of(kept)) for kept in edits]
    if len(edits) == 1:
        is_one = edits[0].count == 1 and not edits[0].has_classes
        was, them = ("was", "it") if is_one else ("were", "them")
        text = ONE.format(rows[0], was, them)
        answer = dialogs.ask_question(parent, TITLE, text, [RESTORE, DISCARD], LATER)
        return LOST[answer], edits
    dialog = RestoreDialog(parent, rows)
    with dialogs.questions.asking():
        dialog.exec()
    answer, chosen = dialog.answer, [edits[row] for row in dialog.chosen_rows]
    dialog.deleteLater()
    return LOST[answer], chosen
