"""Asks before a layer or a window with unsaved labels or tables is closed."""

from __future__ import annotations

import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.components import LayerList
from napari.utils.notifications import show_error
from qtpy.QtCore import QEvent, QEventLoop, Qt, QTimer
from qtpy.QtWidgets import QApplication

from napari_ngff.plate.tables.files import write_frame
from napari_ngff.viewer.browsing.field_labels import image_address
from napari_ngff.viewer.browsing.positions import inline_title
from napari_ngff.viewer.layer_plan import layer_kind
from napari_ngff.viewer.notices import last_part, shorten_name
from napari_ngff.viewer.painting.label_target import TARGET, has_no_file
from napari_ngff.viewer.painting.new_labels import is_shown
from napari_ngff.viewer.painting.paint import OMEZarrLabels
from napari_ngff.viewer.private.napari_window import qt_window_of, save_by_dialog
from napari_ngff.viewer.saving.annotations import (
    list_in_memory,
    list_unsaved_labels,
    note_saved,
)
from napari_ngff.viewer.saving.autosave import AutoSaver
from napari_ngff.viewer.saving.measured_tables import OLDER
from napari_ngff.viewer.saving.recovery import position_of
from napari_ngff.viewer.session import session_of
from napari_ngff.viewer.unexpected import attempt_work, report_unexpected
from napari_ngff.viewer.window import Window
from napari_ngff.widgets import dialogs
from napari_ngff.widgets.dialogs import CANCEL, DISCARD, KEEP, SAVE, ask_table_file
from napari_ngff.widgets.event_watcher import EventWatcher
from napari_ngff.widgets.form_dialog import is_window_open
from napari_ngff.widgets.save_as import save_as
from napari_ngff.widgets.saving.restore_question import TITLE
from napari_ngff.widgets.saving.save_progress import wait_for_saves
from napari_ngff.widgets.status_signs import UnsavedSign

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from napari.layers import Layer
    from qtpy.QtGui import QKeyEvent

    from napari_ngff.errors import NameTakenError
    from napari_ngff.labels.kept_edits import KeptEdits
    from napari_ngff.viewer.saving.annotations import Annotation
    from napari_ngff.viewer.saving.layer_saver import LayerSaver
    from napari_ngff.viewer.saving.measured_tables import MeasuredTable

KEEPS = "'Keep for later' lets you restore them next time."

KEEPS_FOR_IMAGE = (
    "'Keep for later' lets you restore them: open the image, and choose"
    " Layers ▸ Annotate ▸ Restore edits…."
)

NO_FILE = "The image of {} is not an OME-Zarr: Save asks where both are saved as one."

CLOSE = "Close"

UNKNOWN = (
    "Unsaved changes could not be listed. Close the window? Edits of labels are kept"
    " for later; points, shapes and tables are lost unless you save them first."
)

KEY = Qt.Key.Key_S
CONTROL = Qt.KeyboardModifier.ControlModifier
DIRECT = Qt.FindChildOption.FindDirectChildrenOnly

AUTOSAVE = 5_000
"""Milliseconds between two checks whether autosave is due."""


