"""Runs work in worker threads, shows texts and asks questions in napari's windows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import Notification, show_error
from qtpy.compat import isalive
from qtpy.QtCore import QEventLoop
from typing_extensions import override

from napari_ngff.viewer.private.napari_window import (
    qt_viewer_of,
    qt_window_of,
    save_by_dialog,
)
from napari_ngff.viewer.services.window import LATER, Window, call_guarded
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.activity_bar import watch_work
from napari_ngff.widgets.browser.host import open_in_window
from napari_ngff.widgets.dialogs import (
    ask_free_name,
    ask_question,
    ask_table_file,
    questions,
)
from napari_ngff.widgets.display_menu import follow_settings
from napari_ngff.widgets.docking import find_annotated
from napari_ngff.widgets.form_dialog import is_window_open
from napari_ngff.widgets.notifications import (
    find_notices,
    is_event_loop_running,
    keep_notice,
    show_notice,
)
from napari_ngff.widgets.save_as import save_as
from napari_ngff.widgets.saving.unsaved_question import (
    ask_to_restore,
    field_title,
    find_guards,
    guard_of,
    note_save,
    show_save_status,
)
from napari_ngff.widgets.status_signs import show_sign, show_text, watch_windows
from napari_ngff.widgets.workers import (
    main_calls,
    run_after,
    run_in_worker,
    run_when_calm,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from napari.components import ViewerModel

    from napari_ngff.errors import NameTakenError
    from napari_ngff.labels.kept_edits import KeptEdits
    from napari_ngff.metadata.model import Problem
    from napari_ngff.viewer.saving.layer_saver import LayerSaver
    from napari_ngff.viewer.saving.save_report import SaveResult


class QtWindow(Window):
    """What the windows of a Qt application do; what each method means, `Window` says.

    Parameters
    ----------
    starter
        See `Window.starter`.
    """

    has_workers = True

    def __init__(self, starter: Callable[[Any], Any]) -> None:
        self.starter = starter
        self._saving = set[Any]()

    @override
    def run(self, work: Callable[[], Any], done: Callable[[Any], Any]) -> None:
        run_in_worker(work, done)

    @override
    def wait_for(self, begin: Callable[[Callable[[], None]], None]) -> None:
        loop, ended = QEventLoop(), list[bool]()

        def end() -> None:
            ended.append(True)
            loop.quit()

        begin(end)
        if not ended:
            loop.exec()

    @override
    def run_later(self, work: Callable[[], Any]) -> None:
        run_when_calm(work)

    @override
    def run_after(self, seconds: float, work: Callable[[], Any]) -> None:
        run_after(seconds, work)

    @override
    def run_in_main(self, call: Callable[[], Any]) -> None:
        main_calls().call_in_main(call)

    @override
    def report_to_main(self, key: object, call: Callable[[], Any]) -> None:
        main_calls().call_newest(key, call)

    @override
    def notify(self, text: str, *, is_warning: bool = True) -> None:
        show_notice(text, is_warning=is_warning)

    @override
    def show_offer(self, viewer: ViewerModel, offer: Notification) -> None:
        super().show_offer(viewer, offer)
        keep_notice(viewer, str(offer.message))

    @override
    def close_offer(self, viewer: ViewerModel, text: str) -> None:
        for notice in find_notices(viewer, text):
            notice.close()

    @override
    def show_problems(
        self, viewer: Any, path: str, problems: tuple[Problem, ...]
    ) -> None:
        show_sign(viewer, path, problems)

    @override
    def show_missing(self) -> None:
        watch_windows()

    @override
    def show_mark(self, viewer: ViewerModel, text: str) -> None:
        show_text(viewer, text)

    @override
    def show_browser(self, viewer: ViewerModel) -> None:
        open_in_window(viewer)

    @override
    def hold_drawing(self, viewer: ViewerModel) -> Callable[[], None]:
        qt_viewer = qt_viewer_of(viewer)
        if qt_viewer is None or not qt_viewer.canvas.native.updatesEnabled():
            # No window, or held already: the first to hold it also resumes it.
            return lambda: None
        native = qt_viewer.canvas.native
        native.setUpdatesEnabled(False)

        def release_canvas() -> None:
            if isalive(native):  # type: ignore[no-untyped-call]
                native.setUpdatesEnabled(True)

        return release_canvas

    def is_open(self, viewer: ViewerModel) -> bool:
        """Return whether Qt still has the window; a viewer may also be without one."""
        return not hasattr(viewer, "window") or is_window_open(viewer)

    @override
    def find_annotated(self, layer: Any) -> str:
        return find_annotated(layer)

    @override
    def can_ask(self, viewer: ViewerModel) -> bool:
        return is_window_open(viewer)

    @override
    def watch_labels(self, viewer: ViewerModel, layer: Any) -> None:
        guard = guard_of(viewer)
        if guard is not None:
            guard.watch_layer(layer)
            follow_settings(viewer)

    @override
    def watch_save(self, saver: LayerSaver) -> None:
        if saver in self._saving:
            return
        self._saving.add(saver)
        name = saver.journal.place[1].rpartition("/")[2]
        ended = saver.saved, saver.failed

        def note_end(result: SaveResult | None) -> None:
            if result and result.outcome and result.outcome.blocks:
                note_save(saver)
            if not saver.running:  # else the next save has begun
                for signal in ended:
                    signal.disconnect(note_end)
                self._saving.discard(saver)
                show_save_status(saver)

        for signal in ended:
            signal.connect(note_end)

        def part() -> float:
            return saver.fraction

        watch_work(saver, f"Saving {name}", saver.progressed, part, *ended)

    @override
    def watch_copy(
        self, copy: Any, title: str, part: Callable[[], float], *signals: Any
    ) -> None:
        watch_work(copy, f"{title} {copy.name}", signals[0], part, signals[-1])

    @override
    def save_with_image(self, layer: Any) -> bool:
        for guard in find_guards() if is_event_loop_running() else ():
            viewer = guard.viewer
            if layer in viewer.layers:
                unsaved = session_of(viewer).annotations.list_savable()
                save_as(viewer, [x.layer for x in unsaved if x.state.with_image])
                return True
        return False

    @override
    def name_taken(self, layer: Any, error: NameTakenError) -> str | None:
        for guard in find_guards():
            if layer in guard.viewer.layers:
                return guard.name_for(layer, error)
        return None

    @override
    def ask_name(
        self,
        viewer: Any,
        text: str,
        name: str,
        check: Callable[[str], str],
        title: str = "Name of labels",
    ) -> str:
        if not self.can_ask(viewer):
            return name
        return ask_free_name(qt_window_of(viewer), title, text, name, check)

    @override
    def confirm(self, viewer: Any, text: str, action: str) -> bool:
        return ask_question(qt_window_of(viewer), action, text, [action]) == action

    def resolve_unsaved(
        self, annotations: Any, layers: Iterable[Any]
    ) -> Callable[[], None] | None:
        """Ask in the window of a viewer, if it has one."""
        guard = guard_of(annotations.viewer)
        if guard is None:
            return super().resolve_unsaved(annotations, layers)
        return guard.resolve_unsaved(layers)

    @override
    def wait_for_answer(
        self, viewer: ViewerModel, call: Callable[[], None] | None = None
    ) -> bool:
        def call_in_window() -> None:
            # In a closed window, all of it was answered for.
            if call and is_window_open(viewer) and qt_window_of(viewer).isVisible():
                call_guarded(call)

        is_there = is_window_open(viewer)
        return is_there and questions.wait_for_answer(call and call_in_window)

    @override
    def ask_table_file(self, viewer: Any, title: str, name: str) -> str:
        return ask_table_file(qt_window_of(viewer), title, name)

    @override
    def ask_layer_file(self, viewer: Any) -> None:
        try:
            save_by_dialog(viewer)
        except Exception as error:  # noqa: BLE001  whatever a writer raises
            show_error(f"Not saved.\n{error}")

    @override
    def offer_edits(
        self, viewer: ViewerModel, found: Sequence[KeptEdits]
    ) -> tuple[str, Sequence[KeptEdits]]:
        guard = guard_of(viewer)
        if guard is None:
            return LATER, ()
        return ask_to_restore(guard.parent(), found, partial(field_title, viewer))
