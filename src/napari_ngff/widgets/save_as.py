"""Saves layers as a new OME-Zarr, a folder or a single file of a chosen name.

The writing has a question, a progress bar and a Stop button.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_error, show_info, show_warning
from qtpy.QtCore import QEventLoop, Qt, QThread, QTimer
from qtpy.QtWidgets import (
    QApplication,
    QFileDialog,
    QGridLayout,
    QMainWindow,
    QMessageBox,
    QProgressDialog,
    QScrollArea,
    QWidget,
)

from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.viewer.annotations.annotations import CopiedPart
from napari_ngff.viewer.annotations.memory_layers import note_saved
from napari_ngff.viewer.composing.chosen_layers import (
    ChosenLayers,
    choose_layers,
    describe_copy,
    plan_annotations,
    plan_tables,
)
from napari_ngff.viewer.composing.composition import read_layer_data
from napari_ngff.viewer.composing.write_layers import (
    complete_path,
    edits_without_file,
    propose_target,
    with_ending,
    write,
)
from napari_ngff.viewer.services.notices import (
    count_noun,
    join_names,
    notice_text,
    shorten_name,
)
from napari_ngff.viewer.session import all_viewers, session_of, viewer_of
from napari_ngff.widgets.connections import wrapping_label
from napari_ngff.widgets.dialogs import questions
from napari_ngff.widgets.form_dialog import main_window
from napari_ngff.widgets.notifications import is_event_loop_running

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from napari.layers import Layer
    from napari.viewer import Viewer

    from napari_ngff.viewer.plans.layer_plan import LayerData

SOON = 400
"""Milliseconds without a dialog, in which input waits."""

STEP = 50
"""Milliseconds between two checks of the worker."""

WHOLE = 1000
"""Steps of the progress bar."""


def write_in_window(path: str, layers: Sequence[LayerData | CopiedPart]) -> Path:
    """Write layers in a worker; return when it is done, as napari's writers must.

    A modal dialog shows the progress and can stop it, so that layers do not change
    while they are written. If something exists at `path`, the user is asked; a script
    is not, and gets the error of `write`.

    Raises
    ------
    InterruptedError
        If the user stopped it, or does not want to replace what exists.
    UnsupportedError, FileExistsError, OSError
        See `write`.
    """
    application = QApplication.instance()
    if application is None or QThread.currentThread() is not application.thread():
        return write(path, layers)
    target = complete_path(path)
    progress = _Progress(f"Writing {target.name}…")

    def write_in_worker(report: Callable[[int, int], None]) -> Path:
        stopped = progress.stopped.is_set
        return write(path, layers, overwrite=overwrite, progress=report, cancel=stopped)

    # Keys that were pressed meanwhile come after it.
    with questions.asking(STEP):
        overwrite = target.exists() and is_event_loop_running() and _may_replace(target)
        return Path(progress.run_work(write_in_worker))


def _may_replace(target: Path) -> bool:
    question = (
        f"Replace {target.name}?\n\n{target} already exists. Points and shapes of the"
        " same names beside it are replaced, too; others stay."
    )
    answer = QMessageBox.question(_main_window(), "OME-Zarr", question)
    if answer != QMessageBox.StandardButton.Yes:
        msg = f"{target} stays unchanged, and nothing was written."
        raise InterruptedError(msg)
    return True


def _main_window() -> QWidget | None:
    """Return the window in front of which a dialog opens, and whose style it gets."""
    windows = QApplication.topLevelWidgets()
    windows_shown = (w for w in windows if isinstance(w, QMainWindow) and w.isVisible())
    return QApplication.activeWindow() or next(windows_shown, None)


class _Progress:
    """Work that the window waits for while it runs, with its dialog."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.stopped = threading.Event()
        self.part = 0.0

    def run_work(self, work: Callable[[Callable[[int, int], None]], Any]) -> Any:
        """Work in a thread, and handle events until it ends."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="napari-ngff-write")
        future = pool.submit(work, self._note_progress)
        # The thread still ends its one task; waiting would block the window.
        pool.shutdown(wait=False)
        inputs = QEventLoop.ProcessEventsFlag
        # Clicks wait: a layer must not change before the dialog is there to block them.
        if not self._wait_for_write(future, inputs.ExcludeUserInputEvents, SOON):
            dialog = QProgressDialog(self.text, "Stop", 0, WHOLE, _main_window())
            dialog.setWindowTitle("OME-Zarr")
            dialog.setWindowModality(Qt.WindowModality.ApplicationModal)
            # Qt would wait four seconds more.
            dialog.setMinimumDuration(0)
            dialog.setAutoClose(False)
            dialog.canceled.connect(self.stopped.set)
            dialog.show()
            self._wait_for_write(future, inputs.AllEvents, None, dialog)
            # `close` emits `canceled`, and a write that is done is not stopped.
            dialog.canceled.disconnect()
            dialog.close()
            dialog.deleteLater()
        return future.result()

    def _note_progress(self, done: int, total: int) -> None:
        self.part = done / total

    def _wait_for_write(
        self,
        future: Future[Any],
        inputs: QEventLoop.ProcessEventsFlag,
        longest: int | None,
        dialog: QProgressDialog | None = None,
    ) -> bool:
        """Handle events until the write is done, or for `longest` milliseconds."""
        loop = QEventLoop()
        timer = QTimer()

        def show_part() -> None:
            if dialog is not None and not self.stopped.is_set():
                dialog.setValue(int(WHOLE * self.part))
            if future.done():
                loop.quit()

        timer.timeout.connect(show_part)
        timer.start(STEP)
        if longest is not None:
            QTimer.singleShot(longest, loop.quit)
        loop.exec(inputs)
        timer.stop()
        return future.done()


TYPES = {
    "OME-Zarr folder (*.ome.zarr *.zarr)": ".ome.zarr",
    "OME-Zarr single file (*.ozx)": ".ozx",
}
"""Types of files, and the ending of a name that has none."""


def save_as(viewer: Viewer, needed: Collection[Layer] = ()) -> None:
    """Ask for a name and a type, and save the selected or the visible layers.

    Parameters
    ----------
    needed
        Labels that are saved in any case; see `choose_layers`.
    """
    chosen = choose_layers(viewer.layers, needed)
    layers = chosen.layers
    if not layers:
        show_warning("Nothing to save.\nThere is no image and there are no labels.")
        return
    parts, left_out = _plan_copy(viewer, chosen)
    texts = {
        "This file will not have {}.": left_out,
        "Saved with it: {}.": [part.title for part in parts],
    }
    note = "\n".join(x.format(join_names(of)) for x, of in texts.items() if of)
    title = f"Save {count_noun(len(layers), 'layer')} ({chosen.which}) as OME-Zarr"
    proposed = propose_target(layers, QFileDialog().directory().absolutePath())
    path = ask_target(viewer, title, proposed, note)
    if not path:
        return
    # Before they are written: a stroke painted meanwhile is not in the file.
    painted = edits_without_file(layers)
    try:
        written = write_in_window(path, [*map(read_layer_data, layers), *parts])
    except InterruptedError as error:
        show_info(f"Nothing is saved.\n{error}")
        return
    except (OMEZarrError, OSError) as error:
        show_error(f"Not saved.\n{error_text(error)}")
        return
    note_saved(layers)
    for saver, edits in painted.items():
        saver.note_copied(edits)
    _report_saved(written, parts, left_out)


def _plan_copy(
    viewer: Viewer, chosen: ChosenLayers
) -> tuple[list[CopiedPart], list[str]]:
    """Plan what goes along, and name what does not."""
    copy, listing = describe_copy(chosen.layers), _Progress("Looking for tables…")
    # Classes of objects come last: as they are now, they replace those of the table.
    planned = [
        *listing.run_work(lambda _: plan_tables(copy)),
        *plan_annotations(session_of(viewer).annotations, chosen, copy),
    ]
    left_out = [f"{t} ({x})" if x else t for t, x in planned if isinstance(x, str)]
    return [x for _, x in planned if isinstance(x, CopiedPart)], [
        *chosen.lacking,
        *left_out,
    ]


def _report_saved(
    written: Path, parts: Sequence[CopiedPart], left_out: Sequence[str]
) -> None:
    failed = [f"{part.title} ({part.failure})" for part in parts if part.failure]
    if lacking := join_names([*failed, *left_out]):
        saved = f"Saved {shorten_name(written.name)}, not all."
        show_info(notice_text([f"It does not have {lacking}."], saved))
    else:
        show_info(f"Saved {shorten_name(written.name)}")


def save_for_napari(path: str, layers: Sequence[LayerData]) -> Path:
    """Write layers that napari's own dialog saves, and what goes along with them."""
    shown = {id(x.metadata): x for viewer in all_viewers() for x in viewer.layers}
    chosen = tuple(shown.get(id(x.get("metadata"))) for _, x, _ in layers)
    viewer = viewer_of(chosen[0]) if all(chosen) else None
    planned: tuple[list[CopiedPart], list[str]] = ([], [])
    if viewer is not None:  # else a script has made the layers
        planned = _plan_copy(viewer, ChosenLayers(chosen, "selected"))
        layers = [*map(read_layer_data, chosen)]
    written = write_in_window(path, [*layers, *planned[0]])
    _report_saved(written, *planned)
    return written


def ask_target(viewer: Any, title: str, path: str, note: str = "") -> str:
    """Ask for a path; "" if cancelled. A typed ending decides the type.

    Parameters
    ----------
    note
        Sentences that are shown in the dialog.
    """
    dialog = QFileDialog(main_window(viewer), title)
    if note:
        # A dialog of the system has no room for it.
        dialog.setOption(QFileDialog.Option.DontUseNativeDialog)
        label = wrapping_label(dialog, note)
        grid, area = dialog.layout(), QScrollArea(dialog)
        area.setWidget(label)
        area.setWidgetResizable(True)
        # Of more than six lines the rest is scrolled.
        area.setFixedHeight(min(label.heightForWidth(dialog.width()) + 4, 104))
        assert isinstance(grid, QGridLayout)
        grid.addWidget(area, grid.rowCount(), 0, 1, grid.columnCount())
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    # The question whether to replace something is asked once, for folders, too.
    dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
    dialog.setNameFilters(list(TYPES))
    dialog.selectFile(path)
    with questions.asking():
        files = dialog.selectedFiles() if dialog.exec() else []
    kind = TYPES[dialog.selectedNameFilter()]
    dialog.deleteLater()
    return str(with_ending(files[0], kind)) if files else ""