class WindowGuard(EventWatcher):
    """Asks about unsaved work in one window of napari, and saves labels by Ctrl+S.

    Scripts are not asked: `viewer.close()`, `del viewer.layers[0]`.
    """

    def __init__(self, viewer: Any) -> None:
        window = qt_window_of(viewer)
        super().__init__(window)
        self._viewer = weakref.ref(viewer)
        window.installEventFilter(self)
        # napari has no event before it closes a window or removes layers. A proxy, as
        # the guard belongs to the window: neither shall keep the other alive.
        me = weakref.proxy(self)
        window.close = partial(WindowGuard.close_window, me)
        viewer.layers.save = partial(WindowGuard.save_layers, me)
        viewer.layers.remove_selected = partial(WindowGuard.remove_layers, me)
        self._autosave = AutoSaver(viewer)
        self._sign = UnsavedSign(viewer, window)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._on_time)
        self._timer.start(AUTOSAVE)

    @property
    def viewer(self) -> Any:
        """The viewer; None if it is gone."""
        return self._viewer()

    def _on_time(self) -> None:
        self._autosave.save_due(time.monotonic())
        self._sign.showState()

    def watch_layer(self, layer: Any) -> None:
        """Show while labels have unsaved changes."""
        self._sign.followSaver(getattr(layer, "saver", None))

    def close_window(self, quit_app: bool = False, confirm_need: bool = False) -> Any:
        """Close the window, as the menu does; ask first, instead of napari."""
        asked = False
        try:
            asked = confirm_need and self._is_unsaved()
            if asked and not self._may_close():
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
            note_saved(saved)
        return paths

    def remove_layers(self) -> None:
        """Remove the selected layers, as the button does; ask first."""
        viewer = self._viewer()
        layers = [] if viewer is None else list(viewer.layers.selection)
        if viewer is None or not self.resolve_unsaved(layers):
            return
        # An image that was opened meanwhile has selected its own layers.
        viewer.layers.selection.clear()
        viewer.layers.selection.update(x for x in layers if x in viewer.layers)
        if viewer.layers.selection:
            type(viewer.layers).remove_selected(viewer.layers)

    def watchEvent(self, watched: Any, event: Any) -> bool:
        """Ask before the window is closed; let Ctrl+S save painted labels."""
        kind = event.type()
        if kind == QEvent.Type.Close and event.spontaneous() and self._is_unsaved():
            event.ignore()
            # Later, as this event would make napari ask, too.
            QTimer.singleShot(0, partial(_close_guarded, weakref.ref(self)))
            return True
        if kind == QEvent.Type.ShortcutOverride and self._is_save(event):
            # Else napari's menu takes it, and asks for the name of a new file.
            event.accept()
            self._save_others()
            return True
        return False

    def _is_save(self, event: Any) -> bool:
        key: QKeyEvent = event
        viewer = self._viewer()
        if viewer is None or key.key() != KEY or key.modifiers() != CONTROL:
            return False
        active = viewer.layers.selection.active
        if isinstance(active, OMEZarrLabels):
            # Read-only labels take the key as well, to show why they cannot be saved.
            return active.saver is not None or bool(active.read_only)
        return bool(list_unsaved_labels(viewer.layers))

    def _save_others(self) -> None:
        """Save restored labels that are not selected.

        All labels if the selected layer has no such key, as an image.
        """
        viewer = self._viewer()
        if viewer is None:
            return
        active = viewer.layers.selection.active
        has_key = isinstance(active, OMEZarrLabels)
        unsaved = list_unsaved_labels(viewer.layers)
        self._begin_saves(
            {
                layer: saver
                for layer, saver in unsaved.items()
                if not has_key or (saver.is_restored and layer is not active)
            }
        )

    def _begin_saves(self, savers: dict[Any, LayerSaver]) -> None:
        """Begin to save labels; one *Save as…* writes all that have no file."""
        without_file = [layer for layer in savers if has_no_file(layer)]
        if without_file:
            save_as(self.viewer, without_file)
        for layer, saver in savers.items():
            if layer not in without_file:
                saver.save()

    def _is_unsaved(self) -> bool:
        viewer = self._viewer()
        return viewer is not None and bool(session_of(viewer).list_unsaved())

    def _may_close(self) -> bool:
        """Ask; the edits stay in the journal until the window is really gone."""
        viewer = self._viewer()
        if viewer is None:
            return True
        unsaved = session_of(viewer).list_unsaved()
        savers = {each.layer: each.saver for each in unsaved if each.saver}
        answer = self._ask_labels(savers)
        others = [each for each in unsaved if not each.saver]
        if answer != CANCEL and self._ask_others(others) == CANCEL:
            answer = CANCEL
        for saver in savers.values():
            if answer in (KEEP, DISCARD):
                saver.cancel()
            # Only noted: the window may still refuse to close.
            saver.wanted = answer != DISCARD
        return answer != CANCEL

    def resolve_unsaved(self, layers: Iterable[Any]) -> bool:
        """Ask what to do with unsaved labels, and do it; False to keep the layers.

        See `Window.resolve_unsaved`.
        """
        viewer, layers = self._viewer(), list(layers)
        if viewer is None:
            return True
        session = session_of(viewer)
        measured, unsaved = session.measured, session.list_unsaved(layers)
        savers = {each.layer: each.saver for each in unsaved if each.saver}
        tables = [each.table for each in unsaved if each.table]
        answer = self._ask_labels(savers)
        if answer == CANCEL:
            return False
        if answer == KEEP:
            for table in tables:
                measured.detach_layer(table)  # asked about when the window closes
        else:
            if self._ask_others([each for each in unsaved if each.table]) == CANCEL:
                return False
            for table in tables:
                measured.forget_table(table)
        for saver in savers.values():
            if answer == KEEP:
                saver.keep_journal()
            elif answer == DISCARD:
                saver.discard_edits()
        return True

    def _ask_labels(self, savers: dict[Any, LayerSaver]) -> str:
        """Ask about unsaved labels, and save them; CANCEL where nothing may close."""
        if not savers:
            return SAVE
        text = [f"Save changes to {_places_text(self._viewer(), savers)}?"]
        if any(saver.partial for saver in savers.values()):
            text.append("Part of them is in the file already; Save completes it.")
        answers = [SAVE, KEEP, DISCARD]
        without_file = [layer for layer in savers if has_no_file(layer)]
        if all(layer.metadata[TARGET].image_file for layer in without_file):
            text.append(KEEPS_FOR_IMAGE if without_file else KEEPS)
        else:
            answers.remove(KEEP)
        if without_file:
            text.append(NO_FILE.format(_quote_names(without_file)))
        descriptions = [saver.description for saver in savers.values()]
        is_described = any(x is not None and x.is_changed for x in descriptions)
        if is_described and KEEP in answers:
            text.append(
                "It keeps strokes and classes; other changes of colours and properties"
                " are lost unless you save."
            )
        answer = dialogs.ask_question(self.parent(), TITLE, " ".join(text), answers)
        if answer == SAVE and not self._save_labels(savers):
            return CANCEL
        if answer == KEEP and not _can_keep(savers):
            return CANCEL
        # Another field that was shown meanwhile: its labels were not asked about.
        is_other = any(layer.saver is not saver for layer, saver in savers.items())
        return CANCEL if is_other else answer

    def _ask_others(self, unsaved: Sequence[Annotation]) -> str:
        """Ask about tables, points, shapes and labels that are in no file; save them.

        A question of its own: who wants the labels may not want an older table. CANCEL
        where nothing may close.
        """
        viewer = self._viewer()
        if not unsaved or viewer is None:
            return SAVE
        text = [self._describe_table(each.table) for each in unsaved if each.table]
        titles = [self._title_of(each.layer) for each in unsaved if each.layer]
        text += [f"{_capitalize(title)}: not saved." for title in titles]
        text.append("Save asks for a file.")
        answers = [SAVE, DISCARD]
        answer = dialogs.ask_question(self.parent(), TITLE, " ".join(text), answers)
        if answer == SAVE and not all(map(self._save_apart, unsaved)):
            return CANCEL
        return answer

    def _title_of(self, layer: Layer) -> str:
        """Name a layer that is only in memory: "points 'spots' of B3 - field 2"."""
        browser = session_of(self.viewer).browser
        field = "" if browser is None else browser.title_of(layer)
        of_field = f" of {field}" if field else ""
        return f"{layer_kind(layer)} '{layer.name}'{of_field}"

    def _save_apart(self, unsaved: Annotation) -> bool:
        """Ask for a file for a table or a layer, and write it; return whether it is."""
        table, viewer = unsaved.table, self.viewer
        if table is None:
            viewer.layers.selection.active = unsaved.layer
            try:
                save_by_dialog(viewer)
            except Exception as error:  # noqa: BLE001  whatever a writer raises
                show_error(f"Not saved.\n{error}")
            return not list_in_memory([unsaved.layer])
        path = ask_table_file(self.parent(), f"Save {table.title}", table.labels)
        if not path or not _write_table(table, path):
            return False
        session_of(viewer).measured.forget_table(table)
        return True

    def _describe_table(self, table: MeasuredTable) -> str:
        """Write that a table is not saved, and whether it is older than strokes."""
        text, viewer = f"{_capitalize(table.title)}: not saved.", self.viewer
        measured = session_of(viewer).measured
        if not measured.lacks_strokes(table.measured, viewer.layers):
            return text
        return f"{text} {OLDER}; to include them, cancel, save and measure again."

    def _save_labels(self, savers: dict[Any, LayerSaver]) -> bool:
        """Save labels and wait; False where a save failed or was cancelled."""
        self._begin_saves(savers)
        wait_for_saves(self.parent(), list(savers.values()))
        return not any(layer.unsaved for layer in savers)

    def name_for(self, layer: Any, error: NameTakenError) -> str:
        """Ask for another name of new labels, as their name is taken."""
        viewer = self._viewer()
        source, path = layer.saver.journal.place
        others = [] if viewer is None else [x for x in viewer.layers if x is not layer]
        older = source, f"{path.rpartition('/')[0]}/{error.name}".lstrip("/")
        return dialogs.ask_name(
            self.parent(), error.name, error.free, shown=is_shown(others, older)
        )


