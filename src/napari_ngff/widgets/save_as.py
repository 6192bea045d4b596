"""Saves layers as a new OME-Zarr, a folder or a single file of a chosen name.

The writing has a question, a progress bar and a Stop button.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from napari.utils.notifications import show_error, show_info, show_warning
from qtpy.QtCore import QEventLoop, Qt, QThread, QTimer
from qtpy.QtWidgets import (
    QApplication,
    QFileDialog,
    QGridLayout,
    QLabel,
    QMainWindow,
    QMessageBox,
    QProgressDialog,
    QWidget,
)

from napari_ngff.errors import OMEZarrError, error_text
from napari_ngff.viewer.annotations.memory_layers import note_saved
from napari_ngff.viewer.annotations.table_annotation import list_tables
from napari_ngff.viewer.composing.chosen_layers import choose_layers
from napari_ngff.viewer.composing.write_layers import (
    complete_path,
    edits_without_file,
    propose_target,
    with_ending,
    write,
)
from napari_ngff.viewer.services.notices import join_names, notice_text, shorten_name
from napari_ngff.viewer.session import session_of
from napari_ngff.widgets.form_dialog import main_window

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from napari.layers import Layer
    from napari.viewer import Viewer

    from napari_ngff.viewer.plans.layer_plan import LayerData

SOON = 400
"""Milliseconds without a dialog, in which input waits."""

STEP = 50
"""Milliseconds between two checks of the worker."""

WHOLE = 1000
"""Steps of the progress bar."""


def write_in_window(path: str, layers: Sequence[LayerData]) -> Path:
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
    overwrite = target.exists() and is_asked_by_user() and _may_replace(target)
    progress = _WriteProgress(target.name)

    def write_in_worker(report: Callable[[int, int], None]) -> Path:
        stopped = progress.stopped.is_set
        return write(path, layers, overwrite=overwrite, progress=report, cancel=stopped)

    return progress.run_write(write_in_worker)


def is_asked_by_user() -> bool:
    """Return whether a user acts: a script runs outside of the event loop."""
    thread = QThread.currentThread()
    return thread is not None and thread.loopLevel() > 0


def _may_replace(target: Path) -> bool:
    question = f"Replace {target.name}?\n\n{target} already exists."
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


class _WriteProgress:
    """One write while it runs, with its dialog."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopped = threading.Event()
        self.part = 0.0

    def run_write(self, work: Callable[[Callable[[int, int], None]], Path]) -> Path:
        """Write in a thread, and handle events until it ends."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="napari-ngff-write")
        future = pool.submit(work, self._note_progress)
        # The thread still ends its one task; waiting would block the window.
        pool.shutdown(wait=False)
        inputs = QEventLoop.ProcessEventsFlag
        # Clicks wait: a layer must not change before the dialog is there to block them.
        if not self._wait_for_write(future, inputs.ExcludeUserInputEvents, SOON):
            dialog = QProgressDialog(
                f"Writing {self.name}…", "Stop", 0, WHOLE, _main_window()
            )
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
        future: Future[Path],
        inputs: QEventLoop.ProcessEventsFlag,
        longest: int | None,
        dialog: QProgressDialog | None = None,
    ) -> bool:
        """Handle events until the write is done, or for `longest` milliseconds."""
        loop = QEventLoop()
        timer = QTimer()
        remaining = [longest]

        def show_part() -> None:
            if dialog is not None and not self.stopped.is_set():
                dialog.setValue(int(WHOLE * self.part))
            if remaining[0] is not None:
                remaining[0] -= STEP
            if future.done() or (remaining[0] is not None and remaining[0] <= 0):
                loop.quit()

        timer.timeout.connect(show_part)
        timer.start(STEP)
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
    viewer = getattr(viewer, "__wrapped__", viewer)
    chosen = choose_layers(viewer.layers, needed)
    layers = chosen.layers
    if not layers:
        show_warning("Nothing to save.\nThere is no image and there are no labels.")
        return
    count = "1 layer" if len(layers) == 1 else f"{len(layers)} layers"
    proposed = propose_target(layers, QFileDialog().directory().absolutePath())
    tables = list_tables(session_of(viewer).annotations)
    left = [*chosen.left_out, *(f"the {x.title}" for x in tables if x.unsaved)]
    left_names = join_names(left)
    note = f"This file will not have {left_names}." if left else ""
    title = f"Save {count} ({chosen.which}) as OME-Zarr"
    path = ask_target(viewer, title, proposed, note)
    if not path:
        return
    # Before they are written: a stroke painted meanwhile is not in the file.
    painted = edits_without_file(layers)
    try:
        written = write_in_window(path, [x.as_layer_data_tuple() for x in layers])
    except InterruptedError as error:
        show_info(f"Nothing is saved.\n{error}")
        return
    except (OMEZarrError, OSError) as error:
        show_error(f"Not saved.\n{error_text(error)}")
        return
    note_saved(layers)
    for saver, edits in painted.items():
        saver.note_copied(edits)
    if left:
        saved = f"Saved {shorten_name(written.name)}, not all."
        show_info(notice_text([f"It does not have {left_names}."], saved))
    else:
        show_info(f"Saved {shorten_name(written.name)}")


def ask_target(viewer: Any, title: str, path: str, note: str = "") -> str:
    """Ask for a path; "" if cancelled. A typed ending decides the type.

    Parameters
    ----------
    note
        A sentence that is shown in the dialog.
    """
    dialog = QFileDialog(main_window(viewer), title)
    if note:
        # A dialog of the system has no room for it.
        dialog.setOption(QFileDialog.Option.DontUseNativeDialog)
        label = QLabel(note, dialog)
        label.setWordWrap(True)
        grid = dialog.layout()
        assert isinstance(grid, QGridLayout)
        grid.addWidget(label, grid.rowCount(), 0, 1, grid.columnCount())
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    # The question whether to replace something is asked once, for folders, too.
    dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
    dialog.setNameFilters(list(TYPES))
    dialog.selectFile(path)
    files = dialog.selectedFiles() if dialog.exec() else []
    kind = TYPES[dialog.selectedNameFilter()]
    dialog.deleteLater()
    return str(with_ending(files[0], kind)) if files else ""