def _places_text(viewer: Any, layers: Iterable[Any]) -> str:
    """Write "'a' and 'b' of B3 - field 2, 'c' of cells.ome.zarr"."""
    labels: dict[str, list[Any]] = {}
    for layer in layers:
        labels.setdefault(image_title(viewer, layer), []).append(layer)
    return ", ".join(
        f"{_quote_names(group)}{f' of {image}' if image else ''}"
        for image, group in labels.items()
    )


def _quote_names(layers: Iterable[Any]) -> str:
    return " and ".join(f"'{layer.name}'" for layer in layers)


def image_title(viewer: Any, layer: Any) -> str:
    """Name the image of labels: "B3 - field 2", "cells.ome.zarr" or "" without file."""
    if has_no_file(layer):
        return ""
    browser = session_of(viewer).browser
    title = "" if browser is None else browser.title_of(layer)
    return title or last_part(image_address(layer))


def _write_table(table: MeasuredTable, path: str) -> bool:
    """Write a table in a worker, and wait; a failure is shown."""
    loop, results = QEventLoop(), list[str | None]()

    def take_result(result: str | None) -> None:
        results.append(result)
        loop.quit()

    work = partial(attempt_work, partial(write_frame, table.frame, path))
    Window.current.run_work(work, take_result)
    if not results:  # nobody can do anything else meanwhile
        loop.exec(QEventLoop.ProcessEventsFlag.ExcludeUserInputEvents)
    if results[0] is not None:  # the reason
        show_error(f"Not saved: {shorten_name(table.title)}.\n{results[0]}")
    return results[0] is None


def _capitalize(text: str) -> str:
    """Begin with a capital letter; names in the text keep theirs."""
    return text[:1].upper() + text[1:]


def _can_keep(savers: dict[Any, LayerSaver]) -> bool:
    """Return whether all edits are in journals; if not, the reason is shown."""
    return all(saver.can_keep() for saver in savers.values())


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
    for window in QApplication.topLevelWidgets():
        yield from window.findChildren(WindowGuard, options=DIRECT)


def show_save_status(saver: LayerSaver) -> None:
    """Show in the status bar what was saved, wherever the mouse is."""
    for watching in find_guards():
        viewer = watching.viewer
        for layer in () if viewer is None else viewer.layers:
            if getattr(layer, "saver", None) is saver and saver.note:
                viewer.status = f"{layer.name}: {saver.note}"


def note_save(saver: LayerSaver) -> None:
    """Note in all windows that measured tables are older than strokes of a save."""
    for watching in find_guards():
        if watching.viewer is not None:
            session_of(watching.viewer).measured.note_save(saver.journal.subject)
